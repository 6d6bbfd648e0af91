"""The optimum of least squares without noise: as scikit-learn's, to eight digits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LinearRegression, Ridge

from skdp import DPLinearRegression
from skdp.losses import SquaredLoss
from skdp.losses._objective import LinearObjective
from skdp.solvers import _exact as least
from skdp.tables._memory import MemorySource

BOUNDS = (-3.0, 3.0)


def problem(n=3000, d=30, condition=1e3, seed=0):
    """Rows with columns of very different lengths, correlated."""
    rng = np.random.default_rng(seed)
    mixed = np.linalg.qr(rng.normal(size=(d, d)))[0]
    X = rng.normal(size=(n, d)) * np.geomspace(1, 1 / condition, d) @ mixed
    return X, X @ rng.normal(size=d) + 0.1 * rng.normal(size=n)


def fitted(X, y, **params):
    return DPLinearRegression(math.inf, target_bounds=BOUNDS, **params).fit(X, y)


def is_near(found, expected, digits=8):
    return np.abs(found - expected).max() < 10.0**-digits * np.abs(expected).max()


@pytest.mark.parametrize("store", [np.asarray, np.asfortranarray, csr_array])
@pytest.mark.parametrize("alpha", [0.0, 1e-4])
def test_agrees_with_scikit_learn_to_eight_digits(store, alpha):
    X, y = problem()
    model = fitted(store(X), y, alpha=alpha, fit_intercept=False)
    ridge = Ridge(alpha=len(y) * alpha, fit_intercept=False, solver="svd")
    theirs = ridge if alpha else LinearRegression(fit_intercept=False)
    assert is_near(model.coef_, theirs.fit(X, y).coef_)
    model = fitted(store(X + 1), y + 1, alpha=0.0)
    theirs = LinearRegression().fit(X + 1, y + 1)
    assert is_near(model.coef_, theirs.coef_)
    assert is_near(model.intercept_, theirs.intercept_)


@pytest.mark.parametrize("store", [np.asarray, csr_array])
def test_of_several_minima_it_is_the_least(store):
    X, y = problem(200, 10, condition=10)
    twice = np.column_stack([X, X])
    wide, few = np.random.default_rng(1).normal(size=(20, 60)), y[:20]
    for rows, targets in ((twice, y), (wide, few)):
        model = fitted(store(rows), targets, fit_intercept=False)
        expected = np.linalg.lstsq(rows, targets, rcond=1e-12)[0]
        assert is_near(model.coef_, expected)


def objective_of(n, d, loss=None, **params):
    loss = SquaredLoss(math.inf) if loss is None else loss
    facts = {"data_norm": math.inf, "adjacency": "replace_one"} | params
    return LinearObjective(loss=loss, n_samples=n, n_features=d, **facts)


def test_runs_of_rows_and_null_records_do_not_matter(monkeypatch):
    X, y = problem(5000, 6, condition=10)
    present = np.arange(5000) % 3 > 0
    objective = objective_of(5000, 6)
    monkeypatch.setattr("skdp.tables._memory._MAX_ROWS", 70)
    for store in (np.asarray, csr_array):
        source = MemorySource(store(X), y, present)
        found = least.least_squares(source, objective)
        theirs = LinearRegression().fit(X[present], y[present])
        assert is_near(found[:-1, 0], theirs.coef_)
        everyone = least.least_squares(MemorySource(store(X), y), objective)
        assert not is_near(everyone[:-1, 0], theirs.coef_)
    monkeypatch.setattr(least, "_MOST_COLUMNS", 6)  # the intercept is the seventh
    assert least.least_squares(MemorySource(X, y), objective) is None


def test_broken_twin_with_squared_moments_loses_digits():
    X, y = problem(condition=1e6)
    theirs = LinearRegression(fit_intercept=False).fit(X, y)
    model = fitted(X, y, fit_intercept=False)
    assert is_near(model.coef_, theirs.coef_)
    assert not is_near(np.linalg.solve(X.T @ X, X.T @ y), theirs.coef_)
