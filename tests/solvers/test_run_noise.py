"""Noise in related columns, and their dependence, estimated from released gradients."""

from dataclasses import replace

import numpy as np
import pytest

from skdp.solvers._default_rules import Pace
from skdp.solvers._run_noise import NoiseOfRun, SeenStep, clipped, correlations
from skdp.solvers._target_base import Base

BASE = Base((0.0,), (0.0,), 1.0, 1.0, 0.5, (0.25,), (0.25,))
SPREADS, PARTS = np.array([0.5, 0.4, 0.1]), np.array([0, 1, 1])


def run_of(correlation, n_steps=600, noise=1e-3, rate=4.0, seed=0):
    """A descent on a quadratic loss with this correlation between parts 0 and 1."""
    related = np.eye(3)
    related[0, 1] = related[1, 0] = correlation
    roots = np.sqrt(SPREADS)
    curvature = 0.25 * roots[:, None] * related * roots
    rng, weights, seen = np.random.default_rng(seed), np.zeros((3, 1)), []
    for _ in range(n_steps):
        gradient = curvature @ (weights - 0.2) + noise * rng.normal(size=(3, 1))
        seen.append(SeenStep(weights, gradient, noise, 1.0))
        weights = weights - rate * gradient
    paces = [Pace(n_steps, rate, 0.0, 0.0)] * n_steps
    deviations = np.full(n_steps, noise)
    return NoiseOfRun(paces, deviations, BASE, 1000, seen=tuple(seen))


@pytest.mark.parametrize("correlation", [-0.7, 0.0, 0.7])
def test_the_correlation_of_two_columns_is_found(correlation):
    found = correlations(run_of(correlation), SPREADS, PARTS)
    assert abs(found[0, 1] - correlation) < 0.2  # about five deviations
    assert np.allclose(found, found.T)
    assert abs(found[1, 2]) < 1e-9  # directions of one column are uncorrelated
    # The twin takes gradients of independent columns.
    twin = correlations(run_of(0.0), SPREADS, PARTS)
    assert correlation == 0 or abs(twin[0, 1] - correlation) > 0.5


def test_noise_alone_is_taken_for_no_correlation():
    found = correlations(run_of(0.7, n_steps=5, noise=10.0, rate=1e-3), SPREADS, PARTS)
    assert np.abs(found - np.eye(3)).max() < 0.05


@pytest.mark.parametrize("noise", [1e-12, 1e-160, 1e300])
@pytest.mark.parametrize("n_steps", [1, 2])
def test_no_released_number_breaks_the_estimate(noise, n_steps):
    with np.errstate(all="ignore"):
        found = correlations(run_of(0.9, n_steps, noise), SPREADS, PARTS)
    assert np.isfinite(found).all()
    assert np.linalg.eigvalsh(found).min() > 0


def test_noise_in_related_directions_is_what_two_runs_make():
    """A plain run, and a preconditioned one that starts at the mean of its iterates."""
    related, alpha, unit = np.eye(3), 0.01, 1.5
    related[0, 1] = related[1, 0] = 0.7
    roots, rng = np.sqrt(SPREADS), np.random.default_rng(0)
    curvature = 0.25 * roots[:, None] * related * roots + alpha * np.eye(3)
    plain = Pace(30, 1.0, 0.7, 0.0)
    paces = (plain, replace(plain, preconditioning=0.9, n_parts=2))
    expected, start = None, np.zeros((20_000, 3))
    for pace, deviation, share in zip(paces, (2e-3, 1e-3), (1.0, 0.3), strict=True):
        run = NoiseOfRun(
            [pace] * pace.n_steps,
            np.full(pace.n_steps, deviation),
            *(BASE, 10**9, alpha),
            given=expected,
            share=share,
        )
        # The first run has no preconditioner, and the second divides by moments.
        speed = 1.0 if expected is None else 1 / (0.9 * 2 * unit * SPREADS + 0.1)
        weights, velocity, total = start, 0.0, 0.0
        for t in range(pace.n_steps):
            noise = deviation * rng.normal(size=start.shape)
            gradient = speed * (weights @ curvature + noise)
            velocity = pace.momentum * velocity - pace.step_size * gradient
            weights = weights + velocity
            total = total + (t >= 15) * weights
        start, expected = start + share * (total / 15 - start), run
    found = np.var(start, axis=0)
    # The standard error of a variance of 20,000 is 1 %.
    assert found == pytest.approx(expected.of_related(SPREADS, unit, related), rel=0.04)
    # Correlations and the preconditioner of the second run matter.
    alone = expected.of_noise(SPREADS, unit)[:, 0]
    assert np.abs(found / alone - 1).max() > 0.1


@pytest.mark.parametrize("preconditioning", [0.0, 0.9])
def test_the_learned_part_is_how_far_steps_without_noise_go(preconditioning):
    """The optimum is 1 in each direction, and the mean of the last half counts."""
    pace = Pace(30, 0.4, 0.8, 0.0, preconditioning, 3)
    run = NoiseOfRun([pace] * 30, np.ones(30), BASE, 1000)
    weights, velocity, total = np.zeros((3, 3))
    for t in range(30):
        step = pace.step_size * pace.speed(2.0 * SPREADS)
        velocity = pace.momentum * velocity - step * 0.25 * SPREADS * (weights - 1)
        weights = weights + velocity
        total += (t >= 15) * weights
    learned = run.learned(SPREADS, 2.0)[:, 0]
    assert learned == pytest.approx(total / 15, rel=1e-12)
    # A flow for as long as all steps goes farther in the flattest direction.
    assert learned[2] < -np.expm1(-run.flow * pace.speed(0.2) * 0.25 * 0.1)


def test_rows_count_as_clipped_only_where_they_are_longer_than_one():
    short, long = np.array([0.2, 0.3]), np.array([3.0, 1.0])
    for are_weighted in (False, True):
        spreads, unit = clipped(short, are_weighted)
        assert unit == 1.0
        assert np.array_equal(spreads, short)
    assert clipped(long)[1] == 4.0
    assert np.allclose(clipped(long)[0], [0.75, 0.25])
    assert clipped(long, are_weighted=True)[1] == 2.0
