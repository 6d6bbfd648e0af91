"""The default for rows of numbers of which nothing is declared but a norm.

Exact audits are in tests/audit/test_centred_descent.py.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.sparse import csr_array

from skdp.privacy.release._answers import Released
from skdp.solvers._centred_rows import Numbers
from skdp.tables._memory import MemorySource
from skdp.tables._source import SHARE_BITS
from skdp.tables._views import CentredDense
from tests.solvers.test_centred_descent import MODELS, decision, fit

D = 5
BOUNDS = {"regression": (-1, 2), "counts": (0, 2), "amounts": (0.5, 2)}
NAMES = ("logistic", "softmax", "svc", *BOUNDS)
every_model = pytest.mark.parametrize("name", NAMES)


def table(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, D)) / math.sqrt(D)
    raw = 4 * X @ np.resize([2.0, -2.0], D)
    return X, (raw + rng.logistic(size=n) > 0).astype(int)


def unfitted(name, epsilon=1.0, **params):
    kind, needs = MODELS[name]
    bounds = {"target_bounds": BOUNDS[name]} if name in BOUNDS else {}
    return kind(epsilon, **needs | bounds | {"random_state": 0} | params)


@every_model
def test_sparse_and_dense_rows_give_nearly_the_same(name):
    X, y = table()
    X = 3 * X  # some rows are longer than the norm
    dense, sparse = fit(unfitted(name), X, y), fit(unfitted(name), csr_array(X), y)
    assert dense.privacy_.solver == "centred_descent"
    # Sparse rows are on a grid of 2^-20, dense ones of 2^-22.
    assert np.allclose(decision(dense, X), decision(sparse, X), atol=2e-3)


@every_model
def test_predictions_follow_from_the_fitted_attributes(name):
    X, y = table()
    X = 3 * X  # some rows are longer than the norm
    model = fit(unfitted(name), X, y)
    rows = X / np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None]
    moved = (rows - model.center_) * model.scale_
    length = np.linalg.norm(moved, axis=1)
    factor = np.minimum(model.row_norm_ / length, 1.0)[:, None]
    shown = model.center_ + factor * (rows - model.center_)
    by_hand = shown @ np.atleast_2d(model.coef_).T + model.intercept_
    found = decision(model, X).reshape(by_hand.shape)
    assert np.allclose(found, by_hand, atol=1e-9)


@every_model
def test_units_of_the_features_change_nothing(name):
    X, y = table()
    model = fit(unfitted(name), X, y)
    large = fit(unfitted(name, data_norm=1024.0), 1024 * X, y)
    assert np.allclose(
        decision(model, X), decision(large, 1024 * X), rtol=1e-9, atol=1e-9
    )


# ------------------------------------------------------------------------ sums of rows


def rows_near_all_bounds(rng, n, d):
    rows = rng.normal(size=(n, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * rng.choice([0.0, 1e-3, 0.5, 1.0, 1.0, 7.0, 1e200], size=(n, 1))


def test_a_mean_that_is_noise_is_not_believed():
    sums = np.r_[np.full(100, 10.0), 500.0]
    found = Numbers(100, 1.0).centred(Released(sums, 10.0, 10.0), 1000)
    assert not found.mean.any()
    found = Numbers(100, 1.0).centred(Released(sums, 0.0, 0.0), 1000)
    assert np.allclose(found.mean, 0.01)


@pytest.mark.parametrize("released", [1e300, -1e12, 0.0, 1e-300])
def test_any_sum_of_rows_makes_rows(released):
    """A draw could bring it anywhere: nothing may fail after the commit."""
    X, y = table(50)
    answer = Released(np.full(D + 1, released), 1e-3, 1e-3)
    with np.errstate(all="ignore"):  # as `solve` does
        found = Numbers(D, 1.0).centred(answer, 50)
        assert np.isfinite(found.mean).all()
        assert 0 < found.norm < 2
        for rows in (X, csr_array(X)):
            (block,) = found.view(MemorySource(rows, y.astype(float))).blocks()
            made = block.X.entries if rows is X else block.X.made()
            assert np.isfinite(made).all()
            assert np.isfinite(block.X.norms).all()


@pytest.mark.parametrize("norm", [1.0, 0.3, 1e5])
def test_sparse_rows_on_their_grid_are_no_longer_than_the_norm(norm):
    rng = np.random.default_rng(0)
    with np.errstate(over="ignore"):
        X = norm * rows_near_all_bounds(rng, 2000, 5)
        states = Numbers(5, norm).rows(csr_array(X)).states
    whole = (states.toarray() * 2.0**SHARE_BITS).astype(np.int64).astype(object)
    squares = (whole**2).sum(axis=1)
    assert 0.99 * 4**SHARE_BITS < squares.max() <= 4**SHARE_BITS
    # Broken twin: the nearest grid points.
    unit = rng.normal(size=(500, 5))
    unit /= np.linalg.norm(unit, axis=1)[:, None]
    nearest = np.rint(unit * 2.0**SHARE_BITS).astype(np.int64).astype(object)
    assert (nearest**2).sum(axis=1).max() > 4**SHARE_BITS


def test_centred_rows_are_within_their_norm_each_by_itself():
    rng = np.random.default_rng(0)
    X = rows_near_all_bounds(rng, 500, 6)
    X = np.where(np.isfinite(X), X, 0.0)
    centre = rng.normal(size=6) / 4
    view = CentredDense(MemorySource(X, np.zeros(500)), 1.0, centre, 0.3)
    (block,) = view.blocks()
    assert np.linalg.norm(block.X, axis=1).max() <= 1 + 1e-12
    for row in (0, 17, 499):
        alone = CentredDense(MemorySource(X[[row]], np.zeros(1)), 1.0, centre, 0.3)
        assert np.array_equal(next(alone.blocks()).X[0], block.X[row])
