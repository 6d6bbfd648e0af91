"""Hazards in discrete time: a life table, and a descent that starts from it.

A person is at risk in up to J intervals. The target of a person is a number: j if the
event happens in interval j of 1, ..., J, and -u if the person is censored at u, counted
in intervals. The person's gradient is the sum over all intervals at risk, so a person
is one record, however many intervals there are. Proofs: ``docs/proofs/survival.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import UNIT_ROUNDOFF, FloatArray, IntArray, with_entries
from skdp._configured import Given
from skdp._fit import Progress
from skdp.losses._base import falling_exponential
from skdp.losses._classification import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.release._answers import Answers, Released
from skdp.privacy.release._plan import Bound, Layout
from skdp.solvers._base import Solution
from skdp.solvers._centred_descent import CentredDescent, CentredSolution, GatedDescent
from skdp.solvers._centred_rows import CentredStates, EffectsOfStates
from skdp.solvers._default_rules import Pace, Shares, SideQuestion, signal_to_noise_of
from skdp.solvers._run_noise import NoiseOfRun, Principal, clipped, effect_noise
from skdp.solvers._target_base import Base
from skdp.sums._adder import ABOVE, BoundedSum, Form
from skdp.sums._counts import StateSums
from skdp.sums._exact import Sums, WholeSum, on_grid, unit_for
from skdp.sums._grid_rows import gridded
from skdp.tables._centred import CellRows
from skdp.tables._source import Block

# ------------------------------------------------------------- The gradient of a person


# Logarithm of the largest hazard. Interval by interval, exp(-20) survive.
_LARGEST = 3.0


def at_risk(targets: FloatArray, n_intervals: int) -> FloatArray:
    """Part of each interval in which each person is at risk: (n_rows, n_intervals)."""
    passed = np.abs(targets)[:, None] - np.arange(n_intervals)
    return np.minimum(np.maximum(passed, 0.0), 1.0)


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
        raw = rows.raw(self.weights[:d]) + self.objective.offset + self.weights[d:, 0]
        hazard = falling_exponential(np.maximum(_LARGEST - raw, 0.0))
        hazard *= math.exp(_LARGEST)
        # A person counts until one event is expected, whatever happens to the person.
        before = np.cumsum(np.pad(hazard[:, :-1], ((0, 0), (1, 0))), axis=1)
        counted = np.minimum(hazard, np.maximum(1.0 - before, 0.0))
        survived = falling_exponential(hazard)
        of_event = counted * survived / np.maximum(1.0 - survived, 1e-300)
        of_event = np.minimum(of_event, 1.0)
        has_event = targets[:, None] == np.arange(1, n + 1)
        return np.where(has_event, -of_event, at_risk(targets, n) * counted)

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


# ----------------------------------------------------------------------- The life table


# Parts of the persons at risk who have the event in an interval are within these.
_LEAST, _MOST = 1e-5, 0.95


# Standard normal effects of persons, and the share of the persons with each.
_EFFECTS, _SHARES = np.polynomial.hermite_e.hermegauss(40)
_SHARES = _SHARES / _SHARES.sum()
_NEWTON_STEPS = 60


class Hazards(NamedTuple):
    """The hazard in each interval of a person whose effects are 0.

    Parameters
    ----------
    logs : ndarray of float64 of shape (n_intervals,)
        Logarithms.
    curvature, squares : ndarray of float64 of shape (n_intervals,)
        Expected sums over all persons: curvature of the loss, and squared residuals.
    """

    logs: FloatArray
    curvature: FloatArray
    squares: FloatArray

    def per_person(self, n_samples: float) -> tuple[tuple[float], tuple[float]]:
        """Mean curvature, and mean square of a person's residuals, for a `Base`."""
        curvature, squares = float(self.curvature.sum()), float(self.squares.sum())
        return (curvature / n_samples,), (squares / n_samples,)


@dataclass(frozen=True, eq=False)
class LifeTable:
    """Events and persons at risk in each interval, from one released histogram.

    Parameters
    ----------
    events, exposed : ndarray of float64 of shape (n_intervals,)
        Persons with the event, and persons at risk. A person who is censored within an
        interval is at risk in the part of it that has passed.
    noise : ndarray of float64 of shape (n_intervals, n_cells)
        Change of each ``events / exposed`` by one deviation of each cell's noise.
    """

    events: FloatArray
    exposed: FloatArray
    noise: FloatArray

    @staticmethod
    def query(n_samples: int, n_intervals: int) -> StateSums:
        """Persons with the event in each interval, or censored near each end of one."""
        ends = range(-n_intervals, n_intervals + 1)
        return StateSums(0, n_samples, 0, knots=tuple(map(float, ends)))

    @classmethod
    def of(cls, released: Released, n_samples: int, n_intervals: int) -> Self:
        """The table that follows from an answer to `query`."""
        cells = np.arange(-n_intervals, n_intervals + 1.0)
        # Every person is in one cell, and the number of persons is public.
        even = np.eye(len(cells)) - 1 / len(cells)
        counts = even @ released.value + n_samples / len(cells)
        of_exposed = at_risk(cells, n_intervals).T
        of_events = cells == np.arange(1, n_intervals + 1)[:, None]
        exposed = np.clip(of_exposed @ counts, 1.0, n_samples)
        events = np.clip(of_events @ counts, _LEAST * exposed, _MOST * exposed)
        moved = of_events - (events / exposed)[:, None] * of_exposed
        noise = released.deviation * (moved / exposed[:, None]) @ even
        return cls(events, exposed, noise)

    @property
    def rates(self) -> FloatArray:
        """Part of the persons at risk who have the event in each interval."""
        return self.events / self.exposed

    @property
    def _mean(self) -> FloatArray:
        """Weights of the intervals in the mean rate."""
        return np.asarray(self.exposed / self.exposed.sum())

    @property
    def _kept(self) -> float:
        """The part of the spread of the rates that is not noise."""
        noise = float(np.mean(np.sum(self.noise**2, axis=1)))
        apart = float(np.mean((self.rates - self._mean @ self.rates) ** 2))
        return max(1 - noise / max(apart, 1e-300), 0.0)

    @property
    def steady(self) -> FloatArray:
        """The rates, drawn to their mean by the part of their spread that is noise."""
        mean = float(self._mean @ self.rates)
        drawn = mean + self._kept * (self.rates - mean)
        return np.asarray(np.clip(drawn, _LEAST, _MOST))

    @property
    def steady_noise(self) -> FloatArray:
        """Change of the logarithm of each of `steady` by each cell's noise."""
        mean = self._mean @ self.noise
        # The variance of a mean of noisy and prior values is this part of the noise's.
        moved = mean + math.sqrt(self._kept) * (self.noise - mean)
        return np.asarray(moved / self.steady[:, None])

    def hazards(self, variance: float) -> Hazards:
        """Hazards whose mean survival over persons is that of the table.

        Parameters
        ----------
        variance : float
            Effects are taken to be normal over persons, with this variance. Persons
            with large effects leave first, so that without them rates fall.
        """
        hazard = np.exp(math.sqrt(variance) * _EFFECTS)
        survival = np.cumprod(1 - self.steady)
        # Newton's method does not overshoot: survival is convex in the total.
        total = -np.log(survival) * math.exp(-variance / 2)
        for _ in range(_NEWTON_STEPS):
            left = _SHARES * np.exp(-np.outer(total, hazard))
            total += (left.sum(axis=1) - survival) / np.maximum(left @ hazard, 1e-300)
        before = np.insert(total[:-1], 0, 0.0)
        logs = np.log(np.clip(total - before, 1e-12, math.exp(_LARGEST)))
        # The gradient of a person, as in `HazardGradient`.
        own = np.outer(np.exp(logs), hazard)
        counted = np.clip(1 - np.outer(before, hazard), 0.0, own)
        odds = counted / np.expm1(np.minimum(own, 50.0))
        left = _SHARES * np.exp(-np.outer(before, hazard))
        odds *= self.exposed[:, None] * left / left.sum(axis=1, keepdims=True)
        return Hazards(logs, np.sum(odds * own, axis=1), np.sum(odds * counted, axis=1))

    def chord(self, variance: float) -> float:
        """Fall of the sums of residuals with f, over all persons, of a model without f.

        The curvature is the slope where the model is true. A model that starts without
        effects sees the residuals of persons at high risk saturate, and learns slower.
        """
        f = math.sqrt(variance) * _EFFECTS
        own, model = (np.exp(self.hazards(v).logs) for v in (variance, 0.0))
        counted = np.clip(1 - np.cumsum(model) + model, 0.0, model)
        survived = np.exp(-np.outer(own, np.exp(f)))
        events = (1 - survived) / -np.expm1(-model)[:, None]
        left = _SHARES * np.exp(-np.outer(np.cumsum(own) - own, np.exp(f)))
        left *= (self.exposed * counted / left.sum(axis=1))[:, None]
        return float(np.sum(left * (events - 1) * f)) / variance

    def shown(self) -> dict[str, FloatArray]:
        """Numbers at the end of each interval, with 95 % limits of survival.

        The limits count the sample, by Greenwood's formula, and the noise.
        """
        left = 1 - self.rates
        of_sample = np.cumsum(self.rates / (left * self.exposed))
        of_noise = np.sum(np.cumsum(self.noise / left[:, None], axis=0) ** 2, axis=1)
        total = -np.cumsum(np.log(left))
        factor = np.exp(1.96 * np.sqrt(of_sample + of_noise) / total)
        return {
            "at_risk": self.exposed,
            "events": self.events,
            "survival": np.exp(-total),
            "lower": np.exp(-total * factor),
            "upper": np.exp(-total / factor),
        }


# --------------------------------------------------------------------------- The solver


# Wanted noise in the part of all persons who have the event in an interval.
_TABLE = SideQuestion(0.003, 0.04, 0.25)
# Weight of an interval over a feature of norm 1. With 0.2 intervals are learned later,
# and with 1 the noise in the weights is a quarter larger.
_INTERVALS = 0.5
# Clip of rows over that of the default. In many designs curves of 5,000 persons are off
# by .069, .050 and .037 at epsilon .3, 1 and 4, with 1.0 by .073, .052 and .039; those
# of 500 persons differ by less than their errors (replace_one, 25 fits: `python -m
# benchmarks survival_constants --runs 25 --set constants=_ROOM`).
_ROOM = 1.4


@dataclass(frozen=True, kw_only=True)
class HazardBase(Base):
    """The hazards at which the descent starts, and their table."""

    table: LifeTable


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
        rows = replace(given["rows"], room=_ROOM)
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
        start = table.hazards(0.0)
        logs = tuple(start.logs.tolist())
        return HazardBase(logs, logs, 1.0, 1.0, 1.0, *start.per_person(n), table=table)

    def run(self, answers: Answers, objective: Any, progress: Progress) -> Solution:
        found = super().run(answers, objective, progress)
        assert isinstance(found, CentredSolution)
        return HazardSolution.of(found)


# ------------------------------------------------- From weights to effects of persons

# Variance of the effects of persons if nothing is known: hazards of two typical persons
# differ by a factor of e^1.4.
_TYPICAL = 1.0
# The prior of the variance of effects counts as much as so many effects without noise.
_PRIOR = 1.0
# Directions of a part with less than this share of its largest variance have details:
# curves have one direction of nearly straight lines, and categories have equal ones.
_DETAIL = 0.5
# In directions of which a descent learns less, no estimate is made.
_LEAST_LEARNED = 1e-3
# With this variance hazards of two typical persons differ by a factor of e^7. Without a
# limit they overflow where nobody has the event and nothing is known of the effects.
_MOST_VARIANCE = 25.0


@dataclass(frozen=True, kw_only=True)
class HazardSolution(CentredSolution):
    """Weights and intervals, and how certain they are; post-processing.

    Parameters
    ----------
    middle : ndarray of float64 of shape (n_features, 1)
        Weights in the middle of the bands.
    of_weights : tuple of ndarray of float64 of shape (n_features, n_directions)
        Errors of these weights in independent directions, one array for each part of
        the rows, as long as their standard deviations.
    of_times : ndarray of float64 of shape (n_intervals,)
        Variance of the logarithm of the cumulated hazard at the end of each interval.
    stretch : float in [1, inf)
        Factor on the weights that makes up for the rows which the clip shortens.
    """

    middle: FloatArray
    of_weights: tuple[FloatArray, ...]
    of_times: FloatArray
    stretch: float

    @classmethod
    def of(cls, solution: CentredSolution) -> Self:
        """Section "From weights to effects" of the proof page derives the numbers."""
        rows, found = solution.centred, solution.found
        assert isinstance(rows, CentredStates)
        assert isinstance(rows, CentredStates)
        parts, effects = rows.principal, _Effects.of(solution)
        constant, of_times = _of_intervals(solution, effects)
        facts = vars(solution) | {"constant": constant}
        facts["weights"] = found.kept * _weights(rows, effects.shrunk * effects.weights)
        if solution.states is not None:
            facts["states"] = _shrunk(solution.states, parts, found.noise, effects)
        return cls(
            **facts,
            middle=_weights(rows, effects.middle),
            of_weights=rows.back(parts, effects.errors),
            of_times=of_times,
            stretch=_stretch(rows),
        )


class _Effects(NamedTuple):
    """What the weights of the descent say of the true weights.

    Parameters
    ----------
    weights : ndarray of float64 of shape (n_directions,)
        Weights of the descent in the principal directions of the parts.
    shrunk : ndarray of float64 of shape (n_directions,)
        Posterior means of the true weights, over the weights.
    middle, errors : ndarray of float64 of shape (n_directions,)
        Estimates of the true weights and their standard deviations, with a prior for
        details only.
    of_model, of_truth : float
        Variance of the effects in the model, and what is expected of the true effects.
    """

    weights: FloatArray
    shrunk: FloatArray
    middle: FloatArray
    errors: FloatArray
    of_model: float
    of_truth: float

    @classmethod
    def of(cls, solution: CentredSolution) -> Self:
        kept, noise, rows = solution.found.kept, solution.found.noise, solution.centred
        base, n = noise.base, noise.n_samples
        assert isinstance(base, HazardBase) and isinstance(rows, CentredStates)
        parts = rows.principal
        weights = rows.along(parts, solution.found.mean[:, 0])
        spreads, unit = clipped(np.concatenate([part.spreads for part in parts]))
        curvature = (base.table.chord(_TYPICAL) / n,)
        squares = (float(base.table.hazards(_TYPICAL).squares.sum()) / n,)
        run = replace(noise, base=replace(base, curvature=curvature, squares=squares))
        learned = run.learned(spreads, unit)[:, 0]
        chance = run.variance(spreads, unit)[:, 0]
        prior = np.full(len(spreads), _TYPICAL / max(float(spreads.sum()), 1e-300))
        prior[:] = _size_of(prior[0], weights, learned, chance)
        details = _details(parts)
        found = weights[details], learned[details], chance[details]
        prior[details] = _size_of(prior[0], *found)
        shrunk = prior * learned / np.maximum(prior * learned**2 + chance, 1e-300)
        left = prior * (1 - shrunk * learned)
        if not noise.deviations.any():  # epsilon = inf: the plain estimate
            shrunk = np.ones(len(spreads))
        free = np.maximum(learned, _LEAST_LEARNED)
        energy = spreads * (shrunk * weights) ** 2
        return cls(
            weights=weights,
            shrunk=shrunk,
            middle=np.where(details, shrunk, 1 / free) * weights,
            errors=np.sqrt(np.where(details, left, chance / free**2)),
            of_model=kept**2 * float(energy.sum()),
            of_truth=min(float(energy.sum() + spreads @ left), _MOST_VARIANCE),
        )


def _weights(rows: CentredStates, values: FloatArray) -> FloatArray:
    """Weights of features from weights in principal directions."""
    each = [part.sum(axis=1) for part in rows.back(rows.principal, values)]
    return np.asarray(np.sum(each, axis=0))[:, None]


def _size_of(
    prior: float, weights: FloatArray, learned: FloatArray, chance: FloatArray
) -> float:
    """Estimated variance of the true weights in some directions."""
    signal = prior * learned**2
    expected = np.maximum(signal + chance, 1e-300)
    known = float(np.sum((signal / expected) ** 2))
    seen = float(np.sum(signal * (weights**2 - chance) / expected**2))
    return prior * (_PRIOR + max(seen, 0.0)) / (_PRIOR + known)


def _shrunk(
    states: EffectsOfStates, parts: list[Principal], noise: NoiseOfRun, own: _Effects
) -> EffectsOfStates:
    """The noise in the effects of states after each direction is shrunk."""
    ends = np.cumsum([len(part.spreads) for part in parts])[:-1]
    before = effect_noise(parts, noise).deviations
    pairs = list(zip(before, np.split(own.shrunk, ends), strict=True))
    of_all = np.concatenate([np.sum(part**2, axis=1) for part, _ in pairs])
    kept = np.concatenate([np.sum((part * by) ** 2, axis=1) for part, by in pairs])
    factors = np.sqrt(kept / np.maximum(of_all, 1e-300))
    return states._replace(deviations=factors * states.deviations)


def _details(parts: list[Principal]) -> NDArray[np.bool_]:
    """Directions with the details of a part, whose effects are smaller if smooth."""
    each = [part.spreads < _DETAIL * part.spreads.max(initial=0.0) for part in parts]
    return np.concatenate(each)


def _stretch(rows: Any) -> float:
    """The factor of `HazardSolution`, for independent columns and normal squares."""
    squares = [np.sum(part.places**2, axis=1) for part in rows.principal]
    shares = np.split(rows.margins, np.cumsum(rows.states.parts)[:-1])
    means = [own @ each for own, each in zip(shares, squares, strict=True)]
    moments = [own @ each**2 for own, each in zip(shares, squares, strict=True)]
    spread = math.sqrt(max(sum(moments) - sum(mean**2 for mean in means), 0.0))
    lengths = np.maximum(sum(means) + spread * _EFFECTS, 0.0)
    kept = 1 / np.sqrt(np.maximum(lengths, 1.0))
    if not lengths.any():  # rows do not vary
        return 1.0
    return float(_SHARES @ (kept * lengths) / (_SHARES @ (kept**2 * lengths)))


def _of_intervals(
    solution: CentredSolution, effects: _Effects
) -> tuple[FloatArray, FloatArray]:
    """Log-hazards with what the table adds, and the variance of their sums' logarithms.

    What the descent has not learned of an interval follows from the table, with the
    variance of the effects in the model. The variance of the true effects may differ.
    """
    kept, noise = solution.found.kept, solution.found.noise
    base, square = noise.base, noise.paces[0].intercept_weight ** 2
    assert isinstance(base, HazardBase)
    table, now = base.table, base.table.hazards(effects.of_model)
    bend = square * now.curvature / noise.n_samples
    learned = -kept * np.expm1(-noise.flow * bend)
    moved = (1 - learned) * (now.logs - np.array(base.constant))
    constant = solution.constant + moved
    hazard = np.exp(constant)
    of_sample = learned**2 * now.squares / np.maximum(now.curvature**2, 1e-300)
    of_sample += (1 - learned) ** 2 / (table.exposed * table.steady)
    # Intervals depend on each other little, and their steps have no preconditioner.
    by_steps = noise.of_gradients(bend[:, None, None], np.zeros((1, 1)))
    of_steps = kept**2 * square * by_steps[:, 0]
    of_table = ((1 - learned) * hazard)[:, None] * table.steady_noise
    variance = np.cumsum(hazard**2 * (of_sample + of_steps))
    variance += np.sum(np.cumsum(of_table, axis=0) ** 2, axis=1)
    both = now.logs, table.hazards(effects.of_truth).logs
    off = np.subtract(*[np.logaddexp.accumulate(logs) for logs in both])
    return constant, variance / np.cumsum(hazard) ** 2 + off**2
