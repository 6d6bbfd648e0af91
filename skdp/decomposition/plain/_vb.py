r"""Variational Bayes: least squares that know how uncertain each row is.

Ratings are Gaussian around the prediction of a `Task`, rows are Gaussian, users' and
items' rows are independent in the posterior ([1]_). A sweep is one of alternating least
squares with, in place of products of rows, their expectations: a row that few ratings
determine counts for less, which is what keeps many factors from overfitting. Nothing is
left to choose: the covariance of rows and the variance of ratings are those that
maximise the bound on the evidence, sweep by sweep (empirical Bayes).

The prior mean of a row depends on who rated what: a linear regression of rows on the
pattern, as side information in [2]_; of users, that is what [3]_ calls implicit
feedback.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skdp._configured import Checks
from skdp._validation import check_count, check_real
from skdp.decomposition._factorizer import Draws, Factorizer
from skdp.decomposition._factors import Factors
from skdp.decomposition._ratings import Order, Ratings
from skdp.decomposition._task import Task
from skdp.decomposition._threads import Threads
from skdp.decomposition.plain._ridge_halves import centred, spread

_MAX_STEPS = 10**6
_BLOCK = 256  # rows that are one piece of work for a thread
# Mean square of an item's row at the start, and the variance of each number of a row
# that is supposed in the first sweep, in units of the ratings' deviation.
_START, _VARIANCE = 0.3, 0.2
# Pattern's entries are divided by the number of ratings to this power.
_POWER = 0.3
# Steps of conjugate gradients for the regression on the pattern, each sweep's from the
# solution of the last one.
_INNER_STEPS = 2
# Of the ratings' variance: least that is left to noise, so that a perfect fit of a few
# ratings divides nothing by zero.
_LEAST_NOISE = 1e-6


@dataclass(frozen=True, kw_only=True)
class VariationalBayes(Factorizer):
    r"""Variational Bayes with learned priors; the task's alpha has no part in it.

    Parameters
    ----------
    n_steps : int, default=20
        Sweeps over all users and all items.
    pattern_alpha : float in [1e-3, inf], default=10.0
        Penalty of the regression of prior means on who rated what; inf for none.

    References
    ----------
    .. [1] Lim and Teh (2007). Variational Bayesian approach to movie rating
       prediction. KDD Cup and Workshop.
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
        users = _Side((by_user, by_item), targets, task, self.pattern_alpha)
        items = _Side((by_item, by_user), targets, task, self.pattern_alpha)
        items.start(
            rng.standard_normal((task.n_items, k)) * (_START / max(k, 1)) ** 0.5
        )
        yield factors
        noise = 1.0
        for _ in range(self.n_steps):
            for side, other in (users, items), (items, users):
                noise = side.update(other, noise, threads)
            yield _exported(factors, users, items, scale)


def _exported(factors: Factors, users: _Side, items: _Side, scale: float) -> Factors:
    """Posterior means in units of the ratings.

    With biases the mean row of users becomes zero, and that of items: what a mean row
    adds to the predictions is a bias of the other side and a part of the mean. So an id
    without ratings is the mean one, and has zeros.
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


class _Side:
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
        # Unknowns of a row, among its numbers.
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

    def update(self, other: _Side, noise: float, threads: Threads) -> float:
        """Posterior given the other side's, then the prior; the variance of ratings."""
        from skdp.decomposition.plain._vb_kernel import solve_rows

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
        # Not below the rounding of the moments: their differences need not be positive.
        values, vectors = np.linalg.eigh(covariance)
        least = max(self._damping * float(values.max()), _LEAST_NOISE**2)
        self._covariance = (vectors * np.maximum(values, least)) @ vectors.T
        self.centre, self._centres = mean, centres


class _Regression:
    """Ridge regression of rows on who rated what, by conjugate gradients."""

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
    from skdp.decomposition.plain._vb_kernel import sum_rows

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
