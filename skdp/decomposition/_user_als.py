"""Noisy alternating least squares that protects all ratings of a user."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.utils import check_random_state

from skdp._arrays import FloatArray
from skdp._checks import check_count, check_real
from skdp._configured import Checks, Given
from skdp._fit import Progress
from skdp.decomposition._factorize import PrivateFactorizer
from skdp.decomposition._ratings import Factors, Order, Pattern, Task
from skdp.decomposition._user_sums import CountQuery, KeptRatings, PairQuery, RowQuery
from skdp.exceptions import Refused
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._gaussian import gaussian_mu
from skdp.privacy.accounting._relations import Unit
from skdp.privacy.release._answers import Answers
from skdp.privacy.release._plan import Line, Plan

# ---------------------------------------- NoisyItems: rows of items from noisy releases
# Post-processing throughout. A release is ``sums = counts * weights * step @ moments +
# noise``, where the step goes from the rows that users had to the optimum given the
# users' rows. Since the noise is known, this is a measurement of a row. Measurements of
# all rounds are averaged by precision and shrunk towards the row's start by a variance
# that is estimated over the items.


# Variance of a factor over the items, weighted by popularity, at its start: with it a
# prior worth the same number of ratings suits factors and biases alike.
_FACTOR_VARIANCE = 1 / 6
# Slope of biases in standardised log popularity, and its error. Units here and below:
# half the width of the bounds.
_SLOPE, _SLOPE_ERROR = 0.075, 0.05
# Variances over the items of biases and of later steps: the assumption before any
# measurement, and the range of the estimate.
_BIAS_VARIANCE, _BIAS_RANGE = 0.02, (0.0025, 0.1)
_STEP_VARIANCE, _STEP_RANGE = 0.005, (0.0005, 0.1)
# Variance that the ratings' own errors add to a noisy sum, for each unit of weight.
_OWN_VARIANCE = 0.01
# Number that is added to all weighted counts, of the order of one rating's weight.
_LEAST_COUNT = 0.1
# Moments of users' rows are near 1; a smaller eigenvalue is noise.
_LEAST_MOMENT = 0.1
# Entries stay in a box, so that all arithmetic is finite whatever the noise.
_BOX = 1e3


class NoisyItems:
    """What is known of the items between rounds.

    With `n_factors` from 0 to 2, the first factor is the item's bias and the second the
    logarithm of its popularity, until they are refined.
    """

    def __init__(self, task: Task, n_factors: int) -> None:
        self._task, self._n_factors = task, n_factors

    def start(self, counts: FloatArray, mean: float, sigma: float) -> None:
        """Take in the first release.

        `counts`, of shape (n_items,), are noisy weighted counts with noise `sigma`;
        `mean` is the noisy mean of the users' means.
        """
        task, n_factors = self._task, self._n_factors
        self._mean = mean
        self._counts = _positive(counts, sigma)
        self._popularity = self._counts / self._counts.sum()
        self._log = self._standardised(np.log(self._counts))
        # Biases in the first column, then factors; all in units of the residuals.
        self._start = np.zeros((task.n_items, 1 + n_factors))
        # Items that are rated often are usually rated higher.
        self._start[:, 0] = _SLOPE * self._log
        if n_factors == 2:
            self._start[:, 2] = self._factor(self._log)
        self._rows = self._start.copy()
        self._precision = np.zeros_like(self._rows)
        self._pull = np.zeros_like(self._rows)  # measurements by their precision
        self._is_first = True

    def popular(self, n: int) -> NDArray[np.intp]:
        """The `n` items that seem most popular, in increasing order."""
        # Stable, so that ties fall alike on every machine.
        return np.sort(np.argsort(-self._counts, kind="stable")[:n])

    def add_directions(
        self, matrix: FloatArray, chosen: NDArray[np.intp], n_directions: int
    ) -> None:
        """Add factors that start at common directions of the chosen items' residuals.

        `matrix`, of shape (n_chosen, n_chosen), has noisy sums of products of
        residuals.
        """
        vectors = np.linalg.eigh(matrix)[1][:, ::-1][:, :n_directions]
        for vector in vectors.T:
            column = np.zeros((len(self._counts), 1))
            # Products are summed over users who rated both items, so the popularity of
            # both is divided out.
            column[chosen, 0] = vector / self._counts[chosen]
            column = self._factor(self._standardised(column[:, 0]))[:, None]
            self._start = np.hstack([self._start, column])
            self._rows = np.hstack([self._rows, column])
            nothing = np.zeros_like(column)
            self._precision = np.hstack([self._precision, nothing])
            self._pull = np.hstack([self._pull, nothing])

    def weights(self, sigma: float) -> FloatArray:
        """Weights of the items in the next query, for the least harm by its noise.

        They minimise the squared error of the next estimates, in which popular items
        count for more, among weights of the same mean square over ratings. `sigma` is
        the query's noise.
        """
        variance = _BIAS_VARIANCE if self._is_first else _STEP_VARIANCE
        floor = sigma**2 / variance
        n, order = self._counts, np.argsort(-self._counts, kind="stable")
        sorted_n, sorted_share = n[order], self._popularity[order]
        # Water filling: no weight where noise would drown the measurement.
        needed = 1 + np.cumsum(sorted_share * floor / sorted_n**2)
        levels = needed / np.cumsum(sorted_share / sorted_n)
        n_active = int(np.count_nonzero(levels > floor / sorted_n))
        level = levels[max(n_active, 1) - 1]
        weights: FloatArray = np.sqrt(np.maximum(level / n - floor / n**2, 0.0))
        return weights

    def learn(
        self, sums: FloatArray, moments: FloatArray, weights: FloatArray, sigma: float
    ) -> None:
        """Take in a release: of biases in the first round, of all columns later."""
        inverse = _inverse(moments)
        reach = (self._counts * weights)[:, None]
        steps = sums @ inverse
        own = _OWN_VARIANCE * (self._counts * weights**2)[:, None]
        noise = sigma**2 * np.diag(inverse @ inverse) + own * np.diag(inverse)
        if self._is_first:
            self._learn_biases(steps[:, 0], reach[:, 0], noise[:, 0])
            self._is_first = False
            return
        precision = reach**2 / noise
        self._precision += precision
        self._pull += reach * steps / noise + precision * (self._rows - self._start)
        known = self._precision > 0
        # Before its first measurement an item has a precision of 0 and keeps its start.
        measured = self._pull / np.where(known, self._precision, 1.0)
        # Items that are hardly measured say next to nothing about the common variance.
        trust = np.minimum(1.0, _STEP_VARIANCE * self._precision) ** 2
        trust = trust * self._popularity[:, None]
        # The square of a measurement is too large by the variance of its noise.
        excess = measured**2 - 1 / np.where(known, self._precision, np.inf)
        variance = _within(
            (trust * excess).sum(axis=0) / np.maximum(trust.sum(axis=0), 1e-300),
            _STEP_RANGE,
        )
        step = self._pull / (self._precision + 1 / variance)
        self._rows = np.clip(self._start + step, -_BOX, _BOX)

    def _learn_biases(
        self, steps: FloatArray, reach: FloatArray, noise: FloatArray
    ) -> None:
        # First a line in log popularity through all items, then a bias for each item.
        design = np.stack([np.ones_like(self._log), self._log], axis=1)
        by_noise = reach**2 / (noise + reach**2 * _BIAS_VARIANCE)
        # With a prior, so that a few noisy items cannot tilt the line.
        gram = (design * by_noise[:, None]).T @ design + np.eye(2) / _SLOPE_ERROR**2
        answers = reach * steps / (noise + reach**2 * _BIAS_VARIANCE)
        line = design @ np.linalg.solve(gram, design.T @ answers)
        self._start[:, 0] += line
        rest = steps - reach * line
        excess = (reach**2 * (rest**2 - noise)).sum() / max((reach**4).sum(), 1e-300)
        variance = _within(excess, _BIAS_RANGE)
        self._precision[:, 0] = reach**2 / noise
        self._pull[:, 0] = reach * rest / noise
        own = self._pull[:, 0] / (self._precision[:, 0] + 1 / variance)
        self._rows = self._start.copy()
        self._rows[:, 0] += own
        if self._start.shape[1] > 1:
            self._start[:, 1] = self._factor(self._standardised(self._rows[:, 0]))
            self._rows[:, 1] = self._start[:, 1]
        self._rows = np.clip(self._rows, -_BOX, _BOX)

    def factors(self, middle: float, half: float) -> Factors:
        """Current factors in units of the ratings; the only user is the mean user."""
        task, n_factors = self._task, self._rows.shape[1] - 1
        factors = Factors.zeros(task, middle + half * self._mean)
        factors.items[:, :n_factors] = RowQuery.entries(self._rows[:, 1:])
        factors.items[:, task.n_components + 1] = half * self._rows[:, 0]
        return factors

    def _standardised(self, values: FloatArray) -> FloatArray:
        """Values scaled to mean 0 and variance 1 over the ratings."""
        values = values - self._popularity @ values
        spread = math.sqrt(float(self._popularity @ values**2))
        # Without a spread, nothing distinguishes the items.
        return values / spread if spread > 1e-100 else np.zeros_like(values)

    @staticmethod
    def _factor(values: FloatArray) -> FloatArray:
        return RowQuery.steps(math.sqrt(_FACTOR_VARIANCE) * values)


def _positive(counts: FloatArray, sigma: float) -> FloatArray:
    """A smooth increasing function of noisy counts, close to them above the noise."""
    # Never 0 or below: its logarithm is taken and it is divided by.
    soft = np.logaddexp(0.0, 1.5 * counts / sigma) / 1.5
    positive: FloatArray = sigma * (soft + 0.4) + _LEAST_COUNT
    return positive


def _inverse(moments: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(moments)
    inverse: FloatArray = (vectors / np.maximum(values, _LEAST_MOMENT)) @ vectors.T
    return inverse


def _within(values: FloatArray, bounds: tuple[float, float]) -> FloatArray:
    return np.clip(values, *bounds)


# ------------------------------------------------------------------------------ UserALS
# The rows of users never leave the computation. In every round the row of each user is
# fitted to the items as they were last released, from this user's ratings alone, and
# the user's residuals contribute to the sums over items:
#
#     G = sum_u c_u,   c_u[i] = w_u d_i e_ui z_u,   w_u = (kept ratings of u)^(-1/2),
#
# where e are the user's residuals, clipped, z is the user's row, and d are weights of
# the items, public by then. The whole c_u is clipped to a ball, so that G has a known
# sensitivity; see ``docs/proofs/ratings.md``. Before the rounds the weighted counts of
# the items are released, ``N_i = sum of w_u over users who rated i``. They turn G into
# steps, and they are a first factor: the change of a user's ratings with popularity is
# worth more than any factor that can be learned through the noise. The second factor is
# the item's bias.
#
# Everything after a release is Bayesian with known noise: the measurements of an item's
# row in several rounds are averaged by precision and shrunk towards the row's start.


_FIRST_FACTORS = 2  # they start at the items' biases and popularity
_ROUNDS_BEFORE_PAIRS = 2
# Least mu * n_users / n_items for which four rounds pay instead of one.
_FOUR_ROUNDS = 1.0
# Least mu * n_users (what users have in common against the noise of pairs) for which
# two more factors pay, and four. A mu above 4 does not replace users.
_TWO_MORE, _FOUR_MORE, _LARGEST_MU = 15_000, 24_000, 4.0

_RATINGS_EACH = 100  # for a forecast, of a user whose max_ratings is not declared
_MOST_FACTORS = 4096  # what the rule may choose from
_Query = CountQuery | RowQuery | PairQuery


@dataclass(frozen=True, kw_only=True)
class UserALS(PrivateFactorizer):
    """Noisy alternation between released items and users, who are computed one by one.

    Use it with ``privacy_unit="user"``: where the rated pairs are as sensitive as the
    ratings, and each user can compute predictions locally. `n_users` and `item_ids`
    must be declared. MovieLens 1M, with users folded in, has 0.9537 at epsilon 1 and
    0.8949 at 10 (item means 0.9892 and 0.9276). If only the values need protection,
    `ValueALS` is far more accurate. It refuses ``delta=0``.

    Parameters
    ----------
    n_rounds : int in [1, 100] or None, default=None
        Sums after the counts; the first is for biases. None: 4 if
        ``mu * n_users / n_items`` is 1 or more, else 1.
    n_directions : int in [0, 100] or None, default=None
        Factors besides the first two, from pairs of at most 300 popular items. None: 0;
        2 if ``min(mu, 4) * n_users`` is at least 15,000, and 4 if at least 24,000.
    count_share : float in [0.01, 0.49] or None, default=None
        Budget fraction of mu^2 for the counts. None: 0.2 with one round, else 0.15.
    pair_share : float in [0.01, 0.49], default=0.17
        Budget fraction of mu^2 for the pairs.
    first_share : float in [1e-6, 1) or None, default=None
        Fraction of the remaining mu^2 for the first sum. None: all of it with one
        round, else 0.4.
    bias_clip, row_clip : float in [1e-3, 10], default=0.325, 0.5
        Norm of a user's contribution to the first and to later sums, in units of half
        the width of the rating bounds.

    Notes
    -----
    Released are weighted counts and `n_rounds` clipped sums over users:
    ``1 / noise_multiplier``-GDP for the replacement of all ratings of one user. Proof:
    ``docs/proofs/ratings.md``, Theorem 1. A user's own row is never released.

    References
    ----------
    .. [1] McSherry and Mironov (2009). Differentially private recommender systems. KDD.
    .. [2] Hardt and Price (2014). The noisy power method. NeurIPS.
       https://arxiv.org/abs/1311.2495
    .. [3] Chien et al. (2021). Private alternating least squares. ICML.
       https://arxiv.org/abs/2107.09802
    """

    key: ClassVar[str] = "als"
    unit: ClassVar[Unit] = "user"
    sensitivity_unit: ClassVar[str] = "half the width of rating_bounds; 1 for counts"
    checks: ClassVar[Checks] = {
        "n_rounds": partial(check_count, high=100),
        "n_directions": partial(check_count, low=0, high=100),
        "count_share": partial(check_real, low=0.01, high=0.49),
        "pair_share": partial(check_real, low=0.01, high=0.49),
        "first_share": partial(check_real, low=1e-6, high=1.0, high_open=True),
        "bias_clip": partial(check_real, low=1e-3, high=10.0),
        "row_clip": partial(check_real, low=1e-3, high=10.0),
    }

    n_rounds: int
    n_directions: int
    count_share: float
    pair_share: float = 0.17
    first_share: float
    bias_clip: float = 0.325
    row_clip: float = 0.5

    @classmethod
    def check(cls, task: Task, budget: Budget) -> None:
        super().check(task, budget)
        if not task.biases:
            raise Refused(
                f"solver={cls.key!r} with privacy_unit='user' releases biases first. "
                "Use biases=True."
            )

    @classmethod
    def planned(cls, given: Given, task: Task, budget: Budget) -> Self:
        cls.check(task, budget)
        # How precisely a typical item is known through the noise; public facts only.
        mu = gaussian_mu(budget.epsilon, budget.delta)
        known = mu * task.n_users / task.n_items
        n_rounds = given.get("n_rounds", 4 if known >= _FOUR_ROUNDS else 1)
        common = min(mu, _LARGEST_MU) * task.n_users
        by_rule = 2 * (common >= _TWO_MORE) + 2 * (common >= _FOUR_MORE)
        n_directions = given.get("n_directions", by_rule)
        if n_rounds <= _ROUNDS_BEFORE_PAIRS:
            n_directions = 0
        room = max(0, task.n_components - _FIRST_FACTORS)
        rules: dict[str, Any] = {
            "n_rounds": n_rounds,
            "count_share": 0.2 if n_rounds == 1 else 0.15,
            "first_share": 0.4,
        }
        most = {"n_directions": min(n_directions, room, task.n_items)}
        return cls(**{**rules, **given, **most})

    @classmethod
    def default_components(cls, given: Given, task: Task, budget: Budget) -> int:
        roomy = replace(task, n_components=_MOST_FACTORS)
        return _FIRST_FACTORS + cls.planned(given, roomy, budget).n_directions

    def queries(self, task: Task) -> list[tuple[_Query, float]]:
        """The queries in their order, each with its share of mu^2."""
        size = task.n_users, task.n_items
        n_factors = min(task.n_components, _FIRST_FACTORS)
        pair_share = self.pair_share if self.n_directions else 0.0
        left = 1 - self.count_share - pair_share
        first, n_later = self.first_share, self.n_rounds - 1
        if not n_later:
            first = 1.0
        queries: list[tuple[_Query, float]] = [
            (CountQuery(*size), self.count_share),
            (RowQuery(*size, 0, self.bias_clip), left * first),
        ]
        for done in range(1, self.n_rounds):
            if done == _ROUNDS_BEFORE_PAIRS and self.n_directions:
                queries.append((PairQuery(*size), pair_share))
                n_factors += self.n_directions
            query = RowQuery(*size, n_factors, self.row_clip)
            queries.append((query, left * (1 - first) / n_later))
        return queries

    def plan(self, task: Task) -> Plan:
        return Plan(tuple(Line(mu_share=share) for _, share in self.queries(task)))

    def sensitivity(self, task: Task) -> float:
        return max(query.sensitivity for query, _ in self.queries(task))

    def bias_noise(self, task: Task, budget: Budget) -> float:
        """Noise in an item's bias; assumes a number of ratings, which is private."""
        mu = gaussian_mu(budget.epsilon, budget.delta)
        kept = min(task.max_ratings or _RATINGS_EACH, task.n_items)
        weighted_count = task.n_users * math.sqrt(kept) / task.n_items
        return self.bias_clip / (mu * weighted_count)

    def run(self, answers: Answers, task: Task, progress: Progress, /) -> Factors:
        seed = int(check_random_state(task.seed).randint(2**32))
        kept = KeptRatings(task.declared_bounds, task.max_ratings, seed)
        items = NoisyItems(task, min(task.n_components, _FIRST_FACTORS))
        queries = [query for query, _ in self.queries(task)]
        for line, query in enumerate(queries):
            self._learn(items, query, answers, kept, line)
            progress.step(line + 1, len(queries))
        return items.factors(kept.middle, kept.half)

    def _learn(
        self,
        items: NoisyItems,
        query: _Query,
        answers: Answers,
        kept: KeptRatings,
        line: int,
    ) -> None:
        """Ask a query, and take in the release."""
        sigma = answers.multiplier(line) * query.sensitivity
        if isinstance(query, CountQuery):
            released = answers.ask(query.asked(kept), line).value
            items.start(*query.read(released, sigma), sigma)
            return
        factors = items.factors(kept.middle, kept.half)
        if isinstance(query, PairQuery):
            chosen = items.popular(query.n_paired)
            released = answers.ask(query.at(kept, factors, chosen), line).value
            items.add_directions(query.read(released), chosen, self.n_directions)
            return
        weights = items.weights(sigma)
        released = answers.ask(query.at(kept, factors, weights), line).value
        items.learn(*query.read(released), weights, sigma)


# ---------------------------------------------- Posterior means of rows from noisy sums
# All variances are known. A clipped residual d with public row x is modelled as ``slope
# x' w + e``, with e of variance `spread`: if a normal residual with deviation s is
# clipped to c, its dependence on x weakens by the probability that it is not clipped.
# With ``w ~ N(0, diag(prior))`` the statistic ``t = sum d x + N(0, sigma^2 I)`` over
# rows of Gram matrix G is normal, and
#
# ``E[w | t] = slope P G (slope^2 G P G + spread G + sigma^2 I)^-1 t``, P = diag(prior).


# Rows of a sparse product that are computed at a time: bounds the memory.
_ROWS_AT_ONCE = 2048


@dataclass(frozen=True)
class ClippedNormal:
    """A normal residual of deviation `deviation`, clipped to `clip`, both positive."""

    deviation: float
    clip: float

    @property
    def slope(self) -> float:
        """Derivative of the mean by a shift: the probability of no clipping."""
        return math.erf(self.clip / self.deviation / math.sqrt(2))

    @property
    def spread(self) -> float:
        """Variance of the clipped residual."""
        t = self.clip / self.deviation
        # Second moments between the bounds and on them; the mean is 0 by symmetry.
        density = math.exp(-t * t / 2) / math.sqrt(2 * math.pi)
        inside = self.slope - 2 * t * density
        return self.deviation**2 * inside + self.clip**2 * (1 - self.slope)

    def rows(
        self, gram: FloatArray, sums: FloatArray, prior: FloatArray, sigma: float
    ) -> FloatArray:
        """Posterior means, row by row.

        `gram` of shape (n_rows, d, d) and `sums` of shape (n_rows, d) are the noisy
        statistics, `prior` the d variances, `sigma` the standard deviation of the noise
        in `sums`.
        """
        explained = gram * prior
        below = self.slope**2 * (explained @ gram) + self.spread * gram
        # Without noise and without ratings the sums are 0 as well.
        sizes = np.trace(below, axis1=1, axis2=2)
        diagonal = sigma**2 + 1e-12 * sizes + 1e-100
        below += diagonal[:, None, None] * np.eye(gram.shape[-1])
        weights = np.linalg.solve(below, sums[:, :, None])
        return np.asarray(self.slope * prior * (gram @ weights)[:, :, 0])


def row_grams(pairs: csr_matrix, rows: FloatArray) -> FloatArray:
    """Gram matrices ``sum_j x_j x_j'`` over each row's columns of the pattern."""
    return _squares(pairs @ _products(rows), rows.shape[1])


def product_gram(pairs: csr_matrix, left: FloatArray, right: FloatArray) -> FloatArray:
    """Gram matrix of the rows ``vec(z_u x_i')`` over all pairs, of shape (1, K, K)."""
    k, m = left.shape[1], right.shape[1]
    products = _products(right)
    total = np.zeros((k * (k + 1) // 2, m * (m + 1) // 2))
    for start in range(0, len(left), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        total += _products(left[part]).T @ (pairs[part] @ products)
    square = _squares(_squares(total, m).transpose(1, 2, 0), k)
    return square.transpose(2, 0, 3, 1).reshape(1, k * m, k * m)


def _products(rows: FloatArray) -> FloatArray:
    """Products of every two entries of a row, each once."""
    # The product is symmetric: half of its columns take half of the work.
    first, second = np.triu_indices(rows.shape[1])
    return np.asarray(rows[:, first] * rows[:, second])


def _squares(products: FloatArray, d: int) -> FloatArray:
    """The symmetric matrices whose entries are these products."""
    places = np.zeros((d, d), dtype=np.intp)
    first, second = np.triu_indices(d)
    places[first, second] = places[second, first] = np.arange(len(first))
    return np.asarray(products[..., places])


# -------------------------------------------- LowRank: predictions as a low-rank matrix


# Pairs whose predictions are computed together: bounds the memory.
_PAIRS_AT_ONCE = 2**16
# Number of ratings that an id without a rating counts as.
_UNRATED = 0.1


@dataclass(frozen=True)
class LowRank:
    """Predictions ``users @ items.T`` of all pairs of ids.

    `users` has shape (n_users, r), and `items` (n_items, r).
    """

    users: FloatArray
    items: FloatArray

    def plus(self, other: LowRank) -> LowRank:
        users = np.hstack([self.users, other.users])
        return LowRank(users, np.hstack([self.items, other.items]))

    def predict(self, pattern: Pattern) -> FloatArray:
        """Predictions of the pairs of a pattern."""
        out = np.empty(len(pattern))
        for start in range(0, len(pattern), _PAIRS_AT_ONCE):
            part = slice(start, start + _PAIRS_AT_ONCE)
            users, items = pattern.users[part], pattern.items[part]
            out[part] = np.einsum("ij,ij->i", self.users[users], self.items[items])
        return out

    def centred(self, pattern: Pattern) -> LowRank:
        """Predictions less the mean and biases: rows less the mean rating's row."""
        users = self.users - mean_row(self.users, pattern.by_user)
        return LowRank(users, self.items - mean_row(self.items, pattern.by_item))

    def principal(self, pattern: Pattern, k: int) -> LowRank:
        """The best k factors, rows and columns weighted by the roots of their counts.

        The factors of users and of items share each singular value equally. Columns
        beyond the rank are zeros.
        """
        left, first = _weighted_basis(self.users, pattern.by_user)
        right, second = _weighted_basis(self.items, pattern.by_item)
        u, values, v = np.linalg.svd(first @ second.T, full_matrices=False)
        users, items = np.zeros((len(left), k)), np.zeros((len(right), k))
        cut = min(k, len(values))
        roots = np.sqrt(values[:cut])
        users[:, :cut] = left @ u[:, :cut] * roots
        items[:, :cut] = right @ v[:cut].T * roots
        return LowRank(users, items)

    def factors(self, pattern: Pattern, task: Task) -> Factors:
        """The mean, the biases if the task has them, and the best factors."""
        k = task.n_components
        if not task.biases:
            return _with_factors(Factors.zeros(task), self.principal(pattern, k))
        user = mean_row(self.users, pattern.by_user)
        item = mean_row(self.items, pattern.by_item)
        factors = Factors.zeros(task, float(user @ item))
        factors.users[:, k] = (self.users - user) @ item
        factors.items[:, k + 1] = (self.items - item) @ user
        return _with_factors(factors, self.centred(pattern).principal(pattern, k))


def mean_row(rows: FloatArray, order: Order) -> FloatArray:
    """The mean of rows over ratings."""
    return np.asarray(np.average(rows, axis=0, weights=_weights(order)))


def _with_factors(factors: Factors, rows: LowRank) -> Factors:
    k = factors.task.n_components
    factors.users[:, :k], factors.items[:, :k] = rows.users, rows.items
    return factors


def _weighted_basis(rows: FloatArray, order: Order) -> tuple[FloatArray, FloatArray]:
    roots = np.sqrt(_weights(order))[:, None]
    basis, turn = np.linalg.qr(rows * roots)
    return basis / roots, turn


def _weights(order: Order) -> FloatArray:
    return np.maximum(order.counts, _UNRATED)
