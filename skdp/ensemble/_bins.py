"""Bins: every cell of a declared table as one of at most 255 codes; public rules."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.columns import Categories, Dates, Declaration, Range
from skdp.preprocessing import _table_blocks as blocks
from skdp.preprocessing._table_axes import NumberAxis, TimeAxis
from skdp.preprocessing._table_cells import Cells

# A code has to fit a byte, and one value of it is left over.
MOST_BINS = 255
# Equal intervals of a range, unless the encoder says otherwise.
DEFAULT_INTERVALS = 32
# Parts of a date that come round are no order to cut.
_ORDERED_PARTS = ("day", "hour")


@dataclass(frozen=True)
class BinnedColumn:
    """The codes of one declared column, or of one part of its dates; public.

    Present values have the codes 0, 1, ...; then comes one for categories that are not
    declared, and one for missing values, where there may be such.

    Parameters
    ----------
    name : str
        Of the column; of a part of dates ``<column>_<part>``.
    source : int
        Position of the declared column.
    block : Block
        Which state a present cell is in.
    is_ordered : bool
        Whether codes of present values have an order in which they may be cut.
    has_other : bool
        Whether categories that are not declared have a code.
    has_missing : bool
        Whether values may be missing.
    """

    name: str
    source: int
    block: blocks.Block
    is_ordered: bool
    has_other: bool
    has_missing: bool

    @property
    def n_values(self) -> int:
        """Codes of present, declared values."""
        return sum(self.block.parts)

    @property
    def other(self) -> int | None:
        """The code of categories that are not declared."""
        return self.n_values if self.has_other else None

    @property
    def missing(self) -> int | None:
        """The code of missing values."""
        return self.n_values + self.has_other if self.has_missing else None

    @property
    def n_bins(self) -> int:
        return self.n_values + self.has_other + self.has_missing

    @property
    def edges(self) -> np.ndarray | None:
        """Ends of the intervals of a range or of points in time, else None."""
        if not isinstance(self.block, blocks.Bins):
            return None
        ends = np.linspace(-1.0, 1.0, self.block.count + 1)
        return self.block.axis.at(ends)

    @property
    def values(self) -> tuple[Any, ...] | None:
        """Categories, truth values or parts of dates by code; None for intervals."""
        if isinstance(self.block, blocks.OneOf):
            return self.block.declared.values
        if isinstance(self.block, blocks.Part):
            return tuple(self.block._values())
        return (False, True) if isinstance(self.block, blocks.Sign) else None

    @property
    def labels(self) -> tuple[str, ...]:
        """Each code in words."""
        edges, values = self.edges, self.values
        if edges is not None:
            shown = [
                f"{_shown(low)} to {_shown(high)}" for low, high in pairwise(edges)
            ]
        else:
            shown = [str(value) for value in values or ()]
        shown += ["other"] * self.has_other + ["missing"] * self.has_missing
        return tuple(shown)

    def codes(self, cells: Cells) -> NDArray[np.uint8]:
        states, shares = blocks.encoded(self.block, cells)
        codes = states[:, 0]
        if self.other is not None:
            codes = np.where(shares[:, 0] > 0, codes, self.other)
        if self.missing is not None:
            codes = np.where(cells.is_missing, self.missing, codes)
        return codes.astype(np.uint8)


@dataclass(frozen=True)
class Bins:
    """The codes of a declared table; public, and known before any record is.

    Ranges and points in time are cut into intervals of equal width, on the scale of the
    logarithm if so declared; values beyond an end are in the interval there. A category
    is a code, and so is a missing value.

    Parameters
    ----------
    columns : tuple of BinnedColumn
        Dates have one for the point in time and one for each part.
    """

    columns: tuple[BinnedColumn, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def n_bins(self) -> tuple[int, ...]:
        """Codes of each column, at most 255."""
        return tuple(column.n_bins for column in self.columns)

    @property
    def is_ordered(self) -> tuple[bool, ...]:
        """Whether the codes of present values have an order."""
        return tuple(column.is_ordered for column in self.columns)

    @property
    def missing(self) -> tuple[int | None, ...]:
        """The code of missing values, the last one; None where none may be missing."""
        return tuple(column.missing for column in self.columns)

    @property
    def sources(self) -> tuple[int, ...]:
        """Position of the declared column of each column of codes."""
        return tuple(column.source for column in self.columns)

    def codes(self, table: list[Cells]) -> NDArray[np.uint8]:
        """Codes of checked cells, one entry of `table` a declared column.

        Returns
        -------
        ndarray of uint8 of shape (n_samples, n_columns), C-contiguous
            Each row follows from that row alone. As private as the cells.
        """
        n_samples = len(table[0].values)
        codes = np.empty((n_samples, len(self.columns)), dtype=np.uint8)
        for i, column in enumerate(self.columns):
            codes[:, i] = column.codes(table[column.source])
        return codes


def bins_of(
    names: tuple[str, ...],
    declared: tuple[Declaration, ...],
    *,
    intervals: int = DEFAULT_INTERVALS,
    has_other: bool = True,
) -> Bins:
    """The codes of declared columns; they depend on nothing else.

    Parameters
    ----------
    names : tuple of str
    declared : tuple of Declaration
    intervals : int, default=32
        Of each range.
    has_other : bool, default=True
        Whether categories that are not declared have a code, or will be refused.

    Raises
    ------
    ValueError
        If a column would have more than 255 codes.
    """
    found = Bins(
        tuple(
            column
            for source, (name, each) in enumerate(zip(names, declared, strict=True))
            for column in _columns(name, source, each, intervals, has_other)
        )
    )
    large = [column.name for column in found.columns if column.n_bins > MOST_BINS]
    if large:
        raise ValueError(
            f"A declared column must have at most {MOST_BINS} bins, those of missing "
            f"values and of other categories included. Got more for {large}. Use fewer "
            "knots, or join categories by a declared rule."
        )
    return found


def _columns(
    name: str, source: int, declared: Declaration, intervals: int, has_other: bool
) -> list[BinnedColumn]:
    has_missing = bool(getattr(declared, "missing", False))

    def column(
        block: blocks.Block, *, part: str = "", is_ordered: bool = True
    ) -> BinnedColumn:
        has_more = has_other and isinstance(block, blocks.OneOf)
        shown = f"{name}_{part}" if part else name
        return BinnedColumn(shown, source, block, is_ordered, has_more, has_missing)

    if isinstance(declared, Range):
        return [column(blocks.Bins(NumberAxis(declared), intervals))]
    if isinstance(declared, Categories):
        return [column(blocks.OneOf(declared), is_ordered=False)]
    if not isinstance(declared, Dates):
        return [column(blocks.Sign())]
    parts = [
        column(blocks.Part(part), part=part, is_ordered=part in _ORDERED_PARTS)
        for part in declared.parts
    ]
    return [column(blocks.Bins(TimeAxis(declared), intervals)), *parts]


def _shown(end: Any) -> str:
    """An end of an interval in few digits, a point in time to the second."""
    return str(end) if isinstance(end, np.datetime64) else f"{float(end):.6g}"
