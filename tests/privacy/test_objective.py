"""Objective perturbation: the bound on its loss, always on the private side."""

from __future__ import annotations

import itertools
import math
from dataclasses import astuple, replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

from skdp.privacy import (
    Budget,
    ComposedEvent,
    GaussianEvent,
    ObjectiveEvent,
    PureEvent,
    calibrate,
    epsilon_of,
)
from skdp.privacy._accounting import fits
from skdp.privacy._gaussian import gaussian_delta, gaussian_deltas
from skdp.privacy._objective import ObjectiveLoss, dominating_mu

LOSSES = {
    "no shift": ObjectiveLoss(0.3, 0.0, 1, 0, None),
    "shift": ObjectiveLoss(0.3, 0.05, 1, 0, None),
    "large shift": ObjectiveLoss(0.2, 0.9, 1, 0, None),
    "corners": ObjectiveLoss(0.25, 0.02, 10, 0, None),
    "half corners": ObjectiveLoss(0.5, 0.02, 2, 30, None),
    "strong": ObjectiveLoss(2.5, 0.1, 1, 0, None),
    "curvature": ObjectiveLoss(0.3, math.log1p(0.1), 1, 0, 0.4),
    "strong curvature": ObjectiveLoss(0.5, math.log1p(0.5), 1, 0, 2.0),
    "slight curvature": ObjectiveLoss(0.3, math.log1p(0.01), 1, 0, 0.04),
    "hidden curvature": ObjectiveLoss(1.5, math.log1p(0.1), 1, 0, 0.4),
}
EPSILONS = [0.0, 0.01, 0.05, 0.3, 1.0, 3.0, 10.0]
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def curved(loss, normal, share):
    """Z' by brute force over r, for a record with a share of the largest mu."""
    r, mu = np.linspace(0, 1, 501)[:, None], share * loss.mu
    value = loss.curvature * r * (1 - r) + r * mu * normal
    return np.max(value + (r * mu) ** 2 / 2, axis=0)


def exact_survival(loss, t):
    """What the formulas of the two variables say, written down a second time."""
    if t < 0:
        return 1.0
    union = 1.0
    if t >= loss.shift:
        z = (t - loss.shift) / loss.mu
        union = loss.corners * ndtr(loss.mu / 2 - z)
        union += loss.half_corners * ndtr(loss.mu / 4 - 2 * z)
    if loss.curvature is not None:
        late = ndtr(loss.mu / 2 - t / loss.mu)
        union = min(union, late if t >= loss.curvature else 1.0)
    return min(1.0, float(union))


def true_delta(loss, epsilon, mu=0.0):
    """E[g(epsilon - Z)] by adaptive quadrature; Z has exactly this survival."""
    marks = [0.0, loss.shift, epsilon, loss.shift + loss.mu**2, epsilon + mu * 8]
    if loss.curvature is not None:
        marks.append(loss.curvature)
    end = max(epsilon, loss.shift) + 12 * loss.mu + loss.mu**2
    marks = sorted({min(m, end) for m in [*marks, max(0.0, epsilon - mu * 8), end]})

    def slope(t):  # of t -> g(epsilon - t)
        if mu == 0:
            return math.exp(epsilon - t) if t > epsilon else 0.0
        x = (epsilon - t) / mu
        return math.exp(epsilon - t) * ndtr(-mu / 2 - x)

    def integrand(t):
        return slope(t) * float(loss.survival(np.asarray(t)))

    pieces = [
        quad(integrand, a, b, epsrel=1e-8, epsabs=1e-60, limit=400)[0]
        for a, b in itertools.pairwise(marks)
    ]
    return float(gaussian_deltas(mu, np.asarray(epsilon))) + math.fsum(pieces)


@every_loss
def test_survival_is_that_of_the_formulas(loss):
    t = np.array([-1.0, 0.0, 1e-3, 0.03, 0.1, 0.3, 0.7, 1.0, 2.0])
    found = loss.survival(t)
    for one, value in zip(t, found, strict=True):
        assert math.isclose(value, exact_survival(loss, one), rel_tol=0.06)
    assert np.all(np.diff(found) <= 0)


@every_loss
def test_survival_bounds_the_frequencies(loss):
    rng, n = np.random.default_rng(0), 200_000
    t = np.array([0.0, 0.02, 0.1, 0.2, 0.4, 0.8, 1.5])
    # As often as not the corners are equal, or independent: both must be covered.
    for share in (0.0, 1.0):
        common = rng.standard_normal(n)
        z = np.zeros(n)
        for count, mu in ((loss.corners, loss.mu), (loss.half_corners, loss.mu / 2)):
            for _ in range(count):
                own = rng.standard_normal(n)
                normal = share * common + math.sqrt(1 - share**2) * own
                z = np.maximum(z, mu * normal + mu**2 / 2)
        above = np.mean(z + loss.shift > t[:, None], axis=1)
        found = replace(loss, curvature=None).survival(t)
        assert np.all(above <= found + 4 * np.sqrt(above / n) + 1e-4)
    if loss.curvature is not None:
        alone = replace(loss, shift=50.0).survival(t)
        assert np.all(loss.survival(t) <= alone)
        for share in (0.1, 0.5, 0.9, 1.0):
            some = curved(loss, rng.standard_normal(20_000), share)
            above = np.mean(some > t[:, None], axis=1)
            assert np.all(above <= alone + 4 * np.sqrt(above / 20_000))


@every_loss
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("mu", [0.0, 1e-3, 0.1, 1.0])
def test_delta_is_one_sided_and_tight(loss, epsilon, mu):
    exact, found = true_delta(loss, epsilon, mu), loss.delta(epsilon, mu)
    assert found >= exact * (1 - 1e-7) - 1e-55
    assert found <= exact * 1.03 + 1e-40


@pytest.mark.parametrize("mu", [0.0, 1e-4])
def test_curvature_costs_nothing_beyond_its_threshold(mu):
    loss = LOSSES["curvature"]
    for epsilon in (0.45, 0.7, 1.5):
        assert loss.delta(epsilon, mu) <= gaussian_delta(loss.mu, epsilon) * 1.001


CALIBRATED = {
    "one corner": {"log_determinant": 0.02},
    "corners": {"log_determinant": 0.01, "corners": 10, "half_corners": 45},
    "curvature": {"log_determinant": math.log1p(0.02), "curvature": 0.08},
}


@pytest.mark.parametrize("kind", CALIBRATED.values(), ids=CALIBRATED)
@pytest.mark.parametrize(
    "budget", [Budget(0.3, 1e-9), Budget(1.0, 1e-6), Budget(8.0, 1e-5)]
)
def test_calibration_is_one_sided(kind, budget):
    def declare(z):
        return ComposedEvent((ObjectiveEvent(z, **kind), GaussianEvent(50 * z)))

    def exact(z):
        return true_delta(ObjectiveEvent(z, **kind).loss, budget.epsilon, 1 / (50 * z))

    multiplier = calibrate(declare, budget)
    assert exact(multiplier) <= budget.delta < exact(multiplier / 1.002)
    assert fits(declare(multiplier), budget)
    recomputed = epsilon_of(declare(multiplier), budget.delta)
    assert 0.99 * budget.epsilon <= recomputed <= budget.epsilon


def test_pure_parts_are_added():
    objective = ComposedEvent((ObjectiveEvent(4.5, 0.02), GaussianEvent(100.0)))
    whole = ComposedEvent((objective, PureEvent(0.25)))
    assert epsilon_of(whole, 1e-6) <= epsilon_of(objective, 1e-6) + 0.25
    assert epsilon_of(objective, 0.0) == math.inf
    with pytest.raises(ValueError, match="No noise multiplier fits"):
        calibrate(lambda z: ObjectiveEvent(z, 0.5), Budget(0.3, 1e-6))


@every_loss
def test_dominating_mu_dominates_and_hardly_more(loss):
    mu = dominating_mu(loss)
    grid = np.concatenate(([0.0], np.geomspace(1e-4, 30 * max(1, mu), 400)))
    needed = np.array([loss.delta(epsilon) for epsilon in grid])
    allowed = np.array([gaussian_delta(mu, epsilon) for epsilon in grid])
    # `delta` is an upper sum itself for curved losses, a little above the grid's.
    slack = 1.01 if loss.curvature is not None else 1.0
    assert np.all(needed <= allowed * slack + 1e-290)
    less = np.array([gaussian_delta(mu / 1.003, epsilon) for epsilon in grid])
    assert np.any(needed > less)


def test_ends_of_the_dominating_mu():
    assert dominating_mu(ObjectiveLoss(1.0, 50.0, 1, 0, None)) == math.inf
    tiny = dominating_mu(ObjectiveLoss(1e-9, 0.0, 1, 0, None))
    assert 1e-9 <= tiny <= 1.01e-9


# Broken twins --------------------------------------------------------------------


class NoHalfCorners(ObjectiveLoss):
    """Broken twin: the corners of half the size are forgotten."""

    def survival(self, t):
        return ObjectiveLoss(*astuple(replace(self, half_corners=0))).survival(t)


class CurvedTooEarly(ObjectiveLoss):
    """Broken twin: r = 1 is taken for the maximum everywhere."""

    @property
    def _late_from(self):
        return 0.0


class NoZeroCorner(ObjectiveLoss):
    """Broken twin: the maximum is without its zero."""

    def delta(self, epsilon, mu=0.0):
        return gaussian_delta(math.hypot(self.mu, mu), max(0.0, epsilon - self.shift))


def is_above_the_truth(kind, loss):
    twin = kind(*astuple(loss))
    return all(
        twin.delta(epsilon, mu) >= true_delta(loss, epsilon, mu) * (1 - 1e-6)
        for epsilon in EPSILONS[:-1]
        for mu in (0.0, 0.1)
    )


@pytest.mark.parametrize(
    ("twin", "name"),
    [(CurvedTooEarly, "strong curvature"), (NoZeroCorner, "large shift")],
)
def test_broken_twins_are_caught(twin, name):
    loss = LOSSES[name]
    assert is_above_the_truth(ObjectiveLoss, loss)
    assert not is_above_the_truth(twin, loss)


def test_broken_twin_without_half_corners_is_caught():
    loss = LOSSES["half corners"]
    twin = NoHalfCorners(*astuple(loss))
    assert not math.isclose(
        float(twin.survival(np.asarray(0.3))), exact_survival(loss, 0.3), rel_tol=0.06
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"corners": 0},
        {"half_corners": -1},
        {"log_determinant": -0.1},
        {"curvature": -1.0},
        {"curvature": 0.1, "corners": 2},
        {"curvature": 0.1, "half_corners": 1},
        {"noise_multiplier": 0.0},
    ],
)
def test_fields_out_of_range_are_refused(fields):
    with pytest.raises(ValueError, match="must be"):
        ObjectiveEvent(**{"noise_multiplier": 1.0, "log_determinant": 0.1} | fields)
