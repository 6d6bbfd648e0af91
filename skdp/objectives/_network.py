"""`NetworkObjective`: what a network minimises, and the public facts of its fit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from sklearn.utils import check_random_state

from skdp._floats import FloatArray
from skdp.losses._base import Loss
from skdp.objectives._activations import ACTIVATIONS, Activation
from skdp.objectives._layer import Layer, PlacedLayer, Shape
from skdp.privacy._adjacency import TableRelation, check_table_relation

# Released weights are kept in a box of this half side, far beyond any useful model and
# so near that nothing overflows on the way through `MOST_LAYERS` of `MOST_UNITS`.
FARTHEST = 1e6
MOST_LAYERS, MOST_UNITS = 8, 4096
# Of hidden units' raw values before anything was learned.
_DEVIATION = 0.3


@dataclass(frozen=True, kw_only=True)
class NetworkObjective:
    """Layers, a loss, and public facts; nothing computed from the data.

    The objective is ``mean(loss) + alpha / 2 * ||w||^2`` over all weights w, biases
    included, as one vector: layer by layer, of each a matrix of shape (n_inputs + 1,
    n_units) whose last row has the biases. Of a convolution inputs are a patch and
    units are filters. Rows enter the first layer times `input_factor`.

    Parameters
    ----------
    loss : Loss
        Of one record's raw predictions.
    n_samples, n_features : int
        Public counts of records, or users, and of features.
    hidden : tuple of int
        Units of each hidden layer that is fully connected.
    activation : {"identity", "logistic", "relu", "tanh"}
    data_norm : float in (0, inf]
        Rows are clipped to this L2 norm, in units of the features. inf: no clipping,
        allowed only without privacy.
    input_factor : float in (0, inf)
        What rows are multiplied by before the first layer.
    input_norm : float in (0, inf)
        Norm of the longest of them after that, whether rows are clipped or not.
    adjacency : {"replace_one", "zero_out", "replace_user", "zero_out_user"}
    alpha : float in [0, inf), default=0.0
        L2 regularisation of the mean loss.
    convolutions : tuple of Layer, default=()
        Before the fully connected layers.
    image : tuple of three int, default=(0, 0, 0)
        Height, width and channels of a row, of which n_features is the product. Not
        looked at without convolutions.
    """

    loss: Loss
    n_samples: int
    n_features: int
    hidden: tuple[int, ...]
    activation: str
    data_norm: float
    input_factor: float
    input_norm: float
    adjacency: TableRelation
    alpha: float = 0.0
    convolutions: tuple[Layer, ...] = ()
    image: Shape = (0, 0, 0)

    def __post_init__(self) -> None:
        check_table_relation(self.adjacency)
        if not 0 < self.input_factor < math.inf:
            raise ValueError(
                "The 'input_factor' must be positive and finite. Got "
                f"{self.input_factor!r}. Use input_norm over data_norm."
            )
        if not self.convolutions:
            return
        if math.prod(self.image) != self.n_features:
            raise ValueError(
                "The 'image_shape' parameter must be that of the rows, which have "
                f"{self.n_features} features. Got {self.image}, height, width and "
                f"channels, of {math.prod(self.image)}. Declare the shape of one image."
            )
        if self.n_flat > MOST_UNITS:
            raise ValueError(
                f"The 'convolutions' parameter must end with at most {MOST_UNITS} "
                f"values. Got {self.n_flat}. Use fewer filters, a longer stride, or a "
                "longer pool_stride."
            )

    @property
    def unit(self) -> Activation:
        """What hidden units do."""
        return ACTIVATIONS[self.activation]

    @cached_property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Of the layers' matrices, biases included."""
        filters = [own.shape for own in self.convolved]
        sizes = (self.n_flat, *self.hidden, self.loss.n_outputs)
        return (*filters, *((n_in + 1, n_out) for n_in, n_out in pairwise(sizes)))

    @cached_property
    def convolved(self) -> list[PlacedLayer]:
        """The convolutions, each over the image of the one before.

        Raises
        ------
        ValueError
            If a filter or a window does not fit.
        """
        placed, image = [], self.image
        for own in self.convolutions:
            placed.append(own.over(image))
            image = placed[-1].out
        return placed

    @property
    def n_flat(self) -> int:
        """Inputs of the first layer that is fully connected."""
        return math.prod(self.convolved[-1].out) if self.convolved else self.n_features

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
        of inputs: the first layer's for the longest rows, later ones' for inputs of 1,
        and after a convolution for inputs of 0.3. Outputs start at 0, so that nothing
        is predicted before anything was learned.

        Returns
        -------
        ndarray of shape (n_weights,)
        """
        # NumPy never changes what this generator draws from a seed.
        draws = check_random_state(seed)
        weights = np.zeros(self.n_weights)
        for layer, scale in zip(self.layers(weights), self._scales(), strict=True):
            if scale:
                layer[:-1] = scale * draws.normal(size=layer[:-1].shape)
        return weights

    def _scales(self) -> list[float]:
        """Deviations of the first weights by layer; 0 of the last."""
        n_inputs = [n_in - 1 for n_in, _ in self.shapes]
        scales = [_DEVIATION / math.sqrt(n_in) for n_in in n_inputs]
        scales[0] = _DEVIATION / self.input_norm
        if self.convolved:
            # A patch is a small part of a row; values after it are about 0.3, not 1.
            scales = [1 / math.sqrt(n_in) for n_in in n_inputs]
            length = self.input_norm * math.sqrt(self.convolved[0].overlap)
            scales[0] = _DEVIATION / length
        return [*scales[:-1], 0.0]
