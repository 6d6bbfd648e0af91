"""The privacy loss of objective perturbation, bounded by one random variable.

Let a strongly convex objective plus a Gaussian linear term be minimised. In both orders
of a pair of neighbours, the privacy loss is stochastically at most

    Z = shift + max(0, G_1, ..., G_corners, H_1, ..., H_half),

G_i ~ N(mu^2/2, mu^2), H_j ~ N(mu^2/8, mu^2/4), with any dependence between them
(``docs/proofs/objective_perturbation.md``). A loss that is a sum over `outputs` has a
sum of such maxima, one for each output, with parameter mu / sqrt(outputs); these maxima
are independent of each other. With one corner and a bound `curvature` = kappa on the
change of curvature, a record's loss is also at most

    Z' = max over r in [0, 1] of kappa r (1 - r) + r m N + r^2 m^2 / 2,  m <= mu,

N ~ N(0, 1). Replaced by its tangent at r0, the curvature costs s0 = kappa r0^2 at r = 0
and s1 = kappa (1 - r0)^2 at r = 1, so that P(loss > t) <= P(s1 + G_1 > t) for t >= s0.
The two half corners of replace_one are at s1 + H_1 and s0 + H_2. Every r0 gives a
bound, and the smallest one is used. All these are *upper bound variables*: only their
upper tails, sums of independent ones, and E[(1 - exp(epsilon - Z))_+] have a meaning
(``docs/proofs/accounting.md``). They must never be inverted or tilted into the loss of
the other order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from skdp.privacy.accounting._gaussian import (
    gaussian_delta,
    gaussian_deltas,
    log_gaussian_deltas,
    smallest,
)

Array = NDArray[np.float64]

# Cells of the upper sums. The grid costs at most 25 / _CELLS of delta, and at most a
# tenth of that of the noise multiplier.
_CELLS = 2048
# Decades (base e) of the loss that an upper sum resolves; the rest is charged in full.
_REACH = 25.0
# Standard deviations of a Gaussian part beyond which its tail is charged in full.
_TAIL = 16.0
# Relative step of the grid in the search for a dominating mu, and the least relative
# excess of that mu over the mechanism's mu.
_STEP = 5e-4
_LEAST_EXCESS = 1e-4
# Bound on the relative rounding error of upper sums and of the logarithms below.
_SUM_ERROR = 1e-8
# Tangents of the curvature, by the lag (in units of mu) of the tail of one of two
# records behind the tail of both. One of them gives at most 1.3 times the best bound.
_LAGS = (0.0, 0.3, 0.7)
# Number of fractions of mu^2 that the sum over several outputs distinguishes.
_MOST_TERMS = 128
# Above this kappa / mu a tangent would lose digits and is not used. Budgets are far
# below it.
_MOST_KAPPA = 1e6
# Smaller changes of curvature are charged as this one.
_LEAST_CURVATURE = 1e-100
# A delta that is closer to 1 than this is treated as 1.
_RESOLVED = 1e-7


@dataclass(frozen=True)
class ObjectiveLoss:
    """The bound on the privacy loss, in both orders.

    `mu` is the sensitivity of the gradient sum over the sigma of the linear term, and
    `shift` a bound on the logarithm of the ratio of Jacobian determinants. The maximum
    is over `corners` variables of parameter mu and `half_corners` of parameter mu/2.
    `curvature` is kappa if the second bound holds, for zero_out or for replace_one.
    With several `outputs`, each has the corners, and `mu` is that of all outputs
    together.
    """

    mu: float
    shift: float
    corners: int
    half_corners: int
    curvature: float | None
    outputs: int = 1

    def survival(self, t: Array) -> Array:
        """Bound on P(loss > t), for every t."""
        bound = np.where(t < self.shift, 1.0, self._union(t - self.shift))
        if self.curvature is not None:
            bound = np.minimum(bound, self._curved(np.maximum(t, 0.0)))
        return np.where(t < 0, 1.0, np.minimum(1.0, bound * (1 + _SUM_ERROR)))

    def delta(self, epsilon: float, mu: float = 0.0) -> float:
        """Bound on the delta of the mechanism and a mu-GDP mechanism together.

        `mu` is that of all other releases, for example of noise on the output.
        """
        bounds = [1.0, self._union_delta(epsilon, mu)]
        if self._is_late(epsilon):
            bounds.append(self._late_delta(epsilon, mu))
        # Without another mechanism, these bounds use everything in `survival`.
        is_exact = self.curvature is None or self._is_late(epsilon)
        if mu > 0 or not is_exact:
            bounds.append(self._upper_sum(epsilon, mu))
        return min(bounds)

    def _union(self, t: Array) -> Array:
        whole = np.zeros(t.shape)
        for n, m in self._terms:
            whole += n * ndtr(m / 2 - t / m)
        return whole

    def _curved(self, t: Array) -> Array:
        """The smallest bound of all tangents on P(loss > t); 1 for t < kappa / 4."""
        bound = np.ones(t.shape)
        for s0, s1 in self._tangents(t):
            own = ndtr(self.mu / 2 - (t - s1) / self.mu)
            if self.half_corners:
                own += ndtr(self.mu / 4 - 2 * (t - s1) / self.mu)
                own += ndtr(self.mu / 4 - 2 * (t - s0) / self.mu)
            bound = np.minimum(bound, np.where(t < s0, 1.0, own))
        return bound

    def _tangents(self, t: Array) -> Iterator[tuple[Array, Array]]:
        """Costs (s0, s1) of the curvature at r = 0 and r = 1, chosen for each t.

        Both t - s0 and t - s1 grow with t, so bounds from them fall with t.
        """
        kappa = max(self.curvature or 0.0, _LEAST_CURVATURE)
        if kappa > _MOST_KAPPA * self.mu:
            return
        if not self.half_corners:
            touching = [np.sqrt(t / kappa)]  # the least s1 with s0 <= t
        else:
            # Without a lag the tails at s1 + G and s0 + H are equal.
            t = t + self.mu**2 / 4
            squares = [2 + (t - lag * self.mu) / kappa for lag in _LAGS]
            touching = [np.sqrt(np.maximum(x, 0.0)) - 1 for x in squares]
        for point in touching:
            r0 = np.clip(point * (1 - _SUM_ERROR), 0.5, 1.0)
            yield kappa * r0**2, kappa * (1 - r0) ** 2

    @property
    def _late_from(self) -> float:
        """The loss from which on the curvature costs nothing, for a single record."""
        return self.curvature or 0.0

    def _is_late(self, epsilon: float) -> bool:
        is_one = self.curvature is not None and not self.half_corners
        return is_one and epsilon >= self._late_from

    @property
    def _terms(self) -> tuple[tuple[float, float], ...]:
        """Gaussian variables of the union: their number and parameter."""
        if self.outputs > 1:
            counts = _output_counts(self.outputs, self.half_corners > 0)
            return tuple((n, self.mu * math.sqrt(share)) for n, share in counts)
        terms = (self.corners, self.mu), (self.half_corners, self.mu / 2)
        return tuple((float(n), m) for n, m in terms if n)

    @property
    def _n_terms(self) -> float:
        return math.fsum(n for n, _ in self._terms)

    @cached_property
    def _certain(self) -> float:
        """Below this point the union bound is 1, and so carries no information."""

        def is_informative(t: float) -> bool:
            return float(self._union(np.asarray(t))) <= 1

        if is_informative(0.0):
            return self.shift
        return self.shift + smallest(is_informative, 1e-3 * self.mu)

    def _union_delta(self, epsilon: float, mu: float) -> float:
        """Delta of the union; the positive part of a maximum is at most the sum."""
        if mu == 0:
            return self._union_alone(epsilon)
        left = epsilon - self.shift
        if left < 0:
            return 1.0
        parts = [n * gaussian_delta(math.hypot(m, mu), left) for n, m in self._terms]
        return math.fsum([*parts, gaussian_delta(mu, left)])

    def _union_alone(self, epsilon: float) -> float:
        certain = self._certain
        start = max(epsilon, certain) - self.shift
        late = math.fsum(n * gaussian_delta(m, start) for n, m in self._terms)
        if epsilon >= certain:
            return late
        # The loss is assumed to be at least `certain`.
        gap = epsilon - certain
        return -math.expm1(gap) + math.exp(gap) * min(1.0, late)

    def _late_delta(self, epsilon: float, mu: float) -> float:
        """Delta without a shift; the other mechanism's losses above the gap count 1."""
        gap = epsilon - self._late_from
        missed = float(ndtr(mu / 2 - gap / mu)) * (1 + _SUM_ERROR) if mu > 0 else 0.0
        return gaussian_delta(math.hypot(self.mu, mu), epsilon) + missed

    def _upper_sum(self, epsilon: float, mu: float) -> float:
        """E[g(epsilon - Z)]; g is the profile of mu-GDP, Z is rounded up to a grid."""
        start = max(0.0, epsilon - mu * (mu / 2 + _TAIL))
        t = np.concatenate(([0.0], np.linspace(start, self._end(epsilon), _CELLS)))
        # Rounding errors must not make the increasing function g(epsilon - t) fall.
        g = np.maximum.accumulate(gaussian_deltas(mu, epsilon - t))
        terms = np.append(np.diff(g), 1.0 - g[-1]) * self.survival(t)
        return float(g[0] + terms.sum()) * (1 + _SUM_ERROR)

    def _end(self, epsilon: float) -> float:
        """A loss above which losses contribute less than exp(-_REACH) of the rest."""
        survives = float(self.survival(np.asarray(epsilon))) * math.exp(-_REACH)
        share = max(survives / self._n_terms, 1e-300)
        quantile = self.mu * (self.mu / 2 - float(ndtri(share)))
        return min(self.shift + quantile, max(epsilon, self.shift) + _REACH) + self.mu

    def log_deltas(self, epsilons: Array) -> Array:
        """Logarithms of bounds on delta on an increasing grid, without underflow."""
        certain = self._certain
        start = np.maximum(epsilons, certain) - self.shift
        late = np.full(start.shape, -np.inf)
        for n, m in self._terms:
            late = np.logaddexp(late, math.log(n) + log_gaussian_deltas(m, start))
        gap = np.minimum(epsilons - certain, 0.0)
        early = -np.expm1(gap) + np.exp(gap) * np.exp(np.minimum(0.0, late))
        with np.errstate(divide="ignore"):
            bound = np.where(epsilons >= certain, late, np.log(early))
            if self.curvature is not None:
                bound = np.minimum(bound, self._curved_log_deltas(epsilons))
        return np.minimum(bound, 0.0)

    def _curved_log_deltas(self, epsilons: Array) -> Array:
        """The smallest bound of all tangents; below kappa, an integral of `survival`.

        The integrand is exp(epsilon - t) P(loss > t), summed from kappa down.
        """
        late_from = self._late_from
        bound = self._tangent_log_deltas(epsilons)
        n_early = int(np.count_nonzero(epsilons < late_from))
        ends = np.append(epsilons[:n_early], late_from)
        mass = -np.expm1(-np.diff(ends))
        survival = self.survival(ends)
        total = math.exp(float(self._tangent_log_deltas(ends[-1:])[0]))
        for i in reversed(range(n_early)):
            total = total * (1 - mass[i]) + survival[i] * mass[i]
            # A total near the smallest doubles would not be an upper bound.
            if total > 1e-280:
                bound[i] = min(bound[i], math.log(total) + _SUM_ERROR)
        return bound

    def _tangent_log_deltas(self, epsilons: Array) -> Array:
        bound = np.zeros(epsilons.shape)
        for s0, s1 in self._tangents(epsilons):
            is_valid = epsilons >= s0
            near, far = ((epsilons - s)[is_valid] for s in (s1, s0))
            own = log_gaussian_deltas(self.mu, near)
            if self.half_corners:
                own = np.logaddexp(own, log_gaussian_deltas(self.mu / 2, near))
                own = np.logaddexp(own, log_gaussian_deltas(self.mu / 2, far))
            bound[is_valid] = np.minimum(bound[is_valid], own)
        return bound


@lru_cache(maxsize=64)
def _output_counts(outputs: int, is_exchange: bool) -> tuple[tuple[float, float], ...]:
    """Weights of choices of corners in all outputs, by fraction of the largest mu^2.

    i outputs are at the corner of both records, j at a half corner and l at 0, where
    each output is with probability at most 1/2. The weight is outputs! / (i! j! l!) 2^j
    2^-l, for the fraction (i + j/4) / outputs. Under zero_out j is 0.
    """
    quarters = [0] * (4 * outputs + 1)
    for i in range(outputs + 1):
        for j in range(outputs - i + 1 if is_exchange else 1):
            ways = math.comb(outputs, i) * math.comb(outputs - i, j)
            quarters[4 * i + j] += ways * 2 ** (i + 2 * j)
    # Fractions are rounded up, so that there are few of them.
    step = math.ceil(4 * outputs / _MOST_TERMS)
    counts = []
    for high in range(4 * outputs, 0, -step):
        ways = sum(quarters[max(high - step, 0) + 1 : high + 1])
        if ways:
            counts.append((ways / 2**outputs, high / (4 * outputs)))
    return tuple(counts)


@lru_cache(maxsize=1024)
def dominating_mu(loss: ObjectiveLoss) -> float:
    """The smallest mu, rounded up, for which the mechanism is mu-GDP.

    The search uses a grid [0, end]. Between two points the mechanism's delta is at most
    its value at the left point, and that of the Gaussian at least its value at the
    right point. Beyond `end` that of the Gaussian is larger (``_tail_is_dominated``).
    """
    at_zero = loss.delta(0.0)
    if at_zero >= 1 - _RESOLVED:
        return math.inf
    # The distance of N(0, 1) and N(mu, 1) in total variation is 2 Phi(mu / 2) - 1.
    least = max(
        2 * float(ndtri((1 + at_zero) / 2)), loss.mu * (1 + _LEAST_EXCESS), 1e-12
    )
    end = max(least, loss.shift)
    while not _tail_is_dominated(loss, least, end):
        end *= 1.25
        if math.isinf(end):  # a shift far above the curvature
            return math.inf
    linear = np.arange(0.0, min(least, end), _STEP * least)
    n_ratios = math.ceil(math.log(max(end / least, 1.0)) / _STEP) + 1
    grid = np.concatenate((linear, np.geomspace(least, max(end, least), n_ratios)))
    needed = loss.log_deltas(grid)[:-1] + _SUM_ERROR

    def dominates(mu: float) -> bool:
        return bool(np.all(needed <= log_gaussian_deltas(mu, grid[1:])))

    return smallest(dominates, least) * (1 + _SUM_ERROR)


def _tail_is_dominated(loss: ObjectiveLoss, mu: float, end: float) -> bool:
    r"""Whether delta is below that of mu-GDP at every epsilon >= `end`.

    With nu^2 = mu^2 - loss.mu^2, mu-GDP is loss.mu-GDP composed with an independent
    N(nu^2/2, nu^2), which exceeds s with some probability p. So its delta is at least p
    delta_{loss.mu}(epsilon - s). At `end` it is checked that delta_{loss.mu}(epsilon -
    shift) times the number of corners is at most this. For s >= shift this then also
    holds for larger epsilon, because the logarithm of delta is concave.
    """
    if loss._is_late(end):
        return True
    nu = math.sqrt(mu**2 - loss.mu**2)
    step = loss.shift + nu
    chance = float(ndtr(nu / 2 - step / nu))
    if chance < 1e-280 or end < step:
        return False
    ours = math.log(loss._n_terms) + _SUM_ERROR
    ours += float(log_gaussian_deltas(loss.mu, np.asarray(end - loss.shift)))
    theirs = float(log_gaussian_deltas(loss.mu, np.asarray(end - step)))
    return ours <= math.log(chance) + theirs
