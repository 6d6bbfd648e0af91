r"""Lower bounds on epsilon from two samples of an attacker's scores.

Let an attacker's score be S under one data set and T under its neighbour.

Free of assumptions [1]_: (epsilon, delta) allows of every event A at most
``P(S in A) <= exp(epsilon) P(T in A) + delta``. For thresholds chosen beforehand, both
probabilities are bounded by Clopper and Pearson, each with its share of the error.

For Gaussian scores of one variance: S and T are ``mu`` standard deviations apart, and
so is nothing that follows from a mu'-GDP release with mu' < mu. The bound on mu turns
into one on epsilon at delta. Of independent samples, mu has the noncentral t law of
Student's statistic. Of pairs that share their noise, the gap and the deviation are
bounded apart, each with half of the error: the variance of both samples together is at
least as concentrated as that of one of them.

References
----------
.. [1] Jagielski, Ullman and Oprea (2020). Auditing differentially private machine
   learning: how private is private SGD? NeurIPS. https://arxiv.org/abs/2006.07709
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, chdtri, nctdtr, ndtr, stdtrit

from skdp._floats import FloatArray
from skdp.privacy._gaussian import gaussian_epsilon, mu_pure_epsilon

# By how much `gaussian_epsilon` may be above the truth; taken off, so that no bound is.
_ROUNDED_UP = 1e-6
# Beyond, the noncentral t law is that of a normal variable, and hard to compute.
_LARGEST_T = 30.0


def lower_rate(found: int, n: int, error: float) -> float:
    """Clopper and Pearson's lower bound on a probability."""
    return float(betaincinv(found, n - found + 1, error)) if found else 0.0


def upper_rate(found: int, n: int, error: float) -> float:
    """Clopper and Pearson's upper bound on a probability."""
    return float(betaincinv(found + 1, n - found, 1 - error)) if found < n else 1.0


def epsilon_of_rates(low: float, high: float, delta: float) -> float:
    """Smallest epsilon with which an event may have these probabilities."""
    if low <= delta:
        return 0.0
    return max(0.0, math.log((low - delta) / high)) if high > 0 else math.inf


def epsilon_of_event(
    inside: int, n_inside: int, outside: int, n_outside: int, delta: float, error: float
) -> float:
    """Bound on epsilon by how often one event was seen under each data set.

    Parameters
    ----------
    inside, outside : int
        How often; of `n_inside` and `n_outside` runs.
    error : float in (0, 1)
        Probability of being wrong.
    """
    low = lower_rate(inside, n_inside, error / 2)
    high = upper_rate(outside, n_outside, error / 2)
    return epsilon_of_rates(low, high, delta)


def epsilon_of_thresholds(
    inside: FloatArray,
    outside: FloatArray,
    thresholds: Iterable[float],
    delta: float,
    error: float,
) -> float:
    """Bound on epsilon by thresholds that were chosen without these scores.

    Parameters
    ----------
    inside, outside : ndarray of shape (n_runs,)
        The larger, the rather is it the first data set.
    thresholds : iterable of float
        The error is shared among them.
    """
    chosen = tuple(thresholds)
    share = error / len(chosen)
    return max(
        max(
            _beyond(inside > t, outside > t, delta, share),
            _beyond(outside <= t, inside <= t, delta, share),
        )
        for t in chosen
    )


def _beyond(
    first: NDArray[np.bool_], second: NDArray[np.bool_], delta: float, error: float
) -> float:
    # Both events of a threshold are bounded by the same two rates.
    seen, other = int(np.sum(first)), int(np.sum(second))
    return epsilon_of_event(seen, len(first), other, len(second), delta, error)


def epsilon_lower_bound(
    scores_in: FloatArray,
    scores_out: FloatArray,
    delta: float,
    confidence: float = 0.999,
) -> float:
    """Bound on epsilon by one threshold: chosen on half of the scores, tested on half.

    Valid without any assumption.
    """
    half = len(scores_in) // 2
    candidates = np.quantile(scores_out[:half], np.linspace(0.5, 0.999, 60))
    error = 1 - confidence

    def bound(threshold: float, first: FloatArray, second: FloatArray) -> float:
        # Among useless thresholds the least bad one is still told from the others.
        low = lower_rate(int(np.sum(first > threshold)), len(first), error / 2)
        high = upper_rate(int(np.sum(second > threshold)), len(second), error / 2)
        return math.log(max(low - delta, 1e-300) / high)

    best = max(candidates, key=lambda t: bound(t, scores_in[:half], scores_out[:half]))
    return max(0.0, bound(best, scores_in[half:], scores_out[half:]))


def mu_of_samples(inside: FloatArray, outside: FloatArray, error: float) -> float:
    """Bound on mu of two independent samples, Gaussian and of one variance."""
    n, m = len(inside), len(outside)
    size = math.sqrt(1 / n + 1 / m)
    squares = (n - 1) * np.var(inside, ddof=1) + (m - 1) * np.var(outside, ddof=1)
    gap, spread = (
        float(np.mean(inside) - np.mean(outside)),
        math.sqrt(squares / (n + m - 2)),
    )
    if gap <= 0 or spread == 0:
        return 0.0 if gap <= 0 else math.inf
    return size * _least_noncentrality(gap / (spread * size), n + m - 2, error)


def _least_noncentrality(t: float, df: int, error: float) -> float:
    """The noncentrality under which so large a statistic has probability `error`."""
    if t > _LARGEST_T:
        # t is at least (Z + nc) / sqrt(chi2 / df): both are bounded apart.
        spread = math.sqrt(float(chdtri(df, 1 - error / 2)) / df)
        return max(0.0, t * spread + float(stdtrit(1e9, error / 2)))
    if 1 - float(nctdtr(df, 0.0, t)) >= error:
        return 0.0
    low, high = 0.0, t
    for _ in range(60):
        middle = (low + high) / 2
        is_rare = 1 - float(nctdtr(df, middle, t)) < error
        low, high = (middle, high) if is_rare else (low, middle)
    return low


def mu_of_pairs(inside: FloatArray, outside: FloatArray, error: float) -> float:
    """Bound on mu of pairs that share their noise, Gaussian and of one variance."""
    n = len(inside)
    changes = inside - outside
    far = float(stdtrit(n - 1, 1 - error / 2)) * np.std(changes, ddof=1) / math.sqrt(n)
    gap = float(np.mean(changes) - far)
    variance = (np.var(inside, ddof=1) + np.var(outside, ddof=1)) / 2
    least = float(chdtri(n - 1, 1 - error / 2)) / (n - 1)
    if gap <= 0 or variance == 0:
        return 0.0 if gap <= 0 else math.inf
    return gap / math.sqrt(variance / least)


def epsilon_of_mu(mu: float, delta: float) -> float:
    """Epsilon at delta of scores that are mu apart, rounded down.

    At delta = 0, where a Gaussian score has none, the least epsilon of a pure release
    from which such a score can follow.
    """
    if mu <= 0:
        return 0.0
    if math.isinf(mu):
        return math.inf
    epsilon = mu_pure_epsilon(mu) if delta == 0 else gaussian_epsilon(mu, delta)
    return epsilon * (1 - _ROUNDED_UP)


def epsilon_of_halves(mu: float, delta: float) -> float:
    """Epsilon by the event that a Gaussian score is beyond the middle, rounded down.

    The middle is where scores are seen; their tails are not.
    """
    if mu <= 0:
        return 0.0
    if delta == 0 or math.isinf(mu):
        return epsilon_of_mu(mu, 0.0)
    rates = float(ndtr(mu / 2)), float(ndtr(-mu / 2))
    return epsilon_of_rates(*rates, delta) * (1 - _ROUNDED_UP)
