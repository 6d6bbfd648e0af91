"""Scores over a source, as scikit-learn has them; not private."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier

from skdp.io._table_source import TableSource
from skdp.io._takes import rows_of
from skdp.io._targets import Labels, Numbers


def score_of(model: Any, X: TableSource) -> float:
    """Accuracy of a classifier, R² of a regressor, over what is no null record."""
    X.target_kind()
    return _accuracy(model, X) if is_classifier(model) else _r2(model, X)


def _accuracy(model: Any, X: TableSource) -> float:
    labels, right, n = Labels(model.classes_), 0, 0
    for rows, is_present, columns in rows_of(model, X):
        y, is_known = labels(columns.column(X.target))
        is_right = (model.predict(rows) == model.classes_[y.astype(int)]) & is_known
        right += int(is_right[is_present].sum())
        n += int(is_present.sum())
    return right / max(n, 1)


def _r2(model: Any, X: TableSource) -> float:
    numbers, shift, sums = Numbers(), None, np.zeros(4)
    for rows, is_present, columns in rows_of(model, X):
        y, is_known = numbers(columns.column(X.target))
        there = is_present & is_known
        wrong, y = (y - model.predict(rows))[there], y[there]
        shift = y.mean() if shift is None and len(y) else shift
        moved = y - (0.0 if shift is None else shift)
        sums += [len(y), moved.sum(), np.sum(moved**2), np.sum(wrong**2)]
    n, total, squares, wrong_squares = sums
    return float(1 - wrong_squares / (squares - total**2 / max(n, 1)))
