"""Columns of Arrow: of what kind they are, and their cells for NumPy and pandas.

What a cell becomes follows from that cell and the type of its column alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

# Values that stand in for those of a column where nothing is read; public.
_ZEROS: dict[str, Any] = {
    "number": 0.0,
    "boolean": False,
    "string": "",
    "date": np.datetime64("2000-01-01", "us"),
}


def arrow() -> Any:
    """The module pyarrow, or how to install it."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError(
            "Sources need pyarrow. Got none. Install it: pip install skdp[io]."
        ) from None
    return pyarrow


def kind_of(dtype: Any) -> str:
    """What cells of an Arrow type are: number, string, boolean, date or other."""
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
    """Whether cells of an Arrow type are the same text in every engine."""
    return bool(arrow().types.is_integer(dtype)) or kind_of(dtype) == "string"


def is_single(dtype: Any) -> bool:
    """Whether cells of an Arrow type are floats in single precision or less."""
    types = arrow().types
    return bool(types.is_float32(dtype) or types.is_float16(dtype))


def stand_in(dtype: Any, declared: Any) -> pd.Series:
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
    """As what cells are read: truth values of which nothing is declared as 0 and 1.

    A missing one is a number then as well. Beside truth values it would make a column
    of objects, for the sake of one cell.
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
    """Cells as floats, NaN for what is missing: float32 stays, all else is double."""
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
    """Text as it is stored: nothing of it need be valid."""
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
        # What is no text, or null in a dictionary, is missing.
        is_text = np.array([value is not None for value in texts], dtype=bool)
        places = np.where(is_text, np.cumsum(is_text, dtype=np.int64) - 1, -1)
        codes = np.append(places, -1)[codes]
        values = pd.Index([v for v in texts if v is not None], dtype="str")
        return pd.Categorical.from_codes(codes, values), np.asarray(codes < 0)
    points = array.to_numpy(zero_copy_only=False)
    # pandas has no days. Their counts are of 32 bits, which seconds of 64 bits hold.
    is_of_days = np.datetime_data(points.dtype)[0] == "D"
    return points.astype("datetime64[s]") if is_of_days else points, is_missing
