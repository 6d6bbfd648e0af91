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


_NEWTON_STEPS = 60


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

    @property
    def by_events(self) -> FloatArray:
        """Change of the logarithm of each interval's hazard by an event more."""
        left = 1 - self.steady
        return np.asarray(1 / (self.exposed * left * -np.log(left)))

    @property
    def of_events(self) -> FloatArray:
        """Variance of the number of events in each interval, by the sample."""
        return np.asarray(self.exposed * self.steady * (1 - self.steady))

    def hazards(self, effects: FloatArray) -> Hazards:
        """Hazards whose mean survival over persons is that of the table.

        Parameters
        ----------
        effects : ndarray of float64 of shape (n_persons,)
            Of typical persons. Persons with large effects leave first, so that without
            them rates fall.
        """
        hazard = np.exp(effects)
        survival = np.cumprod(1 - self.steady)
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


@dataclass(frozen=True, kw_only=True)
class HazardBase(Base):
    """The hazards at which the descent starts, and their table."""

    table: LifeTable
