"""Certified minimisers: the bound is met and means what it says."""

from __future__ import annotations

import warnings

import mpmath
import numpy as np
import pytest
from scipy.sparse import csr_array

from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.solvers._objective_perturbation import CertifiedProblem, certified_minimum
from skdp.sums._floating import GradientSum
from skdp.tables._memory import MemorySource
from tests.problems import LOSSES

LOSS = LogisticLoss()
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def make(loss=LOSS, n=300, d=5, strength=1.0, linear_norm=0.0, **changes):
    facts = {"data_norm": 1.0, "adjacency": "zero_out"} | changes
    objective = LinearObjective(loss=loss, n_samples=n, n_features=d, **facts)
    return CertifiedProblem(objective, strength, linear_norm)


def data(certified, seed=0):
    rng = np.random.default_rng(seed)
    objective, loss = certified.objective, certified.objective.loss
    X = objective.data_norm * rng.normal(
        size=(objective.n_samples, objective.n_features)
    )
    y = rng.integers(0, max(2, loss.n_outputs), objective.n_samples).astype(float)
    return X, y


def linear_of(certified, seed=1):
    shape = (certified.objective.n_columns, certified.objective.loss.n_outputs)
    term = np.random.default_rng(seed).normal(size=shape)
    return certified.linear_norm * term / np.linalg.norm(term)


def left_over(source, certified, linear, weights):
    """Norm of the gradient at the weights, computed again."""
    gradient = GradientSum(source, certified.objective)(weights)
    return float(np.linalg.norm(gradient + certified.strength * weights + linear))


def check(source, certified, linear=None, tolerance=None, **options):
    """Minimise, with warnings as errors, and check the certificate."""
    if linear is None:
        linear = linear_of(certified)
    if tolerance is None:
        tolerance = max(1e-9, certified.rounding_error(source.facts.largest_block))
    with np.errstate(all="ignore"):
        weights = certified_minimum(source, certified, linear, tolerance, **options)
        assert weights is not None
        assert left_over(source, certified, linear, weights) <= tolerance * (1 + 1e-9)
    return weights


@every_loss
@pytest.mark.parametrize(("strength", "linear_norm"), [(1e-2, 30.0), (1e3, 0.0)])
def test_the_tolerance_is_met(loss, strength, linear_norm):
    certified = make(loss, strength=strength, linear_norm=linear_norm)
    check(MemorySource(*data(certified)), certified)


def test_sorted_labels_of_many_rows():
    """The preconditioner sees every k-th record, not the first ones."""
    certified = make(n=45_000, d=3, strength=0.5)
    X, y = data(certified)
    order = np.argsort(y)
    check(MemorySource(X[order], y[order]), certified)


@pytest.mark.parametrize(("d", "store"), [(1600, np.asarray), (300, csr_array)])
def test_wide_data_with_a_diagonal_preconditioner(d, store):
    certified = make(n=40, d=d, strength=0.1, linear_norm=1.0)
    X, y = data(certified)
    check(MemorySource(store(X), y), certified)


@every_loss
def test_accelerated_steps_alone_meet_the_tolerance(loss):
    certified = make(loss, n=40, strength=0.5, linear_norm=2.0)
    source = MemorySource(*data(certified))
    tolerance = 1e-7
    quick = check(source, certified, tolerance=tolerance)
    slow = check(source, certified, tolerance=tolerance, quick_passes=0)
    assert np.allclose(quick, slow, atol=2 * tolerance / 0.5)


def test_an_impossible_tolerance_is_none_and_no_exception():
    certified = make(n=20, d=2, strength=50.0)
    source = MemorySource(*data(certified))
    linear = np.full((3, 1), 0.1)  # no bound on it was declared
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert certified_minimum(source, certified, linear, 1e-300, 30) is None
        # Weights beyond twice the stated bound are no minimum either.
        far = np.full((3, 1), 1e6)
        assert certified_minimum(source, certified, far, 1e-3, 30) is None


@pytest.mark.parametrize("linear_norm", [0.0, 1.0, 1e3])
@pytest.mark.parametrize("strength", [1e-3, 1.0])
@every_loss
def test_farthest_bounds_the_minimiser(loss, strength, linear_norm):
    certified = make(loss, n=5, strength=strength, linear_norm=linear_norm)
    X, y = data(certified)
    weights = check(MemorySource(X, y), certified)
    assert np.linalg.norm(weights) <= certified.farthest
    if linear_norm == 1e3:  # and is not far off where the linear term rules
        assert np.linalg.norm(weights) > 0.4 * certified.farthest
    assert certified.smoothness >= strength


def precise_gradient(X, y, weights, certified, linear):
    """The gradient of a logistic problem in 60 digits."""
    objective = certified.objective
    total = [certified.strength * mpmath.mpf(w) for w in weights[:, 0]]
    total = [t + mpmath.mpf(float(b)) for t, b in zip(total, linear[:, 0], strict=True)]
    for row, label in zip(X, y, strict=True):
        row = [mpmath.mpf(float(x)) for x in row]
        norm = mpmath.sqrt(sum(x * x for x in row))
        factor = min(mpmath.mpf(1), objective.data_norm / norm)
        row = [factor * x for x in row] + [mpmath.mpf(objective.data_norm)]
        raw = sum(x * mpmath.mpf(w) for x, w in zip(row, weights[:, 0], strict=True))
        residual = 1 / (1 + mpmath.exp(-raw)) - mpmath.mpf(float(label))
        total = [t + x * residual for t, x in zip(total, row, strict=True)]
    return total


def distance(found, exact):
    pairs = zip(found[:, 0], exact, strict=True)
    return mpmath.norm([mpmath.mpf(float(f)) - e for f, e in pairs])


@pytest.mark.parametrize("data_norm", [1.0, 12.0])
@pytest.mark.parametrize("size", [0.0, 1.0, 5.0])
def test_rounding_error_bounds_the_error_of_a_gradient(size, data_norm):
    certified = make(
        n=200, d=3, linear_norm=2.0, strength=data_norm**2, data_norm=data_norm
    )
    X, y = data(certified)
    weights = size / data_norm * linear_of(certified, 3) / 2
    linear = linear_of(certified)
    source = MemorySource(X, y)
    assert np.linalg.norm(weights) <= 2 * certified.farthest
    found = GradientSum(source, certified.objective)(weights)
    found = found + certified.strength * weights + linear
    with mpmath.workdps(60):
        exact = precise_gradient(X, y, weights, certified, linear)
        bound = certified.rounding_error(source.facts.largest_block)
        assert 0 < distance(found, exact) <= bound
        # Broken twin: in single precision.
        assert distance(found.astype(np.float32), exact) > bound
