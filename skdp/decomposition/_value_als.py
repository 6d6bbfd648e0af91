r"""Noisy statistics of ratings for which who rated what is public.

Algorithm: with residuals ``d_ui = clip(r_ui - prediction, -c, c)`` against what has
been released, and rows x_i, z_u of norm at most 1 made from the pattern and from what
has been released,

1. ``T = sum_ui d_ui z_u x_i' + N`` for points z, x of the pattern alone: a small matrix M
   explains ratings by ``z_u' M x_i``;
2. ``t_i = sum_u d_ui z_u + N`` for every item, with z from step 1: item rows;
3. ``t_u = sum_i d_ui x_i + N`` for every user, with x from steps 1 and 2: user rows.

Each is a half-step of alternating least squares whose linear terms alone need noise:
the Gram matrices are those of public rows over public pairs. The rows are posterior
means for normal priors and noise of known size, so what noise drowns is left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from skdp._validation import check_count, check_real
from skdp.decomposition._factorizer import PrivateFactorizer
from skdp.decomposition._factors import Factors
from skdp.decomposition._low_rank import LowRank
from skdp.decomposition._noisy_rows import ClippedNormal, product_gram, row_grams
from skdp.decomposition._pattern_embedding import (
    incidence,
    pattern_embedding,
    values_of,
)
from skdp.decomposition._ratings import Pattern, Ratings
from skdp.decomposition._task import Task
from skdp.privacy._accounting import Budget
from skdp.privacy._adjacency import Unit
from skdp.privacy._events import ComposedEvent, Event, GaussianEvent
from skdp.privacy._noise import NoiseSource, gaussian_scale
from skdp.solvers._base import Progress
from skdp.solvers._configured import Checks

FloatArray = NDArray[np.float64]

# Shares of mu^2: the first query if it has points to explain ratings by, or if it has
# only the mean to find; of the rest, users, of whom there are more.
_PATTERN_SHARE, _MEAN_SHARE, _USER_SHARE = 0.15, 0.01, 0.58
# Everything below is in units of the width of the rating bounds.
_FIRST_CLIP = 0.375  # residuals of the first query, which has little to start from
_DEVIATION = 0.225  # of residuals
_PATTERN_DEVIATION = 0.18  # prior: of entries of M
_ITEM_BIAS, _USER_BIAS = 0.05, 0.09  # prior: biases beyond those of the first query
_ITEM_TASTE, _USER_TASTE = 0.0375, 0.0625  # prior: all other terms of a row together
# Length of the constant in rows of norm 1, in the first query and in the others.
_FIRST_CONSTANT, _CONSTANT = 0.5, 0.75
_UNIT_ROUNDOFF = 2.0**-53


@dataclass(frozen=True, kw_only=True)
class ValueALS(PrivateFactorizer):
    r"""Private factorisation under ``privacy_unit="rating_value"``.

    Privacy
    -------
    The value of one rating changes; who rated what is public. Three adaptive Gaussian
    releases with fixed shares of mu^2: exactly mu-GDP. Everything the predictions are
    made of may be published. The L2 sensitivity of each is twice the bound on clipped
    residuals; derived in ``docs/proofs/mf_rating_value.md``.

    Utility
    -------
    K coefficients that share n ratings equally, each determined from a statistic of
    sensitivity S with noise S / mu, add ``(K S / (n mu))^2`` to the mean squared error
    before shrinkage. The first query has few coefficients, so it is all but free; the
    others have a prior that leaves out what noise would drown.

    Parameters
    ----------
    n_embedding : int in [0, 60] or None, default=None
        Dimensions of the points that users and items have from the pattern alone.
        None: ``0.7 n^0.3``, at most 40.
    rank : int in [0, 60] or None, default=None
        Factors of the item rows and of the user rows, beside a bias. None: 10.
    residual_clip : float in (0, 0.5] or None, default=None
        Bound on residuals in the last two queries, in units of the width of the
        rating bounds. None: 0.2.
    prior_scale : float in (0, 100], default=1.0
        Multiplies all standard deviations of the prior: smaller shrinks more. It
        stands for the task's alpha, which is not used.

    Notes
    -----
    The factors inside have rank ``n_embedding + 2 rank + 2``, whatever is asked for;
    the best `n_components` of them for the pattern are returned, beside the biases.

    References
    ----------
    .. [1] Zhou, Wilkinson, Schreiber and Pan (2008). Large-scale parallel
       collaborative filtering for the Netflix prize. AAIM. (the half-steps)
    .. [2] Foulds, Geumlek, Welling and Chaudhuri (2016). On the theory and practice
       of privacy-preserving Bayesian data analysis. UAI.
       https://arxiv.org/abs/1603.07294 (noisy sufficient statistics)
    .. [3] Bernstein and Sheldon (2019). Differentially private Bayesian linear
       regression. NeurIPS. https://arxiv.org/abs/1910.13153 (noise in the posterior)
    .. [4] Dong, Roth and Su (2022). Gaussian differential privacy, Corollary 3.3.
       https://arxiv.org/abs/1905.02383
    """

    key: ClassVar[str] = "als"
    unit: ClassVar[Unit] = "rating_value"
    checks: ClassVar[Checks] = {
        "n_embedding": partial(check_count, low=0, high=60),
        "rank": partial(check_count, low=0, high=60),
        "residual_clip": partial(check_real, low=0.0, high=0.5, low_open=True),
        "prior_scale": partial(check_real, low=0.0, high=100.0, low_open=True),
    }

    n_embedding: int | None = None
    rank: int | None = None
    residual_clip: float | None = None
    prior_scale: float = 1.0

    def resolve(self, task: Task, budget: Budget) -> Self:
        embedding = min(40, round(0.7 * len(_pattern(task)) ** 0.3))
        return replace(
            self,
            n_embedding=embedding if self.n_embedding is None else self.n_embedding,
            rank=10 if self.rank is None else self.rank,
            residual_clip=0.2 if self.residual_clip is None else self.residual_clip,
        )

    @property
    def shares(self) -> tuple[float, float, float]:
        """Of mu^2, for the three releases."""
        first = _PATTERN_SHARE if self.n_embedding else _MEAN_SHARE
        users = (1 - first) * _USER_SHARE
        return first, 1 - first - users, users

    def event(self, noise_multiplier: float, task: Task) -> Event:
        multipliers = [noise_multiplier / math.sqrt(share) for share in self.shares]
        return ComposedEvent(tuple(GaussianEvent(each) for each in multipliers))

    def sensitivity(self, task: Task) -> float:
        assert self.residual_clip is not None, "resolve() fills in the clip"
        return _sensitivity(max(_FIRST_CLIP, self.residual_clip) * _width(task), task)

    def run(
        self,
        ratings: Ratings,
        task: Task,
        noise_multiplier: float,
        noise: NoiseSource,
        rng: np.random.RandomState,
        progress: Progress,
    ) -> Factors:
        assert self.n_embedding is not None, "resolve() fills in the embedding"
        assert self.rank is not None, "resolve() fills in the rank"
        assert self.residual_clip is not None, "resolve() fills in the clip"
        pattern, width = _pattern(task), _width(task)
        scale = self.prior_scale * width
        queries = _Queries(ratings, task, noise, noise_multiplier)
        shares = self.shares
        points = pattern_embedding(pattern, self.n_embedding, rng)
        left, right = (_with_constant(rows, _FIRST_CONSTANT) for rows in points)
        clip = _FIRST_CLIP * width
        deviation = _PATTERN_DEVIATION * scale
        matrix = queries.product(left, right, clip, shares[0], deviation)
        model = queries.start.plus(left @ matrix, right)
        progress.step(1, 3)

        clip = self.residual_clip * width
        users, _, values = model.principal(pattern, self.rank)
        rows = _rows(users * np.sqrt(values), pattern.by_user.counts)
        prior = _prior(
            rows, _ITEM_BIAS * scale, _ITEM_TASTE * scale, pattern.by_user.counts
        )
        items = queries.of_items(model, rows, clip, shares[1], prior)
        model = model.plus(rows, items)
        progress.step(2, 3)

        _, items, values = model.principal(pattern, self.rank)
        rows = _rows(items * np.sqrt(values), pattern.by_item.counts)
        prior = _prior(
            rows, _USER_BIAS * scale, _USER_TASTE * scale, pattern.by_item.counts
        )
        users = queries.of_users(model, rows, clip, shares[2], prior)
        model = model.plus(users, rows)
        progress.step(3, 3)
        return model.factors(pattern, task)


class _Queries:
    """The only reader of the values: noisy sums of clipped residuals.

    Parameters
    ----------
    ratings, task, noise, noise_multiplier
        As `ValueALS.run` got them.
    """

    def __init__(
        self, ratings: Ratings, task: Task, noise: NoiseSource, noise_multiplier: float
    ) -> None:
        self._ratings, self._task = ratings, task
        self._noise, self._multiplier = noise, noise_multiplier
        self._pairs = incidence(ratings.pattern)
        low, high = _bounds(task)
        # Predicts the middle of the bounds.
        self.start = LowRank(
            np.full((task.n_users, 1), low / 2 + high / 2), np.ones((task.n_items, 1))
        )

    def product(
        self,
        left: FloatArray,
        right: FloatArray,
        clip: float,
        share: float,
        deviation: float,
    ) -> FloatArray:
        """The matrix M of ``left M right'``, all its entries of one prior deviation."""
        sums = left.T @ (self._residuals(self.start, clip) @ right)
        released, sigma = self._release(sums.reshape(1, -1), clip, share)
        gram = product_gram(self._pairs, left, right)
        prior = np.full(sums.size, deviation**2)
        return self._law(clip).rows(gram, released, prior, sigma).reshape(sums.shape)

    def of_items(
        self,
        model: LowRank,
        rows: FloatArray,
        clip: float,
        share: float,
        prior: FloatArray,
    ) -> FloatArray:
        """Item rows that explain by the users' `rows` what `model` leaves."""
        residuals = self._residuals(model, clip).T @ rows
        released, sigma = self._release(residuals, clip, share)
        gram = row_grams(self._pairs.T.tocsr(), rows)
        return self._law(clip).rows(gram, released, prior, sigma)

    def of_users(
        self,
        model: LowRank,
        rows: FloatArray,
        clip: float,
        share: float,
        prior: FloatArray,
    ) -> FloatArray:
        """User rows that explain by the items' `rows` what `model` leaves."""
        residuals = self._residuals(model, clip) @ rows
        released, sigma = self._release(residuals, clip, share)
        gram = row_grams(self._pairs, rows)
        return self._law(clip).rows(gram, released, prior, sigma)

    def _residuals(self, model: LowRank, clip: float) -> csr_matrix:
        pattern = self._ratings.pattern
        values = np.asarray(self._ratings.values, dtype=np.float64)
        # Within twice the clip of each other whatever the values are.
        return values_of(pattern, np.clip(values - model.predict(pattern), -clip, clip))

    def _release(
        self, sums: FloatArray, clip: float, share: float
    ) -> tuple[FloatArray, float]:
        """The sums with noise, and its standard deviation."""
        sensitivity = _sensitivity(clip, self._task)
        multiplier = self._multiplier / math.sqrt(share)
        released = self._noise.gaussian(
            sums, sensitivity=sensitivity, noise_multiplier=multiplier
        )
        scale = gaussian_scale(
            sensitivity=sensitivity, noise_multiplier=multiplier, size=sums.size
        )
        return released, scale.sigma

    def _law(self, clip: float) -> ClippedNormal:
        return ClippedNormal(_DEVIATION * _width(self._task), clip)


def _sensitivity(clip: float, task: Task) -> float:
    """Of sums of residuals within `clip` times rows of norm 1: Lemmas 1 and 3."""
    pattern = _pattern(task)
    longest = max(
        pattern.by_user.counts.max(initial=0), pattern.by_item.counts.max(initial=0)
    )
    terms = longest + max(pattern.n_users, pattern.n_items) + 256
    return 2 * clip * (1 + 2 * len(pattern) * terms * _UNIT_ROUNDOFF)


def _with_constant(rows: FloatArray, constant: float) -> FloatArray:
    """Rows of norm at most 1 made longer by one entry, their norm kept at most 1."""
    if not rows.shape[1]:
        return np.ones((len(rows), 1))
    rest = math.sqrt(1 - constant**2)
    return np.column_stack([np.full(len(rows), constant), rest * rows])


def _rows(factors: FloatArray, counts: NDArray[np.int64]) -> FloatArray:
    """Rows of norm at most 1 with a constant in front, those of few ratings shorter.

    Rows longer than is usual for a rating are shortened: it is they that the noise
    would be made for.
    """
    squares = np.sum(factors * factors, axis=1)
    usual = math.sqrt(np.average(squares, weights=np.maximum(counts, 1)))
    norms = np.maximum(np.sqrt(squares), max(usual, 1e-300))
    return _with_constant(factors / norms[:, None], _CONSTANT)


def _prior(
    rows: FloatArray, bias: float, taste: float, counts: NDArray[np.int64]
) -> FloatArray:
    """Variances by which a bias and a taste of these deviations are explained."""
    variances = np.full(rows.shape[1], (bias / rows[0, 0]) ** 2)
    squares = np.sum(rows[:, 1:] ** 2, axis=1)
    energy = float(np.average(squares, weights=np.maximum(counts, 1)))
    variances[1:] = taste**2 / energy if energy > 0 else 0.0
    return variances


def _pattern(task: Task) -> Pattern:
    assert task.pattern is not None, "the pattern is public under this unit"
    return task.pattern


def _bounds(task: Task) -> tuple[float, float]:
    assert task.rating_bounds is not None, "refusal() asks for bounds"
    return task.rating_bounds


def _width(task: Task) -> float:
    low, high = _bounds(task)
    return high - low
