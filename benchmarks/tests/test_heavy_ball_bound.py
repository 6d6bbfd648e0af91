"""Bound (25) on the heavy ball: what is published, and what its rate is."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks._papers._heavy_ball_bound import (
    fastest_momentum,
    least,
    printed_rate,
    right_rate,
)
from benchmarks.heavy_ball_bound import CURVATURES


@pytest.mark.parametrize(
    ("momentum", "low", "at"),
    [(0.0, -7.27, 100), (0.3, -7.80, 66), (0.7, -7.81, 43), (None, -9.22, 27)],
)
def test_published_curves_have_the_printed_rate(momentum, low, at):
    """Noise 1e-4, step 1: minima read from the released figure."""
    if momentum is None:
        momentum = fastest_momentum(1.0, CURVATURES, printed_rate)
    found = least(1.0, momentum, CURVATURES, 1e-4, printed_rate)
    assert found[0] == pytest.approx(low, abs=0.01)
    assert abs(found[1] - at) <= 1


@pytest.mark.parametrize(
    ("momentum", "low", "at"),
    [(0.0, -7.27, 100), (0.3, -7.92, 62), (0.7, -7.30, 56), (None, -8.93, 31)],
)
def test_with_the_rate_of_the_heavy_ball(momentum, low, at):
    if momentum is None:  # the one that the printed rate calls the fastest
        momentum = fastest_momentum(1.0, CURVATURES, printed_rate)
    found = least(1.0, momentum, CURVATURES, 1e-4, right_rate)
    assert found[0] == pytest.approx(low, abs=0.01)
    assert abs(found[1] - at) <= 1


def test_the_fastest_momentum_is_smaller_than_printed():
    momentum = fastest_momentum(1.0, CURVATURES, right_rate)
    assert momentum == pytest.approx((1 - np.sqrt(0.1)) ** 2, abs=1e-3)
    assert momentum < fastest_momentum(1.0, CURVATURES, printed_rate) - 0.04
    low, at = least(1.0, momentum, CURVATURES, 1e-4, right_rate)
    assert (low, at) == (pytest.approx(-9.31, abs=0.01), 27)


@pytest.mark.parametrize("momentum", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("curvature", [0.1, 0.5, 1.0])
def test_rates_are_those_of_the_recursions(curvature, momentum):
    """Of runs without noise; the printed one is Nesterov's."""
    step = 0.8
    for rate, looks_ahead in ((right_rate, False), (printed_rate, True)):
        weight, before = 1.0, 1.0
        sizes = []
        for _ in range(400):
            ahead = weight + momentum * (weight - before)
            at = ahead if looks_ahead else weight
            weight, before = ahead - step * curvature * at, weight
            sizes.append(np.hypot(weight, before))
        grown = (sizes[-1] / sizes[199]) ** (1 / 200)
        assert grown == pytest.approx(rate(step, momentum, curvature), abs=0.02)
