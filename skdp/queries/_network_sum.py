"""Sums of a network's gradients: exact ones of clipped gradients, and floating ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack

from skdp._floats import FloatArray, IntArray
from skdp.data._source import Block, Source, counted, has_shares, nothing
from skdp.losses._base import Loss
from skdp.losses._plain import plain_residual
from skdp.objectives._network import NetworkObjective
from skdp.queries._backprop import UNIT_BITS, Passed, backwards, forwards
from skdp.queries._blocks import blocks_of
from skdp.queries._exact_gradient import keeps_grid, most_kept
from skdp.queries._exact_sums import WholeSum
from skdp.queries._grid import ExactTotal
from skdp.queries._grid_rows import DenseGrid, GridRows, gridded
from skdp.queries._kept_rows import KeptRows
from skdp.queries._row_grid import squares_of
from skdp.queries._summed import Sums

# Rows that go through the layers at once: as many as pay for a call, and as few as
# leave what is between the layers in the processor's memory.
_ROWS = 1024
# Rows that are kept together, of which a sample draws enough to pay for a call.
_KEPT_ROWS = 8192


class ExactNetworkSum:
    """Exact sums of clipped gradients over a source: the same bits for any layout.

    The source is private. A record's gradient follows from the record and the weights
    alone, to the last bit, and sums are of integers. Rows on their grid are kept if the
    source shows the same ones at every reading, or if they are few.

    Parameters
    ----------
    source : Source
    objective : NetworkObjective
    gradient_clip : float in (0, inf)
        Norm that no record's joint gradient of all layers is longer than.
    """

    def __init__(
        self, source: Source, objective: NetworkObjective, gradient_clip: float
    ) -> None:
        self._source, self._objective = source, objective
        self._clip = gradient_clip
        self._kept: KeptRows[Gridded] = KeptRows(most_kept(source))
        self._keeps = keeps_grid(source, objective.n_samples, objective.n_features)

    def __call__(self, weights: FloatArray, rows: IntArray | None = None) -> FloatArray:
        """Sum over the records of the clipped gradients at `weights`, same shape.

        `weights` are released and on their grids. With `rows`, in rising order, over
        these records only.
        """
        return self.value(self.whole_sums(weights, rows))

    def whole_sums(self, weights: FloatArray, rows: IntArray | None = None) -> Sums:
        layers = self._objective.layers(weights)
        totals, at_once = self._totals(), self._rows_at_once()
        for block in self._blocks(rows):
            for chosen in _runs(len(block.y), at_once):
                run = block.part(chosen)
                own = run.rows.in_double()
                passed = self._passed(own, run, layers)
                factors = counted(self._factors(passed, run.squares), run.present)
                totals.add(own, passed, factors)
        found: Sums = totals.whole()
        return found

    def value(self, sums: Sums) -> FloatArray:
        """The sum that whole sums stand for."""
        values = self._totals().value(sums, self._objective.input_factor, self._clip)
        return np.asarray(values)

    def _totals(self) -> Any:
        """What adds the records up."""
        of_none = self._on_grid(nothing(self._source)).rows
        return Totals(self._objective.shapes, of_none)

    def _rows_at_once(self) -> int:
        return _ROWS

    def _passed(self, rows: Any, block: Gridded, layers: list[FloatArray]) -> Any:
        raw = rows.raw(layers[0][:-1])
        raw *= self._objective.input_factor
        raw += layers[0][-1]
        activation, loss = self._objective.unit, self._objective.loss
        inputs, raw = forwards(raw, layers, activation)
        residual = residual_of(loss, block, raw)
        return backwards(residual, inputs, layers, activation)

    def _factors(self, passed: Any, squares: FloatArray) -> FloatArray:
        """What shortens each record's joint gradient, over the clip."""
        norms = np.sqrt(passed.squares(squares))
        return np.asarray(1.0 / np.maximum(norms, self._clip))

    # ------------------------------------------------------------------ rows

    def _blocks(self, rows: IntArray | None) -> Iterator[Gridded]:
        if not self._keeps:
            blocks = blocks_of(self._source, rows)
            return _gathered(self._on_grid(block) for block in blocks if len(block.y))
        kept = self._kept.passed(self._read)
        return kept if rows is None else _gathered(_drawn(kept, rows))

    def _read(self) -> Iterator[Gridded]:
        # In single precision, which holds their integers.
        read = map(self._on_grid, self._source.blocks())
        return _together(read, _KEPT_ROWS, np.float32)

    def _on_grid(self, block: Block) -> Gridded:
        rows = gridded(block.X, self._objective.data_norm)
        of_unit = (rows.unit * self._objective.input_factor) ** 2
        squares = squares_of(rows.entries) * of_unit + 1.0
        if isinstance(rows, DenseGrid):  # single precision holds its integers
            rows = DenseGrid(rows.entries.astype(np.float32), rows.norm)
        return Gridded(rows, squares, block.y, block.present)


@dataclass(frozen=True, eq=False)
class Gridded:
    """A block's rows on their grid, with what goes with them. Private.

    Parameters
    ----------
    rows : DenseGrid or SparseGrid
    squares : ndarray of shape (n_rows,)
        Of the norms of the first layer's inputs.
    y : ndarray of shape (n_rows,)
    present : ndarray of bool or of float64 of shape (n_rows,), or None
        As of a `Block`.
    """

    rows: Any
    squares: FloatArray
    y: FloatArray
    present: NDArray[Any] | None

    @property
    def n_bytes(self) -> int:
        present = 0 if self.present is None else self.present.nbytes
        return int(self.rows.n_bytes + self.squares.nbytes + self.y.nbytes + present)

    def part(self, chosen: Any) -> Gridded:
        """Some of its records, in rising order."""
        present = None if self.present is None else self.present[chosen]
        rows = replace(self.rows, entries=self.rows.entries[chosen])
        return Gridded(rows, self.squares[chosen], self.y[chosen], present)

    def those_present(self) -> NDArray[Any]:
        """Which records are present, or shares of rows, of shape (n_rows,)."""
        if self.present is None:
            return np.ones(len(self.y), dtype=bool)
        return self.present

    def alone(self) -> Gridded:
        """Without null records: one that is sampled leaves no trace."""
        if self.present is None:
            return self
        there = self.part(np.flatnonzero(self.present))
        return there if has_shares(self.present) else replace(there, present=None)


class Totals:
    """Sums of integers, by layer.

    Parameters
    ----------
    shapes : sequence of pairs of int
        Of the layers, biases included.
    of_none : GridRows
        Of no records: of the kind that tells what sums of rows stand for.
    """

    def __init__(self, shapes: Sequence[tuple[int, int]], of_none: GridRows) -> None:
        (_, n_units), *rest = shapes
        self._kind, self._of_rows = of_none, of_none.total(n_units)
        self._of_first_bias = WholeSum((n_units,))
        self._rest = [ExactTotal(shape, 2 * UNIT_BITS) for shape in rest]

    def add(self, rows: Any, passed: Passed, factors: FloatArray) -> None:
        """Add the gradients of up to 2^12 records.

        Cut towards 0, so that none becomes longer than `factors` make it.
        """
        units = cut_units(
            passed.deltas[0].units, factors * passed.deltas[0].unit, rows.bits
        )
        rows.add(self._of_rows, units)
        self._of_first_bias.add(units.sum(axis=0))
        parts = zip(self._rest, passed.inputs, passed.deltas[1:], strict=True)
        for total, given, delta in parts:
            # An input's largest number is more than half of 2^20 units: what is sent
            # back is no longer than twice the clip in these.
            own = factors * delta.unit * given.unit
            units = cut_units(delta.units, own, 2 * UNIT_BITS - 1)
            total.add((given.units.T @ units).astype(np.int64), len(units))

    def whole(self) -> Sums:
        rest = [total.whole() for total in self._rest]
        return self._of_rows.whole(), self._of_first_bias, *rest

    def value(self, sums: Sums, input_factor: float, clip: float) -> FloatArray:
        """What sums stand for, as one vector."""
        of_rows, of_first_bias, *rest = sums
        unit = clip * 2.0**-self._kind.bits
        features = self._kind.features(of_rows.value()) * (unit * input_factor)
        bias = of_first_bias.value() * unit
        unit = clip * 2.0 ** (1 - 2 * UNIT_BITS)
        others = [total.value().ravel() * unit for total in rest]
        return np.concatenate([features.ravel(), bias, *others])


def _runs(n_rows: int, at_once: int) -> Iterator[slice]:
    """Rows of a block in parts of nearly one size, at most half as large again."""
    n_runs = max(1, round(n_rows / at_once))
    for i in range(n_runs if n_rows else 0):
        yield slice(i * n_rows // n_runs, (i + 1) * n_rows // n_runs)


def residual_of(loss: Loss, block: Gridded, raw: FloatArray) -> FloatArray:
    """Derivatives of the loss by the last layer's raw values, 0 for null records."""
    residual = plain_residual(loss, block.y, raw)
    if block.present is not None:
        residual[block.present == 0] = 0.0
    return residual


def cut_units(units: FloatArray, factors: FloatArray, bits: int) -> FloatArray:
    """Rows times factors, as whole numbers of 2^-bits, cut towards 0."""
    own = units * (factors * 2.0**bits)[:, None]
    return np.trunc(own, out=own)


def _drawn(blocks: Iterator[Gridded], rows: IntArray) -> Iterator[Gridded]:
    start = 0
    for block in blocks:
        end = start + len(block.y)
        first, last = np.searchsorted(rows, [start, end])
        if first < last:
            yield block.part(rows[first:last] - start)
        start = end


def _gathered(blocks: Iterator[Gridded]) -> Iterator[Gridded]:
    """Present records of several blocks together: few are drawn of each."""
    alone = (block.alone() for block in blocks)
    # In double, as they are multiplied: copied once.
    return _together(alone, _ROWS, np.float64)


def _together(
    blocks: Iterable[Gridded], least: int, kind: type[np.floating[Any]]
) -> Iterator[Gridded]:
    """Blocks of at least so many records but for the last; dense ones of a kind."""
    waiting: list[Gridded] = []
    for block in blocks:
        waiting.append(block)
        if sum(len(own.y) for own in waiting) >= least:
            yield _joined(waiting, kind)
            waiting = []
    if waiting:
        yield _joined(waiting, kind)


def _joined(blocks: list[Gridded], kind: type[np.floating[Any]]) -> Gridded:
    first = blocks[0]
    entries = [own.rows.entries for own in blocks]
    if issparse(entries[0]):
        rows = vstack(entries, format="csr")
    else:
        rows = np.concatenate(entries, dtype=kind)
    present = None
    if any(own.present is not None for own in blocks):
        present = np.concatenate([own.those_present() for own in blocks])
    return Gridded(
        replace(first.rows, entries=rows),
        np.concatenate([own.squares for own in blocks]),
        np.concatenate([own.y for own in blocks]),
        present,
    )


class NetworkSum:
    """Floating sums of gradients that nothing hides; for ``epsilon=inf``.

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
        """Sum over the records of the gradients at `weights`, same shape."""
        layers = self._objective.layers(weights)
        totals = [np.zeros(shape) for shape in self._objective.shapes]
        for block in blocks_of(self._source, rows):
            inputs, deltas = self._passed(block, layers)
            squares = np.zeros(len(block.y))
            for given, delta in zip(inputs, deltas, strict=True):
                squares += _squares(given, 1.0) * _squares(delta, 0.0)
            factors = 1.0 / np.maximum(np.sqrt(squares) / self._clip, 1.0)
            factors = counted(factors, block.present)
            for total, given, delta in zip(totals, inputs, deltas, strict=True):
                own = delta * factors[:, None]
                total[:-1] += given.T @ own
                total[-1] += own.sum(axis=0)
        return np.concatenate([total.ravel() for total in totals])

    def _passed(
        self, block: Block, layers: list[FloatArray]
    ) -> tuple[list[Any], list[FloatArray]]:
        """Every layer's inputs, and what is sent back to it."""
        activation, loss = self._objective.unit, self._objective.loss
        inputs: list[Any] = [block.X.astype(np.float64) * self._objective.input_factor]
        for layer in layers[:-1]:
            raw = inputs[-1] @ layer[:-1] + layer[-1]
            inputs.append(activation.value(np.asarray(raw)))
        raw = np.asarray(inputs[-1] @ layers[-1][:-1] + layers[-1][-1])
        deltas = [loss.residual(block.y, raw)]
        if block.present is not None:
            deltas[0][block.present == 0] = 0.0
        for given, layer in zip(inputs[:0:-1], layers[:0:-1], strict=True):
            deltas.append((deltas[-1] @ layer[:-1].T) * activation.slope(given))
        return inputs, deltas[::-1]


def _squares(rows: Any, more: float) -> FloatArray:
    if issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1)).ravel() + more
    return np.asarray(np.einsum("ij,ij->i", rows, rows)) + more
