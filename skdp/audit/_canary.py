"""Neighbouring tables: which record an audit exchanges, and for what.

The first record is the one that differs. It is as long as the model lets a row be, and
lies along the direction that the others use least, or evenly over all features. Then
its target changes, or its row, or both, or it is null. Where residuals grow with what
the others say, the worst records contradict them: they lie at some angle to the trend
of the targets, and the two differ across it. Which of these pairs is told apart best is
found out by fits, not by thought.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.base import is_classifier, is_regressor

from skdp._floats import FloatArray
from skdp.audit._parameters import deep_value
from skdp.privacy._adjacency import Adjacency

# Cosine of the two rows of "half", at which second moments and intercepts differ most.
_COSINE = -0.25
_FIRST = 0
# Between records that contradict the others and their trend: of one that may be null,
# and of two that are exchanged.
_ANGLES = (0.0, 1.05, 1.3, math.pi / 2)
_TWO_ANGLES = (0.8, 0.8), (1.05, 1.05), (1.3, 1.3), (math.pi / 2, 1.3)
_TINY = 1e-6
# A round number has no last bits that could tell.
_ODD = 1 - 1e-6 / math.pi


# X, y, the record that is null, and the ids of users.
Side = tuple[Any, Any, int | None, pd.Categorical | None]


@dataclass(frozen=True)
class Neighbours:
    """Two tables that differ in one record, or in all rows of one user.

    Parameters
    ----------
    X, y : array-like
        The first data set; y may be None.
    other_X, other_y : array-like
        The second.
    what : str
        How they differ, in words.
    absent : int or None, default=None
        The record that is null in the second, which otherwise looks like the first.
    ids, other_ids : Categorical or None, default=None
        Of the user of each row; both declare the same users. None: rows are records.
    """

    X: Any
    y: Any
    other_X: Any
    other_y: Any
    what: str
    absent: int | None = None
    ids: pd.Categorical | None = None
    other_ids: pd.Categorical | None = None

    @property
    def sides(self) -> tuple[Side, Side]:
        return (
            (self.X, self.y, None, self.ids),
            (self.other_X, self.other_y, self.absent, self.other_ids),
        )

    @property
    def n_samples(self) -> int:
        """Records of either data set, or users."""
        return np.shape(self.X)[0] if self.ids is None else len(self.ids.categories)


def given_neighbours(X: Any, y: Any, neighbour: Any) -> list[Neighbours]:
    """The pair that the user gives.

    Raises
    ------
    ValueError
        If the two are not tables of one shape.
    """
    try:
        other_X, other_y = neighbour
        is_alike = np.shape(other_X) == np.shape(X) and np.shape(other_y) == np.shape(y)
    except (TypeError, ValueError):
        is_alike = False
    if not is_alike:
        raise ValueError(
            "The 'neighbour' parameter must be None or a pair (X, y) shaped like the "
            "data. Got something else. Copy both and change one record."
        )
    return [Neighbours(X, y, other_X, other_y, "the neighbour that was given")]


def check_in_memory(X: Any) -> None:
    """Raise unless rows of X can be exchanged.

    Raises
    ------
    ValueError
    """
    if np.ndim(X) != 2 or np.shape(X)[0] < 2:
        raise ValueError(
            "A neighbour can be chosen for tables in memory with two rows or more. Got "
            "another. Read the table into memory, or pass neighbour=(X, y)."
        )


def chosen_neighbours(
    estimator: Any, X: Any, y: Any, adjacency: Adjacency, *, is_own: bool
) -> list[Neighbours]:
    """Candidates, of which fits show the best.

    Parameters
    ----------
    is_own : bool
        Whether the estimator knows null records.

    Raises
    ------
    ValueError
        If nothing can be chosen automatically.
    """
    check_in_memory(X)
    if hasattr(X, "iloc") or issparse(X) or np.asarray(X).dtype.kind not in "fiub":
        return list(_of_rows(estimator, X, y, adjacency, is_own))
    table = np.asarray(X, dtype=np.float64)
    change = _Exchange(estimator, table, y, is_own)
    if adjacency == "zero_out":
        return [change.gone(*row) for row in change.rows()]
    return list(change.exchanged())


def _row_norm(estimator: Any, X: FloatArray) -> float:
    norm = deep_value(estimator, "data_norm")
    if norm is not None and math.isfinite(float(norm)):
        return _ODD * float(norm)
    return _ODD * (float(np.linalg.norm(X, axis=1).max()) or 1.0)


@dataclass(frozen=True)
class _Exchange:
    """Pairs of records that are put first in a table of numbers."""

    estimator: Any
    X: FloatArray
    y: Any
    is_own: bool

    @property
    def targets(self) -> tuple[Any, Any] | None:
        """A high and a low one; None if there are none."""
        return None if self.y is None else _targets(self.estimator, self.y)

    def rows(self) -> Iterator[tuple[str, FloatArray, int]]:
        """Records by what they are along, with the number of their target."""
        norm = _row_norm(self.estimator, self.X)
        signs = np.where(np.arange(self.X.shape[1]) % 2, -1.0, 1.0)
        for name, direction in (
            ("the direction least used", self._least_used),
            ("all features alike", signs / math.sqrt(self.X.shape[1])),
        ):
            yield name, _within(self.estimator, norm * direction), 0
        if self.targets is not None:
            for angle in _ANGLES:
                row = _within(self.estimator, norm * self._at(angle))
                yield f"{_degrees(angle)}, against it", row, 1

    def exchanged(self) -> Iterator[Neighbours]:
        for along, row, number in itertools.islice(self.rows(), 2):
            half = _COSINE * row + math.sqrt(1 - _COSINE**2) * _across(row)
            both = number, number
            yield self._pair(f"{along}: its row is turned round", row, -row, both)
            text = f"{along}: its row is turned by more than a right angle"
            yield self._pair(text, row, half, both)
            if self.targets is not None:
                yield self._pair(f"{along}: its target changes", row, row, (0, 1))
        if self.targets is not None:
            yield from self._contradictions()

    def _contradictions(self) -> Iterator[Neighbours]:
        """Two records that contradict the trend, and differ across it."""
        norm = _row_norm(self.estimator, self.X)
        for angle, other in _TWO_ANGLES:
            rows = norm * self._at(angle), norm * self._at(math.pi - other)
            first, second = (_within(self.estimator, row) for row in rows)
            text = f"{_degrees(angle)}, against it: its row and target change"
            yield self._pair(text, first, second, (1, 0))

    def _at(self, angle: float) -> FloatArray:
        """The direction at an angle to the trend, towards what is least used."""
        trend = self._trend
        across = self._least_used - (self._least_used @ trend) * trend
        size = float(np.linalg.norm(across))
        across = across / size if size > _TINY else _across(trend)
        return np.asarray(math.cos(angle) * trend + math.sin(angle) * across)

    def gone(self, along: str, row: FloatArray, number: int) -> Neighbours:
        """A record that is there or null."""
        text = f"{along}: it is there or null"
        if self.is_own:
            pair = self._pair(text, row, row, (number, number))
            return replace(pair, absent=_FIRST)
        pair = self._pair(text, row, np.zeros_like(row), (number, number))
        if self.y is not None:
            pair.other_y[_FIRST] = _null_target(self.estimator)
        return pair

    def _pair(
        self, text: str, row: FloatArray, other: FloatArray, numbers: tuple[int, int]
    ) -> Neighbours:
        tables, labels = [self.X.copy(), self.X.copy()], [self.y, self.y]
        tables[0][_FIRST], tables[1][_FIRST] = row, other
        if self.targets is not None:
            labels = [np.array(self.y), np.array(self.y)]
            for label, number in zip(labels, numbers, strict=True):
                label[_FIRST] = self.targets[number]
        what = f"a record along {text}"
        return Neighbours(tables[0], labels[0], tables[1], labels[1], what)

    @cached_property
    def _least_used(self) -> FloatArray:
        direction: FloatArray = np.linalg.svd(self.X[1:], full_matrices=True)[2][-1]
        return direction

    @cached_property
    def _trend(self) -> FloatArray:
        """The direction in which the targets are high, of those that are so far."""
        assert self.targets is not None
        is_high = np.asarray(self.y) == self.targets[0]
        if is_regressor(self.estimator):
            numbers = np.asarray(self.y, dtype=np.float64)
            is_high = numbers > np.median(numbers)
        trend = self.X.T @ (is_high - np.mean(is_high))
        size = float(np.linalg.norm(trend))
        return np.asarray(trend / size if size > 0 else np.eye(self.X.shape[1])[0])


def _degrees(angle: float) -> str:
    return f"{math.degrees(angle):.0f} degrees from the trend"


def _within(estimator: Any, row: FloatArray) -> FloatArray:
    """Entries as large as the model lets them be."""
    bound = deep_value(estimator, "feature_bound")
    if bound is None or not math.isfinite(float(bound)):
        return row
    return np.asarray(np.clip(row, -float(bound), float(bound)))


def _across(row: FloatArray) -> FloatArray:
    """As long, at a right angle."""
    other = np.zeros_like(row)
    if row.size == 1:
        return other
    axes = np.argsort(-np.abs(row), kind="stable")[:2]
    other[axes[0]], other[axes[1]] = -row[axes[1]], row[axes[0]]
    scale = float(np.linalg.norm(row)) / max(float(np.linalg.norm(other)), 1e-300)
    return np.asarray(scale * other)


def _targets(estimator: Any, y: Any) -> tuple[Any, Any] | None:
    """Two targets as far apart as can be; None if there is one only."""
    bounds = deep_value(estimator, "target_bounds")
    if bounds is not None and not is_classifier(estimator):
        return float(bounds[1]), float(bounds[0])
    values = np.unique(np.asarray(y))
    return (values[-1], values[0]) if len(values) > 1 else None


def _null_target(estimator: Any) -> float:
    if is_regressor(estimator):
        return 0.0
    raise ValueError(
        "A null record can be chosen for estimators of skdp, and for regressors, of "
        "which a row of zeros with target 0 adds nothing. Got another. Pass "
        "neighbour=(X, y), or adjacency='replace_one'."
    )


def _of_rows(
    estimator: Any, X: Any, y: Any, adjacency: Adjacency, is_own: bool
) -> Iterator[Neighbours]:
    """Pairs made of the rows that are there, for tables that are not of numbers."""
    if adjacency == "zero_out":
        if not is_own:
            raise ValueError(
                "A null record of such a table is not known. Pass neighbour=(X, y)."
            )
        yield Neighbours(X, y, X, y, "the first record is there or null", _FIRST)
        return
    for at in np.linspace(1, X.shape[0] - 1, 3).astype(int):
        order = np.arange(X.shape[0])
        order[_FIRST] = at
        other = X.iloc[order] if hasattr(X, "iloc") else X[order]
        what = f"the first record is exchanged for a copy of record {at}"
        yield Neighbours(X, y, other, _taken(y, order), what)
    targets = None if y is None else _targets(estimator, y)
    if targets is not None:
        first, second = np.array(y), np.array(y)
        first[_FIRST], second[_FIRST] = targets
        yield Neighbours(X, first, X, second, "the first record's target changes")


def _taken(y: Any, order: Any) -> Any:
    return None if y is None else np.asarray(y)[order]
