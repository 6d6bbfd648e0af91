"""The Gaussian mechanism: exact formulas for mu, epsilon and delta."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, erfinv, log_ndtr, ndtr, ndtri

# ------------------------------------- Closed forms of mu-Gaussian differential privacy
# A mechanism is mu-GDP if distinguishing two neighbouring data sets is at least as
# hard as distinguishing N(0, 1) from N(mu, 1). The Gaussian mechanism with noise
# multiplier z = sigma / sensitivity is exactly (1/z)-GDP, and adaptive compositions
# of Gaussian mechanisms with (equal or unequal) parameters mu_i are exactly
# sqrt(sum mu_i^2)-GDP [1]_, Corollary 3.3. The conversion to (epsilon, delta) is
#
#     delta(epsilon) = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu),
#
# [1]_, Corollary 2.13 and [2]_, Theorem 8; it is exact, so no accountant is needed.
#
# All functions here return bounds on the private side: an epsilon or delta is
# never below the true one, a mu for a budget never above it.
#
# References:
# .. [1] Dong, Roth and Su (2022). Gaussian differential privacy. JRSS B 84(1).
#    https://arxiv.org/abs/1905.02383
# .. [2] Balle and Wang (2018). Improving the Gaussian mechanism for differential
#    privacy: analytical calibration and optimal denoising. ICML.
#    https://arxiv.org/abs/1805.06530


# Relative safety margin on every root below. It is far above the rounding error of the
# formulas (about 1e-13) and far below the 0.2 % that calibration allows.
_MARGIN = 1e-7
# Bound on the relative rounding error of the formula for delta; added to round up.
_FORMULA_ERROR = 1e-9
# The same bound for a difference of probabilities of order one.
_ABSOLUTE_ERROR = 1e-15
# Relative decrease that rounds down: the error above, the added error, and a margin.
_BELOW = 1e-8
# Below this a double has fewer digits.
_LEAST_RESOLVED = 1e-290
_SQRT_HALF_PI = math.sqrt(math.pi / 2)
_INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)


def _mills(x: float) -> float:
    """Upper tail of N(0, 1) at `x` divided by its density; stable for all x >= 0."""
    return float(_SQRT_HALF_PI * erfcx(x / math.sqrt(2)))


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Smallest delta for which a mu-GDP mechanism is (epsilon, delta)-DP.

    `mu` is in [0, inf], without unit, and epsilon in [0, inf].

    Returns
    -------
    float in [0, 1]
    """
    if mu == 0 or math.isinf(epsilon):
        return 0.0
    if math.isinf(mu):
        return 1.0
    x = epsilon / mu - mu / 2
    density = _INV_SQRT_2PI * math.exp(-x * x / 2)
    # exp(epsilon) * density(x + mu) = density(x): the difference of the two
    # tails becomes a difference of Mills ratios, which does not overflow.
    if mu < 1e-5:
        # The difference below would cancel. It equals the integral of 1 - u mills(u),
        # which falls with u, over [x, x + mu]: at most mu times the value at x.
        delta = density * mu * (1 - x * _mills(x))
    elif x > 0:
        delta = density * (_mills(x) - _mills(x + mu))
    else:
        delta = float(ndtr(-x)) - density * _mills(x + mu)
    return min(1.0, max(0.0, delta) * (1 + _FORMULA_ERROR))


def _mills_gap(x: NDArray[np.float64], mu: float) -> NDArray[np.float64]:
    """mills(x) - mills(x + mu), to a relative 3e-9 for -1 <= x <= 200."""
    if mu < 1e-5:
        # The difference would cancel. It equals the integral of 1 - u mills(u), taken
        # by the midpoint rule with a relative error below mu^2.
        x = x + mu / 2
        return np.asarray(mu * (1 - x * _SQRT_HALF_PI * erfcx(x / math.sqrt(2))))
    near, far = erfcx(x / math.sqrt(2)), erfcx((x + mu) / math.sqrt(2))
    return np.asarray(_SQRT_HALF_PI * (near - far))


def gaussian_deltas(mu: float, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
    """E[(1 - exp(epsilon - L))_+] for the loss L ~ N(mu^2/2, mu^2), rounded up.

    A negative epsilon represents a loss that another mechanism has already caused.
    """
    if mu == 0:
        return np.maximum(0.0, -np.expm1(np.minimum(epsilons, 0.0)))
    x = np.asarray(epsilons / mu - mu / 2)
    # Far to the left the mechanism adds nothing to the existing loss.
    deltas = np.asarray(-np.expm1(np.minimum(epsilons, 0.0)) + _ABSOLUTE_ERROR)
    late = x > 0
    right = x[late]
    density = _INV_SQRT_2PI * np.exp(-right * right / 2)
    deltas[late] = density * np.maximum(_mills_gap(right, mu), 0.0)
    near = ~late & (x > -(mu + 40))
    left = x[near]
    # exp(epsilon) has an exponent of at most mu^2/2; above 700 the term is replaced by
    # 0, which rounds up.
    exponent = mu * (left + mu / 2)
    taken = np.exp(np.minimum(exponent, 700.0)) * ndtr(-left - mu)
    taken[exponent > 700] = 0.0
    deltas[near] = np.maximum(0.0, ndtr(-left) - taken) + _ABSOLUTE_ERROR
    return np.minimum(deltas * (1 + _FORMULA_ERROR), 1.0)


def gaussian_deltas_below(
    mu: float, epsilons: NDArray[np.float64]
) -> NDArray[np.float64]:
    """`gaussian_deltas` rounded down; 0 where epsilon is above 700."""
    found = gaussian_deltas(mu, np.minimum(epsilons, 700.0))
    if mu == 0:
        return found * (1 - _BELOW)
    is_early = epsilons / mu - mu / 2 <= 0
    lowered = found * (1 - _BELOW) - np.where(is_early, 10 * _ABSOLUTE_ERROR, 0.0)
    is_resolved = (epsilons <= 700) & (found > _LEAST_RESOLVED)
    return np.where(is_resolved, np.maximum(lowered, 0.0), 0.0)


def log_gaussian_deltas(
    mu: float, epsilons: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Logarithms of the delta of mu-GDP, free of underflow; relative error 3e-9.

    `mu` is in (0, inf), and no epsilon is negative.
    """
    x = epsilons / mu - mu / 2
    # Right of -1 a delta may be so small that an absolute error would matter.
    right = np.maximum(x, -1.0)
    with np.errstate(divide="ignore"):
        late = (
            math.log(_INV_SQRT_2PI)
            - right * right / 2
            + np.log(np.maximum(_mills_gap(right, mu), 0.0))
        )
        early = np.log(gaussian_deltas(mu, np.minimum(epsilons, mu * mu / 2)))
    return np.where(x > -1, late, early)


def smallest(accept: Callable[[float], bool], low: float) -> float:
    """An accepted point, at most 1 + 1e-7 times a rejected point, or `low` itself.

    If `accept` holds at a point, it must hold at every larger point.
    """
    if accept(low):
        return low
    high = 2 * low
    while not accept(high):
        low, high = high, 2 * high
        if high > 1e100:
            return math.inf
    return narrowed(accept, low, high, _MARGIN)[1]


def narrowed(
    accept: Callable[[float], bool], low: float, high: float, width: float
) -> tuple[float, float]:
    """Ends at most 1 + `width` apart, by logarithmic steps: only the high one accepted.

    The same must hold of the given ends.
    """
    while high / low > 1 + width:
        middle = math.sqrt(low) * math.sqrt(high)  # a product may overflow
        low, high = (low, middle) if accept(middle) else (middle, high)
    return low, high


@lru_cache(maxsize=4096)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Largest mu such that mu-GDP implies (epsilon, delta)-DP, rounded down.

    0 if delta is 0 (no Gaussian mechanism is pure), inf if epsilon is inf; delta is in
    [0, 1).

    Examples
    --------
    >>> round(gaussian_mu(1.0, 1e-6), 4)
    0.2367
    """
    if math.isinf(epsilon):
        return math.inf
    if delta == 0:
        return 0.0

    def is_too_large(mu: float) -> bool:
        return gaussian_delta(mu, epsilon) > delta

    # Two explicit points bracket the root up to the margins of the loops below.
    high = math.sqrt(2 * epsilon) + max(0.0, -float(ndtri(delta))) + 1.0
    while not is_too_large(high):
        high *= 2
    low = min(epsilon, 1.0)
    while is_too_large(low):
        low /= 2
    return narrowed(is_too_large, low, high, _MARGIN / 4)[0] * (1 - _MARGIN)


@lru_cache(maxsize=4096)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """Smallest epsilon for which mu-GDP implies (epsilon, delta)-DP, rounded up.

    `mu` is in [0, inf] and delta in [0, 1).

    Returns
    -------
    float in [0, inf]

    Examples
    --------
    >>> round(gaussian_epsilon(math.sqrt(100) / 5.0, 1e-5), 4)
    9.9973
    """
    if mu == 0 or gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    if delta == 0 or mu > 1e100:
        return math.inf

    def is_enough(epsilon: float) -> bool:
        return gaussian_delta(mu, epsilon) <= delta

    low = min(mu * mu, 1.0)
    while is_enough(low):
        low /= 2
        if low < 1e-300:  # delta equals its value for epsilon = 0
            return low
    high = max(mu * mu, 1.0)
    while not is_enough(high):
        high *= 2
    return narrowed(is_enough, low, high, _MARGIN / 4)[0] * (1 + _MARGIN)


def mu_pure_epsilon(mu: float) -> float:
    """Largest epsilon whose `pure_mu` is at most `mu`, rounded down."""
    epsilon = float(log_ndtr(mu / 2) - log_ndtr(-mu / 2))
    if epsilon > 700:
        epsilon = max(700.0, mu**2 / 8)
    return epsilon * (1 - 4 * _MARGIN)


def pure_mu(epsilon: float) -> float:
    """Smallest mu such that every epsilon-DP mechanism is mu-GDP, rounded up.

    The trade-off function of epsilon-DP has its kink at type I error
    ``1 / (1 + exp(epsilon))``; the convex Gaussian trade-off function through
    that point lies below both straight pieces, so
    ``mu = -2 * Phi^-1(1 / (1 + exp(epsilon)))`` is valid, and smallest.
    """
    if math.isinf(epsilon):
        return math.inf
    if epsilon > 700:  # the kink underflows; Phi^-1(p) >= -sqrt(-2 log p)
        return 2 * math.sqrt(2 * epsilon) * (1 + _MARGIN)
    if epsilon < 1:  # 1 / (1 + exp(epsilon)) would lose its difference from 1/2
        root = float(erfinv(math.tanh(epsilon / 2)))
        return 2 * math.sqrt(2) * root * (1 + _MARGIN)
    return float(-2 * ndtri(1 / (1 + math.exp(epsilon)))) * (1 + _MARGIN)


# ------------------------------------------------------ Amplification by a secret batch


# Above this the exponential is taken out of the logarithm, before it overflows.
_LARGE = 500.0
# Bound on the relative rounding error of the formula, added to round up.
_AMPLIFICATION_ERROR = 1e-12


def batch_epsilon(epsilon: float, rate: float) -> float:
    """Epsilon of an epsilon-DP release about a secret batch.

    ``log(1 + rate (exp(epsilon) - 1))`` for a batch of a fixed size, drawn afresh and
    uniformly without replacement ([1]_, theorem 9). Exact: some releases attain it.

    Parameters
    ----------
    epsilon : float in (0, inf)
        Epsilon of the release, for the exchange of **one record of the batch for any
        other**, also if neighbouring data sets differ by a missing record, since
        another record takes its place in the batch
        (``docs/proofs/gradient_descent.md``, Lemma 14).
    rate : float in (0, 1]
        Size of the batch over the number of records, both public.

    References
    ----------
    .. [1] Balle, Barthe and Gaboardi (2018). Privacy amplification by subsampling:
       tight analyses via couplings and divergences. NeurIPS.
       https://arxiv.org/abs/1807.01647
    """
    if epsilon > _LARGE:
        amplified = epsilon + math.log(rate + math.exp(-epsilon))
    else:
        amplified = math.log1p(rate * math.expm1(epsilon))
    return amplified * (1 + _AMPLIFICATION_ERROR)
