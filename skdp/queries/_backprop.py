"""Layers forwards and backwards on grids: each record's numbers are its own.

Inputs of hidden layers and what is sent back are integers times a power of two that
follows from the record alone, so that products with released weights on their grid are
exact in any order, and a record's gradient has the same bits wherever the record is.
Lemma 2 of ``docs/proofs/networks.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skdp._floats import FloatArray
from skdp.objectives._activations import Activation

# Of inputs and of what is sent back; and of weights between hidden units, so that sums
# of 2^12 products are below 2^53.
UNIT_BITS, HIDDEN_WEIGHT_BITS = 20, 26
# From where on powers of two are ordinary doubles, with room for squares.
_LEAST_EXPONENT = -400


@dataclass(frozen=True, eq=False)
class OwnGrid:
    """Vectors, one a row, each in units of its own: powers of two.

    Parameters
    ----------
    units : ndarray of shape (n_rows, n)
        Whole numbers of magnitude at most 2^20.
    unit : ndarray of shape (n_rows,)
    """

    units: FloatArray
    unit: FloatArray

    def squares(self) -> FloatArray:
        """Squared norms; the sums are exact."""
        squares: FloatArray = np.einsum("ij,ij->i", self.units, self.units)
        return squares * self.unit**2

    def times(self, matrix: FloatArray) -> FloatArray:
        """Products with a matrix on its grid, each rounded once."""
        products: FloatArray = self.units @ matrix
        products *= self.unit[:, None]
        return products


def own_grid(values: FloatArray) -> OwnGrid:
    """Vectors rounded to 2^-20 of a power of two above their largest number."""
    largest = np.abs(values).max(axis=1)
    unit = _units_above(largest)
    units = values / unit[:, None]
    return OwnGrid(np.rint(units, out=units), unit)


def _units_above(largest: FloatArray) -> FloatArray:
    exponents = np.maximum(np.frexp(largest)[1], _LEAST_EXPONENT)
    return np.asarray(np.ldexp(1.0, exponents - UNIT_BITS))


def as_inputs(raw: FloatArray, activation: Activation) -> OwnGrid:
    """Values of hidden units, and a last one that is 1 for the biases.

    Parameters
    ----------
    raw : ndarray of shape (n_rows, n_units)

    Returns
    -------
    OwnGrid of shape (n_rows, n_units + 1)
        Of a unit of at least 2^-20.
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
    """What the layers of one block were given, and what is sent back to them.

    Parameters
    ----------
    inputs : list of OwnGrid
        Of every layer but the first, biases' constant included.
    deltas : list of OwnGrid
        Derivatives of the loss by the raw values of every layer.
    """

    inputs: list[OwnGrid]
    deltas: list[OwnGrid]

    def squares(self, of_rows: FloatArray) -> FloatArray:
        """Squared norms of the records' joint gradients of all layers.

        That of one layer's gradient, which is never formed, is that of its input times
        that of what is sent back. `of_rows` are those of the first layer's inputs.
        """
        squares = of_rows * self.deltas[0].squares()
        for given, delta in zip(self.inputs, self.deltas[1:], strict=True):
            squares += given.squares() * delta.squares()
        return squares


def forwards(
    raw: FloatArray, layers: list[FloatArray], activation: Activation
) -> tuple[list[OwnGrid], FloatArray]:
    """Inputs of all layers but the first, and the last one's raw values.

    Parameters
    ----------
    raw : ndarray of shape (n_rows, n_units)
        The first layer's.
    layers : list of ndarray
        Weights of all layers, on their grids; the first is not looked at.
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
    """What the residual of the loss sends back to every layer."""
    deltas = [own_grid(residual)]
    for given, layer in zip(reversed(inputs), reversed(layers[1:]), strict=True):
        sent = deltas[-1].times(layer[:-1].T)
        value = given.units[:, :-1] * given.unit[:, None]
        sent *= activation.slope(value)
        deltas.append(own_grid(sent))
    return Passed(inputs, deltas[::-1])
