"""The life table of all persons, and the hazards of a person that follow from it.

The target of a person is a number: j if the event happens in interval j of 1, ..., J,
and -u if the person is censored at u, counted in intervals. All of it is
post-processing of one released histogram. Proofs: ``docs/proofs/survival.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from skdp._arrays import FloatArray
from skdp.privacy.release._answers import Released
from skdp.solvers._target_base import Base
from skdp.sums._counts import StateSums

# Logarithm of the largest hazard. Interval by interval, exp(-20) survive.
LARGEST = 3.0


def at_risk(targets: FloatArray, n_intervals: int) -> FloatArray:
    """Part of each interval in which each person is at risk: (n_rows, n_intervals)."""
    passed = np.abs(targets)[:, None] - np.arange(n_intervals)
    return np.minimum(np.maximum(passed, 0.0), 1.0)


# Parts of the persons at risk who have the event in an interval are within these.
_LEAST, _MOST = 1e-5, 0.95
_LARGEST_LOG = math.log(-math.log1p(-_MOST))
_NEWTON_STEPS = 60

# Before the data, log-hazards are expected to be those of a Weibull model plus a random
# walk. The constants are weak expectations, and none was fitted. Without the Weibull
# model limits of rising hazards fail, and without the walk those of hazards that jump
# (`test_limits_of_a_table_count_how_hazards_change`).
# Mean and deviation of the logarithm of the total hazard until the horizon, if the
# hazard is constant: 31 % of the persons have the event before it, and 8 % or 81 % one
# deviation away.
_LEVEL, _OF_LEVEL = -1.0, 1.5
# Deviation of the shape of the Weibull model, whose mean is 1.
_OF_SHAPE = 0.7
# Deviations of the walk from time 0 to the horizon, which are equally likely: hazards
# leave the Weibull model by a tenth, or by a factor of 20.
_WALKS = (0.1, 0.3, 1.0, 3.0)


class Hazards(NamedTuple):
    """The hazard in each interval of a person whose effects are 0.

    Parameters
    ----------
    logs : ndarray of float64 of shape (n_intervals,)
        Logarithms.
    curvature, squares, with_events : ndarray of float64, (n_intervals, n_persons)
        Expected curvature of the loss, squared residuals, and products of a residual
        with the event, which is 0 or 1. They add up to sums over all persons.
    """

    logs: FloatArray
    curvature: FloatArray
    squares: FloatArray
    with_events: FloatArray

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
        Persons with the event, and persons at risk: noisy counts, cut to possible
        numbers. A person who is censored within an interval is at risk in the part of
        it that has passed.
    rates : ndarray of float64 of shape (n_intervals,)
        Part of the persons at risk who have the event in each interval, estimated from
        the noisy counts and within 1e-5 and .95. Without noise it is
        ``events / exposed``.
    noise : ndarray of float64 of shape (n_intervals, n_errors)
        What noise leaves unknown of the log-hazards. Each column is an error of one
        standard deviation, and columns are independent.
    """

    events: FloatArray
    exposed: FloatArray
    rates: FloatArray
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
        of_exposed = at_risk(cells, n_intervals).T
        of_events = (cells == np.arange(1, n_intervals + 1)[:, None]).astype(float)
        # Every person is in one cell, and the number of persons is public.
        even = np.eye(len(cells)) - 1 / len(cells)
        counts = even @ released.value + n_samples / len(cells)
        exposed = np.clip(of_exposed @ counts, 1.0, n_samples)
        events = of_events @ counts
        noise = released.deviation * even
        table = _NoisyTable(events, exposed, of_events @ noise, of_exposed @ noise)
        events = np.clip(events, _LEAST * exposed, _MOST * exposed)
        return cls(events, exposed, *table.smoothed())

    @property
    def by_events(self) -> FloatArray:
        """Change of the logarithm of each interval's hazard by an event more."""
        left = 1 - self.rates
        return np.asarray(1 / (self.exposed * left * -np.log(left)))

    @property
    def of_events(self) -> FloatArray:
        """Variance of the number of events in each interval, by the sample."""
        return np.asarray(self.exposed * self.rates * (1 - self.rates))

    def hazards(self, effects: FloatArray) -> Hazards:
        """Hazards whose mean survival over persons is that of the table.

        Parameters
        ----------
        effects : ndarray of float64 of shape (n_persons,)
            Of typical persons. Persons with large effects leave first, so that without
            them rates fall.
        """
        hazard = np.exp(effects)
        survival = np.cumprod(1 - self.rates)
        # Newton's method does not overshoot: survival is convex in the total.
        total = -np.log(survival) / hazard.mean()
        for _ in range(_NEWTON_STEPS):
            left = np.exp(-np.outer(total, hazard)) / len(hazard)
            total += (left.sum(axis=1) - survival) / np.maximum(left @ hazard, 1e-300)
        before = np.insert(total[:-1], 0, 0.0)
        logs = np.log(np.clip(total - before, 1e-12, math.exp(LARGEST)))
        # The gradient of a person, as in `HazardGradient`.
        own = np.outer(np.exp(logs), hazard)
        counted = np.clip(1 - np.outer(before, hazard), 0.0, own)
        left = np.exp(-np.outer(before, hazard))
        persons = self.exposed[:, None] * left / left.sum(axis=1, keepdims=True)
        odds = counted / np.expm1(np.minimum(own, 50.0))
        odds *= persons
        with_events = -persons * counted * np.exp(-own)
        return Hazards(logs, odds * own, odds * counted, with_events)

    def shown(self) -> dict[str, FloatArray]:
        """Numbers at the end of each interval, with 95 % limits of survival.

        The limits count the sample, by Greenwood's formula, and the noise.
        """
        hazards = -np.log1p(-self.rates)
        total = np.cumsum(hazards)
        of_sample = np.cumsum(self.rates / ((1 - self.rates) * self.exposed))
        moved = np.cumsum(hazards[:, None] * self.noise, axis=0)
        of_noise = np.sum(moved**2, axis=1)
        factor = np.exp(1.96 * np.sqrt(of_sample + of_noise) / total)
        return {
            "at_risk": self.exposed,
            "events": self.events,
            "survival": np.exp(-total),
            "lower": np.exp(-total * factor),
            "upper": np.exp(-total / factor),
        }


class _NoisyTable(NamedTuple):
    """Events and persons at risk in each interval, and the noise in them.

    Parameters
    ----------
    events, exposed : ndarray of float64 of shape (n_intervals,)
        Persons with the event, which may be negative, and persons at risk.
    of_events, of_exposed : ndarray of float64 of shape (n_intervals, n_cells)
        Their change by one deviation of each cell's noise.
    """

    events: FloatArray
    exposed: FloatArray
    of_events: FloatArray
    of_exposed: FloatArray

    def smoothed(self) -> tuple[FloatArray, FloatArray]:
        """Rates given the counts, and errors of the logarithms of hazards."""
        found = [self._with_walk(walk) for walk in _WALKS]
        evidence = np.array([each.evidence for each in found])
        weights = np.exp(evidence - evidence.max())
        weights /= weights.sum()
        logs = np.array([each.logs for each in found])
        mean = weights @ logs
        # The variance within each walk, and that between them.
        covariance = np.tensordot(weights, [each.covariance for each in found], 1)
        covariance += (weights * (logs - mean).T) @ (logs - mean)
        variances, axes = np.linalg.eigh(covariance)
        errors = axes * np.sqrt(np.maximum(variances, 0.0))
        return -np.expm1(-np.exp(mean)), errors

    def _with_walk(self, walk: float) -> _Smoothed:
        """With a walk of this deviation, by Gauss-Newton steps."""
        n_intervals = len(self.exposed)
        times = (np.arange(n_intervals) + 0.5) / n_intervals
        of_shape = np.log(times) - np.log(times).mean()
        prior = _OF_LEVEL**2 + _OF_SHAPE**2 * np.outer(of_shape, of_shape)
        prior += walk**2 * np.minimum.outer(times, times)
        expected = _LEVEL - math.log(n_intervals)
        logs = np.full(n_intervals, expected)
        for t in range(_NEWTON_STEPS):
            rates = -np.expm1(-np.exp(logs))
            slopes = self.exposed * np.exp(logs) * (1 - rates)
            # Rates are those of these persons, who are a sample.
            spread = prior + np.diag(1 / np.maximum(self.exposed * rates, 1.0))
            noise = self.of_events - rates[:, None] * self.of_exposed
            both = slopes[:, None] * spread
            total = both * slopes + noise @ noise.T
            seen = self.events - rates * self.exposed + slopes * (logs - expected)
            solved = np.linalg.solve(total, np.column_stack([seen, both]))
            # Where few persons have the event steps may oscillate, so they get smaller.
            most = min(1.0, 0.9 ** (t - 20))
            step = expected + both.T @ solved[:, 0] - logs
            before, logs = logs, logs + np.clip(step, -most, most)
            logs = np.clip(logs, math.log(_LEAST), _LARGEST_LOG)
            if np.abs(logs - before).max() < 1e-9:
                break
        evidence = -(seen @ solved[:, 0] + np.linalg.slogdet(total)[1]) / 2
        return _Smoothed(logs, spread - both.T @ solved[:, 1:], float(evidence))


class _Smoothed(NamedTuple):
    """Logarithms of hazards given the counts, and the logarithm of their chance."""

    logs: FloatArray
    covariance: FloatArray
    evidence: float


@dataclass(frozen=True, kw_only=True)
class HazardBase(Base):
    """The hazards at which the descent starts, and their table."""

    table: LifeTable
