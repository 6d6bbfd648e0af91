"""What a descent on hazards finds on average if some weights are true, and how it errs.

A descent misses true weights for three reasons: it ends early, the noise in its weights
changes what its gradients are on average, and hazards are not linear in effects. A
descent without data, on typical persons, shows by how much. It is post-processing;
section "From weights to effects" of ``docs/proofs/survival.md`` derives the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.stats import qmc

from skdp._arrays import FloatArray
from skdp.solvers._centred_rows import CentredStates
from skdp.solvers._life_table import LARGEST, HazardBase, LifeTable
from skdp.solvers._run_noise import NoiseOfRun, tail_of

# With four times as many, curves and bands of 5,000 persons are the same within their
# errors (replace_one, 40 designs: `python -m benchmarks survival_constants --set
# constants=_N_PERSONS --set sizes=5000`).
_N_PERSONS = 1024
# Numbers of all their coordinates, for tables of hundreds of columns, and the fewest
# persons.
_MOST_NUMBERS, _FEWEST = 1 << 23, 64
# A central difference of residuals needs a least distance.
_LEAST_NOISE = 1e-3
# Indicators weigh half as much as the position on an axis, and hats at most .36 times
# as much (`_hat_weights`).
_LEAST_LINE = 0.4


def typical_persons(rows: CentredStates) -> FloatArray:
    """Rows whose columns are independent, and have the released shares.

    Returns
    -------
    ndarray of float64 of shape (n_persons, n_directions)
        Coordinates in the principal directions of the parts.
    """
    n_directions = sum(len(part.spreads) for part in rows.principal)
    most = max(min(_N_PERSONS, _MOST_NUMBERS // n_directions), _FEWEST)
    ends = np.cumsum(rows.states.parts)[:-1]
    each = np.split(np.arange(sum(rows.states.parts)), ends)
    spread = _even_points(int(math.log2(most)), len(each))
    found = []
    for part, own, points in zip(rows.principal, each, spread, strict=True):
        shares, n_knots = rows.margins[own], knots_and_lines(rows.states.basis[own])[0]
        until = np.cumsum(shares)
        states = np.searchsorted(until[:-1], points)
        # Persons are between two knots, where errors partly cancel. Their distance from
        # a knot has the distribution of a hat.
        left = until[states] - points
        left = np.clip(left / np.maximum(shares[states], 1e-300), 0.0, 1.0)
        share = 1 - np.sqrt(2 * np.minimum(left, 1 - left))
        share = np.where(states < n_knots, share, 0.0)[:, None]
        near = np.clip(states + np.where(left < 0.5, 1, -1), 0, n_knots - 1)
        found.append((1 - share) * part.places[states] + share * part.places[near])
    return np.hstack(found)


def _even_points(power: int, n_columns: int) -> FloatArray:
    """Points that are the same in every fit: (n_columns, 2^power), in (0, 1).

    In each column they are evenly spaced, and columns hardly depend on each other.
    """
    columns = np.arange(n_columns) % qmc.Sobol.MAXDIM
    points = qmc.Sobol(int(columns.max()) + 1, scramble=False).random_base2(power)
    return np.asarray(points[:, columns].T + 0.5 / 2**power)


def knots_and_lines(basis: csr_array) -> tuple[int, NDArray[np.bool_] | None]:
    """Number of knots of a part, which come first, and its features that are no hats.

    These are the position and the indicators of heaps and missing cells. None for
    categories, which have no knots.
    """
    largest = abs(basis).max(axis=0).toarray().ravel()[np.unique(basis.indices)]
    lines = largest > _LEAST_LINE * largest.max(initial=0.0)
    # A category is one feature; a point of a curve has a position and hats.
    if np.diff(basis.indptr).max(initial=0) <= 1 or not lines.any():
        return 0, None
    indicators = np.unique(basis.indices)[lines][1:]
    return int(np.sum(~abs(basis[:, indicators]).sum(axis=1).astype(bool))), lines


class AverageDescent(NamedTuple):
    """Averages of what a descent finds, and errors that all effects share.

    Parameters
    ----------
    part : float
        The part of the way from 0 to the true weights that it goes.
    constant : ndarray of float64 of shape (n_intervals,)
        Logarithms of hazards of a row at the centre, after the gate.
    curvature : float
        Fall of the residuals with the true effects in the first step.
    errors : ndarray of float64 of shape (1 + n_intervals, 1 + n_intervals)
        Covariance of the errors of `part` and of `constant`, by the noise in steps and
        in the table, and by the sample.
    """

    part: float
    constant: FloatArray
    curvature: float
    errors: FloatArray

    @classmethod
    def of(
        cls,
        run: NoiseOfRun,
        persons: FloatArray,
        true: FloatArray,
        moments: FloatArray,
        kept: float = 1.0,
    ) -> AverageDescent:
        """The averages if these weights are true.

        Parameters
        ----------
        run : NoiseOfRun
            Paces and noise of the descent, and the life table from which it starts.
        persons : ndarray of float64 of shape (n_persons, n_directions)
        true : ndarray of float64 of shape (n_directions,)
        moments : ndarray of float64 of shape (n_directions,)
            Variances of rows in the principal directions.
        kept : float in [0, 1], default=1.0
            Part of what the descent finds that the gate keeps.
        """
        base, pace, n = run.base, run.paces[0], len(true)
        assert isinstance(base, HazardBase)
        effects = persons @ true
        residuals = _Residuals.of(base, run.n_samples, effects)
        lengths = np.maximum(np.linalg.norm(persons, axis=1), 1.0)
        weighted, squares = persons / lengths[:, None], persons**2
        spreads = np.mean(weighted * persons, axis=0)
        # Weights and then intervals, with the sizes and the noise of their steps.
        start = np.array(base.constant)
        at = np.append(np.zeros(n), start)
        sizes = np.full(len(at), pace.step_size)
        sizes[:n] *= pace.speed(moments)
        sizes[n:] *= pace.intercept_weight**2
        noise = np.append(np.ones(n), np.full(len(start), 1 / pace.intercept_weight))
        velocity, mean = np.zeros_like(at), np.zeros_like(at)
        spread = np.zeros((3, len(at)))
        shares = moments * true / max(float(moments @ true**2), 1e-300)
        pulls, curvatures = weighted @ (shares * sizes[:n]), []
        curvature, last = 0.0, len(run.paces) - tail_of(len(run.paces))
        for t, deviation in enumerate(run.deviations):
            raw = persons @ at[:n] + at[n:, None]
            # Two values of the noise have its variance.
            moved = np.sqrt(spread[0, :n] @ squares.T + spread[0, n:, None])
            moved = np.maximum(moved, _LEAST_NOISE)
            high, low = residuals.at(raw + moved), residuals.at(raw - moved)
            found, each = (high + low) / 2, (high - low) / (2 * moved)
            curvatures.append(_of_size_and_intervals(each, pulls, effects))
            for some in (raw + moved, raw - moved):
                curvatures[-1][:, 1:] += residuals.by_earlier(some, pulls) / 2
            bend = np.sum(each, axis=1)
            gradient = np.append(found.sum(axis=0) @ weighted, found.sum(axis=1))
            if t == 0:
                energy = float(spreads @ true**2)
                fall = -float(gradient[:n] @ true) / max(energy, 1e-300)
                curvature = max(fall, 0.0) if energy > 0 else float(bend.sum())
            velocity = pace.momentum * velocity - sizes * gradient
            at = at + velocity
            bends = np.maximum(np.append(spreads * bend.sum(), bend), 0.0)
            spread = _after_step(spread, sizes * bends, pace.momentum)
            spread += (deviation * sizes * noise) ** 2
            if t >= last:
                mean += at / (len(run.paces) - last)
        part = float(shares @ mean[:n])
        constant = start + kept * (mean[n:] - start)
        # The size has steps of size 1, since `pulls` has those of the weights.
        of_both = np.append(1.0, sizes[n:])
        by_noise = np.append(np.linalg.norm(shares * sizes[:n]), sizes[n:] * noise[n:])
        response = _Response.of(run, curvatures, of_both, by_noise, kept)
        errors = response.errors(base.table, effects, pulls)
        return cls(part, constant, curvature, errors)


def _of_size_and_intervals(
    each: FloatArray, left: FloatArray, right: FloatArray
) -> FloatArray:
    """Sums of products over persons, for the size of all effects and each interval.

    Parameters
    ----------
    each : ndarray of float64 of shape (n_intervals, n_persons)
        Weights. Intervals do not depend on each other.
    left, right : ndarray of float64 of shape (n_persons,)
        By how much a person moves with the size.
    """
    of_size = each.sum(axis=0) @ (left * right)
    found = np.diag(np.append(of_size, each.sum(axis=1)))
    found[0, 1:], found[1:, 0] = each @ left, each @ right
    return found


class _Response(NamedTuple):
    """How errors move the size of all effects and the intervals that a descent finds.

    Parameters
    ----------
    of_noise : ndarray of float64 of shape (1 + n_intervals, 1 + n_intervals)
        Their covariance by the noise in steps.
    by_gradient : ndarray of float64 of shape (1 + n_intervals, 1 + n_intervals)
        Change by an error that the gradients of all steps have in common.
    by_start : ndarray of float64 of shape (1 + n_intervals, n_intervals)
        Change by the intervals of the start.
    n_samples : float
    """

    of_noise: FloatArray
    by_gradient: FloatArray
    by_start: FloatArray
    n_samples: float

    @classmethod
    def of(
        cls,
        run: NoiseOfRun,
        curvatures: Sequence[FloatArray],
        sizes: FloatArray,
        noise: FloatArray,
        kept: float,
    ) -> _Response:
        """From the last step to the first, as in `NoiseOfRun`.

        `curvatures` are those of each step, `sizes` has the sizes of a step, `noise`
        how far noise of deviation 1 moves it, and the gate keeps the part `kept` of the
        way of the intervals.
        """
        n, momentum = len(run.paces), run.paces[0].momentum
        gain = np.diag(np.append(1.0, np.full(len(sizes) - 1, kept)))
        by_weights, by_velocity = np.zeros((2, len(sizes), len(sizes)))
        of_noise, by_gradient = np.zeros((2, len(sizes), len(sizes)))
        for t in reversed(range(n)):
            if t >= n - tail_of(n):
                by_weights = by_weights + gain / tail_of(n)
            by_velocity = by_velocity + by_weights
            moved = run.deviations[t] * by_velocity * noise
            of_noise += moved @ moved.T
            of_step = by_velocity * sizes
            by_gradient -= of_step
            by_weights = by_weights - of_step @ curvatures[t]
            by_velocity = momentum * by_velocity
        by_start = (by_weights + np.eye(len(sizes)) - gain)[:, 1:]
        return cls(of_noise, by_gradient, by_start, run.n_samples)

    def errors(
        self, table: LifeTable, effects: FloatArray, pulls: FloatArray
    ) -> FloatArray:
        """The covariance by noise, by the noise of the table, and by the sample."""
        true, by_events = table.hazards(effects), self.by_start * table.by_events
        of_gradient = _of_size_and_intervals(true.squares, pulls, pulls)
        of_gradient /= self.n_samples**2
        # The sample of the table is that of the gradients.
        with_events = _of_size_and_intervals(true.with_events, pulls, pulls)[:, 1:]
        both = self.by_gradient @ with_events @ by_events.T / self.n_samples
        of_sample = self.by_gradient @ of_gradient @ self.by_gradient.T + both + both.T
        of_sample += (table.of_events * by_events) @ by_events.T
        of_table = self.by_start @ table.noise
        return self.of_noise + of_table @ of_table.T + of_sample


def _after_step(of: FloatArray, pull: FloatArray, momentum: float) -> FloatArray:
    """Variance of weights, covariance with their velocity, and variance of that."""
    of_velocity = momentum**2 * of[2] + pull**2 * of[0] - 2 * momentum * pull * of[1]
    both = momentum * of[1] - pull * of[0]
    return np.stack([of[0] + of_velocity + 2 * both, both + of_velocity, of_velocity])


class _Residuals(NamedTuple):
    """Mean residuals of persons, given which part of them is at risk and has the event.

    Parameters
    ----------
    at_risk, events : ndarray of float64 of shape (n_intervals, n_persons)
        They add up to parts of all persons.
    """

    at_risk: FloatArray
    events: FloatArray

    @classmethod
    def of(cls, base: HazardBase, n_samples: float, effects: FloatArray) -> _Residuals:
        """With true effects, and the hazards that follow from the table."""
        hazard = np.exp(base.table.hazards(effects).logs[:, None] + effects)
        left = np.exp(hazard - np.cumsum(hazard, axis=0))
        total = np.maximum(left.sum(axis=1), 1e-300)
        left *= (base.table.exposed / n_samples / total)[:, None]
        return cls(left, left * -np.expm1(-hazard))

    def by_earlier(self, raw: FloatArray, pulls: FloatArray) -> FloatArray:
        """What the curvature of intervals misses if all hazards move together.

        A residual that the cap cuts falls as hazards of earlier intervals grow.
        """
        hazard = np.exp(np.minimum(raw, LARGEST))
        before = np.cumsum(hazard, axis=0) - hazard
        is_cut = (before < 1) & (before + hazard > 1)
        cut = is_cut * -(self.at_risk + self.events / np.expm1(-hazard))
        of_intervals = np.tril(cut @ hazard.T, -1)
        of_size = np.tril((cut * pulls) @ hazard.T, -1)
        return np.vstack(
            [
                of_size.sum(axis=0) - of_size.sum(axis=1),
                of_intervals - np.diag(of_intervals.sum(axis=1)),
            ]
        )

    def at(self, raw: FloatArray) -> FloatArray:
        """Sums that the persons add, with these logarithms of hazards."""
        # As in `HazardGradient`.
        hazard = np.exp(np.minimum(raw, LARGEST))
        before = np.cumsum(hazard, axis=0) - hazard
        counted = np.minimum(hazard, np.maximum(1.0 - before, 0.0))
        return np.asarray(counted * (self.at_risk + self.events / np.expm1(-hazard)))
