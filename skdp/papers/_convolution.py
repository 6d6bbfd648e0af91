"""Convolutions: layers, and the estimators' parameter."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.sparse import issparse

from skdp._arrays import FloatArray, clip_rows
from skdp._checks import check_count
from skdp.losses._objective import Activation, Layer, PlacedLayer, Shape
from skdp.papers._convolution_sum import ConvolutionSum, ExactConvolutionSum

# --------------------------------- Predictions of networks that begin with convolutions


# Number of rows whose patches are a small part of the memory.
_ROWS = 256


def convolved_raw(
    X: Any,
    norm: float,
    convolved: list[Any],
    layers: list[tuple[Any, Any]],
    activation: Activation,
) -> np.ndarray:
    """Raw predictions of rows, which are clipped as in `fit`.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_rows, n_features)
    norm : float in (0, inf]
    convolved : list of ConvolutionLayer
    layers : list of pairs of ndarray
        Released weights and biases, with those of convolutions first.
    activation : Activation

    Returns
    -------
    ndarray of shape (n_rows, n_outputs)
    """
    starts = range(0, X.shape[0], _ROWS) or [0]
    return np.concatenate(
        [
            _of_some(X[start : start + _ROWS], norm, convolved, layers, activation)
            for start in starts
        ]
    )


def _of_some(
    X: Any,
    norm: float,
    convolved: list[Any],
    layers: list[tuple[Any, Any]],
    activation: Activation,
) -> FloatArray:
    rows = X.toarray() if issparse(X) else X
    values = clip_rows(rows, norm) if math.isfinite(norm) else rows
    for own, (coef, intercept) in zip(convolved, layers, strict=False):
        largest, _ = own.largest(own.patches(values) @ coef + intercept)
        values = activation.value(largest)
    n = len(convolved)
    raw = values @ layers[n][0] + layers[n][1]
    for coef, intercept in layers[n + 1 :]:
        raw = activation.value(raw) @ coef + intercept
    return np.asarray(raw)


# --------------------------------------------------------------- Convolutions of images
# Nothing here multiplies by weights: patches are taken out and put back, the largest
# value of each window is kept, and derivatives return to their source, separately for
# every record and with every sum in one order.


# Most weights of a filter and inputs of a layer of units, so that sums of their
# products are exact; and most positions of a filter, for sums over these.
MOST_INPUTS, MOST_POSITIONS = 4096, 8192


@dataclass(frozen=True)
class Convolution(Layer):
    """Convolution of an image, followed by max-pooling.

    Every filter is a square of `kernel` x `kernel` pixels of all channels, moved by
    `stride` over the image with `padding` zeros around it. In each window of `pool` x
    `pool` raw values, moved by `pool_stride`, the largest value is kept and goes
    through the network's activation.

    Parameters
    ----------
    n_filters : int in [1, 4096]
        Number of channels of the output image.
    kernel : int in [1, 64]
        Side of the filters, in pixels.
    stride : int in [1, 64], default=1
        Pixels from one position of a filter to the next.
    padding : int in [0, 64], default=0
        Pixels of 0 around the image.
    pool : int in [1, 64], default=1
        Side of the windows, in positions. 1: every value is kept.
    pool_stride : int in [1, 64], default=1
        Positions from one window to the next.

    Raises
    ------
    ValueError, TypeError
        For a field out of range.

    Examples
    --------
    >>> from skdp.neural_network import Convolution
    >>> Convolution(16, 8, stride=2, padding=3, pool=2)
    Convolution(n_filters=16, kernel=8, stride=2, padding=3, pool=2, pool_stride=1)
    """

    n_filters: int
    kernel: int
    stride: int = 1
    padding: int = 0
    pool: int = 1
    pool_stride: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            low = 0 if field.name == "padding" else 1
            high = MOST_INPUTS if field.name == "n_filters" else 64
            value = getattr(self, field.name)
            checked = check_count(field.name, value, low=low, high=high)
            object.__setattr__(self, field.name, checked)

    def over(self, image: Shape) -> ConvolutionLayer:
        layer = ConvolutionLayer(self, image)
        layer.check()
        return layer


@dataclass(frozen=True)
class ConvolutionLayer:
    """One convolution of images of a public shape.

    Parameters
    ----------
    own : Convolution
    image : tuple of three int
        Height, width and channels of the input image.
    """

    own: Convolution
    image: Shape

    def check(self) -> None:
        """Raise `ValueError` if a filter or a window does not fit."""
        if min(self.positions) < 1 or min(self.out) < 1:
            raise ValueError(
                f"The 'convolutions' parameter has a filter or a window that does not "
                f"fit: {self.own} over an image of shape {self.image}. Use a smaller "
                "kernel or pool, or padding."
            )
        n_positions = self.positions[0] * self.positions[1]
        if self.n_inputs > MOST_INPUTS or n_positions > MOST_POSITIONS:
            raise ValueError(
                f"The 'convolutions' parameter must have filters of at most "
                f"{MOST_INPUTS} weights at at most {MOST_POSITIONS} positions. Got "
                f"{self.n_inputs} at {n_positions}: {self.own} over an image of shape "
                f"{self.image}. Use a smaller kernel, or a longer stride."
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix of filters, one a column, biases included."""
        return self.n_inputs + 1, self.own.n_filters

    @property
    def n_inputs(self) -> int:
        """Number of weights of one filter, without its bias."""
        return self.own.kernel**2 * self.image[2]

    @property
    def positions(self) -> tuple[int, int]:
        """Number of positions of a filter, down and across."""
        down, across = (
            (side + 2 * self.own.padding - self.own.kernel) // self.own.stride + 1
            for side in self.image[:2]
        )
        return down, across

    @property
    def out(self) -> Shape:
        """Shape of the output image."""
        down, across = (
            (side - self.own.pool) // self.own.pool_stride + 1
            for side in self.positions
        )
        return down, across, self.own.n_filters

    @property
    def overlap(self) -> float:
        """Approximate bound on a patch's mean squared norm over that of the image.

        It is the number of patches that contain a pixel, over the number of patches.
        """
        down, across = self.positions
        return (self.own.kernel / self.own.stride) ** 2 / (down * across)

    def sums(self, *, is_exact: bool) -> Any:
        return ExactConvolutionSum if is_exact else ConvolutionSum

    def raw(
        self,
        X: Any,
        norm: float,
        placed: list[PlacedLayer],
        layers: list[tuple[Any, Any]],
        activation: Activation,
    ) -> FloatArray:
        return convolved_raw(X, norm, placed, layers, activation)

    def patches(self, values: FloatArray) -> FloatArray:
        """Inputs of the filters, of shape (n_rows, n_positions, n_inputs).

        Parameters
        ----------
        values : ndarray of shape (n_rows, height * width * channels)
        """
        n, (height, width, channels) = len(values), self.image
        kernel, stride, pad = self.own.kernel, self.own.stride, self.own.padding
        images = values.reshape(n, height, width * channels)
        if pad:
            wide = np.zeros(
                (n, height + 2 * pad, (width + 2 * pad) * channels), values.dtype
            )
            wide[:, pad:-pad, pad * channels : -pad * channels] = images
            images = wide
        seen = sliding_window_view(images, (kernel, kernel * channels), axis=(1, 2))
        seen = seen[:, ::stride, :: stride * channels]
        return seen.reshape(n, -1, self.n_inputs)

    @property
    def places(self) -> dict[str, Any]:
        """Pixels of each patch, from 1, 0 for the padding; positions of each window.

        Of shape (n_positions, n_inputs), and (pool * pool, n_windows).
        """
        numbers = np.arange(1.0, math.prod(self.image) + 1)
        pixels = self.patches(numbers[None])[0].astype(np.int64)
        image = np.arange(math.prod(self.positions)).reshape(self.positions)
        windows = [
            image[self._window(*divmod(k, self.own.pool))].ravel()
            for k in range(self.own.pool**2)
        ]
        return {"patches": pixels, "windows": np.stack(windows)}

    def put_back(self, patches: FloatArray) -> FloatArray:
        """Sums of patches at their positions: the derivatives by `values`."""
        n, (height, width, channels) = len(patches), self.image
        kernel, stride, pad = self.own.kernel, self.own.stride, self.own.padding
        down, across = self.positions
        parts = patches.reshape(n, down, across, kernel, kernel, channels)
        images = np.zeros((n, height + 2 * pad, width + 2 * pad, channels))
        for i in range(kernel):
            for j in range(kernel):
                rows = slice(i, i + stride * (down - 1) + 1, stride)
                columns = slice(j, j + stride * (across - 1) + 1, stride)
                images[:, rows, columns] += parts[:, :, :, i, j]
        inner = images[:, pad : pad + height, pad : pad + width]
        return inner.reshape(n, -1)

    def largest(self, raw: FloatArray) -> tuple[FloatArray, NDArray[np.int16]]:
        """The largest value of each window, and its index; the first one wins ties.

        Parameters
        ----------
        raw : ndarray of shape (n_rows, n_positions, n_filters)

        Returns
        -------
        values, chosen : ndarray of shape (n_rows, height * width * channels)
            For the output image.
        """
        images = raw.reshape(len(raw), *self.positions, -1)
        values = images[:, *self._window(0, 0)].copy()
        chosen = np.zeros(values.shape, np.int16)
        for k in range(1, self.own.pool**2):
            own = images[:, *self._window(*divmod(k, self.own.pool))]
            np.copyto(chosen, k, where=own > values)
            np.maximum(values, own, out=values)
        return values.reshape(len(raw), -1), chosen.reshape(len(raw), -1)

    def send_back(self, sent: FloatArray, chosen: NDArray[np.int16]) -> FloatArray:
        """Derivatives by raw values: each goes to the largest value of its window.

        Returns
        -------
        ndarray of shape (n_rows, n_positions, n_filters)
        """
        n, out = len(sent), self.out
        sent, chosen = sent.reshape(n, *out), chosen.reshape(n, *out)
        images = np.zeros((n, *self.positions, out[2]))
        for k in range(self.own.pool**2):
            images[:, *self._window(*divmod(k, self.own.pool))] += sent * (chosen == k)
        return images.reshape(n, -1, out[2])

    def _window(self, i: int, j: int) -> tuple[slice, slice]:
        """Slices of the values at (i, j) of all windows."""
        step, (down, across, _) = self.own.pool_stride, self.out
        return (
            slice(i, i + step * (down - 1) + 1, step),
            slice(j, j + step * (across - 1) + 1, step),
        )
