"""Poisson, gamma and quantile regression: scikit-learn, bounds, books, units."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.linear_model import GammaRegressor, PoissonRegressor
from sklearn.metrics import d2_tweedie_score

from skdp import (
    DPGammaRegressor,
    DPPoissonRegressor,
    DPQuantileRegressor,
)
from skdp.losses import QuantileLoss
from skdp.losses._classification import heaviest_pair
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget
from tests.gradients import gradient_bound

N = 4000
BOUNDS = {
    DPPoissonRegressor: (0, 25),
    DPGammaRegressor: (0.05, 60),
    DPQuantileRegressor: (-1, 30),
}
ROUNDED = 1 + 1e-12
by_kind = pytest.mark.parametrize("kind", BOUNDS)
of_logs = pytest.mark.parametrize("kind", [DPPoissonRegressor, DPGammaRegressor])


def table(kind, n=N, seed=0):
    """Rows of norm at most 1, and amounts whose logarithm is linear."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, (n, 4))
    mean = np.exp(1 + X @ [2.0, -1.5, 0.5, 0.0])
    if kind is DPPoissonRegressor:
        return X, rng.poisson(mean).astype(float)
    return X, rng.gamma(2.0, mean / 2)


def model(kind, epsilon=1.0, **params):
    return kind(epsilon, **{"target_bounds": BOUNDS[kind], "random_state": 0} | params)


@of_logs
def test_without_noise_it_is_scikit_learns(kind):
    X, y = table(kind)
    theirs = {DPPoissonRegressor: PoissonRegressor, DPGammaRegressor: GammaRegressor}
    # Bounds and ratios that no record comes near.
    bounds = (0, 1e3) if kind is DPPoissonRegressor else (1e-3, 1e3)
    wide = {} if kind is DPPoissonRegressor else {"most": 1e9}
    other = theirs[kind](alpha=0, max_iter=1000, tol=1e-9).fit(X, y)
    ours = kind(math.inf, target_bounds=bounds, **wide).fit(X, y)
    assert np.abs(ours.coef_ - other.coef_).max() < 2e-3
    assert ours.intercept_ == pytest.approx(other.intercept_, abs=1e-3)
    power = 1 if kind is DPPoissonRegressor else 2
    assert ours.score(X, y) == d2_tweedie_score(y, ours.predict(X), power=power)


@of_logs
def test_the_penalty_is_in_units_of_scikit_learn(kind):
    """Up to the intercept, which is not penalised there: far stronger on a slope."""
    X, y = table(kind)
    theirs = {DPPoissonRegressor: PoissonRegressor, DPGammaRegressor: GammaRegressor}
    bounds = (0, 1e3) if kind is DPPoissonRegressor else (1e-3, 1e3)
    start = math.log(np.mean(bounds) if bounds[0] == 0 else 1.0)
    ours = kind(math.inf, target_bounds=bounds, alpha=0.3).fit(X, y)
    # The objective that the page states, at our weights and about them.
    mean = np.exp(X @ ours.coef_ + ours.intercept_)
    slope = mean - y if kind is DPPoissonRegressor else 1 - np.minimum(y / mean, 4.0)
    gradient = X.T @ slope / N + 0.3 * ours.coef_
    assert np.abs(gradient).max() < 1e-4
    of_intercept = slope.mean() + 0.3 * (ours.intercept_ - start)
    assert abs(of_intercept) < 1e-4
    other = theirs[kind](alpha=0.3, max_iter=1000).fit(X, y)
    assert np.linalg.norm(ours.coef_) < 3 * np.linalg.norm(other.coef_)


@by_kind
def test_delta_0_columns_and_users(kind):
    X, y = table(kind)
    pure = model(kind, 4.0, delta=0).fit(X, y)
    assert pure.privacy_.delta == 0
    declared = model(kind, 2.0, columns=[(-0.5, 0.5)] * 4).fit(X, y)
    assert np.isfinite(declared.predict(X)).all()
    assert len(declared.effects()) == 4
    ids = np.arange(N) // 2
    of_users = model(kind, 2.0, privacy_unit="user").fit(X, y, groups=ids)
    assert of_users.privacy_.n_samples == N // 2


@by_kind
def test_targets_beyond_their_bounds_are_those_at_the_bounds(kind):
    X, y = table(kind)
    far, near = y.copy(), y.copy()
    low, high = BOUNDS[kind]
    far[:3], near[:3] = [1e300, -1e300, -5.0], [high, low, low]
    one, other = model(kind).fit(X, far), model(kind).fit(X, near)
    assert np.array_equal(one.coef_, other.coef_)
    # The broken twin: a target that is not clipped.
    near[0] = low
    assert not np.array_equal(one.coef_, model(kind).fit(X, near).coef_)


@of_logs
def test_means_stay_within_the_bounds_of_the_fit(kind):
    X, y = table(kind)
    fitted = model(kind).fit(X, y)
    far = 1e6 * np.sign(fitted.coef_) * np.array([[1.0], [-1.0]])
    unclipped = model(kind, math.inf).fit(X, y)
    far_alone = 1e6 * np.sign(unclipped.coef_) * np.array([[1.0], [-1.0]])
    high, low = unclipped.predict(far_alone)
    assert high == pytest.approx(BOUNDS[kind][1])
    assert low > 0
    if kind is DPGammaRegressor:
        assert low == pytest.approx(BOUNDS[kind][0])
    before = fitted.predict(far)
    fitted.set_params(target_bounds=(0.5, 0.6))
    assert np.array_equal(fitted.predict(far), before)


def test_the_lowest_target_is_the_lowest_mean():
    given = model(DPPoissonRegressor, target_bounds=(5, 25))
    assert given._planned_objective(100, 2, Budget(1.0, 1e-6)).loss.lowest == 0.2


@of_logs
def test_without_an_intercept_it_stays_where_it_starts(kind):
    X, y = table(kind)
    fitted = model(kind, fit_intercept=False).fit(X, y)
    low, high = BOUNDS[kind]
    is_poisson = kind is DPPoissonRegressor
    start = (low + high) / 2 if is_poisson else math.sqrt(low * high)
    assert fitted.intercept_ == pytest.approx(math.log(start))


def bound_of(loss, adjacency, clip=math.inf):
    objective = LinearObjective(
        loss=loss, n_samples=9, n_features=2, data_norm=1.0, adjacency=adjacency
    )
    return gradient_bound(objective, clip).under(adjacency)


def largest_found(loss, adjacency, clip=math.inf, n=20_000):
    """Over pairs of rows with a constant and all residuals that can be."""
    rng = np.random.default_rng(0)
    below, above = (min(side, clip) for side in loss.sides)
    ends = np.array([-below, above, 0.0])
    r, s = rng.choice(ends, (2, n))
    x, z = rng.normal(size=(2, n, 2))
    z[: n // 2] = -x[: n // 2]
    x, z = (v / np.linalg.norm(v, axis=1)[:, None] for v in (x, z))
    g, k = (np.column_stack([v, np.ones(n)]) * q[:, None] for v, q in ((x, r), (z, s)))
    change = g if adjacency == "zero_out" else g - k
    return float(np.linalg.norm(change, axis=1).max())


@pytest.mark.parametrize("clip", [math.inf, 0.3])
@pytest.mark.parametrize("level", [0.5, 0.75, 0.9, 0.99])
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_unlike_sides_with_an_intercept(level, adjacency, clip):
    """Lemma 6: never exceeded, attained, and less than twice the larger side."""
    loss = QuantileLoss(level)
    stated = bound_of(loss, adjacency, clip)
    assert 0.99 * stated < largest_found(loss, adjacency, clip) <= ROUNDED * stated
    if adjacency == "replace_one" and level > 0.75 and math.isinf(clip):
        plain = 2 * math.sqrt(2) * max(loss.sides)
        assert stated < 0.8 * plain
        # Broken twin: the larger side alone, as if all residuals had one sign.
        assert largest_found(loss, adjacency) > max(loss.sides) * math.sqrt(2)


def test_sides_are_clipped_before_they_are_weighed():
    """Clipped to the smaller side, both are as long: no less than twice the clip."""
    loss = QuantileLoss(0.9)
    stated = bound_of(loss, "replace_one", 0.1)
    assert largest_found(loss, "replace_one", 0.1) == pytest.approx(stated)
    # Broken twin: the ratio of sides that are not clipped.
    twin = 0.1 * max(2.0, heaviest_pair(loss) * math.sqrt(2))
    assert largest_found(loss, "replace_one", 0.1) > 1.3 * twin
