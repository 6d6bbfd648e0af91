"""Shares of codes from their noisy counts; post-processing."""

from __future__ import annotations

import numpy as np

from skdp._floats import FloatArray
from skdp.ensemble._trees import CodedColumns
from skdp.privacy._answers import Released
from skdp.queries._code_counts import CodeCounts
from skdp.solvers._margins import shrunk_margins

# Codes are taken to have even shares to this part at least, so that each may be cut.
_LEAST_EVEN = 0.05


def counts_of(columns: CodedColumns, *, of_all: bool = False) -> CodeCounts:
    """The query for all columns, or for those in order.

    Where others are cut makes no difference.
    """
    asked = tuple(j for j, is_so in enumerate(columns.is_ordered) if is_so or of_all)
    return CodeCounts(asked, tuple(columns.n_bins[j] for j in asked))


def shares_of(
    columns: CodedColumns, asked: CodeCounts, released: Released
) -> FloatArray:
    """Of each code of each column; even ones in columns that are not in order.

    What counts say is trusted as far as the noise is below an even count.
    """
    by_column = _by_column(asked, released)
    return np.concatenate(
        [
            _shares(by_column[j], released.deviation) if is_ordered else _even(size)
            for j, (size, is_ordered) in enumerate(
                zip(columns.n_bins, columns.is_ordered, strict=True)
            )
        ]
    )


def margins_of(
    asked: CodeCounts, released: Released, n_samples: int
) -> tuple[FloatArray, ...]:
    """Of the records, those with each code, for the means of features.

    Nearly even ones where noise hides what tells them apart.
    """
    noise = released.deviation / n_samples
    counts = _by_column(asked, released).values()
    return tuple(shrunk_margins(each / n_samples, noise) for each in counts)


def _by_column(asked: CodeCounts, released: Released) -> dict[int, FloatArray]:
    counts = np.split(released.value, np.cumsum(asked.n_bins)[:-1])
    return dict(zip(asked.columns, counts, strict=True))


def _even(size: int) -> FloatArray:
    return np.full(size, 1 / size)


def _shares(counts: FloatArray, noise: float) -> FloatArray:
    size = len(counts)
    above = np.maximum(counts, 0.0)
    total = max(float(above.sum()), 1.0)
    even = min(max(_LEAST_EVEN, noise * size / total), 1.0)
    return np.asarray((1 - even) * above / total + even / size)
