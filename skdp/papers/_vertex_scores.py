"""Gradient sums in whole numbers, kept up to date along a path of vertices.

A record's entries are integers of at most ``2**ENTRY_BITS``, its residual is an integer
of public size, and so is its part of every sum. Sums are exact in any order, changing
them is as good as summing anew, and one record moves a sum by a known integer.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from skdp._floats import FloatArray
from skdp._rows import clip_rows
from skdp.data._source import Source, nothing
from skdp.objectives._linear import LinearObjective
from skdp.papers._vertex_walk import VertexWalk
from skdp.privacy._selection import Ranking

# An entry of the bound's magnitude is this power of two.
ENTRY_BITS = 20
# Sums of all records stay below two to this, and with a public term below 2**63.
SUM_BITS = 61
# How many times as long an entry takes out of order.
_IN_ORDER = 3


@dataclass(frozen=True)
class IntegerRows:
    """Clipped rows as integers, by rows and by columns. Private.

    Entries, int32 both by row and by column, are in units of ``entry_bound /
    2**ENTRY_BITS``. A record has a share of 1, a null record of 0, and rows of users
    count with theirs.
    """

    by_row: Any
    by_column: Any
    targets: FloatArray
    shares: FloatArray

    @classmethod
    def read(cls, source: Source, objective: LinearObjective) -> IntegerRows:
        """Clip and round all rows, each on its own; reads the source once."""
        values, columns, lengths, targets, shares = [], [], [], [], []
        blocks = source.blocks()
        # Users may have no rows at all.
        first = next(blocks, None)
        for block in chain([nothing(source) if first is None else first], blocks):
            rows = _rounded(block.X, objective)
            values.append(rows.data)
            columns.append(rows.indices)
            lengths.append(np.diff(rows.indptr))
            targets.append(block.y)
            everyone = np.ones(len(block.y))
            shares.append(everyone if block.present is None else block.present)
        starts = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
        shape = (len(starts) - 1, objective.n_features)
        by_row = csr_array(shape, dtype=np.int32)
        # Set one by one: the constructor would copy.
        by_row.data, by_row.indices = _joined(values), _joined(columns)
        by_row.indptr = starts.astype(np.int64)
        return cls(
            by_row,
            by_row.tocsc(),
            np.concatenate(targets),
            np.concatenate(shares).astype(np.float64),
        )


def _joined(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _rounded(X: Any, objective: LinearObjective) -> Any:
    """One block's rows as CSR of integers; bounded whatever was rounded on the way."""
    if not issparse(X):
        # So that a row that is alone has the norm that it has among others.
        X = np.ascontiguousarray(X)
    clipped = clip_rows(X, objective.data_norm)
    entries = clipped.data if issparse(X) else clipped
    entries *= 2.0**ENTRY_BITS / objective.entry_bound
    np.rint(entries, out=entries)
    np.clip(entries, -(2.0**ENTRY_BITS), 2.0**ENTRY_BITS, out=entries)
    if not issparse(X):
        return csr_array(entries.astype(np.int32))
    rounded = csr_array(X.shape, dtype=np.int32)
    rounded.data = entries.astype(np.int32)
    rounded.indices, rounded.indptr = X.indices, X.indptr
    return rounded


class VertexScores:
    """Minus the gradients of the vertices at a moving combination of them.

    Scores are sums over the records, in steps of ``entry_bound / 2**ENTRY_BITS`` times
    a step of the residual, plus the regulariser's part, which is public.

    The objective is of one output. With an intercept there is one more candidate, the
    last: the weight of a column that holds `entry_bound`, so that it is no more
    sensitive than a feature. `per_unit` steps of a rounded residual are one unit of the
    residual.
    """

    def __init__(
        self, rows: IntegerRows, objective: LinearObjective, per_unit: float
    ) -> None:
        # Imported here, because numba takes half a second to import.
        from skdp.papers import _vertex_kernel

        self._kernel = _vertex_kernel
        self._rows, self._objective = rows, objective
        self._per_unit = per_unit
        self._raw = np.zeros(len(rows.targets))
        self._residuals = np.zeros(len(rows.targets), dtype=np.int64)
        self._changes = np.zeros_like(self._residuals)
        self._walk = VertexWalk(objective)
        self._penalties: dict[int, int] = {}
        self.ranking = Ranking(np.zeros(objective.n_columns, dtype=np.int64), 0)

    def weights(self) -> FloatArray:
        """In the units of the problem, of shape (n_columns, 1)."""
        return self._walk.weights()

    def move(self, keep: float, candidate: int, weight: float) -> None:
        """Multiply all weights by `keep` and add `weight` to that of a candidate."""
        self._walk.move(keep, candidate, weight)
        self._raw *= keep
        step = weight * self._objective.entry_bound
        if candidate == self._objective.n_features:
            self._raw += step
            return
        columns = self._rows.by_column
        entries = slice(*columns.indptr[candidate : candidate + 2])
        step /= 2.0**ENTRY_BITS
        self._raw[columns.indices[entries]] += step * columns.data[entries]

    def update(self, most: int, shift: int) -> None:
        """Bring the scores to the weights, with residuals of at most `most` steps."""
        if shift != self.ranking.shift:
            self.ranking.shift = shift
            self.ranking.sort()
        by_row, by_column = self._rows.by_row, self._rows.by_column
        total, touched = self._kernel.round_residuals(
            by_row.indptr,
            self._rows.targets,
            self._rows.shares,
            self._raw,
            self._residuals,
            int(self._objective.loss.form),
            self._objective.loss.form_constants,
            self._per_unit,
            most,
            self._changes,
        )
        # Scores in order are quicker to visit than here and there; the sums are equal.
        is_most = _IN_ORDER * touched > by_row.nnz + self._objective.n_features
        table = by_column if is_most else by_row
        add = self._kernel.add_by_columns if is_most else self._kernel.add_by_rows
        add(table.data, table.indices, table.indptr, self._changes, *self._ranked)
        if self._objective.fit_intercept:
            self._add(self._objective.n_features, -int(total) * 2**ENTRY_BITS)
        if self._objective.alpha > 0:
            self._penalise()

    def _penalise(self) -> None:
        """Put the regulariser's part of the scores at the present weights."""
        objective = self._objective
        in_steps = self._per_unit * 2.0**ENTRY_BITS / objective.entry_bound
        for candidate, weight in self._walk.of_candidates.items():
            pull = objective.alpha * weight * self._walk.size(candidate) ** 2
            part = np.clip(
                -objective.n_samples * pull * in_steps, -(2.0**SUM_BITS), 2.0**SUM_BITS
            )
            change = round(part) - self._penalties.get(candidate, 0)
            self._penalties[candidate] = round(part)
            self._add(candidate, change)

    def _add(self, candidate: int, change: int) -> None:
        self._kernel.add_to_score(*self._ranked, candidate, change)

    @property
    def _ranked(self) -> tuple[Any, ...]:
        ranking = self.ranking
        parts = (ranking.scores, ranking.order, ranking.place, ranking.starts)
        return (*parts, ranking.shift, ranking.first)
