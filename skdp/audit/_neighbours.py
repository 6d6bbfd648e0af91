"""Neighbouring tables: the record or user that an audit exchanges."""

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

from skdp._arrays import FloatArray, IntArray, count_rows
from skdp._users import Users
from skdp.audit._models import as_table, deep_value, stacked, taken
from skdp.pipeline._walk import steps_of_users
from skdp.privacy.accounting._relations import OF_USERS, Adjacency
from skdp.tables._memory import MOST_ROWS_OF_A_USER

# --------------------------------------- Neighbours: the record that an audit exchanges
# The first record differs. It is as long as the model lets a row be, and lies along the
# direction that the other records use least, or evenly over all features. Then its
# target changes, or its row, or both, or it is null. If residuals grow with the
# influence of the other records, the worst records contradict them: they lie at an
# angle to the trend of the targets, and the two records differ across it. Fits show
# which of these pairs is easiest to tell apart.


# Cosine of the two rows of "half", at which second moments and intercepts differ most.
_COSINE = -0.25
_FIRST = 0
# Angles between the trend and records that contradict it: of a record that may be null,
# and of two records that are exchanged.
_ANGLES = (0.0, 1.05, 1.3, math.pi / 2)
_TWO_ANGLES = (0.8, 0.8), (1.05, 1.05), (1.3, 1.3), (math.pi / 2, 1.3)
_TINY = 1e-6
# Not a round number, whose last bits could reveal nothing.
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
        The second data set.
    what : str
        How they differ, in words.
    absent : int or None, default=None
        The record that is null in the second data set, which otherwise equals the
        first.
    ids, other_ids : Categorical or None, default=None
        Id of each row's user; both declare the same users. None: rows are records.
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
        """Number of records of either data set, or of users."""
        return np.shape(self.X)[0] if self.ids is None else len(self.ids.categories)


def given_neighbours(X: Any, y: Any, neighbour: Any) -> list[Neighbours]:
    """The pair that the user gives.

    Raises
    ------
    ValueError
        If the two tables differ in shape.
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
    """Candidates, among which fits find the best.

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
    """Pairs of records that replace the first row of a table of numbers."""

    estimator: Any
    X: FloatArray
    y: Any
    is_own: bool

    @property
    def targets(self) -> tuple[Any, Any] | None:
        """A high and a low target; None without targets."""
        return None if self.y is None else _targets(self.estimator, self.y)

    def rows(self) -> Iterator[tuple[str, FloatArray, int]]:
        """Records by their direction, with the number of their target."""
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
        """The direction at an angle to the trend, towards the least used direction."""
        trend = self._trend
        across = self._least_used - (self._least_used @ trend) * trend
        size = float(np.linalg.norm(across))
        across = across / size if size > _TINY else _across(trend)
        return np.asarray(math.cos(angle) * trend + math.sin(angle) * across)

    def gone(self, along: str, row: FloatArray, number: int) -> Neighbours:
        """A pair in which a record is present on one side and null on the other."""
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
        """The direction of high targets, from the records whose targets are high."""
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
    """The row with entries cut to the largest that the model allows."""
    bound = deep_value(estimator, "feature_bound")
    if bound is None or not math.isfinite(float(bound)):
        return row
    return np.asarray(np.clip(row, -float(bound), float(bound)))


def _across(row: FloatArray) -> FloatArray:
    """A row of the same length, at a right angle."""
    other = np.zeros_like(row)
    if row.size == 1:
        return other
    axes = np.argsort(-np.abs(row), kind="stable")[:2]
    other[axes[0]], other[axes[1]] = -row[axes[1]], row[axes[0]]
    scale = float(np.linalg.norm(row)) / max(float(np.linalg.norm(other)), 1e-300)
    return np.asarray(scale * other)


def _targets(estimator: Any, y: Any) -> tuple[Any, Any] | None:
    """Two targets as far apart as possible; None if there is only one."""
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
    """Pairs made of existing rows, for tables that do not hold numbers."""
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
        yield Neighbours(X, y, other, _targets_at(y, order), what)
    targets = None if y is None else _targets(estimator, y)
    if targets is not None:
        first, second = np.array(y), np.array(y)
        first[_FIRST], second[_FIRST] = targets
        yield Neighbours(X, first, X, second, "the first record's target changes")


def _targets_at(y: Any, places: Any) -> Any:
    return None if y is None else np.asarray(y)[places]


# ----------------------------------------- Neighbours: the user that an audit exchanges
# The user of the first row differs. The rows look like the exchanged records above: the
# user is as extreme as one record can be if all of the user's rows are, however many
# there are. The numbers of rows on both sides are private, so several are tried: one,
# several, more than may count, none. Ids declare all users, so that a user without rows
# still counts. In the last pair, a user disappears who contradicts the users before and
# after in the order of ids: if ids are merged, cut or rounded, two users become one.


_SEVERAL, _OTHERS = 20, 3
# Number of pairs of records that contradict each other most.
_CONTRADICTIONS = 4
# If all of these rows counted, each with the weight of the most that may: three users.
_MANY = 3 * MOST_ROWS_OF_A_USER


def declared_ids(
    estimator: Any, X: Any, groups: Any, adjacency: str | None
) -> pd.Categorical | None:
    """Ids that declare all users; None if rows are records.

    Raises
    ------
    ValueError, TypeError
        If there are ids although records are protected, or the other way round, or if
        `groups` are not ids.
    """
    is_of_users = adjacency in OF_USERS or bool(steps_of_users(estimator))
    if groups is None and is_of_users:
        raise ValueError(
            "The groups argument must have the ids of users for an estimator that "
            "protects them. Got None. Pass groups=ids, one for each row of X."
        )
    if groups is not None and not is_of_users:
        raise ValueError(
            "The groups argument must be None for an estimator that protects records. "
            "Got ids. Set its privacy_unit='user', or pass adjacency='replace_user' or "
            "'zero_out_user' if it does not say what it protects."
        )
    return None if groups is None else _declared(groups, X)


def _declared(groups: Any, X: Any) -> pd.Categorical:
    check_in_memory(X)
    Users.of(groups, count_rows(X))  # refuses what are no ids
    return pd.Categorical(groups)


def given_users(X: Any, y: Any, ids: pd.Categorical, neighbour: Any) -> Neighbours:
    """The given pair, whose users are declared on both sides.

    Raises
    ------
    ValueError, TypeError
        If the other is not a table of users with the same columns.
    """
    try:
        other_X, other_y, groups = neighbour
        is_alike = np.shape(other_X)[1:] == np.shape(X)[1:]
        is_alike &= y is None or len(other_y) == count_rows(other_X)
    except (TypeError, ValueError):
        is_alike = False
    if not is_alike:
        raise ValueError(
            "The 'neighbour' parameter must be None or a triple (X, y, ids) with the "
            "columns of the data. Got something else. Copy all three, and exchange the "
            "rows of one user."
        )
    other = _declared(groups, other_X)
    everybody = ids.categories.union(other.categories)
    sides = [each.set_categories(everybody) for each in (ids, other)]
    what = "the neighbour that was given"
    return Neighbours(X, y, other_X, other_y, what, ids=sides[0], other_ids=sides[1])


def chosen_users(
    estimator: Any, X: Any, y: Any, ids: pd.Categorical, adjacency: Adjacency
) -> list[Neighbours]:
    """Candidates, among which fits find the best.

    Parameters
    ----------
    adjacency : {"replace_one", "zero_out"}
        Whether the user's rows are exchanged for any other rows, or for none.

    Raises
    ------
    ValueError
        If nothing can be chosen automatically.
    """
    table = _Table.of(as_table(X), y, ids)
    pairs = table.pairs(estimator, adjacency)
    if adjacency == "replace_one":
        numbers = (1, 1), (_MANY, _OTHERS), (_SEVERAL, 0)
        found = [table.exchanged(pair, _SEVERAL, _OTHERS) for pair in pairs]
        return found + [table.exchanged(pairs[0], *rows) for rows in numbers]
    found = [table.exchanged(pair, _SEVERAL, 0) for pair in pairs]
    found += [table.exchanged(pairs[0], rows, 0) for rows in (1, _MANY)]
    contrary = table.pairs(estimator, "replace_one")[:_CONTRADICTIONS]
    return found + [table.contradicted(pair) for pair in contrary]


@dataclass(frozen=True, eq=False)
class _Table:
    """Rows of users; the first user, who will differ, has one row."""

    X: Any
    y: Any
    codes: IntArray
    users: Any

    @classmethod
    def of(cls, X: Any, y: Any, ids: pd.Categorical) -> _Table:
        codes = ids.codes.astype(np.int64)
        beside = np.flatnonzero(codes != codes[0])
        if not beside.size:
            raise ValueError(
                "A neighbour can be chosen for tables of two users with rows, or more. "
                "Got one. Pass more users, or neighbour=(X, y, ids)."
            )
        places = np.append(0, beside)
        labels = _targets_at(y, places)
        return cls(taken(X, places), labels, codes[places], ids.categories)

    def pairs(self, estimator: Any, adjacency: Adjacency) -> list[Neighbours]:
        """Pairs in which the first row, as a record, is exchanged."""
        return chosen_neighbours(estimator, self.X, self.y, adjacency, is_own=True)

    def exchanged(self, pair: Neighbours, n_rows: int, n_others: int) -> Neighbours:
        """The user with `n_rows` equal rows on one side, `n_others` on the other.

        One row comes before the rows of all other users, and the rest after them.
        """
        beside = np.arange(1, len(self.codes))
        before = _around(beside, np.zeros(n_rows, dtype=np.int64))
        after = _around(beside, np.full(n_others, len(self.codes)))
        what = f"{n_rows} of a user's rows for {n_others or 'none'}; {pair.what}"
        return self._shown(pair, before, after, self._first, what)

    def contradicted(self, pair: Neighbours) -> Neighbours:
        """The user with several rows or none; the users next in order contradict it."""
        nearby = (self._first + np.array([1, -1])) % len(self.users)
        beside = np.flatnonzero(~np.isin(self.codes, [self._first, *nearby]))
        after = np.append(len(self.codes) + np.arange(2), beside)
        before = np.append(np.zeros(_SEVERAL, dtype=np.int64), after)
        what = f"{_SEVERAL} of a user's rows for none, contradicted; {pair.what}"
        return self._shown(pair, before, after, nearby, what)

    @property
    def _first(self) -> int:
        return int(self.codes[0])

    def _shown(
        self, pair: Neighbours, before: IntArray, after: IntArray, more: Any, what: str
    ) -> Neighbours:
        """Two tables of rows of the first table, and of the row exchanged for one.

        Parameters
        ----------
        before, after : ndarray of int
            Indices of rows; an index beyond the last is the exchanged row.
        more : int or ndarray of int
            User of the exchanged row, for each of its copies.
        """
        codes = np.append(self.codes, more)
        again = np.zeros(len(codes) - len(self.codes), dtype=np.int64)
        rows = stacked([pair.X, taken(pair.other_X, again)])
        y = stacked([pair.y, taken(pair.other_y, again)])
        first, second = (
            (
                taken(rows, places),
                taken(y, places),
                pd.Categorical.from_codes(codes[places], categories=self.users),
            )
            for places in (before, after)
        )
        return Neighbours(
            *first[:2], *second[:2], what, ids=first[2], other_ids=second[2]
        )


def _around(beside: IntArray, own: IntArray) -> IntArray:
    return np.concatenate([own[:1], beside, own[1:]])
