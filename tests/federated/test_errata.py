"""Chapter 6 of Wang's thesis: what its noise costs in truth (docs/errata.md)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from skdp.privacy import epsilon_of
from skdp.privacy.accounting._events import GaussianEvent
from skdp.privacy.accounting._gaussian import gaussian_mu

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


def test_the_gaussian_entry_of_local_gradients():
    m, n, n_steps = 100, 500, 100
    entry = math.sqrt(2 * n_steps) / (math.sqrt(m) * n * EPSILON)
    assert entry == pytest.approx(5.66e-3, rel=1e-3)
    # One owner's share of the records, with the noise it is said to need.
    assert thesis_sigma(1, n, n_steps) / math.sqrt(m) == pytest.approx(
        29.7e-3, rel=2e-3
    )
    assert true_epsilon(entry * math.sqrt(m), 1, n, n_steps) > 2.0


LAMBDA = 1e-3


def logistic_minimiser(Z, strength=LAMBDA):
    """Of the mean loss over rows times labels."""

    def loss(w):
        value = np.logaddexp(0, -Z @ w).mean() + strength / 2 * w @ w
        return value, strength * w - Z.T @ expit(-Z @ w) / len(Z)

    start = np.zeros(Z.shape[1])
    found = minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-9})
    return found.x


def exchanged(n, minimiser):
    """Minimisers on two tables that differ in one record.

    Other records push the weights to where the loss is flat; the two records pull
    to either side of that way.
    """
    along, across = math.cos(math.radians(60)), math.sin(math.radians(60))
    rows = np.tile([1.0, 0.0], (n - 1, 1))
    return [
        minimiser(np.vstack([rows, [-along, sign * across]])) for sign in (1.0, -1.0)
    ]


@pytest.mark.parametrize(("n", "found"), [(500, 3.50), (5000, 4.05)])
def test_independent_laplace_noise_costs_more_than_it_claims(n, found):
    """Theorem 6.3.1 on Adult's 104 columns, 0.5 claimed; one owner of m is as m."""
    one, other = exchanged(n, logistic_minimiser)
    gap = np.abs(one - other)
    allowed = 2 / (n * LAMBDA)
    assert gap[0] < 1e-6 * allowed
    assert 0.6 * allowed < gap[1] <= allowed
    # The second coordinate stands for a unit vector with 103 equal entries.
    scale = allowed / EPSILON
    epsilon = math.sqrt(103) * gap[1] / scale
    assert epsilon == pytest.approx(found, abs=0.01)
    # Spherical noise of that scale keeps the claim, in whatever direction.
    assert np.linalg.norm(gap) / scale <= EPSILON


def test_the_mean_of_minimisers_is_not_as_near_as_theorem_6_5_3_says():
    """Two owners whose records tell different things; the bound falls with n."""
    for n, ratio in ((100, 0.15), (10_000, 15.3)):
        agreed = np.tile([1.0], (n, 1))
        torn = np.tile([[1.0], [-1.0]], (n // 2, 1))
        mean = (logistic_minimiser(agreed) + logistic_minimiser(torn)) / 2
        pooled = logistic_minimiser(np.vstack([agreed, torn]))
        bound = (2 - 1) / (n * LAMBDA)
        assert abs(mean - pooled)[0] / bound == pytest.approx(ratio, rel=0.02)


def test_ridge_regression_has_no_gradient_bound_of_1():
    """Rows and targets of norm 1 at most, as for KDD Cup 1998."""
    n = 10_000
    X, y = np.tile([math.sqrt(LAMBDA), 0.0], (n, 1)), np.ones(n)
    found = []
    for sign in (0.7, -0.7):
        X[0], y[0] = [0.7, sign], -1
        second = X.T @ X / n + LAMBDA * np.eye(2)
        found.append(np.linalg.solve(second, X.T @ y / n))
    moved = np.linalg.norm(found[0] - found[1])
    assert moved / (2 / (n * LAMBDA)) == pytest.approx(7.87, abs=0.01)


def test_the_number_of_steps_of_theorem_6_3_6_leaves_the_start():
    """KDD Cup 1999: T is a logarithm, and forgets the condition number."""
    n, d, smoothness = 50_000, 122, 0.25 + LAMBDA
    n_steps = math.log(n**2 * EPSILON**2 / (d * math.log(1 / DELTA)))
    assert n_steps == pytest.approx(13.5, abs=0.1)
    left = (1 - LAMBDA / smoothness) ** n_steps
    assert left == pytest.approx(0.947, abs=1e-3)
    # What the proof's own recursion needs for its start to fall as much.
    needed = n_steps * smoothness / LAMBDA
    assert needed == pytest.approx(3390, rel=0.01)
    assert (1 - LAMBDA / smoothness) ** needed < math.exp(-n_steps)


SCALE, RAND_MAX = 10**9, 2**31 - 1


def coded_laplace(mean, words, scale):
    """The released circuit: sums of whole numbers of scales, from one server's words.

    Both logarithms lose their fractions, and the sign is that of the word.
    """
    word = int(np.bitwise_xor.reduce(words))
    steps = math.floor(math.log(abs(word))) - math.floor(math.log(RAND_MAX))
    return mean + steps * scale * (1 if word >= 0 else -1)


def test_the_released_laplace_circuit_hides_nothing():
    rng = np.random.default_rng(0)
    scale = 2 * SCALE // (100 * 500 * 1 // 2)
    for mean in rng.integers(-SCALE, SCALE, 50).tolist():
        words = rng.integers(1, RAND_MAX, 5)
        shown = coded_laplace(mean, words, scale)
        # To anybody: the mean up to whole scales.
        assert (shown - mean) % scale == 0
        # To the first server, which feeds all words into the circuit: the mean.
        assert shown - coded_laplace(0, words, scale) == mean


def test_the_released_masks_are_too_short():
    """Weights in steps of 1e-9 under masks of 30 bits: above 1.07 they show."""
    rng = np.random.default_rng(0)
    weights = rng.uniform(-20, 20, 2000)
    words = (weights * SCALE).astype(np.int64)
    masks = rng.integers(-SCALE, SCALE, len(words))
    # The sign of the mask is lost, the bits above its 30 are not.
    seen = words ^ masks
    high = np.where(seen >> 30 < 0, ~(seen >> 30), seen >> 30)
    right = np.where(words < 0, ~(words >> 30), words >> 30)
    assert (high == right).all()
    assert len(np.unique(right)) == 19


def test_the_released_gaussian_circuit_hardly_ever_ends():
    """All 104 draws must be accepted at once, and are drawn anew if not."""
    rng = np.random.default_rng(0)
    u = rng.random(400_000)
    v = (2 * rng.random(400_000) - 1) * math.sqrt(2 / math.e)
    accepted = np.mean((v / u) ** 2 <= -4 * np.log(u))
    assert accepted == pytest.approx(math.sqrt(math.pi * math.e) / 4, abs=5e-3)
    assert (math.sqrt(math.pi * math.e) / 4) ** 104 < 1e-14


def coded_loss(w, Z, strength):
    """What the released code plots as the objective."""
    return np.log1p(np.exp(Z @ w)).mean() + strength * w @ w


def test_the_plotted_gap_is_not_the_objective_s():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(1000, 3)) / 3 + [0.5, 0.2, 0.0]
    best = logistic_minimiser(Z)
    # At the minimum of the objective the plotted loss has a steep descent.
    step = 1e-6 * best
    slope = (coded_loss(best + step, Z, LAMBDA) - coded_loss(best, Z, LAMBDA)) / 1e-6
    assert slope > 0.5
    # The gap |loss - loss at the best| of weights of zero, and the true one.
    plotted = abs(coded_loss(0 * best, Z, LAMBDA) - coded_loss(best, Z, LAMBDA))
    true = math.log(2) - (np.logaddexp(0, -Z @ best).mean() + LAMBDA / 2 * best @ best)
    assert plotted > 4 * true
