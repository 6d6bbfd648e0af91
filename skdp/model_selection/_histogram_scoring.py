"""Scores of classifiers that follow from one histogram: ranks, and confusion.

A record is in one cell: of its label and of the interval in which its predicted
probability lies, or of its label and the predicted one. Derived in
``docs/proofs/private_score.md``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from skdp._floats import FloatArray, IntArray
from skdp._quiet import no_warnings
from skdp.model_selection._classification_scoring import _one_hot
from skdp.model_selection._scoring_base import (
    PrivateScoring,
    PublicFacts,
    column,
    on_grid,
    row_by_row,
)
from skdp.privacy._adjacency import Adjacency
from skdp.queries._consistent import consistent

# Where noise and ties cost about alike: settled on made-up tables of 10,000 records,
# at epsilon 0.3 (``python -m benchmarks.describe intervals``).
N_INTERVALS = 24
# In few digits, since records show them.
EQUAL = tuple(np.linspace(0.0, 1.0, N_INTERVALS + 1).round(4).tolist())
_MOST_INTERVALS = 1000
# What `_quality` says of a record for which the estimator raises.
_FAILED = -1.0


@dataclass(frozen=True)
class CellScoring(PrivateScoring):
    """Scores of the counts of cells, of which each record is in one.

    Parameters
    ----------
    classes : tuple
        The labels, each once; of two the second is the positive one. Public.
    """

    task = "classification"
    is_single = False
    _worst = _FAILED

    classes: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not 2 <= len(set(self.classes)) == len(self.classes):
            raise ValueError(
                "The 'classes' parameter must hold at least two different labels. Got "
                f"{list(self.classes)!r}. Declare each label once."
            )

    @classmethod
    def of(cls, facts: PublicFacts) -> Self:
        if facts.classes is None:
            raise ValueError(
                f"scoring={cls.name!r} needs the set of labels. Got none. Pass "
                "classes=[...]."
            )
        return cls(facts.classes)

    @property
    @abstractmethod
    def n_cells(self) -> int:
        """Of each label."""

    @property
    def size(self) -> int:
        return len(self.classes) * self.n_cells

    @property
    def n_nonzero(self) -> int:
        return 1

    @property
    def lowest(self) -> float:
        return 0.0

    def sensitivity(self, adjacency: Adjacency, norm: int) -> float:
        return {
            ("replace_one", 1): 2.0,
            ("replace_one", 2): math.sqrt(2) * (1 + 1e-12),
            ("zero_out", 1): 1.0,
            ("zero_out", 2): 1.0,
        }[adjacency, norm]

    def counts(self, statistic: FloatArray, n_samples: int) -> FloatArray:
        """The nearest counts, at least 0 and of n_samples at the most.

        Returns
        -------
        ndarray of shape (n_classes, n_cells)
        """
        cells = np.reshape(statistic, (len(self.classes), -1))
        counts = np.maximum(cells, 0.0)
        if counts.sum() > n_samples:
            counts = consistent(cells, n_samples)
        return counts

    @abstractmethod
    def _failed_cell(self, label: IntArray) -> IntArray:
        """The worst cell that a record of each label can be in."""

    def _spread(self, quality: FloatArray, y: NDArray[Any]) -> FloatArray:
        vectors = np.zeros((len(y), self.size))
        place = self._places(quality, y)
        is_there = place >= 0
        vectors[is_there, place[is_there]] = 1.0
        return vectors

    def statistic(
        self,
        estimator: Any,
        X: Any,
        y: NDArray[Any],
        shares: FloatArray | None = None,
    ) -> FloatArray:
        """The sum of `contributions`, counted without them. Private."""
        with no_warnings():
            quality = row_by_row(self._quality, self._worst, estimator, X, y, shares)
            place = self._places(quality, y)
        is_there = place >= 0
        weights = None if shares is None else on_grid(shares)[is_there]
        counts = np.bincount(place[is_there], weights, minlength=self.size)
        return counts.astype(np.float64)

    def _places(self, quality: FloatArray, y: NDArray[Any]) -> IntArray:
        """The number that each record adds 1 to; -1 for a label that is no class."""
        labels = _one_hot(y, self.classes)
        label = labels.argmax(axis=1)
        cell = np.where(quality < 0, self._failed_cell(label), quality.astype(np.int64))
        return np.where(labels.any(axis=1), label * self.n_cells + cell, -1)


@dataclass(frozen=True)
class RocAuc(CellScoring):
    """Area under the ROC curve; records in one interval count as tied.

    Parameters
    ----------
    classes : pair of labels
        The second is the positive one.
    thresholds : tuple of floats, default=24 intervals of equal width
        Ends of the intervals of the predicted probability of the positive label:
        rising, from 0 to 1. Public.
    """

    name = "roc_auc"
    method = "predict_proba"

    thresholds: tuple[float, ...] = EQUAL

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.classes) != 2:
            raise ValueError(
                f"scoring={self.name!r} needs two labels. Got {list(self.classes)!r}. "
                "Use 'f1_macro' or 'neg_log_loss' for several."
            )
        object.__setattr__(self, "thresholds", checked_thresholds(self.thresholds))

    @property
    def n_cells(self) -> int:
        return len(self.thresholds) - 1

    def score(self, statistic: FloatArray, n_samples: int) -> float:
        return roc_auc(self.counts(statistic, n_samples))

    def _failed_cell(self, label: IntArray) -> IntArray:
        return np.where(label == 1, 0, self.n_cells - 1)

    def _quality(self, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
        proba = np.asarray(estimator.predict_proba(X), dtype=np.float64)
        known = list(estimator.classes_)
        if proba.shape != (len(y), len(known)):
            raise ValueError
        positive = proba[:, known.index(self.classes[1])]
        # A record at a threshold is above it.
        cell = np.searchsorted(self.thresholds[1:-1], positive, side="right")
        return np.where(np.isnan(positive), _FAILED, cell)


def checked_thresholds(thresholds: Any) -> tuple[float, ...]:
    """Ends of intervals as floats that rise from 0 to 1, or an error."""
    try:
        found = tuple(float(end) for end in thresholds)
    except (TypeError, ValueError):
        found = ()
    is_rising = bool(np.all(np.diff(found) > 0))
    is_whole = len(found) > 2 and (found[0], found[-1]) == (0.0, 1.0)
    if not (is_whole and is_rising and len(found) <= _MOST_INTERVALS + 1):
        raise ValueError(
            "The 'thresholds' must be numbers that rise from 0 to 1, 3 to "
            f"{_MOST_INTERVALS + 1} of them. Got {thresholds!r}. Use for example "
            "numpy.linspace(0, 1, 21), chosen without looking at the data."
        )
    return found


@dataclass(frozen=True)
class _OfLabels(CellScoring):
    """Scores of the confusion matrix: cells are predicted labels."""

    @property
    def n_cells(self) -> int:
        return len(self.classes)

    def _failed_cell(self, label: IntArray) -> IntArray:
        return np.asarray((label + 1) % self.n_cells)

    def _quality(self, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
        labels = _one_hot(column(estimator.predict(X), len(y)), self.classes)
        return np.where(labels.any(axis=1), labels.argmax(axis=1), _FAILED)

    def score(self, statistic: FloatArray, n_samples: int) -> float:
        return self._of(self.counts(statistic, n_samples))

    @abstractmethod
    def _of(self, confusion: FloatArray) -> float:
        """The score of a confusion matrix, true labels by predicted ones."""


@dataclass(frozen=True)
class F1(_OfLabels):
    """Harmonic mean of precision and recall of the second of two labels."""

    name = "f1"

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.classes) != 2:
            raise ValueError(
                "scoring='f1' needs two labels, of which the second is the positive "
                f"one. Got {list(self.classes)!r}. Use 'f1_macro'."
            )

    def _of(self, confusion: FloatArray) -> float:
        return float(f_scores(confusion)[1])


@dataclass(frozen=True)
class F1Macro(_OfLabels):
    """Mean over the labels of the F1 score of each against the others.

    Labels with less than half a record, true or predicted, are left out, as
    scikit-learn leaves out those that do not occur.
    """

    name = "f1_macro"

    def _of(self, confusion: FloatArray) -> float:
        occurs = confusion.sum(axis=0) + confusion.sum(axis=1) >= 0.5
        return float(f_scores(confusion)[occurs].mean()) if occurs.any() else 0.0


def f_scores(confusion: FloatArray, beta: float = 1.0) -> FloatArray:
    """F score of each label against the others; 0 where there is nothing.

    Parameters
    ----------
    confusion : ndarray of shape (n_labels, n_labels)
        True labels by predicted ones.
    beta : float, default=1.0
        By how much recall weighs more than precision.
    """
    right, true = np.diag(confusion), confusion.sum(axis=1)
    predicted = confusion.sum(axis=0)
    below = beta**2 * true + predicted
    out = np.zeros_like(right)
    found = np.divide((1 + beta**2) * right, below, out=out, where=below >= 0.5)
    return np.asarray(found)


def roc_auc(counts: FloatArray) -> float:
    """Area under the ROC curve of counts of two labels by rising score; ties half.

    1/2 where a label has less than half a record.
    """
    negative, positive = counts
    if min(negative.sum(), positive.sum()) < 0.5:
        return 0.5
    below = np.cumsum(negative) - negative / 2
    area = positive @ below / (positive.sum() * negative.sum())
    return float(np.clip(area, 0.0, 1.0))


def smooth_roc_auc(counts: FloatArray) -> float:
    """Area under a smooth rising curve through the points of the ROC curve.

    Of few intervals it is nearer than with ties, of which it makes none: piecewise
    cubic (Fritsch and Carlson 1980), through the highest of points at one place, and
    at the end through the lowest.
    """
    negative, positive = counts
    if min(negative.sum(), positive.sum()) < 0.5:
        return 0.5
    false, true = (
        np.concatenate([[0.0], np.cumsum(each[::-1]) / each.sum()]).round(9)
        for each in counts
    )
    places, at = np.unique(false, return_inverse=True)
    highest = np.zeros(len(places))
    np.maximum.at(highest, at, true)
    highest[-1] = true[at == len(places) - 1].min()
    area = PchipInterpolator(places, highest).integrate(0.0, 1.0)
    return float(np.clip(area, 0.0, 1.0))


def average_precision(counts: FloatArray) -> float:
    """Area under precision by recall, both labels spread evenly in each interval.

    0 where the positive label has less than half a record.
    """
    negative, positive = counts[:, ::-1]
    total = float(positive.sum())
    if total < 0.5:
        return 0.0
    true, called, area = 0.0, 0.0, 0.0
    for hits, false in zip(positive.tolist(), negative.tolist(), strict=True):
        area += _precision_area(true, called, hits, hits + false)
        true, called = true + hits, called + hits + false
    return float(np.clip(area / total, 0.0, 1.0))


def _precision_area(true: float, called: float, hits: float, more: float) -> float:
    """Integral of (true + hits t) / (called + more t) over t in [0, 1], times hits."""
    if hits <= 0:
        return 0.0
    slope = hits / more
    if called <= 0:
        return hits * slope
    return hits * (slope + (true - slope * called) / more * math.log1p(more / called))
