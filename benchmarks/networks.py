"""Networks of MNIST, of raw pixels and of declared features, at delta 1e-5.

The features are histograms of the orientations of gradients in cells of 4 x 4 pixels,
scaled by 2 x 2 cells: a public rule of each image alone, at no cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from itertools import product
from typing import Any

import numpy as np

from benchmarks._models import quietly_fitted
from benchmarks._runner import Line, benchmark, line
from benchmarks._tables import mnist_images
from skdp import DPLogisticRegression, DPMLPClassifier
from skdp.neural_network import Convolution

_SIDE, _CELL, _ORIENTATIONS = 28, 4, 9
# Added to squared norms of blocks, in squared units of grey: flat ones stay small.
_FLAT = 1e-2
# Norms that clip few rows: of 784 shades from 0 to 1, of which most are 0, and of the
# blocks' vectors, each of norm up to 1.
_PIXEL_NORM, _FEATURE_NORM = 9.0, 6.0


def oriented_gradients(X: np.ndarray) -> np.ndarray:
    """Histograms of oriented gradients of images, each by itself."""
    images = X.reshape(-1, _SIDE, _SIDE).astype(np.float32)
    down, across = np.gradient(images, axis=(1, 2))
    turn = np.mod(np.arctan2(down, across) / (2 * np.pi), 1.0) * _ORIENTATIONS
    first = np.floor(turn).astype(int) % _ORIENTATIONS
    share = turn - np.floor(turn)
    length, cells = np.hypot(down, across), _SIDE // _CELL
    histograms = np.empty((len(images), cells, cells, _ORIENTATIONS), np.float32)
    for k in range(_ORIENTATIONS):
        is_next = (first + 1) % _ORIENTATIONS == k
        weight = length * ((first == k) * (1 - share) + is_next * share)
        parts = weight.reshape(-1, cells, _CELL, cells, _CELL)
        histograms[..., k] = parts.sum(axis=(2, 4))
    n = cells - 1
    corners = [histograms[:, i : i + n, j : j + n] for i in (0, 1) for j in (0, 1)]
    squares = sum((corner**2).sum(axis=-1) for corner in corners)
    norms = np.sqrt(squares + _FLAT)[..., None]
    blocks = np.concatenate([corner / norms for corner in corners], axis=-1)
    return np.ascontiguousarray(blocks.reshape(len(images), -1))


def _network(norm: float, hidden: tuple[int, ...], **facts: Any) -> Any:
    return DPMLPClassifier(data_norm=norm, hidden_layer_sizes=hidden, **facts)


# Wang's network of MNIST, which is that of the first example of Opacus (pytorch-dp).
_FILTERS = (
    Convolution(16, 8, stride=2, padding=3, pool=2),
    Convolution(32, 4, stride=2, pool=2),
)
# By name: whether rows are features, and a model of the facts of a fit.
MODELS: dict[str, tuple[bool, Callable[..., Any]]] = {
    "pixels, 64 units": (False, partial(_network, _PIXEL_NORM, (64,))),
    "pixels, convolutions": (
        False,
        partial(
            _network,
            _PIXEL_NORM,
            (32,),
            convolutions=_FILTERS,
            image_shape=(_SIDE, _SIDE),
        ),
    ),
    "pixels, linear": (False, partial(DPLogisticRegression, data_norm=_PIXEL_NORM)),
    "gradients, 32 units": (True, partial(_network, _FEATURE_NORM, (32,))),
    "gradients, linear": (True, partial(DPLogisticRegression, data_norm=_FEATURE_NORM)),
}


@lru_cache(maxsize=2)
def images(part: str, has_features: bool) -> tuple[np.ndarray, ...]:
    """Rows to train on and to judge by: the test part, or a part of the training."""
    (X, y), (X_test, y_test) = mnist_images("train"), mnist_images("t10k")
    if part == "settle":
        X, X_test, y, y_test = X[:50_000], X[-10_000:], y[:50_000], y[-10_000:]
    if has_features:
        X, X_test = oriented_gradients(X), oriented_gradients(X_test)
    return X, y, X_test, y_test


@benchmark("network_images", runs=3)
def lines(part: str = "settle", n: int = 60_000) -> Iterator[Line]:
    """Networks of MNIST, of pixels and of oriented gradients (part=report: test)."""
    for adjacency, epsilon, name in product(
        ("zero_out", "replace_one"), (0.3, 1.0, 3.0), MODELS
    ):
        yield line(
            {"adjacency": adjacency, "epsilon": epsilon},
            name,
            partial(_accuracy, name, part, n, adjacency, epsilon),
            ("accuracy", "s"),
            private=True,
        )


def _accuracy(
    name: str, part: str, n: int, adjacency: str, epsilon: float, run: int
) -> tuple[float, float]:
    has_features, make = MODELS[name]
    X, y, X_test, y_test = images(part, has_features)
    facts = {"epsilon": epsilon, "adjacency": adjacency, "delta": 1e-5}
    start = time.perf_counter()
    model = quietly_fitted(make(classes=range(10), **facts), X[:n], y[:n])
    return float(model.score(X_test, y_test)), time.perf_counter() - start
