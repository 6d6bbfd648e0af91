"""Cells of columns, matched with declarations and read."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from numbers import Real
from typing import Any, cast

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.utils.validation import validate_data

from skdp._input import refuse_path, without_data
from skdp.tables._columns import Dates, Declaration, Declared, Range

# ------------------------------------------------------------------ Cells of one column
# The column's library reads them. Errors name columns and kinds, and quote neither
# cells nor the categories that a dtype holds.


WORDS = {
    "number": "numbers",
    "string": "strings",
    "boolean": "truth values",
    "date": "dates",
    "zoned": "dates with a time zone",
    "object": "objects of several types, or of an unsupported one",
    "other": "another dtype",
}
TYPES: dict[str, Any] = {
    "number": Real,
    "string": str,
    "boolean": (bool, np.bool_),
    "date": (date, np.datetime64),
}
_REMEDIES = {
    "number": "Convert it by a fixed rule, as pd.to_numeric, or declare what it holds: "
    "for categories a list of strings.",
    "string": "1 is not '1': convert it with astype(str), or declare what it holds.",
    "boolean": "Convert it to bool, or declare what it holds.",
    "date": "Parse it to a date without a time zone, or declare what it holds.",
}


@dataclass(frozen=True)
class Cells:
    """The cells of one column; private.

    Parameters
    ----------
    kind : str
        Kind of the cells: number, string, boolean or date; zoned, object or other.
    values : ndarray of shape (n_samples,)
        Any value where a cell is missing.
    is_missing : ndarray of bool of shape (n_samples,)
    distinct : (ndarray, ndarray of int) or None, default=None
        Strings that differ, and the index of each cell's string among them.
    """

    kind: str
    values: np.ndarray
    is_missing: np.ndarray
    distinct: tuple[np.ndarray, np.ndarray] | None = None

    def part(self, rows: slice) -> Cells:
        """The cells of some rows."""
        distinct = None
        if self.distinct is not None:
            distinct = self.distinct[0], self.distinct[1][rows]
        return Cells(self.kind, self.values[rows], self.is_missing[rows], distinct)

    def filled(self) -> np.ndarray:
        """The values, with a harmless value of their dtype where a cell is missing."""
        if not self.is_missing.any():
            return self.values
        zero = np.zeros(1, dtype=self.values.dtype)[0]
        return np.where(self.is_missing, zero, self.values)


def read_cells(column: Any, declared: Declaration, name: str) -> Cells:
    """The cells of a column as declared, or an error that names the column.

    Parameters
    ----------
    column : Series of pandas or polars, or ndarray of shape (n_samples,)
    declared : Declaration
    name : str
        For the error.

    Returns
    -------
    Cells
        Of the declared kind: numbers are floats or integers, strings and truth values
        objects, dates datetime64 in microseconds, within the calendar.

    Raises
    ------
    ValueError
        If the column is of another kind, or has missing values that are not declared.
    """
    cells = found_cells(column)
    if cells.kind == "object" and not cells.is_missing.all():
        cells = of_one_type(cells, declared.kind)
    if cells.kind != declared.kind and not cells.is_missing.all():
        raise ValueError(
            f"The column {name!r} must hold {WORDS[declared.kind]}, as declared. Got "
            f"{WORDS[cells.kind]}. {_REMEDIES[declared.kind]}"
        )
    if cells.is_missing.any() and not getattr(declared, "missing", False):
        raise ValueError(
            f"The column {name!r} must have no missing values (NaN, None, null), as "
            f"declared. Got some. Declare {type(declared).__name__}(..., missing=True) "
            "of skdp.columns before fit, which costs nothing, or fill them by a fixed "
            "rule."
        )
    values = plain_values(cells, declared)
    distinct = cells.distinct if declared.kind == "string" else None
    return Cells(declared.kind, values, cells.is_missing, distinct)


def found_cells(column: Any) -> Cells:
    if isinstance(column, pd.Series):
        return _of_pandas(column)
    return _of_array(column) if isinstance(column, np.ndarray) else _of_polars(column)


def _of_pandas(column: pd.Series) -> Cells:
    dtype, is_missing = column.dtype, column.isna().to_numpy(dtype=bool)
    if isinstance(dtype, pd.CategoricalDtype):
        return _of_codes(column, _of_pandas(pd.Series(dtype.categories)))
    if isinstance(dtype, pd.SparseDtype):
        return _of_array(np.asarray(column))
    if isinstance(dtype, np.dtype):
        return _of_array(column.to_numpy())
    if pd.api.types.is_bool_dtype(dtype):
        return Cells("boolean", column.fillna(False).to_numpy(dtype=bool), is_missing)
    if pd.api.types.is_numeric_dtype(dtype):
        numbers = column.fillna(0).to_numpy()
        found = _of_array(numbers if numbers.dtype != object else _floats(numbers))
        return Cells(found.kind, found.values, found.is_missing | is_missing)
    is_arrow = isinstance(dtype, pd.ArrowDtype)
    if is_arrow and str(dtype).startswith("date"):
        # Not by Python's dates, whose calendar is shorter than 32 bits of days.
        return Cells("date", _dates(column), is_missing)
    if pd.api.types.is_datetime64_any_dtype(dtype):
        zone = getattr(dtype, "tz", None) or _arrow_zone(dtype)
        return Cells("zoned" if zone else "date", _dates(column), is_missing)
    is_text = pd.api.types.is_string_dtype(dtype)
    kind = "object" if is_arrow else "other"
    return Cells(
        "string" if is_text else kind, column.to_numpy(dtype=object), is_missing
    )


def _dates(column: pd.Series) -> np.ndarray:
    """Dates of pandas in their unit; a missing date is NaT, or any date."""
    unit = getattr(column.dtype, "unit", None)  # pandas' own, with a time zone
    if unit is None:
        arrow = column.dtype.pyarrow_dtype
        width = arrow.bit_width
        unit = getattr(arrow, "unit", "D" if width == 32 else "ms")  # of date64
        whole = column.astype(f"int{width}[pyarrow]").fillna(0)
        counts = whole.to_numpy(dtype=np.int64)
    else:
        counts = column.astype(np.int64).to_numpy()
    return np.asarray(counts.astype(f"datetime64[{unit}]"))


def _arrow_zone(dtype: Any) -> Any:
    return getattr(getattr(dtype, "pyarrow_dtype", None), "tz", None)


def _of_codes(column: pd.Series, categories: Cells) -> Cells:
    """A categorical column, by the categories that its dtype holds."""
    codes = column.cat.codes.to_numpy()
    if not len(categories.values):
        empty = np.full(len(codes), None, dtype=object)
        return Cells("object", empty, np.ones(len(codes), dtype=bool))
    values, is_text = categories.values, categories.kind == "string"
    distinct = (values, codes) if is_text else None
    return Cells(categories.kind, values[codes], codes < 0, distinct)


def _of_array(column: np.ndarray) -> Cells:
    kind = column.dtype.kind
    if kind in "iuf":
        return Cells("number", column, np.isnan(column))
    if kind == "O":
        return Cells("object", column, np.asarray(pd.isna(column), dtype=bool))
    if kind == "M":
        return Cells("date", column, np.isnat(column))
    found = {"b": "boolean", "U": "string", "T": "string"}.get(kind, "other")
    return Cells(found, column, np.zeros(len(column), dtype=bool))


def _of_polars(column: Any) -> Cells:
    dtype, is_missing = column.dtype, column.is_null().to_numpy()
    family = str(dtype).partition("(")[0]
    if family in ("Date", "Datetime"):
        kind = "zoned" if getattr(dtype, "time_zone", None) else "date"
        return Cells(kind, column.to_numpy(), is_missing)
    if family == "Decimal":
        column = column.cast(float)
    if dtype.is_numeric():
        found = _of_array(column.fill_null(0).to_numpy())
        return Cells(found.kind, found.values, found.is_missing | is_missing)
    texts = dict.fromkeys(("String", "Categorical", "Enum"), "string")
    kinds = {"Boolean": "boolean", "Object": "object", "Null": "object", **texts}
    values = np.empty(len(column), dtype=object)
    values[:] = column.to_list()
    found_kind = kinds.get(family, "other")
    if found_kind == "object":
        is_missing = is_missing | np.asarray(pd.isna(values), dtype=bool)
    return Cells(found_kind, values, is_missing)


def of_one_type(cells: Cells, kind: str) -> Cells:
    """Objects in the declared type, if each of them has this type."""
    present = cells.values[~cells.is_missing]
    is_bool = [isinstance(cell, (bool, np.bool_)) for cell in present]
    if not all(isinstance(cell, TYPES[kind]) for cell in present):
        return cells
    if kind == "number" and any(is_bool):
        return cells
    zones = (getattr(cell, "tzinfo", None) for cell in present)
    is_zoned = kind == "date" and any(zone is not None for zone in zones)
    return Cells("zoned" if is_zoned else kind, cells.values, cells.is_missing)


def plain_values(cells: Cells, declared: Declaration) -> np.ndarray:
    """The values in the dtype that blocks expect."""
    if isinstance(declared, Dates):
        return _points(cells, declared)
    if declared.kind == "number":
        is_object = cells.values.dtype == object
        return _floats(cells.values) if is_object else cells.values
    return cells.values.astype(object)


def _points(cells: Cells, declared: Dates) -> np.ndarray:
    """Points in time in microseconds, clipped to the calendar.

    Parts of a date beyond the declared interval keep their meaning: July is July in
    the year after the last declared one. Blocks clip the time itself as declared.
    """
    ends = np.array([declared.first, declared.last], "datetime64[us]")
    ends = np.array([min(ends[0], _CALENDAR[0]), max(ends[1], _CALENDAR[1])])
    if cells.values.dtype.kind == "M":
        return clipped_dates(cells.values, ends)
    points = np.full(len(cells.values), ends[0])
    for i in np.flatnonzero(~cells.is_missing):
        cell = cells.values[i]
        if not isinstance(cell, np.datetime64):
            cell = _point(cell)
        points[i] = clipped_dates(np.array([cell]), ends)[0]
    return points


def _point(cell: Any) -> np.datetime64:
    """An object that is a date, as NumPy's type; NaT if the object raises."""
    try:
        return np.datetime64(cell, "us")
    except Exception:  # a class that derives from date may raise what it likes
        return np.datetime64("NaT", "us")


# Far from both ends of int64, so that no conversion between units overflows.
_CALENDAR = np.array(["0001-01-01", "9999-12-31T23:59:59.999999"], "datetime64[us]")
# Number of each unit finer than microseconds in one microsecond.
_FINE_UNITS = {"ns": 10**3, "ps": 10**6, "fs": 10**9, "as": 10**12}
_LARGEST = 2**63 - 1


def clipped_dates(dates: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Dates of any unit and any bits, in microseconds and within two ends.

    NaT becomes the first end.

    Dates are clipped first as whole numbers of their unit: the conversion of a date far
    beyond the calendar to microseconds would overflow to an arbitrary date.

    Parameters
    ----------
    dates : ndarray of datetime64 of shape (n_samples,)
    ends : ndarray of datetime64[us] of shape (2,)
        First and last.
    """
    unit, count = np.datetime_data(dates.dtype)
    if unit == "generic":  # which holds nothing but NaT
        return np.full(len(dates), ends[0])
    lowest = -_LARGEST
    if unit in _FINE_UNITS:
        # NumPy rounds down by a subtraction, which would overflow at the lowest date.
        lowest += _FINE_UNITS[unit]
        low, high = (int(end) * _FINE_UNITS[unit] // count for end in ends.astype(int))
    else:
        low, high = ends.astype(dates.dtype).astype(int).tolist()
    # One unit beyond the last end, because the conversion of units rounded it down.
    low, high = (min(max(end, lowest), _LARGEST) for end in (low, high + 1))
    within = np.clip(dates.astype(np.int64), low, high).astype(f"M8[{count}{unit}]")
    return np.asarray(np.clip(within.astype("datetime64[us]"), *ends))


def _floats(values: np.ndarray) -> np.ndarray:
    return np.array([_float(value) for value in values], dtype=np.float64)


def _float(value: Any) -> float:
    """A number as a double; NaN for a missing value and anything else."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        return math.nan


# --------------------------------------- ColumnTable: columns matched with declarations


@dataclass(frozen=True)
class ColumnTable:
    """A table, column by column.

    Parameters
    ----------
    names : tuple of str
        Names of all columns; public. ``x0``, ``x1`` and so on if they have none.
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


def open_table(
    estimator: Any, X: Any, declared: Declared, *, reset: bool
) -> ColumnTable:
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
    refuse_path(X)
    if isinstance(declared, dict):
        raise TypeError(
            "The X argument must be a data frame if columns are declared by name. Got "
            f"an instance of {type(X).__name__}. Pass the frame as it comes, without a "
            "step before that makes an array of it, or declare a sequence by position."
        )
    return _open_array(estimator, X, reset)


def matched(
    table: ColumnTable, declared: Declared, *, is_drop: bool
) -> tuple[tuple[str, ...], tuple[Declaration, ...]]:
    """Names and declarations of the columns to encode.

    Raises
    ------
    ValueError
        If a declared column is absent, or a column is not declared.
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
    """The declaration of each of these columns, all of which are encoded."""
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
            f"{absent}{others}. Pass all declared columns, with the declared names; "
            "before fit, a declaration can be taken out."
        )
    if extra and not is_drop:
        raise ValueError(
            f"The columns of X must be declared. Got {extra}, which are not. Take "
            "them out of X (the target does not belong in X), declare them, or use "
            "TableEncoder(columns, remainder='drop'), which leaves them out."
        )


def _is_polars(X: Any) -> bool:
    # By name: polars need not be installed.
    is_polars = type(X).__module__.partition(".")[0] == "polars"
    return is_polars and type(X).__name__ == "DataFrame"


def _open_frame(estimator: Any, X: Any, declared: Declared, reset: bool) -> ColumnTable:
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
        return ColumnTable(shown, len(X), lambda i: X.iloc[:, i])
    return ColumnTable(shown, len(X), lambda i: X.get_column(names[i]))


def _open_array(estimator: Any, X: Any, reset: bool) -> ColumnTable:
    X = without_data(
        lambda: validate_data(
            estimator, _unmasked(X), reset=reset, dtype=None, ensure_all_finite=False
        ),
        "The X argument must be a table of numbers, strings, truth values or dates. "
        "Got something else. Pass a data frame or an array with rows of equal length.",
    )
    names = tuple(f"x{i}" for i in range(X.shape[1]))
    return ColumnTable(names, len(X), lambda i: X[:, i])


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
