"""Mean and deviation of targets, of histograms with and without noise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skdp.sums._histogram import ReleasedHistogram

KNOTS = np.linspace(-1.0, 1.0, 9)
RNG = np.random.default_rng(0)
TARGETS = {
    "normal": RNG.normal(0.1, 0.28, 4000),
    "narrow": RNG.normal(-0.4, 0.1, 4000),
    "at one place": np.full(4000, 0.7),
    "anywhere": RNG.uniform(-1, 1, 4000),
    "at both ends": RNG.choice([-1.0, 1.0], 4000),
    "mostly at one end": np.where(RNG.random(4000) < 0.8, -1, RNG.uniform(-1, 1, 4000)),
    "skewed": RNG.lognormal(-2, 1, 4000) - 1,
}


def shares_of(y):
    """Shares of targets at knots."""
    apart = np.abs(np.clip(y, -1, 1)[:, None] - KNOTS) / (KNOTS[1] - KNOTS[0])
    return np.maximum(0.0, 1 - apart).mean(axis=0)


@pytest.mark.parametrize("noise", [0.0, 0.001, 0.01])
@pytest.mark.parametrize("name", TARGETS)
def test_moments_are_those_of_the_targets(name, noise):
    y = np.clip(TARGETS[name], -1, 1)
    counts = shares_of(y) + noise * np.random.default_rng(1).normal(size=9)
    mean, deviation = ReleasedHistogram(counts, noise).moments()
    assert mean == pytest.approx(y.mean(), abs=0.06)
    assert 0.6 * max(y.std(), 0.02) < deviation < 1.6 * y.std() + 0.06


@pytest.mark.parametrize(
    ("name", "part"), [("normal", 0.85), ("narrow", 0.5), ("at one place", 0.5)]
)
def test_noise_far_from_the_targets_is_not_taken_for_targets(name, part):
    """The mean of the histogram itself has the larger error."""
    y, noise, rng = np.clip(TARGETS[name], -1, 1), 0.05, np.random.default_rng(2)
    found, plain = [], []
    for _ in range(200):
        counts = shares_of(y) + noise * rng.normal(size=9)
        histogram = ReleasedHistogram(counts, noise)
        found.append(histogram.moments()[0] - y.mean())
        plain.append(float(histogram.shares @ KNOTS) - y.mean())
    error, of_histogram = (math.sqrt(np.mean(np.square(e))) for e in (found, plain))
    assert error < part * of_histogram


@pytest.mark.parametrize("noise", [0.0, 0.01, 1.0, 1e6])
@pytest.mark.parametrize("released", [0.0, 1e12, -1e12, 1e300, -1e300])
def test_any_release_has_moments(released, noise):
    counts = np.full(9, released)
    counts[3] = -released
    with np.errstate(all="ignore"):  # as `solve` does
        mean, deviation = ReleasedHistogram(counts, noise).moments()
    assert -1 <= mean <= 1
    assert 0 < deviation <= 1
    assert math.isfinite(mean + deviation)
