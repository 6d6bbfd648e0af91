"""Layers of a network that a user declares before the layers of units."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

from skdp._floats import FloatArray
from skdp._registry import Registry
from skdp.objectives._activations import Activation

# Height, width and channels of an image.
Shape = tuple[int, int, int]


class Layer(ABC):
    """A layer as it is declared: a frozen dataclass of plain numbers."""

    @abstractmethod
    def over(self, image: Shape) -> PlacedLayer:
        """The layer for images of a public shape.

        Raises
        ------
        ValueError
            If it does not fit.
        """


class PlacedLayer(Protocol):
    """A layer for images of one shape. The first one answers for all of its kind."""

    @property
    def shape(self) -> tuple[int, int]:
        """Of its matrix of weights, biases included."""
        ...

    @property
    def out(self) -> Shape:
        """Shape of the image that comes out."""
        ...

    @property
    def overlap(self) -> float:
        """Mean squared norm of what a unit sees over that of the image; about."""
        ...

    def sums(self, *, is_exact: bool) -> Any:
        """The class of gradient sums of a network that begins with such layers.

        It takes the place of `ExactNetworkSum`, or of `NetworkSum`.
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
        """Raw predictions of rows that are clipped as in `fit`.

        Parameters
        ----------
        X : ndarray or CSR of shape (n_rows, n_features)
        norm : float in (0, inf]
        placed : list of PlacedLayer
            All of them, this one first.
        layers : list of pairs of ndarray
            Released weights and biases, those of `placed` first.
        activation : Activation

        Returns
        -------
        ndarray of shape (n_rows, n_outputs)
        """
        ...


# By the name of the class.
LAYERS: Registry[type[Layer]] = Registry("skdp.layers", {})
