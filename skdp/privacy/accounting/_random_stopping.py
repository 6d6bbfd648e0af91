"""The cost of releasing the best of a random number of trials.

A mechanism Q, whose output has a score, is run K times independently, and the output
with the highest score is released (the first of several; nothing if K = 0). K is drawn
from a public distribution and kept secret. Let w(u) = E[K (1 - u)^(K - 1)], and let
u(y) be the probability that an output of Q has a higher score than y. The release then
has the density w(u(y)) with respect to Q. If Q'(E) <= g(Q(E)) for all events E and
neighbouring data, then

    delta(epsilon) <= sum_j a_j delta_Q(epsilon + log z_j),

where sum_j a_j (z - z_j)_+ is the smallest convex function above w(u) z - w(g(u)) for
all u. ``docs/proofs/accounting.md`` has the theorem, its proof, and how it generalises
and improves on [1]_ and [2]_.

References
----------
.. [1] Papernot and Steinke (2022). Hyperparameter tuning with Renyi differential
   privacy. ICLR. https://arxiv.org/abs/2110.03620
.. [2] Koskela, Redberg and Wang (2024). Privacy profiles for private selection. ICML.
   https://arxiv.org/abs/2402.06701
.. [3] Liu and Talwar (2019). Private selection from private candidates. STOC.
   https://arxiv.org/abs/1811.07971
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.special import gammaln, ndtr

from skdp._arrays import FloatArray
from skdp._checks import check_choice, check_count, check_real
from skdp.privacy.accounting._gaussian import gaussian_deltas, smallest

Family = Literal["negative_binomial", "poisson"]

# Probabilities of K are integers over their sum, each at most this.
_WEIGHT = 2**52
# Cells for u: Phi of a uniform grid, and the two ends.
_REACH, _CELLS = 9.0, 10_000
# Bound on the relative rounding error of w; charged.
_FORMULA_ERROR = 1e-10
# Error of scipy's ndtr near 1, charged where 1 - u matters.
_NEAR_ONE = 2.0**-52
# Bound on the relative error of ndtr, charged on differences.
_TAIL_ERROR = 2.0**-40
MOST_TRIALS = 10_000
# Largest relative excess over epsilon of a pure bound above the attained value.
_PURE_EXCESS = 1e-3
# With this many cells a valid bound is accepted as it is.
_MOST_CELLS = 100_000


@dataclass(frozen=True)
class TrialCount:
    """The public distribution of the secret number of trials K.

    Parameters
    ----------
    family : {"negative_binomial", "poisson"}
        "negative_binomial": P(K = k) proportional to
        ``Gamma(k + shape) / k! * (1 - gamma)^k`` for k >= 1 (a geometric law for shape
        1, logarithmic for 0), where gamma follows from `mean`. "poisson": a Poisson
        law, for which K may be 0.
    mean : float in (1, 1e4], or (0, 1e4] for Poisson
        Mean of the distribution before truncation.
    most : int in [1, 10000]
        The distribution is conditioned on K <= most.
    shape : float in [-0.9, 10], default=1.0
        Ignored by "poisson".
    """

    family: Family
    mean: float
    most: int
    shape: float = 1.0

    def __post_init__(self) -> None:
        check_choice("family", self.family, ["negative_binomial", "poisson"])
        least = 1.0 if self.family == "negative_binomial" else 0.0
        mean = check_real(
            "mean", self.mean, low=least, high=float(MOST_TRIALS), low_open=True
        )
        object.__setattr__(self, "mean", mean)
        most = check_count("most", self.most, high=MOST_TRIALS)
        object.__setattr__(self, "most", most)
        shape = check_real("shape", self.shape, low=-0.9, high=10.0)
        object.__setattr__(self, "shape", shape)

    @property
    def weights(self) -> tuple[int, ...]:
        """Integers proportional to the probabilities of 0, 1, ..., most trials."""
        return _weights(self)

    @property
    def probabilities(self) -> FloatArray:
        """Probabilities of 0, 1, ..., most trials."""
        weights = np.array(self.weights, dtype=np.float64)
        return np.asarray(weights / weights.sum())

    @property
    def expected(self) -> float:
        return float(self.probabilities @ np.arange(self.most + 1))


@lru_cache(maxsize=64)
def _weights(trials: TrialCount) -> tuple[int, ...]:
    counts = np.arange(trials.most + 1)
    if trials.family == "poisson":
        logs = counts * math.log(trials.mean) - gammaln(counts + 1)
    else:
        gamma = _gamma_of(trials.mean, trials.shape)
        logs = np.full(len(counts), -math.inf)
        logs[1:] = counts[1:] * math.log1p(-gamma)
        logs[1:] += gammaln(counts[1:] + trials.shape) - gammaln(counts[1:] + 1)
    shares = np.exp(logs - logs.max())
    return tuple(int(weight) for weight in np.rint(shares * _WEIGHT))


def _gamma_of(mean: float, shape: float) -> float:
    """The gamma for which the negative binomial law has this mean."""

    def mean_of(gamma: float) -> float:
        if abs(shape) < 1e-6:
            return (1 / gamma - 1) / math.log(1 / gamma)
        return shape * (1 - gamma) / (gamma * -math.expm1(shape * math.log(gamma)))

    low, high = 1e-12, 1 - 1e-9
    for _ in range(200):
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = (middle, high) if mean_of(middle) > mean else (low, middle)
    return high


def _density(trials: TrialCount, below: FloatArray, order: int = 0) -> FloatArray:
    """Density w of the release with respect to one trial, or -w', at u = 1 - below."""
    p = trials.probabilities
    counts = np.arange(1, len(p))
    coefficients = counts * p[1:]
    if order == 1:
        coefficients = (coefficients * (counts - 1))[1:]
    return np.asarray(np.polyval(coefficients[::-1], below), dtype=np.float64)


@dataclass(frozen=True)
class _Cells:
    """Cells that cover all u in [0, 1], u = Phi(place), with bounds on w.

    `lower` and `upper` are the places of their ends; `highest` and `lowest` bound w
    from above and below, and `steepest` bounds -w' from above.
    """

    lower: FloatArray
    upper: FloatArray
    highest: FloatArray
    lowest: FloatArray
    steepest: FloatArray


@lru_cache(maxsize=64)
def _cells(trials: TrialCount) -> _Cells:
    places = np.linspace(-_REACH, _REACH, _CELLS)
    lower = np.concatenate([[-math.inf], places])
    upper = np.append(places, math.inf)
    return _Cells(
        lower,
        upper,
        _highest(trials, ndtr(-lower)),
        _lowest(trials, ndtr(-upper)),
        _highest(trials, ndtr(-lower), order=1),
    )


def _highest(trials: TrialCount, below: FloatArray, order: int = 0) -> FloatArray:
    values = _density(trials, np.minimum(1.0, below + _NEAR_ONE), order)
    return values * (1 + _FORMULA_ERROR)


def _lowest(trials: TrialCount, below: FloatArray) -> FloatArray:
    values = _density(trials, np.maximum(0.0, below - _NEAR_ONE))
    return values * (1 - _FORMULA_ERROR)


def _envelope(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Slope increments and kinks of the maximum of 0 and the lines a z - b."""
    slopes, offsets, kinks = [0.0], [0.0], [0.0]
    order = np.lexsort((b, a))
    for slope, offset in zip(a[order].tolist(), b[order].tolist(), strict=True):
        if slope == slopes[-1]:
            continue  # a line with the same slope and a smaller offset came before
        kink = (offset - offsets[-1]) / (slope - slopes[-1])
        while len(slopes) > 1 and kink <= kinks[-1]:
            del slopes[-1], offsets[-1], kinks[-1]
            kink = (offset - offsets[-1]) / (slope - slopes[-1])
        slopes.append(slope)
        offsets.append(offset)
        kinks.append(max(kink, 0.0))
    return np.diff(slopes), np.array(kinks[1:])


@lru_cache(maxsize=256)
def _gaussian_envelope(trials: TrialCount, mu: float) -> tuple[FloatArray, FloatArray]:
    increments, kinks = _envelope(*_lines(trials, mu))
    with np.errstate(divide="ignore"):
        return increments, np.maximum(np.log(kinks), -700.0)


def _lines(trials: TrialCount, mu: float) -> tuple[FloatArray, FloatArray]:
    """Slopes a and offsets b of lines a z - b whose maximum is above G.

    In a cell w(u) <= highest and w(g(u)) >= least give one line. If mu is small, a cell
    as wide as a step of mu gives no information on w(u) - w(g(u)). But w(g(u)) is also
    at least w(u) - fall, so G is at most w(u) (z - 1) + fall: a line on either side of
    z = 1. The line that is zero up to a larger z is used.
    """
    cells = _cells(trials)
    least = _lowest(trials, ndtr(-(cells.upper + mu)))
    fall = _largest_fall(trials, cells, mu)
    with np.errstate(divide="ignore", invalid="ignore"):
        is_near = 1 - fall / cells.lowest > least / cells.highest
    offsets = np.where(is_near, np.maximum(least, cells.highest - fall), least)
    slopes = np.concatenate([cells.highest, cells.lowest[is_near]])
    return slopes, np.concatenate([offsets, (cells.lowest - fall)[is_near]])


def _largest_fall(trials: TrialCount, cells: _Cells, mu: float) -> FloatArray:
    """Largest w(u) - w(g(u)) in each cell, rounded up.

    -w' is convex, so the trapezoid is above its integral from u to g(u); -w' falls, so
    both sides of the trapezoid are longest at the cell's lower end.
    """
    steepest = cells.steepest + _highest(trials, ndtr(-(cells.lower + mu)), order=1)
    return steepest / 2 * _longest_way(cells, mu) * (1 + _FORMULA_ERROR)


def _longest_way(cells: _Cells, mu: float) -> FloatArray:
    """Largest g(u) - u in each cell: Phi(t + mu) - Phi(t), rounded up; top at -mu/2."""
    start = np.clip(-mu / 2, cells.lower, cells.upper)
    side = np.where(start > -mu / 2, -1.0, 1.0)  # from the thinner tail
    ends = ndtr(side * start), ndtr(side * (start + mu))
    return np.asarray(np.abs(ends[1] - ends[0]) + _TAIL_ERROR * (ends[0] + ends[1]))


def selection_delta(trials: TrialCount, mu: float, epsilon: float) -> float:
    """Delta at `epsilon` of the best of K trials of a mu-GDP mechanism, rounded up."""
    increments, shifts = _gaussian_envelope(trials, mu)
    deltas = gaussian_deltas(mu, epsilon + shifts)
    return min(1.0, float(increments @ deltas) * (1 + _FORMULA_ERROR))


# A search asks for the same value when it plans and when it commits.
@lru_cache(maxsize=4096)
def selection_epsilon(trials: TrialCount, mu: float, delta: float) -> float:
    """Epsilon at `delta` of the best of K trials of a mu-GDP mechanism, rounded up."""
    if delta == 0:
        return math.inf
    if selection_delta(trials, mu, 0.0) <= delta:
        return 0.0
    return smallest(lambda epsilon: selection_delta(trials, mu, epsilon) <= delta, 1e-6)


def pure_selection_epsilon(trials: TrialCount, epsilon: float) -> float:
    """Epsilon of the best of K trials of an epsilon-DP mechanism, rounded up.

    At most ``(2 + shape) epsilon`` for the negative binomial law without cut-off ([1]_,
    Corollary 3).
    """
    kink = 1 / (1 + math.exp(min(epsilon, 700.0)))
    ends = np.unique(np.concatenate([[0.0, kink, 1.0], np.geomspace(1e-18, 0.5, 64)]))
    lower, upper = ends[:-1], ends[1:]
    attained, excess = -math.inf, _PURE_EXCESS * epsilon
    for _ in range(60):
        attained = max(attained, float(np.max(_log_ratios(trials, epsilon, lower))))
        bounds = _log_ratios(trials, epsilon, lower, upper)
        is_open = bounds > attained + excess
        if not is_open.any():
            return epsilon + attained + excess
        if np.count_nonzero(is_open) > _MOST_CELLS:
            break
        middle = (lower[is_open] + upper[is_open]) / 2
        lower = np.concatenate([lower[is_open], middle])
        upper = np.concatenate([middle, upper[is_open]])
    return epsilon + max(attained + excess, float(np.max(bounds)))


def _log_ratios(
    trials: TrialCount,
    epsilon: float,
    lower: FloatArray,
    upper: FloatArray | None = None,
) -> FloatArray:
    """Largest log w(u) - log w(g(u)) in each cell, or at its lower end, rounded up.

    It is the smaller of two bounds. w falls, so w(lower) and w(g(upper)) bound the
    ratio. -w' falls too, so the integral of -w' / w from u to g(u) is at most the
    longest interval times the largest integrand; this bound is close for a small
    epsilon.
    """
    upper = lower if upper is None else upper
    rise = math.exp(min(epsilon, 700.0))
    # 1 - g(u) = max(exp(-epsilon) (1 - u), 1 - exp(epsilon) u)
    below = np.maximum((1 - upper) / rise, 1 - rise * upper)
    start = np.minimum(1.0, 1 - lower + _NEAR_ONE)
    lowest = _lowest(trials, below)
    way = np.maximum(_way(epsilon, lower), _way(epsilon, upper))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = _density(trials, start) * (1 + _FORMULA_ERROR) / lowest
        slope = _density(trials, start, order=1) * (1 + _FORMULA_ERROR) / lowest
        bound = np.fmin(np.log(ratio), way * slope * (1 + _FORMULA_ERROR))
    return np.asarray(np.where(lowest > 0, bound, math.inf), dtype=np.float64)


def _way(epsilon: float, u: FloatArray) -> FloatArray:
    """g(u) - u, without cancellation; concave, with its maximum at the kink of g."""
    up = math.expm1(min(epsilon, 700.0)) * u
    return np.asarray(np.minimum(up, -math.expm1(-epsilon) * (1 - u)))
