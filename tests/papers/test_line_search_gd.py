"""line_search_gd: what is asked of a search, what it costs, and when nothing moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skdp._fit import Progress
from skdp.exceptions import UnboundedQueryError
from skdp.losses import LogisticLoss, SigmoidLoss, SoftmaxLoss, SquaredLoss
from skdp.losses._objective import LinearObjective
from skdp.papers._smoothing import LineSearchGD, StepGains, Trial
from skdp.privacy import Budget, GaussianEvent, epsilon_of
from skdp.privacy.release._answers import Released
from skdp.privacy.release._plan import Layout
from skdp.tables._memory import MemorySource
from skdp.tables._source import Block, Source
from tests import door
from tests.spies import NoNoise

BUDGET = Budget(1.0, 1e-6)
OBJECTIVE = LinearObjective(
    loss=LogisticLoss(),
    n_samples=200,
    n_features=3,
    data_norm=1.0,
    adjacency="zero_out",
    alpha=0.01,
)
LENGTHS = np.array([4.0, 2.0, 0.5])
by_adjacency = pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])


def planned(objective=OBJECTIVE, **params):
    return door.planned(LineSearchGD, objective, BUDGET, **params)


def source(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X /= np.linalg.norm(X, axis=1)[:, None]
    return MemorySource(X, (X[:, 0] > 0).astype(float))


# ------------------------------------------------------------------- the query of gains


LOSSES = {
    "logistic": LogisticLoss(),
    "sigmoid": SigmoidLoss(),
    "softmax": SoftmaxLoss(3),
    "squared": SquaredLoss(1.0),
}


def gains(loss, clip, *, fit_intercept=True, lengths=LENGTHS, seed=0):
    """A query at some weights."""
    objective = replace(OBJECTIVE, loss=loss, fit_intercept=fit_intercept)
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=objective.shape)
    direction = rng.normal(size=objective.shape)
    direction /= np.linalg.norm(direction)
    return StepGains(Trial(objective), weights, direction, lengths, clip)


def by_hand(query, X, y):
    """The sums, as the proof page defines them."""
    objective = query.trial.objective
    rows = np.hstack([X, np.ones((len(X), 1))]) if objective.fit_intercept else X
    value = objective.loss.value
    at = value(y, rows @ query.weights)
    found = []
    for length in query.lengths:
        left = value(y, rows @ (query.weights - length * query.direction))
        limit = query.clip * length
        found.append(np.clip(at - left, -limit, limit).sum())
    return np.array(found)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("clip", [0.05, 10.0])
def test_gains_are_what_less_is_lost(name, clip, fit_intercept):
    query = gains(LOSSES[name], clip, fit_intercept=fit_intercept)
    X = next(iter(source().blocks())).X
    y = np.random.default_rng(1).integers(0, 2, len(X)).astype(float)
    found = query.total(query.open(MemorySource(X, y)), None)
    # Rows and weights are moved to their grids.
    assert found == pytest.approx(by_hand(query, X, y), abs=1e-3)


@pytest.mark.parametrize("name", LOSSES)
def test_one_record_moves_no_more_than_is_said(name):
    """A search over records, of both adjacencies; and attained where losses clip."""
    query = gains(LOSSES[name], 0.05)
    rng = np.random.default_rng(2)
    bound, slack = query.bound(), query.slack(Layout(largest_block=1))
    parts = []
    for _ in range(300):
        x = rng.normal(size=(1, 3))
        x /= np.linalg.norm(x)
        y = rng.integers(0, 2, 1).astype(float)
        parts.append(query.total(query.open(MemorySource(x, y)), None))
    parts = np.array(parts)
    apart = np.linalg.norm(parts[:, None] - parts[None], axis=2).max()
    alone = np.linalg.norm(parts, axis=1).max()
    assert alone <= bound.zero_out + slack
    assert apart <= bound.replace_one + slack
    assert apart >= 0.95 * bound.replace_one


def test_broken_twins_of_the_bound_are_found():
    """One length's bound for all of them; and one record's for two."""
    query = gains(LogisticLoss(), 0.05)
    towards = query.direction.ravel()[:3] / np.linalg.norm(query.direction[:3])
    records = [
        MemorySource(sign * towards[None], np.array([y]))
        for sign in (1.0, -1.0)
        for y in (0.0, 1.0)
    ]
    ends = [query.total(query.open(record), None) for record in records]
    apart = max(np.linalg.norm(a - b) for a in ends for b in ends)
    assert apart > 1.5 * query.bound().zero_out
    assert max(np.linalg.norm(a) for a in ends) > 1.01 * query.clip * LENGTHS.max()


def test_null_records_add_nothing_and_layouts_agree():
    query = gains(LogisticLoss(), 0.3)
    (block,) = source().blocks()

    class Few(Source):
        facts = replace(source().facts, largest_block=7)

        def blocks(self):
            for start in range(0, 200, 7):
                part = slice(start, start + 7)
                yield Block(block.X[part], block.y[part])

    whole = query.total(query.open(source()), None)
    assert query.total(query.open(Few()), None).tobytes() == whole.tobytes()
    present = np.arange(200) % 3 > 0

    class Holes(Few):
        def blocks(self):
            yield Block(block.X, block.y, present)

    rest = MemorySource(block.X[present], block.y[present])
    found = query.total(query.open(Holes()), None)
    assert found == pytest.approx(query.total(query.open(rest), None), abs=1e-9)


def test_gains_of_samples_are_refused():
    with pytest.raises(UnboundedQueryError, match="of all records"):
        gains(LogisticLoss(), 0.05).slack(Layout(largest_block=9, moved_rows=2))


# --------------------------------------------------------------------------- the solver


class Heard:
    """Answers that are told beforehand."""

    noise_scale = 1.0

    def __init__(self, *values):
        self.values, self.asked = list(values), []

    def ask(self, query, line=0):
        self.asked.append((line, query))
        return Released(self.values[len(self.asked) - 1], 1.0, 1.0)


def test_the_longest_gain_is_stepped_along():
    objective = replace(OBJECTIVE, alpha=0.0)
    solver = planned(objective, n_steps=1, longest_step=4.0, n_lengths=3, tail=1e-9)
    gradient = np.array([[3.0], [0.0], [0.0], [4.0]])
    heard = Heard(gradient, np.array([1.0, 5.0, 2.0]))
    found = solver.run(heard, objective, Progress()).weights
    assert [line for line, _ in heard.asked] == [0, 1]
    assert found == pytest.approx(-2.0 * gradient / 5.0)


def test_a_penalty_counts_against_a_step():
    """At weights of 0 a step of length l costs alpha l^2 / 2."""
    solver = planned(n_steps=1, longest_step=4.0, n_lengths=2, tail=1e-9)
    gradient = np.array([[1.0], [0.0], [0.0], [0.0]])
    lost = 0.01 * np.array([16.0, 4.0]) / 2 * 200
    more = np.array([1.0, 2.0])
    for gained, length in ((lost + more, 2.0), (lost - more, 0.0)):
        found = solver.run(Heard(gradient, gained), OBJECTIVE, Progress()).weights
        assert found == pytest.approx(-length * gradient)


def test_a_gradient_without_a_step_is_averaged_with_the_next():
    objective = replace(OBJECTIVE, alpha=0.0)
    solver = planned(objective, n_steps=3, longest_step=1.0, n_lengths=1, tail=1e-9)
    one, other = np.eye(4)[:, :1], np.eye(4)[:, 1:2]
    heard = Heard(one, np.array([-1.0]), other, np.array([1.0]), one, np.array([1.0]))
    found = solver.run(heard, objective, Progress()).weights
    # After the step the average begins anew.
    assert found == pytest.approx(-(one + other) / np.sqrt(2) - one)


@by_adjacency
def test_shares_add_up_to_one_gaussian(adjacency):
    objective = replace(OBJECTIVE, adjacency=adjacency)
    for params in ({}, {"search_share": 0.7, "n_steps": 9}):
        solver = planned(objective, **params)
        event = door.event_of(solver, 3.0, objective)
        whole = epsilon_of(GaussianEvent(3.0), 1e-6)
        assert epsilon_of(event, 1e-6) == pytest.approx(whole, rel=1e-6)


def test_without_noise_it_nears_the_optimum():
    solver = planned(n_steps=300, gain_clip=100.0, longest_step=4.0, n_lengths=20)
    found = door.run(solver, source(), OBJECTIVE, 1.0, NoNoise()).weights
    (block,) = source().blocks()
    rows = np.hstack([block.X, np.ones((200, 1))])
    p = 1 / (1 + np.exp(-rows @ found))
    gradient = rows.T @ (p - block.y[:, None]) / 200 + 0.01 * found
    assert np.linalg.norm(gradient) < 1e-3
