"""Readers that add up gradients exactly: one base for linear models and networks."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.sparse import csr_array, issparse

from skdp._arrays import FloatArray, IntArray, row_norms
from skdp._row_threads import by_runs, n_threads_for
from skdp.losses._base import Loss, plain_residual, softmax_units
from skdp.losses._classification import clip_of
from skdp.sums._adder import (
    cut,
    cut_by_weights,
    kernel_weights,
    present_rows,
    row_weights,
    rows_of_users,
    without_nulls,
)
from skdp.sums._exact import (
    RESIDUAL_BITS,
    Summed,
    Sums,
    WholeSum,
    blocks_of,
)
from skdp.sums._grid_rows import (
    LONGEST,
    MOST_SQUARES,
    SHORTENED,
    CellGrid,
    CodeGrid,
    DenseGrid,
    GridRows,
    finish_rows,
    gridded,
    scale_of,
)
from skdp.tables._centred import CentredMatrix
from skdp.tables._source import Block, KeptRows, Source, are_uncounted, room_for
from skdp.tables._views import ColumnsOf, Encoded

if TYPE_CHECKING:
    from skdp.sums._gradient import ClippedGradient

# ----------------------------------------------------- Rows on their grid, kept or read


# With at least so many numbers in a table, compiled code saves more time in a hundred
# passes than loading it takes.
_WORTH_COMPILING = 5_000_000
_KERNEL = "skdp.sums._gradient_kernel"
# From this size on, kept rows are in single precision, which can represent them.
_WORTH_NARROWING = 1_000_000


def compiles(n_numbers: int) -> bool:
    """Whether compiled code adds up a table, with the same bits as NumPy; public.

    Once it is loaded, it adds up small tables too.
    """
    return n_numbers >= _WORTH_COMPILING or _KERNEL in sys.modules


@dataclass(frozen=True, eq=False)
class GridPair:
    """A block's rows on their grid, in products and in sums. Private.

    Parameters
    ----------
    products, sums : GridRows
        Rows that are multiplied with weights, and rows that are added up.
    squares : ndarray of shape (n_rows,) or None
        Squared norms of the inputs of a network's first layer.
    """

    products: Any
    sums: Any
    squares: Any = None

    @property
    def n_bytes(self) -> int:
        grids = {id(own): own.n_bytes for own in (self.products, self.sums)}
        of_squares = 0 if self.squares is None else self.squares.nbytes
        return int(sum(grids.values()) + of_squares)

    def __getitem__(self, chosen: Any) -> GridPair:
        """Some rows of a network, for which both grids are equal."""
        rows = self.products[chosen]
        return GridPair(rows, rows, self.squares[chosen])


# ------------------------------------------- Residuals, the contribution of a record
# See Lemma 11 of ``docs/proofs/gradient_descent.md`` and Lemma 4 of
# ``docs/proofs/adder.md``. A null record's residual is 0. A row of a user is multiplied
# by its weight and rounded towards 0.


def residual_of(
    loss: Loss, block: Block, raw: FloatArray, clip: float = math.inf
) -> FloatArray:
    """Residuals of norm at most `clip`, from raw predictions; 0 for null records."""
    residual = plain_residual(loss, block.y, raw)
    if math.isfinite(clip):
        residual = clipped(residual, clip_of(loss, block.y, clip))
    return without_nulls(residual, block)


def clipped(residual: FloatArray, limit: FloatArray | float) -> FloatArray:
    """Residuals of norm at most `limit`, up to rounding; each row in a fixed order.

    `limit` is one number, or of shape (n_rows, 1).
    """
    if residual.shape[1] == 1:
        return np.minimum(np.maximum(residual, -limit), limit)
    squares = np.zeros(len(residual))
    for own in residual.T:
        squares += own * own
    norms = np.sqrt(squares)[:, None]
    return residual * (limit / np.maximum(norms, limit))


class ExactSum(ABC):
    """Exact sums of gradients over a source: the same bits for any layout.

    The source is private. Rows on their grid are kept if the source returns the same
    rows at every reading, or if there are few rows.

    Parameters
    ----------
    source : Source
    objective : LinearObjective or NetworkObjective
    """

    def __init__(self, source: Source, objective: Any) -> None:
        self._source, self._objective = source, objective
        self._room = room_for(source, objective.n_samples, objective.n_features)
        self._kept: KeptRows[Block] = KeptRows(self._room)

    @abstractmethod
    def whole_sums(self, weights: Any, rows: IntArray | None = None) -> Sums:
        """Whole sums over all records, or over increasing `rows`.

        `weights` are released and on their grid.
        """

    @abstractmethod
    def value(self, sums: Sums) -> FloatArray:
        """The sum of gradients from whole sums."""

    def __call__(self, weights: Any, rows: IntArray | None = None) -> FloatArray:
        """Sum over the records of the gradients at `weights`, of the same shape."""
        return self.value(self.whole_sums(weights, rows))

    @abstractmethod
    def _on_grid(self, block: Block) -> Block:
        """The block with a `GridPair` as its rows."""

    def _blocks(self, rows: IntArray | None) -> Iterator[Block]:
        if rows is not None:
            return self._drawn(rows)
        return self._kept.passed(self._read)

    def _read(self) -> Iterator[Block]:
        # A generator: `map` would end quietly if a block raised StopIteration.
        return (self._on_grid(block) for block in self._source.blocks())

    def _drawn(self, rows: IntArray) -> Iterator[Block]:
        # Null records in the sample are skipped.
        for block in blocks_of(self._source, rows):
            there = present_rows(block)
            if len(there.y):
                yield self._on_grid(there)

    def _of_none(self) -> GridRows:
        """Gridded rows of no records; public."""
        rows: GridRows = self._on_grid(self._source.nothing()).X.sums
        return rows


@dataclass(frozen=True, eq=False)
class ReaderQuery(Summed):
    """A query at released `weights`, whose family opens a reader.

    A reader is an `ExactSum`, or a class that adds up in floating point.
    """

    family: Any
    weights: FloatArray

    def open(self, source: Source) -> Any:
        """A reader of the source; opening reads nothing."""
        return self.family.reader(source)

    @property
    def is_whole(self) -> bool:
        is_exact: bool = self.family.is_exact
        return is_exact

    def answer(self, gradient: FloatArray) -> FloatArray:
        """The query's part of a reader's sum. Private."""
        return gradient

    def whole_sums(self, reader: Any, rows: IntArray | None) -> Sums:
        sums: Sums = reader.whole_sums(self.weights, rows)
        return sums

    def from_whole(self, source: Any, sums: Sums) -> FloatArray:
        return self.answer(self.open(source).value(sums))

    def total(self, reader: Any, rows: IntArray | None) -> FloatArray:
        if self.is_whole:
            return self.answer(reader.value(self.whole_sums(reader, rows)))
        return self.answer(reader(self.weights, rows))


# --------------------------------------------------- Exact sums of rows times residuals
# Rows are integers and raw predictions are exact. Residuals are computed from them by
# plain arithmetic and rounded to integers, and the sums of products are exact. So the
# result has the same bits in any layout.


# The rows of the gradient that a query asks for.
Part = Literal["all", "features", "intercept"]
# Number of users whose clipped contributions, each below 2^41, add up in 64 bits.
_MOST_USERS = 1 << 20
# The mask of blocks in which every record is present.
_ALL = np.empty(0, dtype=bool)


class ExactGradientSum(ExactSum):
    """Exact sums of gradients of a linear model.

    Parameters
    ----------
    source : Source
    gradients : ClippedGradient
        Settings, which define the contribution of a record.

    Raises
    ------
    ValueError
        If rows or residuals have no bound. `GradientSum` needs no bounds.
    """

    def __init__(self, source: Source, gradients: ClippedGradient) -> None:
        if not gradients.is_exact:
            raise ValueError(
                "Exact sums must have a finite data_norm and a bound on residuals. Got "
                f"data_norm={gradients.objective.data_norm:g} and residual_clip="
                f"{gradients.residual_clip:g}. Use GradientSum."
            )
        if gradients.columns is not None:
            source = ColumnsOf(source, gradients.columns_read)
        objective = gradients.rows.objective
        super().__init__(source, objective)
        self._gradients, self._clip = gradients, gradients.residual_clip
        self._largest = gradients.largest_residual
        # Rows that were read, or None: their class defines what the sums represent.
        self._kind: GridRows | None = None
        self._tables: tuple[Any, Any] = (None, None)
        n_numbers = objective.n_samples * objective.n_features
        self._is_compiled = objective.loss.n_outputs == 1 and compiles(n_numbers)
        is_large = n_numbers >= _WORTH_NARROWING or are_uncounted(source)
        self._is_narrow = is_large or self._is_compiled

    def whole_sums(
        self, weights: Any, rows: IntArray | None = None, part: Part = "all"
    ) -> Sums:
        """Whole sums of products, except for the intercept alone, and of residuals."""
        if self._gradients.user_clip is not None:
            return self._clipped_sums(weights)
        k = self._objective.loss.n_outputs
        total: Any = None
        of_intercept = WholeSum((1, k))
        units = np.zeros(k, dtype=np.int64)  # room for 2^44 records at the bound
        compiled: _CompiledPass | None = None
        self._tables = (None, None)  # weights may have changed in place
        for block in self._blocks(rows):
            if part == "intercept":
                grid = block.X.products.in_double()
                own = self._weighted(self._residual(grid, block, weights), block)
                units += own.sum(axis=0).astype(np.int64)
                continue
            self._kind = block.X.sums
            if total is None:
                total = block.X.sums.total(k)
            if self._takes_compiled(block.X):
                compiled = compiled or _CompiledPass(self._gradients, total, weights)
                compiled.add(block)
                continue
            units += self._add(total, block, weights).astype(np.int64)
        if compiled is not None:
            units += compiled.end()
        of_intercept.add(units[None, :])
        if part == "intercept":
            return (of_intercept,)
        if total is None:
            total = self._of_none().total(k)
        return total, of_intercept

    def value(self, sums: Sums) -> FloatArray:
        """The sum of gradients, or the intercept's row, from whole sums."""
        *products, units = sums
        unit = self._largest * 2.0**-RESIDUAL_BITS
        of_intercept: FloatArray = units.value() * unit
        of_intercept *= self._objective.intercept_value
        if not products:
            return of_intercept
        kind = self._of_none() if self._kind is None else self._kind
        unit = self._largest * 2.0**-kind.bits
        of_features = kind.features(products[0].value()) * unit
        if not self._objective.fit_intercept:
            return of_features
        return np.concatenate([of_features, of_intercept])

    # ------------------------------------------------------------------ rows

    def _on_grid(self, block: Block) -> Block:
        products = self._gridded(block.X)
        return replace(block, X=GridPair(products, self._in_sums(products)))

    def _gridded(self, X: Any) -> Any:
        if self._gradients.user_clip is not None and isinstance(X, CentredMatrix):
            # The clip applies to a vector of features, not to states.
            X = X.made()
        norm, entries = self._objective.data_norm, self._objective.entry_bound
        rows = _held(X, norm, self._is_narrow, self._is_compiled)
        return rows.clipped(entries) if entries < norm else rows

    def _in_sums(self, products: Any) -> Any:
        """Rows in sums: the rows in products, with further clips."""
        entries, norm = self._gradients.entry_bound, self._gradients.rows.norm
        if entries < self._objective.entry_bound:
            # Entries are clipped after rows are clipped to `data_norm`. In the other
            # order, an entry of a very long row would contribute almost nothing.
            products = products.clipped(entries)
        if 0 < norm < self._objective.data_norm:
            products = products.shortened(norm)
        return products

    def _takes_compiled(self, rows: GridPair) -> bool:
        """Whether `_CompiledPass` adds up these rows."""
        is_same = rows.sums is rows.products
        return self._is_compiled and is_same and isinstance(rows.sums, DenseGrid)

    # ------------------------------------------------------------- residuals

    def _add(self, total: Any, block: Block, weights: Any) -> FloatArray:
        """Add the gradients of a block; return the sums of its residuals, in units."""
        rows: GridPair = block.X
        if isinstance(rows.sums, CodeGrid | CellGrid):
            return self._add_of_parts(total, block, weights)
        is_same = rows.sums is rows.products
        products = rows.products.in_double()
        sums = products if is_same else rows.sums.in_double()
        residual = self._residual(products, block, weights)
        units = self._weighted(residual, block)
        if sums.factor is None:
            sums.add(total, units)
        else:
            if row_weights(block) is not None:
                # Use the same rounded residual for features and intercept, so that a
                # user's gradient moves along one ray.
                residual = units * (self._largest * 2.0**-RESIDUAL_BITS)
            sums.add(total, self._rounded(residual * sums.factor[:, None], sums.bits))
        return np.asarray(units.sum(axis=0))

    def _residual(self, rows: GridRows, block: Block, weights: Any) -> FloatArray:
        """Clipped residuals, 0 for null records."""
        raw = rows.raw(weights)
        if self._objective.offset:
            raw += self._objective.offset
        return residual_of(self._objective.loss, block, raw, self._clip)

    def _weighted(self, residual: FloatArray, block: Block) -> FloatArray:
        """Residuals in whole units, times the rows' weights and rounded towards 0."""
        return cut_by_weights(self._rounded(residual, RESIDUAL_BITS), block)

    def _rounded(self, residual: FloatArray, bits: int) -> FloatArray:
        """Residuals as whole multiples of 2^-bits of their bound."""
        units = residual * (2.0**bits / self._largest)
        units += 0.5
        return np.floor(units, out=units)

    def _add_of_parts(
        self, total: Any, block: Block, weights: FloatArray
    ) -> FloatArray:
        """`_add` for rows of codes or of cells, in one compiled pass."""
        objective, grid = self._objective, block.X.sums
        k = objective.loss.n_outputs
        addends = np.zeros((k, 2))
        if objective.fit_intercept:
            addends[:, 0] = weights[-1]
        if objective.offset:
            addends[:, 1] = objective.offset
        if self._tables[0] is not weights:  # the same for all blocks of a pass
            self._tables = weights, grid.tables(weights)
        tables = *self._tables[1], addends
        form = int(objective.loss.form), objective.loss.form_constants
        loss = *form, self._clip, softmax_units(k)
        per_unit = [2.0**bits / self._largest for bits in (RESIDUAL_BITS, grid.bits)]
        scales = *per_unit, self._largest * 2.0**-RESIDUAL_BITS
        present = kernel_weights(block)
        present = _ALL if present is None else present
        are_shares = row_weights(block) is not None
        (arrays, factor), units = grid.passed, np.zeros(k, dtype=np.int64)

        def of_run(first: int, last: int) -> tuple[IntArray, IntArray]:
            run = slice(start + first, start + last)
            sums, units = np.zeros_like(tables[1]), np.zeros(k, dtype=np.int64)
            records = block.y[run], present[run], factor[run]
            of_rows = arrays[run], records, tables, loss
            grid.kernel(*of_rows, scales, are_shares, sums, units)
            return sums, units

        for start in range(0, len(block.y), grid.most_rows):
            n = min(grid.most_rows, len(block.y) - start)
            parts = by_runs(of_run, n, n_threads_for(n))
            total.add(grid.sums(np.asarray(sum(sums for sums, _ in parts))), n)
            units += sum(own for _, own in parts)
        return units

    # ----------------------------------------- users, each clipped as one vector

    def _clipped_sums(self, weights: FloatArray) -> Sums:
        """Whole sums of users' contributions, each clipped to the bound.

        The contribution of a user is the sum over the user's rows, clipped and rounded
        towards 0: see Lemma 12 of ``docs/proofs/gradient_descent.md``.
        """
        of_features, of_constant = self._by_user(weights)
        n_users, size = len(of_features), of_features[0].size + of_constant[0].size
        squares = np.zeros(n_users)
        # Squares are added in a fixed order, so that a user's norm depends on no other
        # user.
        for own in of_constant.T:
            squares += (self._constant * own) ** 2
        for column in of_features.reshape(n_users, -1).T:
            squares += column * column
        unit = self._objective.data_norm / LONGEST * self._largest
        # Slightly shorter, to cover the rounding of squares, sums, roots and products.
        shorter = 1 - (size + 16) * 2.0**-51
        limit = self._most(weights) * shorter / (unit * 2.0**-RESIDUAL_BITS)
        factor = limit / np.maximum(np.sqrt(squares), limit)
        return _added_users(of_features, factor), _added_users(
            of_constant[:, None, :], factor
        )

    def _most(self, weights: FloatArray) -> float:
        """Largest norm of a user's contribution; public."""
        most: float = self._gradients.bound_at(weights).under("zero_out_user")
        return most

    @property
    def _constant(self) -> float:
        """The intercept's entry in the norm of a user, in units of the rows."""
        if not self._objective.fit_intercept:
            return 0.0
        return self._gradients.intercept_weight * LONGEST

    def _by_user(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Whole sums over each user's rows: rows times residuals, and residuals."""
        # In a part of a source, users keep their numbers in the whole source.
        n = round(self._objective.n_samples * self._source.facts.max_overcount)
        k = weights.shape[1]
        of_features = np.zeros((n, self._objective.n_features, k))
        of_constant = np.zeros((n, k))
        for block in self._blocks(None):
            rows = block.X.products.in_double()
            units = self._rounded(self._residual(rows, block, weights), RESIDUAL_BITS)
            users, whose = rows_of_users(block)
            of_constant[users] += whose @ units
            for j, own in enumerate(units.T):
                if issparse(rows.entries):
                    moved = rows.entries.multiply(own[:, None])
                    of_features[users, :, j] += (whose @ csr_array(moved)).toarray()
                else:
                    of_features[users, :, j] += whose @ (rows.entries * own[:, None])
        return of_features, of_constant


# Number of rows of gradients, each below 2^40, whose sums are below 2^62.
_MOST_OF_A_PASS = 1 << 22


class _CompiledPass:
    """One pass of compiled code over dense rows of a model with one output.

    Its sums are moved to the total after many blocks, since a table of small blocks
    would otherwise spend a fifth of a pass between them.

    Parameters
    ----------
    gradients : ClippedGradient
    total : WholeSum
    weights : ndarray of shape (n_columns, 1)
    """

    def __init__(
        self, gradients: ClippedGradient, total: WholeSum, weights: FloatArray
    ) -> None:
        from skdp.sums._gradient_kernel import add_gradients

        objective = gradients.rows.objective
        d, loss = objective.n_features, objective.loss
        facts = (
            LONGEST * weights[d, 0] if objective.fit_intercept else 0.0,
            objective.data_norm / LONGEST,
            objective.offset[0] if objective.offset else 0.0,
            gradients.residual_clip,
            2.0**RESIDUAL_BITS / gradients.largest_residual,
        )
        own, form = np.ascontiguousarray(weights[:d, 0]), int(loss.form)
        self._settings = own, facts, form, loss.form_constants
        self._add, self._total, self._units = add_gradients, total, 0.0
        self._sums, self._n_rows = np.zeros(d, dtype=np.int64), 0

    def add(self, block: Block) -> None:
        """Add the gradients of a block of at most 2^22 rows."""
        rows, present = block.X.sums.entries, kernel_weights(block)
        if self._n_rows + len(rows) > _MOST_OF_A_PASS:
            self._empty()
        present = _ALL if present is None else present
        self._units += self._add(rows, block.y, present, *self._settings, self._sums)
        self._n_rows += len(rows)

    def _empty(self) -> None:
        self._total.add(self._sums[:, None], self._n_rows)
        self._sums[:], self._n_rows = 0, 0

    def end(self) -> int:
        """Move what is left to the total; the sum of residuals, in units."""
        self._empty()
        return int(self._units)


def _added_users(parts: FloatArray, factor: FloatArray) -> WholeSum:
    """The sum of all users' contributions times their factors, rounded towards 0."""
    total = WholeSum(parts.shape[1:])
    for first in range(0, len(parts), _MOST_USERS):
        run = slice(first, first + _MOST_USERS)
        whole = cut(parts[run].reshape(len(parts[run]), -1), factor[run])
        total.add(whole.astype(np.int64).sum(axis=0).reshape(parts.shape[1:]))
    return total


# ----------------------------------------------------- Dense rows on their grid, faster


def grid_view(source: Source) -> Encoded:
    """Gridded rows of norm at most 1, with their norms."""
    n_numbers = source.n_samples * source.n_features
    is_narrow = n_numbers >= _WORTH_NARROWING or are_uncounted(source)
    is_compiled = n_numbers >= _WORTH_COMPILING
    encode = partial(_with_norms, is_narrow=is_narrow, is_compiled=is_compiled)
    return Encoded(source, encode)


def _with_norms(X: Any, is_narrow: bool, is_compiled: bool) -> Any:
    return replace(_held(X, 1.0, is_narrow, is_compiled), norms=row_norms(X))


def _held(X: Any, norm: float, is_narrow: bool, is_compiled: bool) -> Any:
    """`gridded`, in single precision and with compiled code if this is faster."""
    if is_compiled and is_row_major(X):
        return _compiled_grid(X, norm)
    found = gridded(X, norm)
    if isinstance(found, DenseGrid) and is_narrow:
        return replace(found, entries=found.entries.astype(np.float32, copy=False))
    return found


def is_row_major(X: Any) -> bool:
    is_dense = isinstance(X, np.ndarray) and not issparse(X)
    return is_dense and X.flags.c_contiguous and X.dtype.isnative


def _compiled_grid(X: Any, norm: float) -> DenseGrid:
    """`gridded` for large dense blocks."""
    from skdp.sums._gradient_kernel import grid_block

    grid, squares = np.empty(X.shape, dtype=np.float32), np.empty(len(X))
    grid_block(
        X, scale_of(norm), LONGEST, SHORTENED, MOST_SQUARES, grid, squares
    )  # fmt: skip
    finish_rows(X, grid, squares, norm)
    return DenseGrid(grid, norm)
