"""Rows of items as they are known from noisy releases; post-processing throughout.

A release says ``sums = counts * weights * step @ moments + noise`` of the step from the
rows that users had, up to the optimum given their own rows. With the known noise that
is a measurement of a row; measurements of all rounds are averaged by precision and
shrunk towards the row's start by a variance that is estimated over the items.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from skdp._floats import FloatArray
from skdp.decomposition._factors import Factors
from skdp.decomposition._task import Task
from skdp.decomposition._users import RowQuery

# Variance of a factor over the items, weighted by popularity, at its start: with it a
# prior that counts for as many ratings suits factors and biases alike.
_FACTOR_VARIANCE = 1 / 6
# In units of half the width of the bounds, as everything below: the slope of biases
# in standardised log popularity, and its error.
_SLOPE, _SLOPE_ERROR = 0.075, 0.05
# Variances over the items, of biases and of later steps: supposed before anything is
# known of them, and the range of what is estimated.
_BIAS_VARIANCE, _BIAS_RANGE = 0.02, (0.0025, 0.1)
_STEP_VARIANCE, _STEP_RANGE = 0.005, (0.0005, 0.1)
# Variance that the ratings' own errors add to a noisy sum, for each unit of weight.
_OWN_VARIANCE = 0.01
# Of the weighted counts: what is added to all, of the order of one rating's weight.
_LEAST_COUNT = 0.1
# Moments of users' rows are near 1; a smaller eigenvalue is noise.
_LEAST_MOMENT = 0.1
# Entries stay in a box, so that all arithmetic is finite whatever the noise.
_BOX = 1e3


class NoisyItems:
    """The state between rounds.

    With `n_factors` from 0 to 2, the first factor is the item's bias and the second the
    logarithm of its popularity, until they are refined.
    """

    def __init__(self, task: Task, n_factors: int) -> None:
        self._task, self._n_factors = task, n_factors

    def start(self, counts: FloatArray, mean: float, sigma: float) -> None:
        """Take in the first release.

        All noisy: weighted counts of shape (n_items,), of noise `sigma`, and the mean
        of the users' means.
        """
        task, n_factors = self._task, self._n_factors
        self._mean = mean
        self._counts = _positive(counts, sigma)
        self._popularity = self._counts / self._counts.sum()
        self._log = self._standardised(np.log(self._counts))
        # Biases in the first column, then factors; all in units of the residuals.
        self._start = np.zeros((task.n_items, 1 + n_factors))
        # What is often rated is rated higher, as a rule.
        self._start[:, 0] = _SLOPE * self._log
        if n_factors == 2:
            self._start[:, 2] = self._factor(self._log)
        self._rows = self._start.copy()
        self._precision = np.zeros_like(self._rows)
        self._pull = np.zeros_like(self._rows)  # measurements by their precision
        self._is_first = True

    def popular(self, n: int) -> NDArray[np.intp]:
        """The `n` items that seem most popular, in increasing order."""
        # Stable, so that ties fall alike on every machine.
        return np.sort(np.argsort(-self._counts, kind="stable")[:n])

    def add_directions(
        self, matrix: FloatArray, chosen: NDArray[np.intp], n_directions: int
    ) -> None:
        """More factors, started at what residuals of the chosen items have in common.

        `matrix`, of shape (n_chosen, n_chosen), has noisy sums of products of
        residuals.
        """
        vectors = np.linalg.eigh(matrix)[1][:, ::-1][:, :n_directions]
        for vector in vectors.T:
            column = np.zeros((len(self._counts), 1))
            # Products are summed over those who rated both, so popularity is divided
            # out of what would else be in both of them.
            column[chosen, 0] = vector / self._counts[chosen]
            column = self._factor(self._standardised(column[:, 0]))[:, None]
            self._start = np.hstack([self._start, column])
            self._rows = np.hstack([self._rows, column])
            nothing = np.zeros_like(column)
            self._precision = np.hstack([self._precision, nothing])
            self._pull = np.hstack([self._pull, nothing])

    def weights(self, sigma: float) -> FloatArray:
        """Weights of the items in the next query: where its noise does least harm.

        They minimise the squared error of the next estimates, popular items counting
        for more, among weights of the same mean square over ratings. Its noise is
        `sigma`.
        """
        variance = _BIAS_VARIANCE if self._is_first else _STEP_VARIANCE
        floor = sigma**2 / variance
        n, order = self._counts, np.argsort(-self._counts, kind="stable")
        sorted_n, sorted_share = n[order], self._popularity[order]
        # Water filling: no weight where noise would drown what is learned.
        needed = 1 + np.cumsum(sorted_share * floor / sorted_n**2)
        levels = needed / np.cumsum(sorted_share / sorted_n)
        n_active = int(np.count_nonzero(levels > floor / sorted_n))
        level = levels[max(n_active, 1) - 1]
        weights: FloatArray = np.sqrt(np.maximum(level / n - floor / n**2, 0.0))
        return weights

    def learn(
        self, sums: FloatArray, moments: FloatArray, weights: FloatArray, sigma: float
    ) -> None:
        """Take in a release, of biases at first and of all columns later."""
        inverse = _inverse(moments)
        reach = (self._counts * weights)[:, None]
        steps = sums @ inverse
        own = _OWN_VARIANCE * (self._counts * weights**2)[:, None]
        noise = sigma**2 * np.diag(inverse @ inverse) + own * np.diag(inverse)
        if self._is_first:
            self._learn_biases(steps[:, 0], reach[:, 0], noise[:, 0])
            self._is_first = False
            return
        precision = reach**2 / noise
        self._precision += precision
        self._pull += reach * steps / noise + precision * (self._rows - self._start)
        known = self._precision > 0
        # Before its first measurement an item has a precision of 0 and keeps its start.
        measured = self._pull / np.where(known, self._precision, 1.0)
        # Items that are hardly measured say next to nothing about the variance of all.
        trust = np.minimum(1.0, _STEP_VARIANCE * self._precision) ** 2
        trust = trust * self._popularity[:, None]
        # The square of a measurement is too large by its noise.
        excess = measured**2 - 1 / np.where(known, self._precision, np.inf)
        variance = _within(
            (trust * excess).sum(axis=0) / np.maximum(trust.sum(axis=0), 1e-300),
            _STEP_RANGE,
        )
        step = self._pull / (self._precision + 1 / variance)
        self._rows = np.clip(self._start + step, -_BOX, _BOX)

    def _learn_biases(
        self, steps: FloatArray, reach: FloatArray, noise: FloatArray
    ) -> None:
        # First a line in log popularity through all items, then each item's own bias.
        design = np.stack([np.ones_like(self._log), self._log], axis=1)
        by_noise = reach**2 / (noise + reach**2 * _BIAS_VARIANCE)
        # With a prior, so that a few noisy items cannot tilt the line.
        gram = (design * by_noise[:, None]).T @ design + np.eye(2) / _SLOPE_ERROR**2
        answers = reach * steps / (noise + reach**2 * _BIAS_VARIANCE)
        line = design @ np.linalg.solve(gram, design.T @ answers)
        self._start[:, 0] += line
        rest = steps - reach * line
        excess = (reach**2 * (rest**2 - noise)).sum() / max((reach**4).sum(), 1e-300)
        variance = _within(excess, _BIAS_RANGE)
        self._precision[:, 0] = reach**2 / noise
        self._pull[:, 0] = reach * rest / noise
        own = self._pull[:, 0] / (self._precision[:, 0] + 1 / variance)
        self._rows = self._start.copy()
        self._rows[:, 0] += own
        if self._start.shape[1] > 1:
            self._start[:, 1] = self._factor(self._standardised(self._rows[:, 0]))
            self._rows[:, 1] = self._start[:, 1]
        self._rows = np.clip(self._rows, -_BOX, _BOX)

    def factors(self, middle: float, half: float) -> Factors:
        """As they are now, in units of the ratings; of users the mean one's rows."""
        task, n_factors = self._task, self._rows.shape[1] - 1
        factors = Factors.zeros(task, middle + half * self._mean)
        factors.items[:, :n_factors] = RowQuery.entries(self._rows[:, 1:])
        factors.items[:, task.n_components + 1] = half * self._rows[:, 0]
        return factors

    def _standardised(self, values: FloatArray) -> FloatArray:
        """With mean 0 and variance 1 over the ratings."""
        values = values - self._popularity @ values
        spread = math.sqrt(float(self._popularity @ values**2))
        # Without a spread there is nothing that tells items apart.
        return values / spread if spread > 1e-100 else np.zeros_like(values)

    @staticmethod
    def _factor(values: FloatArray) -> FloatArray:
        return RowQuery.steps(math.sqrt(_FACTOR_VARIANCE) * values)


def _positive(counts: FloatArray, sigma: float) -> FloatArray:
    """Smooth and increasing in noisy counts; near them well above the noise."""
    # Never 0 or below: its logarithm is taken and it is divided by.
    soft = np.logaddexp(0.0, 1.5 * counts / sigma) / 1.5
    positive: FloatArray = sigma * (soft + 0.4) + _LEAST_COUNT
    return positive


def _inverse(moments: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(moments)
    inverse: FloatArray = (vectors / np.maximum(values, _LEAST_MOMENT)) @ vectors.T
    return inverse


def _within(values: FloatArray, bounds: tuple[float, float]) -> FloatArray:
    return np.clip(values, *bounds)
