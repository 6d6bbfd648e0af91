"""Exact audits of networks: full batches by replay, samples by enumeration.

The worst neighbours: a record whose gradient is longer than the clip, and the same row
with the other label, whose gradient points the other way.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from skdp._fit import Progress
from skdp.audit._exact import marked, replayed, verdict
from skdp.losses import LogisticLoss, SoftmaxLoss
from skdp.losses._objective import NetworkObjective
from skdp.neural_network import NETWORK_SOLVERS, Convolution
from skdp.papers._convolution_sum import FilterGradients, _Seen
from skdp.privacy import Budget, calibrate
from skdp.privacy.release._plan import Bound
from skdp.sums._network import NetworkGradient
from skdp.tables._memory import MemorySource
from tests.audit.exact_laws import exact_epsilon
from tests.door import answers_for, event_of, planned

ADJACENCIES = ("replace_one", "zero_out")
by_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES)
BUDGET = Budget(1.0, 1e-3)
N = 4
X = np.array([[1.0, 0.5], [0.3, -1.0], [-0.5, 0.2], [0.9, 0.9]])
CLIP = 0.05
# So small a step that residuals stay what they were.
PARAMS = {"gradient_clip": CLIP, "step_size": 1e-6}


def objective_of(adjacency, loss=None, **changes):
    facts = {"n_samples": N, "n_features": 2, "hidden": (3,), "activation": "tanh"}
    facts |= {
        "data_norm": 1.0,
        "input_factor": 6.0,
        "input_norm": 6.0,
        "adjacency": adjacency,
    }
    return NetworkObjective(loss=loss or LogisticLoss(), **(facts | changes))


def pair_of(adjacency, X=X):
    y, there = np.ones(N), np.ones(N, dtype=bool)
    without, other = there.copy(), y.copy()
    without[0] = adjacency == "replace_one"
    other[0] = 0.0
    return MemorySource(X, y, there), MemorySource(X, other, without)


def solver_of(key, objective, **params):
    return planned(NETWORK_SOLVERS[key], objective, BUDGET, **(PARAMS | params))


def multiplier_of(solver, objective):
    return calibrate(lambda z: event_of(solver, z, objective), BUDGET)


# ---------------------------------------------------------------------- full batches


def audited(key, adjacency, loss, **bugs):
    """Smallest and largest found over charged, of all steps."""
    objective = objective_of(adjacency, loss)
    solver = solver_of(key, objective, n_steps=3)
    plan, z = solver.plan(objective), multiplier_of(solver, objective)
    event = plan.event(z, adjacency)

    def run(source, noise):
        answers = marked(plan, source, z, adjacency, noise)
        return solver.run(answers, replace(objective, seed=7), Progress())

    found = []
    for seed in range(3):
        one, other, _ = replayed(run, pair_of(adjacency), seed, **bugs)
        found.append(verdict(one, other, event))
    return min(x.total for x in found), max(x.largest for x in found)


@by_adjacency
@pytest.mark.parametrize("key", NETWORK_SOLVERS)
def test_full_batches_cost_what_is_charged(key, adjacency):
    least, most = audited(key, adjacency, LogisticLoss())
    assert 0.999 < least <= most <= 1 + 1e-9
    _, caught = audited(key, adjacency, LogisticLoss(), shrink=0.9)
    assert caught > 1.04


@by_adjacency
def test_several_classes_cost_no_more(adjacency):
    least, most = audited("noisy_gd", adjacency, SoftmaxLoss(3))
    assert 0.7 < least <= most <= 1 + 1e-9


def test_a_bound_that_forgets_the_other_record_is_caught(monkeypatch):
    honest = Bound.under
    monkeypatch.setattr(Bound, "under", lambda self, _: honest(self, "zero_out"))
    _, caught = audited("noisy_gd", "replace_one", LogisticLoss())
    assert caught > 1.9


def test_noise_that_leaves_out_a_bias_is_caught():
    _, caught = audited("noisy_gd", "zero_out", LogisticLoss(), is_bare=True)
    assert caught > 1e3


# ---------------------------------------------------------------------- convolutions

# One filter at four positions of an image of one shade: all patches are alike, so that
# what is sent back adds up.
FLAT = np.full((N, 9), 1 / 3)
FILTERS = {
    "n_features": 9,
    "image": (3, 3, 1),
    "convolutions": (Convolution(2, 2),),
    "hidden": (),
}


def audited_filters(adjacency, key="noisy_gd", **changes):
    objective = objective_of(adjacency, **(FILTERS | changes))
    solver = solver_of(key, objective, n_steps=3)
    plan, z = solver.plan(objective), multiplier_of(solver, objective)
    event = plan.event(z, adjacency)
    # Weights of outputs that are not 0, so that something is sent back to filters.
    released = np.random.default_rng(0).normal(size=objective.n_weights)

    def run(source, noise):
        answers = marked(plan, source, z, adjacency, noise)
        return solver.descend(answers, objective, released, Progress())

    pair = pair_of(adjacency, FLAT)
    one, other, _ = replayed(run, pair, 0)
    return verdict(one, other, event).largest


@by_adjacency
@pytest.mark.parametrize("key", NETWORK_SOLVERS)
def test_filters_cost_no_more_than_is_charged(key, adjacency):
    found = audited_filters(adjacency, key)
    assert found <= 1 + 1e-9
    assert found > (0.99 if adjacency == "zero_out" else 0.5)


def test_norms_that_forget_that_weights_are_shared_are_caught(monkeypatch):
    honest = _Seen.gradients

    def unshared(self, sent, unit):
        """As long as if every position had weights of its own."""
        found = honest(self, sent, unit)
        of_patches = ((self.patches * self.unit) ** 2).sum(axis=2) + 1.0
        of_sent = ((sent * unit) ** 2).sum(axis=2)
        own = (of_patches * of_sent).sum(axis=1)
        true = (found**2).sum(axis=(1, 2))
        self.shorter.append(own / true)
        return found

    def squares(self):
        return honest_squares(self) * _Seen.shorter.pop()

    honest_squares = FilterGradients.squares
    monkeypatch.setattr(_Seen, "shorter", [], raising=False)
    monkeypatch.setattr(_Seen, "gradients", unshared)
    monkeypatch.setattr(FilterGradients, "squares", squares)
    # Inputs that weigh no less than the biases of outputs.
    assert audited_filters("zero_out", input_factor=3.0) > 1.5


def test_norms_without_biases_of_filters_are_caught(monkeypatch):
    def bare(self):
        units = self.own.units.reshape(-1, *self.shape)[:, :-1]
        return np.einsum("ijk,ijk->i", units, units) * self.own.unit**2

    monkeypatch.setattr(FilterGradients, "squares", bare)
    assert audited_filters("zero_out", input_factor=1.0) > 1.1


# --------------------------------------------------------------------------- samples


class DividedByTheDrawn(NetworkGradient):
    """The planted bug of a mean over the records drawn: a secret batch size."""

    def total(self, reader, rows):
        drawn = 1 if rows is None else max(1, len(rows))
        return super().total(reader, rows) * (BATCH / drawn)


BATCH = 3


def enumerated(adjacency, others, kind=NetworkGradient):
    """Exact epsilon of one sampled sum at the claim's delta, over the claim.

    Records but the first are those of `others`, by their labels, and null ones: all
    gradients are on one line, so that the law of the sum on it is all that there is.
    """
    objective = objective_of(adjacency)
    solver = solver_of("noisy_sgd", objective, n_steps=1, batch_size=BATCH)
    assert solver.sample_size(objective) == BATCH
    plan, z = solver.plan(objective), multiplier_of(solver, objective)
    honest = solver.gradients(objective).at(objective.start(7))
    query = kind(honest.family, honest.weights)
    rows = np.repeat(X[:1], N, axis=0)
    there = np.arange(N) <= len(others)
    y = np.array([1.0, *others, *[0.0] * (N - 1 - len(others))])
    first = MemorySource(rows, y, there)
    without, other = there.copy(), y.copy()
    without[0] = adjacency == "replace_one"
    other[0] = 0.0
    pair = first, MemorySource(rows, other, without)
    sigma = answers_for(plan, first, z, adjacency).expected(query).sigma
    alone = query.total(query.open(first), np.array([0]))
    line = alone / np.linalg.norm(alone)
    means = [dict(law_of(query, source, line)) for source in pair]
    grid = np.linspace(-12 * sigma, 12 * sigma, 100_001)
    densities = [
        sum(
            chance * np.exp(-((grid - mean) ** 2) / (2 * sigma**2))
            for mean, chance in weighed.values()
        )
        * (grid[1] - grid[0])
        / (sigma * np.sqrt(2 * np.pi))
        for weighed in means
    ]
    return exact_epsilon(*densities, BUDGET.delta) / BUDGET.epsilon


def law_of(query, source, line):
    """Mean on the line, and chance, of every sample."""
    rate, reader = BATCH / N, query.open(source)
    for drawn in itertools.product((False, True), repeat=N):
        rows = np.flatnonzero(drawn)
        total = query.total(reader, rows)
        mean = float(total @ line)
        # Nothing beside the line.
        assert np.linalg.norm(total - mean * line) < 1e-9 * CLIP
        yield drawn, (mean, rate ** len(rows) * (1 - rate) ** (N - len(rows)))


OTHERS = [(), (0.0,), (1.0, 0.0), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)]


@by_adjacency
@pytest.mark.parametrize("others", OTHERS)
def test_samples_cost_no_more_than_is_charged(adjacency, others):
    found = enumerated(adjacency, others)
    assert found <= 1 + 1e-6
    if not others:
        assert found > 0.99


def test_a_secret_batch_size_is_caught():
    assert max(enumerated("zero_out", o, DividedByTheDrawn) for o in OTHERS) > 1.2


def test_half_the_noise_of_samples_is_caught(monkeypatch):
    honest = NetworkGradient.bound

    def half(self):
        bound = honest(self)
        return replace(bound, zero_out=bound.zero_out / 2)

    monkeypatch.setattr(NetworkGradient, "bound", half)
    assert enumerated("zero_out", ()) > 1.5
