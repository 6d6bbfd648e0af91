"""HAMSI: incremental factorisation with a quasi-Newton matrix, and its baselines."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from skdp._checks import check_bool, check_choice, check_count, check_real
from skdp._configured import Checks, Given
from skdp.decomposition._factorize import Draws, Factorizer
from skdp.decomposition._ratings import Factors, Ratings, Task, Threads
from skdp.papers._hamsi_gradient import (
    PARTITIONS,
    Objective,
    Partition,
    check_start_scale,
    finite_start,
    merged,
    most_subsets,
    partition,
    random_start,
)

# ------------------------------- Inverse Hessian of limited-memory BFGS in compact form
# References:
# Byrd, Nocedal and Schnabel (1994). Representations of quasi-Newton matrices and their
# use in limited memory methods. Mathematical Programming 63, theorem 2.2.


# Long vectors are processed in pieces; their number depends on the length alone.
_PIECE = 1 << 16
# Least cosine between a step and the change of the gradient: below it, rounding hides
# the curvature.
_LEAST_COSINE = 1e-5


class InverseHessian:
    """``sigma I + W N W'`` with ``W = [S, sigma Y]``, applied from right to left.

    S and Y have the last steps and changes of the gradient as columns, and N is a small
    matrix from ``S'Y`` and ``Y'Y``. A new pair replaces the oldest, and only the new
    pair's row and column of the two products are computed.

    `n_corrections` pairs are stored. The matrix is `sigma` I until there is a pair, or,
    if it `waits`, until there are all of them. If `capped`, sigma may never grow, as in
    the code of Kuru (2019); otherwise it is always ``s'y / y'y`` of the newest pair, as
    in the text.
    """

    def __init__(
        self,
        size: int,
        n_corrections: int,
        sigma: float,
        dtype: Any,
        capped: bool = False,
        waits: bool = False,
    ) -> None:
        self.sigma = sigma
        self._capped, self._waits = capped, waits
        self._n = n_corrections
        # Rows: the steps, then the changes of the gradient.
        self._rows = np.zeros((2 * n_corrections, size), dtype=dtype)
        self._steps_by_changes = np.zeros((n_corrections, n_corrections))
        self._changes_by_changes = np.zeros((n_corrections, n_corrections))
        self._order: list[int] = []  # positions of the pairs, the oldest first
        self._pieces = _pieces(size)

    def __len__(self) -> int:
        return len(self._order)

    @property
    def is_full(self) -> bool:
        """Whether the largest number of pairs is stored."""
        return len(self) == self._n

    def clear(self) -> None:
        """Delete all pairs, and keep sigma."""
        self._order = []

    def accept(
        self, step: NDArray[Any], change: NDArray[Any], threads: Threads
    ) -> bool:
        """Store a pair unless its curvature is not safely positive.

        `step` is the change of the point, `change` that of the gradient.
        """
        product, squares = inner(step, change), inner(change, change)
        least = _LEAST_COSINE * np.sqrt(squares) * np.sqrt(inner(step, step))
        if not (np.isfinite(least) and product > least > 0):
            return False
        place = self._order.pop(0) if self.is_full else len(self)
        self._rows[place], self._rows[self._n + place] = step, change
        self._order.append(place)
        sigma = product / squares
        self.sigma = min(self.sigma, sigma) if self._capped else sigma
        products = self._products(change, threads)
        self._steps_by_changes[:, place] = products[: self._n]
        self._changes_by_changes[place] = products[self._n :]
        self._changes_by_changes[:, place] = products[self._n :]
        return True

    def subtract(
        self,
        point: NDArray[Any],
        gradient: NDArray[Any],
        factor: float,
        threads: Threads,
    ) -> None:
        """``point -= factor H gradient``, in place.

        The result does not depend on the number of threads.
        """
        weights = np.zeros(2 * self._n)
        is_used = self.is_full if self._waits else bool(self._order)
        if is_used:
            places = np.array(self._order)
            products = self._products(gradient, threads)
            weights[places], weights[self._n + places] = self._middle(
                products[places], products[self._n + places]
            )
        coefficients = (factor * weights).astype(self._rows.dtype)
        scale = self._rows.dtype.type(factor * self.sigma)

        def move(first: int, last: int) -> None:
            part = point[first:last]
            with quiet():
                part -= scale * gradient[first:last]
                if is_used:
                    part -= coefficients @ self._rows[:, first:last]

        threads.each(move, self._pieces)

    def _middle(
        self, by_steps: NDArray[np.float64], by_changes: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights of the steps and of the changes, from the vector's products."""
        chosen = np.ix_(self._order, self._order)
        upper = np.triu(self._steps_by_changes[chosen])
        solved = solve_triangular(upper, by_steps, check_finite=False)
        inside = np.diag(upper) * solved + self.sigma * (
            self._changes_by_changes[chosen] @ solved - by_changes
        )
        by_change = -self.sigma * solved
        return solve_triangular(upper, inside, trans="T", check_finite=False), by_change

    def _products(self, vector: NDArray[Any], threads: Threads) -> NDArray[np.float64]:
        sums: NDArray[np.float64] = np.zeros((len(self._pieces), 2 * self._n))

        def part(first: int, last: int) -> None:
            with quiet():
                sums[first // _PIECE] = self._rows[:, first:last] @ vector[first:last]

        threads.each(part, self._pieces)
        total: NDArray[np.float64] = sums.sum(axis=0)
        return total


def inner(x: NDArray[Any], y: NDArray[Any]) -> float:
    """Inner product, summed piece by piece in double precision."""
    with quiet():
        return sum(float(x[start:end] @ y[start:end]) for start, end in _pieces(len(x)))


def quiet() -> AbstractContextManager[None]:
    """Silence warnings of overflow: the code finds and undoes its effects."""
    return np.errstate(over="ignore", invalid="ignore")


def _pieces(size: int) -> list[tuple[int, int]]:
    return [(start, min(start + _PIECE, size)) for start in range(0, size, _PIECE)]


# -------------------------------------------------------- Order of subsets in each pass
# SETSCHEDULE of Kuru (2019), section 3.4.


def deterministic(step: int, n_subsets: int, rng: Draws) -> list[int]:
    """All subsets in a cycle that starts one later in every pass; the first again.

    In the thesis's table for K = 5 the last entry of the third row is 1; by the
    thesis's rule it is 5, the first entry of the row.
    """
    return [(step + j) % n_subsets for j in range(n_subsets + 1)]


def stochastic(step: int, n_subsets: int, rng: Draws) -> list[int]:
    """All subsets in a random order; the first again."""
    order = rng.permutation(n_subsets).tolist()
    return [*order, order[0]]


SCHEDULES: dict[str, Callable[[int, int, Draws], list[int]]] = {
    "deterministic": deterministic,
    "stochastic": stochastic,
}


# --------------------------------------------------------------- Cycles through subsets
# HAMSI and mini-batch gradient descent share these.


check_positive_rate = partial(check_real, low=0.0, high=1e6, low_open=True)


def check_first_step(name: str, value: Any) -> float | None:
    """A positive rate; None: a step in proportion to the start."""
    return None if value is None else check_positive_rate(name, value)


# A cycle whose value exceeds the best value by this fraction is undone. The values in a
# cycle are taken at different points, which matters less over time.
_TOLERANCE, _TOLERANT_CYCLES = 0.02, 20
# Divisor of the steps after an undone cycle, and factor after any other.
_DAMPING, _RECOVERY = 4.0, 1.25
_FORGIVEN = 2  # undone cycles in a row before curvature and best value are forgotten
# Steps shortened by this factor since their maximum are too short for so many subsets.
_MOST_DAMPING = 64.0
_FIRST_STEP = 1e-2  # as a fraction of the start's norm


@dataclass(frozen=True, kw_only=True)
class Incremental(Factorizer):
    """Steps on one subset after another; parameters as in `HAMSI`."""

    checks: ClassVar[Checks] = {
        "n_steps": partial(check_count, high=10**6),
        "partition": partial(check_choice, allowed=PARTITIONS),
        "schedule": partial(check_choice, allowed=SCHEDULES),
        "n_subsets": partial(check_count, high=10**6),
        "eta": check_positive_rate,
        "gamma": partial(check_real, low=0.0, high=1.0),
        "least_divisor": partial(check_real, low=0.0, high=1e6),
        "first_step": check_first_step,
        "safeguarded": check_bool,
        "start_scale": check_start_scale,
    }

    n_steps: int = 100
    partition: str = "strata_balanced"
    schedule: str = "deterministic"
    n_subsets: int
    eta: float = 0.06
    gamma: float = 0.51
    least_divisor: float = 1.0
    first_step: float | None = None
    safeguarded: bool = True
    start_scale: float | None = None

    @classmethod
    def planned(cls, given: Given, task: Task) -> Self:
        return cls(**{**given, "n_subsets": cls._subsets(given, task)})

    @classmethod
    def _subsets(cls, given: Given, task: Task) -> int:
        """Number of subsets: by the rule, or as given if possible."""
        n_subsets: int = given.get("n_subsets", 2)
        if task.pattern is None:
            return n_subsets
        kind = given.get("partition", cls.partition)
        most = max(1, most_subsets(kind, task.pattern))
        if "n_subsets" not in given:
            return min(n_subsets, most)
        remedy = f"There is no more to divide with partition={kind!r}."
        return check_count("n_subsets", n_subsets, high=most, remedy=remedy)

    # Whether pairs of steps and changes of the gradient are collected.
    has_curvature: ClassVar[bool]
    # Least divisor to which shortened steps may recover.
    least_damping: ClassVar[float]

    @abstractmethod
    def inverse_hessian(self, size: int, dtype: np.dtype) -> InverseHessian:
        """Matrix that multiplies gradients at the start."""

    def order(self, cycle: int, n_subsets: int, rng: Draws) -> list[int]:
        """Subsets of a cycle, the first one again at the end."""
        return SCHEDULES[self.schedule](cycle, n_subsets, rng)

    def divisor(self, cycle: int) -> float:
        """Divisor of the steps of a cycle."""
        return float(max(self.least_divisor, (self.eta * (cycle + 1)) ** self.gamma))

    def iterates(
        self, ratings: Ratings, task: Task, rng: Draws, threads: Threads
    ) -> Iterator[Factors]:
        """The start, then the factors after each cycle."""
        run = Run(self, ratings, task, rng, threads)
        yield run.factors
        for cycle in range(self.n_steps):
            run.advance(cycle)
            yield run.factors


class Run:
    """Cycles through the subsets of a partition.

    The last step of a cycle is taken when the next cycle begins. So `factors` are those
    of the last gradient, for which the objective is known not to have grown.
    """

    def __init__(
        self,
        method: Incremental,
        ratings: Ratings,
        task: Task,
        rng: Draws,
        threads: Threads,
    ) -> None:
        self._method, self._rng, self._threads = method, rng, threads
        self.factors = random_start(ratings, task, rng, method.start_scale)
        most = most_subsets(method.partition, ratings.pattern)
        n_subsets = max(1, min(method.n_subsets, most))
        self._ratings = ratings
        self._divide(partition(method.partition, ratings.pattern, n_subsets, rng))
        flat = self.factors.flat
        self._inverse = method.inverse_hessian(flat.size, flat.dtype)
        self._is_free = method.first_step is None  # the run chooses the first steps
        self._gradient = np.empty_like(flat)
        for subset in self._subsets:
            finite_start(subset, self.factors, self._gradient, threads)
        self._best = self._look_at_all()
        self._kept = flat.copy()
        self._first_point, self._first_gradient = flat.copy(), np.empty_like(flat)
        self._step_to_take = 0.0
        self._damping, self._n_in_vain = 1.0, 0
        self._least_damping = math.inf  # until a cycle is not undone
        self.n_undone = 0

    @property
    def n_subsets(self) -> int:
        """Remaining subsets; fewer if they interfered with each other."""
        return len(self._subsets)

    def advance(self, cycle: int) -> None:
        """One cycle, or none if it is undone."""
        flat, method = self.factors.flat, self._method
        self._kept[:] = flat
        self._finish()
        order = method.order(cycle, len(self._subsets), self._rng)
        factor = 1 / (method.divisor(cycle) * self._damping)
        values: list[float] = []
        for place, subset in enumerate(order):
            values.append(self._look(subset))
            if not math.isfinite(values[-1]):
                break
            if place == 0:
                self._first_point[:], self._first_gradient[:] = flat, self._gradient
                self._scale_first_step()
            if place < len(order) - 1:
                self._step(factor)
        # Each subset once, by its latest value.
        value = sum(values[-len(self._subsets) :])
        allowed = 1 + _TOLERANCE / (1 + (cycle / _TOLERANT_CYCLES) ** 2)
        grown = method.safeguarded and value > allowed * self._best
        if grown or not math.isfinite(value):
            self._undo()
            return
        self._best = min(self._best, value)
        self._step_to_take, self._n_in_vain = factor, 0
        least = method.least_damping if method.safeguarded else 1.0
        self._damping = max(least, self._damping / _RECOVERY)
        self._least_damping = min(self._least_damping, self._damping)

    def _look(self, subset: int) -> float:
        return self._subsets[subset].value_and_gradient(
            self.factors.flat, self._gradient, self._threads
        )

    def _step(self, factor: float) -> None:
        self._inverse.subtract(self.factors.flat, self._gradient, factor, self._threads)

    def _scale_first_step(self) -> None:
        if not math.isnan(self._inverse.sigma):
            return
        point, gradient = self.factors.flat, self._gradient
        norm = math.sqrt(inner(gradient, gradient))
        size = _FIRST_STEP * math.sqrt(inner(point, point))
        self._inverse.sigma = size / norm if norm > 1e-280 else 0.0

    def _finish(self) -> None:
        """Take the last step, and store the cycle's pair, which is without it."""
        if not self._step_to_take:
            return
        step, change = self._first_point, self._first_gradient
        if self._method.has_curvature:
            with quiet():
                np.subtract(self.factors.flat, step, out=step)
                np.subtract(self._gradient, change, out=change)
        self._step(self._step_to_take)
        self._step_to_take = 0.0
        if self._method.has_curvature:
            is_known = self._inverse.accept(step, change, self._threads)
            if not (is_known or len(self._inverse)) and self._is_free:
                # No positive curvature, as near the origin: the step has no limit.
                self._inverse.sigma *= 2

    def _undo(self) -> None:
        self.factors.flat[:] = self._kept
        self._step_to_take = 0.0
        self._damping *= _DAMPING
        self.n_undone += 1
        self._n_in_vain += 1
        is_slow = self._damping > _MOST_DAMPING * self._least_damping
        if is_slow and self.n_subsets > 1:
            self._merge()
        elif self._n_in_vain > _FORGIVEN:
            self._inverse.clear()
        else:
            return
        # The best value may come from a path, and from no single point on it.
        self._best, self._n_in_vain = self._look_at_all(), 0

    def _merge(self) -> None:
        """Continue with half as many subsets: near the optimum they interfere."""
        before = self.n_subsets
        self._divide(merged(self._partition))
        self._inverse.clear()
        self._inverse.sigma *= self.n_subsets / before
        self._damping, self._least_damping = 1.0, math.inf

    def _divide(self, parts: Partition) -> None:
        self._partition = parts
        self._subsets = [
            Objective(
                self._ratings, self.factors.task, self.factors.mean, parts.pairs(k)
            )
            for k in range(parts.n_subsets)
        ]

    def _look_at_all(self) -> float:
        return sum(self._look(k) for k in range(len(self._subsets)))


# -------------------------------------------------------------------------------- HAMSI
# Incremental quasi-Newton steps on subsets of the ratings.


@dataclass(frozen=True, kw_only=True)
class HAMSI(Incremental):
    """Hessian approximated multiple subsets iteration, algorithm 3 of Kuru's thesis.

    Not private. Use it to study the method, or when a few passes must do: on MovieLens
    1M its training RMSE is 0.6406 after one second and 0.4983 after 25, and that of
    `lbfgs` 0.6502 and 0.4959. With more time `lbfgs` is as good or better, without
    steps to schedule.

    Parameters
    ----------
    n_steps : int in [1, 1e6], default=100
        Cycles through all subsets.
    partition : {"strata_balanced", "strata", "color", "color_balanced", "hogwild"}
        How ratings are divided in subsets.
    schedule : {"deterministic", "stochastic"}, default="deterministic"
        The order of subsets: a cycle, or a random one.
    n_subsets : int in [1, 1e6] or None, default=None
        K. None: 2.
    n_corrections : int in [1, 100], default=5
        Pairs of which the inverse Hessian is made.
    eta, gamma : float in (0, 1e6], float in [0, 1], default=0.06, 0.51
        ``beta_t = (eta t)^gamma``.
    least_divisor : float in [0, 1e6], default=1.0
        Least beta_t.
    first_step : float in (0, 1e6] or None, default=None
        Scale of H before there is a pair. None: a hundredth of the start's norm.
    capped, waits : bool, default=False
        Whether the scale of H never grows, and whether steps are gradient steps until H
        is full, as in the thesis.
    safeguarded : bool, default=True
        Whether cycles after which the objective has grown are undone; the thesis's
        settings diverge without it.
    start_scale : float in [0, 1e6] or None, default=None
        Standard deviation of the factors at the start. None: predictions have half the
        deviation of the ratings.

    Notes
    -----
    A cycle takes a step ``x -= H g_k / beta_t`` on each of K subsets and one more on
    the first, whose two gradients give the next pair for H. Results do not depend on
    `n_jobs`. Measurements: ``docs/notebook/papers.md``.

    References
    ----------
    .. [1] Kuru (2019). Novel gradient-based methods for data distribution and privacy
       in data science. PhD thesis, Sabancı University.
    """

    key: ClassVar[str] = "hamsi"
    has_curvature: ClassVar[bool] = True
    least_damping: ClassVar[float] = 1.0
    checks: ClassVar[Checks] = {
        **Incremental.checks,
        "n_corrections": partial(check_count, high=100),
        "capped": check_bool,
        "waits": check_bool,
    }

    n_corrections: int = 5
    capped: bool = False
    waits: bool = False

    def inverse_hessian(self, size: int, dtype: np.dtype) -> InverseHessian:
        """A multiple of the identity."""
        sigma = math.nan if self.first_step is None else self.first_step
        return InverseHessian(
            size, self.n_corrections, sigma, dtype, self.capped, self.waits
        )


@dataclass(frozen=True, kw_only=True)
class MinibatchGD(Incremental):
    """Gradient steps on one subset after another: what HAMSI is compared with.

    Safeguarded, it tunes its own step: an undone cycle shortens it, any other makes it
    longer. Parameters are those of `HAMSI`.
    """

    key: ClassVar[str] = "minibatch_gd"
    has_curvature: ClassVar[bool] = False
    least_damping: ClassVar[float] = 1e-6

    def order(self, cycle: int, n_subsets: int, rng: Draws) -> list[int]:
        """Every subset once."""
        return super().order(cycle, n_subsets, rng)[:-1]

    def inverse_hessian(self, size: int, dtype: np.dtype) -> InverseHessian:
        """A multiple of the identity, which never changes."""
        sigma = math.nan if self.first_step is None else self.first_step
        return InverseHessian(size, 0, sigma, dtype)


# --------------------------------------------------- Limited-memory BFGS on all ratings


_SUFFICIENT = 1e-4  # fraction of the decrease that the slope predicts
_MOST_TRIALS = 40


@dataclass(frozen=True, kw_only=True)
class LBFGS(Factorizer):
    """Full-batch limited-memory BFGS with a safe line search.

    Not private. Use it to fit ratings as closely as possible: ``alpha=0``, or the
    optimum of a penalised objective to many digits. Every accepted step decreases the
    objective, so that the method cannot diverge. For held-out error prefer `vb`
    (MovieLens 1M: 0.8283, and 0.8531 here).

    Parameters
    ----------
    n_steps : int in [1, 1e6], default=100
        Steps at most; fewer if no step decreases the objective any more. A step is
        about one pass over the ratings.
    n_corrections : int in [1, 100], default=10
        Pairs of steps and changes of the gradient that are remembered.
    start_scale : float in [0, 1e6] or None, default=None
        Standard deviation of the factors at the start. None: predictions have half the
        deviation of the ratings.

    Notes
    -----
    Steps start at 1 and are shortened along a parabola until the objective falls by
    1e-4 of what the slope promises; pairs without safely positive curvature are left
    out. The result has the same bits for any `n_jobs`. Extra memory is
    ``2 n_corrections + 6`` times the factors, and 16 bytes for each rating.
    Measurements: ``docs/notebook/papers.md``.

    References
    ----------
    .. [1] Nocedal and Wright (2006). Numerical optimization, section 7.2.
    """

    key: ClassVar[str] = "lbfgs"
    checks: ClassVar[Checks] = {
        "n_steps": partial(check_count, high=10**6),
        "n_corrections": partial(check_count, high=100),
        "start_scale": check_start_scale,
    }

    n_steps: int = 100
    n_corrections: int = 10
    start_scale: float | None = None

    def iterates(
        self, ratings: Ratings, task: Task, rng: Draws, threads: Threads
    ) -> Iterator[Factors]:
        """The start, then the factors after each step."""
        factors = random_start(ratings, task, rng, self.start_scale)
        objective = Objective(ratings, task, factors.mean)
        search = _Search(objective, factors, self.n_corrections, threads)
        yield factors
        for _ in range(self.n_steps):
            if not search.advance():
                return
            yield replace(factors, flat=search.point)


class _Search:
    """The current point of the method, and the next step.

    The next step does not change `point`, but the step after it does.
    """

    def __init__(
        self, objective: Objective, factors: Factors, n_pairs: int, threads: Threads
    ) -> None:
        self._objective, self._threads = objective, threads
        self.point = factors.flat
        self._gradient, self._trial, self._slope, self._direction = (
            np.empty_like(self.point) for _ in range(4)
        )
        self._value = finite_start(objective, factors, self._gradient, threads)
        self._inverse = InverseHessian(len(self.point), n_pairs, 1.0, self.point.dtype)
        self._reach = _FIRST_STEP
        self._rounding = float(np.finfo(self.point.dtype).eps)

    def advance(self) -> bool:
        """Take a step that lowers the objective; False if no step does."""
        norm = math.sqrt(inner(self._gradient, self._gradient))
        if not 0 < norm < math.inf:
            return False
        if not len(self._inverse):
            size = math.sqrt(inner(self.point, self.point))
            self._inverse.sigma = self._reach * size / norm
        self._direction[:] = 0
        self._inverse.subtract(self._direction, self._gradient, 1.0, self._threads)
        descent = inner(self._gradient, self._direction)
        if -self._rounding * self._value <= descent <= 0:
            return False
        step = self._shortened(descent) if -math.inf < descent < 0 else 0.0
        if not step:
            if not len(self._inverse):
                return False
            self._inverse.clear()  # and follow the gradient
            return self.advance()
        self.point, self._trial = self._trial, self.point
        self._gradient, self._slope = self._slope, self._gradient
        with quiet():
            np.subtract(self.point, self._trial, out=self._direction)
            np.subtract(self._gradient, self._slope, out=self._slope)
        is_known = self._inverse.accept(self._direction, self._slope, self._threads)
        if not is_known and step == 1.0:
            # No positive curvature, as near the origin: the step has no limit.
            self._reach = min(2 * self._reach, 1.0)
        return True

    def _shortened(self, descent: float) -> float:
        """A step that lowers the objective enough, stored as the trial; or 0."""
        step = 1.0
        for _ in range(_MOST_TRIALS):
            with quiet():
                np.multiply(self._direction, self.point.dtype.type(step), self._trial)
                self._trial += self.point
            found = self._objective.value_and_gradient(
                self._trial, self._slope, self._threads
            )
            if found <= self._value + _SUFFICIENT * step * descent:
                self._value = found
                return step
            step *= _shrinkage(self._value, found, step * descent)
        return 0.0


def _shrinkage(value: float, found: float, promised: float) -> float:
    """Minimum of the parabola through two values and the slope."""
    excess = found - value - promised
    if not math.isfinite(excess):
        return 0.1
    return min(max(-promised / (2 * excess), 0.1), 0.5)
