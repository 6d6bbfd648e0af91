"""Scores of classifiers that follow from one histogram: ranks, and confusion.

A record is in one cell: of its label and of the interval in which its predicted
probability lies, or of its label and the predicted one. Derived in
``docs/proofs/private_score.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from skdp._floats import FloatArray, IntArray
from skdp._quiet import no_warnings
from skdp.model_selection._scoring_base import (
    NamedScoring,
    Params,
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
# The cell of a record for which an estimator has no answer, or raises.
_FAILED = -1.0


@dataclass(frozen=True, eq=False)
class CountScoring(NamedScoring):
    """A score of counts: a record adds 1 to one of them at most."""

    is_single = False

    @property
    def n_nonzero(self) -> int:
        return 1

    def sensitivity(self, adjacency: Adjacency, norm: int) -> float:
        return {
            ("replace_one", 1): 2.0,
            ("replace_one", 2): math.sqrt(2) * (1 + 1e-12),
            ("zero_out", 1): 1.0,
            ("zero_out", 2): 1.0,
        }[adjacency, norm]

    def _places(self, quality: FloatArray, y: NDArray[Any]) -> IntArray:
        """The number that each record adds 1 to; -1 for none."""
        raise NotImplementedError

    def _spread(self, quality: FloatArray, y: NDArray[Any]) -> FloatArray:
        vectors = np.zeros((len(y), self.size))
        place = self._places(quality, y)
        is_there = place >= 0
        vectors[is_there, place[is_there]] = 1.0
        return vectors

    def statistic(
        self, estimator: Any, X: Any, y: Any, shares: FloatArray | None = None
    ) -> FloatArray:
        """The sum of `contributions`, counted without them. Private."""
        y = np.asarray(y)
        with no_warnings():
            quality = row_by_row(self._quality, self._worst, estimator, X, y, shares)
            place = self._places(quality, y)
        is_there = place >= 0
        weights = None if shares is None else on_grid(shares)[is_there]
        counts = np.bincount(place[is_there], weights, minlength=self.size)
        return counts.astype(np.float64)


@dataclass(frozen=True, eq=False, kw_only=True)
class CellScoring(CountScoring):
    """A score of the counts of cells: of each label, and of what is predicted.

    `per_record` gives the cells of records within their labels, and -1 where it fails.

    Parameters
    ----------
    n_cells : int
        Of each label.
    failed : tuple of int
        Of each label the worst cell that a record can be in. Public.
    of_counts : callable
        The score of an array of shape (n_classes, n_cells).
    """

    n_cells: int
    failed: tuple[int, ...]
    of_counts: Callable[[FloatArray], float] = field(repr=False)

    @property
    def classes(self) -> tuple[Any, ...]:
        """The labels, each once; of two the second is the positive one. Public."""
        return tuple(self.params["classes"])

    @property
    def size(self) -> int:
        return len(self.classes) * self.n_cells

    @property
    def _worst(self) -> float:
        return _FAILED

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

    def score(self, statistic: FloatArray, n_samples: int) -> float:
        return self.of_counts(self.counts(statistic, n_samples))

    def _places(self, quality: FloatArray, y: NDArray[Any]) -> IntArray:
        label = label_codes(y, self.classes)
        failed = np.array(self.failed)[label]
        cell = np.where(quality < 0, failed, quality.astype(np.int64))
        return np.where(label < 0, -1, label * self.n_cells + cell)


@dataclass(frozen=True, eq=False, kw_only=True)
class RecallScoring(CellScoring):
    """A score of which records of each label are labelled right.

    All counts of right ones come before those of wrong ones, and a total that noise
    brought above the number of records stays: a recall is a ratio of two counts.
    """

    def counts(self, statistic: FloatArray, n_samples: int) -> FloatArray:
        return np.maximum(np.reshape(statistic, (2, -1)), 0.0).T

    def _places(self, quality: FloatArray, y: NDArray[Any]) -> IntArray:
        place = super()._places(quality, y)
        return np.where(place < 0, -1, place % 2 * len(self.classes) + place // 2)


def _interval_of(params: Params, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
    """In which interval the predicted probability of the positive label is."""
    proba = np.asarray(estimator.predict_proba(X), dtype=np.float64)
    known = list(estimator.classes_)
    if proba.shape != (len(y), len(known)):
        raise ValueError
    positive = proba[:, known.index(params["classes"][1])]
    # A record at a threshold is above it.
    cell = np.searchsorted(params["thresholds"][1:-1], positive, side="right")
    return np.where(np.isnan(positive), _FAILED, cell)


def _label_of(params: Params, estimator: Any, X: Any, y: NDArray[Any]) -> IntArray:
    """Which label is predicted."""
    return label_codes(column(estimator.predict(X), len(y)), params["classes"])


def is_right(estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
    """1 where the predicted label is the true one, else 0."""
    predicted = column(estimator.predict(X), len(y))
    return np.broadcast_to(predicted == y, y.shape).astype(np.float64)


def _wrong_of(params: Params, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
    """Whether the predicted label is the true one, 0, or not, 1."""
    return 1.0 - is_right(estimator, X, y)


def _cells(
    kind: type[CellScoring],
    cell_of: Callable[..., FloatArray | IntArray],
    cells: Callable[[Params], tuple[int, ...]],
    of_counts: Callable[[FloatArray], float],
    *,
    is_binary: bool = False,
) -> Callable[[dict[str, Any]], CellScoring]:
    """What makes a scorer of a name and public facts.

    `cells` says how many cells a label has, then which is the worst of each label.
    """

    def build(facts: dict[str, Any]) -> CellScoring:
        params, classes = facts["params"], facts["params"]["classes"]
        if len(classes) < 2:
            raise ValueError(
                "The 'classes' parameter must hold at least two different labels. Got "
                f"{list(classes)!r}. Declare all labels."
            )
        if is_binary and len(classes) != 2:
            raise ValueError(
                f"scoring={facts['name']!r} needs two labels, of which the second is "
                f"the positive one. Got {list(classes)!r}. Use 'f1_macro' or "
                "'neg_log_loss' for several."
            )
        n_cells, *failed = cells(params)
        return kind(
            **facts,
            per_record=partial(cell_of, params),
            lowest=0.0,
            highest=1.0,
            n_cells=n_cells,
            failed=tuple(failed),
            of_counts=of_counts,
        )

    return build


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


def label_codes(y: NDArray[Any], classes: tuple[Any, ...]) -> IntArray:
    """Position of each record's label among the classes, -1 if it is none of them.

    The first that matches: different labels may be equal in the precision of `y`.
    """
    if y.dtype == object:  # whose comparison may raise, for one record
        code_of = {label: code for code, label in enumerate(classes)}
        return np.array([_code(code_of, label) for label in y], dtype=np.int64)
    found = np.column_stack([np.broadcast_to(y == label, y.shape) for label in classes])
    return np.where(found.any(axis=1), found.argmax(axis=1), -1)


def _code(code_of: dict[Any, int], label: Any) -> int:
    try:
        return code_of.get(label, -1)
    except Exception:
        return -1


def mean_recall(counts: FloatArray) -> float:
    """Mean over the labels of the share of their records that are labelled right.

    Labels with less than half a record are left out, as scikit-learn leaves out those
    that do not occur.

    Parameters
    ----------
    counts : ndarray of shape (n_labels, 2)
        Of each label, labelled right and labelled wrong.
    """
    right, wrong = counts.T
    occurs = right + wrong >= 0.5
    if not occurs.any():
        return 0.0
    return float(np.mean(right[occurs] / (right + wrong)[occurs]))


def f1_of_positive(confusion: FloatArray) -> float:
    """F1 score of the second of two labels."""
    return float(f_scores(confusion)[1])


def f1_macro(confusion: FloatArray) -> float:
    """Mean over the labels of the F1 score of each against the others.

    Labels with less than half a record, true or predicted, are left out, as
    scikit-learn leaves out those that do not occur.
    """
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


RIGHT_OR_WRONG = _cells(
    RecallScoring, _wrong_of, lambda p: (2, *[1] * len(p["classes"])), mean_recall
)


def _intervals(p: Params) -> tuple[int, ...]:
    n = len(p["thresholds"]) - 1
    return n, n - 1, 0


def _predicted(p: Params) -> tuple[int, ...]:
    n = len(p["classes"])  # the next label is as wrong as any other
    return n, *[(label + 1) % n for label in range(n)]


CURVE = _cells(CellScoring, _interval_of, _intervals, roc_auc, is_binary=True)
F1 = _cells(CellScoring, _label_of, _predicted, f1_of_positive, is_binary=True)
F1_MACRO = _cells(CellScoring, _label_of, _predicted, f1_macro)
