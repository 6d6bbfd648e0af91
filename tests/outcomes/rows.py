"""Seeded rows and targets, made anew on each call so that no fit can change another's.

Only the large ones are kept.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy.sparse import csr_array


def _normal(n: int, d: int) -> np.ndarray:
    """Rows of norms around 1, some of them clipped by a data_norm of 1."""
    return np.random.default_rng(n * d).normal(size=(n, d)) / np.sqrt(d)


def _few_entries(n: int, d: int) -> np.ndarray:
    rng = np.random.default_rng(n + d)
    return np.where(rng.random((n, d)) < 0.25, rng.normal(size=(n, d)), 0.0)


def _with_huge(n: int, d: int) -> np.ndarray:
    """Squares of two rows overflow, one row is 0."""
    X = _normal(n, d)
    X[3], X[7, 1], X[11] = 1e200, -1e180, 0.0
    return X


def _with_missing(n: int, d: int) -> np.ndarray:
    X = _normal(n, d)
    X[np.random.default_rng(1).random((n, d)) < 0.2] = np.nan
    return X


@cache
def _large(n: int, d: int, dtype: str) -> np.ndarray:
    return _normal(n, d).astype(dtype)


_ROWS = {
    "plain": lambda: _normal(150, 5),
    "float32": lambda: _normal(150, 5).astype(np.float32),
    "fortran": lambda: np.asfortranarray(_normal(150, 5)),
    "huge": lambda: _with_huge(150, 5),
    "missing": lambda: _with_missing(150, 5),
    "csr": lambda: csr_array(_few_entries(150, 5)),
    "csr_float32": lambda: csr_array(_few_entries(150, 5).astype(np.float32)),
    "wide": lambda: _normal(200, 60),
    "wide_csr": lambda: csr_array(_few_entries(200, 60)),
    # Several blocks of 2 MiB, and of 65,536 rows of a CSR array.
    "blocks": lambda: _large(20_000, 30, "f8"),
    "blocks_csr": lambda: csr_array(_few_entries(70_000, 6)),
    # Ten million numbers and more: gradients are added up by compiled code.
    "compiled": lambda: _large(125_000, 80, "f8"),
    "compiled_float32": lambda: _large(125_000, 80, "f4"),
}


def rows(name: str) -> Any:
    """Rows by name."""
    return _ROWS[name]()


def targets(X: Any, n_classes: int | None) -> np.ndarray:
    """Labels 0, 1, ... that follow the first two columns, or numbers in [-2, 3]."""
    first = X[:, [0, 1]]
    first = first.toarray() if hasattr(first, "toarray") else first
    noise = np.random.default_rng(2).normal(size=len(first))
    signal = np.nan_to_num(np.clip(first, -9, 9)) @ [2.0, -1.0] + 0.3 * noise
    if n_classes is None:
        return np.clip(signal, -2.0, 3.0)
    return np.clip(np.floor(signal + n_classes / 2), 0, n_classes - 1).astype(int)


def ratings() -> tuple[np.ndarray, np.ndarray]:
    """Pairs of 40 users and 25 items, each once, and ratings in [1, 5]."""
    rng = np.random.default_rng(3)
    places = rng.permutation(1000)[:600]
    users, items = places // 25, places % 25
    taste = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 25))
    values = 3 + 0.7 * taste[users, items] + 0.3 * rng.normal(size=600)
    pairs = np.array(
        [[f"u{u:02}", f"i{i:02}"] for u, i in zip(users, items, strict=True)]
    )
    return pairs, np.clip(values, 1, 5)
