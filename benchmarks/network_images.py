"""Networks of MNIST, of raw pixels and of declared features, at delta 1e-5.

Run ``python -m benchmarks.network_images``; without ``--report`` judged by the last
10,000 records of the training part, with it by the test part. The features are
histograms of the orientations of gradients in cells of 4 x 4 pixels, scaled by 2 x 2
cells: a public rule of each image alone, at no cost.
"""

from __future__ import annotations

import argparse
import gzip
import time
import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from benchmarks._accuracy import mean_and_error
from benchmarks._commands import count
from benchmarks._data import data_folder
from skdp import DPLogisticRegression, DPMLPClassifier
from skdp.neural_network import Convolution

_SIDE, _CELL, _ORIENTATIONS = 28, 4, 9
# Added to squared norms of blocks, in squared units of grey: flat ones stay small.
_FLAT = 1e-2
# Norms that clip few rows: of 784 shades from 0 to 1, of which most are 0, and of the
# blocks' vectors, each of norm up to 1.
_PIXEL_NORM = 9.0
_FEATURE_NORM = 6.0


def oriented_gradients(X: np.ndarray) -> np.ndarray:
    """Histograms of oriented gradients of images, each by itself.

    Parameters
    ----------
    X : ndarray of shape (n_images, 784)
        Shades from 0 to 1.

    Returns
    -------
    ndarray of float32 of shape (n_images, 1296)
    """
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


def mnist(part: str) -> tuple[np.ndarray, np.ndarray]:
    """Shades from 0 to 1, and labels, of "train" or "t10k"."""
    folder = data_folder("mnist")

    def read(kind: str, offset: int) -> np.ndarray:
        packed = (folder / f"{part}-{kind}-ubyte.gz").read_bytes()
        return np.frombuffer(gzip.decompress(packed), np.uint8, offset=offset)

    X = read("images-idx3", 16).reshape(-1, _SIDE**2).astype(np.float32) / 255
    return X, read("labels-idx1", 8).astype(int)


def _network(norm: float, hidden: tuple[int, ...], **facts: Any) -> Any:
    return DPMLPClassifier(data_norm=norm, hidden_layer_sizes=hidden, **facts)


# Wang's network of MNIST, which is that of the first example of Opacus (pytorch-dp).
_FILTERS = (
    Convolution(16, 8, stride=2, padding=3, pool=2),
    Convolution(32, 4, stride=2, pool=2),
)


def _convolutional(**facts: Any) -> Any:
    return DPMLPClassifier(
        data_norm=_PIXEL_NORM,
        convolutions=_FILTERS,
        image_shape=(_SIDE, _SIDE),
        hidden_layer_sizes=(32,),
        **facts,
    )


def _linear(norm: float, **facts: Any) -> Any:
    return DPLogisticRegression(data_norm=norm, **facts)


# By name: whether rows are features, and a model of the facts of a fit.
MODELS: dict[str, tuple[bool, Callable[..., Any]]] = {
    "pixels, 64 units": (False, lambda **f: _network(_PIXEL_NORM, (64,), **f)),
    "pixels, convolutions": (False, _convolutional),
    "pixels, linear": (False, lambda **f: _linear(_PIXEL_NORM, **f)),
    "gradients, 32 units": (True, lambda **f: _network(_FEATURE_NORM, (32,), **f)),
    "gradients, linear": (True, lambda **f: _linear(_FEATURE_NORM, **f)),
}


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each model, adjacency and epsilon."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", action="append", choices=list(MODELS))
    parser.add_argument("--epsilon", action="append", type=float)
    parser.add_argument("--adjacency", action="append")
    parser.add_argument("--fits", type=count, default=3)
    parser.add_argument("--rows", type=count, default=60_000)
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args(arguments)
    X, y = mnist("train")
    if options.report:
        train, (X_judge, y_judge) = slice(options.rows), mnist("t10k")
    else:
        train, X_judge, y_judge = (
            slice(min(50_000, options.rows)),
            X[-10_000:],
            y[-10_000:],
        )
    X, y = X[train], y[train]
    rows = {False: (X, X_judge)}
    rows[True] = oriented_gradients(X), oriented_gradients(X_judge)
    print("| adjacency | epsilon | model | accuracy | fit s |\n|---|---|---|---|---|")
    cells = product(
        options.adjacency or ["zero_out"],
        options.epsilon or [1.0],
        options.model or MODELS,
    )
    for adjacency, epsilon, name in cells:
        has_features, make = MODELS[name]
        own, judged = rows[has_features]
        facts = {"epsilon": epsilon, "adjacency": adjacency, "delta": 1e-5}
        scores, seconds = [], []
        for _ in range(options.fits):
            start = time.perf_counter()
            model = make(classes=range(10), **facts).fit(own, y)
            seconds.append(time.perf_counter() - start)
            scores.append(model.score(judged, y_judge))
        mean, error = mean_and_error(scores)
        print(
            f"| {adjacency} | {epsilon:g} | {name} | {mean:.4f} \u00b1 {error:.4f} | "
            f"{np.mean(seconds):.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
