"""Exact audits of fits that ask what their weights are worth, and planted bugs.

See `skdp.audit._replay`: one transcript, replayed on the neighbour. The pairs are those
of `tests.audit.linear_pairs`; long steps make weights so large that clips are reached.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import pytest

from skdp.audit._replay import marked, replayed, verdict
from skdp.objectives import LinearObjective
from skdp.privacy import Budget, calibrate
from skdp.privacy._plan import Plan
from skdp.privacy._query import Bound
from skdp.queries._trial import Gains, MeanProduct
from skdp.solvers import SOLVERS, Progress
from skdp.solvers._shrunken import Candidates, Shrunken
from tests.audit.linear import LOSSES
from tests.audit.linear_pairs import D, N, pairs
from tests.door import planned

BUDGET = Budget(1.0, 1e-6)
ADJACENCIES = ("replace_one", "zero_out")
INNER = ("noisy_gd", "nesterov")
SHARE = 0.4
ROUNDING = 1e-9
SEEDS = range(4)
# Steps so long that all clips are reached.
LONG = {"n_steps": 2, "step_size": 50.0}

every_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES)
every_loss = pytest.mark.parametrize("loss", LOSSES)


@dataclass(frozen=True)
class Case:
    """A shrunken descent on one loss under one adjacency."""

    loss: str
    adjacency: str
    inner: str = "noisy_gd"
    kind: type[Shrunken] = Shrunken

    @cached_property
    def objective(self):
        return LinearObjective(
            loss=LOSSES[self.loss],
            n_samples=N,
            n_features=D,
            data_norm=1.0,
            adjacency=self.adjacency,
        )

    @cached_property
    def solver(self):
        inner = planned(SOLVERS[self.inner], self.objective, BUDGET, **LONG)
        facts = {"inner": inner, "share": SHARE}
        return self.kind.planned(facts, self.objective, BUDGET)

    @cached_property
    def plan(self):
        return self.solver.plan(self.objective)

    @cached_property
    def multiplier(self):
        return calibrate(partial(self.plan.event, relation=self.adjacency), BUDGET)

    def run(self, source, noise):
        answers = marked(self.plan, source, self.multiplier, self.adjacency, noise)
        return self.solver.run(answers, self.objective, Progress())

    def found(self):
        """What transcripts tell apart at most, over what is charged, by line."""
        event = self.plan.event(self.multiplier, self.adjacency)
        lines, total = {}, 0.0
        for pair in pairs(self.objective):
            for seed in SEEDS:
                first, second, results = replayed(self.run, pair, seed)
                one, other = (bytes_of(result) for result in results)
                assert one == other, "what is made of the same releases is not the same"
                told = verdict(first, second, event)
                total = max(total, told.total)
                for place, cost in told.lines.items():
                    lines[place] = max(lines.get(place, 0.0), cost)
        return total, lines


def bytes_of(solution):
    """Everything that a solution tells."""
    facts = (solution.noise_scale, solution.shrinkage)
    return np.asarray(solution.weights).tobytes(), facts


@every_adjacency
@every_loss
@pytest.mark.parametrize("inner", INNER)
def test_no_pair_is_told_apart_by_more_than_is_charged(inner, loss, adjacency):
    total, lines = Case(loss, adjacency, inner).found()
    assert {(0, 0), (1,), (2,)} <= set(lines)
    assert max(total, *lines.values()) <= 1 + ROUNDING
    # Both questions are asked as sharply as they are paid for.
    assert lines[1,] > 0.99
    assert lines[2,] > (0.99 if adjacency == "zero_out" else 0.5)


def test_one_event_for_all():
    case = Case("logistic", "zero_out")
    costs = [
        line.event(case.multiplier, "zero_out").gdp_mu_squared
        for line in case.plan.lines
    ]
    event = case.plan.event(case.multiplier, "zero_out")
    assert event.gdp_mu_squared == pytest.approx(sum(costs), rel=1e-12)
    assert sum(costs[1:]) / sum(costs) == pytest.approx(SHARE, rel=1e-3)


# ------------------------------------------------------------------------ broken twins


class ForNothing(Shrunken):
    """Planted bug: both questions are asked, and not on the books."""

    def plan(self, objective):
        honest = super().plan(objective)
        fit = honest.lines[0]
        return Plan(honest.lines, lambda z: fit.event(z, objective.adjacency))


@every_adjacency
def test_twin_that_does_not_charge_the_questions_is_found(adjacency):
    total, _ = Case("squared", adjacency, kind=ForNothing).found()
    assert total > 1.1


class ExactShare(Shrunken):
    """Planted bug: the share is that of exact gains, though noise is paid for."""

    def run(self, answers, objective, progress):
        found = super().run(answers, objective, progress)
        coef, intercept = found.unpack(objective)
        candidates = Candidates(coef, intercept, 0 * intercept)
        query = self.gains(objective, candidates)
        exact = query.total(query.open(answers._source), None)
        return replace(found, shrinkage=float(exact.max()))


@every_adjacency
def test_twin_that_reads_exact_gains_is_found(adjacency):
    with pytest.raises(AssertionError, match="is not the same"):
        Case("logistic", adjacency, kind=ExactShare).found()


@every_adjacency
@pytest.mark.parametrize(("query", "place"), [(MeanProduct, (1,)), (Gains, (2,))])
@pytest.mark.parametrize("noise", [0.5, 0.9])
def test_twins_with_too_little_noise_are_found(
    noise, query, place, adjacency, monkeypatch
):
    honest = query.bound

    def short(self):
        bound = honest(self)
        return Bound(
            zero_out=noise * bound.zero_out, replace_one=noise * bound.replace_one
        )

    monkeypatch.setattr(query, "bound", short)
    _, lines = Case("squared", adjacency).found()
    assert lines[place] > 0.98 / noise


@pytest.mark.parametrize(("query", "place"), [(MeanProduct, (1,)), (Gains, (2,))])
def test_twins_that_forget_the_second_record_are_found(query, place, monkeypatch):
    honest = query.bound

    def one(self):
        bound = honest(self).zero_out
        return Bound(zero_out=bound, replace_one=bound)

    monkeypatch.setattr(query, "bound", one)
    _, lines = Case("squared", "replace_one").found()
    assert lines[place] > 1.9
