"""DPLinearRegression as its users meet it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge

from skdp import DPLinearRegression

BOUNDS = (0.0, 350.0)
SQUARED = ("adassp", "noisy_gd")
by_solver = pytest.mark.parametrize("solver", SQUARED)


@pytest.fixture
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return 10 * X / math.sqrt(X.shape[1]), y


@pytest.fixture
def many():
    """Rows of norm at most 1 and targets far from zero."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(20_000, 3)) / math.sqrt(3)
    return X, 100 + 30 * X @ np.array([1.0, -2.0, 0.5]) + rng.normal(size=20_000)


@pytest.mark.parametrize("alpha", [0.001, 0.1])
def test_infinite_epsilon_equals_ridge(diabetes, alpha):
    X, y = diabetes
    ridge = Ridge(alpha=len(y) * alpha, fit_intercept=False, tol=1e-12)
    ours = DPLinearRegression(
        math.inf, alpha=alpha, fit_intercept=False, target_bounds=BOUNDS
    ).fit(X, y)
    theirs = ridge.fit(X, y)
    assert np.abs(ours.coef_ - theirs.coef_).max() < 1e-4
    assert ours.intercept_ == 0.0
    # With an intercept: one more column, its weight penalised from the middle.
    ours = DPLinearRegression(math.inf, alpha=alpha, target_bounds=BOUNDS).fit(X, y)
    middle = sum(BOUNDS) / 2
    theirs = ridge.fit(np.column_stack([X, np.ones(len(y))]), y - middle)
    assert np.abs(ours.coef_ - theirs.coef_[:-1]).max() < 1e-4
    assert abs(ours.intercept_ - middle - theirs.coef_[-1]) < 1e-4


@by_solver
def test_without_intercept_zero_stays_zero(many, solver):
    X = np.abs(many[0])
    y = -30 * X @ [1.0, 2.0, 0.5]
    model = DPLinearRegression(
        fit_intercept=False, target_bounds=(-70, 1), solver=solver
    ).fit(X, y)
    assert model.intercept_ == 0.0
    assert model.predict(np.zeros((1, 3)))[0] == 0.0
    assert model.score(X, y) > 0.8


@by_solver
def test_units_of_the_target_do_not_matter(many, solver):
    """Seeded fits in metres and in shifted millimetres are the same fit."""
    X, y = many
    common = {"solver": solver, "random_state": 0}
    small = DPLinearRegression(target_bounds=(0, 200), **common).fit(X, y)
    bounds = (-5000.0, 195_000.0)
    large = DPLinearRegression(target_bounds=bounds, **common).fit(X, 1000 * y - 5000)
    assert np.allclose(large.coef_, 1000 * small.coef_, rtol=1e-6)
    assert large.intercept_ == pytest.approx(1000 * small.intercept_ - 5000, rel=1e-6)


@by_solver
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_targets_beyond_their_bounds_count_as_the_bounds(many, solver, fit_intercept):
    X, y = many
    common = {"solver": solver, "random_state": 0, "fit_intercept": fit_intercept}
    near = np.clip(y, 90, 110)
    wild = np.where(y > 110, 1e300, np.where(y < 90, -1e300, y))
    models = [
        DPLinearRegression(**common, target_bounds=(90, 110)).fit(X, t)
        for t in (near, wild)
    ]
    assert np.array_equal(models[0].coef_, models[1].coef_)
    assert models[0].intercept_ == models[1].intercept_


def test_extreme_bounds_and_norms_stay_finite():
    X = np.random.default_rng(0).normal(size=(60, 3))
    for bounds in ((-1e100, 1e100), (0.0, 1e-99), (1e99, 1e100)):
        for norm in (1e-100, 1e100):
            for dtype in (np.float64, np.float32):
                model = DPLinearRegression(target_bounds=bounds, data_norm=norm)
                model.fit(X.astype(dtype), X[:, 0])
                assert np.isfinite(model.coef_).all()
                assert np.isfinite(model.intercept_)
