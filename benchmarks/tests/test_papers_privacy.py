"""True epsilons of what the papers release."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks._papers import _acceleration_tables as tables
from benchmarks._papers import _privacy as privacy
from benchmarks._papers._accelerated import dp_gd, dp_masg, dp_nag
from benchmarks._papers._thesis import Task


@pytest.mark.parametrize(
    ("n", "m", "epsilon", "true"),
    # Claimed for a thousand steps; notes on Proposition 4.3.1 of the thesis.
    [
        (10_000, 1, 0.5, 1.12),
        (10_000, 1, 1.0, 14.6),
        (10_000, 100, 1.0, 0.513),
        (60_000, 1, 1.0, 18998),
        (60_000, 10, 1.0, 3.18),
    ],
)
def test_the_thesis_subsets_cost_what_the_exact_law_says(n, m, epsilon, true):
    base = n * epsilon / (2 * m * 1000)
    scales = np.full(1000, 2 / base)
    assert privacy.laplace_epsilon(scales, 2.0, m / n) == pytest.approx(true, rel=5e-3)


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 3.0])
@pytest.mark.parametrize("rate", [1e-4, 0.1, 1.0])
def test_base_epsilon_inverts_the_law(epsilon, rate):
    base = privacy.base_epsilon(epsilon, rate)
    assert privacy.amplified(base, rate) == pytest.approx(epsilon, rel=1e-9)
    assert base >= epsilon * (1 - 1e-12)


def test_no_overflow_at_a_huge_base_epsilon():
    expected = 5000 + math.log(1e-4)
    assert privacy.amplified(5000.0, 1e-4) == pytest.approx(expected)


def test_the_released_code_costs_the_root_of_two():
    for name, expected in (("as printed", 1.0), ("released code", math.sqrt(2))):
        plan = dp_gd(100, tables.section_5_noise()[name], 5.1)
        true = privacy.laplace_epsilon(plan.scales, 40 / 100_000)
        assert true == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("method", [dp_nag, dp_masg])
@pytest.mark.parametrize("kind", ["as printed", "gaussian"])
def test_divided_noise_costs_what_equal_noise_costs(method, kind):
    noise = tables.section_5_noise()[kind]
    for divided in (False, True):
        plan = method(300, noise, 5.1, 0.02, divided=divided)
        if kind == "gaussian":
            true = privacy.gaussian_epsilon(plan.scales, tables._L2 / 1e5, 1e-6)
        else:
            true = privacy.laplace_epsilon(plan.scales, 40 / 1e5)
        assert true == pytest.approx(1.0, rel=1e-4)


def test_equal_scales_of_a_corrected_task_cost_what_is_claimed():
    facts = {"n": 10_000, "d": 10, "bound": 2.0, "mu": 0.02, "smoothness": 1.02}
    for m in (None, 1, 100):
        task = Task(**facts, n_steps=50, epsilon=0.8, batch=m, corrected=True)
        assert task.true_epsilon(task.equal_scales()) == pytest.approx(0.8)


def test_advanced_composition_is_solved():
    first = privacy.advanced_step(0.4, 1e-12, 500)
    whole = 500 * first * math.expm1(first)
    whole += math.sqrt(2 * 500 * math.log(1e12)) * first
    assert whole == pytest.approx(0.4)


def test_sampling_costs_less_than_all_records_and_more_noise_less():
    cheap = privacy.sampled_gaussian_epsilon(3.0, 0.01, 100, 1e-6)
    dear = privacy.sampled_gaussian_epsilon(2.0, 0.01, 100, 1e-6)
    whole = privacy.gaussian_epsilon(np.full(100, 2.0), 1.0, 1e-6)
    assert cheap < dear < whole


def test_spherical_noise_has_the_gamma_law_of_its_norm():
    rng = np.random.default_rng(0)
    norms = np.linalg.norm(privacy.spherical(rng, (20_000, 5), 3.0), axis=1)
    # Gamma of shape 5 and scale 3; eight standard errors.
    assert norms.mean() == pytest.approx(15, abs=8 * math.sqrt(45 / 20_000))
    assert norms.var() == pytest.approx(45, rel=0.15)
