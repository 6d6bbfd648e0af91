"""Ids of users and items: any hashable values, and the codes they get."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real
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
_ROUNDED = (
    "The ids of the {} must not be floats so large that they may stand for several "
    "integers, from 2**53 on in double precision. Got one. Give integers or texts."
)
_NO_TEXT = (
    "The ids of the {} must be numbers, texts, dates, or other objects with a text of "
    "their own. Got one whose text is its place in memory. Give integers or texts."
)


@dataclass(frozen=True, eq=False)
class Ids:
    """The known ids of one kind, in the order of their codes.

    Each of `values`, of shape (n_ids,), is there once.
    """

    kind: str
    values: NDArray[Any]

    def __len__(self) -> int:
        return len(self.values)

    def codes(self, column: Any) -> IntArray:
        """The code of each id, -1 if it is not known, of shape of `column`.

        Raises `TypeError` or `ValueError` if an id is no id, or is of a kind that no
        known id has.
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

    def texts(self) -> list[str]:
        """A text of each id, the same for 5 and 5.0 and whatever array they are in.

        Raises `TypeError` or `ValueError` if an id has no text but its place in memory,
        which others may decide.
        """
        found: list[str] = without_data(
            lambda: [_text(value) for value in _objects_of(self.values)],
            _NO_TEXT.format(self.kind),
        )
        return found


def found_ids(column: Any, kind: str) -> tuple[Ids, IntArray]:
    """The ids in a column, sorted if they can be, and the codes of the column.

    Whether two rows have one id follows from these two ids, whoever else is there.
    """
    column = _as_column(column, kind)
    # Some kinds of ids warn when compared, which would tell that somebody has one.
    with no_warnings():
        values, codes = without_data(lambda: _distinct(column), _BAD_IDS.format(kind))
    return Ids(kind, values), codes.astype(np.int32)


def declared_ids(parameter: str, values: Any, kind: str) -> Ids:
    """The ids a user declared; public, each once, in their order."""
    rule = (
        f"The {parameter!r} parameter must be a list of different ids. Got {{}}. "
        "Declare each id once."
    )
    if values is None or isinstance(values, str) or not hasattr(values, "__len__"):
        raise TypeError(rule.format(f"an instance of {type(values).__name__}"))
    column = _as_column(values, kind)
    if not len(column) or len(found_ids(column, kind)[0]) < len(column):
        raise ValueError(rule.format("none" if not len(column) else "one id twice"))
    return Ids(kind, column)


def check_pairs(estimator: Any, X: Any, *, reset: bool) -> tuple[Any, Any]:
    """The columns of users and of items, or an error without an id.

    True `reset` is for ``fit``, and sets the estimator's ``n_features_in_`` and
    ``feature_names_in_``; otherwise they are compared.
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
        index = _index(column if hasattr(column, "dtype") else _object_array(column))
        if index.ndim != 1 or index.hasnans:
            raise ValueError
        hash(index[0]) if len(index) else None
        values = np.asarray(index)
        if values.dtype.kind != "O":
            return values
        if pd.api.types.infer_dtype(values) == "integer":
            try:
                return np.array(values.tolist(), dtype=np.int64)
            except OverflowError:
                pass
        return _object_array(_plain(value) for value in values)

    values = np.asarray(without_data(convert, _BAD_IDS.format(kind)))
    if without_data(lambda: _may_be_rounded(values), _BAD_IDS.format(kind)):
        raise ValueError(_ROUNDED.format(kind))
    return values


def _distinct(column: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Each id once, in order, and the place of each row's id among them."""
    if column.dtype.kind != "O":
        codes, values = pd.factorize(column, sort=True)
        return np.asarray(values), codes
    # pandas tells objects apart by what it infers of all of them together.
    first: dict[Any, int] = {}
    found = [first.setdefault(value, len(first)) for value in column]
    values, codes = _object_array(first), np.array(found, dtype=np.int64)
    try:
        keys = [(isinstance(value, str), value) for value in first]
        order = np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)
    except TypeError:  # not ordered: as they came
        return values, codes
    return values[order], np.argsort(order)[codes]


def _plain(value: Any) -> Any:
    """An id without NumPy's type: some of these equal what does not equal each other.

    A duration of 5 is one of 5 seconds and one of 5 days.
    """
    if isinstance(value, np.datetime64):
        return pd.Timestamp(value)
    if isinstance(value, np.timedelta64):
        return pd.Timedelta(value)
    return value.item() if isinstance(value, np.generic) else value


def _may_be_rounded(values: NDArray[Any]) -> bool:
    """Whether there is a float that is what several integers would be rounded to."""
    if values.dtype.kind in "fc":
        limit = 2.0 ** (np.finfo(values.dtype).nmant + 1)
        return bool((np.abs(values) >= limit).any())
    kinds: Any = (float, complex, np.inexact)
    return values.dtype.kind == "O" and any(
        isinstance(value, kinds) and abs(value) >= 2.0**53 for value in values
    )


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(_text(part) for part in value)})"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(_text(part) for part in value))}}}"
    kind: Any = type(value)
    if issubclass(kind, Real) and value == int(value):
        return str(int(value))
    if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
        raise TypeError
    return str(value)


def _places(known: NDArray[Any], column: NDArray[Any]) -> list[int] | NDArray[Any]:
    """Where each id of the column is among the known ones, -1 if it is not."""
    # As doubles two integers might be one, and True is 1 among objects only.
    kinds = {known.dtype.kind, column.dtype.kind}
    if kinds == {"i", "u"} or (len(kinds) == 1 and "O" not in kinds):
        return np.asarray(_index(known).get_indexer(_index(column)))
    # pandas compares by what it infers of all objects of a column together.
    places = {value: place for place, value in enumerate(_objects_of(known))}
    return [places.get(value, -1) for value in _objects_of(column)]


def _objects_of(values: NDArray[Any]) -> list[Any]:
    """The ids as objects of Python and pandas."""
    return list(_index(values).astype(object))


def _object_array(values: Iterable[Any]) -> NDArray[Any]:
    """One-dimensional, whatever the values are."""
    values = list(values)
    table = np.empty(len(values), dtype=object)
    for at, value in enumerate(values):  # NumPy would look into tuples
        table[at] = value
    return table


def _index(values: Any) -> pd.Index:
    """Without a common dtype for objects and texts, and tuples as they are."""
    kind = getattr(getattr(values, "dtype", None), "kind", "")
    dtype = object if kind in ("O", "U", "S") else None
    return pd.Index(values, dtype=dtype, tupleize_cols=False)


def _kinds(values: NDArray[Any]) -> set[bool]:
    """Whether ids are texts: both, if some are and some are not."""
    if values.dtype.kind in "biufmM":
        return {False} if len(values) else set()
    return {isinstance(value, str) for value in values.tolist()}
