"""Rows of codes: tables of declared columns with one byte per cell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp._row_threads import by_blocks
from skdp.tables._memory import held
from skdp.tables._source import Block, Remote, Source

# Factor on norms that covers their rounding.
_ROUNDED = 1 + 1e-12
# Enough rows for twenty threads; what queries compute of a block's rows takes some
# 50 MB for each output.
_ROWS_OF_A_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class CodeBasis:
    """The features of each code; released or public.

    Parameters
    ----------
    parts : tuple of ndarray of float64 of shape (n_codes, n_features_of_column)
        One array for each column; different columns have different features.
    """

    parts: tuple[FloatArray, ...]

    @property
    def n_features(self) -> int:
        return sum(part.shape[1] for part in self.parts)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """First index of the codes of each column, and the number of all codes."""
        sizes = [len(part) for part in self.parts]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    @cached_property
    def squares(self) -> FloatArray:
        """Squared norm of each code's features; the squared norm of a row is a sum."""
        return np.concatenate([np.sum(part**2, axis=1) for part in self.parts])

    @cached_property
    def _largest(self) -> FloatArray:
        each = np.split(self.squares, self.starts[1:-1])
        return np.sqrt([part.max() for part in each])

    @property
    def norm(self) -> float:
        """Norm of the longest possible row."""
        return float(np.linalg.norm(self._largest)) * _ROUNDED

    @property
    def terms(self) -> float:
        """Largest sum of the norms of a row's terms."""
        return float(self._largest.sum()) * _ROUNDED

    def tables(self, weights: FloatArray) -> tuple[FloatArray, ...]:
        """Contribution of each code of each column to raw predictions."""
        ends = np.cumsum([part.shape[1] for part in self.parts])
        each = np.split(weights, ends[:-1])
        return tuple(p @ own for p, own in zip(self.parts, each, strict=True))

    def features(self, sums: FloatArray) -> FloatArray:
        """Sums of the features from sums by code."""
        each = np.split(sums, self.starts[1:-1])
        found = [p.T @ own for p, own in zip(self.parts, each, strict=True)]
        return np.concatenate(found)


@dataclass(frozen=True, eq=False)
class CodeRows:
    """Rows of codes.

    A row is the sum of its codes' features. In sums of gradients, a row longer than 1
    is scaled to norm 1. In products with weights it is not, so that raw predictions
    remain sums over the columns.

    Parameters
    ----------
    codes : ndarray of uint8 of shape (n_rows, n_columns)
        Private.
    basis : CodeBasis
    """

    codes: NDArray[np.uint8]
    basis: CodeBasis
    dtype: ClassVar[Any] = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.codes), self.basis.n_features

    @property
    def norms(self) -> FloatArray:
        """Bounds on the norms of rows in sums."""
        return np.ones(len(self.codes))

    def __getitem__(self, rows: Any) -> CodeRows:
        return CodeRows(self.codes[rows], self.basis)

    @cached_property
    def factor(self) -> FloatArray:
        """Factor on each row in sums, at most 1; it makes no row longer than 1."""
        squares = (self.basis.squares[:, None],)
        lengths = np.sqrt(added_up(self.codes, self.basis.starts, squares)[:, 0])
        return np.asarray(1 / np.maximum(lengths * _ROUNDED, 1.0))


def added_up(
    codes: NDArray[np.uint8],
    starts: NDArray[np.int64],
    tables: tuple[NDArray[Any], ...],
) -> NDArray[Any]:
    """For each record, the sum of its codes' table entries, column after column.

    Parameters
    ----------
    codes : ndarray of uint8 of shape (n_rows, n_columns)
    starts : ndarray of int64 of shape (n_columns + 1,)
    tables : tuple of ndarray of float64 or int64 of shape (n_codes, n_outputs)
        One for each column, or one for all.
    """
    from skdp.tables._coded_kernel import add_entries

    table = np.concatenate(tables)
    added = np.zeros((len(codes), table.shape[1]), dtype=table.dtype)

    def of_run(first: int, last: int) -> None:
        add_entries(codes, starts, table, added, first, last)

    by_blocks(of_run, len(codes))
    return added


class CodeSource(Source):
    """A source of codes, which returns rows of the codes' features.

    Parameters
    ----------
    source : Source
        Must be stable.
    basis : CodeBasis
    """

    def __init__(self, source: Source, basis: CodeBasis) -> None:
        self._source, self._basis = source, basis
        facts, largest = source.facts, _ROWS_OF_A_BLOCK
        if not facts.is_of_users:  # how many rows users have is private
            largest = min(largest, facts.n_samples)
        self.facts = replace(
            facts,
            largest_block=largest,
            n_features=basis.n_features,
            is_row_major=False,
            amplification=max(basis.terms, 1.0),
            cells=int(basis.starts[-1]),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Copy the arguments only: rows stay where they are.
        return type(self), (self._source, self._basis)

    @property
    def remote(self) -> Remote | None:
        return self._source.remote

    @cached_property
    def _blocks(self) -> list[Block]:
        whole = held(self._source, with_shares=True)
        starts = range(0, len(whole.y), _ROWS_OF_A_BLOCK)
        runs = (slice(start, start + _ROWS_OF_A_BLOCK) for start in starts)
        return [self._shown(whole.part(run)) for run in runs]

    def blocks(self) -> Iterator[Block]:
        """The same blocks each time."""
        return iter(self._blocks)

    def nothing(self) -> Block:
        return self._shown(self._source.nothing())

    def _shown(self, block: Block) -> Block:
        return replace(block, X=CodeRows(block.X, self._basis))
