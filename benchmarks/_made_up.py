"""Made-up tables of any size, written to Parquet part by part."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from skdp._arrays import FloatArray, IntArray
from skdp._checks import check_count

# Rows that are made at once; each follows from its place alone.
_PART = 1 << 16
_NOISE = 0.05


def write_made_up(
    folder: Any,
    n_samples: int,
    n_features: int = 20,
    *,
    n_files: int = 1,
    seed: int = 0,
) -> None:
    """Write rows of norm at most 1 with labels that a line tells mostly right.

    Public: made from the seed alone. Row i is the same for any number of rows or files,
    and the line is the same for any seed.

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
    weights = _uniform(np.arange(n_features), seed=-1)
    for start in range(first, last, _PART):
        yield _made(start, min(start + _PART, last), weights, seed)


def _made(
    first: int, last: int, weights: FloatArray, seed: int
) -> tuple[FloatArray, Any]:
    n, width = last - first, len(weights) + 1
    numbers = np.arange(first * width, last * width)
    drawn = _uniform(numbers, seed).reshape(n, width)
    X = drawn[:, 1:] / math.sqrt(width - 1)
    y = X @ (weights / np.linalg.norm(weights)) + _NOISE * drawn[:, 0] > 0
    return X.astype(np.float32), y.astype(np.int8)


def _uniform(numbers: IntArray, seed: int) -> FloatArray:
    """Numbers that look evenly drawn from [-1, 1], one for each integer (splitmix64).

    Nothing that has to hide anything may be made of them.
    """
    with np.errstate(over="ignore"):
        z = (numbers + (seed + 1) * 0x51_7CC1_B727).astype(np.uint64)
        z = (z + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return z.astype(np.float64) / 2.0**63 - 1.0
