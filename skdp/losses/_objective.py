"""Objectives of linear models and networks, made from public facts of a fit."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from sklearn.utils import check_random_state

from skdp._arrays import FloatArray
from skdp._checks import check_bool, check_count, check_real
from skdp._configured import Registry
from skdp.losses._base import Loss, falling_exponential
from skdp.losses._classification import typical_weight
from skdp.privacy.accounting._relations import TableRelation, check_table_relation

# ---------------------------------------------------------- Objective of a linear model


# Limit on the ratio of the bounds on a row and on an entry, for rules.
_LARGEST_RATIO = 1e50


@dataclass(frozen=True, kw_only=True)
class LinearObjective:
    """The loss of a linear model and public facts; nothing is computed from the data.

    The objective is ``mean(loss) + alpha / 2 * ||W||^2`` over weights W with one row
    for each column. They include the intercept, which is the weight of an additional
    column with the constant value `data_norm`.

    Parameters
    ----------
    loss : Loss
        Loss of one record's raw predictions.
    n_samples, n_features : int
        Numbers of records, or users, and of features; public.
    data_norm : float in (0, inf]
        Rows are clipped to this L2 norm, in units of the features. inf: no clipping,
        allowed only without privacy.
    adjacency : {"replace_one", "zero_out", "replace_user", "zero_out_user"}
    alpha : float in [0, inf), default=0.0
        L2 regularisation of the mean loss.
    fit_intercept : bool, default=True
    feature_bound : float in (0, inf], default=inf
        Entries are clipped to this magnitude before rows are clipped, in units of the
        features. A row's norm bounds its entries too.
    n_nonzero : int or None, default=None
        Largest number of features with a nonzero weight; None: all of them.
    product_norm : float in [data_norm, inf] or None, default=None
        Bound on rows in products with weights, if these rows are not clipped to
        `data_norm`; None: `data_norm`.
    offset : tuple of float, default=()
        Added to the raw predictions of every record, one for each output; released or
        public. Empty: nothing is added.
    holds_rows : bool, default=True
        Whether rows are in memory; otherwise they are read again at every pass.
    is_ordered : bool, default=True
        Whether every reading returns the records in the same order.
    is_permutable : bool, default=True
        Whether the records can be read in a random order.
    """

    loss: Loss
    n_samples: int
    n_features: int
    data_norm: float
    adjacency: TableRelation
    alpha: float = 0.0
    fit_intercept: bool = True
    feature_bound: float = math.inf
    n_nonzero: int | None = None
    product_norm: float | None = None
    offset: tuple[float, ...] = ()
    holds_rows: bool = True
    is_ordered: bool = True
    is_permutable: bool = True

    def __post_init__(self) -> None:
        data_norm = check_real(
            "data_norm", self.data_norm, low=0.0, high=math.inf, low_open=True
        )
        alpha = check_real("alpha", self.alpha, low=0.0, high=math.inf, high_open=True)
        check_table_relation(self.adjacency)
        check_bool("fit_intercept", self.fit_intercept)
        if math.isinf(self.loss.smoothness):
            raise ValueError(
                "The 'loss' of a linear model must have a bounded curvature. Got "
                f"{self.loss!r}. Use an h above 0."
            )
        # Plain numbers, also from NumPy scalars.
        object.__setattr__(self, "n_samples", check_count("n_samples", self.n_samples))
        object.__setattr__(
            self, "n_features", check_count("n_features", self.n_features)
        )
        object.__setattr__(self, "data_norm", data_norm)
        object.__setattr__(self, "alpha", alpha)
        bound = check_real(
            "feature_bound", self.feature_bound, low=0.0, high=math.inf, low_open=True
        )
        object.__setattr__(self, "feature_bound", bound)
        if self.n_nonzero is not None:
            most = check_count("n_nonzero", self.n_nonzero, high=self.n_features)
            object.__setattr__(self, "n_nonzero", most)

    @property
    def n_columns(self) -> int:
        """Number of weights per output, the intercept's included."""
        return self.n_features + self.fit_intercept

    @property
    def most_features(self) -> int:
        """Largest number of features with a nonzero weight: `n_nonzero`, or all."""
        return self.n_features if self.n_nonzero is None else self.n_nonzero

    @property
    def effective_n(self) -> float:
        """Number of records for the rules of defaults; smaller if labels have weights.

        It is not used for privacy.
        """
        return self.n_samples * typical_weight(self.loss)

    @property
    def row_norm(self) -> float:
        """Bound on the norm of a row with its intercept column."""
        return self.data_norm * (math.sqrt(2) if self.fit_intercept else 1.0)

    @property
    def entry_bound(self) -> float:
        """Bound on the magnitude of an entry of a clipped row."""
        return min(self.feature_bound, self.data_norm)

    @property
    def full_entries(self) -> float:
        """Number of entries of the largest magnitude in a row of norm `data_norm`."""
        # The limit exceeds any number of features, and its square is finite.
        return min(self.data_norm / self.entry_bound, _LARGEST_RATIO) ** 2

    @property
    def has_dense_rows(self) -> bool:
        """Whether, by public bounds, rows have many nonzero features.

        This is so if a row at its bounds has more entries than the square root of the
        number of features.
        """
        return self.full_entries**2 >= self.n_features

    @property
    def intercept_value(self) -> float:
        """The constant in the intercept's column."""
        return self.data_norm if math.isfinite(self.data_norm) else 1.0

    def with_loss(self, loss: Loss) -> Self:
        return replace(self, loss=loss)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the weights: a row per column, a column per output."""
        return self.n_columns, self.loss.n_outputs

    @property
    def smoothness(self) -> float:
        """Public bound L on the curvature of one record's regularised loss."""
        return self.loss.smoothness * self.row_norm**2 + self.alpha


# ---------------------------------------------------------- Activations of hidden units
# Plain arithmetic as in ``losses/_base.py``: only + - * /, comparisons and rounding of
# single numbers, so that the bits are the same in any layout.


class Activation(Protocol):
    """Activation function of hidden units; its slope is between 0 and 1."""

    @property
    def is_bounded(self) -> bool:
        """Whether values are between -1 and 1."""
        ...

    def value(self, raw: FloatArray) -> FloatArray:
        """The unit's value."""
        ...

    def slope(self, value: FloatArray) -> FloatArray:
        """Derivative, given the unit's value."""
        ...


class Identity:
    """``z``: a linear model with a bottleneck."""

    is_bounded: ClassVar[bool] = False

    def value(self, raw: FloatArray) -> FloatArray:
        return raw

    def slope(self, value: FloatArray) -> FloatArray:
        return np.ones_like(value)


class Logistic:
    """``1 / (1 + exp(-z))``."""

    is_bounded: ClassVar[bool] = True

    def value(self, raw: FloatArray) -> FloatArray:
        """The unit's value, within 2.4e-12."""
        tail = falling_exponential(np.abs(raw))
        return np.asarray(np.where(raw >= 0, 1.0, tail) / (1.0 + tail))

    def slope(self, value: FloatArray) -> FloatArray:
        """At most a quarter."""
        return value * (1.0 - value)


class Relu:
    """``max(z, 0)``."""

    is_bounded: ClassVar[bool] = False

    def value(self, raw: FloatArray) -> FloatArray:
        return np.maximum(raw, 0.0)

    def slope(self, value: FloatArray) -> FloatArray:
        """1 where the unit is on, 0 elsewhere."""
        return np.asarray(value > 0, dtype=np.float64)


class Tanh:
    """``tanh(z)``."""

    is_bounded: ClassVar[bool] = True

    def value(self, raw: FloatArray) -> FloatArray:
        """The unit's value, within 5e-12."""
        tail = np.abs(raw)
        tail *= 2.0
        tail = falling_exponential(tail)
        value = 1.0 - tail
        tail += 1.0
        value /= tail
        return np.copysign(value, raw, out=value)

    def slope(self, value: FloatArray) -> FloatArray:
        """At most 1."""
        slope = value * value
        return np.subtract(1.0, slope, out=slope)


ACTIVATIONS: dict[str, Activation] = {
    "identity": Identity(),
    "logistic": Logistic(),
    "relu": Relu(),
    "tanh": Tanh(),
}


# ------------------------------------------------------------- Layers declared by users


# Height, width and channels of an image.
Shape = tuple[int, int, int]


class Layer(ABC):
    """A declared layer: a frozen dataclass of plain numbers."""

    @abstractmethod
    def over(self, image: Shape) -> PlacedLayer:
        """The layer for images of a public shape.

        Raises
        ------
        ValueError
            If the layer does not fit.
        """


class PlacedLayer(Protocol):
    """A layer for images of one shape."""

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of its weight matrix, biases included."""
        ...

    @property
    def out(self) -> Shape:
        """Shape of the layer's output image."""
        ...

    @property
    def overlap(self) -> float:
        """Approximate mean squared norm of a unit's inputs over that of the image."""
        ...

    @property
    def places(self) -> dict[str, Any]:
        """Where the layer's inputs come from, for a model that leaves without skdp."""
        ...

    def sums(self, *, is_exact: bool) -> Any:
        """The class of gradient sums of a network that begins with these layers.

        It replaces `ExactNetworkSum` or `NetworkSum`.
        """
        ...

    def raw(
        self,
        X: Any,
        norm: float,
        placed: list[PlacedLayer],
        layers: list[tuple[Any, Any]],
        activation: Activation,
    ) -> FloatArray:
        """Raw predictions of rows, which are clipped as in `fit`.

        Parameters
        ----------
        X : ndarray or CSR of shape (n_rows, n_features)
        norm : float in (0, inf]
        placed : list of PlacedLayer
            All placed layers, this one first.
        layers : list of pairs of ndarray
            Released weights and biases, with those of `placed` first.
        activation : Activation

        Returns
        -------
        ndarray of shape (n_rows, n_outputs)
        """
        ...


# Layers by class name.
LAYERS: Registry[type[Layer]] = Registry("skdp.layers", {})


# --------------------------------------------------------------- Objective of a network


# Released weights are clipped to this magnitude. It is far above that of any useful
# model, and small enough that nothing overflows in `MOST_LAYERS` of `MOST_UNITS` units.
FARTHEST = 1e6
MOST_LAYERS, MOST_UNITS = 8, 4096
# Standard deviation of hidden units' raw values at the start.
_DEVIATION = 0.3


@dataclass(frozen=True, kw_only=True)
class NetworkObjective:
    """Layers, a loss and public facts of a network; nothing is computed from the data.

    The objective is ``mean(loss) + alpha / 2 * ||w||^2``, where the vector w has all
    weights and biases. Each layer has a matrix of shape (n_inputs + 1, n_units), whose
    last row has the biases. The inputs of a convolution are the values of a patch, and
    its units are filters. Rows are multiplied by `input_factor` before the first layer.

    Parameters
    ----------
    loss : Loss
        Loss of one record's raw predictions.
    n_samples, n_features : int
        Numbers of records, or users, and of features; public.
    hidden : tuple of int
        Number of units of each fully connected hidden layer.
    activation : {"identity", "logistic", "relu", "tanh"}
    data_norm : float in (0, inf]
        Rows are clipped to this L2 norm, in units of the features. inf: no clipping,
        allowed only without privacy.
    input_factor : float in (0, inf)
        Factor on rows before the first layer.
    input_norm : float in (0, inf)
        Largest norm of a row after this factor, whether rows are clipped or not.
    adjacency : {"replace_one", "zero_out", "replace_user", "zero_out_user"}
    alpha : float in [0, inf), default=0.0
        L2 regularisation of the mean loss.
    convolutions : tuple of Layer, default=()
        Layers before the fully connected layers.
    image : tuple of three int, default=(0, 0, 0)
        Height, width and channels of a row; their product is n_features. Ignored
        without convolutions.
    seed : int, default=0
        Seed of the first weights; public.
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
    seed: int = 0

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
                "The 'image_shape' parameter must match the rows, which have "
                f"{self.n_features} features. Got {self.image}, height, width and "
                f"channels, with {math.prod(self.image)} values. Declare the shape of "
                "one image."
            )
        if self.n_flat > MOST_UNITS:
            raise ValueError(
                f"The 'convolutions' parameter must end with at most {MOST_UNITS} "
                f"values. Got {self.n_flat}. Use fewer filters, a longer stride, or a "
                "longer pool_stride."
            )

    @property
    def unit(self) -> Activation:
        """Activation of the hidden units."""
        return ACTIVATIONS[self.activation]

    @cached_property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Shapes of the layers' matrices, biases included."""
        filters = [own.shape for own in self.convolved]
        sizes = (self.n_flat, *self.hidden, self.loss.n_outputs)
        return (*filters, *((n_in + 1, n_out) for n_in, n_out in pairwise(sizes)))

    @cached_property
    def convolved(self) -> list[PlacedLayer]:
        """The convolutions, each over the output image of the one before.

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
        """Number of inputs of the first fully connected layer."""
        return math.prod(self.convolved[-1].out) if self.convolved else self.n_features

    @property
    def n_weights(self) -> int:
        """Number of weights, biases included."""
        return sum(math.prod(shape) for shape in self.shapes)

    def layers(self, weights: FloatArray) -> list[FloatArray]:
        """Views of a vector of weights as the layers' matrices."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])[:-1]
        parts = np.split(weights, ends)
        return [
            part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)
        ]

    def start(self, seed: int) -> FloatArray:
        """First weights from a public seed: random; 0 for biases and the last layer.

        Raw values of hidden units have a standard deviation of at most 0.3 for any
        number of inputs. This holds for the longest rows in the first layer, for inputs
        of 1 in later layers, and for inputs of 0.3 after a convolution. Since the last
        layer starts at 0, predictions are 0 before the first step.

        Returns
        -------
        ndarray of shape (n_weights,)
        """
        # NumPy guarantees that this generator's draws for a seed never change.
        draws = check_random_state(seed)
        weights = np.zeros(self.n_weights)
        for layer, scale in zip(self.layers(weights), self._scales(), strict=True):
            if scale:
                layer[:-1] = scale * draws.normal(size=layer[:-1].shape)
        return weights

    def _scales(self) -> list[float]:
        """Deviations of the first weights by layer; 0 for the last layer."""
        n_inputs = [n_in - 1 for n_in, _ in self.shapes]
        scales = [_DEVIATION / math.sqrt(n_in) for n_in in n_inputs]
        scales[0] = _DEVIATION / self.input_norm
        if self.convolved:
            # A patch is a small part of a row; values after it are about 0.3, not 1.
            scales = [1 / math.sqrt(n_in) for n_in in n_inputs]
            length = self.input_norm * math.sqrt(self.convolved[0].overlap)
            scales[0] = _DEVIATION / length
        return [*scales[:-1], 0.0]
