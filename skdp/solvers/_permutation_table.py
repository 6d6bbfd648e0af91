"""The table that permutation-based descent goes through: all records, clipped once."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array, hstack, issparse, vstack

from skdp._rows import clip_rows, scale_rows
from skdp.data import Block, Source
from skdp.solvers._base import FloatArray, Problem


def clipped_table(source: Source, problem: Problem) -> tuple[Any, FloatArray]:
    """All clipped rows with the intercept's column, and all targets.

    Rows of null records are zeros, the intercept's column included.
    """
    blocks = source.blocks()
    first = next(blocks)
    if issparse(first.X):
        gathered = [(_sparse_rows(b, problem), b.y) for b in (first, *blocks)]
        rows = vstack([X for X, _ in gathered], format="csr")
        return rows, np.concatenate([y for _, y in gathered])
    table = np.empty((problem.n_samples, problem.n_columns))
    targets = np.empty(problem.n_samples)
    start = 0
    for block in (first, *blocks):
        end = start + len(block.y)
        rows = clip_rows(block.X, problem.data_norm)
        table[start:end, : problem.n_features] = rows
        table[start:end, problem.n_features :] = problem.intercept_value
        if block.present is not None:
            table[start:end][~block.present] = 0.0
        targets[start:end] = block.y
        start = end
    return table, targets


def _sparse_rows(block: Block, problem: Problem) -> Any:
    rows = clip_rows(block.X, problem.data_norm)
    if problem.fit_intercept:
        column = np.full((len(block.y), 1), problem.intercept_value)
        rows = hstack([rows, column], format="csr")
    if block.present is not None:
        rows = scale_rows(rows, block.present.astype(np.float64))
    return csr_array(rows)
