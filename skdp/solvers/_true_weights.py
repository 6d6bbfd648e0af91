"""True weights of curves and categories from the weights of a descent; post-processing.

A descent goes a known part of the way to each true weight, and adds chance of a known
variance. A curve is a straight line with bends, which many curves do not have. Section
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
# bends of a column around those of all. In many designs of 5,000 persons curves and
# bands with 1 and 2 are the same within their errors (replace_one, 40 fits:
# `python -m benchmarks survival_constants --set constants=_SPREAD --set sizes=5000`).
_SPREAD = 1.5
# Probabilities that a curve has no bends, all alike.
_STRAIGHT = (np.arange(10) + 0.5) / 10
# Logarithm of the variance of bends over that of lines that is expected. With 0 bands
# of 5,000 persons of the linear simulation are .43 wide in place of .36 at epsilon .3,
# and cover .995 in place of .98; curves are the same (replace_one, 20 fits: `--set
# constants=_OF_BENDS --set simulation=linear`).
_OF_BENDS = -1.0
# Logarithms of the variances that are considered, over the typical one.
_LOGS = np.linspace(-12.0, 6.0, 73)


class Seen(NamedTuple):
    """Weights of a descent in some directions of a column.

    Parameters
    ----------
    weights, learned, chance : ndarray of float64 of shape (n_directions,)
        ``weights`` are ``learned`` times the true weights plus chance of this variance.
    lines : ndarray of float64 of shape (n_directions, n_slopes) or None
        Orthonormal directions of what is no bend: a straight line, and what records
        without a place on it have in common. None for categories.
    """

    weights: FloatArray
    learned: FloatArray
    chance: FloatArray
    lines: FloatArray | None


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
    bends : float, default=0.0
        Expected variance of the bends in a direction.
    """

    gains: FloatArray
    left: FloatArray
    middle: FloatArray
    errors: FloatArray
    bends: float = 0.0


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
        if column.lines is not None
    }
    shown = [
        curves[j].straight if j in curves else np.stack(column[:3])
        for j, column in enumerate(columns)
    ]
    weights, learned, chance = np.hstack(shown)
    expected = sizes * learned**2 + chance
    log_likelihood = -0.5 * np.sum(np.log(expected) + weights**2 / expected, axis=1)
    of_lines = softmax(log_likelihood - (_LOGS / _SPREAD) ** 2 / 2)
    centre = float(of_lines @ _LOGS)
    likelihood = [curve.log_likelihood for curve in curves.values()]
    of_bends = _posteriors(likelihood, centre + _OF_BENDS)
    posteriors = dict(zip(curves, of_bends, strict=True))
    return [
        curves[j].found(posteriors[j], typical * float(np.exp(centre)))
        if j in curves
        else _of_categories(column, sizes, of_lines)
        for j, column in enumerate(columns)
    ]


def _posteriors(log_likelihood: list[FloatArray], centre: float) -> list[FloatArray]:
    """Probability of each variance of the bends of each curve, from log-likelihoods.

    `centre` is the logarithm that is expected for all curves together.
    """
    spread = softmax(-((np.subtract.outer(_LOGS, _LOGS) / _SPREAD) ** 2) / 2, axis=1)
    each = [np.exp(curve - curve.max()) for curve in log_likelihood]
    # Given the variance of the bends of all curves, and how probable none is. The
    # smallest variance is none.
    straight = _STRAIGHT[:, None]
    evidence = [
        np.log(np.maximum((1 - straight) * (spread @ own) + straight * own[0], 1e-300))
        for own in each
    ]
    of_all = np.sum(evidence, axis=0) - ((_LOGS - centre) / _SPREAD) ** 2 / 2
    found = []
    for curve, own in zip(each, evidence, strict=True):
        of_others = softmax(of_all - own)
        prior = np.sum((1 - straight) * of_others, axis=0) @ spread
        prior[0] += np.sum(straight * of_others)
        found.append(curve * prior / np.sum(curve * prior))
    return found


def _of_categories(column: Seen, sizes: FloatArray, posterior: FloatArray) -> Found:
    weights, learned, chance, _ = column
    expected = sizes * learned**2 + chance
    each = sizes * learned / expected
    gains = posterior @ each
    left = posterior @ (sizes * chance / expected + ((each - gains) * weights) ** 2)
    errors = np.diag(np.sqrt(chance) / learned)
    return Found(np.diag(gains), left, weights / learned, errors)


@dataclass(frozen=True, eq=False)
class _Curve:
    """Straight lines with bends, for each of some variances of the bends.

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
        """Slopes without a prior are this times the weights, over the precision."""
        assert self.seen.lines is not None
        learned = self.seen.learned / self._expected
        return np.asarray(learned[:, None, :] * self.seen.lines.T)

    @cached_property
    def _precision(self) -> tuple[FloatArray, FloatArray]:
        """That of slopes without a prior, as eigenvalues and vectors for each size."""
        assert self.seen.lines is not None
        found = self._parts @ (self.seen.learned[:, None] * self.seen.lines)
        values, vectors = np.linalg.eigh((found + found.swapaxes(1, 2)) / 2)
        # What rounding makes of zeros must not be negative.
        return np.maximum(values, 1e-12 * values[:, -1:]), vectors

    @cached_property
    def _slopes(self) -> FloatArray:
        values, vectors = self._precision
        along = _products(vectors.swapaxes(1, 2), self._parts @ self.seen.weights)
        return _products(vectors, along / values)

    @property
    def log_likelihood(self) -> FloatArray:
        """Logarithms of the likelihood of each size, for slopes of any size."""
        weighed = np.log(self._expected) + self.seen.weights**2 / self._expected
        explained = np.sum(self._slopes * (self._parts @ self.seen.weights), axis=1)
        of_slopes = np.sum(np.log(self._precision[0]), axis=1) - explained
        return np.asarray(-0.5 * (weighed.sum(axis=1) + of_slopes))

    @property
    def straight(self) -> FloatArray:
        """The slopes without bends, their part that is learned, and their variances."""
        values, vectors = (each[0] for each in self._precision)
        variances = vectors**2 @ (1 / values)
        return np.stack([self._slopes[0], np.ones(len(variances)), variances])

    def found(self, posterior: FloatArray, of_slopes: float) -> Found:
        """Estimates with this posterior of the sizes, and variance of the slopes."""
        weights, learned, chance, lines = self.seen
        assert lines is not None
        bent = self.sizes * learned / self._expected
        # What a change of the slopes changes: bends make up for a part of it.
        moved = lines * (chance / self._expected)[:, :, None]
        values, vectors = self._precision
        kept = vectors / (values + 1 / of_slopes)[:, None, :] @ vectors.swapaxes(1, 2)
        slopes = kept @ self._parts
        gains = np.diag(posterior @ bent)
        gains += np.tensordot(posterior, moved @ slopes, axes=1)
        alone = self.sizes * chance / self._expected
        with_prior = bent * weights + _products(moved, slopes @ weights)
        of_lines = np.sum((moved @ kept) * moved, axis=2)
        left = alone + of_lines + (with_prior - gains @ weights) ** 2
        each = bent * weights + _products(moved, self._slopes)
        middle = posterior @ each
        independent = np.sqrt(posterior @ (alone + (each - middle) ** 2))
        roots = vectors / np.sqrt(values)[:, None, :]
        common = np.tensordot(posterior, moved @ roots, axes=1)
        errors = np.hstack([np.diag(independent), common])
        bends = float(posterior @ self.sizes[:, 0])
        return Found(gains, posterior @ left, middle, errors, bends)


def _products(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("lij,lj->li", matrices, vectors))
