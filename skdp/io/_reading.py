"""How cells of record batches are read, and which of them make a row null."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp.tables._columns import Categories

# ----------------------------------------------------- Kinds and cells of Arrow columns
# The value of a cell follows from this cell and the type of its column alone.


# Values that replace those of a column where nothing is read; public.
_ZEROS: dict[str, Any] = {
    "number": 0.0,
    "boolean": False,
    "string": "",
    "date": np.datetime64("2000-01-01", "us"),
}


def arrow() -> Any:
    """The module pyarrow, or an error that says how to install it."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError(
            "Sources need pyarrow. Got none. Install it: pip install skdp[io]."
        ) from None
    return pyarrow


def kind_of(dtype: Any) -> str:
    """Kind of the cells of an Arrow type: number, string, boolean, date or other."""
    types = arrow().types
    if types.is_dictionary(dtype):
        dtype = dtype.value_type
    if types.is_integer(dtype) or types.is_floating(dtype) or types.is_decimal(dtype):
        return "number"
    if types.is_boolean(dtype):
        return "boolean"
    is_text = types.is_string(dtype) or types.is_large_string(dtype)
    if is_text or str(dtype) == "string_view":
        return "string"
    is_point = types.is_timestamp(dtype) and dtype.tz is None
    return "date" if is_point or types.is_date(dtype) else "other"


def is_exact(dtype: Any) -> bool:
    """Whether cells of an Arrow type have the same text in every engine."""
    return bool(arrow().types.is_integer(dtype)) or kind_of(dtype) == "string"


def is_single(dtype: Any) -> bool:
    """Whether cells of an Arrow type are floats in single precision or less."""
    types = arrow().types
    return bool(types.is_float32(dtype) or types.is_float16(dtype))


def sample_row(dtype: Any, declared: Any) -> pd.Series:
    """One cell of an Arrow type that a declaration allows; nothing is read."""
    kind = _kind_as_read(dtype, declared)
    value = _ZEROS.get(kind, ())
    if declared is not None and declared.kind == kind:
        value = _allowed(declared, value)
    if kind == "number":
        return pd.Series([value], dtype=np.float32 if is_single(dtype) else np.float64)
    if kind == "other":
        cells = np.empty(1, dtype=object)
        cells[0] = value
        return pd.Series(cells)
    return pd.Series([value])


def _kind_as_read(dtype: Any, declared: Any) -> str:
    """The kind as which cells are read: undeclared truth values are numbers 0 and 1.

    A missing cell is then a number as well. Beside truth values it would turn the
    column into objects, for the sake of one cell.
    """
    kind = kind_of(dtype)
    return "number" if kind == "boolean" and declared is None else kind


def _allowed(declared: Any, otherwise: Any) -> Any:
    """A value that a declaration allows."""
    for name in ("values", "low", "first"):
        found = getattr(declared, name, None)
        if found is not None:
            value = found[0] if isinstance(found, tuple) else found
            is_date = declared.kind == "date"
            return np.datetime64(value, "us") if is_date else value
    return otherwise


def numbers(array: Any) -> np.ndarray:
    """Cells as floats, NaN if missing: float32 stays, other types become double."""
    pa = arrow()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_float16(array.type):
        array = array.cast(pa.float32())
    if pa.types.is_float32(array.type):
        return np.asarray(array.to_numpy(zero_copy_only=False))
    if not pa.types.is_float64(array.type):
        array = array.cast(pa.float64(), safe=False)
    return np.asarray(array.to_numpy(zero_copy_only=False))


def as_bytes(array: Any) -> Any:
    """Text as its stored bytes, which need not be valid."""
    pa = arrow()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array.cast(pa.large_binary())


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode("utf-8")
    except UnicodeDecodeError:
        return None


def cells(array: Any, declared: Any) -> tuple[Any, np.ndarray]:
    """Cells as a column of a data frame, and which of them are missing.

    The type of the column follows from that of the array and from the declaration, and
    never from the cells.
    """
    kind = _kind_as_read(array.type, declared)
    if kind == "number":
        found = numbers(array)
        return found, np.isnan(found)
    is_missing = np.asarray(array.is_null().to_numpy(zero_copy_only=False))
    if kind == "boolean":
        plain = array.fill_null(False).to_numpy(zero_copy_only=False)
        return pd.arrays.BooleanArray(np.asarray(plain), is_missing), is_missing
    if kind == "string":
        text = as_bytes(array).dictionary_encode()
        codes = text.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        texts = [_decoded(value) for value in text.dictionary.to_pylist()]
        # A null in a dictionary, and anything that is no text, is missing.
        is_text = np.array([value is not None for value in texts], dtype=bool)
        places = np.where(is_text, np.cumsum(is_text, dtype=np.int64) - 1, -1)
        codes = np.append(places, -1)[codes]
        values = pd.Index([v for v in texts if v is not None], dtype="str")
        return pd.Categorical.from_codes(codes, values), np.asarray(codes < 0)
    points = array.to_numpy(zero_copy_only=False)
    # pandas has no unit of days. Counts of days have 32 bits, and as seconds they fit
    # 64.
    is_of_days = np.datetime_data(points.dtype)[0] == "D"
    return points.astype("datetime64[s]") if is_of_days else points, is_missing


# --------------------------------------------------- CellRule and Reading: null records
# The result is a table of allowed cells, for the code that reads tables in memory: a
# row that could not be read holds stand-ins, and is marked as not present.


@dataclass(frozen=True)
class CellRule:
    """Which cells of one column are allowed; public.

    Parameters
    ----------
    declared : Declaration or None
    sample_row : Any
        Replaces cells that are not allowed.
    allows_missing, allows_infinity : bool
    refuses_unknown : bool, default=False
        Whether a category that is not declared makes a row a null record.
    """

    declared: Any
    sample_row: Any
    allows_missing: bool
    allows_infinity: bool
    refuses_unknown: bool = False

    def cleaned(self, array: Any) -> tuple[Any, NDArray[np.bool_]]:
        """The column of a data frame, and which of its cells were allowed."""
        column, is_missing = cells(array, self.declared)
        is_fine = np.ones(len(array), dtype=bool)
        if not self.allows_missing:
            is_fine &= ~is_missing
        if isinstance(column, np.ndarray) and column.dtype.kind == "f":
            if not self.allows_infinity:
                is_fine &= ~np.isinf(column)
        elif self.refuses_unknown and isinstance(self.declared, Categories):
            is_fine &= is_missing | column.isin(list(self.declared.values))
        return self._filled(column, is_fine), is_fine

    def _filled(self, column: Any, is_fine: NDArray[np.bool_]) -> Any:
        if isinstance(column, pd.Categorical):
            if self.sample_row not in column.categories:
                column = column.add_categories([self.sample_row])
            return column if is_fine.all() else _at(column, ~is_fine, self.sample_row)
        if is_fine.all():
            return column
        is_date = isinstance(column, np.ndarray) and column.dtype.kind == "M"
        # Not every unit of dates can hold every declared date; all units have a zero.
        value = np.zeros((), column.dtype) if is_date else self.sample_row
        return _at(column, ~is_fine, value)


def _at(column: Any, places: NDArray[np.bool_], value: Any) -> Any:
    changed = column.copy()
    changed[places] = value
    return changed


@dataclass(frozen=True)
class Reading:
    """How an estimator reads the columns of a source; public.

    Parameters
    ----------
    names : tuple of str
        Columns that are read.
    rules : mapping of str to CellRule
    is_single : bool
        Whether all columns are numbers in single precision.
    is_numeric : bool
        Whether all columns are undeclared numbers.
    """

    names: tuple[str, ...]
    rules: Mapping[str, CellRule]
    is_single: bool
    is_numeric: bool

    def cleaned(self, batch: Any) -> tuple[pd.DataFrame, NDArray[np.bool_]]:
        """A batch as a table of allowed cells, and which of its rows are present."""
        if self.is_numeric:
            return self._numbers(batch)
        is_present = np.ones(batch.num_rows, dtype=bool)
        columns = {}
        for name in self.names:
            columns[name], is_fine = self.rules[name].cleaned(batch.column(name))
            is_present &= is_fine
        return pd.DataFrame(columns), is_present

    def _numbers(self, batch: Any) -> tuple[pd.DataFrame, NDArray[np.bool_]]:
        dtype = np.float32 if self.is_single else np.float64
        rows = np.empty((batch.num_rows, len(self.names)), dtype=dtype)
        for i, name in enumerate(self.names):
            rows[:, i] = numbers(batch.column(name))
        is_finite: Any = np.isfinite(rows)
        is_present: NDArray[np.bool_] = np.ones(len(rows), dtype=bool)
        if not is_finite.all():
            is_present = is_finite.all(axis=1)
            rows[~is_present] = 0.0
        return pd.DataFrame(rows, columns=list(self.names), copy=False), is_present


def reading_of(
    schema: Any,
    names: tuple[str, ...],
    declared: Any = None,
    *,
    refuses_unknown: bool = False,
    allows_missing: bool = False,
) -> Reading:
    """How columns are read by their declarations; undeclared ones are numbers.

    Parameters
    ----------
    schema : Schema of Arrow
    names : tuple of str
        Columns of the source that are features.
    declared : dict, tuple, Range or None
        In full form.
    refuses_unknown : bool
        Whether categories that are not declared make a row a null record.
    allows_missing : bool
        Whether the reader takes missing values in undeclared columns.
    """
    if isinstance(declared, dict):
        names = tuple(name for name in names if name in declared)
    each = {name: declared_at(declared, i, name) for i, name in enumerate(names)}
    rules = {
        name: _rule(schema.field(name).type, one, refuses_unknown, allows_missing)
        for name, one in each.items()
    }
    types = [schema.field(name).type for name in names]
    is_numeric = declared is None and not allows_missing
    return Reading(names, rules, all(map(is_single, types)), is_numeric)


def declared_at(declared: Any, place: int, name: str) -> Any:
    """The declaration of one column."""
    if isinstance(declared, dict):
        return declared.get(name)
    return declared[place] if isinstance(declared, tuple) else declared


def _rule(
    dtype: Any, declared: Any, refuses_unknown: bool, allows_missing: bool
) -> CellRule:
    value = sample_row(dtype, declared).iloc[0]
    if declared is None:
        return CellRule(None, value, allows_missing, allows_infinity=False)
    is_optional = bool(getattr(declared, "missing", False))
    return CellRule(declared, value, is_optional, True, refuses_unknown)


# ------------------------------------------------------------------ Targets of a source
# Labels become their declared number; numbers follow a public rule.


# Kind of stored labels, for each kind of NumPy array.
_KINDS = {"i": "number", "u": "number", "f": "number", "b": "boolean"}


class Targets(Protocol):
    """The target of a record, from this record alone."""

    def __call__(self, array: Any) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Targets as doubles, and which of them could be read."""
        ...


@dataclass(frozen=True, eq=False)
class Labels:
    """Each label's index in the declared labels; other labels make a null record.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        Sorted; public.
    """

    classes: np.ndarray

    @property
    def kind(self) -> str:
        """Kind of the labels: number, boolean or string."""
        return _KINDS.get(self.classes.dtype.kind, "string")

    def __call__(self, array: Any) -> tuple[FloatArray, NDArray[np.bool_]]:
        if self.kind == "string":
            return self._of_text(array)
        values = numbers(array)
        classes = self.classes.astype(np.float64)
        codes = np.minimum(np.searchsorted(classes, values), len(classes) - 1)
        is_known = classes[codes] == values
        return np.where(is_known, codes, 0).astype(np.float64), is_known

    def _of_text(self, array: Any) -> tuple[FloatArray, NDArray[np.bool_]]:
        import pyarrow.compute as pc

        pa = arrow()
        labels = [str(label).encode() for label in self.classes]
        known = pa.array(labels, pa.large_binary())
        codes = pc.index_in(as_bytes(array), value_set=known, skip_nulls=True)
        codes = codes.fill_null(-1).to_numpy(zero_copy_only=False)
        return np.maximum(codes, 0).astype(np.float64), codes >= 0


@dataclass(frozen=True, eq=False)
class NumberTargets:
    """Finite numbers, changed by a public rule; others make a null record.

    Parameters
    ----------
    then : callable or None, default=None
        From an array of numbers to an array, number by number.
    """

    then: Callable[[FloatArray], FloatArray] | None = None
    kind = "number"

    def __call__(self, array: Any) -> tuple[FloatArray, NDArray[np.bool_]]:
        values = numbers(array).astype(np.float64)
        is_finite = np.isfinite(values)
        values = np.where(is_finite, values, 0.0)
        return (values if self.then is None else self.then(values)), is_finite
