"""`Scale`: units of residuals and of raw predictions, by the loss; post-processing."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from scipy.stats import norm

from skdp._floats import FloatArray
from skdp.ensemble._task import BoostingTask
from skdp.queries._loss_facts import PLAIN, LossFacts

# Means of counts up to so many times the first are told apart by their curvature.
_CAP = 8.0
# Deviation of the logarithms of means, over that of counts, and at most.
_MOST_RAW = 2.0
# Variance of an error, over that of all targets' unit.
_UNEXPLAINED = 0.15


@dataclass(frozen=True)
class Scale:
    """Of what is summed over leaves, and of the steps that are made of it.

    Parameters
    ----------
    residual, raw : float
        Units of residuals and of raw predictions.
    step : float
        A Newton step for a residual of 1 and a curvature of 1.
    sampling : float
        Variance of a record's step, by its curvature.
    facts : LossFacts
    """

    residual: float = 1.0
    raw: float = 1.0
    step: float = 1.0
    sampling: float = 1.0
    facts: LossFacts = PLAIN

    @classmethod
    def of(cls, task: BoostingTask, unit: float, start: FloatArray) -> Scale:
        """Where targets spread over so much and raw predictions start there."""
        facts = task.facts
        if task.loss == "squared":
            return cls(unit, unit, 1.0, _UNEXPLAINED * unit**2, facts)
        if task.loss == "quantile":
            # Of normal targets, whose deviation is half a unit.
            step = unit / 2 / float(norm.pdf(norm.ppf(facts.level)))
            sampling = facts.level * (1 - facts.level) * step**2
            return cls(1.0, unit, step, sampling, facts)
        if task.loss == "poisson":
            mean = min(math.exp(min(start[0], 700.0)), facts.farthest)
            cap = max(_CAP * mean, 1e-12)
            sampling = _UNEXPLAINED * _CAP * (unit / cap) ** 2
            raw = min(unit / mean, _MOST_RAW)
            return cls(unit, raw, 1 / cap, sampling, replace(facts, cap=cap))
        return cls(facts=facts)
