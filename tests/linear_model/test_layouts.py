"""A fit depends on the records, not on their order or on how they are stored."""

from __future__ import annotations

from itertools import cycle

import numpy as np
import pytest
from scipy.sparse import csr_array

from skdp import (
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPSparseLogisticRegression,
)
from skdp.sums import _grid_rows

N, D = 400, 6


def layouts():
    """The same records in other orders, storages and precisions."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)).astype(np.float32)
    X[7] *= 1e15
    y, order = rng.integers(0, 3, N), rng.permutation(N)
    yield X, y
    yield X.astype(np.float64), y
    yield np.asfortranarray(X, dtype=np.float64), y
    yield csr_array(X), y
    yield csr_array(X[order].astype(np.float64)), y[order]
    yield X[order].astype(np.float64), y[order]
    yield X[order], y[order]


CASES = {
    "binary": (DPLogisticRegression, {"solver": "noisy_gd", "classes": [0, 1]}),
    "classes": (DPLogisticRegression, {"solver": "nesterov", "classes": [0, 1, 2]}),
    "svc": (DPLinearSVC, {"solver": "heavy_ball", "classes": [0, 1, 2]}),
    "regression": (
        DPLinearRegression,
        {"solver": "multistage", "target_bounds": (0, 2)},
    ),
    "sparse": (
        DPSparseLogisticRegression,
        {"solver": "iht", "classes": [0, 1], "n_nonzero_coefs": 3},
    ),
}
ADJACENCIES = ["replace_one", "zero_out"]


def coefficients(case, adjacency):
    """Those of fits with the same noise to each layout, as bytes.

    Models of rows in single precision hold weights in single precision.
    """
    kind, params = CASES[case]
    params = {"delta": 1e-6, "adjacency": adjacency, "random_state": 5} | params
    found: dict[int, set[bytes]] = {4: set(), 8: set()}
    for X, y in layouts():
        target = np.minimum(y, 1) if params.get("classes") == [0, 1] else y
        model = kind(1.0, data_norm=2.0, **params).fit(X, target)
        weights = np.append(model.coef_, model.intercept_)
        found[8] |= {weights.tobytes()} if X.dtype == np.float64 else set()
        found[4].add(weights.astype(np.float32).tobytes())
    return found


@pytest.mark.parametrize(("case", "adjacency"), list(zip(CASES, cycle(ADJACENCIES))))
def test_the_same_weights_to_the_last_bit(case, adjacency):
    found = coefficients(case, adjacency)
    assert [len(found[size]) for size in (4, 8)] == [1, 1]


@pytest.mark.parametrize("case", ["classes", "sparse"])
def test_broken_twin_whose_scale_follows_the_storage_is_found(case, monkeypatch):
    """By a thousandth: the noise's grid hides what floating sums err by."""

    def planted(X, scale):
        return rounded(X, scale * (1 + 1e-3 * (X.dtype == np.float32)))

    rounded = _grid_rows._rounded
    monkeypatch.setattr(_grid_rows, "_rounded", planted)
    assert len(coefficients(case, "replace_one")[4]) > 1
