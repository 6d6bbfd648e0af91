"""The columns of a table, matched with what is declared of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.utils.validation import validate_data

from skdp._input import without_data
from skdp.columns import Declaration, Range
from skdp.columns._given import Declared


@dataclass(frozen=True)
class Table:
    """A table, column by column.

    Parameters
    ----------
    names : tuple of str
        Of all columns; public. ``x0``, ``x1`` and so on if they have none.
    n_samples : int
    column : callable
        The column at a position; private.
    """

    names: tuple[str, ...]
    n_samples: int
    column: Callable[[int], Any]


def is_frame(X: Any) -> bool:
    """Whether X is a data frame of pandas or polars."""
    return isinstance(X, pd.DataFrame) or _is_polars(X)


def open_table(estimator: Any, X: Any, declared: Declared, *, reset: bool) -> Table:
    """X as a table, or an error before anything is read.

    Parameters
    ----------
    estimator : estimator
        Its ``n_features_in_`` and ``feature_names_in_`` are set or compared; names of
        a frame whose columns are declared by name may come in any order.
    X : data frame or array-like of shape (n_samples, n_columns)
    declared : dict, tuple, or Range
    reset : bool
        True in ``fit``.
    """
    if issparse(X):
        raise TypeError(
            "Sparse data was passed for X, but dense data is required. Use X.toarray()."
        )
    if is_frame(X):
        return _open_frame(estimator, X, declared, reset)
    if hasattr(X, "columns") or hasattr(X, "collect"):
        raise TypeError(
            "The X argument must be a DataFrame of pandas or polars, or an array. Got "
            f"an instance of {type(X).__name__}. Collect or convert it first."
        )
    if isinstance(declared, dict):
        raise TypeError(
            "The X argument must be a data frame if columns are declared by name. Got "
            f"an instance of {type(X).__name__}. Pass the frame as it comes, without a "
            "step before that makes an array of it, or declare a sequence by position."
        )
    return _open_array(estimator, X, reset)


def matched(
    table: Table, declared: Declared, *, is_drop: bool
) -> tuple[tuple[str, ...], tuple[Declaration, ...]]:
    """Names and declarations of the columns to encode.

    Raises
    ------
    ValueError
        If a declared column is not there, or one is there and not declared.
    """
    if isinstance(declared, dict):
        _check_names(table.names, declared, is_drop)
        return tuple(declared), tuple(declared.values())
    if isinstance(declared, tuple) and len(declared) != len(table.names):
        raise ValueError(
            "A sequence of declarations must have one for each column of X. Got "
            f"{len(declared)} for {len(table.names)} columns. Declare each column, or "
            "leave columns out of X."
        )
    return table.names, declared_of(table.names, declared)


def declared_of(names: tuple[str, ...], declared: Declared) -> tuple[Declaration, ...]:
    """The declaration of each of these columns, which are those to encode."""
    if isinstance(declared, dict):
        return tuple(declared.values())
    return declared if isinstance(declared, tuple) else (declared,) * len(names)


def _check_names(names: tuple[str, ...], declared: Any, is_drop: bool) -> None:
    absent = [name for name in declared if name not in names]
    extra = [name for name in names if name not in declared]
    if absent:
        others = f", and {extra}, which are not declared" if extra else ""
        raise ValueError(
            f"The columns of X must be those that are declared. Got none named "
            f"{absent}{others}. Rename columns as declared, or take declarations out."
        )
    if extra and not is_drop:
        raise ValueError(
            f"The columns of X must be declared. Got {extra}, which are not. Take "
            "them out of X, as the target must be, declare them, or have them left out "
            "by TableEncoder(columns, remainder='drop')."
        )


def _is_polars(X: Any) -> bool:
    # By name: polars need not be installed.
    is_polars = type(X).__module__.partition(".")[0] == "polars"
    return is_polars and type(X).__name__ == "DataFrame"


def _open_frame(estimator: Any, X: Any, declared: Declared, reset: bool) -> Table:
    names = list(X.columns)
    if isinstance(declared, tuple):
        raise ValueError(
            "The columns of a data frame must be declared by name. Got a sequence by "
            "position. Use a mapping, or pass an array."
        )
    if len(set(names)) < len(names):
        twice = sorted({str(name) for name in names if names.count(name) > 1})
        raise ValueError(
            f"The columns of X must have different names. Got {twice} more than once. "
            "Rename them."
        )
    if not len(X) or not names:
        raise ValueError(
            f"Found array with {len(X)} sample(s) and {len(names)} feature(s) "
            f"(shape={X.shape}) while a minimum of 1 is required. Pass records."
        )
    if isinstance(declared, Range) or reset:
        without_data(
            lambda: validate_data(estimator, X, reset=reset, skip_check_array=True),
            "The X argument must be a data frame. Got something else.",
        )
    shown = tuple(str(name) for name in names)
    if isinstance(X, pd.DataFrame):
        return Table(shown, len(X), lambda i: X.iloc[:, i])
    return Table(shown, len(X), lambda i: X.get_column(names[i]))


def _open_array(estimator: Any, X: Any, reset: bool) -> Table:
    X = without_data(
        lambda: validate_data(
            estimator, _unmasked(X), reset=reset, dtype=None, ensure_all_finite=False
        ),
        "The X argument must be a table of numbers, strings, truth values or dates. "
        "Got something else. Pass a data frame or an array with rows of equal length.",
    )
    names = tuple(f"x{i}" for i in range(X.shape[1]))
    return Table(names, len(X), lambda i: X[:, i])


def _unmasked(X: Any) -> Any:
    """X with missing cells in place of masked ones, and lists with their own types."""
    if np.ma.isMaskedArray(X):
        X = cast(Any, X)  # NumPy types no masked arrays
        is_float = X.dtype.kind == "f"
        return X.filled(np.nan) if is_float else X.astype(object).filled(None)
    if not isinstance(X, (list, tuple)):
        return X
    plain = np.asarray(X)
    return np.asarray(X, dtype=object) if plain.dtype.kind in "US" else plain
