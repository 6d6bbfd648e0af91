"""Errors of the literature that no solver's test holds (docs/notebook/errata.md)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skdp.privacy import LaplaceEvent, epsilon_of
from skdp.solvers._accelerated import (
    best_step_count,
    bound_weights,
    error_bounds,
    multistage_steps,
)

# Section 5 of Kuru et al. (2022): 1e5 records, Laplace noise, epsilon = 1.
PAPER = {"smoothness": 5.1001, "strong_convexity": 0.02}
PER_STEP = 20 * (40 / 1e5) ** 2  # d (S_1 / (n epsilon))^2


def single_stage(n_steps, step_size):
    return np.full(n_steps, step_size), np.ones(n_steps, dtype=int)


@pytest.mark.parametrize(
    ("variance_per_scale", "expected"),
    [
        (2, {("nag", 1.0): 121, ("nag", 0.1): 349, ("stages", 1.0): 89}),
        # What the authors' code computes: a scale taken for a standard deviation.
        (1, {("nag", 1.0): 136, ("nag", 0.1): 396, ("stages", 1.0): 89}),
    ],
)
def test_step_counts_of_the_paper(variance_per_scale, expected):
    """The multistage method stops at the end of its first stage, step 89."""
    expected = expected | {("stages", 0.1): 89}
    for (name, c), count in expected.items():
        step_size = c / PAPER["smoothness"]
        course = single_stage(1000, step_size)
        if name == "stages":
            course = multistage_steps(1000, step_size=step_size, **PAPER)
        bounds = error_bounds(
            *course,
            **PAPER,
            first_excess=10.0,
            variance=variance_per_scale * PER_STEP,
            is_pure=True,
        )
        assert best_step_count(bounds) == count


def test_the_theorem_as_printed_fails_without_its_factor_2():
    """Theorem 4.1 (28) speaks of the excess; it holds for the Lyapunov function."""
    step_sizes, stages = single_stage(60, 1.0)
    facts = {"smoothness": 1.0, "strong_convexity": 0.01}
    second, x, before = [], 1.0, 1.0
    beta = (1 - 0.1) / (1 + 0.1)
    for _ in range(60):
        x, before = (1 - 0.01) * (x + beta * (x - before)), x
        second.append(x * x)
    ratios = []
    for count in range(1, 61):
        start, _ = bound_weights(step_sizes[:count], stages[:count], **facts)
        ratios.append(second[count - 1] / start)
    assert max(ratios) <= 1.0
    assert 2 * max(ratios) == pytest.approx(1.40, abs=0.01)


def test_the_subsampling_lemma_of_the_thesis_fails_out_of_its_range():
    """Laplace noise attains the exact law of m records without replacement."""

    def true_epsilon(n, m, steps, claimed=1.0):
        base = n * claimed / (2 * m * steps)
        return steps * math.log1p(m / n * math.expm1(base))

    assert true_epsilon(10**4, 1, 1000) > 14
    assert true_epsilon(6 * 10**4, 1, 1000) > 10_000
    assert true_epsilon(10**4, 100, 1000) < 1  # its condition holds, and it is loose


def test_independent_laplace_noise_at_the_thesis_s_delta():
    """Scale 2 for an L2 sensitivity of 1: a claim of 0.5 costs more with 104 columns.

    The worst difference has k equal coordinates; some k give a lower bound.
    """

    def epsilon(d, delta):
        several = {1, d, *(2**i for i in range(d.bit_length() - 1))}
        events = (LaplaceEvent(2.0 * math.sqrt(k), k) for k in several)
        return max(epsilon_of(event, delta) for event in events)

    assert math.sqrt(104) / 2.0 == pytest.approx(5.10, abs=0.01)  # delta = 0
    assert epsilon(104, 1e-3) == pytest.approx(1.33, abs=0.01)
    assert epsilon(1, 1e-3) < 0.5


def test_the_noise_aware_step_does_not_follow_the_unit_of_the_features():
    """Rows twice as long need a quarter of the step; (4.21) gives half of it."""

    def step(bound):
        variance = (2 * bound) ** 2  # the noise grows with the bound of the rows
        return 0.25 / math.sqrt(variance)

    assert step(2.0) / step(1.0) == pytest.approx(1 / 2)
