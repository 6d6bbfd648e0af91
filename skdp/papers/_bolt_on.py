"""Bolt-on output perturbation of permuted SGD: sensitivities and schedules."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.sparse import issparse

from skdp._arrays import UNIT_ROUNDOFF, FloatArray, IntArray
from skdp._checks import check_bool, check_choice, check_count, check_real
from skdp._configured import Checks, Given
from skdp._fit import Progress
from skdp.exceptions import Refused
from skdp.losses._classification import typical_weight
from skdp.losses._objective import LinearObjective
from skdp.papers._bolt_on_postgres import PlainDescent, descended
from skdp.papers._bolt_on_recursion import what_is_left
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.noise._laws import LAWS, deviation_once
from skdp.privacy.release._answers import Answers
from skdp.privacy.release._plan import Draws, Line, Plan
from skdp.solvers._base import ChosenLaw, Solution
from skdp.solvers._descent import RELAXATIONS
from skdp.sums._adder import kernel_weights
from skdp.sums._floating import GradientSum
from skdp.sums._gradient import ClippedGradient
from skdp.tables._memory import Order, drawn_order, in_memory, in_order
from skdp.tables._source import Block, Source

# ------------------------------------ Sensitivity of permutation-based gradient descent
# The sensitivity comes from the exact recursion over the updates, not from a closed
# form of the literature (``docs/proofs/papers.md``, Theorem 1; errors of the closed
# forms: ``docs/notebook/errata.md``).


# Factor by which a computed projection, or an average of them, may leave the ball.
_PROJECTION = 1 + 1e-7
# From this many updates on, compiled code repays the time to load it.
_WORTH_COMPILING = 10_000


@dataclass(frozen=True)
class Updates:
    """Public facts of a run.

    `steps`, of shape (n_passes, updates_per_pass), are step sizes. `shares`, with sum
    1, are the weights of the iterates in the release. Every sum of gradients is divided
    by `batch_size`, also for a shorter batch; every iterate is projected to the ball of
    `radius`.
    """

    steps: FloatArray
    shares: FloatArray
    batch_size: int
    radius: float = math.inf


@dataclass(frozen=True)
class Rounding:
    """Bounds on the effect of floating point.

    It adds `of_gradient` to a mean gradient, in its norm, `of_weights` to the rest of
    one update, in the norm of the weights, and `of_average` to the sum of the averaged
    iterates.
    """

    of_gradient: float = 0.0
    of_weights: float = 0.0
    of_average: float = 0.0


def exact_sensitivity(
    updates: Updates,
    change: float,
    *,
    smoothness: float,
    strength: float,
    reshuffle: bool = False,
    rounding: Rounding | None = None,
) -> float:
    """Bound on the L2 distance of the averaged weights of two neighbours.

    Attained by linear losses for every schedule, batch size and average.

    Parameters
    ----------
    change : float
        Largest change of a sum of the data's gradients, at any weights, when one record
        is exchanged; the regulariser is not included.
    smoothness, strength : float
        Bounds on the curvature of every record's regularised loss, from above and
        from below.
    reshuffle : bool, default=False
        Whether every pass uses a new order, so that a record may meet the most
        sensitive update of each pass.
    rounding : Rounding or None, default=None
        None: exact arithmetic.

    Returns
    -------
    float
        Under the adjacency of `change`.
    """
    steps, loop = updates.steps, what_is_left
    if steps.size >= _WORTH_COMPILING:
        # Imported here, because numba takes half a second to import.
        from skdp.papers._bolt_on_kernel import compiled_what_is_left as loop
    with np.errstate(over="ignore", invalid="ignore"):  # refused steps
        left = loop(steps.ravel(), updates.shares.ravel(), smoothness, strength)
    left = left.reshape(steps.shape)
    met = change / updates.batch_size * steps * left
    if reshuffle:
        total = float(met.max(axis=1).sum())
    else:
        total = float(met.sum(axis=0).max())
    if rounding is not None:
        errors = float(np.vdot(left, steps)) * rounding.of_gradient
        errors += float(left.sum()) * rounding.of_weights
        total += 2 * (errors + rounding.of_average)
        # Rounding of the recursion itself.
        total *= 1 + (8 * steps.size + 64) * UNIT_ROUNDOFF
    return min(total, 2 * updates.radius * _PROJECTION)


def farthest_iterate(updates: Updates, objective: LinearObjective) -> float:
    """Bound on the norm of every iterate (proof page, Lemma 2)."""
    steps = updates.steps
    gradient = objective.row_norm * objective.loss.zero_out_bound(math.inf)
    farthest = float(steps.sum()) * gradient
    if objective.alpha > 0 and float(steps.max()) * objective.alpha <= 1:
        farthest = min(farthest, gradient / objective.alpha)
    return min(1.01 * farthest, updates.radius * _PROJECTION)


def rounding_of(
    updates: Updates, objective: LinearObjective, farthest: float
) -> Rounding:
    """Effect of floating point at iterates within `farthest` (proof page, Lemma 3)."""
    d, size = objective.n_columns, objective.n_columns * objective.loss.n_outputs
    norm = objective.row_norm
    record = norm * objective.loss.zero_out_bound(math.inf)
    summed = (updates.batch_size + d + objective.loss.n_outputs + 64) * record
    raw = norm * farthest + 2 * objective.loss.prediction_unit
    moved = objective.loss.smoothness * norm * (2 * d + 32) * raw
    kept = 2.0 if objective.alpha == 0 else 8.0
    if math.isfinite(updates.radius):
        kept += size + 16
    is_average = float(updates.shares.max()) < 1
    averaged = updates.steps.size + 2.0 if is_average else 0.0
    return Rounding(
        of_gradient=UNIT_ROUNDOFF * (summed + moved),
        of_weights=UNIT_ROUNDOFF * kept * farthest,
        of_average=UNIT_ROUNDOFF * averaged * farthest,
    )


# ---------------------------------------- Gradient descent on batches in a secret order


@dataclass(frozen=True)
class PermutedDescent:
    """The averaged weights of all updates, for `Answers.inside`.

    If `reshuffle`, every pass draws a new order. `sensitivity` is the sensitivity of
    the averaged weights, rounding included.
    """

    objective: LinearObjective
    updates: Updates
    reshuffle: bool
    sensitivity: float
    progress: Progress

    def bound(self, line: int, done: int) -> float:
        return self.sensitivity

    def within(
        self, source: Source, draws: Draws
    ) -> Generator[FloatArray, FloatArray, None]:
        """Yield the averaged weights."""
        if self.updates.batch_size == self.objective.n_samples:
            yield self.full_gradients(source)
        else:
            yield self.batches(source, draws)

    def full_gradients(self, source: Source) -> FloatArray:
        """All records in every update, in any order. Private."""
        objective, radius = self.objective, self.updates.radius
        gradient = GradientSum(source, objective)
        weights = np.zeros(objective.shape)
        average = np.zeros_like(weights)
        steps, shares = self.updates.steps.ravel(), self.updates.shares.ravel()
        for t in range(len(steps)):
            mean = gradient(weights) / objective.n_samples
            weights = (1 - steps[t] * objective.alpha) * weights - steps[t] * mean
            norm = float(np.linalg.norm(weights))
            if norm > radius:
                weights *= radius / norm
            average += shares[t] * weights
            self.progress.step(t + 1, len(steps))
        return average

    def batches(self, source: Source, draws: Draws) -> FloatArray:
        """Batches in a random order. Private."""
        n_passes = len(self.updates.steps)
        orders: Iterable[Order] = self._orders(source, draws)
        if source.facts.holds_rows:
            source = in_memory(source)
        else:
            orders = keys = tuple(map(str, orders))
            weights = self._descended(source, keys)
            if weights is not None:
                return weights
        state = State(self.objective, self.updates)
        for j, order in enumerate(orders):
            for block, rows in in_order(source, order):
                state.transition(block, rows)
            self.progress.step(j + 1, n_passes)
        return state.terminate()

    def _orders(self, source: Source, draws: Draws) -> Iterator[Order]:
        """The order of each pass: the same one, or a new one."""
        order = drawn_order(source, draws)
        yield order
        for _ in range(len(self.updates.steps) - 1):
            if self.reshuffle:
                order = drawn_order(source, draws)
            yield order

    def _descended(self, source: Any, keys: tuple[str, ...]) -> FloatArray | None:
        """Averaged weights of a source that trains where its records are stored."""
        objective, updates = self.objective, self.updates
        if objective.loss.n_outputs > 1:
            return None
        asked = PlainDescent(
            updates.steps,
            updates.shares,
            keys,
            updates.batch_size,
            objective.n_samples,
            objective.n_features,
            objective.alpha,
            updates.radius,
            objective.data_norm,
            objective.intercept_value if objective.fit_intercept else None,
            objective.loss.form,
            objective.loss.form_constants,
        )
        weights = descended(source, asked)
        return None if weights is None else weights[:, None]


class State:
    """State that is carried from record to record through all passes. Private.

    Parameters
    ----------
    objective : LinearObjective
    updates : Updates
    """

    def __init__(self, objective: LinearObjective, updates: Updates) -> None:
        self._objective, self._updates = objective, updates
        # Compiled code has one row per output.
        shape = objective.loss.n_outputs, objective.n_columns
        self._weights, self._average = np.zeros(shape), np.zeros(shape)
        self._gradient = np.zeros(shape)  # sum over the current batch
        self._place = 0

    def transition(self, block: Block, order: IntArray) -> None:
        """Continue with these rows of a block; passes follow one another."""
        # Imported here, because numba takes half a second to import.
        from skdp.papers._bolt_on_kernel import dense_pass, sparse_pass

        objective, updates = self._objective, self._updates
        X: Any = block.X if issparse(block.X) else np.ascontiguousarray(block.X)
        go_on = sparse_pass if issparse(X) else dense_pass
        rows = (X.data, X.indices, X.indptr) if issparse(X) else (X,)
        present = kernel_weights(block)
        if present is None:
            present = np.ones(len(block.y), dtype=bool)
        intercept = objective.intercept_value if objective.fit_intercept else 0.0
        number, start = divmod(self._place, objective.n_samples)
        go_on(
            *rows,
            block.y,
            present,
            (objective.data_norm, intercept),
            order,
            (start, objective.n_samples),
            updates.steps[number],
            updates.shares[number],
            updates.batch_size,
            objective.alpha,
            updates.radius,
            int(objective.loss.form),
            objective.loss.form_constants,
            self._weights,
            self._average,
            self._gradient,
        )
        self._place += len(order)

    def terminate(self) -> FloatArray:
        """The averaged weights, of shape (n_columns, n_outputs)."""
        return self._average.T.copy()


# -------------------------------------------- Step sizes and averages from public facts
# Each schedule maps the numbers 1, 2, ... of the updates, a first step, the
# regularisation and an offset to step sizes; each average maps the number of updates to
# the shares of the iterates in the release.


Schedule = Callable[[FloatArray, float, float, float], FloatArray]


def _constant(t: FloatArray, step: float, alpha: float, offset: float) -> FloatArray:
    return np.full_like(t, step)


def _sqrt(t: FloatArray, step: float, alpha: float, offset: float) -> FloatArray:
    return np.asarray(step * (1 + offset) / (np.sqrt(t) + offset))


def _decreasing(t: FloatArray, step: float, alpha: float, offset: float) -> FloatArray:
    return step * (1 + offset) / (t + offset)


def _strongly_convex(
    t: FloatArray, step: float, alpha: float, offset: float
) -> FloatArray:
    # Without the cap no step would be a contraction (docs/notebook/errata.md).
    return np.minimum(step, 1 / (alpha * t))


def _last(n: int) -> FloatArray:
    shares = np.zeros(n)
    shares[-1] = 1.0
    return shares


def _uniform(n: int) -> FloatArray:
    return np.full(n, 1 / n)


def _last_few(n: int) -> FloatArray:
    """The last log(n) iterates, rounded up, and at least 1."""
    few = max(1, math.ceil(math.log(n)))
    shares = np.zeros(n)
    shares[-few:] = 1 / few
    return shares


def _linear(n: int) -> FloatArray:
    return 2 * np.arange(1.0, n + 1) / (n * (n + 1.0))


SCHEDULES: dict[str, Schedule] = {
    "constant": _constant,
    "decreasing": _decreasing,
    "sqrt": _sqrt,
    "strongly_convex": _strongly_convex,
}
AVERAGES: dict[str, Callable[[int], FloatArray]] = {
    "last_log": _last_few,
    "linear": _linear,
    "none": _last,
    "uniform": _uniform,
}


# ----------------------------------------------------- Bolt-on private gradient descent
# The records are put into a secret order once (or in every pass) and processed in
# batches of b,
#
#     W <- project(W - step_t * (sum over the batch of gradients / b + alpha * W)),
#
# where b also divides a shorter last batch. Only the last weights, or a weighted
# average of all iterates, are released, with noise for the largest change by one
# record.


# Guess of the norm of useful weights, in units of raw predictions over data_norm.
_WEIGHTS_NORM = 5.0
# Number of full gradients up to which the default prefers them to batches, and its
# number of passes otherwise: on two splits of Adult 5, 20 and 50 passes were equally
# accurate.
_MOST_FULL, _PASSES = 200, 10
_MOST_PASSES, _MOST_UPDATES = 10**6, 2 * 10**7
# Beyond this the rounding bounds of the proof page, or the range of doubles, end.
_MOST_PRODUCTS = 1e13
_LEAST, _MOST = 1e-250, 1e250
# Weights up to this norm can be squared before they are projected.
_FARTHEST = 1e140


def _check_radius(name: str, value: Any) -> float:
    if isinstance(value, Real) and value == math.inf:
        return math.inf
    return check_real(name, value, low=1e-150, high=1e150, remedy="Or use inf.")


@dataclass(frozen=True, kw_only=True)
class BoltOn(ChosenLaw):
    """Permutation-based stochastic gradient descent with noise on its result.

    Kept for study: a baseline, best nowhere that was measured (Adult, epsilon 1,
    replace_one: 0.820, and 0.843 with `noisy_gd`). Its noise is spread evenly over all
    directions. It takes ``delta=0``, needs no regularisation, and reads a database in
    the order of ids (`SqlSource`, `record_id`); files have no ids and are refused.

    Parameters
    ----------
    n_passes : int in [1, 1e6] or None, default=None
        Passes; all are made. None: what the flow time needs, or 10.
    batch_size : int of at least 1 or None, default=None
        Divisor of every sum, also of a short last batch. None: full gradients if 200
        are enough, else the largest batch that reaches the flow time.
    schedule : {"constant", "decreasing", "sqrt", "strongly_convex"}, default="constant"
        Step t is ``step_size``, over t, over sqrt(t), or
        ``min(step_size, 1 / (alpha t))``.
    step_size : float in [1e-250, 1e250] or None, default=None
        Largest step, at most 2/L. None: the flow time that balances noise and bias, at
        most 1/L.
    offset : float in [0, 1e9], default=0.0
        o of "decreasing" steps ``step_size (1 + o) / (t + o)``, with sqrt(t) for
        "sqrt".
    average : {"none", "last_log", "linear", "uniform"}, default="none"
        Iterates that are averaged; the average's own sensitivity is charged.
    radius : float in [1e-150, 1e150] or inf, default=inf
        Norm to which iterates are projected.
    reshuffle : bool, default=False
        Whether every pass has a new order, which may cost noise.
    law : {"gaussian", "spherical"} or None, default=None
        None: spherical if delta is 0.

    Notes
    -----
    Released are the final weights (or the average) only; iterates and losses must not
    be published. The sensitivity is that of the exact recursion, since closed forms of
    [1]_ are too small. Unit of privacy: one record. Proof: ``docs/proofs/papers.md``,
    Theorem 1.

    References
    ----------
    .. [1] Wu, Li, Kumar, Chaudhuri, Jha and Naughton (2017). Bolt-on differential
       privacy. SIGMOD. https://arxiv.org/abs/1606.04722
    """

    key: ClassVar[str] = "bolt_on"
    needs_permutation: ClassVar[bool] = True
    checks: ClassVar[Checks] = {
        **ChosenLaw.checks,
        "n_passes": partial(check_count, high=_MOST_PASSES),
        "batch_size": check_count,
        "schedule": partial(check_choice, allowed=SCHEDULES),
        "step_size": partial(check_real, low=_LEAST, high=_MOST),
        "offset": partial(check_real, low=0.0, high=1e9),
        "average": partial(check_choice, allowed=AVERAGES),
        "radius": _check_radius,
        "reshuffle": check_bool,
    }

    n_passes: int
    batch_size: int
    schedule: Literal["constant", "decreasing", "sqrt", "strongly_convex"] = "constant"
    step_size: float
    offset: float = 0.0
    average: Literal["none", "last_log", "linear", "uniform"] = "none"
    radius: float = math.inf
    reshuffle: bool = False

    @classmethod
    def check_given(cls, given: Given) -> None:
        has_one = given.get("schedule") in ("decreasing", "sqrt")
        if given.get("offset", 0.0) > 0 and not has_one:
            raise ValueError(
                "The 'offset' parameter must be 0 but for the schedules 'decreasing' "
                f"and 'sqrt'. Got {given['offset']} with another. Leave it out."
            )

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        cls.check(objective, budget)
        law, me = cls.law_for(given, budget), f"solver={cls.key!r}"
        if given.get("schedule") == "strongly_convex" and objective.alpha == 0:
            raise Refused(
                f"{me} needs regularisation for this schedule. Set C or alpha."
            )
        flow = _flow_time(objective, budget, law)
        n_passes, batch_size = _passes_and_batch(given, objective, flow)
        updates = n_passes * -(-objective.n_samples // batch_size)
        if updates > _MOST_UPDATES or updates * objective.n_columns > _MOST_PRODUCTS:
            raise Refused(
                f"{me} would make too many updates. Got {updates:,}. "
                "Use a larger 'batch_size' or fewer 'n_passes'."
            )
        decided = {"law": law, "n_passes": n_passes, "batch_size": batch_size}
        solver = cls(**{"step_size": 1.0, **given, **decided})
        if "step_size" not in given:
            step_size = 1 / objective.smoothness
            if solver.schedule != "strongly_convex":
                unit = solver.updates(objective).steps
                step_size = min(flow / float(unit.sum()), step_size)
            solver = replace(solver, step_size=step_size)
        solver._check_steps(objective)
        cls.check_noise(law, budget, math.prod(objective.shape))
        return solver

    def _check_steps(self, objective: LinearObjective) -> None:
        """Raise if steps are too long, or weights may become too large."""
        me, smoothness = f"solver={self.key!r}", objective.smoothness
        if not self.step_size * smoothness <= 2:
            raise Refused(
                f"{me} needs a 'step_size' of at most 2 / L, which is "
                f"{2 / smoothness:.3g}. Got {self.step_size:.3g}. "
                "Use step_size=None."
            )
        unprojected = replace(self.updates(objective), radius=math.inf)
        far = farthest_iterate(unprojected, objective)
        if not (far < _FARTHEST and _LEAST < self.sensitivity(objective)):
            raise Refused(
                f"{me} leaves the range of numbers. Use another 'data_norm' or C."
            )

    @property
    def mechanism(self) -> str:
        return f"{self.noise_law.name} noise on the last weights of gradient descent"

    def updates(self, objective: LinearObjective) -> Updates:
        """Public facts of the run."""
        return Updates(
            self._steps(objective),
            self._shares(objective),
            self.batch_size,
            self.radius,
        )

    def plan(self, objective: LinearObjective) -> Plan:
        return Plan((Line(law=self.noise_law),))

    def sensitivity(self, objective: LinearObjective) -> float:
        updates = self.updates(objective)
        farthest = farthest_iterate(updates, objective)
        return exact_sensitivity(
            updates,
            _largest_change(objective, farthest),
            smoothness=objective.smoothness,
            strength=objective.alpha,
            reshuffle=self.reshuffle,
            rounding=rounding_of(updates, objective, farthest),
        )

    def descent(
        self, objective: LinearObjective, progress: Progress
    ) -> PermutedDescent:
        """The computation within the walls."""
        updates, bound = self.updates(objective), self.sensitivity(objective)
        return PermutedDescent(objective, updates, self.reshuffle, bound, progress)

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        released = answers.inside(self.descent(objective, progress))
        return Solution(released, answers.noise_scale)

    def _updates_per_pass(self, objective: LinearObjective) -> int:
        return -(-objective.n_samples // self.batch_size)

    def _steps(self, objective: LinearObjective) -> FloatArray:
        """Step sizes, of shape (n_passes, updates_per_pass)."""
        per_pass = self._updates_per_pass(objective)
        t = np.arange(1.0, self.n_passes * per_pass + 1)
        steps = SCHEDULES[self.schedule](
            t, self.step_size, objective.alpha, self.offset
        )
        return steps.reshape(self.n_passes, per_pass)

    def _shares(self, objective: LinearObjective) -> FloatArray:
        per_pass = self._updates_per_pass(objective)
        shares = AVERAGES[self.average](self.n_passes * per_pass)
        return shares.reshape(self.n_passes, per_pass)


def _passes_and_batch(
    given: Given, objective: LinearObjective, flow: float
) -> tuple[int, int]:
    """Passes and batch size; a rule decides each one that is not given."""
    n, wanted = objective.n_samples, flow * objective.smoothness
    # With the largest steps, `wanted` updates cover the flow time.
    passes, batch = given.get("n_passes"), min(given.get("batch_size", n), n)
    if passes is None:
        passes = math.ceil(min(max(wanted / -(-n // batch), 1), _MOST_FULL))
        if "batch_size" not in given and wanted > _MOST_FULL:
            passes = _PASSES
    if "batch_size" not in given:
        batch = math.floor(min(max(passes * n / wanted, 1), n))
    return passes, batch


def _flow_time(objective: LinearObjective, budget: Budget, law: str) -> float:
    """Flow time with the least sum of the costs of noise and bias.

    Noise of deviation e = z G s / n per weight costs about
    ``curvature_trace row_norm^2 e^2 / 2`` in the mean loss, the bias
    ``norm^2 / (2 s)``.
    """
    size = objective.n_columns * objective.loss.n_outputs
    deviation = deviation_once(LAWS[law], budget, size) / objective.n_samples
    # In units of data_norm, whose powers could overflow.
    length = objective.row_norm / objective.data_norm
    change = _largest_change(objective, math.inf) / objective.data_norm
    ratio = (
        _WEIGHTS_NORM * objective.loss.prediction_unit / (length * deviation * change)
    )
    curvature = objective.loss.curvature_trace * typical_weight(objective.loss)
    flow = (ratio**2 / (2 * curvature)) ** (1 / 3) / objective.data_norm**2
    if objective.alpha > 0:
        flow = min(flow, RELAXATIONS / objective.alpha)
    return float(flow)


def _largest_change(objective: LinearObjective, farthest: float) -> float:
    """Change of a gradient by one record, at weights of norm at most `farthest`."""
    sums = ClippedGradient(objective)
    bound = sums.real_bound(sums.radius(farthest))
    return bound.under(objective.adjacency)
