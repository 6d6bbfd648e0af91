"""What the thesis says of DP-SRM, and what is so (docs/notebook/errata.md).

[T] Wang's thesis (2021), chapter 4. Deviations are in units of S / b where one record
adds at most S to the sum over a batch of b; delta is 1e-5 throughout.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from skdp.privacy import PoissonGaussianEvent, epsilon_of

DELTA = 1e-5
LOG = math.log(1 / DELTA)
BETAS = np.linspace(0.005, 0.995, 199)


def order_of(epsilon, beta):
    """The order alpha that Theorem 4.5.1 fixes."""
    return LOG / ((1 - beta) * epsilon) + 1


def normalised(n, batch, steps, epsilon, beta, factor):
    """The theorem's noise in units of the sensitivity of an exchange, squared."""
    alpha = order_of(epsilon, beta)
    return factor * batch**2 * steps * alpha / (beta * n**2 * epsilon)


def is_covered(n, batch, steps, epsilon, factor=3.5):
    """Whether some beta meets both side conditions of Theorem 4.5.1."""
    for beta in BETAS:
        alpha = order_of(epsilon, beta)
        square = normalised(n, batch, steps, epsilon, beta, factor)
        inner = batch / n * alpha * (1 + square)
        if square >= 0.7 and inner < 1:
            if alpha - 1 <= -2 * square * math.log(inner) / 3:
                return True
    return False


def test_seven_is_three_and_a_half():
    """[T] 4.9: sigma^2 over the squared sensitivity, from their printed values.

    Both are measured on one exchange of records in a batch.
    """
    n, batch, steps, epsilon, beta = 32_561, 100, 1302, 0.2, 0.5
    alpha = order_of(epsilon, beta)
    deviation = math.sqrt(14 * steps * alpha / (beta * n**2 * epsilon))  # G = 1
    batch_of = np.eye(batch)
    other = batch_of * np.where(np.arange(batch) == 0, -1, 1)[:, None]
    moved = np.linalg.norm((batch_of - other).mean(axis=0))
    found = (deviation / moved) ** 2
    right = normalised(n, batch, steps, epsilon, beta, 3.5)
    assert found == pytest.approx(right, rel=1e-9)
    assert found < 0.51 * normalised(n, batch, steps, epsilon, beta, 7)


# Records, batch, passes over the data, epsilon, and whether the theorem speaks of it.
SETTINGS = [
    (32_561, 100, 4, 0.2, False),
    (32_561, 100, 5, 0.5, False),
    (49_990, 100, 4, 0.2, False),
    (60_000, 512, 20, 1.2, False),
    (60_000, 512, 20, 3.0, True),
    (50_000, 128, 100, 8.0, True),
]


@pytest.mark.parametrize(("n", "batch", "passes", "epsilon", "covered"), SETTINGS)
def test_where_the_theorem_speaks_of_its_experiments(
    n, batch, passes, epsilon, covered
):
    """[T] Theorem 4.5.1 against section 4.7, with sigma'^2 as it is."""
    assert is_covered(n, batch, passes * n // batch, epsilon) is covered


@pytest.mark.parametrize(
    ("epsilon", "steps", "enough", "exact"),
    [(0.2, 1302, 14.1, 1.98), (0.5, 1628, 6.36, 1.14)],
)
def test_noise_of_the_theorem_is_many_times_too_large(epsilon, steps, enough, exact):
    """[T] a9a, batches of 100 of 32,561: what zero_out needs is far less."""
    rate = 100 / 32_561
    least = min(
        2 * math.sqrt(normalised(32_561, 100, steps, epsilon, beta, 3.5))
        for beta in BETAS
    )
    assert least == pytest.approx(enough, rel=0.01)

    def cost(multiplier):
        event = PoissonGaussianEvent(multiplier, rate, steps, "zero_out")
        return epsilon_of(event, DELTA)

    assert cost(least) < 0.13 * epsilon
    assert cost(exact * 1.01) <= epsilon < cost(exact * 0.98)


def test_corollary_4_5_3_asks_for_thousands_of_passes():
    """[T] b^2 = n^2 epsilon / T frees of the conditions if T is large enough."""

    def passes(epsilon):
        low, high = 1.0, 1e15
        while high / low > 1.001:
            steps = math.sqrt(low * high)
            alpha = order_of(epsilon, 0.5)
            square = 7 * alpha  # 3.5 b^2 T alpha / (beta n^2 epsilon)
            inner = math.sqrt(epsilon / steps) * alpha * (1 + square)
            fits = inner < 1 and alpha - 1 <= -2 * square * math.log(inner) / 3
            low, high = (low, steps) if fits else (steps, high)
        return high, math.sqrt(high * epsilon)

    for epsilon, least_steps, least_passes in (
        (0.2, 2e9, 20_000),
        (1.0, 1e7, 4_000),
        (8.0, 1e5, 900),
    ):
        steps, read = passes(epsilon)
        assert steps > least_steps
        assert read > least_passes


def test_batches_of_theorem_4_5_4_are_too_small_for_its_privacy():
    """[T] b of order 1: far below the 0.7 that Theorem 4.5.1 asks for."""
    n, d, epsilon = 60_000, 26_000, 3.0
    zeta = (d * LOG) ** 0.25 / math.sqrt(n * epsilon)  # all constants 1
    n0 = 1 / zeta
    batch = 1 / (n0 * zeta)
    steps = n0 * n * epsilon / math.sqrt(d * LOG)  # with the n0 of the proof
    assert batch == pytest.approx(1.0)
    square = max(normalised(n, batch, steps, epsilon, beta, 3.5) for beta in BETAS)
    assert square < 0.01
    # Batches that it does speak of read many times the gradients that it counts.
    assert not any(is_covered(n, b, steps, epsilon) for b in (1, 2, 4, 8))
    assert is_covered(n, 50, steps, epsilon)


@pytest.mark.parametrize(
    ("c2", "is_enough"), [(0.01, True), (0.4, True), (0.7, False), (0.99, False)]
)
def test_swapped_clips(c2, is_enough):
    """[T] 4.7.1 prints 2 ((1 - gamma) C1 + gamma C2): too little from
    gamma = 1/2 on, by 1.5 at .99.

    MNIST's settings: C1 = 1.5 and gamma = C2. A record's part in the sum attains
    (1 - gamma) C2 + gamma C1, an exchange twice that.
    """
    c1, gamma = 1.5, c2
    now, before = np.array([c1, 0.0]), np.array([c1 - c2, 0.0])
    part = (1 - gamma) * (now - before) + gamma * now
    moved = np.linalg.norm(part - -part)
    printed = 2 * ((1 - gamma) * c1 + gamma * c2)
    assert moved == pytest.approx(2 * ((1 - gamma) * c2 + gamma * c1))
    assert bool(moved <= printed * (1 + 1e-9)) is is_enough


@pytest.mark.parametrize("gamma", [0.01, 0.1, 0.3])
def test_the_recursion_has_four_times_the_noise_of_an_average(gamma):
    """With C2 = gamma C1, v forgets at the rate gamma, by (2 - gamma)^2 more noise.

    Simulated; 1e-9 by the spread of 400 chains.
    """
    rng, chains, steps = np.random.default_rng(0), 400, int(20 / gamma)
    share = (1 - gamma) * gamma + gamma  # S of DP-SRM in units of C1
    recursive = averaged = np.zeros(chains)
    for _ in range(steps):
        noise = rng.normal(size=chains)
        recursive = (1 - gamma) * recursive + share * noise
        averaged = (1 - gamma) * averaged + gamma * noise
    ratio = np.mean(recursive**2) / np.mean(averaged**2)
    assert ratio == pytest.approx((2 - gamma) ** 2, rel=1e-9)
    assert ratio > 2.8
