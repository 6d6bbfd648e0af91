"""Scores over a source, as scikit-learn has them; not private."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import mean_tweedie_deviance
from sklearn.pipeline import Pipeline

from skdp._floats import FloatArray
from skdp._rows import rows_in_places
from skdp.data import Elsewhere
from skdp.io._passes import rows_of, rows_of_each, targets_too
from skdp.io._rows import check_kind
from skdp.io._table_source import TableSource
from skdp.io._targets import Labels, Numbers


def score_of(model: Any, X: TableSource) -> float:
    """Accuracy of a classifier, R² or D² of a regressor, without null records."""
    X.target_kind()
    if is_classifier(model):
        return _accuracy(model, X)
    power = _deviance_power(model)
    return _r2(model, X) if power is None else _d2(model, X, power)


def default_score(model: Any) -> str:
    """What `score_of` the model, or of a pipeline that ends with it, is called."""
    if is_classifier(model):
        return "accuracy"
    last = model[-1] if isinstance(model, Pipeline) else model
    return "r2" if _deviance_power(last) is None else "d2"


def _deviance_power(model: Any) -> int | None:
    power: int | None = getattr(model, "_deviance_power", None)
    return power


def _accuracy(model: Any, X: TableSource) -> float:
    labels, right, n = Labels(model.classes_), 0, 0
    for rows, is_present, columns in rows_of(model, X, targets_too(X)):
        y, is_known = labels(columns.column(X.target))
        is_right = (model.predict(rows) == model.classes_[y.astype(int)]) & is_known
        right += int(is_right[is_present].sum())
        n += int(is_present.sum())
    return right / max(n, 1)


def _r2(model: Any, X: TableSource) -> float:
    numbers, shift, sums = Numbers(), None, np.zeros(4)
    for rows, is_present, columns in rows_of(model, X, targets_too(X)):
        y, is_known = numbers(columns.column(X.target))
        there = is_present & is_known
        wrong, y = (y - model.predict(rows))[there], y[there]
        shift = y.mean() if shift is None and len(y) else shift
        moved = y - (0.0 if shift is None else shift)
        sums += [len(y), moved.sum(), np.sum(moved**2), np.sum(wrong**2)]
    n, total, squares, wrong_squares = sums
    return float(1 - wrong_squares / (squares - total**2 / max(n, 1)))


def _d2(model: Any, X: TableSource, power: int) -> float:
    """Deviances about the mean are those about 1, less the mean's own, n times.

    In units of the highest mean, which is public: D² has no units, and deviances about
    a 1 that is far from all targets would cancel to nothing.
    """
    numbers, sums, unit = Numbers(), np.zeros(4), math.exp(model._log_bounds[1])
    for rows, is_present, columns in rows_of(model, X, targets_too(X)):
        y, is_known = numbers(columns.column(X.target))
        there = is_present & is_known
        if not there.any():
            continue
        y, found = y[there] / unit, model.predict(rows)[there] / unit
        n = len(y)
        left = mean_tweedie_deviance(y, found, power=power)
        about_one = mean_tweedie_deviance(y, np.ones(n), power=power)
        sums += [n, y.sum(), n * left, n * about_one]
    count, total, wrong, about_one = sums
    of_mean = mean_tweedie_deviance([total / max(count, 1)], [1.0], power=power)
    return float(1 - wrong / (about_one - count * of_mean))


class SourceScores:
    """Records of a source, for what asks what a model is worth on them, or several.

    Parameters
    ----------
    X : TableSource
    """

    def __init__(self, X: TableSource) -> None:
        self.X, self.n_samples = X, X.n_samples
        self.largest_block = min(X.batch_size, X.n_samples)

    def __reduce__(self) -> tuple[Any, ...]:
        # The number of records is that of the table where it arrives.
        return type(self), (self.X,)

    @property
    def elsewhere(self) -> Elsewhere | None:
        """Where records of several owners are scored; None if they come here."""
        return self.X.elsewhere if self.X.is_shared else None

    def statistic(self, scorer: Any, model: Any) -> FloatArray:
        """The exact statistic on what is no null record. Private.

        Of a fitted model, or of a tuple of them that are compared.
        """
        total, read = np.zeros(scorer.size), _targets_of(scorer, model)
        passed = rows_of_each if isinstance(model, tuple) else rows_of
        for rows, is_present, columns in passed(model, self.X, targets_too(self.X)):
            y, is_known = read(columns.column(self.X.target))
            there = is_present & is_known
            if not there.any():
                continue
            # In a block of the same shape: no other row's last bits may depend on
            # whether one is there. What stands in its place counts nothing.
            places = np.where(there, np.arange(len(there)), np.argmax(there))
            y = y[places]
            if isinstance(read, Labels):
                y = read.classes[y.astype(int)]
            some = rows_in_places(rows, places)
            total += scorer.statistic(model, some, y, 1.0 * there)
        return total


def scores_of(
    X: TableSource, scorer: Any, model: Any, *, is_private: bool
) -> SourceScores:
    """Records to be scored, or an error before any is read."""
    if not is_private:
        raise ValueError(
            "The 'epsilon' argument must be finite with a source. Got inf. Use "
            "model.score(source), which is not private."
        )
    if X.groups is not None:
        raise ValueError(
            "The source must be of records for a private score, without groups=. Got "
            "one of users. Make another source without groups."
        )
    read = _targets_of(scorer, model)
    check_kind(X, read.kind, "The targets of a score")
    return SourceScores(X)


def _targets_of(scorer: Any, model: Any) -> Labels | Numbers:
    classes = getattr(scorer, "classes", None)
    if classes is None and isinstance(model, tuple):
        classes = np.concatenate([each.classes_ for each in model])
    elif classes is None and is_classifier(model):
        classes = model.classes_
    return Numbers() if classes is None else Labels(np.unique(np.asarray(classes)))
