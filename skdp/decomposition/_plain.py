"""Factorisation without privacy: ALS, SGD, variational Bayes, partitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skdp._checks import check_count, check_positive, check_real
from skdp._configured import Checks, Registry
from skdp.decomposition._factorize import Draws, Factorizer
from skdp.decomposition._ratings import Factors, Order, Pattern, Ratings, Task, Threads

# ---------------------------------------- Sides: ridge regressions given the other half


@dataclass(frozen=True, eq=False)
class Side:
    """Rows of users or of items as unknowns; the rows of the other side are the design.

    `order` is by this side's ids, and `values` are the ratings in this order, less the
    mean. `rows` and `others` are views of the same `Factors`. `free` are the columns
    that are unknowns here, this side's bias last, and `fixed` is the column of the
    other side's bias. Without biases there is neither.
    """

    order: Order
    values: NDArray[Any]
    rows: NDArray[Any]
    others: NDArray[Any]
    free: list[int]
    fixed: list[int]

    def design(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The factor of the unknowns, and the summand that is added to the product."""
        design = np.ascontiguousarray(self.others[:, self.free])
        return design, self.others[:, self.fixed].sum(axis=1)


def centred(ratings: Ratings, task: Task) -> Factors:
    """Zero factors, and the mean of the ratings if the task has biases."""
    mean = 0.0
    if task.biases and len(ratings):
        mean = float(ratings.values.mean(dtype=np.float64))
    return Factors.zeros(task, mean, ratings.values.dtype)


def sides(ratings: Ratings, factors: Factors) -> tuple[Side, Side]:
    """Users and items as unknowns."""
    k, pattern = factors.task.n_components, ratings.pattern
    values = ratings.values - ratings.values.dtype.type(factors.mean)
    columns, users, items = [*range(k)], factors.users, factors.items
    of_user, of_item = ([k], [k + 1]) if factors.task.biases else ([], [])
    order, other = pattern.by_user, pattern.by_item
    return (
        Side(order, values[order.pairs], users, items, columns + of_user, of_item),
        Side(other, values[other.pairs], items, users, columns + of_item, of_user),
    )


def spread(ratings: Ratings) -> float:
    """Standard deviation of the ratings; 1.0 if they are all the same."""
    value = float(ratings.values.std(dtype=np.float64)) if len(ratings) else 0.0
    return value if value > 0 else 1.0


# -------------------------------------------------------------------- Variational Bayes
# Ratings are Gaussian around the prediction of a `Task`, rows are Gaussian, and the
# rows of users and of items are independent in the posterior ([1]_). A sweep is a sweep
# of alternating least squares with expectations in place of products of rows: a row
# that few ratings determine counts for less, so that many factors do not overfit. The
# covariance of rows and the variance of ratings maximise the bound on the evidence in
# every sweep (empirical Bayes), so that nothing is left to choose.
#
# The prior mean of a row is a linear regression of rows on the pattern of ratings,
# which serves as side information as in [2]_; for users [3]_ calls this implicit
# feedback.


_MAX_STEPS = 10**6
_BLOCK = 256  # rows that are one piece of work for a thread
# Mean square of an item's row at the start, and the variance of each of its numbers
# that the first sweep assumes, in units of the ratings' deviation.
_VB_START, _VARIANCE = 0.3, 0.2
# The pattern's entries are divided by the number of ratings to this power.
_POWER = 0.3
# Steps of conjugate gradients for the regression on the pattern; each sweep starts at
# the last solution.
_INNER_STEPS = 2
# Least share of the ratings' variance that is noise, so that a perfect fit of a few
# ratings divides nothing by zero.
_LEAST_NOISE = 1e-6


@dataclass(frozen=True, kw_only=True)
class VariationalBayes(Factorizer):
    """Variational Bayes with learned priors; the task's alpha has no part in it.

    Not private; ``solver="auto"`` takes it at ``epsilon=inf``. It has the smallest
    held-out error for the time: MovieLens 1M 0.8283 (libmf 0.8493) in 1.23 times
    libmf's time. About half of the gain is the posterior's, half the pattern's.

    Parameters
    ----------
    n_steps : int in [1, 1e6], default=20
        Sweeps over all users and all items.
    pattern_alpha : float in [1e-3, inf], default=10.0
        Penalty of the regression of prior means on the pattern of ratings; inf for no
        regression. Set inf where users do not choose what they rate.

    Notes
    -----
    A rating is normal around its prediction. A user's row is normal with a learned
    covariance and the mean ``m + D'x / n^0.3``, for the user's pattern x and number of
    ratings n; items likewise. Rows that few ratings determine count for less, so that
    many factors are harmless: `n_components` is 16 by default, and more gains little. A
    sweep sums about k^2/2 numbers per rating and side for k factors. Results do not
    depend on `n_jobs`.

    References
    ----------
    .. [1] Lim and Teh (2007). Variational Bayesian approach to movie rating prediction.
       KDD Cup and Workshop.
    .. [2] Simm et al. (2017). Macau: scalable Bayesian factorization with
       high-dimensional side information using MCMC. MLSP.
    .. [3] Koren (2008). Factorization meets the neighborhood. KDD, section 4.
    """

    key: ClassVar[str] = "vb"
    components: ClassVar[int] = 16
    penalty: ClassVar[float] = 0.65  # of new users, who are folded in
    uses_alpha: ClassVar[bool] = False
    checks: ClassVar[Checks] = {
        "n_steps": partial(check_count, high=_MAX_STEPS),
        "pattern_alpha": partial(check_real, low=1e-3, high=np.inf),
    }

    n_steps: int = 20
    pattern_alpha: float = 10.0

    def iterates(
        self, ratings: Ratings, task: Task, rng: Draws, threads: Threads
    ) -> Iterator[Factors]:
        """The start, then the means of rows after each sweep."""
        factors, scale = centred(ratings, task), spread(ratings)
        k, dtype = task.n_components, ratings.values.dtype.type
        if k + task.biases == 0:
            yield factors
            return
        targets = (ratings.values - dtype(factors.mean)) / dtype(scale)
        by_user, by_item = ratings.pattern.by_user, ratings.pattern.by_item
        users = _PosteriorSide((by_user, by_item), targets, task, self.pattern_alpha)
        items = _PosteriorSide((by_item, by_user), targets, task, self.pattern_alpha)
        items.start(
            rng.standard_normal((task.n_items, k)) * (_VB_START / max(k, 1)) ** 0.5
        )
        yield factors
        noise = 1.0
        for _ in range(self.n_steps):
            for side, other in (users, items), (items, users):
                noise = side.update(other, noise, threads)
            yield _exported(factors, users, items, scale)


def _exported(
    factors: Factors, users: _PosteriorSide, items: _PosteriorSide, scale: float
) -> Factors:
    """Posterior means in units of the ratings.

    With biases the mean row of users becomes zero, and so does the mean row of items: a
    mean row's effect on predictions moves to the biases of the other side and to the
    mean. So an id without ratings has the mean row, which is zero.
    """
    k, root = factors.task.n_components, scale**0.5
    if not factors.task.biases:
        factors.users[:, :k] = users.means[:, :k] * root
        factors.items[:, :k] = items.means[:, :k] * root
        return factors
    p, q = users.centre[:k], items.centre[:k]
    shift = users.centre[k] + items.centre[k] + p @ q
    for side, rows, own, other in (
        (users, factors.users, k, q),
        (items, factors.items, k + 1, p),
    ):
        factor = side.means[:, :k] - side.centre[:k].astype(rows.dtype)
        bias = side.means[:, k + 1] - side.centre[k] + factor @ other
        rows[:, :k] = factor * side.rated[:, None] * root
        rows[:, own] = bias * side.rated * scale
    return replace(factors, mean=factors.mean + float(shift) * scale)


class _PosteriorSide:
    """Posterior and prior of the rows of users, or of items."""

    def __init__(
        self,
        orders: tuple[Order, Order],
        targets: NDArray[Any],
        task: Task,
        pattern_alpha: float,
    ) -> None:
        order = orders[0]
        k, n_ids = task.n_components, len(order.counts)
        n, dtype = k + 2 * task.biases, targets.dtype
        self._order, self._biases = order, task.biases
        self._targets = targets[order.pairs]
        self._low = np.tril_indices(n)
        self.means = np.zeros((n_ids, _padded(n, 8)), dtype)
        self._moments = np.zeros((n_ids, _padded(len(self._low[0]), 32)), dtype)
        # Columns of a row that are unknowns.
        self._free = np.array([*range(k), k + 1] if task.biases else [*range(k)])
        self.rated = order.counts > 0
        d = len(self._free)
        self.centre = np.zeros(d)
        self._centres = np.zeros((n_ids, d))
        self._covariance = np.eye(d) * _VARIANCE
        self._damping = 4 * d * float(np.finfo(dtype).eps)
        self._regression = None
        if pattern_alpha < np.inf:
            self._regression = _Regression(orders, pattern_alpha, d, dtype)

    def start(self, rows: NDArray[Any]) -> None:
        """Begin with these factors, known for certain, and no biases."""
        self.means[:, : rows.shape[1]] = rows * self.rated[:, None]
        if self._biases:
            self.means[:, rows.shape[1]] = 1
        products = self.means[:, self._low[0]] * self.means[:, self._low[1]]
        self._moments[:, : products.shape[1]] = products

    def update(self, other: _PosteriorSide, noise: float, threads: Threads) -> float:
        """Update posterior and prior; the variance of ratings given the rows."""
        from skdp.decomposition._plain_kernel import solve_posterior_rows as solve_rows

        order, n_ids = self._order, len(self.means)
        errors = np.zeros(n_ids)
        data = order.starts, order.others, self._targets, other.means, other._moments
        prior = self._centres, np.linalg.inv(self._covariance)
        plan, found = (noise, self._damping, self._biases), (self.means, self._moments)
        threads.each(
            solve_rows,
            [
                (a, min(a + _BLOCK, n_ids), *data, *prior, *plan, *found, errors)
                for a in range(0, n_ids, _BLOCK)
            ],
        )
        self._update_prior(threads)
        return max(float(errors.sum()) / max(len(self._targets), 1), _LEAST_NOISE)

    def _update_prior(self, threads: Threads) -> None:
        """Mean and covariance of rows that maximise the bound."""
        rated, n_rated = self.rated, max(int(self.rated.sum()), 1)
        rows = self.means[:, self._free]
        mean = rows[rated].sum(axis=0, dtype=np.float64) / n_rated
        centres = np.tile(mean, (len(rows), 1))
        if self._regression is not None:
            centres += self._regression.fit(rows - mean.astype(rows.dtype), threads)
        sums = self._moments[rated].sum(axis=0, dtype=np.float64)
        total = np.zeros((self.means.shape[1],) * 2)
        total[self._low] = sums[: len(self._low[0])]
        total = (total + np.tril(total, -1).T)[np.ix_(self._free, self._free)]
        cross = centres[rated].T @ rows[rated].astype(np.float64)
        square = centres[rated].T @ centres[rated]
        covariance = (total - cross - cross.T + square) / n_rated
        # Not below the rounding of the moments, whose differences may be negative.
        values, vectors = np.linalg.eigh(covariance)
        least = max(self._damping * float(values.max()), _LEAST_NOISE**2)
        self._covariance = (vectors * np.maximum(values, least)) @ vectors.T
        self.centre, self._centres = mean, centres


class _Regression:
    """Ridge regression of rows on the pattern of ratings, by conjugate gradients."""

    def __init__(
        self, orders: tuple[Order, Order], alpha: float, d: int, dtype: Any
    ) -> None:
        self._order, self._transposed = orders
        self._alpha, counts = alpha, self._order.counts
        scales = np.maximum(counts, 1)[:, None] ** -_POWER
        self._scales = scales.astype(dtype)
        self._rated = (counts > 0)[:, None]
        self._n_rated = max(int(self._rated.sum()), 1)
        width = _padded(d, 8)
        self._solution = np.zeros((len(self._transposed.counts), width), dtype)
        self._fitted = np.zeros((len(counts), width), dtype)

    def fit(self, targets: NDArray[Any], threads: Threads) -> NDArray[Any]:
        """Predictions of targets after a few more steps; their mean is zero."""
        d = targets.shape[1]
        left = -self._fitted
        left[:, :d] += targets
        left = self._adjoint(left, threads) - self._alpha * self._solution
        direction, square = left, (left**2).sum(axis=0)
        for t in range(_INNER_STEPS):
            image = self._apply(direction, threads)
            curvature = (image**2).sum(axis=0)
            curvature += self._alpha * (direction**2).sum(axis=0)
            step = _ratio(square, curvature)
            self._solution += step * direction
            self._fitted += step * image
            if t + 1 < _INNER_STEPS:
                change = self._adjoint(image, threads) + self._alpha * direction
                left = left - step * change
                before, square = square, (left**2).sum(axis=0)
                direction = left + _ratio(square, before) * direction
        return self._fitted[:, :d]

    def _apply(self, x: NDArray[Any], threads: Threads) -> NDArray[Any]:
        product = _sums(self._order, x, threads)
        product *= self._scales
        product -= product.sum(axis=0) / self._n_rated
        product *= self._rated
        return product

    def _adjoint(self, y: NDArray[Any], threads: Threads) -> NDArray[Any]:
        y = (y - (y * self._rated).sum(axis=0) / self._n_rated) * self._rated
        return _sums(self._transposed, y * self._scales, threads)


def _padded(size: int, whole: int) -> int:
    """The next multiple of `whole`: compiled loops are faster without a remainder."""
    return -(-size // whole) * whole


def _ratio(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[Any]:
    """Quotients, 0 where the divisor is."""
    ratio = np.zeros_like(part)
    np.divide(part, whole, out=ratio, where=whole > 0)
    return ratio


def _sums(order: Order, table: NDArray[Any], threads: Threads) -> NDArray[Any]:
    from skdp.decomposition._plain_kernel import sum_rows

    n_ids = len(order.counts)
    totals = np.empty((n_ids, table.shape[1]), table.dtype)
    threads.each(
        sum_rows,
        [
            (
                first,
                min(first + _BLOCK, n_ids),
                order.starts,
                order.others,
                table,
                totals,
            )
            for first in range(0, n_ids, _BLOCK)
        ],
    )
    return totals


# ------------------------------------------------------------ Alternating least squares
# With the rows of items fixed, the objective of a `Task` is a sum of one ridge
# regression for each user, whose unknowns are the user's factors and bias; and the
# other way round. A sweep solves all of them, so that the objective never rises and
# there is no step size to choose.


# Mean square of the items' factors at the start, in units of the ratings' deviation:
# small, so that biases are fitted first.
_ALS_START = 0.01


@dataclass(frozen=True, kw_only=True)
class ALS(Factorizer):
    """Alternating least squares.

    Not private; its private forms are `ValueALS` and `UserALS`. It takes few passes,
    has no step size, and the objective never rises. On held-out error `sgd` is as good
    in less time and `vb` better (MovieLens 1M: 0.8521, 0.8470 and 0.8283).

    Parameters
    ----------
    n_steps : int in [1, 1e6], default=12
        Sweeps over all users and all items.

    Notes
    -----
    With the rows of items fixed each user's row is a ridge regression, and the other
    way round. `n_components` is 48 by default, `alpha` 0.65 over the root of the
    ratings per id (ratings over users plus items, a public count): the error of a row
    falls with its number of ratings, and so does the penalty that balances it. Fewer
    factors were worse everywhere. A system without a unique solution is solved by the
    nearest point to the last row. Results do not depend on `n_jobs`.

    References
    ----------
    .. [1] Zhou, Wilkinson, Schreiber and Pan (2008). Large-scale parallel collaborative
       filtering for the Netflix prize. AAIM.
    """

    key: ClassVar[str] = "als"
    penalty: ClassVar[float] = 0.65
    checks: ClassVar[Checks] = {"n_steps": partial(check_count, high=_MAX_STEPS)}

    n_steps: int = 12

    def iterates(
        self, ratings: Ratings, task: Task, rng: Draws, threads: Threads
    ) -> Iterator[Factors]:
        """The start, then the factors after each sweep; the same ones, changed."""
        factors, k = centred(ratings, task), task.n_components
        both = sides(ratings, factors)
        size = (_ALS_START * spread(ratings) / max(k, 1)) ** 0.5
        draws = rng.standard_normal((task.n_items, k)) * size
        rated = ratings.pattern.by_item.counts > 0
        factors.items[:, :k] = draws * rated[:, None]  # the others stay zero
        yield factors
        for _ in range(self.n_steps):
            for side in both:
                _solve(side, task.alpha, threads)
            yield factors


def _solve(side: Side, alpha: float, threads: Threads) -> None:
    """Minimise over all rows of a side."""
    from skdp.decomposition._plain_kernel import solve_ridge_rows as solve_rows

    if not side.free:
        return
    design, constants = side.design()
    rows = np.ascontiguousarray(side.rows[:, side.free])
    # Above the rounding of a system's sums, which would grow if alpha were 0.
    order, damping = side.order, 4 * len(side.free) * float(np.finfo(rows.dtype).eps)
    data = order.starts, order.others, side.values, design, constants
    threads.each(
        solve_rows,
        [
            (first, min(first + _BLOCK, len(rows)), *data, float(alpha), damping, rows)
            for first in range(0, len(rows), _BLOCK)
        ],
    )
    side.rows[:, side.free] = rows


# ---------------------------------------------------------- Stochastic gradient descent
# Users and items are cut into `n_blocks` intervals with about equally many ratings.
# Blocks of ratings that share neither users nor items are a *stratum*. They may be
# visited at the same time, with the same result as one after another ([1]_, [2]_).
# Every row has a step size that falls with the gradients it has seen ([3]_). All step
# sizes also fall linearly to zero over the passes, which averages the noise of the last
# passes away.


_MAX_BLOCKS = 1000
_REGISTER = 8
# Mean square of the products p q at the start, in units of the ratings' variance.
_SGD_START = 1e-4


@dataclass(frozen=True, kw_only=True)
class SGD(Factorizer):
    """Stochastic gradient descent with steps that adapt to each row.

    Not private. It takes the least time for an error near that of the other solvers of
    the same objective (MovieLens 1M: 0.8470 in 0.32 times libmf's time, libmf 0.8493);
    ``solver="auto"`` takes it if you give an `alpha`. `vb` is more accurate (0.8283).

    Parameters
    ----------
    n_steps : int in [1, 1e6], default=20
        Passes over the ratings. Steps shrink to zero over them, so that half of a long
        run is not a short run.
    step_size : float, default=0.1
        Step size of the first pass, in units of the ratings' standard deviation; 0.05
        and 0.2 were worse.
    n_blocks : int in [1, 1000], default=8
        Intervals of users and of items, and so of threads that have work.

    Notes
    -----
    `n_components` is 48 by default, `alpha` 0.55 over the root of the ratings per id.
    Blocks that share neither users nor items are visited at the same time, so that
    results depend on `n_blocks` and not on `n_jobs`. Each row divides its steps by the
    root of the sum of its squared gradients.

    References
    ----------
    .. [1] Gemulla, Nijkamp, Haas and Sismanis (2011). Large-scale matrix factorization
       with distributed stochastic gradient descent. KDD.
    .. [2] Chin, Zhuang, Juan and Lin (2015). A fast parallel stochastic gradient method
       for matrix factorization in shared memory systems. ACM TIST 6(1).
    .. [3] Chin, Zhuang, Juan and Lin (2015). A learning-rate schedule for stochastic
       gradient methods to matrix factorization. PAKDD.
    """

    key: ClassVar[str] = "sgd"
    penalty: ClassVar[float] = 0.55
    checks: ClassVar[Checks] = {
        "n_steps": partial(check_count, high=_MAX_STEPS),
        "step_size": check_positive,
        "n_blocks": partial(check_count, high=_MAX_BLOCKS),
    }

    n_steps: int = 20
    step_size: float = 0.1
    n_blocks: int = 8

    def iterates(
        self, ratings: Ratings, task: Task, rng: Draws, threads: Threads
    ) -> Iterator[Factors]:
        """The start, then the factors after each pass."""
        descent = _RatingDescent(self, ratings, task, rng)
        yield descent.factors()
        for t in range(self.n_steps):
            descent.go(self.step_size * (1 - t / self.n_steps), rng, threads)
            yield descent.factors()


class _RatingDescent:
    """Ratings in units of their standard deviation, and the rows that passes change."""

    def __init__(self, plan: SGD, ratings: Ratings, task: Task, rng: Draws) -> None:
        from skdp.decomposition._plain_kernel import pass_of

        dtype, k = ratings.values.dtype.type, task.n_components
        self._result = centred(ratings, task)
        width = -(-k // _REGISTER) * _REGISTER
        self._visit = pass_of(width)
        targets = ratings.values - dtype(self._result.mean)
        self._scale = spread(ratings)
        self._alphas = dtype(task.alpha), dtype(task.alpha / self._scale)
        self._blocks = _Blocks(ratings.pattern, plan.n_blocks, rng)
        self._n_blocks = plan.n_blocks
        self._targets = targets[self._blocks.order] / dtype(self._scale)
        self._p, self._q = (
            np.zeros((n, width), dtype) for n in (task.n_users, task.n_items)
        )
        self._p_own, self._q_own = (
            np.ones((n, 4), dtype) for n in (task.n_users, task.n_items)
        )
        for rows, own, ids in (
            (self._p, self._p_own, ratings.pattern.users),
            (self._q, self._q_own, ratings.pattern.items),
        ):
            own[:, 0] = 0
            draws = (
                rng.standard_normal((len(rows), k)) * (_SGD_START / max(k, 1)) ** 0.25
            )
            rated = np.bincount(ids, minlength=len(rows)) > 0
            rows[:, :k] = draws * rated[:, None]  # the others stay zero

    def go(self, step: float, rng: Draws, threads: Threads) -> None:
        """One pass over all ratings, strata in random order."""
        dtype, n = self._targets.dtype.type, self._n_blocks
        biases = self._result.task.biases
        steps = dtype(step if biases else 0.0), dtype(step)
        for shift in rng.permutation(n):
            spans = [self._blocks.span(b, (b + shift) % n) for b in range(n)]
            threads.each(
                self._visit,
                [
                    (
                        *span,
                        self._blocks.users,
                        self._blocks.items,
                        self._targets,
                        self._alphas,
                        steps,
                        self._p,
                        self._q,
                        self._p_own,
                        self._q_own,
                    )
                    for span in spans
                ],
            )

    def factors(self) -> Factors:
        """The rows in units of the ratings."""
        result, k = self._result, self._result.task.n_components
        root = self._scale**0.5
        result.users[:, :k] = self._p[:, :k] * root
        result.items[:, :k] = self._q[:, :k] * root
        if result.task.biases:
            result.users[:, k] = self._p_own[:, 0] * self._scale
            result.items[:, k + 1] = self._q_own[:, 0] * self._scale
        return result


class _Blocks:
    """Ratings block by block, in random order within each."""

    def __init__(self, pattern: Pattern, n_blocks: int, rng: Draws) -> None:
        self._n_blocks = n_blocks
        shuffled = rng.permutation(len(pattern))
        blocks = _interval_of(pattern.users, pattern.n_users, n_blocks) * n_blocks
        blocks += _interval_of(pattern.items, pattern.n_items, n_blocks)
        blocks = blocks[shuffled]
        self.order: NDArray[Any] = shuffled[np.argsort(blocks, kind="stable")]
        self.users = pattern.users[self.order]
        self.items = pattern.items[self.order]
        self._starts = np.zeros(n_blocks**2 + 1, dtype=np.int64)
        np.cumsum(np.bincount(blocks, minlength=n_blocks**2), out=self._starts[1:])

    def span(self, row: int, column: int) -> tuple[int, int]:
        """Positions of a block's first rating, and of the rating after its last."""
        block = row * self._n_blocks + column
        return int(self._starts[block]), int(self._starts[block + 1])


def _interval_of(
    ids: NDArray[np.int32], n_ids: int, n_blocks: int
) -> NDArray[np.int64]:
    """For each rating, the interval of its id; all have about as many ratings."""
    counts = np.bincount(ids, minlength=n_ids)
    before = np.cumsum(counts) - counts
    intervals: NDArray[np.int64] = before * n_blocks // max(len(ids), 1)
    return np.minimum(intervals, n_blocks - 1)[ids]


# ---------------------------------------------- Registry of factorisers without privacy


FACTORIZERS: Registry[type[Factorizer]] = Registry(
    "skdp.factorizers",
    {
        "als": ALS,
        "sgd": SGD,
        "vb": VariationalBayes,
    },
)
