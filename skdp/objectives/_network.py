"""`NetworkObjective`: what a network minimises, and the public facts of its fit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from sklearn.utils import check_random_state

from skdp._floats import FloatArray
from skdp.losses import Loss
from skdp.objectives._activations import ACTIVATIONS, Activation
from skdp.privacy._adjacency import Adjacency, check_adjacency

# Released weights are kept in a box of this half side, far beyond any useful model and
# so near that nothing overflows on the way through `MOST_LAYERS` of `MOST_UNITS`.
FARTHEST = 1e6
MOST_LAYERS, MOST_UNITS = 8, 4096
# Of hidden units' raw values before anything was learned.
_DEVIATION = 0.3


@dataclass(frozen=True, kw_only=True)
class NetworkObjective:
    """Fully connected layers, a loss, and public facts; nothing computed from the data.

    The objective is ``mean(loss) + alpha / 2 * ||w||^2`` over all weights w, biases
    included, as one vector: layer by layer, of each a matrix of shape (n_inputs + 1,
    n_units) whose last row has the biases. Rows enter the first layer times
    `input_factor`.

    Parameters
    ----------
    loss : Loss
        Of one record's raw predictions.
    n_samples, n_features : int
        Public record and feature counts.
    hidden : tuple of int
        Units of each hidden layer.
    activation : {"identity", "logistic", "relu", "tanh"}
    data_norm : float in (0, inf]
        Rows are clipped to this L2 norm, in units of the features. inf: no clipping,
        allowed only without privacy.
    input_factor : float in (0, inf)
        What rows are multiplied by before the first layer.
    input_norm : float in (0, inf)
        Norm of the longest of them after that, whether rows are clipped or not.
    adjacency : {"replace_one", "zero_out"}
    alpha : float in [0, inf), default=0.0
        L2 regularisation of the mean loss.
    """

    loss: Loss
    n_samples: int
    n_features: int
    hidden: tuple[int, ...]
    activation: str
    data_norm: float
    input_factor: float
    input_norm: float
    adjacency: Adjacency
    alpha: float = 0.0

    def __post_init__(self) -> None:
        check_adjacency(self.adjacency)
        if not 0 < self.input_factor < math.inf:
            raise ValueError(
                "The 'input_factor' must be positive and finite. Got "
                f"{self.input_factor!r}. Use input_norm over data_norm."
            )

    @property
    def unit(self) -> Activation:
        """What hidden units do."""
        return ACTIVATIONS[self.activation]

    @cached_property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Of the layers' matrices, biases included."""
        sizes = (self.n_features, *self.hidden, self.loss.n_outputs)
        return tuple((n_in + 1, n_out) for n_in, n_out in pairwise(sizes))

    @property
    def n_weights(self) -> int:
        """Biases included."""
        return sum(math.prod(shape) for shape in self.shapes)

    def layers(self, weights: FloatArray) -> list[FloatArray]:
        """Views of a vector of weights as the layers' matrices."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])[:-1]
        parts = np.split(weights, ends)
        return [
            part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)
        ]

    def start(self, seed: int) -> FloatArray:
        """Weights from a public seed: hidden ones random, outputs and biases 0.

        Raw values of hidden units have a deviation of at most 0.3, whatever the number
        of inputs: the first layer's for the longest rows, later ones' for inputs of 1.
        Outputs start at 0, so that nothing is predicted before anything was learned.

        Returns
        -------
        ndarray of shape (n_weights,)
        """
        # NumPy never changes what this generator draws from a seed.
        draws = check_random_state(seed)
        weights = np.zeros(self.n_weights)
        scale = _DEVIATION / self.input_norm
        for layer in self.layers(weights)[:-1]:
            layer[:-1] = scale * draws.normal(size=layer[:-1].shape)
            scale = _DEVIATION / math.sqrt(layer.shape[1])
        return weights
