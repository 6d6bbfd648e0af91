"""Shares of codes from their noisy counts; post-processing."""

from __future__ import annotations

import numpy as np

from skdp._floats import FloatArray
from skdp.ensemble._trees import CodedColumns
from skdp.privacy._answers import Released
from skdp.queries._code_counts import CodeCounts

# Codes are taken to have even shares to this part at least, so that each may be cut.
_LEAST_EVEN = 0.05


def counts_of(columns: CodedColumns) -> CodeCounts:
    """The query for columns in order: where others are cut makes no difference."""
    ordered = tuple(j for j, is_so in enumerate(columns.is_ordered) if is_so)
    return CodeCounts(ordered, tuple(columns.n_bins[j] for j in ordered))


def shares_of(columns: CodedColumns, released: Released) -> FloatArray:
    """Of each code of each column; even ones in columns that are not in order.

    What counts say is trusted as far as the noise is below an even count.
    """
    asked = counts_of(columns)
    counts = np.split(released.value, np.cumsum(asked.n_bins)[:-1])
    by_column = dict(zip(asked.columns, counts, strict=True))
    return np.concatenate(
        [
            _shares(by_column[j], released.deviation) if j in by_column else _even(size)
            for j, size in enumerate(columns.n_bins)
        ]
    )


def _even(size: int) -> FloatArray:
    return np.full(size, 1 / size)


def _shares(counts: FloatArray, noise: float) -> FloatArray:
    size = len(counts)
    above = np.maximum(counts, 0.0)
    total = max(float(above.sum()), 1.0)
    even = min(max(_LEAST_EVEN, noise * size / total), 1.0)
    return np.asarray((1 - even) * above / total + even / size)
