"""Noisy alternating least squares that protects the value of each rating."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.utils import check_random_state

from skdp._arrays import UNIT_ROUNDOFF, FloatArray, IntArray
from skdp._checks import check_count, check_real
from skdp._configured import Checks, Given
from skdp._fit import Progress
from skdp.decomposition._factorize import Draws, PrivateFactorizer
from skdp.decomposition._ratings import Factors, Order, Pattern, RatingSource, Task
from skdp.decomposition._user_als import ClippedNormal, LowRank, product_gram, row_grams
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._gaussian import gaussian_mu
from skdp.privacy.accounting._relations import Unit
from skdp.privacy.release._answers import Answers
from skdp.privacy.release._plan import Bound, Layout, Line, Plan

# ------------------------------------------------------------- Embedding of the pattern
# Users and items are points that follow from the pattern of ratings alone: which users
# rate an item says much about how it is liked. Where the pattern is public, the points
# are public too, and a few private numbers then explain a rating.


# Extra columns and passes of the subspace iteration.
_EXTRA, _PASSES = 8, 6


def pattern_embedding(
    pattern: Pattern, k: int, rng: Draws
) -> tuple[FloatArray, FloatArray]:
    """Leading singular vectors of the 0-1 matrix of pairs, as unit rows.

    Rows are ``U S`` and ``V S`` of the truncated decomposition, scaled to norm 1: they
    show a user's tastes, not the user's activity. Ids without a rating are zeros.

    Columns of the `k` beyond the smaller number of ids are zeros; `rng` is for the
    start of the iteration.

    Returns
    -------
    users, items : ndarrays of shape (n_users, k) and (n_items, k)
    """
    pairs = incidence(pattern)
    columns = min(k + _EXTRA, *pairs.shape)
    right = rng.standard_normal((pairs.shape[1], columns))
    for _ in range(_PASSES):
        left = np.linalg.qr(pairs @ right)[0]
        right = np.linalg.qr(pairs.T @ left)[0]
    left, values, turn = np.linalg.svd(pairs @ right, full_matrices=False)
    users, items = np.zeros((pairs.shape[0], k)), np.zeros((pairs.shape[1], k))
    kept = min(k, columns)
    users[:, :kept] = (left * values)[:, :kept]
    items[:, :kept] = (right @ turn.T * values)[:, :kept]
    return unit_rows(users), unit_rows(items)


def incidence(pattern: Pattern) -> csr_matrix:
    """The matrix with 1 where a user rated an item."""
    return values_of(pattern, np.ones(len(pattern)))


def values_of(pattern: Pattern, values: FloatArray) -> csr_matrix:
    """The sparse matrix of values, one for each pair."""
    order = pattern.by_user
    shape = (pattern.n_users, pattern.n_items)
    return csr_matrix((values[order.pairs], order.others, order.starts), shape=shape)


def unit_rows(rows: FloatArray, least: float = 1e-12) -> FloatArray:
    """Rows scaled to norm 1; rows shorter than `least` of the longest stay shorter."""
    norms = np.linalg.norm(rows, axis=1)
    floor = max(least * norms.max(initial=0.0), 1e-300)
    return np.asarray(rows / np.maximum(norms, floor)[:, None])


# ---------------------------------------------------------------- Parts of a prediction
# One noisy query is about each part, and all parts are fitted together.


class PredictionPart(Protocol):
    """Coefficients, and rows of norm at most 1 by which predictions depend on them."""

    def shape(self, pattern: Pattern) -> tuple[int, int]:
        """Shape of the coefficients: (n_rows, d)."""

    def sums(self, residuals: csr_matrix) -> FloatArray:
        """Residuals times rows, summed by coefficient, of shape (n_rows, d)."""

    def gram(self, pairs: csr_matrix) -> FloatArray:
        """Gram matrices of the rows, of shape (n_rows, d, d)."""

    def predictions(self, coef: FloatArray) -> LowRank:
        """Predictions by coefficients of shape (n_rows, d)."""


@dataclass(frozen=True)
class Bilinear:
    """One matrix M for all: ``users @ M @ items.T``."""

    users: FloatArray
    items: FloatArray

    def shape(self, pattern: Pattern) -> tuple[int, int]:
        return 1, self.users.shape[1] * self.items.shape[1]

    def sums(self, residuals: csr_matrix) -> FloatArray:
        return np.asarray((self.users.T @ (residuals @ self.items)).reshape(1, -1))

    def gram(self, pairs: csr_matrix) -> FloatArray:
        return product_gram(pairs, self.users, self.items)

    def predictions(self, coef: FloatArray) -> LowRank:
        shape = self.users.shape[1], self.items.shape[1]
        return LowRank(self.users @ coef.reshape(shape), self.items)


@dataclass(frozen=True)
class ItemRows:
    """A row for every item, given rows of the users."""

    users: FloatArray

    def shape(self, pattern: Pattern) -> tuple[int, int]:
        return pattern.n_items, self.users.shape[1]

    def sums(self, residuals: csr_matrix) -> FloatArray:
        return np.asarray(residuals.T @ self.users)

    def gram(self, pairs: csr_matrix) -> FloatArray:
        return row_grams(pairs.T.tocsr(), self.users)

    def predictions(self, coef: FloatArray) -> LowRank:
        return LowRank(self.users, coef)


@dataclass(frozen=True)
class UserRows:
    """A row for every user, given rows of the items."""

    items: FloatArray

    def shape(self, pattern: Pattern) -> tuple[int, int]:
        return pattern.n_users, self.items.shape[1]

    def sums(self, residuals: csr_matrix) -> FloatArray:
        return np.asarray(residuals @ self.items)

    def gram(self, pairs: csr_matrix) -> FloatArray:
        return row_grams(pairs, self.items)

    def predictions(self, coef: FloatArray) -> LowRank:
        return LowRank(coef, self.items)


@dataclass(frozen=True)
class Release:
    """The noisy sums of a part.

    `sums` are the result of `part.sums`, with noise of standard deviation `sigma`.
    `law` is the distribution of the summed residuals, and `before`, of shape
    (n_ratings,), the predictions from which residuals were taken. `prior` has the
    variances of a row of coefficients.
    """

    part: PredictionPart
    sums: FloatArray
    sigma: float
    law: ClippedNormal
    prior: FloatArray
    before: FloatArray


class Fit:
    """All parts so far, at first none with predictions of 0; reads no rating."""

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self._pairs = incidence(pattern)
        self._releases: list[tuple[Release, FloatArray]] = []
        self._parts: list[LowRank] = []
        self._predicted: list[FloatArray] = []
        self.predictions = np.zeros(len(pattern))

    @property
    def model(self) -> LowRank:
        return reduce(LowRank.plus, self._parts)

    def add(self, release: Release) -> None:
        """Fit one more part to the residuals of the others."""
        gram = release.part.gram(self._pairs)
        self._releases.append((release, gram))
        self._parts.append(self._rows(release, gram))
        self._predicted.append(self._parts[-1].predict(self._pattern))
        self.predictions = self.predictions + self._predicted[-1]

    def sweep(self) -> None:
        """Fit every part again to the residuals of the others as they are now.

        A change of the other parts since a query is subtracted from the query's sums.
        """
        for j, (release, gram) in enumerate(self._releases):
            self.predictions = self.predictions - self._predicted[j]
            self._parts[j] = self._rows(release, gram)
            self._predicted[j] = self._parts[j].predict(self._pattern)
            self.predictions = self.predictions + self._predicted[j]

    def _rows(self, release: Release, gram: FloatArray) -> LowRank:
        since = values_of(self._pattern, self.predictions - release.before)
        sums = release.sums - release.law.slope * release.part.sums(since)
        coef = release.law.rows(gram, sums, release.prior, release.sigma)
        return release.part.predictions(coef)


# ------------------------------------------------------------ Sums of clipped residuals
# They require a public pattern. Ratings are measured from the middle of their bounds in
# units of the bounds' width, so that no choice of units overflows. Proofs:
# ``docs/proofs/ratings.md``.


@dataclass(frozen=True, eq=False)
class RatingValues:
    """Values from which residuals are taken, and their units.

    `pattern` is public, and `bounds` are those of the ratings.
    """

    pattern: Pattern
    bounds: tuple[float, float]

    def read(self, source: RatingSource) -> FloatArray:
        """Values in the units of the queries, pair by pair. Private."""
        low, high = self.bounds
        values = np.asarray(source.ratings.values, dtype=np.float64)
        return np.asarray((values - (low / 2 + high / 2)) / (high - low))


@dataclass(frozen=True, eq=False)
class ResidualSum:
    """A part's sums of residuals from released predictions.

    Residuals, clipped to `clip`, are multiplied by the rows of `part`, which have norm
    at most 1 and are public by now; `predictions`, of shape (n_ratings,), are in the
    units of the queries.
    """

    family: RatingValues
    part: PredictionPart
    predictions: FloatArray
    clip: float

    @property
    def shape(self) -> tuple[int, ...]:
        return self.part.shape(self.family.pattern)

    def bound(self) -> Bound:
        return Bound(rating_value=2 * self.clip)

    def slack(self, layout: Layout) -> float:
        # The difference, so that bound and slack add up to exactly this number.
        whole = residual_sensitivity(self.clip, self.family.pattern)
        return whole - 2 * self.clip

    def open(self, source: RatingSource) -> FloatArray:
        return self.family.read(source)

    def total(self, reader: FloatArray, rows: IntArray | None) -> FloatArray:
        residuals = clipped(reader - self.predictions, self.clip)
        return self.part.sums(values_of(self.family.pattern, residuals))


def clipped(residuals: FloatArray, clip: float) -> FloatArray:
    """Residuals that differ by at most twice the clip, whatever the values were."""
    return np.clip(residuals, -clip, clip)


def residual_sensitivity(clip: float, pattern: Pattern) -> float:
    """Sensitivity of sums of residuals within `clip` times unit rows: Lemmas 5, 6."""
    longest = max(
        pattern.by_user.counts.max(initial=0), pattern.by_item.counts.max(initial=0)
    )
    terms = int(longest) + max(pattern.n_users, pattern.n_items) + 256
    return 2 * clip * (1 + 4 * len(pattern) * terms * UNIT_ROUNDOFF)


# ----------------------------------------------------------------------------- ValueALS
# Noisy alternating least squares, for ratings whose values alone are private.
# Algorithm: with residuals ``d_ui = clip(r_ui - prediction, -c, c)`` against what has
# been released, and rows x_i, z_u of norm at most 1 made from the pattern and from what
# has been released,
#
# 1. ``sum_ui d_ui z_u x_i' + N`` for points z, x of the pattern alone: a small
#    matrix M explains ratings by ``z_u' M x_i``;
# 2. ``sum_u d_ui z_u + N`` for every item: item rows;
# 3. ``sum_i d_ui x_i + N`` for every user: user rows; and 2, 3 again.
#
# Each is a half-step of alternating least squares whose linear terms alone need noise:
# the Gram matrices are those of public rows over public pairs. The rows are posterior
# means for normal priors and noise of known size, so what noise drowns is left out. At
# the end each part is fitted again, from the same releases, to what the others leave.


# Shares of mu^2: of the first query, if points can explain ratings, or if it only has
# the mean to find; and the users' share of the rest, since there are more users than
# items.
_PATTERN_SHARE, _MEAN_SHARE, _USER_SHARE = 0.15, 0.01, 0.58
# Everything below is in units of the width of the rating bounds.
_FIRST_CLIP = 0.375  # residuals of the first query, which has little to start from
_DEVIATION = 0.225  # of residuals
_PATTERN_DEVIATION = 0.18  # prior: of entries of M
_ITEM_BIAS, _USER_BIAS = 0.05, 0.09  # prior: biases beyond what the points explain
_WHOLE_ITEM_BIAS, _WHOLE_USER_BIAS = 0.11, 0.11  # prior: biases if there are none
_ITEM_TASTE, _USER_TASTE = 0.0375, 0.0625  # prior: all other terms of a row together
# Length of the constant in rows of norm 1, in the first query and in later ones.
_FIRST_CONSTANT, _CONSTANT = 0.5, 0.75
_COMPONENTS = 10  # returned; more were no better on validation parts


@dataclass(frozen=True, kw_only=True)
class ValueALS(PrivateFactorizer):
    """Private factorisation under ``privacy_unit="rating_value"``.

    Use it where the rated pairs are public and the values are not; ``solver="auto"``
    takes it. MovieLens 1M has 0.8986 at epsilon 1, noisy means 0.9306, biases without
    privacy 0.9118. If pairs say nothing about taste (items shown at random), set
    ``rank=0``. It refuses ``delta=0``, and `alpha`, since the penalties follow from the
    noise.

    Parameters
    ----------
    n_embedding : int in [0, 60] or None, default=None
        Dimensions of the points that users and items have from the pattern alone. None:
        ``0.7 n^0.3``, at most 40.
    n_rounds : int in [0, 100], default=2
        Half-steps for items and for users.
    rank : int in [0, 60], default=10
        Factors of each half-step, beside the biases.
    residual_clip : float in (0, 0.5] or None, default=None
        Bound on residuals, in units of the width of the rating bounds. None:
        ``0.19 + 0.06 mu``, at most 0.3.
    prior_scale : float in [1e-6, 100], default=1.0
        Multiplies the standard deviations of the prior; smaller shrinks more.

    Notes
    -----
    Released are ``1 + 2 n_rounds`` adaptive Gaussian sums with fixed budget fractions:
    exactly mu-GDP for the value of one rating, with L2 sensitivity twice the clip.
    Proof: ``docs/proofs/ratings.md``, Theorem 1. The first query has few coefficients
    (``(k + 1)^2`` in place of one for every id), so that it is nearly free. The fit has
    rank ``n_embedding + 2 + 2 n_rounds (rank + 1)``, cut to `n_components` (10).

    References
    ----------
    .. [1] Zhou, Wilkinson, Schreiber and Pan (2008). Large-scale parallel collaborative
       filtering for the Netflix prize. AAIM.
    .. [2] Foulds, Geumlek, Welling and Chaudhuri (2016). On the theory and practice of
       privacy-preserving Bayesian data analysis. UAI. https://arxiv.org/abs/1603.07294
    .. [3] Bernstein and Sheldon (2019). Differentially private Bayesian linear
       regression. NeurIPS. https://arxiv.org/abs/1910.13153
    """

    key: ClassVar[str] = "als"
    unit: ClassVar[Unit] = "rating_value"
    sensitivity_unit: ClassVar[str] = "the width of rating_bounds"
    checks: ClassVar[Checks] = {
        "n_embedding": partial(check_count, low=0, high=60),
        "n_rounds": partial(check_count, low=0, high=100),
        "rank": partial(check_count, low=0, high=60),
        "residual_clip": partial(check_real, low=1e-6, high=0.5),
        "prior_scale": partial(check_real, low=1e-6, high=100.0),
    }

    n_embedding: int
    n_rounds: int = 2
    rank: int = 10
    residual_clip: float
    prior_scale: float = 1.0

    @classmethod
    def planned(cls, given: Given, task: Task, budget: Budget) -> Self:
        cls.check(task, budget)
        mu = gaussian_mu(budget.epsilon, budget.delta)
        rules: dict[str, Any] = {
            "n_embedding": min(40, round(0.7 * len(task.public_pattern) ** 0.3)),
            "residual_clip": min(0.3, 0.19 + 0.06 * mu),
        }
        return cls(**{**rules, **given})

    @classmethod
    def default_components(cls, given: Given, task: Task, budget: Budget) -> int:
        return _COMPONENTS

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of mu^2 of each release."""
        if not self.n_rounds:
            return (1.0,)
        first = _PATTERN_SHARE if self.n_embedding else _MEAN_SHARE
        rest = (1 - first) / self.n_rounds
        users = rest * _USER_SHARE
        return (first, *(rest - users, users) * self.n_rounds)

    def plan(self, task: Task) -> Plan:
        return Plan(tuple(Line(mu_share=share) for share in self.shares))

    def sensitivity(self, task: Task) -> float:
        """Largest sensitivity of one query, in units of the rating bounds' width."""
        clip = max(_FIRST_CLIP, self.residual_clip) if self.n_rounds else _FIRST_CLIP
        return residual_sensitivity(clip, task.public_pattern)

    def bias_noise(self, task: Task, budget: Budget) -> float:
        """Noise in a bias of users or of items, whichever are fewer."""
        mu = gaussian_mu(budget.epsilon, budget.delta)
        ratings_each = len(task.public_pattern) / min(task.n_users, task.n_items)
        return 2 * self.residual_clip / (mu * ratings_each)

    def run(self, answers: Answers, task: Task, progress: Progress, /) -> Factors:
        pattern, n_queries = task.public_pattern, len(self.shares)
        values = RatingValues(pattern, task.declared_bounds)
        fit = Fit(pattern)

        draws = check_random_state(task.seed)
        points = pattern_embedding(pattern, self.n_embedding, draws)
        rows = [_with_constant(each, _FIRST_CONSTANT) for each in points]
        size, scale = rows[0].shape[1] * rows[1].shape[1], self.prior_scale
        prior = np.full(size, (_PATTERN_DEVIATION * scale) ** 2)
        query = ResidualSum(values, Bilinear(*rows), fit.predictions, _FIRST_CLIP)
        fit.add(_release(answers, query, prior, line=0))
        progress.step(1, n_queries)

        for t in range(1, n_queries):
            part, prior = self._half_step(fit.model, pattern, is_for_items=t % 2 == 1)
            query = ResidualSum(values, part, fit.predictions, self.residual_clip)
            fit.add(_release(answers, query, prior, line=t))
            progress.step(t + 1, n_queries)
        fit.sweep()
        return _in_units_of_ratings(fit.model, task).factors(pattern, task)

    def _half_step(
        self, model: LowRank, pattern: Pattern, *, is_for_items: bool
    ) -> tuple[PredictionPart, FloatArray]:
        """The next part and its prior, decided by released numbers and public facts."""
        known = model.centred(pattern).principal(pattern, self.rank)
        if is_for_items:
            bias = _ITEM_BIAS if self.n_embedding else _WHOLE_ITEM_BIAS
            rows, order, taste = known.users, pattern.by_user, _ITEM_TASTE
        else:
            bias = _USER_BIAS if self.n_embedding else _WHOLE_USER_BIAS
            rows, order, taste = known.items, pattern.by_item, _USER_TASTE
        rows = _unit_rows(rows, order)
        deviations = bias * self.prior_scale, taste * self.prior_scale
        part: PredictionPart = ItemRows(rows) if is_for_items else UserRows(rows)
        return part, _prior(rows, order, *deviations)


def _release(
    answers: Answers, query: ResidualSum, prior: FloatArray, *, line: int
) -> Release:
    """The part's noisy sums, with their law and the predictions before."""
    released = answers.ask(query, line)
    law = ClippedNormal(_DEVIATION, query.clip)
    return Release(
        query.part, released.value, released.sigma, law, prior, query.predictions
    )


def _in_units_of_ratings(model: LowRank, task: Task) -> LowRank:
    low, high = task.declared_bounds
    middle = np.full((task.n_users, 1), low / 2 + high / 2)
    scaled = LowRank(model.users * (high - low), model.items)
    return scaled.plus(LowRank(middle, np.ones((task.n_items, 1))))


def _with_constant(rows: FloatArray, constant: float) -> FloatArray:
    """Rows of norm at most 1 with one more entry in front, of norm at most 1."""
    if not rows.shape[1]:
        return np.ones((len(rows), 1))
    rest = math.sqrt(1 - constant**2)
    return np.column_stack([np.full(len(rows), constant), rest * rows])


def _unit_rows(factors: FloatArray, order: Order) -> FloatArray:
    """Factors as rows of norm at most 1, with a constant in front for the bias.

    Rows longer than the usual row of a rating are shortened to its length: otherwise
    the noise would have to hide the longest row.
    """
    squares = np.sum(factors * factors, axis=1)
    usual = math.sqrt(_mean(squares, order))
    norms = np.maximum(np.sqrt(squares), max(usual, 1e-100))
    return _with_constant(factors / norms[:, None], _CONSTANT)


def _prior(rows: FloatArray, order: Order, bias: float, taste: float) -> FloatArray:
    """Variances of coefficients that make a bias and a taste of these deviations."""
    variances = np.full(rows.shape[1], (bias / rows[0, 0]) ** 2)
    energy = _mean(np.sum(rows[:, 1:] ** 2, axis=1), order)
    variances[1:] = taste**2 / energy if energy > 0 else 0.0
    return variances


def _mean(numbers: FloatArray, order: Order) -> float:
    """Mean over ratings."""
    return float(np.average(numbers, weights=np.maximum(order.counts, 1e-3)))
