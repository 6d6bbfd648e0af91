"""DPPCA: its sums, both sensitivities, accuracy, what comes out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.decomposition import PCA

from skdp import DPPCA
from skdp.sums._moments import MomentSums, MomentWeights
from skdp.tables._memory import MemorySource
from tests.preprocessing.steps import ADJACENCIES, make_rows
from tests.spies import SpyNoise

by_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES)
by_weight = pytest.mark.parametrize("t", [0.0, 0.2, 0.5, 1.0])


def contribution(x, t, data_norm=1.0):
    """The definition, for one record."""
    u = x / max(data_norm, np.linalg.norm(x))
    outer = np.outer(u, u)
    parts = [np.diag(outer), math.sqrt(2) * outer[np.triu_indices(len(u), 1)]]
    if t > 0:
        parts += [math.sqrt(2) * t * u]
    return np.concatenate(parts)


def sums_of(X, t, data_norm=1.0):
    return MomentSums(MomentWeights(t, 0.0), *X.shape, data_norm)


def query_of(X, t, data_norm=1.0, present=None):
    source = MemorySource(X, np.zeros(len(X)), present)
    with np.errstate(all="ignore"):
        return sums_of(X, t, data_norm).total(source, None)


@by_weight
def test_definition_size_null_records_and_the_way_back(t):
    X = make_rows(300, 4)
    expected = sum(contribution(x, t, 0.8) for x in X)
    found = query_of(X, t, 0.8)
    # Up to the grid of the rows; rows that are clipped are rounded down.
    assert np.allclose(found, expected, rtol=0, atol=300 * 2 * 1.5 * 2.0**-21)
    sums = sums_of(X, t)
    assert found.shape == sums.shape
    again = sums.read(found)
    above = math.sqrt(2) * again.rows_rows[np.triu_indices(4, 1)]
    parts = [np.diag(again.rows_rows), above, math.sqrt(2) * t * again.rows]
    assert np.allclose(np.concatenate(parts[: 2 + (t > 0)]), found)
    assert np.array_equal(again.rows_targets, np.zeros(4))
    present = np.random.default_rng(3).random(300) < 0.6
    kept = query_of(X[present], t)
    X[~present] *= 1e300
    assert np.array_equal(query_of(X, t, present=present), kept)


def farthest(adjacency, t, d=3):
    """Largest difference found by climbing from random records."""
    rng = np.random.default_rng(0)

    def negative(point):
        x, z = point[:d], point[d:]
        change = contribution(x, t)
        if adjacency == "replace_one":
            change = change - contribution(z, t)
        return -float(np.linalg.norm(change))

    largest = 0.0
    for _ in range(24):
        point = rng.choice([0.3, 1.0, 3.0]) * rng.normal(size=2 * d)
        found = minimize(negative, point, method="BFGS", options={"maxiter": 200})
        largest = max(largest, -found.fun)
    return largest


@by_adjacency
@by_weight
def test_search_never_exceeds_the_sensitivity_and_attains_it(adjacency, t):
    stated = MomentWeights(t, 0.0).bound().under(adjacency)
    assert 0.999 * stated <= farthest(adjacency, t) <= stated


TWINS = {
    "half of replace_one under zero_out": (
        "zero_out",
        lambda w: w.bound().replace_one / 2,
    ),
    "zero_out used under replace_one": (
        "replace_one",
        lambda w: w.bound().zero_out,
    ),
    "second moments alone": ("zero_out", lambda w: 1.0),
    "mean counted once": ("zero_out", lambda w: math.sqrt(1 + w.intercept**2)),
    "angle forgotten": (
        "replace_one",
        lambda w: math.sqrt(2 + 4 * w.intercept**2),
    ),
}


@pytest.mark.parametrize("twin", TWINS)
def test_broken_sensitivities_are_found_out(twin):
    adjacency, stated = TWINS[twin]
    assert farthest(adjacency, 0.5) > 1.01 * stated(MomentWeights(0.5, 0.0))


@by_adjacency
@pytest.mark.parametrize("data_norm", [0.1, 100.0])
def test_neighbours_in_other_units_never_exceed_the_sensitivity(adjacency, data_norm):
    stated = MomentWeights(0.5, 0.0).bound().under(adjacency)
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(600):
        X = data_norm * rng.normal(size=(5, 2)) * rng.choice([1.0, 1e200])
        Z, present = X.copy(), None
        if adjacency == "zero_out":
            present = np.array([False, True, True, True, True])
        else:
            Z[0] = data_norm * 3 * rng.normal(size=2)
        change = query_of(X, 0.5, data_norm) - query_of(Z, 0.5, data_norm, present)
        shares.append(np.linalg.norm(change) / stated)
    assert 0.95 < max(shares) <= 1 + 1e-9


def same_axes(a, b):
    """Absolute cosines between the rows of two sets of components."""
    return np.abs(np.sum(a * b, axis=1))


def long_rows(n=400, d=5):
    scales = np.array([0.5, 0.3, 0.2, 0.1, 0.05])[:d]
    basis = np.linalg.qr(make_rows(d, d, seed=9))[0]
    return 0.1 + scales * make_rows(n, d) @ basis


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_infinite_epsilon_is_scikit_learn(dtype):
    X = (40 * long_rows()).astype(dtype)
    own, theirs = DPPCA(n_components=3, epsilon=math.inf).fit(X), PCA(3).fit(X)
    assert np.allclose(own.mean_, theirs.mean_, rtol=1e-5)
    assert np.allclose(own.explained_variance_, theirs.explained_variance_, rtol=1e-5)
    assert np.allclose(same_axes(own.components_, theirs.components_), 1, atol=1e-6)
    out, expected = own.transform(X), theirs.transform(X)
    assert np.allclose(np.abs(out), np.abs(expected), rtol=1e-3, atol=1e-4)
    assert np.allclose(
        own.inverse_transform(out),
        theirs.inverse_transform(expected),
        rtol=1e-3,
        atol=1e-4,
    )
    for values in (own.components_, own.mean_, own.explained_variance_, out):
        assert values.dtype == dtype


@by_adjacency
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_much_budget_comes_close_to_scikit_learn(adjacency, delta):
    X = 0.1 * long_rows(20_000)  # nearly no row is clipped
    own = DPPCA(
        n_components=3, epsilon=1e5, delta=delta, adjacency=adjacency, data_norm=0.2
    ).fit(X)
    clipped = X * np.minimum(1, 0.2 / np.linalg.norm(X, axis=1))[:, None]
    theirs = PCA(3).fit(clipped)
    assert np.allclose(own.mean_, theirs.mean_, atol=1e-4)
    assert np.allclose(own.explained_variance_, theirs.explained_variance_, rtol=0.02)
    assert (same_axes(own.components_, theirs.components_) > 0.999).all()


def test_without_centering():
    X = long_rows()
    X /= np.linalg.norm(X, axis=1).max()
    own = DPPCA(center=False, epsilon=1e6).fit(X)
    values = np.linalg.eigvalsh(X.T @ X / 400)[::-1]
    assert np.allclose(own.explained_variance_, values, rtol=0.01, atol=1e-5)
    assert np.array_equal(own.mean_, np.zeros(5))


@by_adjacency
def test_components_are_orthonormal_with_fixed_signs(adjacency):
    X = long_rows()
    for seed in range(5):
        step = DPPCA(adjacency=adjacency, random_state=seed).fit(X)
        assert np.allclose(step.components_ @ step.components_.T, np.eye(5), atol=1e-9)
        largest = np.argmax(np.abs(step.components_), axis=1)
        assert (step.components_[np.arange(5), largest] > 0).all()
        assert (np.diff(step.explained_variance_) <= 0).all()
        assert (step.explained_variance_ >= 0).all()
        assert np.linalg.norm(step.mean_) <= 1 + 1e-12


@pytest.mark.parametrize("data_norm", [1e-100, 1e-3, 1.0, 1e100])
@pytest.mark.parametrize("epsilon", [1e-6, 1.0, 1e8])
def test_rows_come_out_within_the_norm(data_norm, epsilon):
    X = np.vstack([data_norm * make_rows(), np.full((1, 3), 1e308)])
    step = DPPCA(n_components=2, epsilon=epsilon, data_norm=data_norm).fit(X)
    norms = np.linalg.norm(step.transform(X) / data_norm, axis=1)
    assert norms.max() <= 1 + 1e-9
    assert norms.max() > 0.1
    for values in (step.components_, step.mean_, step.explained_variance_):
        assert np.isfinite(values).all()


def test_units_scale_out():
    X = long_rows()
    small = DPPCA(random_state=0).fit(X)
    large = DPPCA(random_state=0, data_norm=256.0).fit(256 * X)
    assert np.array_equal(small.components_, large.components_)
    assert np.allclose(256 * small.mean_, large.mean_)
    assert np.allclose(256**2 * small.explained_variance_, large.explained_variance_)


def test_a_mean_that_noise_explains_is_taken_for_zero():
    X = 0.01 * make_rows(100, 3)
    norms = [
        np.linalg.norm(DPPCA(epsilon=0.1, random_state=seed).fit(X).mean_)
        for seed in range(50)
    ]
    assert np.mean(np.array(norms) == 0) > 0.3


class Forced(SpyNoise):
    """Releases that no data explain."""

    value = 0.0

    def gaussian(self, query, *, sensitivity, noise_multiplier, fine=False):
        return np.full(query.shape, self.value)


@pytest.mark.parametrize("value", [0.0, 1e15, -1e15, 1e-300])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("n", [1, 200])
def test_any_released_numbers_give_components(value, center, n, monkeypatch):
    monkeypatch.setattr(Forced, "value", value)
    monkeypatch.setattr("skdp.privacy.release._door.NoiseSource", Forced)
    step = DPPCA(center=center).fit(make_rows(n))
    assert np.allclose(step.components_ @ step.components_.T, np.eye(3), atol=1e-9)
    assert np.isfinite(step.transform(make_rows())).all()
    assert (step.explained_variance_ >= 0).all()


def test_too_many_features_are_refused():
    with pytest.raises(ValueError, match=r"at most 3000 features\. Got 3001"):
        DPPCA(n_components=2).fit(np.zeros((5, 3001)))
