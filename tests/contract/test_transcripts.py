"""Sparse solvers on neighbours, given the same releases: no query moves too far.

The first run writes down what was released; the second, on a neighbour, is told the
same. Then every query and score may differ by its sensitivity at most, nothing else may
differ at all, and neither may what the solver makes of it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget
from skdp.privacy.release._plan import Bound
from skdp.solvers import SOLVERS
from skdp.sums._gradient import ClippedGradient, LinearGradient
from skdp.tables._memory import MemorySource
from skdp.tables._views import EntriesClipped
from tests.door import planned, run
from tests.problems import ADJACENCIES, LOSSES, SOLVER_PARAMS
from tests.solvers.neighbours import random_targets
from tests.spies import Transcript

KEYS = ("iht", "peeling", "two_stage")
RUNS = 12


def neighbours(objective, rng):
    """Two sources that differ in one record, by a lot; any storage and precision."""
    n, d, norm = objective.n_samples, objective.n_features, objective.data_norm
    X = norm * rng.choice([-1, -0.3, 0, 1], size=(n, d)) * rng.choice([0.3, 5])
    y, there = random_targets(objective.loss, rng, n), np.ones(n, dtype=bool)
    other, labels, gone = X.copy(), y.copy(), there.copy()
    at, huge = rng.integers(n), rng.choice([1e30, 1e200])
    other[at] = [-X[at], X[at], np.resize([huge, -huge, norm], d)][rng.integers(3)]
    labels[at] = random_targets(objective.loss, rng, 1)[0]
    if objective.adjacency == "zero_out":
        X, y, gone[at] = other, labels, False
    single = np.float32 if huge < 1e38 else np.float64
    store = [np.asarray, csr_array][rng.integers(2)]
    for records in ((X, y, there), (other, labels, gone)):
        source = MemorySource(store(records[0].astype(single)), *records[1:])
        yield EntriesClipped(source, objective.feature_bound)


def transcripts(key, loss, adjacency, seed):
    """What both runs asked and made of it."""
    rng, d = np.random.default_rng(seed), 6
    norm = float(rng.choice([1e-9, 1.0, 20.0]))
    objective = LinearObjective(
        loss=loss,
        n_samples=int(rng.choice([1, 2, 50])),
        n_features=d,
        data_norm=norm,
        feature_bound=norm * float(rng.choice([0.01, 0.3, 0.9])),
        adjacency=adjacency,
        fit_intercept=bool(rng.integers(2)),
        n_nonzero=int(rng.integers(1, d + 1)),
    )
    budget = Budget(1.0, 0.0 if key == "peeling" and rng.random() < 0.3 else 1e-6)
    solver = planned(SOLVERS[key], objective, budget, **SOLVER_PARAMS[key])
    first = Transcript(seed)
    second = Transcript(seed, heard=first)
    multiplier, found = float(rng.choice([0.01, 3.0])), []
    for source, noise in zip(neighbours(objective, rng), (first, second), strict=True):
        with np.errstate(all="ignore"):  # as `solve` does
            solution = run(solver, source, objective, multiplier, noise)
        found.append(solution)
    return first, second, found


def farthest(key, loss, adjacency):
    """Largest change of a query in units of its sensitivity; all else is checked."""
    worst = 0.0
    for seed in range(RUNS):
        first, second, (one, other) = transcripts(key, loss, adjacency, seed)
        assert first.facts == second.facts
        assert np.array_equal(one.weights, other.weights)
        assert one.noise_scale == other.noise_scale
        for a, b, (law, facts) in zip(
            first.queries, second.queries, first.facts, strict=True
        ):
            change = (a - b) / facts["sensitivity"]
            norm = np.abs(change).max() if law == "top_k" else np.linalg.norm(change)
            worst = max(worst, float(norm))
    return worst


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("loss_name", LOSSES)
@pytest.mark.parametrize("key", KEYS)
def test_no_query_of_a_whole_run_moves_by_more_than_its_sensitivity(
    key, loss_name, adjacency
):
    assert 0.5 < farthest(key, LOSSES[loss_name], adjacency) <= 1


def of_zero_out(find):
    """A bound that forgets the second of two records."""

    def broken(*args, **facts):
        bound = find(*args, **facts)
        return replace(bound, replace_one=bound.zero_out)

    return broken


@pytest.mark.parametrize(
    ("key", "least"), [("iht", 1.5), ("peeling", 1.5), ("two_stage", 1.0)]
)
def test_twins_that_forget_a_record_are_found_out(key, least, monkeypatch):
    monkeypatch.setattr(ClippedGradient, "bound", of_zero_out(ClippedGradient.bound))
    assert farthest(key, LOSSES["logistic"], "replace_one") > least


def test_a_twin_that_looks_at_what_it_should_not_is_found_out(monkeypatch):
    """Noise whose size follows the data, if only in one of the last digits."""
    total, bound = LinearGradient.total, LinearGradient.bound
    seen = [False]  # bounds are taken before reading, so of the query before

    def peek(self, reader, rows):
        exact = total(self, reader, rows)
        if self.part == "intercept":
            seen.append(exact.sum() > 0)
        return exact

    def follow(self):
        right = bound(self)
        if self.part != "intercept" or not seen[-1]:
            return right
        return Bound(
            zero_out=right.zero_out * (1 + 2.0**-50),
            replace_one=right.replace_one * (1 + 2.0**-50),
        )

    monkeypatch.setattr(LinearGradient, "total", peek)
    monkeypatch.setattr(LinearGradient, "bound", follow)
    told = [
        transcripts("iht", LOSSES["squared"], "replace_one", s) for s in range(RUNS)
    ]
    assert any(first.facts != second.facts for first, second, _ in told)
