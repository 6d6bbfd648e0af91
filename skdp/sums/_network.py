"""Sums of clipped gradients of networks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse, vstack

from skdp._arrays import UNIT_ROUNDOFF, FloatArray, IntArray
from skdp.losses._objective import Activation, NetworkObjective
from skdp.privacy.release._plan import Bound, Layout
from skdp.sums._adder import cut, joined, present_rows, weighed, without_nulls
from skdp.sums._exact import Sums, WholeSum, blocks_of, chosen, on_grid
from skdp.sums._gradient_sum import ExactSum, GridPair, ReaderQuery, residual_of
from skdp.sums._grid_rows import DenseGrid, GridRows, gridded, squares_of
from skdp.tables._source import NO_ROOM, Block, Source

# ----------------------------------------------- Layers forwards and backwards on grids
# Inputs of hidden layers and back-propagated derivatives are integers times a power of
# two that depends on the record alone. So products with released weights on their grid
# are exact in any order, and a record's gradient has the same bits in any layout. See
# Lemma 2 of ``docs/proofs/networks.md``.


# Bits of inputs and derivatives, and bits of weights between hidden units. With these,
# sums of 2^12 products are below 2^53.
UNIT_BITS, HIDDEN_WEIGHT_BITS = 20, 26
# Powers of two from this exponent on are ordinary doubles, with room for squares.
_LEAST_EXPONENT = -400


@dataclass(frozen=True, eq=False)
class OwnGrid:
    """Vectors, one in each row, in units of a power of two for each row.

    Parameters
    ----------
    units : ndarray of shape (n_rows, n)
        Whole numbers of magnitude at most 2^20.
    unit : ndarray of shape (n_rows,)
    """

    units: FloatArray
    unit: FloatArray

    def squares(self) -> FloatArray:
        """Squared norms, which are exact sums."""
        squares: FloatArray = np.einsum("ij,ij->i", self.units, self.units)
        return squares * self.unit**2

    def times(self, matrix: FloatArray) -> FloatArray:
        """Products with a matrix on its grid, each rounded once."""
        products: FloatArray = self.units @ matrix
        products *= self.unit[:, None]
        return products


def own_grid(values: FloatArray) -> OwnGrid:
    """Vectors rounded to multiples of 2^-20 of a power of two above their entries."""
    largest = np.abs(values).max(axis=1)
    unit = _units_above(largest)
    units = values / unit[:, None]
    return OwnGrid(np.rint(units, out=units), unit)


def _units_above(largest: FloatArray) -> FloatArray:
    exponents = np.maximum(np.frexp(largest)[1], _LEAST_EXPONENT)
    return np.asarray(np.ldexp(1.0, exponents - UNIT_BITS))


def as_inputs(raw: FloatArray, activation: Activation) -> OwnGrid:
    """Values of hidden units, followed by the constant 1 for the biases.

    Parameters
    ----------
    raw : ndarray of shape (n_rows, n_units)

    Returns
    -------
    OwnGrid of shape (n_rows, n_units + 1)
        Its unit is at least 2^-20.
    """
    values = activation.value(raw)
    if activation.is_bounded:
        unit = np.full(len(raw), 2.0**-UNIT_BITS)
    else:
        unit = _units_above(np.maximum(np.abs(values).max(axis=1), 1.0))
    units = np.empty((len(raw), raw.shape[1] + 1))
    np.divide(values, unit[:, None], out=units[:, :-1])
    units[:, -1] = 1.0 / unit
    return OwnGrid(np.rint(units, out=units), unit)


@dataclass(frozen=True, eq=False)
class Passed:
    """Inputs and back-propagated derivatives of the layers, for one block.

    Parameters
    ----------
    inputs : list of OwnGrid
        Inputs of every layer but the first, with the constant of the biases.
    deltas : list of OwnGrid
        Derivatives of the loss by the raw values of every layer.
    """

    inputs: list[OwnGrid]
    deltas: list[OwnGrid]

    def squares(self, of_rows: FloatArray) -> FloatArray:
        """Squared norms of the records' joint gradients of all layers.

        The squared norm of one layer's gradient, which is never formed, is the squared
        norm of the layer's input times that of its derivatives. `of_rows` are squared
        norms of the first layer's inputs.
        """
        squares = of_rows * self.deltas[0].squares()
        for given, delta in zip(self.inputs, self.deltas[1:], strict=True):
            squares += given.squares() * delta.squares()
        return squares


def forwards(
    raw: FloatArray, layers: list[FloatArray], activation: Activation
) -> tuple[list[OwnGrid], FloatArray]:
    """Inputs of all layers but the first, and the raw values of the last layer.

    Parameters
    ----------
    raw : ndarray of shape (n_rows, n_units)
        Raw values of the first layer.
    layers : list of ndarray
        Weights of all layers, on their grids; the first is not used.
    """
    inputs = []
    for layer in layers[1:]:
        inputs.append(as_inputs(raw, activation))
        raw = inputs[-1].times(layer)
    return inputs, raw


def backwards(
    residual: FloatArray,
    inputs: list[OwnGrid],
    layers: list[FloatArray],
    activation: Activation,
) -> Passed:
    """Derivatives by every layer's raw values, from the residual of the loss."""
    deltas = [own_grid(residual)]
    for given, layer in zip(reversed(inputs), reversed(layers[1:]), strict=True):
        sent = deltas[-1].times(layer[:-1].T)
        value = given.units[:, :-1] * given.unit[:, None]
        sent *= activation.slope(value)
        deltas.append(own_grid(sent))
    return Passed(inputs, deltas[::-1])


# ------------------------------------- Exact and floating sums of a network's gradients


# Number of rows that pass through the layers together. There are enough rows to make
# calls efficient, and few enough that values between the layers stay in the cache.
_ROWS = 1024
# Number of rows that are kept together, so that a sample has enough of them in a block.
_KEPT_ROWS = 8192


class ExactNetworkSum(ExactSum):
    """Exact sums of clipped gradients of a network.

    Every bit of a record's gradient depends only on the record and the weights, and
    sums are sums of integers.

    Parameters
    ----------
    source : Source
    objective : NetworkObjective
    gradient_clip : float in (0, inf)
        Largest norm of a record's joint gradient of all layers.
    """

    def __init__(
        self, source: Source, objective: NetworkObjective, gradient_clip: float
    ) -> None:
        super().__init__(source, objective)
        self._clip = gradient_clip

    def whole_sums(self, weights: FloatArray, rows: IntArray | None = None) -> Sums:
        layers = self._objective.layers(weights)
        totals, at_once = self._totals(), self._rows_at_once()
        for block in self._blocks(rows):
            for rows_of_run in _runs(len(block.y), at_once):
                run = block.part(rows_of_run)
                own = run.X.products.in_double()
                passed = self._passed(own, run, layers)
                factors = self._factors(passed, run.X.squares)
                totals.add(own, passed, weighed(factors, run))
        found: Sums = totals.whole()
        return found

    def value(self, sums: Sums) -> FloatArray:
        """The gradient sum from whole sums."""
        values = self._totals().value(sums, self._objective.input_factor, self._clip)
        return np.asarray(values)

    def _totals(self) -> Any:
        """The sums to which records are added."""
        return Totals(self._objective.shapes, self._of_none())

    def _rows_at_once(self) -> int:
        return _ROWS

    def _passed(self, rows: Any, block: Block, layers: list[FloatArray]) -> Any:
        raw = rows.raw(layers[0][:-1])
        raw *= self._objective.input_factor
        raw += layers[0][-1]
        activation, loss = self._objective.unit, self._objective.loss
        inputs, raw = forwards(raw, layers, activation)
        residual = residual_of(loss, block, raw)
        return backwards(residual, inputs, layers, activation)

    def _factors(self, passed: Any, squares: FloatArray) -> FloatArray:
        """Factor on each record's joint gradient that clips it, divided by the clip."""
        norms = np.sqrt(passed.squares(squares))
        return np.asarray(1.0 / np.maximum(norms, self._clip))

    # ------------------------------------------------------------------ rows

    def _read(self) -> Iterator[Block]:
        # In single precision, which can represent the integers.
        return _together(super()._read(), _KEPT_ROWS, np.float32)

    def _drawn(self, rows: IntArray) -> Iterator[Block]:
        """Present records of several blocks together: a sample has few of each."""
        drawn: Iterator[Block]
        if self._room != NO_ROOM:
            kept = chosen(self._kept.passed(self._read), rows)
            drawn = (present_rows(block) for block in kept)
        else:
            drawn = super()._drawn(rows)
        # Copied once, to double precision, in which they are multiplied.
        return _together(drawn, _ROWS, np.float64)

    def _on_grid(self, block: Block) -> Block:
        rows = gridded(block.X, self._objective.data_norm)
        of_unit = (rows.unit * self._objective.input_factor) ** 2
        squares = squares_of(rows.entries) * of_unit + 1.0
        if isinstance(rows, DenseGrid):  # single precision can represent the integers
            rows = DenseGrid(rows.entries.astype(np.float32), rows.norm)
        return replace(block, X=GridPair(rows, rows, squares))


class Totals:
    """Sums of integers, by layer.

    Parameters
    ----------
    shapes : sequence of pairs of int
        Shapes of the layers, biases included.
    of_none : GridRows
        Rows of no records, whose class defines what the sums of rows represent.
    """

    def __init__(self, shapes: Sequence[tuple[int, int]], of_none: GridRows) -> None:
        (_, n_units), *rest = shapes
        self._kind, self._of_rows = of_none, of_none.total(n_units)
        self._of_first_bias = WholeSum((n_units,))
        self._rest = [WholeSum(shape, 2 * UNIT_BITS) for shape in rest]

    def add(self, rows: Any, passed: Passed, factors: FloatArray) -> None:
        """Add the gradients of up to 2^12 records.

        Entries are rounded towards 0, so that no gradient is longer than with exact
        `factors`.
        """
        units = cut_units(
            passed.deltas[0].units, factors * passed.deltas[0].unit, rows.bits
        )
        rows.add(self._of_rows, units)
        self._of_first_bias.add(units.sum(axis=0))
        parts = zip(self._rest, passed.inputs, passed.deltas[1:], strict=True)
        for total, given, delta in parts:
            # The largest entry of an input exceeds half of 2^20 units, so in these
            # units the derivatives have norm at most twice the clip.
            own = factors * delta.unit * given.unit
            units = cut_units(delta.units, own, 2 * UNIT_BITS - 1)
            total.add((given.units.T @ units).astype(np.int64), len(units))

    def whole(self) -> Sums:
        return self._of_rows, self._of_first_bias, *self._rest

    def value(self, sums: Sums, input_factor: float, clip: float) -> FloatArray:
        """The gradient sum as one vector."""
        of_rows, of_first_bias, *rest = sums
        unit = clip * 2.0**-self._kind.bits
        features = self._kind.features(of_rows.value()) * (unit * input_factor)
        bias = of_first_bias.value() * unit
        unit = clip * 2.0 ** (1 - 2 * UNIT_BITS)
        others = [total.value().ravel() * unit for total in rest]
        return np.concatenate([features.ravel(), bias, *others])


def _runs(n_rows: int, at_once: int) -> Iterator[slice]:
    """Slices of nearly equal size, at most one and a half times `at_once`."""
    n_runs = max(1, round(n_rows / at_once))
    for i in range(n_runs if n_rows else 0):
        yield slice(i * n_rows // n_runs, (i + 1) * n_rows // n_runs)


def cut_units(units: FloatArray, factors: FloatArray, bits: int) -> FloatArray:
    """Rows times factors, rounded towards 0 to whole multiples of 2^-bits."""
    return cut(units, factors * 2.0**bits)


def _together(
    blocks: Iterable[Block], least: int, kind: type[np.floating[Any]]
) -> Iterator[Block]:
    """Blocks of one kind joined to at least `least` records, except the last."""
    waiting: list[Block] = []
    for block in blocks:
        waiting.append(block)
        if sum(len(own.y) for own in waiting) >= least:
            yield _joined(waiting, kind)
            waiting = []
    if waiting:
        yield _joined(waiting, kind)


def _joined(blocks: list[Block], kind: type[np.floating[Any]]) -> Block:
    entries = [own.X.products.entries for own in blocks]
    if issparse(entries[0]):
        stacked = vstack(entries, format="csr")
    else:
        stacked = np.concatenate(entries, dtype=kind)
    rows = replace(blocks[0].X.products, entries=stacked)
    squares = np.concatenate([own.X.squares for own in blocks])
    return joined(blocks, GridPair(rows, rows, squares))


class NetworkSum:
    """Floating sums of gradients, for fits without noise (``epsilon=inf``).

    Parameters
    ----------
    source : Source
    objective : NetworkObjective
    gradient_clip : float in (0, inf]
    """

    def __init__(
        self, source: Source, objective: NetworkObjective, gradient_clip: float
    ) -> None:
        self._source, self._objective = source, objective
        self._clip = gradient_clip

    def __call__(self, weights: FloatArray, rows: IntArray | None = None) -> FloatArray:
        """Sum over the records of the gradients at `weights`, of the same shape."""
        layers = self._objective.layers(weights)
        totals = [np.zeros(shape) for shape in self._objective.shapes]
        for block in blocks_of(self._source, rows):
            inputs, deltas = self._passed(block, layers)
            squares = np.zeros(len(block.y))
            for given, delta in zip(inputs, deltas, strict=True):
                squares += _squares(given, 1.0) * _squares(delta, 0.0)
            factors = 1.0 / np.maximum(np.sqrt(squares) / self._clip, 1.0)
            factors = weighed(factors, block)
            for total, given, delta in zip(totals, inputs, deltas, strict=True):
                own = delta * factors[:, None]
                total[:-1] += given.T @ own
                total[-1] += own.sum(axis=0)
        return np.concatenate([total.ravel() for total in totals])

    def _passed(
        self, block: Block, layers: list[FloatArray]
    ) -> tuple[list[Any], list[FloatArray]]:
        """Inputs of every layer, and derivatives by its raw values."""
        activation, loss = self._objective.unit, self._objective.loss
        inputs: list[Any] = [block.X.astype(np.float64) * self._objective.input_factor]
        for layer in layers[:-1]:
            raw = inputs[-1] @ layer[:-1] + layer[-1]
            inputs.append(activation.value(np.asarray(raw)))
        raw = np.asarray(inputs[-1] @ layers[-1][:-1] + layers[-1][-1])
        deltas = [without_nulls(loss.residual(block.y, raw), block)]
        for given, layer in zip(inputs[:0:-1], layers[:0:-1], strict=True):
            deltas.append((deltas[-1] @ layer[:-1].T) * activation.slope(given))
        return inputs, deltas[::-1]


def _squares(rows: Any, more: float) -> FloatArray:
    if issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1)).ravel() + more
    return np.asarray(np.einsum("ij,ij->i", rows, rows)) + more


# --------------------------------------------- Query for a network's clipped gradients
# Each record has one joint gradient of all layers and biases, which is clipped to one
# norm. The bound is this norm under zero_out and twice the norm under replace_one, at
# any weights. Proofs: ``docs/proofs/networks.md``.


# Factor on a record's norm that covers the rounding of the root, the quotient and the
# products with which the gradient is clipped.
_ROUNDED = 1 + 2.0**-40


@dataclass(frozen=True)
class ClippedNetworkGradient:
    """Gradient sums of one network.

    Every record's gradient is clipped to the norm `gradient_clip`. inf means no clip,
    which is only for fits without privacy.
    """

    objective: NetworkObjective
    gradient_clip: float

    def at(self, weights: FloatArray) -> NetworkGradient:
        """The query at released weights of shape (n_weights,).

        The query uses the nearest weights on the public grids, which is
        post-processing.
        """
        first, *rest = self.objective.layers(weights)
        layers = [on_grid(first), *(on_grid(own, HIDDEN_WEIGHT_BITS) for own in rest)]
        return NetworkGradient(self, np.concatenate([own.ravel() for own in layers]))

    def reader(self, source: Source) -> ExactNetworkSum | NetworkSum:
        """A reader with exact sums, or floating-point sums if there are no bounds."""
        kind: type[ExactNetworkSum | NetworkSum]
        kind = ExactNetworkSum if self.is_exact else NetworkSum
        if self.objective.convolved:
            kind = self.objective.convolved[0].sums(is_exact=self.is_exact)
        return kind(source, self.objective, self.gradient_clip)

    @property
    def is_exact(self) -> bool:
        """Whether sums are of integers, since rows and gradients are bounded."""
        return math.isfinite(self.objective.data_norm * self.gradient_clip)

    @property
    def worst(self) -> Bound:
        """Bound at any weights."""
        one_record = self.gradient_clip * _ROUNDED
        return Bound(zero_out=one_record, replace_one=2 * one_record).with_user_bounds()


@dataclass(frozen=True, eq=False)
class NetworkGradient(ReaderQuery):
    """The gradient sum at released `weights`, of shape (n_weights,)."""

    family: ClippedNetworkGradient

    @property
    def shape(self) -> tuple[int, ...]:
        return self.weights.shape

    def bound(self) -> Bound:
        return self.family.worst

    def slack(self, layout: Layout) -> float:
        # Converting exact totals to doubles rounds them, for both neighbours.
        n_samples = self.family.objective.n_samples
        return 8 * n_samples * UNIT_ROUNDOFF * self.family.gradient_clip

    def read(self, released: FloatArray) -> FloatArray:
        """The gradient sum, which is the released vector."""
        return released
