r"""How to divide a privacy budget over the steps of an accelerated method.

For an objective of smoothness L and strong convexity mu, Nesterov's method with step
``alpha_t <= 1 / L``, momentum ``(1 - sqrt(alpha_t mu)) / (1 + sqrt(alpha_t mu))`` and
gradient noise of variance v_t per coordinate has after T steps an expected excess
objective of at most ([1]_, theorem 4.1 and equation 34)

    a_0 E_0 + d sum_t a_t v_t,
    a_t = 2^(s_T - s_t) prod_{i > t} (1 - sqrt(alpha_i mu)) alpha_t (1 + alpha_t L) / 2,
    a_0 = 2^(s_T) prod_i (1 - sqrt(alpha_i mu)),

where s_t is the stage of step t, from 1: a new stage starts without velocity, for which
the Lyapunov function of the proof is at most twice the excess. One stage is Nesterov's
method. The factor 2 that the first stage puts on E_0 is missing in the theorem as it is
printed, which bounds the Lyapunov function (``docs/errata.md``).

A step with r times the standard deviation that the whole budget would leave to a single
release costs the share r^-k of it: k = 2 for Gaussian noise, whose mu^2 add up, and
k = 1 for pure epsilon. Least noise in the bound for shares that add up to 1:

    r_t^-k = a_t^p / sum_j a_j^p,    p = k / (k + 2),
    sum_t a_t r_t^2 = (sum_t a_t^p)^(1 / p).

So ``epsilon_t`` is proportional to ``a_t^(1/3)`` ([1]_, equation 31) and, for Gaussian
noise, ``sigma_t^2`` to ``1 / sqrt(a_t)``.

Public constants only. Wrong ones cost accuracy, never privacy.

References
----------
.. [1] Kuru, Birbil, Gurbuzbalaban and Yildirim (2022). Differentially private
   accelerated optimization algorithms. SIAM J. Optim. 32(2).
   https://arxiv.org/abs/2008.01989
"""

from __future__ import annotations

import math

import numpy as np

from skdp._floats import FloatArray, IntArray

# Shares of the budget are rounded to powers of 2 to the power of 1 over this, so that
# an event has few parts. The bound is flat at its minimum: it costs below 1 %.
_LEVELS_PER_DOUBLING = 4
# Steps beyond any use count as this many times 1 / L.
_LARGEST_STEP = 1e50
# No step gets less than this share of what the dearest step gets. The bound hardly
# notices, and no step has noise without limits, which directions of less curvature than
# mu would never forget.
_LEAST_SHARE = 1e-3


def nesterov_momentum(step_sizes: FloatArray, strong_convexity: float) -> FloatArray:
    """``(1 - r) / (1 + r)`` with ``r = sqrt(step_size * mu)``, at least 0."""
    root = np.minimum(_root(step_sizes, strong_convexity), 1.0)
    return np.asarray((1 - root) / (1 + root))


def _root(step_sizes: FloatArray, strong_convexity: float) -> FloatArray:
    """``sqrt(step_size * mu)``, without overflow."""
    return np.asarray(np.sqrt(step_sizes) * math.sqrt(strong_convexity))


def multistage_steps(
    n_steps: int,
    *,
    step_size: float,
    smoothness: float,
    strong_convexity: float,
    first_stage: int | None = None,
) -> tuple[FloatArray, IntArray]:
    r"""Step sizes and stages of the multistage method.

    Stage 1 has the given step size; stage k >= 2 has ``step_size / 4^k`` and
    ``2^k ceil(sqrt(L / mu) log 8)`` steps ([1]_, corollary 4.3 with p = 1).

    Parameters
    ----------
    n_steps : int
        Of all stages; the last one may be cut.
    step_size : float
        Of the first stage.
    smoothness, strong_convexity : float
        L and mu of the objective.
    first_stage : int or None, default=None
        Steps of the first stage. None: ``ceil(2 sqrt(L / mu) log sqrt(L / mu))``.

    Returns
    -------
    step_sizes : ndarray of float64 of shape (n_steps,)
    stages : ndarray of int64 of shape (n_steps,), from 1
    """
    root = math.sqrt(smoothness) / math.sqrt(strong_convexity)
    if first_stage is None:
        first_stage = max(1, math.ceil(2 * root * math.log(root)))
    lengths = [first_stage]
    while (left := n_steps - sum(lengths)) > 0:
        stage = len(lengths) + 1
        lengths.append(min(left, 2**stage * max(1, math.ceil(root * math.log(8)))))
    stages = np.repeat(np.arange(1, len(lengths) + 1), lengths)[:n_steps]
    return step_size / np.where(stages == 1, 1.0, 4.0**stages), stages


def bound_weights(
    step_sizes: FloatArray,
    stages: IntArray,
    *,
    smoothness: float,
    strong_convexity: float,
) -> tuple[float, FloatArray]:
    """Weights of the error bound: of E_0, and of each step's ``d v_t``.

    Parameters
    ----------
    step_sizes : ndarray of shape (n_steps,)
    stages : ndarray of int of shape (n_steps,)
        Of every step, not falling; all 1 for Nesterov's method.
    smoothness, strong_convexity : float
        L and mu of the objective.

    Returns
    -------
    start : float
        a_0.
    weights : ndarray of float64 of shape (n_steps,)
        a_1, ..., a_T. Those far from the end may underflow to 0.
    """
    root = _root(step_sizes, strong_convexity)
    decay = np.log1p(-np.minimum(root, 1 - 1e-15))
    left = np.sum(decay) - np.cumsum(decay) + (stages[-1] - stages) * math.log(2)
    start = float(np.exp(np.sum(decay) + stages[-1] * math.log(2)))
    return start, np.exp(left) * _own_weight(step_sizes, smoothness)


def _own_weight(step_sizes: FloatArray, smoothness: float) -> FloatArray:
    """``alpha (1 + alpha L) / 2``, finite for any step size."""
    with np.errstate(over="ignore"):
        relative = np.minimum(step_sizes * smoothness, _LARGEST_STEP)
    return np.asarray(step_sizes * (1 + relative) / 2)


def budget_shares(weights: FloatArray, *, is_pure: bool) -> FloatArray:
    """Share of the budget of every step: of mu^2, or of epsilon if `is_pure`.

    Parameters
    ----------
    weights : ndarray of shape (n_steps,)
        Of the steps' variances in whatever is to be small.

    Returns
    -------
    ndarray of float64 of shape (n_steps,)
        Adds up to 1; none below 1e-3 of the largest.
    """
    shares = (weights / np.max(weights)) ** (1 / 3 if is_pure else 1 / 2)
    shares = np.maximum(shares, _LEAST_SHARE)
    return np.asarray(shares / np.sum(shares))


def divide_noise(weights: FloatArray, *, is_pure: bool) -> FloatArray:
    """Noise of every step, relative to that of one release for the whole budget.

    Parameters
    ----------
    weights : ndarray of shape (n_steps,)
        As for `budget_shares`.
    is_pure : bool
        Whether the budget is a pure epsilon, and not a Gaussian mu^2.

    Returns
    -------
    ndarray of float64 of shape (n_steps,)
        r_t with ``sum_t r_t^-1 = 1`` if pure, ``sum_t r_t^-2 = 1`` otherwise.

    Examples
    --------
    >>> from skdp.solvers._noise_division import divide_noise
    >>> import numpy as np
    >>> divide_noise(np.array([1.0, 16.0]), is_pure=False).round(3)
    array([2.236, 1.118])
    """
    shares = budget_shares(weights, is_pure=is_pure)
    return np.asarray(1 / shares if is_pure else np.sqrt(1 / shares))


def noise_levels(weights: FloatArray, *, is_pure: bool) -> list[tuple[float, int]]:
    """`divide_noise` in few levels: each r_t with the number of steps that it lasts.

    Shares of the budget are rounded to powers of 2^(1/4) and made to add up to 1 again.
    """
    doublings = np.log2(budget_shares(weights, is_pure=is_pure))
    doublings = np.rint(_LEVELS_PER_DOUBLING * doublings) / _LEVELS_PER_DOUBLING
    shares = 2.0**doublings / np.sum(2.0**doublings)
    factors = 1 / shares if is_pure else np.sqrt(1 / shares)
    starts = np.flatnonzero(np.diff(doublings, prepend=np.nan))
    counts = np.diff(starts, append=len(doublings))
    return [
        (float(factors[start]), int(count))
        for start, count in zip(starts, counts, strict=True)
    ]


def error_bounds(
    step_sizes: FloatArray,
    stages: IntArray,
    *,
    smoothness: float,
    strong_convexity: float,
    first_excess: float,
    variance: float,
    is_pure: bool,
    is_even: bool = False,
) -> FloatArray:
    """Bound on the excess objective after 1, 2, ... steps, the whole budget spent.

    In linear time: with one step more, all weights change by the same factor.

    Parameters
    ----------
    step_sizes, stages : ndarray of shape (n_steps,)
        Of the longest run; shorter ones are its beginnings.
    smoothness, strong_convexity : float
        L and mu of the objective.
    first_excess : float
        E_0, or a bound on it.
    variance : float
        Expected squared norm of the noise on the mean gradient if the whole budget
        went to one step: Laplace noise of scale b in d coordinates has ``2 d b^2``.
    is_pure : bool
    is_even : bool, default=False
        Every step gets the same noise, instead of the best division.

    Returns
    -------
    ndarray of float64 of shape (n_steps,)
    """
    k = 1 if is_pure else 2
    power = 1.0 if is_even else k / (k + 2)
    decay = 1 - np.minimum(_root(step_sizes, strong_convexity), 1.0)
    decay[0] *= 2.0
    decay[1:] *= 2.0 ** np.diff(stages)
    own = _own_weight(step_sizes, smoothness) ** power
    total, bounds = 0.0, np.empty(len(step_sizes))
    for t, (factor, new) in enumerate(zip(decay**power, own, strict=True)):
        total = factor * total + new
        bounds[t] = total ** (1 / power)
    if is_even:
        bounds *= np.arange(1.0, len(bounds) + 1) ** (2 / k)
    return np.asarray(first_excess * np.cumprod(decay) + variance * bounds)


def best_step_count(bounds: FloatArray) -> int:
    """Number of steps after which `error_bounds` are the least."""
    return int(np.argmin(bounds)) + 1
