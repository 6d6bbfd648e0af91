"""Hazards in discrete time: a life table, and a descent that starts from it.

A person is at risk in up to J intervals. The target of a person is a number: j if the
event happens in interval j of 1, ..., J, and -u if the person is censored at u, counted
in intervals. The person's gradient is the sum over all intervals at risk, so a person
is one record, however many intervals there are. Proofs: ``docs/proofs/survival.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from skdp._arrays import UNIT_ROUNDOFF, FloatArray, IntArray, with_entries
from skdp._configured import Given
from skdp._fit import Progress
from skdp.losses._base import falling_exponential
from skdp.losses._classification import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.release._answers import Answers
from skdp.privacy.release._plan import Bound, Layout
from skdp.solvers._base import Solution
from skdp.solvers._centred_descent import CentredDescent, CentredSolution, GatedDescent
from skdp.solvers._default_rules import Pace, Shares, SideQuestion, signal_to_noise_of
from skdp.solvers._hazard_effects import HazardSolution
from skdp.solvers._life_table import LARGEST, HazardBase, LifeTable, at_risk
from skdp.sums._adder import ABOVE, BoundedSum, Form
from skdp.sums._exact import Sums, WholeSum, on_grid, unit_for
from skdp.sums._grid_rows import gridded
from skdp.tables._centred import CellRows
from skdp.tables._source import Block

# ------------------------------------------------------------- The gradient of a person

# Rows whose numbers of all intervals stay in a cache.
_ROWS_AT_ONCE = 1 << 12


class HazardLoss(LogisticLoss):
    """The loss of a person in all intervals, for the rules of a descent."""

    # A person counts until one event is expected, so that the mean bends no more.
    smoothness = 1.0


@dataclass(frozen=True, kw_only=True)
class HazardObjective(LinearObjective):
    """Weights of features, and a logarithm of the hazard in each of `n_intervals`."""

    n_intervals: int

    @property
    def n_columns(self) -> int:
        """Numbers of features and of intervals."""
        return self.n_features + self.n_intervals


@dataclass(frozen=True, eq=False)
class HazardGradient(BoundedSum):
    """The sum over persons of ``(s x, a r)``.

    Here r has the residuals of a person in all intervals, s is their sum, x the
    person's centred row of norm at most 1, and a the weight of the intervals.

    Parameters
    ----------
    objective : HazardObjective
        Its `offset` has the logarithms of the hazards at which the descent starts.
    weight : float in (0, 1]
        The weight of the intervals, which is undone after the noise.
    weights : ndarray of float64 of shape (n_features + n_intervals, 1)
        Released.
    """

    objective: HazardObjective
    weight: float
    weights: FloatArray

    def at(self, weights: FloatArray) -> HazardGradient:
        """The query at other weights."""
        return replace(self, weights=on_grid(weights))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.weights.shape

    @property
    def unit(self) -> float:
        return unit_for(self.objective.n_samples)

    def row_bound(self) -> Bound:
        # Lemma 1 of the proof page; it holds at any weights.
        most = math.hypot(1.0, self.weight) * ABOVE
        return Bound(zero_out=most, replace_one=2 * most)

    @property
    def worst(self) -> Bound:
        """Bound at any weights."""
        return self.bound()

    def added(self, block: Block) -> tuple[Form, ...]:
        rows = gridded(block.X, 1.0)
        residuals = self._residuals(rows, block.y)
        of_row = residuals.sum(axis=1) * rows.factor
        X = block.X.X.unpacked() if isinstance(block.X.X, CellRows) else block.X.X
        by_state = X.states.data * np.repeat(of_row, np.diff(X.states.indptr))
        return with_entries(X.states, by_state), of_row, self.weight * residuals

    def _residuals(self, rows: Any, targets: FloatArray) -> FloatArray:
        """Derivatives of each person's loss, by plain arithmetic: (n_rows, J)."""
        n, d = self.objective.n_intervals, self.objective.n_features
        # Rows are not clipped in predictions: they count less in the sum (`of_row`).
        effects = rows.raw(self.weights[:d]) / rows.factor[:, None]
        found = np.empty((len(targets), n))
        for start in range(0, len(targets), _ROWS_AT_ONCE):
            some = slice(start, start + _ROWS_AT_ONCE)
            found[some] = self._of_effects(effects[some], targets[some])
        return found

    def _of_effects(self, effects: FloatArray, targets: FloatArray) -> FloatArray:
        n, d = self.objective.n_intervals, self.objective.n_features
        raw = effects + self.objective.offset + self.weights[d:, 0]
        hazard = falling_exponential(np.maximum(LARGEST - raw, 0.0))
        hazard *= math.exp(LARGEST)
        # A person counts until one event is expected, whatever happens to the person.
        before = np.cumsum(np.pad(hazard[:, :-1], ((0, 0), (1, 0))), axis=1)
        counted = np.minimum(hazard, np.maximum(1.0 - before, 0.0))
        found = at_risk(targets, n) * counted
        event = np.nonzero(targets[:, None] == np.arange(1, n + 1))
        survived = falling_exponential(hazard[event])
        of_event = counted[event] * survived / np.maximum(1.0 - survived, 1e-300)
        found[event] = -np.minimum(of_event, 1.0)
        return np.asarray(found)

    # A row is a sum of states: states are added up, and the sum is mapped to features.

    def whole_sums(self, reader: Any, rows: IntArray | None) -> Sums:
        n_states = reader.nothing().X.X.basis.shape[0]
        total = WholeSum((n_states + 1 + self.objective.n_intervals,))
        for block in self.pieces(reader, rows):
            parts = [self._units(form, block) for form in self.added(block)]
            total.add(np.concatenate(parts))
        return (total,)

    def from_whole(self, source: Any, sums: Sums) -> FloatArray:
        X, total = source.nothing().X, sums[0].value() * self.unit
        n_states = X.X.basis.shape[0]
        of_rows = X.X.basis.T @ total[:n_states] - X.centre * total[n_states]
        return np.append(of_rows / X.norm, total[n_states + 1 :])[:, None]

    def slack(self, layout: Layout) -> float:
        # Lemma 2 of the proof page.
        terms = layout.amplification + math.sqrt(self.objective.n_intervals)
        rounded = layout.rows_of_unit * (1 + 2.0**-20) * self.unit * terms
        steps = 2 * self.objective.n_samples * (layout.cells + len(self.weights) + 64)
        return rounded + terms * steps * UNIT_ROUNDOFF

    def read(self, released: FloatArray) -> FloatArray:
        """The sum of gradients from a released vector; this is post-processing."""
        d = self.objective.n_features
        return np.append(released[:d], released[d:] / self.weight)[:, None]


# --------------------------------------------------------------------------- The solver


# Wanted noise in the part of all persons who have the event in an interval.
_TABLE = SideQuestion(0.003, 0.04, 0.25)
# Weight of an interval over a feature of norm 1. With 0.2 intervals are learned later,
# and with 1 the noise in the weights is a quarter larger.
_INTERVALS = 0.5


class _Steps(GatedDescent):
    def gradients(self, objective: Any, offset: Any, clip: float) -> Any:
        own = replace(objective, data_norm=1.0, offset=offset)
        start = np.zeros((own.n_columns, 1))
        return HazardGradient(own, self.pace.intercept_weight, start)


class HazardDescent(CentredDescent):
    """A descent on centred rows that starts from a released life table.

    Privacy
    -------
    As for the default solver, with other targets and another gradient
    (``docs/proofs/survival.md``).
    """

    key: ClassVar[str] = "hazard_descent"

    @classmethod
    def planned(cls, given: Given, objective: Any, budget: Budget) -> Self:
        cls.check_possible(objective, budget)
        ratio = signal_to_noise_of(objective.n_samples, budget, objective.adjacency)
        rows = replace(given["rows"], are_weighted=True)
        shares = Shares.of(objective.loss, ratio, rows.share(ratio))
        shares = replace(shares, targets=_TABLE.share(ratio), bias=0.0, errors=0.0)
        pace = Pace.of(objective, ratio)
        size = pace.step_size / math.hypot(1.0, _INTERVALS)
        pace = replace(pace, step_size=size, intercept_weight=_INTERVALS)
        return cls(rows=rows, signal_to_noise=ratio, shares=shares, pace=pace)

    @property
    def descent(self) -> GatedDescent:
        return _Steps(shares=self.shares, pace=self.pace)

    def asked_of_targets(self, answers: Answers, objective: Any) -> HazardBase:
        n, n_intervals = objective.n_samples, objective.n_intervals
        query = LifeTable.query(n, n_intervals)
        released = answers.ask(query, list(self._first).index("targets"))
        table = LifeTable.of(released, n, n_intervals)
        start = table.hazards(np.zeros(1))
        logs = tuple(start.logs.tolist())
        return HazardBase(logs, logs, 1.0, 1.0, 1.0, *start.per_person(n), table=table)

    def run(self, answers: Answers, objective: Any, progress: Progress) -> Solution:
        found = super().run(answers, objective, progress)
        assert isinstance(found, CentredSolution)
        return HazardSolution.of(found)
