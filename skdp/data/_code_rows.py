"""`CodeRows`: rows that are sums of what the codes of a record stand for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skdp._floats import FloatArray
from skdp.data._centred import TargetScale
from skdp.data._source import Block, Source, is_stable


@dataclass(frozen=True, eq=False)
class CodeRows:
    """Rows of norm at most 1, for products only.

    A record's row is the sum over its columns of the row of `basis` that its code
    there stands for.

    Parameters
    ----------
    codes : ndarray of uint8 of shape (n_rows, n_columns)
        Private.
    starts : ndarray of int64 of shape (n_columns,)
        Where the codes of each column begin in `basis`.
    basis : ndarray of float64 of shape (n_codes, n_features)
        Released, or public. The squares of the largest norms in each column add up to
        at most 1.
    """

    codes: NDArray[np.uint8]
    starts: NDArray[np.int64]
    basis: FloatArray
    dtype: ClassVar[Any] = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and features."""
        return len(self.codes), self.basis.shape[1]

    @property
    def norms(self) -> FloatArray:
        """No row is longer than 1, and none is shortened."""
        return np.ones(len(self.codes))

    def __matmul__(self, weights: FloatArray) -> FloatArray:
        from skdp.data._code_rows_kernel import add_entries

        table = np.asarray(self.basis @ weights)
        added = np.zeros((len(self.codes), *table.shape[1:]))
        wide = added.reshape(len(added), -1)
        add_entries(self.codes, self.starts, table.reshape(len(table), -1), wide)
        return added

    @cached_property
    def T(self) -> _TransposedCodes:
        """For products with residuals."""
        return _TransposedCodes(self)


@dataclass(frozen=True, eq=False)
class _TransposedCodes:
    rows: CodeRows

    def __matmul__(self, residuals: FloatArray) -> FloatArray:
        from skdp.data._code_rows_kernel import add_up_by_code

        rows = self.rows
        sums = np.zeros((len(rows.basis), *residuals.shape[1:]))
        wide = np.ascontiguousarray(residuals).reshape(len(residuals), -1)
        add_up_by_code(rows.codes, rows.starts, wide, sums.reshape(len(sums), -1))
        return np.asarray(rows.basis.T @ sums)


class CodeSource:
    """A source of codes, shown as rows of what they stand for.

    Parameters
    ----------
    source : Source
    starts, basis : ndarray
        As in `CodeRows`.
    targets : TargetScale or None
        None: targets as they are.
    """

    is_row_major = False

    def __init__(
        self,
        source: Source,
        starts: NDArray[np.int64],
        basis: FloatArray,
        targets: TargetScale | None = None,
    ) -> None:
        self._source, self._starts, self._basis = source, starts, basis
        self._targets = targets
        self.n_samples, self.n_features = source.n_samples, basis.shape[1]
        self.largest_block = source.largest_block
        self.is_stable = is_stable(source)
        # Norms of the terms of a row, over its own.
        each = np.split(np.linalg.norm(basis, axis=1), starts[1:])
        terms = sum(float(part.max(initial=0.0)) for part in each)
        # A product adds up all codes after the records of a block.
        rest = self.largest_block + self.n_samples / self.largest_block + 16
        self.amplification = max(1.0, terms) * (1 + (len(basis) + 16) / rest)

    def blocks(self) -> Iterator[Block]:
        """Blocks of rows."""
        for block in self._source.blocks():
            y = block.y if self._targets is None else self._targets.of(block.y)
            rows = CodeRows(block.X, self._starts, self._basis)
            yield Block(rows, y, block.present)
