"""Ids of users and items: any hashable values, and the codes they get."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import validate_data

from skdp._input import without_data
from skdp._quiet import no_warnings
from skdp.decomposition._ratings import IntArray

_WIDTH = (
    "The X argument must have two columns: the id of a user and the id of an item, a "
    "row for each rating. Got another shape. Use pairs_from_sparse(R) for a matrix."
)
_BAD_IDS = (
    "The ids of the {} must be hashable and not missing. Got others. Leave out rows "
    "without an id."
)


@dataclass(frozen=True, eq=False)
class Ids:
    """The known ids of one kind, in the order of their codes.

    Parameters
    ----------
    kind : {"users", "items"}
    values : ndarray of shape (n_ids,)
        Each once.
    """

    kind: str
    values: NDArray[Any]

    def __len__(self) -> int:
        return len(self.values)

    def codes(self, column: Any) -> IntArray:
        """The code of each id, -1 if it is not known, of shape of `column`.

        Raises
        ------
        TypeError, ValueError
            If an id is no id, or is of a kind that no known id has.
        """
        column = _as_column(column, self.kind)
        # Every row is judged by itself: private scores rely on it.
        strange = _kinds(column) - _kinds(self.values)
        if len(self.values) and strange:
            asked = "texts" if True in strange else "numbers"
            raise TypeError(
                f"The ids of the {self.kind} must be of the kind that fit got. Got "
                f"{asked} for ids of another kind. Convert them as before."
            )
        found = without_data(
            lambda: _places(self.values, column), _BAD_IDS.format(self.kind)
        )
        return np.asarray(found, dtype=np.int32)


def found_ids(column: Any, kind: str) -> tuple[Ids, IntArray]:
    """The ids in a column, sorted if they can be, and the codes of the column."""
    column = _as_column(column, kind)
    found = None
    # Some kinds of ids make pandas warn, which would tell that somebody has one.
    with no_warnings():
        try:
            found = pd.factorize(column, sort=True)
        except TypeError:
            pass
        if found is None:  # not ordered: in the order of their first rows
            found = without_data(lambda: pd.factorize(column), _BAD_IDS.format(kind))
    codes, values = found
    return Ids(kind, np.asarray(values)), codes.astype(np.int32)


def declared_ids(parameter: str, values: Any, kind: str) -> Ids:
    """The ids a user declared; public, each once, in their order."""
    rule = (
        f"The {parameter!r} parameter must be a list of different ids. Got {{}}. "
        "Declare each id once."
    )
    if values is None or isinstance(values, str) or not hasattr(values, "__len__"):
        raise TypeError(rule.format(f"an instance of {type(values).__name__}"))
    column = _as_column(values, kind)
    if not len(column) or _index(column).has_duplicates:
        raise ValueError(rule.format("none" if not len(column) else "one id twice"))
    return Ids(kind, column)


def check_pairs(estimator: Any, X: Any, *, reset: bool) -> tuple[Any, Any]:
    """The columns of users and of items, or an error without an id.

    Parameters
    ----------
    estimator : estimator
        Its ``n_features_in_`` and ``feature_names_in_`` are set or compared.
    X : array-like or data frame of shape (n_ratings, 2)
    reset : bool
        True in ``fit``.
    """
    users, items = split_pairs(X)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return users, items


def split_pairs(X: Any) -> tuple[Any, Any]:
    """The two columns of pairs of ids, or an error without an id."""
    if issparse(X):
        raise TypeError(
            "The X argument must have two columns of ids. Got a sparse matrix of "
            "ratings. Use X, y = pairs_from_sparse(R)."
        )
    if not hasattr(X, "iloc"):
        # As objects: an array of a text and a number would be one of two texts.
        X = X if hasattr(X, "shape") else without_data(lambda: _objects(X), _WIDTH)
        X = np.asarray(X)
        if X.dtype.kind == "c":
            raise ValueError("Complex data not supported. Use other ids.")
    if len(X.shape) != 2 or X.shape[1] != 2:
        raise ValueError(_WIDTH)
    if not len(X):
        raise ValueError("The X argument must have at least one row. Got 0 sample(s).")
    if hasattr(X, "iloc"):
        return X.iloc[:, 0], X.iloc[:, 1]
    return X[:, 0], X[:, 1]


def _objects(rows: Any) -> NDArray[Any]:
    pairs = [tuple(row) for row in rows]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError
    table = np.empty((len(pairs), 2), dtype=object)
    for at, pair in enumerate(pairs):
        table[at, 0], table[at, 1] = pair
    return table


def _as_column(column: Any, kind: str) -> NDArray[Any]:
    """Ids as an array, objects that are all integers as an array of integers.

    What else pandas would infer of all rows together is left: one float among large
    integers would make floats of them, and different ids the same.
    """

    def convert() -> NDArray[Any]:
        if not hasattr(column, "dtype"):
            table = np.empty(len(column), dtype=object)
            table[:] = list(column)
        else:
            table = column
        index = _index(table)
        if index.ndim != 1 or index.hasnans:
            raise ValueError
        hash(index[0]) if len(index) else None
        values = np.asarray(index)
        if values.dtype.kind == "O" and pd.api.types.infer_dtype(values) == "integer":
            try:
                return np.array(values.tolist(), dtype=np.int64)
            except OverflowError:
                return values
        return values

    return np.asarray(without_data(convert, _BAD_IDS.format(kind)))


def _places(known: NDArray[Any], column: NDArray[Any]) -> list[int] | NDArray[Any]:
    """Where each id of the column is among the known ones, -1 if it is not."""
    # As doubles two integers might be one.
    is_alike = (known.dtype.kind == "f") is (column.dtype.kind == "f")
    if is_alike and known.dtype.kind != "O" and column.dtype.kind != "O":
        return np.asarray(_index(known).get_indexer(_index(column)))
    # pandas compares by what it infers of all objects of a column together.
    places = {value: place for place, value in enumerate(_index(known).astype(object))}
    return [places.get(value, -1) for value in _index(column).astype(object)]


def _index(values: Any) -> pd.Index:
    """Without a common dtype for objects, and tuples as they are."""
    dtype = object if np.dtype(object) == getattr(values, "dtype", None) else None
    return pd.Index(values, dtype=dtype, tupleize_cols=False)


def _kinds(values: NDArray[Any]) -> set[bool]:
    """Whether ids are texts: both, if some are and some are not."""
    if values.dtype.kind in "biufmM":
        return {False} if len(values) else set()
    return {isinstance(value, str) for value in values.tolist()}
