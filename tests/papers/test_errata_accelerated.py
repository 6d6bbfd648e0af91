"""Claims of the accelerated papers that fail, with their own numbers, recomputed.

[P] Kuru, Birbil, Gurbuzbalaban and Yildirim (2022); [T] Kuru's thesis (2019).
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov
from scipy.stats import laplace

from skdp.privacy.accounting._gaussian import batch_epsilon
from skdp.solvers._accelerated import (
    best_step_count,
    bound_weights,
    error_bounds,
    multistage_steps,
)


def stationary_excess(step_size, momentum, eigenvalues=(0.1, 1.0)):
    """Exact excess that unit gradient noise leaves the heavy ball on a quadratic."""
    total = 0.0
    for value in eigenvalues:
        keep = 1 + momentum - step_size * value
        move = np.array([[keep, -momentum], [1.0, 0.0]])
        noise = np.diag([step_size**2, 0.0])
        total += value / 2 * solve_discrete_lyapunov(move, noise)[0, 0]
    return total


@pytest.mark.parametrize(
    ("step_size", "momentum", "expected"),
    [(0.1, 0.0, 0.0514), (0.1, 0.9, 0.507), (0.2, 0.0, 0.106), (0.02, 0.9, 0.1003)],
)
def test_smoothing_does_not_reduce_noise(step_size, momentum, expected):
    """[P] sections 1 and 3, [T] 4.2.1: ten times more, and as much at an equal step."""
    assert stationary_excess(step_size, momentum) == pytest.approx(expected, rel=5e-3)


def step_of_the_thesis(b, n_steps, sensitivity, d=10):
    """[T] (4.21) at epsilon 1, and the variance of the noise that it is for."""
    noise = 2 * (sensitivity * n_steps) ** 2
    spread = (sensitivity**2 / (4 * d) + noise) * b / (2 - b)
    return 0.25 / math.sqrt(spread * (n_steps + 1)), noise


def expected_excess(b, step, n_steps, variance, eigenvalues=(0.01, 0.25)):
    """Of gradients averaged by the factor b along a quadratic, from 10 everywhere."""
    total = 0.0
    for value in eigenvalues:
        keep = 2 - b - step * b * value
        move = np.array([[keep, b - 1], [1.0, 0.0]])
        moments = np.full((2, 2), 100.0)
        for _ in range(n_steps):
            moments = move @ moments @ move.T
            moments[0, 0] += (step * b) ** 2 * variance
        total += value / 2 * moments[0, 0]
    return total


@pytest.mark.parametrize(("smoothing", "gain"), [(0.1, 4.36), (0.01, 14.1)])
def test_gain_of_smoothing_is_a_larger_step(smoothing, gain):
    """[T] (4.21): the step grows as smoothing falls; that is what the figures show.

    From far away it helps; of gradients without an average, with that step, the error
    is nearly the same.
    """
    n_steps, sensitivity = 1000, 4e-4
    own, variance = step_of_the_thesis(1.0, n_steps, sensitivity)
    larger, _ = step_of_the_thesis(smoothing, n_steps, sensitivity)
    assert larger / own == pytest.approx(gain, rel=2e-3)
    plain, averaged, plain_larger = (
        expected_excess(b, step, n_steps, variance)
        for b, step in ((1.0, own), (smoothing, larger), (1.0, larger))
    )
    assert averaged < 0.8 * plain
    assert plain_larger == pytest.approx(averaged, rel=0.15)


def spectral_radius(step_size, momentum, nesterov, eigenvalues=(0.1, 1.0)):
    radii = []
    for value in eigenvalues:
        keep, last = 1 + momentum - step_size * value, momentum
        if nesterov:
            keep, last = np.array([1 + momentum, momentum]) * (1 - step_size * value)
        # Roots of x^2 - keep x + last: with Nesterov's, [P] (26).
        radii.append(np.abs(np.roots([1.0, -keep, last])).max())
    return max(radii)


@pytest.mark.parametrize(
    ("step_size", "momentum", "printed", "true"),
    [(1.0, 0.9, 0.900, 0.949), (1.9, 0.5, 1.63, 0.707)],
)
def test_eigenvalues_of_the_heavy_ball_are_nesterovs(
    step_size, momentum, printed, true
):
    """[P] (26) calls a convergent run divergent."""
    found = [spectral_radius(step_size, momentum, it) for it in (True, False)]
    assert found == pytest.approx([printed, true], abs=5e-3)


@pytest.mark.parametrize(
    ("n", "m", "claimed", "true"),
    [
        (10**4, 1, 1.0, 14.6),
        (10**4, 100, 1.0, 0.513),
        (6 * 10**4, 1, 1.0, 18998),
        (6 * 10**4, 10, 0.5, 0.58),
    ],
)
def test_subsampled_laplace_noise_of_the_thesis(n, m, claimed, true):
    """[T] Propositions 4.3.1, 1000 steps: the lemma needs a base epsilon below 1."""
    steps = 1000
    base = n * claimed / (2 * m * steps)
    assert steps * batch_epsilon(base, m / n) == pytest.approx(true, rel=6e-3)
    # Calibrated exactly, the same batches cost what is claimed.
    exact = math.log1p(n / m * math.expm1(claimed / steps))
    assert steps * batch_epsilon(exact, m / n) == pytest.approx(claimed, rel=1e-9)


@pytest.mark.parametrize(
    ("n", "m", "true"), [(10**4, 10, 0.87), (6 * 10**4, 1, 5681), (6 * 10**4, 10, 348)]
)
def test_short_stages_of_dp_smag(n, m, true):
    """[T] Proposition 4.3.3: stage 1 of 29 steps, claimed to cost 1/5."""
    n_stages, length = 5, 29
    base = n / (2 * m * n_stages * length)
    assert length * batch_epsilon(base, m / n) == pytest.approx(true, rel=2e-2)


def test_the_multistage_method_of_the_paper_never_leaves_its_first_stage():
    """[P] section 5: the step count is n_1 = 89 for both step sizes."""
    facts = {"smoothness": 5.1001, "strong_convexity": 0.02}
    for c in (1.0, 0.1):
        step_sizes, stages = multistage_steps(1000, step_size=c / 5.1001, **facts)
        bounds = error_bounds(
            step_sizes,
            stages,
            **facts,
            first_excess=10.0,
            variance=20 * (40 / 1e5) ** 2,
            is_pure=True,
        )
        assert best_step_count(bounds) == np.sum(stages == 1) == 89
        # A restart doubles everything before it: the bound jumps.
        assert bounds[89] > 1.5 * bounds[88]


@pytest.mark.parametrize(
    ("n_steps", "batch", "true"),
    [(100, 10**5, 1.414), (100, 1000, 1.66), (1000, 1000, 1.44)],
)
def test_a_scale_taken_for_a_standard_deviation(n_steps, batch, true):
    """[P] released code: noise 1 / sqrt(2) of the declared, claimed epsilon = 1."""
    rate = batch / 1e5
    declared = 1 / math.log1p(math.expm1(1 / n_steps) / rate)
    # The generator makes noise of the deviation that it is told.
    drawn = declared / laplace(scale=1.0).std()
    assert n_steps * batch_epsilon(1 / drawn, rate) == pytest.approx(true, rel=0.01)
    assert n_steps * batch_epsilon(1 / declared, rate) == pytest.approx(1.0)


def test_stages_that_forget_their_number_of_steps():
    """[T] (4.40) has no n_k: every step of a stage would cost what the stage may.

    The loss of one outcome, by densities: all releases where the first data set's are.
    """
    lengths, n_stages = (29, 12, 40), 3

    def loss(scales):
        return sum(
            count * (laplace.logpdf(0.0, 0.0, scale) - laplace.logpdf(0.0, 1.0, scale))
            for count, scale in zip(lengths, scales, strict=True)
        )

    printed = [1.0 * n_stages] * 3  # S / (epsilon / K)
    assert loss(printed) == pytest.approx(27.0)
    right = [float(n_stages * count) for count in lengths]
    assert loss(right) == pytest.approx(1.0)


def test_sign_of_the_noise_term_in_the_lemma():
    """[T] Lemma 4.2.3 (4.27) fails in most random trials; flipped, in none."""
    rng, trials, d, mu, L = np.random.default_rng(0), 20_000, 3, 0.1, 1.0
    curvature = rng.uniform(mu, L, (trials, d))
    step, b, rho = (
        rng.uniform(low, high, trials) for low, high in ((0.1, 2), (0.05, 1), (0.1, 1))
    )
    x, before = rng.normal(size=(2, trials, d))
    noise = 3 * rng.normal(size=(trials, d))
    gradient, moved, keep = curvature * x, x - before, 1 - b
    after = x + keep[:, None] * moved - (step * b)[:, None] * (gradient + noise)

    def dot(u, v):
        return np.sum(u * v, axis=1)

    slope = 1 - L * step * b
    quadratic = (
        -L * keep**2 * dot(moved, moved) / 2
        - slope * keep * dot(moved, gradient)
        + step * b * (2 - L * step * b) * dot(gradient, gradient) / 2
        + (1 - rho**2) * (mu / 2 * dot(x, x) - dot(x, gradient))
    )
    change = rho**2 * dot(x, gradient) / 2 - dot(after, curvature * after) / 2
    ahead = keep[:, None] * moved - (step * b)[:, None] * gradient
    term = (
        -L * (step * b) ** 2 / 2 * dot(noise, noise)
        + L * step * b * dot(ahead, noise)
        + step * b * dot(gradient, noise)
    )
    printed = np.sum(quadratic > change + term + 1e-9)
    flipped = np.sum(quadratic > change - term + 1e-9)
    assert printed > 0.6 * trials
    assert flipped == 0


def fixed_point(k, strength, kappa=51.0, p=1):
    """[T] (4.45), whose n_k stands on both sides: its solution, and alpha_k L.

    `strength` is 2 S_1^2 K^2 / epsilon^2.
    """
    momentum = (1 - kappa**-0.5) / (1 + kappa**-0.5)
    n_k = 1.0
    for _ in range(200):  # contracts: the right side grows like the root of n_k
        spread = strength * n_k**2 / (1 - momentum**2)
        n_k = 2**k * math.sqrt(kappa) * math.log(2 ** (p + 2)) * spread**0.25
    return n_k, spread**-0.5 / 2 ** (2 * k + 3)


def test_stages_of_theorem_4_2_7_do_not_forget_enough():
    """[T] (4.46): a stage is to leave a quarter of the excess; (4.45) leaves 0.96."""
    for k in (2, 3, 5):
        n_k, step = fixed_point(k, 288.0)
        left = 2 * (1 - math.sqrt(step / 51.0)) ** n_k
        assert left == pytest.approx(0.96, abs=0.01)
        # The stages that it takes its theorem from.
        n_k = 2**k * math.sqrt(51.0) * math.log(8)
        assert 2 * (1 - math.sqrt(2.0 ** (-2 * k) / 51.0)) ** n_k <= 0.26


def test_stages_of_theorem_4_2_7_depend_on_units():
    """[T] (4.45) for the same function in other units: no steps of the same method.

    For sums of losses, as the thesis has them, no stage after the first would end.
    """
    n_2, step = fixed_point(2, 2 * 4**2 * 3**2)  # S_1 = 4, K = 3, epsilon = 1
    assert n_2 == pytest.approx(91_216, rel=1e-3)
    assert step == pytest.approx(3e-9, rel=0.2)
    c = 1e-4  # means of 10^4 losses
    n_c, step_c = fixed_point(2, c**2 * 2 * 4**2 * 3**2)
    assert n_c / n_2 == pytest.approx(c, rel=1e-6)
    # In units of 1 / L, which has changed by c, steps should be the same.
    assert step_c > 1000 * step


def test_the_heavy_ball_s_bound_is_not_exact():
    """[P] (25): its noise term counts every direction as the steepest."""
    step, momentum = 0.1, 0.9
    variances = [
        2 * stationary_excess(step, momentum, (value,)) / value for value in (0.1, 1.0)
    ]
    printed = 1.0 * sum(variances)  # L m(alpha, beta)
    assert printed > 10 * stationary_excess(step, momentum)


def test_weights_of_the_noise_grow():
    """[P] section 4.1: "a_{T,t} is decreasing in t"; what follows from it is right."""
    _, weights = bound_weights(
        np.full(50, 0.2), np.ones(50, int), smoothness=5.0, strong_convexity=0.1
    )
    assert np.all(np.diff(weights) > 0)


def test_the_multistage_bound_is_no_equation():
    """[P] (34) has "=": without noise a step of 1 / L on L x^2 / 2 ends at once."""
    bounds = error_bounds(
        np.full(5, 1.0),
        np.ones(5, int),
        smoothness=1.0,
        strong_convexity=0.1,
        first_excess=0.5,
        variance=1e-30,
        is_pure=True,
    )
    x, before = 1.0, 1.0
    for _ in range(5):
        ahead = x + 0.5 * (x - before)
        x, before = ahead - 1.0 * ahead, x
    assert x**2 / 2 < 1e-9
    assert np.min(bounds) > 1e-3


def test_the_smoothness_lacks_a_quarter():
    """[P] section 5: the largest eigenvalue of the rows, for a logistic loss."""
    rng = np.random.default_rng(0)
    rows = rng.random((500, 4))
    eigenvalue = np.linalg.eigvalsh(rows.T @ rows / 500)[-1]

    def curvature(w):
        p = 1 / (1 + np.exp(-rows @ w))
        return np.linalg.eigvalsh((rows * (p * (1 - p))[:, None]).T @ rows / 500)[-1]

    largest = max(curvature(w) for w in [np.zeros(4), *rng.normal(size=(200, 4))])
    assert largest == pytest.approx(eigenvalue / 4)


@pytest.mark.parametrize("b", [0.1, 0.5])
def test_variance_of_smoothed_noise(b):
    """[T] (4.54) lacks 1 / beta^2, as its own proof has it in (A.4).

    The recursion of appendix A.2, in which the noise is not smoothed; its variance.
    """
    scale, variance = 3.0, 0.0
    for _ in range(1000):
        variance = (1 - b) ** 2 * variance + 2 * scale**2
    printed = 2 * scale**2 * b / (2 - b)
    assert variance == pytest.approx(printed / b**2)
    # (4.19) adds a quarter of a squared sensitivity: full gradients have no variance.
    gradients = np.array([2.0] * 5)
    assert np.var(gradients) == 0.0


def test_variance_of_laplace_noise_and_its_trace():
    """[P] (38) lacks a factor 2, and (23) counts the dimension twice."""
    d, scale, step, L = 20, 0.3, 0.1, 2.0
    variance = laplace(scale=scale).var()
    assert d * variance == pytest.approx(2 * scale**2 * d)
    # One step from the minimum of L |x|^2 / 2.
    rng = np.random.default_rng(0)
    noise = rng.laplace(scale=scale, size=(20_000, d))
    excess = L / 2 * np.mean(np.sum((step * noise) ** 2, axis=1))
    trace = d * variance  # E_T of (20)
    assert excess == pytest.approx(L * step**2 * trace / 2, rel=0.05)
    assert L * d * step**2 * trace / 2 > 15 * excess


def test_assumptions_of_hamsi_fail():
    """[T] A.4 and Theorem 3.1.3: bounded gradients, and beta_t of at least 1."""
    rng = np.random.default_rng(0)
    (u, v), rating = rng.normal(size=(2, 5)), 3.0
    norms = [
        np.linalg.norm((c**2 * np.dot(u, v) - rating) * c * v) for c in (1, 10, 100)
    ]
    assert norms[2] > 100 * norms[1] > 1e4 * norms[0]
    for eta, cycles in ((0.06, 16), (0.001, 999)):
        beta = (eta * np.arange(1, 2001)) ** 0.51
        assert np.sum(beta < 1) == cycles
