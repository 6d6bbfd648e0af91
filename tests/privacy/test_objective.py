"""Objective perturbation: the bound on its loss, always on the private side."""

from __future__ import annotations

import itertools
import math
from dataclasses import astuple, replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtr

from skdp.privacy import (
    Budget,
    ComposedEvent,
    GaussianEvent,
    ObjectiveEvent,
    PureEvent,
    calibrate,
    epsilon_of,
)
from skdp.privacy.accounting._calibrate import fits
from skdp.privacy.accounting._gaussian import gaussian_delta, gaussian_deltas
from skdp.privacy.accounting._objective_perturbation import (
    ObjectiveLoss,
    dominating_mu,
)

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
    "exchange": ObjectiveLoss(0.3, math.log1p(0.1), 1, 2, 0.4),
    "strong exchange": ObjectiveLoss(0.4, math.log1p(0.5), 1, 2, 2.0),
    "slight exchange": ObjectiveLoss(1.5, math.log1p(0.01), 1, 2, 0.04),
    "outputs": ObjectiveLoss(0.5, 0.02, 1, 0, None, 5),
    "outputs exchanged": ObjectiveLoss(0.5, 0.02, 1, 2, None, 5),
    "strong outputs": ObjectiveLoss(3.0, 0.2, 1, 2, None, 3),
}
# Epsilons, and the mu of what is beside the release.
ASKED = [(0.0, 0.0), (0.0, 0.1), (0.05, 0.1), (0.3, 0.0), (1.0, 0.1), (10.0, 0.0)]
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def curved(loss, normal, share, other=1.0):
    """Z' by brute force over r, for a record with a share of the largest mu.

    In an exchange `other` is the share of the second record, whose row is opposite; its
    r stands at 0 or 1, since Z' is convex in it.
    """
    r, mu = np.linspace(0, 1, 501)[:, None], share * loss.mu
    second = [0.0]
    if loss.half_corners:
        mu, second = mu / 2, [0.0, other * loss.mu / 2]
    values = [(r * mu + m) * normal + (r * mu + m) ** 2 / 2 for m in second]
    return np.max(loss.curvature * r * (1 - r) + np.maximum.reduce(values), axis=0)


def excess_of_tails(loss):
    """Largest logarithm of P(Z' > t) over its bound; Z' grows with its one normal."""
    normal, found = np.linspace(-3, 12, 301), []
    for share in (0.0, 0.3, 1.0):
        for other in (0.0, 1.0):
            t = curved(loss, normal, share, other) * (1 - 1e-12)
            grows = np.diff(t, prepend=-1.0) > 0
            ratio = log_ndtr(-normal) - np.log(loss.survival(t))
            found.append(np.max(ratio[grows]))
    return max(found)


def terms(loss):
    """Weights and parameters of the union: every choice of a corner in every output."""
    if loss.outputs == 1:
        yield loss.corners, loss.mu
        yield loss.half_corners, loss.mu / 2
        return
    # A corner at 0 has probability 1/2 at most.
    corners = [(0.5, 0.0), (1.0, 1.0), *[(1.0, 0.25)] * loss.half_corners]
    for choice in itertools.product(corners, repeat=loss.outputs):
        share = sum(square for _, square in choice) / loss.outputs
        if share:
            yield math.prod(n for n, _ in choice), loss.mu * math.sqrt(share)


def exact_survival(loss, t):
    """What the formulas of the two variables say, written down a second time."""
    if t < 0:
        return 1.0
    union = 1.0
    if t >= loss.shift:
        union = sum(
            weight * ndtr(mu / 2 - (t - loss.shift) / mu) for weight, mu in terms(loss)
        )
    if loss.curvature is not None:
        r0 = np.linspace(0.5, 1, 5001)
        s0, s1 = loss.curvature * r0**2, loss.curvature * (1 - r0) ** 2
        late = ndtr(loss.mu / 2 - (t - s1) / loss.mu)
        if loss.half_corners:
            late += ndtr(loss.mu / 4 - 2 * (t - s1) / loss.mu)
            late += ndtr(loss.mu / 4 - 2 * (t - s0) / loss.mu)
        union = min(union, np.min(np.where(t >= s0, late, 1.0)))
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
    # The tangent of an exchange is not always the best one.
    worse = 1.35 if loss.curvature is not None and loss.half_corners else 1.06
    for one, value in zip(t, found, strict=True):
        exact = exact_survival(loss, one)
        assert 0.94 * exact <= value <= worse * exact
    t = np.geomspace(1e-3, 10, 4000)
    assert np.all(np.diff(loss.survival(t)) <= 0)


def test_a_curvature_far_beyond_the_tilt_is_charged_by_its_determinant():
    far = ObjectiveLoss(1e-9, math.log1p(0.1), 1, 2, 0.4)
    t = far.shift + 1e-9 * np.array([0.0, 1.0, 5.0, 30.0])
    assert np.array_equal(far.survival(t), replace(far, curvature=None).survival(t))
    assert dominating_mu(far) == dominating_mu(replace(far, curvature=None))


SHIFT = 1e3  # so large that the bound with a shift says nothing
KAPPAS = [0.05, 1.0, 4.0, 20.0, 100.0]  # in units of mu


@pytest.mark.parametrize("half_corners", [0, 2], ids=["one record", "exchange"])
@pytest.mark.parametrize("ratio", KAPPAS)
@pytest.mark.parametrize("mu", [1e-3, 5.0])
def test_tangents_bound_every_tail(mu, ratio, half_corners):
    loss = ObjectiveLoss(mu, SHIFT, 1, half_corners, ratio * mu)
    assert excess_of_tails(loss) <= 0


@every_loss
@pytest.mark.parametrize(("epsilon", "mu"), ASKED)
def test_delta_is_one_sided_and_tight(loss, epsilon, mu):
    exact, found = true_delta(loss, epsilon, mu), loss.delta(epsilon, mu)
    assert found >= exact * (1 - 1e-7) - 1e-55
    assert found <= exact * 1.03 + 1e-40


def largest_sums(mu, outputs, is_exchange, end, cells=4000):
    """P(sum over outputs of their maxima > t), rounded down, for opposite rows.

    Of an exchange also for orthogonal rows, whose two residuals are independent.
    """
    t = np.linspace(0, end, cells)
    found = []
    for parts, m in ((1, mu), (2, mu / 2))[: 2 if is_exchange else 1]:
        own = m / math.sqrt(outputs)
        survival = ndtr(own / 2 - t / own)
        single = -np.diff(np.concatenate(([1.0], survival[1:], [0.0])))
        total = np.ones(1)
        for _ in range(parts * outputs):
            total = np.convolve(total, single)
        found.append(1 - np.cumsum(total)[:cells])
    return t, np.max(found, axis=0)


def excess_of_sums(kind, mu, outputs, half_corners):
    t, truth = largest_sums(mu, outputs, half_corners > 0, 5 * mu + mu**2)
    bound = kind(mu, 0.0, 1, half_corners, None, outputs).survival(t)
    return float(np.max(np.where(truth > 1e-7, truth / bound, 0.0)))


@pytest.mark.parametrize("half_corners", [0, 2], ids=["one record", "exchange"])
@pytest.mark.parametrize(("outputs", "mu"), [(2, 4.0), (3, 0.01), (10, 1.0)])
def test_sums_over_outputs_stay_below_their_bound(mu, outputs, half_corners):
    assert 0.2 < excess_of_sums(ObjectiveLoss, mu, outputs, half_corners) <= 1


CALIBRATED = {
    "one corner": {"log_determinant": 0.02},
    "corners": {"log_determinant": 0.01, "corners": 10, "half_corners": 45},
    "curvature": {"log_determinant": math.log1p(0.02), "curvature": 0.08},
    "outputs": {"log_determinant": 0.01, "half_corners": 2, "outputs": 4},
    "exchange": {
        "log_determinant": math.log1p(0.02),
        "half_corners": 2,
        "curvature": 0.08,
    },
}


@pytest.mark.parametrize("kind", CALIBRATED.values(), ids=CALIBRATED)
@pytest.mark.parametrize("budget", [Budget(0.3, 1e-9), Budget(8.0, 1e-5)])
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
    added = epsilon_of(whole, 1e-6) - epsilon_of(objective, 1e-6)
    assert added == pytest.approx(0.25)
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


# Broken twins --------------------------------------------------------------------


class CurvedTooEarly(ObjectiveLoss):
    """Broken twin: the curvature of r = 1 is free at every t."""

    @property
    def _late_from(self):
        return 0.0


class OneGaussian(ObjectiveLoss):
    """Broken twin: of several outputs all are at their corners, or none."""

    @property
    def _terms(self):
        return ((1.0, self.mu),)


class NeverZero(ObjectiveLoss):
    """Broken twin: an output at 0 is taken for a rare one."""

    @property
    def _terms(self):
        counts = super()._terms
        return tuple((min(n, 1.0), m) for n, m in counts)


@pytest.mark.parametrize(
    ("twin", "half_corners"), [(OneGaussian, 0), (OneGaussian, 2), (NeverZero, 0)]
)
def test_broken_twins_of_several_outputs_are_caught(twin, half_corners):
    assert excess_of_sums(twin, 0.5, 10, half_corners) > 1.03


class NoZeroCorner(ObjectiveLoss):
    """Broken twin: the maximum is without its zero."""

    def delta(self, epsilon, mu=0.0):
        return gaussian_delta(math.hypot(self.mu, mu), max(0.0, epsilon - self.shift))


def is_above_the_truth(kind, loss):
    twin = kind(*astuple(loss))
    return all(
        twin.delta(epsilon, mu) >= true_delta(loss, epsilon, mu) * (1 - 1e-6)
        for epsilon in (0.0, 0.05, 0.3, 1.0)
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


@pytest.mark.parametrize(
    "fields",
    [
        {"corners": 0},
        {"half_corners": -1},
        {"log_determinant": -0.1},
        {"curvature": -1.0},
        {"curvature": 0.1, "corners": 2},
        {"curvature": 0.1, "half_corners": 1},
        {"curvature": 0.1, "half_corners": 3},
        {"outputs": 0},
        {"outputs": 501},
        {"outputs": 2, "curvature": 0.1},
        {"outputs": 2, "corners": 2},
        {"outputs": 2, "half_corners": 1},
        {"noise_multiplier": 0.0},
    ],
)
def test_fields_out_of_range_are_refused(fields):
    with pytest.raises(ValueError, match="must be"):
        ObjectiveEvent(**{"noise_multiplier": 1.0, "log_determinant": 0.1} | fields)
