"""line_search_gd: what is asked of a search, what it costs, and when nothing moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skdp._fit import Progress
from skdp.exceptions import UnboundedQueryError
from skdp.losses import LogisticLoss, SigmoidLoss, SoftmaxLoss, SquaredLoss
from skdp.papers._smoothing import LineSearchGD, StepGains, Trial
from skdp.privacy import GaussianEvent, epsilon_of
from skdp.privacy.release._plan import Layout
from skdp.tables._memory import MemorySource
from tests import door
from tests.papers.problem import (
    BUDGET,
    Heard,
    mean_gradient,
    objective_of,
    source,
    table,
)
from tests.spies import NoNoise

OBJECTIVE, FREE = objective_of(alpha=0.01), objective_of()
LENGTHS = np.array([4.0, 2.0, 0.5])
LOSSES = [LogisticLoss(), SigmoidLoss(), SoftmaxLoss(3), SquaredLoss(1.0)]
by_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def planned(objective=OBJECTIVE, **params):
    return door.planned(LineSearchGD, objective, BUDGET, **params)


def gains(loss, clip, *, fit_intercept=True):
    """A query at some weights."""
    objective = replace(OBJECTIVE, loss=loss, fit_intercept=fit_intercept)
    weights, direction = np.random.default_rng(0).normal(size=(2, *objective.shape))
    direction /= np.linalg.norm(direction)
    return StepGains(Trial(objective), weights, direction, LENGTHS, clip)


def total(query, X, y):
    return query.total(query.open(MemorySource(X, y)), None)


def by_hand(query, X, y):
    """The sums, as the proof page defines them."""
    objective = query.trial.objective
    rows = np.hstack([X, np.ones((len(X), 1))]) if objective.fit_intercept else X
    value, limits = objective.loss.value, query.clip * query.lengths
    at = value(y, rows @ query.weights)
    steps = [query.weights - length * query.direction for length in query.lengths]
    left = np.stack([value(y, rows @ each) for each in steps], 1)
    return np.clip(at[:, None] - left, -limits, limits).sum(axis=0)


@by_loss
@pytest.mark.parametrize(("clip", "fit_intercept"), [(0.05, True), (10.0, False)])
def test_gains_are_what_less_is_lost(loss, clip, fit_intercept):
    query = gains(loss, clip, fit_intercept=fit_intercept)
    X, y = table()[0], np.random.default_rng(1).integers(0, 2, 200) * 1.0
    # Rows and weights are moved to their grids.
    assert total(query, X, y) == pytest.approx(by_hand(query, X, y), abs=1e-3)


@by_loss
def test_one_record_moves_no_more_than_is_said(loss):
    """A search over records, of both adjacencies; and attained where losses clip."""
    query, rng = gains(loss, 0.05), np.random.default_rng(2)
    bound, slack = query.bound(), query.slack(Layout(largest_block=1))
    X, y = table(200)[0], rng.integers(0, 2, 200) * 1.0
    parts = np.array([total(query, X[i : i + 1], y[i : i + 1]) for i in range(200)])
    apart = np.linalg.norm(parts[:, None] - parts[None], axis=2).max()
    alone = np.linalg.norm(parts, axis=1).max()
    assert alone <= bound.zero_out + slack
    assert 0.95 * bound.replace_one <= apart <= bound.replace_one + slack
    # Broken twins: one length's bound for all of them; and one record's for two.
    assert alone > 1.01 * query.clip * LENGTHS.max()
    assert apart > 1.5 * bound.zero_out


def test_gains_of_samples_are_refused():
    with pytest.raises(UnboundedQueryError, match="of all records"):
        gains(LogisticLoss(), 0.05).slack(Layout(largest_block=9, moved_rows=2))


def walked(solver, objective, *values):
    heard = Heard(list(values))
    found = solver.run(heard, objective, Progress()).weights
    assert [line for line, _ in heard.asked] == [0, 1] * (len(values) // 2)
    return found


def test_the_longest_gain_is_stepped_along():
    params = {"n_steps": 1, "longest_step": 4.0, "tail": 1e-9}
    gradient = np.array([[3.0], [0.0], [0.0], [4.0]])
    solver = planned(FREE, n_lengths=3, **params)
    found = walked(solver, FREE, gradient, np.array([1.0, 5.0, 2.0]))
    assert found == pytest.approx(-2.0 * gradient / 5.0)
    # At weights of 0 a step of length l costs a penalty of alpha l^2 / 2.
    solver, more = planned(n_lengths=2, **params), np.array([1.0, 2.0])
    lost = 0.01 * np.array([16.0, 4.0]) / 2 * 200
    for gained, length in ((lost + more, 2.0), (lost - more, 0.0)):
        found = walked(solver, OBJECTIVE, gradient, gained)
        assert found == pytest.approx(-length * gradient / 5.0)


def test_a_gradient_without_a_step_is_averaged_with_the_next():
    solver = planned(FREE, n_steps=3, longest_step=1.0, n_lengths=1, tail=1e-9)
    one, other = np.eye(4)[:, :1], np.eye(4)[:, 1:2]
    no, yes = np.array([-1.0]), np.array([1.0])
    found = walked(solver, FREE, one, no, other, yes, one, yes)
    # After the step the average begins anew.
    assert found == pytest.approx(-(one + other) / np.sqrt(2) - one)


@pytest.mark.parametrize("params", [{}, {"search_share": 0.7, "n_steps": 9}])
def test_shares_add_up_to_one_gaussian(params):
    epsilon = epsilon_of(door.event_of(planned(**params), 3.0, OBJECTIVE), 1e-6)
    assert epsilon == pytest.approx(epsilon_of(GaussianEvent(3.0), 1e-6), rel=1e-6)


def test_without_noise_it_nears_the_optimum():
    solver = planned(n_steps=300, gain_clip=100.0, longest_step=4.0, n_lengths=20)
    found = door.run(solver, source(), OBJECTIVE, 1.0, NoNoise()).weights
    assert np.linalg.norm(mean_gradient(*table(), found) + 0.01 * found) < 1e-3
