"""Chapter 6 of Wang's thesis: what its noise costs in truth (docs/errata.md)."""

from __future__ import annotations

import math

import pytest

from skdp.privacy import epsilon_of
from skdp.privacy._events import GaussianEvent
from skdp.privacy._gaussian import gaussian_mu

EPSILON, DELTA = 0.5, 1e-3


def thesis_sigma(m, n, n_steps):
    """Deviation of the mean gradient's noise for G = 1, by the chapter's formula."""
    return math.sqrt(8 * n_steps * math.log(1 / DELTA)) / (m * n * EPSILON)


def true_epsilon(sigma, m, n, n_steps):
    # Under replace_one the mean gradient moves by 2 G / (m n).
    multiplier = sigma * m * n / 2
    return epsilon_of(GaussianEvent(multiplier, n_steps), DELTA)


def test_the_multiplier_of_the_thesis():
    m, n, n_steps = 100, 500, 100
    sigma = thesis_sigma(m, n, n_steps)
    assert sigma * m * n / math.sqrt(n_steps) == pytest.approx(14.87, abs=5e-3)
    assert true_epsilon(sigma, m, n, n_steps) == pytest.approx(0.2825, abs=5e-5)
    assert 2 / gaussian_mu(EPSILON, DELTA) == pytest.approx(9.22, abs=5e-3)


def test_the_gaussian_entry_of_table_6_1():
    m, n, n_steps = 100, 500, 100
    assert thesis_sigma(m, n, n_steps) == pytest.approx(2.97e-3, rel=2e-3)
    entry = math.sqrt(2 * n_steps) / (m * n * EPSILON)
    assert entry == pytest.approx(0.57e-3, rel=1e-2)
    assert true_epsilon(0.57e-3, m, n, n_steps) == pytest.approx(2.03, abs=5e-3)
