"""Sums of clipped gradients at released weights."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from skdp._arrays import UNIT_ROUNDOFF, FloatArray, IntArray, row_norms
from skdp.losses._objective import LinearObjective
from skdp.losses._plain import plain_error, plain_residual
from skdp.losses._weighted import clip_of
from skdp.privacy.release._query import Bound, Layout
from skdp.sums._exact import (
    MOST_ROWS,
    RESIDUAL_BITS,
    KeptRows,
    Summed,
    Sums,
    WholeSum,
    blocks_of,
    on_grid,
)
from skdp.sums._floating import GradientSum, gradient_bound, rounding_slack
from skdp.sums._grid_rows import (
    LONGEST,
    MOST_SQUARES,
    SHORTENED,
    DenseGrid,
    GridRows,
    finish_rows,
    gridded,
    scale_of,
)
from skdp.tables._centred import CentredMatrix
from skdp.tables._source import Block, Source, has_shares
from skdp.tables._views import Encoded

# -------------------------------------------- Exact sums of gradients over gridded rows
# This is `GradientSum` on the grids of `GridRows`: rows clipped to integers, exact raw
# predictions, residuals by plain arithmetic and rounded to integers, and exact sums of
# their products, with the same bits for any layout. Lemma 4 of
# ``docs/proofs/noisy_gd.md``.


# From this many numbers in a table on, compiled code repays the time to load it, in a
# hundred passes.
_WORTH_COMPILING = 5_000_000
# From this size on kept rows are in single precision, which holds their integers.
_WORTH_NARROWING = 1_000_000
# Largest number of bytes of kept rows of a source that is not in memory; and the most
# bytes of a number: in dense rows, and of a stored number in other rows.
_MOST_KEPT, _DENSE_BYTES, _STORED_BYTES = 2**30, 4, 24


def residual_bound(objective: LinearObjective, clip: float = math.inf) -> float:
    """Largest norm of a clipped residual at any weights; the unit of its grid."""
    return min(objective.loss.zero_out_bound(math.inf), clip)


def keeps_grid(source: Source, n_samples: int, n_features: int) -> bool:
    """Whether rows on their grid are kept from one pass to the next; public.

    Kept rows come from one reading, so later readings need not repeat them. With rows
    of users, rows are kept as long as they take at most `most_kept`.
    """
    if _are_uncounted(source):
        return _MOST_KEPT > 0
    facts, of_row = source.facts, float(n_features * _DENSE_BYTES)
    if not facts.is_row_major:
        of_row = min(facts.most_entries, facts.n_features) * _STORED_BYTES
    is_little = n_samples * of_row <= _MOST_KEPT * facts.n_partitions
    return facts.is_stable or (not facts.holds_rows and is_little)


def most_kept(source: Source) -> float:
    """Bytes of gridded rows beyond which none is kept after all."""
    return _MOST_KEPT if _are_uncounted(source) else math.inf


def _are_uncounted(source: Source) -> bool:
    """Whether no public fact bounds the number of rows: users outside memory."""
    return source.facts.is_of_users and not source.facts.holds_rows


def is_exact(objective: LinearObjective, clip: float = math.inf) -> bool:
    """Whether rows and residuals have bounds, and so can be put on grids."""
    return math.isfinite(objective.data_norm * residual_bound(objective, clip))


def grid_bound(
    bound: Bound, length: float, objective: LinearObjective, clip: float = math.inf
) -> Bound:
    """A bound in exact arithmetic with the effect of grids on a record's residual.

    Lemma 4: plain arithmetic, and half of a unit in every output. `length` bounds the
    record's row in the query; `bound` is for residuals in real numbers.
    """
    if not is_exact(objective, clip) or bound.zero_out is None:
        return bound
    largest, k = residual_bound(objective, clip), objective.loss.n_outputs
    added = plain_error(objective.loss, clip)
    added += largest * (math.sqrt(k) / 2 * 2.0**-RESIDUAL_BITS + (k + 16) * 2.0**-48)
    replaced = bound.replace_one
    return Bound(
        zero_out=bound.zero_out + length * added,
        replace_one=None if replaced is None else replaced + 2 * length * added,
        norm=bound.norm,
    )


def grid_slack(
    objective: LinearObjective,
    layout: Layout,
    length: float,
    weights_norm: float,
    clip: float = math.inf,
) -> float:
    """Bound on the sensitivity that floating point adds to exact sums.

    It covers the rounding of sums to double precision, and the terms of Lemma 4c for
    rows that are made of parts.
    """
    largest = residual_bound(objective, clip)
    of_all = 8 * objective.n_samples * UNIT_ROUNDOFF * length * largest
    if not layout.cells:
        return of_all
    terms, k = layout.amplification, objective.loss.n_outputs
    rows = layout.rows_of_unit
    raw = terms * weights_norm * (objective.n_features + 64) * 2.0**-39
    of_record = min(largest, objective.loss.smoothness * raw)
    of_record += rows * terms * math.sqrt(k) * 2.0**-28 * largest
    maps = terms * (layout.cells + objective.n_features + 16)
    return 2 * length * of_record + of_all * (1 + maps)


class Kept(NamedTuple):
    """A block's gridded rows, in products and in sums, with targets and users."""

    products: Any
    sums: Any
    y: FloatArray
    present: NDArray[Any] | None
    users: IntArray | None = None

    @property
    def n_bytes(self) -> int:
        grids = {id(own): own.n_bytes for own in (self.products, self.sums)}
        beside = (self.y, self.present, self.users)
        others = sum(own.nbytes for own in beside if own is not None)
        return int(sum(grids.values()) + others)


class ExactGradientSum:
    """Exact sums of gradients over a source; each call reads the source or kept rows.

    The source is private. Every record's residual is clipped to the norm
    `residual_clip`. Rows on their grid are kept if the source shows the same ones at
    every reading.

    Raises
    ------
    ValueError
        If rows or residuals have no bound; `GradientSum` needs no bounds.
    """

    def __init__(
        self,
        source: Source,
        objective: LinearObjective,
        residual_clip: float = math.inf,
    ) -> None:
        if not is_exact(objective, residual_clip):
            raise ValueError(
                "Exact sums need a finite data_norm and a bound on residuals. Got "
                f"data_norm={objective.data_norm:g} and residual_clip="
                f"{residual_clip:g}. Use GradientSum."
            )
        self._source, self._objective = source, objective
        self._largest = residual_bound(objective, residual_clip)
        self._clip = residual_clip
        self._kept: KeptRows[Kept] = KeptRows(most_kept(source))
        # The kind of rows that were read, or of none: it gives the sums their meaning.
        self._kind: GridRows | None = None
        self._keeps = keeps_grid(source, objective.n_samples, objective.n_features)
        n_numbers = objective.n_samples * objective.n_features
        self._is_narrow = n_numbers >= _WORTH_NARROWING or _are_uncounted(source)
        self._is_compiled = (
            objective.loss.n_outputs == 1 and n_numbers >= _WORTH_COMPILING
        )

    def __call__(self, weights: FloatArray, rows: IntArray | None = None) -> FloatArray:
        """Sum over the records of the gradients at `weights`, same shape.

        `weights` are released and on their grid. With rising `rows`, over these records
        only.
        """
        return self.value(self.whole_sums(weights, rows))

    def whole_sums(self, weights: FloatArray, rows: IntArray | None = None) -> Sums:
        """Whole sums of products and of residuals, in units."""
        k = weights.shape[1]
        total: Any = None
        of_intercept = WholeSum((1, k))
        units = np.zeros(k, dtype=np.int64)  # room for 2^44 records at the bound
        for block in self._blocks(rows):
            self._kind = block.sums
            if total is None:
                total = block.sums.total(k)
            units += self._add(total, block, weights).astype(np.int64)
        of_intercept.add(units[None, :])
        if total is None:
            total = self._of_none().total(k)
        return total.whole(), of_intercept

    def value(self, sums: Sums) -> FloatArray:
        """The sum of gradients from whole sums."""
        products, units = sums
        kind = self._of_none() if self._kind is None else self._kind
        unit = self._largest * 2.0**-kind.bits
        of_features = kind.features(products.value()) * unit
        if not self._objective.fit_intercept:
            return of_features
        return np.concatenate([of_features, self.value_of_intercept((units,))])

    def of_intercept(self, weights: FloatArray) -> FloatArray:
        """The intercept's row of the sum at `weights`, of shape (1, n_outputs)."""
        return self.value_of_intercept(self.whole_of_intercept(weights))

    def whole_of_intercept(self, weights: FloatArray) -> Sums:
        """Whole sums of residuals, in units, for the intercept's row."""
        total = WholeSum((1, weights.shape[1]))
        for block in self._blocks(None):
            residual = self._residual(block.products.in_double(), block, weights)
            units = self._whole(residual, block)
            total.add(units.sum(axis=0)[None, :])
        return (total,)

    def value_of_intercept(self, sums: Sums) -> FloatArray:
        """The intercept's row from whole sums."""
        (units,) = sums
        unit = self._largest * 2.0**-RESIDUAL_BITS
        return units.value() * unit * self._objective.intercept_value

    def _of_none(self) -> GridRows:
        """Gridded rows of no records; public."""
        rows: GridRows = self._on_grid(self._source.nothing()).sums
        return rows

    # ------------------------------------------------------------------ rows

    def _blocks(self, rows: IntArray | None) -> Iterator[Kept]:
        if rows is not None:
            yield from self._sampled(rows)
        elif self._keeps:
            yield from self._kept.passed(self._read)
        else:
            yield from self._read()

    def _read(self) -> Iterator[Kept]:
        return map(self._on_grid, self._source.blocks())

    def _sampled(self, rows: IntArray) -> Iterator[Kept]:
        for block in blocks_of(self._source, rows):
            # A sampled null record leaves no trace.
            real = slice(None) if block.present is None else block.present
            if len(block.y[real]):
                yield self._on_grid(Block(block.X[real], block.y[real]))

    def _on_grid(self, block: Block) -> Kept:
        products = self._gridded(block.X)
        return Kept(
            products, self._in_sums(products), block.y, block.present, block.users
        )

    def _in_sums(self, products: Any) -> Any:
        """Rows in sums, from rows in products; here both are equal."""
        return products

    def _gridded(self, X: Any) -> Any:
        norm = self._objective.data_norm
        entries = self._objective.entry_bound
        found = _held(X, norm, self._is_narrow, self._is_compiled)
        return found.clipped(entries) if entries < norm else found

    # ------------------------------------------------------------- residuals

    def _add(self, total: Any, block: Kept, weights: FloatArray) -> FloatArray:
        """Add the gradients of a block; return the sums of its residuals, in units."""
        is_same = block.sums is block.products
        if self._is_compiled and is_same and isinstance(block.sums, DenseGrid):
            return self._add_compiled(total, block, weights)
        products = block.products.in_double()
        sums = products if is_same else block.sums.in_double()
        residual = self._residual(products, block, weights)
        units = self._whole(residual, block)
        if sums.factor is None:
            sums.add(total, units)
        else:
            if has_shares(block.present):
                # Features and intercept move a user's gradient along one ray.
                residual = units * (self._largest * 2.0**-RESIDUAL_BITS)
            sums.add(total, self._units(residual, sums.factor, sums.bits))
        return np.asarray(units.sum(axis=0))

    def _residual(self, rows: GridRows, block: Kept, weights: FloatArray) -> FloatArray:
        """Clipped residuals, 0 for null records."""
        raw = rows.raw(weights)
        if self._objective.offset:
            raw += self._objective.offset
        residual = plain_residual(self._objective.loss, block.y, raw)
        if math.isfinite(self._clip):
            residual = clipped(
                residual, clip_of(self._objective.loss, block.y, self._clip)
            )
        if block.present is not None:
            residual[block.present == 0] = 0.0
        return residual

    def _whole(self, residual: FloatArray, block: Kept) -> FloatArray:
        """Residuals in whole units; multiplied by the row's share and cut towards 0."""
        units = self._units(residual, None, RESIDUAL_BITS)
        if block.present is not None and has_shares(block.present):
            units *= block.present[:, None]
            np.trunc(units, out=units)
        return units

    def _units(
        self, residual: FloatArray, factor: FloatArray | None, bits: int
    ) -> FloatArray:
        """Weighted residuals as whole numbers of 2^-bits of their bound."""
        units = residual if factor is None else residual * factor[:, None]
        units = units * (2.0**bits / self._largest)
        units += 0.5
        return np.floor(units, out=units)

    def _add_compiled(self, total: Any, block: Kept, weights: FloatArray) -> FloatArray:
        from skdp.sums._gradient_kernel import add_gradients

        objective, rows = self._objective, block.sums.entries
        d, form = objective.n_features, int(objective.loss.form)
        facts = (
            LONGEST * weights[d, 0] if objective.fit_intercept else 0.0,
            block.sums.unit,
            objective.offset[0] if objective.offset else 0.0,
            self._clip,
            2.0**RESIDUAL_BITS / self._largest,
        )
        present = _ALL if block.present is None else block.present
        own, units = np.ascontiguousarray(weights[:d, 0]), 0.0
        for start in range(0, len(rows), MOST_ROWS):
            run, part = slice(start, start + MOST_ROWS), np.zeros(d)
            units += add_gradients(
                rows[run],
                block.y[run],
                present[run],
                own,
                facts,
                form,
                objective.loss.form_constants,
                part,
            )
            total.add(part.astype(np.int64)[:, None], len(rows[run]))
        return np.array([units])


# The mask of blocks in which every record is present.
_ALL = np.empty(0, dtype=bool)


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


def grid_view(source: Source) -> Encoded:
    """Gridded rows of norm at most 1, with their norms."""
    n_numbers = source.n_samples * source.n_features
    is_narrow = n_numbers >= _WORTH_NARROWING or _are_uncounted(source)
    is_compiled = n_numbers >= _WORTH_COMPILING
    encode = partial(_with_norms, is_narrow=is_narrow, is_compiled=is_compiled)
    return Encoded(source, encode)


def _with_norms(X: Any, is_narrow: bool, is_compiled: bool) -> Any:
    return replace(_held(X, 1.0, is_narrow, is_compiled), norms=row_norms(X))


def _held(X: Any, norm: float, is_narrow: bool, is_compiled: bool) -> Any:
    """`gridded`, in single precision and by compiled code where this pays."""
    if is_compiled and _is_row_major(X):
        return _compiled_grid(X, norm)
    found = gridded(X, norm)
    if isinstance(found, DenseGrid) and is_narrow:
        return replace(found, entries=found.entries.astype(np.float32, copy=False))
    return found


def _is_row_major(X: Any) -> bool:
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


# ----------------------------------------------------- Queries about a sum of gradients


class GradientAnswer(Summed):
    """A query about the sum of gradients at released weights.

    A reader is an `ExactGradientSum`, which adds up whole numbers, or a class with the
    same methods.
    """

    @property
    @abstractmethod
    def at(self) -> FloatArray:
        """The weights in a reader's form, on their grid."""

    @abstractmethod
    def answer(self, gradient: FloatArray) -> FloatArray:
        """The query's part of a reader's sum. Private."""

    @abstractmethod
    def open(self, source: Any) -> Any:
        """A reader of the source; opening reads nothing."""

    def whole_sums(self, reader: Any, rows: IntArray | None) -> Sums:
        sums: Sums = reader.whole_sums(self.at, rows)
        return sums

    def from_whole(self, source: Any, sums: Sums) -> FloatArray:
        return self.answer(self.open(source).value(sums))

    def total(self, reader: Any, rows: IntArray | None) -> FloatArray:
        return self.answer(reader(self.at, rows))


# ------------------------------------------------- The gradient sum at released weights
# Rows and residuals are clipped on public grids, the intercept has a weight, and the
# bound holds *at these weights*. Proofs: ``docs/proofs/noisy_gd.md``.


# Factor on the weights' norm, for the rounding of raw predictions.
_ROUNDED = 1 + 1e-12


@dataclass(frozen=True)
class Gradients:
    """Gradient sums of one objective.

    Every record's residual is clipped to the norm `residual_clip`. `intercept_weight`,
    in (0, 1], is a factor on the intercept's part of every query, undone after the
    noise.
    """

    objective: LinearObjective
    residual_clip: float = math.inf
    intercept_weight: float = 1.0

    def at(self, weights: FloatArray) -> Gradient:
        """The query at released weights of shape (n_columns, n_outputs).

        The query uses the nearest weights of the public grid: post-processing.
        """
        return Gradient(self, on_grid(weights))

    @property
    def is_exact(self) -> bool:
        """Whether sums are of integers, since rows and residuals are bounded."""
        return is_exact(self.objective, self.residual_clip)

    @property
    def length(self) -> float:
        """Largest norm of a row in the query."""
        objective = self.objective
        if not objective.fit_intercept:
            return objective.data_norm
        return objective.data_norm * math.hypot(1.0, self.intercept_weight)

    @property
    def worst(self) -> Bound:
        """Bound at any weights."""
        return self.bound(math.inf)

    def bound(self, weights_norm: float) -> Bound:
        """Bound at weights of this spectral norm, in the query's units."""
        objective, clip = self.objective, self.residual_clip
        bound = gradient_bound(objective, clip, weights_norm, self.intercept_weight)
        bound = grid_bound(bound, self.length, objective, clip)
        return bound.with_user_bounds() if self.is_exact else bound


@dataclass(frozen=True, eq=False)
class Gradient(GradientAnswer):
    """The gradient sum at `weights`, which are released.

    Weights are of shape (n_columns, n_outputs).
    """

    family: Gradients
    weights: FloatArray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.weights.shape

    @property
    def _unit(self) -> FloatArray:
        """Factor on each row of the sum in the query."""
        unit = np.ones((len(self.weights), 1))
        if self.family.objective.fit_intercept:
            unit[-1] = self.family.intercept_weight
        return unit

    def bound(self) -> Bound:
        norm = float(np.linalg.norm(self.weights / self._unit, 2))
        return self.family.bound(norm * _ROUNDED)

    def slack(self, layout: Layout) -> float:
        # Norm of the weights, for the error of raw predictions.
        norm = float(np.linalg.norm(self.weights / self._unit))
        objective, clip = self.family.objective, self.family.residual_clip
        if self.family.is_exact:
            return grid_slack(objective, layout, self.family.length, norm, clip)
        return rounding_slack(
            objective,
            layout.largest_block,
            norm,
            layout.moved_rows,
            layout.amplification,
        )

    def open(self, source: Source) -> ExactGradientSum | GradientSum:
        of = ExactGradientSum if self.family.is_exact else GradientSum
        return of(source, self.family.objective, self.family.residual_clip)

    @property
    def is_whole(self) -> bool:
        return self.family.is_exact

    @property
    def at(self) -> FloatArray:
        return self.weights

    def answer(self, gradient: FloatArray) -> FloatArray:
        return self._unit * gradient

    def read(self, released: FloatArray) -> FloatArray:
        """The gradient sum from a released vector; post-processing."""
        return released / self._unit


# ----------------------------------- Gradient sums with each user clipped as one vector
# A user adds the sum over the user's rows, as whole numbers, shortened to the norm of
# `user_clip` records and cut towards 0. Proof: ``docs/proofs/users.md``, Lemma 4.


# Number of users whose clipped contributions, below 2^41, add up in 64 bits.
_MOST_USERS = 1 << 20


@dataclass(frozen=True)
class UserGradients(Gradients):
    """Gradient sums of one objective, of users.

    `user_clip`, in (0, 1], is the norm to which a user's contribution is clipped, in
    units of the largest contribution of a record.
    """

    user_clip: float = 1.0

    def at(self, weights: FloatArray) -> UserGradient:
        """The query at released weights of shape (n_columns, n_outputs)."""
        return UserGradient(self, on_grid(weights))

    def bound(self, weights_norm: float) -> Bound:
        """Bound of the ball that holds a user's contribution; for users only."""
        record = super().bound(weights_norm).zero_out
        if record is None or not self.is_exact:
            return Bound()
        most = self.user_clip * record
        return Bound(zero_out_user=most, replace_user=2 * most)


@dataclass(frozen=True, eq=False)
class UserGradient(Gradient):
    """The sum of users' clipped contributions at `weights`, which are released."""

    family: UserGradients

    def open(self, source: Source) -> UserSum:
        return UserSum(source, self.family)

    def whole_sums(self, reader: UserSum, rows: IntArray | None) -> Sums:
        most = self.bound().under("zero_out_user")
        return reader.clipped_sums(self.weights, most)

    def total(self, reader: UserSum, rows: IntArray | None) -> FloatArray:
        return self.answer(reader.value(self.whole_sums(reader, rows)))

    def read(self, released: FloatArray) -> FloatArray:
        """The gradient sum; a user's largest contribution is that of a record."""
        return super().read(released) / self.family.user_clip


class UserSum(ExactGradientSum):
    """Sums of users' clipped contributions; a user's rows may be anywhere."""

    def __init__(self, source: Source, gradients: UserGradients) -> None:
        super().__init__(source, gradients.objective, gradients.residual_clip)
        self._weight = gradients.intercept_weight * gradients.objective.fit_intercept

    def _gridded(self, X: Any) -> Any:
        # The clip applies to a vector of features, so rows made of parts are expanded.
        return super()._gridded(X.made() if isinstance(X, CentredMatrix) else X)

    def clipped_sums(self, weights: FloatArray, most: float) -> Sums:
        """Whole sums of users' contributions of norm at most `most`."""
        of_features, of_constant = self._parts(weights)
        constant = self._weight * LONGEST
        n_users, size = len(of_features), of_features[0].size + of_constant[0].size
        squares = np.zeros(n_users)
        # Squares are added in a fixed order: a user's norm depends on no other user.
        for own in of_constant.T:
            squares += (constant * own) ** 2
        for column in of_features.reshape(n_users, -1).T:
            squares += column * column
        unit = self._objective.data_norm / LONGEST * self._largest
        # Shorter, for the rounding of squares, of their sum, of roots and products.
        shorter = 1 - (size + 16) * 2.0**-51
        limit = most * shorter / (unit * 2.0**-RESIDUAL_BITS)
        lengths = np.sqrt(squares)
        factor = limit / np.maximum(lengths, limit)
        of_features *= factor[:, None, None]
        of_constant *= factor[:, None]
        return _summed(of_features), _summed(of_constant[:, None, :])

    def _parts(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Whole sums over each user's rows: rows times residuals, and residuals."""
        # In a part of a source, users keep their numbers in the whole source.
        n = round(self._objective.n_samples * self._source.facts.max_overcount)
        k = weights.shape[1]
        of_features = np.zeros((n, self._objective.n_features, k))
        of_constant = np.zeros((n, k))
        for block in self._blocks(None):
            rows = block.products.in_double()
            residual = self._residual(rows, block, weights)
            units = self._units(residual, None, RESIDUAL_BITS)
            users, whose = _users_of(block)
            of_constant[users] += whose @ units
            for j, own in enumerate(units.T):
                if issparse(rows.entries):
                    moved = rows.entries.multiply(own[:, None])
                    of_features[users, :, j] += (whose @ csr_array(moved)).toarray()
                else:
                    of_features[users, :, j] += whose @ (rows.entries * own[:, None])
        return of_features, of_constant


def _users_of(block: Kept) -> tuple[IntArray, csr_array]:
    """Users of a block's present rows, and a matrix that adds up each user's rows.

    Only users in the block, so that time does not grow with blocks times users.
    """
    if block.users is None or block.present is None:
        raise TypeError(
            "Users' parts must be of rows whose users are known. Got others."
        )
    rows = np.flatnonzero(block.present)
    users, codes = np.unique(block.users[rows], return_inverse=True)
    shape = len(users), len(block.present)
    return users, csr_array((np.ones(len(rows)), (codes, rows)), shape)


def _summed(parts: FloatArray) -> WholeSum:
    """The sum of all users' contributions, cut towards 0."""
    total = WholeSum(parts.shape[1:])
    for first in range(0, len(parts), _MOST_USERS):
        run = np.trunc(parts[first : first + _MOST_USERS])
        total.add(run.astype(np.int64).sum(axis=0))
    return total


# ---------------------------------- Separate queries for the features and the intercept
# The intercept is one weight of large curvature: a few per cent of the budget find it,
# at new weights of the features as often as they change. In one query with d features,
# it would make every row longer, and its gradient would be for weights that the same
# step replaces. Proofs: ``docs/proofs/iht.md``.


def split_bound(
    objective: LinearObjective, residual_clip: float, weights_norm: float = math.inf
) -> Bound:
    """L2 bound of either query at public weights, in exact arithmetic.

    Both relations: Lemma 1 of ``docs/proofs/iht.md``.

    Residuals are clipped to the norm `residual_clip`; `weights_norm` is the spectral
    norm of the released weights, the intercept's included.
    """
    one_record = objective.data_norm * min(
        objective.loss.zero_out_bound(objective.row_norm * weights_norm), residual_clip
    )
    bound = Bound(zero_out=one_record, replace_one=2 * one_record)
    bound = grid_bound(bound, objective.data_norm, objective, residual_clip)
    return bound.with_user_bounds()


@dataclass(frozen=True)
class SplitGradients:
    """Both queries about the gradient sums of one objective.

    Every record's residual is clipped to the norm `residual_clip`.
    """

    objective: LinearObjective
    residual_clip: float

    def features(self, weights: FloatArray) -> FeaturesPart:
        """The features' rows at released weights of shape (n_columns, n_outputs)."""
        return FeaturesPart(self, on_grid(weights))

    def intercept(self, weights: FloatArray) -> InterceptPart:
        """The intercept's row at released weights."""
        return InterceptPart(self, on_grid(weights))


@dataclass(frozen=True, eq=False)
class SplitGradient(GradientAnswer):
    """A part of the gradient sum at `weights`, which are released.

    Weights are of shape (n_columns, n_outputs).
    """

    family: SplitGradients
    weights: FloatArray

    @property
    def at(self) -> FloatArray:
        return self.weights

    def bound(self) -> Bound:
        norm = float(np.linalg.norm(self.weights, 2)) * _ROUNDED
        return split_bound(self.family.objective, self.family.residual_clip, norm)

    def slack(self, layout: Layout) -> float:
        length = float(np.linalg.norm(self.weights))
        objective, clip = self.family.objective, self.family.residual_clip
        return grid_slack(objective, layout, objective.data_norm, length, clip)

    def open(self, source: Source) -> ExactGradientSum:
        return ExactGradientSum(
            source, self.family.objective, self.family.residual_clip
        )


class FeaturesPart(SplitGradient):
    """The features' rows of the sum."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.family.objective.n_features, self.weights.shape[1]

    def answer(self, gradient: FloatArray) -> FloatArray:
        return gradient[: self.family.objective.n_features]


class InterceptPart(SplitGradient):
    """The intercept's row of the sum."""

    @property
    def shape(self) -> tuple[int, ...]:
        return 1, self.weights.shape[1]

    def whole_sums(self, reader: ExactGradientSum, rows: IntArray | None) -> Sums:
        return reader.whole_of_intercept(self.weights)

    def from_whole(self, source: Source, sums: Sums) -> FloatArray:
        return self.answer(self.open(source).value_of_intercept(sums))

    def total(self, reader: ExactGradientSum, rows: IntArray | None) -> FloatArray:
        return self.answer(reader.of_intercept(self.weights))

    def answer(self, gradient: FloatArray) -> FloatArray:
        return gradient
