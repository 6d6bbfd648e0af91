"""MNIST as the bolt-on paper prepares it: a random projection to 50 columns.

60,000 + 10,000 images, rows divided by their norm. A run has a projection (public) and
a permutation of its own.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from benchmarks._data import load

M, D, K = 60_000, 50, 10  # training rows, columns, classes


@lru_cache(maxsize=1)
def _images() -> tuple[np.ndarray, np.ndarray]:
    X, y = load("mnist")
    return X.astype(np.float32), y


@lru_cache(maxsize=1)
def projected(
    runs: tuple[int, ...],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """X (R, m, d), Y (R, m, K) in the order of training, test rows (R, 10 000, d)."""
    X, y = _images()
    rows, signs, tests = [], [], []
    for run in runs:
        rng = np.random.default_rng(run)
        Z = X @ rng.standard_normal((X.shape[1], D)).astype(np.float32)
        Z /= np.linalg.norm(Z, axis=1, keepdims=True)
        order = rng.permutation(M)
        rows.append(Z[order])
        signs.append(np.where(y[order, None] == np.arange(K), 1, -1).astype("f4"))
        tests.append(Z[M:])
    return np.stack(rows), np.stack(signs), np.stack(tests), y[M:]


def accuracies(W: np.ndarray, runs: tuple[int, ...]) -> np.ndarray:
    """Test accuracy of one-vs-all weights of shape (R, K, d), for each run."""
    tests, labels = projected(runs)[2:]
    return ((tests @ W.transpose(0, 2, 1)).argmax(axis=2) == labels).mean(axis=1)
