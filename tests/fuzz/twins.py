"""Broken twins: mends taken back, each of which the fuzzer must find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

from skdp._quiet import no_warnings
from skdp.io import _external, _reading
from skdp.model_selection import _candidates, _scorer_sums
from skdp.preprocessing import _blocks, _cells, _encoder

_read_cells = _reading.cells
Patch = tuple[Any, str, Any]


def _cells_by_lists(array: Any, declared: Any) -> Any:
    """Places of texts are counted in a list, whose type is of floats if it is empty."""
    if _reading.kind_of(array.type) != "string":
        return _read_cells(array, declared)
    text = _reading.as_bytes(array).dictionary_encode()
    codes = text.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    texts = [_reading._decoded(value) for value in text.dictionary.to_pylist()]
    places = np.cumsum([value is not None for value in texts]) - 1
    places[[value is None for value in texts]] = -1
    codes = np.append(places, -1)[codes]
    values = pd.Index([v for v in texts if v is not None], dtype="str")
    return pd.Categorical.from_codes(codes, values), np.asarray(codes < 0)


def _kind_of_type(dtype: Any, declared: Any) -> str:
    return _reading.kind_of(dtype)


def _swallowed(work: Callable[[], Any]) -> Any:
    """A fit that fails leaves a model that is not fitted, and the search goes on."""
    try:
        return work()
    except Exception:
        return None


def _points_anywhere(cells: Any, declared: Any) -> np.ndarray:
    """Dates in their unit, however far they are."""
    if cells.values.dtype.kind == "M":
        return np.asarray(cells.values)
    dates = np.full(len(cells.values), np.datetime64("NaT", "us"))
    for i in np.flatnonzero(~cells.is_missing):
        dates[i] = np.datetime64(cells.values[i], "us")
    return dates


def _encoded_unchecked(block: Any, cells: Any) -> Any:
    return block.shares(cells)


# By name, what stood in place of each mend.
MENDS: dict[str, Callable[[], list[Patch]]] = {
    "texts": lambda: [(_reading, "cells", _cells_by_lists)],
    "booleans": lambda: [(_reading, "_kind_as_read", _kind_of_type)],
    "searches": lambda: [(_candidates, "_ended_in_one_way", _swallowed)],
    "dates": lambda: [
        (_cells, "_points", _points_anywhere),
        (_blocks, "encoded", _encoded_unchecked),
        (_encoder, "encoded", _encoded_unchecked),
    ],
    "prints": lambda: [
        (module, "silence", no_warnings)
        for module in (_scorer_sums, _external, _candidates)
    ],
}


@contextmanager
def without(name: str) -> Iterator[None]:
    """A mend is taken back."""
    with ExitStack() as stack:
        for owner, attribute, value in MENDS[name]():
            stack.enter_context(mock.patch.object(owner, attribute, value))
        yield
