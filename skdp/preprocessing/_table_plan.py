"""The plan of an encoding: which block each declared column becomes; public."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import block_diag, csr_array

from skdp._floats import FloatArray
from skdp._validation import check_choice, check_count
from skdp.columns import Boolean, Categories, Dates, Declaration, Range
from skdp.preprocessing._table_axes import NumberAxis, TimeAxis
from skdp.preprocessing._table_blocks import (
    Bins,
    Block,
    Curve,
    Joined,
    OneOf,
    OrMissing,
    Part,
    Sign,
    encoded,
    side_by_side,
)
from skdp.preprocessing._table_cells import Cells

NUMERIC = ("linear", "bins", "hats")
# Rows are this much shorter than the proof allows, for the rounding of their entries.
_MARGIN = 2.0**-40
# Share of entries that are not 0 below which passes over CSR are faster than dense.
_SPARSE_BELOW = 0.2
# How many knots there are, from the numbers of records and of declared columns.
KnotRule = Callable[[int, int], int]
# Intervals of the finest level, below so many records over the root of the columns.
_INTERVALS = ((600.0, 4), (2_000.0, 8), (7_000.0, 16), (24_000.0, 32), (math.inf, 64))


def default_knots(n_samples: int, n_columns: int) -> int:
    """Knots of ``n_knots="auto"``, from public facts.

    Each of g columns has a share 1/sqrt(g) of a row's norm, so that n/sqrt(g) records
    are to the noise of a model what n are with one column.
    """
    size = n_samples / math.sqrt(n_columns)
    return 1 + next(intervals for below, intervals in _INTERVALS if size < below)


@dataclass(frozen=True)
class Encoding:
    """Declared columns, each with its block.

    Parameters
    ----------
    names : tuple of str
    declared : tuple of Declaration
    blocks : tuple of Block
    """

    names: tuple[str, ...]
    declared: tuple[Declaration, ...]
    blocks: tuple[Block, ...]

    @property
    def scale(self) -> float:
        """What each block is multiplied by, so that rows have norm at most 1."""
        return (1 - _MARGIN) / math.sqrt(len(self.blocks))

    @property
    def slices(self) -> dict[str, slice]:
        ends = np.cumsum([len(block.suffixes) for block in self.blocks]).tolist()
        spans = zip([0, *ends[:-1]], ends, strict=True)
        named = zip(self.names, spans, strict=True)
        return {name: slice(start, end) for name, (start, end) in named}

    @property
    def features(self) -> list[str]:
        """Names of the features that come out."""
        return [
            f"{name}{suffix}"
            for name, block in zip(self.names, self.blocks, strict=True)
            for suffix in block.suffixes
        ]

    @property
    def n_lines(self) -> int:
        """Features that there would be if all numbers were encoded as lines."""
        return sum(block.n_lines for block in self.blocks)

    def unknown_in(self, table: list[Cells]) -> list[str]:
        """Names of columns with a cell that was not declared."""
        columns = zip(self.names, self.blocks, table, strict=True)
        return [name for name, block, cells in columns if block.has_unknown(cells)]

    def rows(self, table: list[Cells], *, is_sparse: bool | None) -> Any:
        """Rows of norm at most 1, as an array or CSR; None takes the smaller one."""
        return self.rows_of(self.states(table), is_sparse=is_sparse)

    def rows_of(self, states: csr_array, *, is_sparse: bool | None) -> Any:
        """Encoded rows of shares in states."""
        rows = states @ self.basis
        if is_sparse is None:
            is_sparse = self._density < _SPARSE_BELOW
        if not is_sparse:
            return rows.toarray()
        rows.sort_indices()
        return rows

    @cached_property
    def basis(self) -> csr_array:
        """The features of each state: (n_states, n_features), rows of norm 1 at most.

        Rows of several blocks together, which are divided by the root of their number.
        """
        along = block_diag([csr_array(b.basis) for b in self.blocks], format="csr")
        return csr_array(along * self.scale)

    @property
    def weights(self) -> FloatArray:
        """Of each feature, by what it was divided so that rows have norm at most 1."""
        pairs = [(block.weight, len(block.suffixes)) for block in self.blocks]
        return np.concatenate([np.full(n, w) for w, n in pairs]) / self.scale

    @property
    def parts(self) -> tuple[int, ...]:
        """Numbers of states, of which those of a part exclude each other."""
        return tuple(size for block in self.blocks for size in block.parts)

    @property
    def most_states(self) -> int:
        """In how many states a row is at most: in two of a part, as neighbours."""
        return 2 * len(self.parts)

    @property
    def most_entries(self) -> int:
        """How many features of a row are not 0, at most."""
        ends = np.cumsum(self.parts)[:-1]
        by_part = np.split(np.diff(self.basis.indptr), ends)
        entries = sum(2 * int(counts.max()) for counts in by_part)
        return min(entries, len(self.features))

    @property
    def _density(self) -> float:
        """Share of features that are not 0 in a row, at most."""
        # A cell is in two states of a block, or less.
        entries = sum(2 * np.mean(np.count_nonzero(b.basis, 1)) for b in self.blocks)
        return float(entries) / len(self.features)

    def states(self, table: list[Cells]) -> csr_array:
        """Each row's shares in the states of all blocks."""
        pairs = zip(self.blocks, table, strict=True)
        states, shares = side_by_side(
            self.blocks, [encoded(block, cells) for block, cells in pairs]
        )
        is_there = shares != 0
        indptr = np.concatenate([[0], np.cumsum(is_there.sum(axis=1))])
        shape = (len(shares), sum(self.parts))
        return csr_array((shares[is_there], states[is_there], indptr), shape=shape)


def planned(
    names: tuple[str, ...],
    declared: tuple[Declaration, ...],
    numeric: Any,
    n_knots: int,
) -> Encoding:
    """The encoding of declared columns; depends on nothing else.

    Parameters
    ----------
    names : tuple of str
    declared : tuple of Declaration
    numeric : str, mapping or sequence
        How numbers and points in time are encoded; see `TableEncoder`.
    n_knots : int
        Of the finest level.

    Raises
    ------
    ValueError
        If features that come out would have the same name.
    """
    ways = ways_of(names, numeric)
    blocks = tuple(
        _block(each, way, n_knots) for each, way in zip(declared, ways, strict=True)
    )
    encoding = Encoding(names, declared, blocks)
    features = encoding.features
    if len(set(features)) < len(features):
        twice = sorted({name for name in features if features.count(name) > 1})
        raise ValueError(
            f"The features that come out must have different names. Got {twice} more "
            "than once. Rename a column or a category."
        )
    return encoding


def check_knots(value: Any) -> int | None:
    """A number of knots, or None for "auto"."""
    if isinstance(value, str) and value == "auto":
        return None
    remedy = "Use 'auto' for the rule by public facts."
    return check_count("n_knots", value, low=2, high=1025, remedy=remedy)


def ways_of(names: tuple[str, ...], numeric: Any) -> tuple[str, ...]:
    """How each column's numbers are encoded."""
    if isinstance(numeric, str):
        return (check_choice("numeric", numeric, NUMERIC),) * len(names)
    if isinstance(numeric, Mapping) and set(numeric) <= set(names):
        given = [numeric.get(name, "hats") for name in names]
    elif isinstance(numeric, (list, tuple)) and len(numeric) == len(names):
        given = list(numeric)
    else:
        raise ValueError(
            f"The 'numeric' parameter must be one of {list(NUMERIC)}, a mapping from "
            "declared columns to these, or a sequence with one for each of "
            f"{len(names)} columns. Got {numeric!r}. Columns that a mapping leaves out "
            "are encoded as 'hats'."
        )
    return tuple(check_choice("numeric", way, NUMERIC) for way in given)


def _block(declared: Declaration, way: str, n_knots: int) -> Block:
    if isinstance(declared, Range):
        block = _numeric(NumberAxis(declared), way, n_knots)
    elif isinstance(declared, Dates):
        block = _dates(declared, way, n_knots)
    else:
        block = OneOf(declared) if isinstance(declared, Categories) else Sign()
    assert isinstance(declared, (Range, Dates, Categories, Boolean))
    return OrMissing(block) if declared.missing else block


def _numeric(axis: NumberAxis | TimeAxis, way: str, n_knots: int) -> Block:
    count = n_knots - 1
    if way == "bins":
        return Bins(axis, count)
    if way == "linear":
        return Curve(axis)
    # A level lies in the next finer one, so that knots of the finest serve all.
    levels = [count // halved for halved in (4, 2, 1) if count % halved == 0]
    return Curve(axis, tuple(levels))


def _dates(declared: Dates, way: str, n_knots: int) -> Block:
    time = _numeric(TimeAxis(declared), way, n_knots)
    if not declared.parts:
        return time
    parts = tuple(Part(part) for part in declared.parts)
    return Joined((time, *parts), ("time", *declared.parts))
