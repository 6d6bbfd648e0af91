"""Exact and floating sums of gradients of networks with convolutions.

All positions share a filter's weights, so its gradient is a sum over positions, whose
norm is not a sum of norms. It is formed for each record separately, as one product of
the record's patches with derivatives, on a separate grid: filters have few weights.
Lemma 4 of ``docs/proofs/networks.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from skdp._arrays import FloatArray, IntArray
from skdp.losses._objective import Activation, NetworkObjective
from skdp.sums._adder import weighed, without_nulls
from skdp.sums._exact import Sums, WholeSum, blocks_of
from skdp.sums._gradient_sum import residual_of
from skdp.sums._network import (
    UNIT_BITS,
    ExactNetworkSum,
    NetworkSum,
    OwnGrid,
    Passed,
    as_inputs,
    cut_units,
    own_grid,
)
from skdp.tables._source import Block

if TYPE_CHECKING:
    from skdp.papers._convolution import ConvolutionLayer

# Bits of a record's numbers over the clip; they add up in words of 64 bits.
_BITS = 30
# Numbers in the patches of the rows that pass through the layers together: enough to
# repay a call, and few enough for the processor's cache.
_NUMBERS, _MOST_ROWS = 2**19, 1024


@dataclass(frozen=True, eq=False)
class _Seen:
    """Inputs of one convolution, for some records.

    Parameters
    ----------
    patches : ndarray of shape (n_rows, n_positions, n_inputs)
        Whole numbers.
    unit : ndarray of shape (n_rows, 1, 1)
        Unit of the patches.
    chosen : ndarray
        Index of the kept value of each window.
    """

    patches: FloatArray
    unit: FloatArray
    chosen: NDArray[np.int16]

    def raw(self, layer: FloatArray) -> FloatArray:
        """Raw values of filters, of shape (n_rows, n_positions, n_filters)."""
        raw = _filtered(self.patches, layer[:-1]) * self.unit
        return np.asarray(raw + layer[-1])

    def gradients(self, sent: FloatArray, unit: FloatArray) -> FloatArray:
        """Each record's gradient by the filters, biases last, entry by entry.

        Parameters
        ----------
        sent : ndarray of shape (n_rows, n_positions, n_filters)
            Whole numbers of magnitude at most 2^20: derivatives by raw values.
        unit : ndarray of shape (n_rows, 1, 1)
            Unit of `sent`.
        """
        n, _, n_inputs = self.patches.shape
        found = np.empty((n, n_inputs + 1, sent.shape[2]))
        np.matmul(self.patches.transpose(0, 2, 1), sent, out=found[:, :-1])
        found[:, :-1] *= self.unit * unit
        found[:, -1] = sent.sum(axis=1) * unit[:, 0]
        return found


def _convolved(objective: NetworkObjective) -> list[ConvolutionLayer]:
    return cast("list[ConvolutionLayer]", objective.convolved)


def _filtered(patches: FloatArray, filters: FloatArray) -> FloatArray:
    n, n_positions, n_inputs = patches.shape
    products = patches.reshape(-1, n_inputs) @ filters
    return np.asarray(products.reshape(n, n_positions, -1))


@dataclass(frozen=True, eq=False)
class FilterGradients:
    """Gradients by the filters of one convolution; each record has its own grid.

    Parameters
    ----------
    own : OwnGrid of shape (n_rows, (n_inputs + 1) * n_filters)
    shape : pair of int
    """

    own: OwnGrid
    shape: tuple[int, int]

    def squares(self) -> FloatArray:
        """Squared norms: exact sums of each filter, added up in a fixed order."""
        units = self.own.units.reshape(-1, *self.shape)
        squares = np.zeros(len(units))
        for own in np.einsum("ijk,ijk->ik", units, units).T:
            squares += own
        return np.asarray(squares * self.own.unit**2)


@dataclass(frozen=True, eq=False)
class PassedFilters:
    """Intermediate results from which one block's gradients follow.

    Parameters
    ----------
    filters : list of FilterGradients
        For every convolution.
    rest : Passed
        For the layers of units; each record's inputs have a separate grid.
    """

    filters: list[FilterGradients]
    rest: Passed

    def squares(self, of_rows: FloatArray) -> FloatArray:
        """Squared norms of the records' joint gradients of all layers."""
        squares = np.zeros_like(of_rows)
        for own in self.filters:
            squares += own.squares()
        for given, delta in zip(self.rest.inputs, self.rest.deltas, strict=True):
            squares += given.squares() * delta.squares()
        return squares


class ExactConvolutionSum(ExactNetworkSum):
    """Exact sums of clipped gradients of networks that begin with convolutions."""

    def _rows_at_once(self) -> int:
        widest = max(
            own.n_inputs * own.positions[0] * own.positions[1]
            for own in _convolved(self._objective)
        )
        return min(max(_NUMBERS // widest, 1), _MOST_ROWS)

    def _totals(self) -> _Totals:
        return _Totals(self._objective.shapes, len(self._objective.convolutions))

    def _passed(
        self, rows: Any, block: Block, layers: list[FloatArray]
    ) -> PassedFilters:
        objective = self._objective
        activation, n = objective.unit, len(objective.convolutions)
        seen, inputs = self._convolved(rows, layers)
        for layer in layers[n:-1]:
            inputs.append(as_inputs(inputs[-1].times(layer), activation))
        raw = inputs[-1].times(layers[-1])
        residual = residual_of(objective.loss, block, raw)
        deltas = [own_grid(residual)]
        values, units = inputs[:n], inputs[n - 1 :]
        for given, layer in zip(units[:0:-1], layers[:n:-1], strict=True):
            deltas.append(own_grid(_sent(deltas[-1], layer, given, activation)))
        sent = _sent(deltas[-1], layers[n], units[0], activation)
        filters = self._filters(sent, seen, values, layers)
        return PassedFilters(filters, Passed(units, deltas[::-1]))

    def _convolved(
        self, rows: Any, layers: list[FloatArray]
    ) -> tuple[list[_Seen], list[OwnGrid]]:
        """Inputs of every convolution, and the values of the last one."""
        entries = rows.entries.toarray() if issparse(rows.entries) else rows.entries
        units = entries.astype(np.float64, copy=False)
        unit = np.full(len(units), rows.unit * self._objective.input_factor)
        seen: list[_Seen] = []
        inputs: list[OwnGrid] = []
        for own, layer in zip(_convolved(self._objective), layers, strict=False):
            nothing = np.empty(0, np.int16)
            given = _Seen(own.patches(units), unit[:, None, None], nothing)
            values, chosen = own.largest(given.raw(layer))
            seen.append(_Seen(given.patches, given.unit, chosen))
            inputs.append(as_inputs(values, self._objective.unit))
            units, unit = inputs[-1].units[:, :-1], inputs[-1].unit
        return seen, inputs

    def _filters(
        self,
        sent: FloatArray,
        seen: list[_Seen],
        values: list[OwnGrid],
        layers: list[FloatArray],
    ) -> list[FilterGradients]:
        """Gradients of all convolutions, from derivatives by the last one's values."""
        found: list[FilterGradients] = []
        for i in reversed(range(len(seen))):
            layer, filters = _convolved(self._objective)[i], layers[i]
            back = layer.send_back(sent, seen[i].chosen)
            delta = own_grid(back.reshape(len(back), -1))
            units, unit = delta.units.reshape(back.shape), delta.unit[:, None, None]
            gradients = seen[i].gradients(units, unit)
            own = own_grid(gradients.reshape(len(gradients), -1))
            found.append(FilterGradients(own, filters.shape))
            if i:
                patches = _filtered(units, filters[:-1].T) * unit
                sent = layer.put_back(patches)
                sent *= self._objective.unit.slope(_values(values[i - 1]))
        return found[::-1]


def _values(given: OwnGrid) -> FloatArray:
    return np.asarray(given.units[:, :-1] * given.unit[:, None])


def _sent(
    delta: OwnGrid, layer: FloatArray, given: OwnGrid, activation: Activation
) -> FloatArray:
    """Derivatives by the raw values of the layer before a layer of units."""
    sent = delta.times(layer[:-1].T)
    sent *= activation.slope(_values(given))
    return sent


class _Totals:
    """Sums of whole numbers, for filters and for layers of units."""

    def __init__(self, shapes: Sequence[tuple[int, int]], n_convolutions: int) -> None:
        filters, units = shapes[:n_convolutions], shapes[n_convolutions:]
        self._filters = [WholeSum((math.prod(own),), _BITS) for own in filters]
        self._units = [WholeSum(own, 2 * UNIT_BITS) for own in units]

    def add(self, rows: Any, passed: PassedFilters, factors: FloatArray) -> None:
        """Add the gradients of up to 2^12 records, cut towards 0."""
        for total, own in zip(self._filters, passed.filters, strict=True):
            units = cut_units(own.own.units, factors * own.own.unit, _BITS)
            total.add(units.sum(axis=0).astype(np.int64), len(units))
        parts = zip(self._units, passed.rest.inputs, passed.rest.deltas, strict=True)
        for total, given, delta in parts:
            own_unit = factors * delta.unit * given.unit
            units = cut_units(delta.units, own_unit, 2 * UNIT_BITS - 1)
            total.add((given.units.T @ units).astype(np.int64), len(units))

    def whole(self) -> Sums:
        return (*self._filters, *self._units)

    def value(self, sums: Sums, input_factor: float, clip: float) -> FloatArray:
        """The gradient sum as one vector."""
        n = len(self._filters)
        parts = [total.value() * (clip * 2.0**-_BITS) for total in sums[:n]]
        unit = clip * 2.0 ** (1 - 2 * UNIT_BITS)
        parts += [total.value().ravel() * unit for total in sums[n:]]
        return np.concatenate(parts)


class ConvolutionSum(NetworkSum):
    """Floating sums of gradients, for fits without noise (``epsilon=inf``)."""

    def __call__(self, weights: FloatArray, rows: IntArray | None = None) -> FloatArray:
        """Sum over the records of the gradients at `weights`, same shape."""
        layers = self._objective.layers(weights)
        total = np.zeros_like(weights)
        for block in blocks_of(self._source, rows):
            for start in range(0, len(block.y), _MOST_ROWS // 8):
                part = block.part(slice(start, start + _MOST_ROWS // 8))
                each = self._each(part, layers)
                norms = np.linalg.norm(each, axis=1)
                factors = 1.0 / np.maximum(norms / self._clip, 1.0)
                total += weighed(factors, part) @ each
        return total

    def _each(self, block: Block, layers: list[FloatArray]) -> FloatArray:
        """Joint gradients of records, of shape (n_rows, n_weights)."""
        objective, n = self._objective, len(self._objective.convolutions)
        activation = objective.unit
        X = block.X.toarray() if issparse(block.X) else block.X
        given = X.astype(np.float64) * objective.input_factor
        seen: list[tuple[ConvolutionLayer, FloatArray, FloatArray, Any]] = []
        for own, layer in zip(_convolved(objective), layers, strict=False):
            patches = own.patches(given)
            largest, chosen = own.largest(patches @ layer[:-1] + layer[-1])
            given = activation.value(largest)
            seen.append((own, patches, given, chosen))
        inputs = [given]
        for layer in layers[n:-1]:
            inputs.append(activation.value(inputs[-1] @ layer[:-1] + layer[-1]))
        raw = inputs[-1] @ layers[-1][:-1] + layers[-1][-1]
        delta = without_nulls(objective.loss.residual(block.y, raw), block)
        parts: list[FloatArray] = []
        for value, layer in zip(inputs[::-1], layers[: n - 1 : -1], strict=True):
            parts += [delta, np.einsum("ij,ik->ijk", value, delta)]
            delta = (delta @ layer[:-1].T) * activation.slope(value)
        for i in reversed(range(n)):
            own, patches, _, chosen = seen[i]
            back = own.send_back(delta, chosen)
            parts += [back.sum(axis=1), patches.transpose(0, 2, 1) @ back]
            if i:
                delta = own.put_back(back @ layers[i][:-1].T)
                delta *= activation.slope(seen[i - 1][2])
        return np.concatenate([own.reshape(len(X), -1) for own in parts[::-1]], axis=1)
