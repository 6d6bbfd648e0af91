"""Division of a budget over steps: the bound, its optimum, the papers' numbers."""

from __future__ import annotations

import numpy as np
import pytest

from skdp.solvers._accelerated import (
    best_step_count,
    bound_weights,
    divide_noise,
    error_bounds,
    multistage_steps,
    noise_levels,
)

by_kind = pytest.mark.parametrize("is_pure", [False, True])


def single_stage(n_steps, step_size):
    return np.full(n_steps, step_size), np.ones(n_steps, dtype=int)


def some_course(name):
    if name == "single":
        return single_stage(40, 0.15)
    return multistage_steps(
        60, step_size=0.2, smoothness=5.0, strong_convexity=0.5, first_stage=7
    )


by_course = pytest.mark.parametrize("course", ["single", "stages"])
FACTS = {"smoothness": 5.0, "strong_convexity": 0.5}


@by_course
@by_kind
@pytest.mark.parametrize("is_even", [False, True])
def test_bounds_in_linear_time_are_those_of_the_definition(course, is_pure, is_even):
    step_sizes, stages = some_course(course)
    bounds = error_bounds(
        step_sizes,
        stages,
        **FACTS,
        first_excess=3.0,
        variance=0.7,
        is_pure=is_pure,
        is_even=is_even,
    )
    for count in range(1, len(stages) + 1):
        start, weights = bound_weights(step_sizes[:count], stages[:count], **FACTS)
        divided = np.ones(count) if is_even else weights
        noise = divide_noise(divided, is_pure=is_pure)
        direct = 3.0 * start + 0.7 * np.sum(weights * noise**2)
        assert bounds[count - 1] == pytest.approx(direct, rel=1e-12)
    assert best_step_count(bounds) == 1 + np.argmin(bounds)


@by_kind
def test_no_other_division_has_a_smaller_bound(is_pure):
    """Against 4000 others of the same cost; and the stated minimum is attained."""
    weights = bound_weights(*some_course("stages"), **FACTS)[1]
    k = 1 if is_pure else 2
    power = k / (k + 2)
    noise = divide_noise(weights, is_pure=is_pure)
    assert np.sum(noise**-k) == pytest.approx(1.0, rel=1e-12)
    least = np.sum(weights * noise**2)
    assert least == pytest.approx(np.sum(weights**power) ** (1 / power), rel=1e-12)
    rng = np.random.default_rng(0)
    spread = 10 ** rng.uniform(-4, 0, size=(4000, 1))
    others = noise * np.exp(spread * rng.normal(size=(4000, len(weights))))
    others *= np.sum(others**-k, axis=1, keepdims=True) ** (1 / k)
    found = np.sum(weights * others**2, axis=1)
    assert found.min() >= least * (1 - 1e-12)
    assert found.min() <= 1.001 * least  # the search comes near
    # A twin with the other law's exponent is worse.
    twin = divide_noise(weights, is_pure=not is_pure)
    twin *= np.sum(twin**-k) ** (1 / k)
    assert np.sum(weights * twin**2) > 1.001 * least


@by_course
@by_kind
def test_levels_are_few_and_cost_next_to_nothing(course, is_pure):
    weights = bound_weights(*some_course(course), **FACTS)[1]
    levels = noise_levels(weights, is_pure=is_pure)
    noise = np.repeat(*zip(*levels, strict=True))
    assert len(noise) == len(weights)
    assert np.sum(noise ** (-1 if is_pure else -2)) == pytest.approx(1.0, rel=1e-12)
    best = divide_noise(weights, is_pure=is_pure)
    assert np.sum(weights * noise**2) <= 1.01 * np.sum(weights * best**2)
    assert len(levels) < 70
    assert noise_levels(np.ones(9), is_pure=False) == [(3.0, 9)]
