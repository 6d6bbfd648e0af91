"""True weights of curves and categories from the weights of a descent; post-processing.

A descent goes a known part of the way to each true weight, and adds chance of a known
variance. A curve is a straight line with bends, which most curves do not have. Section
"From weights to effects" of ``docs/proofs/survival.md`` derives the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from skdp._arrays import FloatArray

# Deviation of the logarithm of the variance of true weights: of straight lines and
# categories around the typical one, of the bends of all columns around that, and of the
# bends of a column around those of all.
# In many designs bands of 5,000 persons cover .93, .93, .95 with 1, and .94, .92, .94
# with 1.5, and .94, .92, .93 with 2 (epsilon .3, 1, 4; 40 fits, errors of about .01):
# `python -m benchmarks survival_constants --set constants=_SPREAD`.
_SPREAD = 1.5
# Probability that a curve has no bends. With 0 these bands cover .97, .96, .97 and are
# a tenth wider, and bands of straight lines cover .98 to 1. With .7 they are the same
# within their errors (`--set constants=_STRAIGHT`).
_STRAIGHT = 0.6
# Logarithms of the variances that are considered, over the typical one.
_LOGS = np.linspace(-12.0, 6.0, 73)


class Seen(NamedTuple):
    """Weights of a descent in some directions of a column.

    Parameters
    ----------
    weights, learned, chance : ndarray of float64 of shape (n_directions,)
        ``weights`` are ``learned`` times the true weights plus chance of this variance.
    line : ndarray of float64 of shape (n_directions,) or None
        A straight line, of length 1; None for categories.
    """

    weights: FloatArray
    learned: FloatArray
    chance: FloatArray
    line: FloatArray | None


class Found(NamedTuple):
    """Estimates of true weights.

    Parameters
    ----------
    gains : ndarray of float64 of shape (n_directions, n_directions)
        Posterior means are this times the weights of the descent.
    left : ndarray of float64 of shape (n_directions,)
        Posterior variances.
    middle : ndarray of float64 of shape (n_directions,)
        Estimates without a prior for lines and categories.
    errors : ndarray of float64 of shape (n_directions, n_errors)
        Independent errors of ``middle``, as long as their standard deviations.
    """

    gains: FloatArray
    left: FloatArray
    middle: FloatArray
    errors: FloatArray


def true_weights(columns: list[Seen], typical: float) -> list[Found]:
    """Estimates for each column.

    Parameters
    ----------
    columns : list of Seen
    typical : float
        Variance of the true weights of lines and categories if nothing is known.
    """
    sizes = typical * np.exp(_LOGS)[:, None]
    curves = {
        j: _Curve(column, sizes)
        for j, column in enumerate(columns)
        if column.line is not None
    }
    shown = [
        curves[j].straight if j in curves else np.stack(column[:3])
        for j, column in enumerate(columns)
    ]
    weights, learned, chance = np.hstack(shown)
    expected = sizes * learned**2 + chance
    likely = -0.5 * np.sum(np.log(expected) + weights**2 / expected, axis=1)
    of_lines = softmax(likely - (_LOGS / _SPREAD) ** 2 / 2)
    centre = float(of_lines @ _LOGS)
    of_bends = _belief([curve.likely for curve in curves.values()], centre)
    believed = dict(zip(curves, of_bends, strict=True))
    return [
        curves[j].found(believed[j], typical * float(np.exp(centre)))
        if j in curves
        else _of_categories(column, sizes, of_lines)
        for j, column in enumerate(columns)
    ]


def _belief(likely: list[FloatArray], centre: float) -> list[FloatArray]:
    """Probability of each variance of the bends of each curve, from log-likelihoods.

    `centre` is the logarithm that is expected for all curves together.
    """
    near = softmax(-((np.subtract.outer(_LOGS, _LOGS) / _SPREAD) ** 2) / 2, axis=1)
    # The smallest variance is none.
    near = (1 - _STRAIGHT) * near + _STRAIGHT * (np.arange(len(_LOGS)) == 0)
    each = [np.exp(curve - curve.max()) for curve in likely]
    # Given the variance of the bends of all curves, by what each curve says of it.
    says = [np.log(np.maximum(near @ curve, 1e-300)) for curve in each]
    of_all = np.sum(says, axis=0) - ((_LOGS - centre) / _SPREAD) ** 2 / 2
    found = [
        curve * (softmax(of_all - said) @ near)
        for curve, said in zip(each, says, strict=True)
    ]
    return [curve / curve.sum() for curve in found]


def _of_categories(column: Seen, sizes: FloatArray, belief: FloatArray) -> Found:
    weights, learned, chance, _ = column
    expected = sizes * learned**2 + chance
    each = sizes * learned / expected
    gains = belief @ each
    left = belief @ (sizes * chance / expected + ((each - gains) * weights) ** 2)
    errors = np.diag(np.sqrt(chance) / learned)
    return Found(np.diag(gains), left, weights / learned, errors)


@dataclass(frozen=True, eq=False)
class _Curve:
    """A straight line with bends, for each of some variances of the bends.

    Parameters
    ----------
    seen : Seen
    sizes : ndarray of float64 of shape (n_sizes, 1)
        Variances of the bends in each direction.
    """

    seen: Seen
    sizes: FloatArray

    @cached_property
    def _expected(self) -> FloatArray:
        return np.asarray(self.sizes * self.seen.learned**2 + self.seen.chance)

    @cached_property
    def _parts(self) -> FloatArray:
        """What each direction adds to the precision of the slope, over the line."""
        assert self.seen.line is not None
        return np.asarray(self.seen.learned * self.seen.line / self._expected)

    @cached_property
    def _precision(self) -> FloatArray:
        """That of the slope without a prior: the inverse of its variance."""
        assert self.seen.line is not None
        return np.asarray(self._parts @ (self.seen.learned * self.seen.line))

    @cached_property
    def _slope(self) -> FloatArray:
        return np.asarray(self._parts @ self.seen.weights / self._precision)

    @property
    def likely(self) -> FloatArray:
        """Logarithms of the likelihood of each size, for a slope of any size."""
        weighed = np.log(self._expected) + self.seen.weights**2 / self._expected
        of_slope = np.log(self._precision) - self._precision * self._slope**2
        return np.asarray(-0.5 * (weighed.sum(axis=1) + of_slope))

    @property
    def straight(self) -> FloatArray:
        """The slope without bends, its part that is learned, and its variance."""
        return np.array([[self._slope[0]], [1.0], [1 / self._precision[0]]])

    def found(self, belief: FloatArray, of_slope: float) -> Found:
        """Estimates with this probability of each size, and variance of the slope."""
        weights, learned, chance, line = self.seen
        assert line is not None
        bent = self.sizes * learned / self._expected
        # What a change of the slope changes: bends make up for a part of it.
        moved = line * chance / self._expected
        kept = of_slope / (1 + of_slope * self._precision)
        slopes = kept[:, None] * self._parts
        gains = np.diag(belief @ bent) + (belief[:, None] * moved).T @ slopes
        alone = self.sizes * chance / self._expected
        with_prior = bent * weights + moved * (slopes @ weights)[:, None]
        left = alone + (with_prior - gains @ weights) ** 2 + moved**2 * kept[:, None]
        each = bent * weights + moved * self._slope[:, None]
        middle = belief @ each
        independent = np.sqrt(belief @ (alone + (each - middle) ** 2))
        common = belief @ (moved / np.sqrt(self._precision)[:, None])
        errors = np.column_stack([np.diag(independent), common])
        return Found(gains, belief @ left, middle, errors)
