"""The only source of noise for released numbers: grids, scales, laws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from skdp._arrays import FloatArray, IntArray
from skdp._checks import check_count
from skdp.privacy.noise import _selection
from skdp.privacy.noise._rounding import (
    SeededEntropy,
    StandardGaussian,
    StandardLaplace,
    StandardLaw,
    SystemEntropy,
    exceeds,
    gamma,
    rounded_draws,
)

# A release is ``grid * (round(query / grid) + round(N / grid))``, where N is a
# *continuous* Gaussian, Laplace or spherical variable and both roundings are exact
# (`skdp.privacy.noise._rounding`). For a point x of the grid,
# ``x + round(N) = round(x + N)``, so the release is post-processing of the continuous
# mechanism applied to the query on the grid. So closed forms and pure epsilon hold for
# the released numbers, not only on paper. Moving the query to the grid can increase the
# distance of two neighbouring queries by ``sqrt(size) * grid`` (L2) or ``size * grid``
# (L1); this is charged to the sensitivity. The proofs are in ``docs/proofs/noise.md``.


# Grid points stay in the range in which a double can represent every integer. A query
# is clamped to this range before the noise, which is 1-Lipschitz, and a release after
# it, which is post-processing.
_QUERY_LIMIT = 2.0**51
_RELEASE_LIMIT = 2**52
# A draw is clamped only where its sum with any query exceeds the limit of releases.
_DRAW_LIMIT = 2 * _RELEASE_LIMIT
# Number of entries whose noise is drawn together, so that the data fit in the cache.
_DRAWN_TOGETHER = 1 << 18

# The grid is this fraction of the sensitivity after the dimension factor. If the noise
# is so large that its draws would leave the integers, the grid is a fraction of the
# noise, and costs more.
_GRID_COST = 2.0**-12
_FINEST = 2.0**-46
# For draws whose rounding is charged elsewhere at a higher cost. The grid is as fine as
# it can be while the fast path still decides nearly all draws.
_FINE_GRID_COST, _FINE_FINEST = 2.0**-26, 2.0**-32

# Assumed bound on the relative error of the random variance of spherical noise: a few
# units in the last place of logarithm, sum, root and product, and the digits of a
# uniform that are not drawn (2**-61).
_VARIANCE_ERROR = 2.0**-47
# Queries and releases with spherical noise are clamped to fewer grid points, since the
# cost of the error above grows with the norm of the visible noise.
_SPHERICAL_LIMIT = 2**46


@dataclass(frozen=True)
class NoiseScale:
    """Grid and scale of the noise for one query: public facts only.

    `grid` is the spacing of released values, a power of two, and `sigma` the scale of
    the continuous noise, both in units of the query: the standard deviation for the
    Gaussian law, the mean magnitude for Laplace.
    """

    grid: float
    sigma: float


def _grid(
    sensitivity: float,
    noise: float,
    norm: float,
    cost: float = _GRID_COST,
    finest: float = _FINEST,
) -> float:
    """A power of two, from the sensitivity, the noise and the norm of all ones."""
    step = max(cost * sensitivity / norm, finest * noise)
    if not 0 < step < math.inf:
        return math.nan  # refused by the caller
    return math.ldexp(1.0, math.frexp(step)[1] - 1)


def gaussian_scale(
    *, sensitivity: float, noise_multiplier: float, size: int, fine: bool = False
) -> NoiseScale:
    """Grid and sigma for a query of `size` numbers of L2 sensitivity `sensitivity`.

    `fine` selects the finest grid on which draws are still fast.
    """
    sensitivity, noise_multiplier = float(sensitivity), float(noise_multiplier)
    root = math.sqrt(size)
    noise = noise_multiplier * sensitivity
    grid = _grid(sensitivity, noise, root)
    if fine:
        grid = _grid(sensitivity, noise, root, _FINE_GRID_COST, _FINE_FINEST)
    # The last factor covers the rounding of this line and of the square root.
    charged = (sensitivity + root * grid) * (1 + 2.0**-48)
    return NoiseScale(grid, noise_multiplier * charged)


def share_ratio(scale: NoiseScale, n_shares: int) -> float:
    """Standard deviation of one of `n_shares` shares, in steps of the grid.

    Rounded up, so that `n_shares` shares have at least the variance of the whole.
    """
    return scale.sigma / scale.grid / math.sqrt(n_shares) * (1 + 2.0**-48)


def laplace_scale(*, sensitivity: float, epsilon: float, size: int) -> NoiseScale:
    """Grid and scale for a query of `size` numbers of L1 sensitivity `sensitivity`."""
    sensitivity, epsilon = float(sensitivity), float(epsilon)
    grid = _grid(sensitivity, sensitivity / epsilon, size)
    charged = (sensitivity + size * grid) * (1 + 2.0**-48)
    return NoiseScale(grid, charged / epsilon)


def spherical_reach(size: int) -> float:
    """Norm that a spherical draw of unit scale exceeds with probability exp(-800).

    It has a Gamma law of shape `size` [1]_.

    References
    ----------
    .. [1] Boucheron, Lugosi and Massart (2013). Concentration inequalities,
       section 2.4.
    """
    return size + math.sqrt(2 * size * 800.0) + 800.0


def spherical_scale(
    *, sensitivity: float, epsilon: float, size: int, fine: bool = False
) -> NoiseScale:
    """Grid and scale for a query of `size` numbers of L2 sensitivity `sensitivity`.

    The scale is that of the norm: the density is ``exp(-norm / sigma)``. A part of
    `epsilon` is set aside for the rounding of the random variance (proof page). `fine`
    is for a draw that is not added to a query.
    """
    sensitivity, epsilon = float(sensitivity), float(epsilon)
    root = math.sqrt(size)
    noise = sensitivity / epsilon
    grid = _grid(sensitivity, noise, root)
    if fine:
        # A draw that is not added to a query must never reach the clamp.
        finest = max(_FINE_FINEST * root, 4 * spherical_reach(size) / _SPHERICAL_LIMIT)
        grid = _grid(sensitivity, noise, root, _FINE_GRID_COST, finest)
    if math.isnan(grid):
        return NoiseScale(grid, math.nan)  # refused by the caller
    seen = root * 2 * _SPHERICAL_LIMIT * grid / noise
    farthest = spherical_reach(size) if fine else seen
    charged = (sensitivity + root * grid) * (1 + 2.0**-48)
    aside = 2 * _VARIANCE_ERROR * (size + farthest)
    if not aside < epsilon / 2:
        return NoiseScale(grid, math.nan)  # refused by the caller
    return NoiseScale(grid, charged / (epsilon - aside))


def spherical_is_possible(*, epsilon: float, size: int) -> bool:
    """Whether this noise can be drawn for a query of any sensitivity.

    It cannot if there are so many entries that rounding takes half of a small epsilon.
    Grids are powers of two, so the cost of rounding depends on the sensitivity; it is
    largest where the grid is as wide as wanted. The test uses a slightly smaller
    epsilon, since calibration and side releases leave that much less.
    """
    epsilon = epsilon / 1.02
    wanted = max(_GRID_COST / math.sqrt(size), _FINEST / epsilon)
    worst = (1 + 2.0**-40) / wanted
    scale = spherical_scale(sensitivity=worst, epsilon=epsilon, size=size)
    return math.isfinite(scale.sigma)


def selection_gaps(
    scores: FloatArray, *, sensitivity: float, epsilon: float
) -> list[Fraction]:
    """Distance of each score from the best, in units of 2 sensitivity / epsilon.

    Scores are put on the grid of a Laplace release of one number and clamped there, and
    the grid is charged to the sensitivity. NaN counts as the lowest score. Private.
    """
    steps, unit = _grid_gaps(scores, sensitivity, epsilon)
    return [int(gap) * unit for gap in steps]


def _grid_gaps(
    scores: FloatArray, sensitivity: float, epsilon: float
) -> tuple[IntArray, Fraction]:
    """Distance of each score from the best in grid steps, and the unit of a step."""
    scale = laplace_scale(sensitivity=sensitivity, epsilon=epsilon, size=1)
    _check_scale(scale)
    with np.errstate(all="ignore"):
        on_grid = np.rint(np.nan_to_num(scores, nan=-math.inf) / scale.grid)
    on_grid = np.clip(on_grid, -_QUERY_LIMIT, _QUERY_LIMIT).astype(np.int64)
    return on_grid.max() - on_grid, Fraction(scale.grid) / (2 * Fraction(scale.sigma))


def choice_unit(*, sensitivity: int, epsilon: float) -> Fraction:
    """E-folds in one step of an integer score.

    Rounded down, to cover the relative errors of the integer weights of levels.
    """
    return Fraction(epsilon) * (1 - Fraction(1, 2**48)) / (2 * sensitivity)


def choice_shift(*, sensitivity: int, epsilon: float) -> int:
    """Binary digits of a level, of more than half an e-fold and at most one."""
    steps = math.floor(1 / choice_unit(sensitivity=sensitivity, epsilon=epsilon))
    return min(max(steps.bit_length() - 1, 0), 62)


def _check_scale(scale: NoiseScale) -> None:
    if not (0 < scale.grid < math.inf and 0 < scale.sigma < math.inf):
        raise ValueError(
            "The noise must have a positive, finite scale. Got another sensitivity "
            "or multiplier. Nothing was released."
        )


class NoiseSource:
    """Adds the declared noise of a solver; no other code in skdp draws randomness.

    Without a seed it draws from the operating system and is private. A seed makes every
    draw reproducible, so the release is not private.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._entropy = SystemEntropy() if seed is None else SeededEntropy(seed)
        self.is_private = self._entropy.is_private

    def gaussian(
        self,
        query: FloatArray,
        *,
        sensitivity: float,
        noise_multiplier: float,
        fine: bool = False,
    ) -> FloatArray:
        """Release `query` with Gaussian noise.

        `query` is private; it is clamped to the range of the grid, and never refused.
        `sensitivity`, in the query's units, is in L2 under the declared adjacency, and
        `noise_multiplier` is sigma / sensitivity of the declared event. `fine` is for
        noise that is not added to a query; it selects the finest grid on which draws
        are still fast and never clamped. Released values are multiples of a public
        power of two.
        """
        scale = gaussian_scale(
            sensitivity=sensitivity,
            noise_multiplier=noise_multiplier,
            size=query.size,
            fine=fine,
        )
        return self._release(query, scale, StandardGaussian())

    def gaussian_share(
        self, query: FloatArray, scale: NoiseScale, n_shares: int
    ) -> IntArray:
        """`query` in steps of the grid, with one of `n_shares` shares of the noise.

        `n_shares` shares together have the noise of `gaussian`; one share alone is not
        a release of the declared event. `query` is private, and clamped as in
        `gaussian`; the sum of at most 512 results is below 2^63 in magnitude.
        """
        _check_scale(scale)
        on_grid = np.nan_to_num(np.rint(query / scale.grid))
        on_grid = np.clip(on_grid, -_QUERY_LIMIT, _QUERY_LIMIT).astype(np.int64)
        ratio = share_ratio(scale, n_shares)
        draws = rounded_draws(StandardGaussian(), ratio, query.size, self._entropy)
        # At least 2^6 standard deviations away: never reached, so sums cannot overflow.
        share: IntArray = on_grid + np.clip(draws, -_DRAW_LIMIT, _DRAW_LIMIT)
        return share

    def laplace(
        self, query: FloatArray, *, sensitivity: float, epsilon: float
    ) -> FloatArray:
        """Release `query` with Laplace noise; `sensitivity` is its L1 sensitivity."""
        scale = laplace_scale(sensitivity=sensitivity, epsilon=epsilon, size=query.size)
        return self._release(query, scale, StandardLaplace())

    def spherical(
        self,
        query: FloatArray,
        *,
        sensitivity: float,
        epsilon: float,
        fine: bool = False,
    ) -> FloatArray:
        """Release `query` with K-norm noise of density ``exp(-epsilon norm / S)``.

        Pure epsilon-DP for an L2 sensitivity S, jointly over all entries. The law is a
        Gaussian of random variance: with V from the Gamma law of shape
        ``(size + 1) / 2`` and scale 2, sqrt(V) times a standard Gaussian vector has
        density proportional to exp(-norm).

        `epsilon` is that of the declared event; the other parameters are as in
        `gaussian`.
        """
        size = query.size
        scale = spherical_scale(
            sensitivity=sensitivity, epsilon=epsilon, size=size, fine=fine
        )
        spread = math.sqrt(2 * gamma(size + 1, self._entropy))
        return self._release(query, scale, StandardGaussian(), spread, _SPHERICAL_LIMIT)

    def permute_and_flip(
        self, scores: FloatArray, *, sensitivity: float, epsilon: float
    ) -> int:
        """Index of a nearly best score: the permute-and-flip mechanism [1]_.

        Pure epsilon-DP if each score has this sensitivity. In a random order, the first
        score that is accepted with probability
        ``exp(-epsilon (max - score) / (2 sensitivity))``, decided exactly.

        `scores`, greater is better, are private and never refused: they are clamped to
        the range of the grid, and NaN counts as the lowest. `sensitivity` is the
        largest change of any one score by one record, and `epsilon` that of the
        declared event.

        References
        ----------
        .. [1] McKenna and Sheldon (2020). Permute-and-flip: a new mechanism for
           differentially private selection. NeurIPS.
        """
        gaps = selection_gaps(scores, sensitivity=sensitivity, epsilon=epsilon)
        order = self.permutation(len(gaps))
        return next(int(i) for i in order if self._accepts(gaps[i]))

    def exponential_mechanism(
        self, scores: FloatArray, *, sensitivity: float, epsilon: float
    ) -> int:
        """Index of a nearly best score: the exponential mechanism [1]_.

        Pure epsilon-DP if each score has this sensitivity; parameters as in
        `permute_and_flip`, whose expected score is never lower. Candidates are drawn
        and accepted with probability ``exp(-epsilon (max - score) / (2 sensitivity))``,
        in no more expected tries than there are candidates.

        References
        ----------
        .. [1] McSherry and Talwar (2007). Mechanism design via differential privacy.
           FOCS.
        """
        gaps = selection_gaps(scores, sensitivity=sensitivity, epsilon=epsilon)
        while True:
            candidate = int(self.integers(len(gaps), 1)[0])
            if self._accepts(gaps[candidate]):
                return candidate

    def top_k(
        self, scores: FloatArray, k: int, *, sensitivity: float, epsilon: float
    ) -> IntArray:
        """Indices of `k` nearly best scores, in the order of their selection.

        The exponential mechanism `k` times without replacement: the law of the `k`
        largest sums of a score and independent Gumbel noise of scale
        ``2 sensitivity / epsilon`` [1]_. Each selection is of epsilon-bounded range.
        Scores more than 64 of these scales below the best remaining score count as 64
        scales below it.

        `scores` and `sensitivity` are as in `permute_and_flip`, `k` is at most the
        number of scores, and `epsilon` is that of each of the `k` selections of the
        declared event.

        References
        ----------
        .. [1] Durfee and Rogers (2019). Practical differentially private top-k
           selection with pay-what-you-get composition. NeurIPS, Lemma 4.2.
        """
        steps, unit = _grid_gaps(scores, sensitivity, epsilon)
        k = check_count("k", k, high=len(steps))
        levels = _selection.Levels(steps, unit)
        drawn = [levels.draw(self._entropy, self._accepts) for _ in range(k)]
        return np.array(drawn, dtype=np.int64)

    def signed_choice(
        self, ranking: _selection.Ranking, *, sensitivity: int, epsilon: float
    ) -> tuple[int, int]:
        """A candidate j and a sign s of nearly largest ``s * scores[j]``, exactly.

        The exponential mechanism over both signs of all candidates: weights
        ``exp(epsilon * s * scores[j] / (2 * sensitivity))``, with no score cut off, in
        time that does not grow with their number. The choice has epsilon-bounded range.

        The scores of `ranking` are private, and integers, so nothing is rounded.
        `sensitivity`, at least 1, is the largest change of any one score by one record,
        and `epsilon` that of the declared event.
        """
        unit = choice_unit(sensitivity=sensitivity, epsilon=epsilon)
        return _selection.signed_choice(ranking, unit, self._entropy, self._accepts)

    def _accepts(self, gap: Fraction) -> bool:
        """True with probability exp(-gap): a Laplace magnitude exceeds the gap."""
        lead = int(self._entropy.words(1)[0]) >> 1
        return exceeds(StandardLaplace(), gap, [lead, 63], self._entropy)

    def permutation(self, n: int) -> IntArray:
        """A uniform order of 0, ..., n - 1, of shape (n,)."""
        return _selection.permutation(n, self._entropy)

    def subset(self, n: int, size: int) -> IntArray:
        """A uniform subset of {0, ..., n - 1} of a public size, in increasing order."""
        return _selection.subset(n, size, self._entropy)

    def poisson_sample(self, n: int, rate: float) -> IntArray:
        """Each of 0, ..., n - 1 independently with probability `rate`, increasing."""
        return _selection.poisson_sample(n, rate, self._entropy)

    def integers(self, n: int, size: int) -> IntArray:
        """Independent uniform draws from {0, ..., n - 1}, of shape (size,)."""
        return _selection.integers(n, size, self._entropy)

    def weighted_index(self, weights: Sequence[int]) -> int:
        """An index drawn with probability exactly proportional to its public weight."""
        return _selection.weighted_index(weights, self._entropy)

    def _release(
        self,
        query: FloatArray,
        scale: NoiseScale,
        law: StandardLaw,
        spread: float = 1.0,
        limit: int = _RELEASE_LIMIT,
    ) -> FloatArray:
        _check_scale(scale)
        # No query is refused: NaN becomes 0, for all data.
        on_grid = np.nan_to_num(np.rint(query.ravel() / scale.grid))
        on_grid = np.clip(on_grid, -limit / 2, limit / 2).astype(np.int64)
        ratio = spread * (scale.sigma / scale.grid)
        draws = np.empty(query.size, dtype=np.int64)
        for start in range(0, query.size, _DRAWN_TOGETHER):
            part = draws[start : start + _DRAWN_TOGETHER]
            part[:] = rounded_draws(law, ratio, part.size, self._entropy)
        # Draws are clamped so far out that the sum is clamped in the same way without
        # it: the release follows from the sum, and the query alone is never visible.
        np.clip(draws, -_DRAW_LIMIT, _DRAW_LIMIT, out=draws)
        released = np.clip(on_grid + draws, -limit, limit)
        return np.asarray(released * scale.grid, dtype=np.float64).reshape(query.shape)
