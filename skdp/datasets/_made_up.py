"""Made-up tables of any size, written to Parquet part by part."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from skdp._floats import FloatArray
from skdp._validation import check_count

# Rows that are made at once, of a stream of their own: a file's place changes none.
_PART = 1 << 16
_NOISE = 0.1


def write_made_up(
    folder: Any,
    n_samples: int,
    n_features: int = 20,
    *,
    n_files: int = 1,
    seed: int = 0,
) -> None:
    """Write rows of norm at most 1 with labels that a line tells mostly right.

    Public: made from the seed alone. Row i is the same for any number of rows or files.

    Parameters
    ----------
    folder : str or path
        Is made if it is not there.
    n_samples : int
    n_features : int, default=20
        Columns ``x0``, ``x1`` and so on, float32; the label, 0 or 1, is in ``y``.
    n_files : int, default=1
        ``part-00000.parquet`` and so on.
    seed : int, default=0
    """
    import pyarrow as pa
    from pyarrow import parquet

    n_samples = check_count("n_samples", n_samples)
    n_files = check_count("n_files", n_files, high=n_samples)
    names = [f"x{i}" for i in range(check_count("n_features", n_features))]
    schema = pa.schema([*((name, pa.float32()) for name in names), ("y", pa.int8())])
    os.makedirs(folder, exist_ok=True)
    for number in range(n_files):
        first, last = (n_samples * k // n_files for k in (number, number + 1))
        path = Path(folder) / f"part-{number:05d}.parquet"
        # Numbers by chance do not repeat: neither a dictionary nor compression pays.
        options = {"use_dictionary": False, "compression": "none"}
        with parquet.ParquetWriter(path, schema, **options) as file:
            for X, y in _rows(first, last, n_features, seed):
                columns = [pa.array(column) for column in X.T]
                file.write_table(pa.table([*columns, pa.array(y)], schema=schema))


def _rows(
    first: int, last: int, n_features: int, seed: int
) -> Iterator[tuple[FloatArray, Any]]:
    """Rows from one place to another, part by part."""
    for part in range(first // _PART, -(-last // _PART)):
        X, y = _made(part, n_features, seed)
        own = slice(max(first - part * _PART, 0), min(last - part * _PART, _PART))
        yield X[own], y[own]


def _made(part: int, n_features: int, seed: int) -> tuple[FloatArray, Any]:
    weights = np.random.default_rng([seed, n_features]).normal(size=n_features)
    draws = np.random.default_rng([seed, n_features, part])
    X = draws.uniform(-1, 1, size=(_PART, n_features)) / math.sqrt(n_features)
    raw = X @ (weights / np.linalg.norm(weights))
    y = raw + _NOISE * draws.normal(size=_PART) > 0
    return X.astype(np.float32), y.astype(np.int8)
