"""Nesterov's method with noise that is divided over the steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from skdp._arrays import FloatArray, IntArray
from skdp._checks import check_choice, check_real
from skdp._configured import Checks, Given
from skdp.exceptions import Refused
from skdp.losses._objective import LinearObjective
from skdp.privacy.accounting._calibrate import Budget, calibrate
from skdp.privacy.accounting._relations import is_of_users
from skdp.privacy.noise._laws import LAWS, budget_of, deviation_once
from skdp.privacy.release._plan import EVERYONE, Batch, Sample
from skdp.solvers._base import ChosenLaw, box_radius
from skdp.solvers._descent import FlowTime, LinearDescent
from skdp.solvers._steps import LookAheadSteps, Steps, ranges
from skdp.sums._gradient import ClippedGradient

# ---------------------------------------- Division of the privacy budget over the steps
# For an objective of smoothness L and strong convexity mu, Nesterov's method with step
# ``alpha_t <= 1 / L``, momentum ``(1 - sqrt(alpha_t mu)) / (1 + sqrt(alpha_t mu))`` and
# gradient noise of variance v_t per coordinate has after T steps an expected excess
# objective of at most ([1]_, theorem 4.1 and equation 34)
#
#     a_0 E_0 + d sum_t a_t v_t,
#     a_t = 2^(s_T - s_t) prod_{i > t} (1 - sqrt(alpha_i mu)) alpha_t (1 + alpha_t
#     L) / 2,
#     a_0 = 2^(s_T) prod_i (1 - sqrt(alpha_i mu)),
#
# where s_t is the stage of step t, from 1: a new stage starts without velocity, for
# which the Lyapunov function of the proof is at most twice the excess. One stage is
# Nesterov's method. The factor 2 that the first stage puts on E_0 is missing in the
# theorem as it is printed, which bounds the Lyapunov function
# (``docs/notebook/errata.md``).
#
# A step whose noise has r times the standard deviation of one release for the whole
# budget costs the share r^-k of the budget: k = 2 for Gaussian noise, whose mu^2 add
# up, and k = 1 for pure epsilon. Among shares that add up to 1, the bound's noise is
# least for
#
#     r_t^-k = a_t^p / sum_j a_j^p,    p = k / (k + 2),
#     sum_t a_t r_t^2 = (sum_t a_t^p)^(1 / p).
#
# So ``epsilon_t`` is proportional to ``a_t^(1/3)`` ([1]_, equation 31) and, for
# Gaussian noise, ``sigma_t^2`` to ``1 / sqrt(a_t)``.
#
# Public constants only. Wrong ones cost accuracy, never privacy.
#
# References:
# .. [1] Kuru, Birbil, Gurbuzbalaban and Yildirim (2022). Differentially private
#    accelerated optimization algorithms. SIAM J. Optim. 32(2).
#    https://arxiv.org/abs/2008.01989


# Shares of the budget are rounded to powers of 2^(1/4), so that an event has few parts.
# The bound is flat at its minimum: rounding costs less than 1 %.
_LEVELS_PER_DOUBLING = 4
# Step sizes above this multiple of 1 / L, far beyond any use, are computed as if equal
# to it.
_LARGEST_STEP = 1e50
# Every step gets at least this fraction of the largest share. The bound hardly changes,
# and the noise of every step stays bounded: directions with less curvature than mu
# would never forget unbounded noise.
_LEAST_SHARE = 1e-3


def nesterov_momentum(step_sizes: FloatArray, strong_convexity: float) -> FloatArray:
    """``(1 - r) / (1 + r)`` with ``r = sqrt(step_size * mu)``, at least 0."""
    root = np.minimum(_root(step_sizes, strong_convexity), 1.0)
    return np.asarray((1 - root) / (1 + root))


def _root(step_sizes: FloatArray, strong_convexity: float) -> FloatArray:
    """``sqrt(step_size * mu)``, without overflow."""
    return np.asarray(np.sqrt(step_sizes) * math.sqrt(strong_convexity))


def multistage_steps(
    n_steps: int,
    *,
    step_size: float,
    smoothness: float,
    strong_convexity: float,
    first_stage: int | None = None,
) -> tuple[FloatArray, IntArray]:
    r"""Step sizes and stages of the multistage method.

    Stage 1 has the given step size; stage k >= 2 has ``step_size / 4^k`` and
    ``2^k ceil(sqrt(L / mu) log 8)`` steps ([1]_, corollary 4.3 with p = 1).

    Parameters
    ----------
    n_steps : int
        Of all stages; the last one may be cut.
    step_size : float
        Of the first stage.
    smoothness, strong_convexity : float
        L and mu of the objective.
    first_stage : int or None, default=None
        Steps of the first stage. None: ``ceil(2 sqrt(L / mu) log sqrt(L / mu))``.

    Returns
    -------
    step_sizes : ndarray of float64 of shape (n_steps,)
    stages : ndarray of int64 of shape (n_steps,), from 1
    """
    root = math.sqrt(smoothness) / math.sqrt(strong_convexity)
    if first_stage is None:
        first_stage = max(1, math.ceil(2 * root * math.log(root)))
    lengths = [first_stage]
    while (left := n_steps - sum(lengths)) > 0:
        stage = len(lengths) + 1
        lengths.append(min(left, 2**stage * max(1, math.ceil(root * math.log(8)))))
    stages = np.repeat(np.arange(1, len(lengths) + 1), lengths)[:n_steps]
    return step_size / np.where(stages == 1, 1.0, 4.0**stages), stages


def bound_weights(
    step_sizes: FloatArray,
    stages: IntArray,
    *,
    smoothness: float,
    strong_convexity: float,
) -> tuple[float, FloatArray]:
    """Weights of the error bound: of E_0, and of each step's ``d v_t``.

    Parameters
    ----------
    step_sizes : ndarray of shape (n_steps,)
    stages : ndarray of int of shape (n_steps,)
        Of every step, not falling; all 1 for Nesterov's method.
    smoothness, strong_convexity : float
        L and mu of the objective.

    Returns
    -------
    start : float
        a_0.
    weights : ndarray of float64 of shape (n_steps,)
        a_1, ..., a_T. Those far from the end may underflow to 0.
    """
    root = _root(step_sizes, strong_convexity)
    decay = np.log1p(-np.minimum(root, 1 - 1e-15))
    left = np.sum(decay) - np.cumsum(decay) + (stages[-1] - stages) * math.log(2)
    start = float(np.exp(np.sum(decay) + stages[-1] * math.log(2)))
    return start, np.exp(left) * _own_weight(step_sizes, smoothness)


def _own_weight(step_sizes: FloatArray, smoothness: float) -> FloatArray:
    """``alpha (1 + alpha L) / 2``, finite for any step size."""
    with np.errstate(over="ignore"):
        relative = np.minimum(step_sizes * smoothness, _LARGEST_STEP)
    return np.asarray(step_sizes * (1 + relative) / 2)


def budget_shares(weights: FloatArray, *, is_pure: bool) -> FloatArray:
    """Share of the budget of every step: of mu^2, or of epsilon if `is_pure`.

    Parameters
    ----------
    weights : ndarray of shape (n_steps,)
        Of the steps' variances in whatever is to be small.

    Returns
    -------
    ndarray of float64 of shape (n_steps,)
        Adds up to 1; none below 1e-3 of the largest.
    """
    shares = (weights / np.max(weights)) ** (1 / 3 if is_pure else 1 / 2)
    shares = np.maximum(shares, _LEAST_SHARE)
    return np.asarray(shares / np.sum(shares))


def divide_noise(weights: FloatArray, *, is_pure: bool) -> FloatArray:
    """Noise of every step, relative to that of one release for the whole budget.

    Parameters
    ----------
    weights : ndarray of shape (n_steps,)
        As for `budget_shares`.
    is_pure : bool
        Whether the budget is a pure epsilon, and not a Gaussian mu^2.

    Returns
    -------
    ndarray of float64 of shape (n_steps,)
        r_t with ``sum_t r_t^-1 = 1`` if pure, ``sum_t r_t^-2 = 1`` otherwise.

    Examples
    --------
    >>> from skdp.solvers._accelerated import divide_noise
    >>> import numpy as np
    >>> divide_noise(np.array([1.0, 16.0]), is_pure=False).round(3)
    array([2.236, 1.118])
    """
    shares = budget_shares(weights, is_pure=is_pure)
    return np.asarray(1 / shares if is_pure else np.sqrt(1 / shares))


def noise_levels(weights: FloatArray, *, is_pure: bool) -> list[tuple[float, int]]:
    """`divide_noise` in few levels: each r_t with the number of steps that it lasts.

    Shares of the budget are rounded to powers of 2^(1/4) and made to add up to 1 again.
    """
    doublings = np.log2(budget_shares(weights, is_pure=is_pure))
    doublings = np.rint(_LEVELS_PER_DOUBLING * doublings) / _LEVELS_PER_DOUBLING
    shares = 2.0**doublings / np.sum(2.0**doublings)
    factors = 1 / shares if is_pure else np.sqrt(1 / shares)
    starts = np.flatnonzero(np.diff(doublings, prepend=np.nan))
    counts = np.diff(starts, append=len(doublings))
    return [
        (float(factors[start]), int(count))
        for start, count in zip(starts, counts, strict=True)
    ]


def error_bounds(
    step_sizes: FloatArray,
    stages: IntArray,
    *,
    smoothness: float,
    strong_convexity: float,
    first_excess: float,
    variance: float,
    is_pure: bool,
    is_even: bool = False,
) -> FloatArray:
    """Bound on the excess objective after 1, 2, ... steps, the whole budget spent.

    In linear time: with one step more, all weights change by the same factor.

    Parameters
    ----------
    step_sizes, stages : ndarray of shape (n_steps,)
        Of the longest run; shorter ones are its beginnings.
    smoothness, strong_convexity : float
        L and mu of the objective.
    first_excess : float
        E_0, or a bound on it.
    variance : float
        Expected squared norm of the noise on the mean gradient if the whole budget
        went to one step: Laplace noise of scale b in d coordinates has ``2 d b^2``.
    is_pure : bool
    is_even : bool, default=False
        Every step gets the same noise, instead of the best division.

    Returns
    -------
    ndarray of float64 of shape (n_steps,)
    """
    k = 1 if is_pure else 2
    power = 1.0 if is_even else k / (k + 2)
    decay = 1 - np.minimum(_root(step_sizes, strong_convexity), 1.0)
    decay[0] *= 2.0
    decay[1:] *= 2.0 ** np.diff(stages)
    own = _own_weight(step_sizes, smoothness) ** power
    total, bounds = 0.0, np.empty(len(step_sizes))
    for t, (factor, new) in enumerate(zip(decay**power, own, strict=True)):
        total = factor * total + new
        bounds[t] = total ** (1 / power)
    if is_even:
        bounds *= np.arange(1.0, len(bounds) + 1) ** (2 / k)
    return np.asarray(first_excess * np.cumprod(decay) + variance * bounds)


def best_step_count(bounds: FloatArray) -> int:
    """Number of steps after which `error_bounds` are the least."""
    return int(np.argmin(bounds)) + 1


# ------------------------------------------ Shared algorithm of the accelerated methods
# Algorithm: with the weights ``W_t`` (zero at first), the velocity
# ``V_t = W_t - W_{t-1}`` (zero at the start of every stage) and the look-ahead
# ``A_t = W_t + momentum_t V_t``,
#
#     W_{t+1} = A_t - step_t ((g_t + N_t) / m + alpha Q_t),
#
# where g_t is the clipped gradient sum over m records at the point Q_t: the look-ahead
# for Nesterov's method, the weights themselves for the heavy ball. The release is the
# last iterate; all of them may be published.
#
# The noise N_t has the standard deviation (or scale) ``noise_multiplier * r_t`` times
# the sensitivity at the released point. The factors r_t divide the budget so that the
# error bound of `skdp.solvers._accelerated` is least: late steps get less noise.
# Proofs: ``docs/proofs/gradient_descent.md``.


# Limits on the default number of steps. One relaxation takes 1 / sqrt(step_size * mu)
# steps; six relaxations are enough for any run.
_MOST_STEPS, _MOST_RELAXATIONS = 1000, 6.0
# With delta = 0 the flow time is computed for this many steps of equal noise.
_PURE_STEPS = 20
# The smallest and the largest constant that a solver accepts.
_LEAST, _LARGEST = 1e-250, 1e250


class Schedule(NamedTuple):
    """Public course of a run: arrays of shape (n_steps,)."""

    step_sizes: FloatArray
    momenta: FloatArray
    stages: IntArray


@dataclass(frozen=True, kw_only=True)
class AcceleratedGD(ChosenLaw, LinearDescent):
    """Noisy gradient descent with momentum and a divided budget.

    Parameters
    ----------
    n_steps : int in [1, 1e6] or None, default=None
        Number of gradients, all of them taken. Public. None: ``2 / sqrt(step_size mu)``
        (heavy ball: sqrt(10) in place of 2) where noise limits the run, that is, where
        mu is above alpha; otherwise the number with the least error bound, from that to
        ``6 / sqrt(step_size mu)``. At most 1000.
    step_size : float in [1e-250, 1e250] or None, default=None
        In units of weights per gradient of the mean loss. None: ``1 / L`` with the
        public smoothness bound ``L = smoothness * row_norm^2 + alpha``, or a quarter of
        the flow time of `noisy_gd`'s rule if that is less.
    strong_convexity : float in [1e-250, 1e250] or None, default=None
        mu, from which momentum and division of the noise follow. None: alpha, or
        the inverse of the flow time of `noisy_gd`'s rule if that is larger: directions
        of smaller curvature are lost in the noise anyway.
    division : {"optimal", "even"}, default="optimal"
        Whether late steps get less noise, or all the same.
    residual_clip : float in [1e-6, inf] or None, default=None
        Norm to which the residual of every record is clipped. None: `noisy_gd`'s rule.
    intercept_weight : float in [1e-6, 1] or None, default=None
        Factor on the intercept's part of every query, undone after the noise. None:
        `noisy_gd`'s rule.
    law : {"gaussian", "spherical"} or None, default=None
        Law of the noise. None: spherical if delta is 0, which is what it needs,
        Gaussian otherwise. "spherical" is refused for several steps beside a delta
        above 0, which gains little with it.
    batch_size : int in [1, 2^31] or None, default=None
        Records in each step's secret batch, drawn afresh without replacement. Spherical
        noise only. None, or n_samples and more: all records in every step.
    keeps_path : bool, default=False
        Whether all iterates are kept, as `coef_path_` and `intercept_path_`.
    """

    checks: ClassVar[Checks] = {
        **ChosenLaw.checks,
        **ranges(
            "n_steps",
            "step_size",
            "residual_clip",
            "intercept_weight",
            "batch_size",
            "keeps_path",
        ),
        "strong_convexity": partial(check_real, low=1e-250, high=1e250),
        "division": partial(check_choice, allowed=("even", "optimal")),
    }
    # Whether the intercept's velocity is reset where it leads uphill. The heavy ball
    # follows its papers, which do not reset it.
    restarts_intercept: ClassVar[bool] = True
    looks_ahead: ClassVar[bool] = True  # whether gradients are taken at the look-ahead
    # The default run has this many times 1 / sqrt(step_size * mu) steps, in which
    # momentum covers a flow time 1 / mu.
    relaxations: ClassVar[float] = 2.0

    n_steps: int
    step_size: float
    strong_convexity: float
    division: Literal["optimal", "even"] = "optimal"
    residual_clip: float
    intercept_weight: float
    batch_size: int
    keeps_path: bool = False

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        solver = super().planned(given, objective, budget)
        solver._check_batches(objective)
        cls.check_steps(solver.law, budget, solver.n_steps)
        solver._check_draws(objective, budget)
        return solver

    @classmethod
    def by_rule(
        cls, given: Given, objective: LinearObjective, budget: Budget
    ) -> dict[str, Any]:
        law, n = cls.law_for(given, budget), objective.n_samples
        # Noise deviation per unit of sensitivity if one step gets the budget.
        once = deviation_once(LAWS[law], budget, math.prod(objective.shape))
        # Gaussian noise of a whole run does not depend on the number of steps.
        steps = _PURE_STEPS if LAWS[law].is_pure else 1
        rule = FlowTime(objective, 1 / (once * math.sqrt(steps)))
        clip, weight = rule.clip_and_weight(
            given.get("residual_clip"), given.get("intercept_weight")
        )
        # The flow time of noisy_gd is the upper limit.
        flow = min(rule.flow(clip, weight), rule.longest_flow)
        step_size, convexity = min(1 / rule.smoothness, flow / 4), 1 / flow
        found = {
            "law": law,
            "step_size": min(max(step_size, _LEAST), _LARGEST),
            "strong_convexity": min(max(objective.alpha, convexity, _LEAST), _LARGEST),
            **given,
            "residual_clip": clip,
            "intercept_weight": weight,
            "batch_size": min(given.get("batch_size", n), n),
        }
        return {"n_steps": cls._count(found, objective, once), **found}

    @classmethod
    def _count(cls, found: Given, objective: LinearObjective, once: float) -> int:
        """`relaxations` where noise limits the run, else the best of `error_bounds`.

        `once` is the noise deviation per unit of sensitivity if one step gets the
        budget.
        """
        step_size, convexity = found["step_size"], found["strong_convexity"]
        relaxation = 1 / (math.sqrt(step_size) * math.sqrt(convexity))
        few, many = (
            max(1, min(math.ceil(times * relaxation), _MOST_STEPS))
            for times in (cls.relaxations, _MOST_RELAXATIONS)
        )
        if convexity > objective.alpha or "n_steps" in found:
            return few
        clip, weight = found["residual_clip"], found["intercept_weight"]
        bound = ClippedGradient(objective, clip, weight).worst
        sample = _sample(found["batch_size"], objective.n_samples)
        noise = once * bound.under(sample.covering(objective.adjacency))
        bounds = error_bounds(
            np.full(many, step_size),
            np.ones(many, dtype=np.int64),
            smoothness=objective.smoothness,
            strong_convexity=convexity,
            first_excess=objective.loss.value_at_zero,
            variance=math.prod(objective.shape) * (noise / objective.n_samples) ** 2,
            is_pure=LAWS[found["law"]].is_pure,
            is_even=found.get("division") == "even",
        )
        return max(few, best_step_count(bounds))

    def _check_batches(self, objective: LinearObjective) -> None:
        is_batch = self.batch_size < objective.n_samples
        if is_batch and is_of_users(objective.adjacency):
            raise Refused(
                f"solver={self.key!r} takes a batch_size with privacy_unit='record' "
                "only: batches are of rows. Use batch_size=None."
            )
        if is_batch and not self.noise_law.is_pure:
            raise Refused(
                f"solver={self.key!r} takes a batch_size with law='spherical' only, "
                "since no exact law is known for Gaussian noise and batches of a fixed "
                "size. Use delta=0, or solver='noisy_sgd'."
            )

    def _check_draws(self, objective: LinearObjective, budget: Budget) -> None:
        """Raise if the noise of a step cannot be drawn."""
        law, size = self.noise_law, objective.n_columns * objective.loss.n_outputs
        if not law.is_pure:
            return
        plan = self.plan(objective)
        declare = partial(plan.event, relation=objective.adjacency)
        multiplier = calibrate(declare, budget_of(law, budget))
        multipliers = [line.multiplier(multiplier) for line in plan.lines]
        if not all(law.is_possible(z, size) for z in multipliers):
            raise Refused(
                f"solver={self.key!r} cannot draw such noise. Use fewer n_steps."
            )

    @property
    def mechanism(self) -> str:
        return f"{self.noise_law.name} noise on gradients, divided over the steps"

    def schedule(self, objective: LinearObjective) -> Schedule:
        """Step sizes, momenta and stages of the run."""
        step_sizes, stages = self._stages(objective)
        return Schedule(step_sizes, self._momenta(step_sizes), stages)

    def _stages(self, objective: LinearObjective) -> tuple[FloatArray, IntArray]:
        """Step sizes and stages; without restarts there is one stage."""
        ones = np.ones(self.n_steps, dtype=np.int64)
        return np.full(self.n_steps, self.step_size), ones

    def _momenta(self, step_sizes: FloatArray) -> FloatArray:
        return nesterov_momentum(step_sizes, self.strong_convexity)

    def levels(self, objective: LinearObjective) -> list[tuple[float, int]]:
        """Noise factor and number of steps of each level, in the order of the steps."""
        schedule = self.schedule(objective)
        weights = np.ones(len(schedule.stages))
        if self.division == "optimal":
            _, weights = bound_weights(
                schedule.step_sizes,
                schedule.stages,
                smoothness=objective.smoothness,
                strong_convexity=self.strong_convexity,
            )
        return noise_levels(weights, is_pure=self.noise_law.is_pure)

    def sample(self, objective: LinearObjective) -> Sample:
        return _sample(self.batch_size, objective.n_samples)

    def sample_size(self, objective: LinearObjective) -> int:
        return self.batch_size

    def gradients(self, objective: LinearObjective) -> ClippedGradient:
        return ClippedGradient(objective, self.residual_clip, self.intercept_weight)

    def steps(self, objective: LinearObjective, start: FloatArray) -> Steps:
        sizes, momenta, stages = self.schedule(objective)
        return LookAheadSteps(
            start,
            sizes,
            objective.alpha,
            box_radius(objective),
            keeps_path=self.keeps_path,
            momenta=np.where(np.diff(stages, prepend=1) > 0, 0.0, momenta),
            gradient_ahead=self.looks_ahead,
            restarts_intercept=self.restarts_intercept and objective.fit_intercept,
        )


def _sample(batch_size: int, n_samples: int) -> Sample:
    return EVERYONE if batch_size >= n_samples else Batch(batch_size, n_samples)


# ---------------------------- Nesterov's accelerated method with divided noise (DP-NAG)


@dataclass(frozen=True, kw_only=True)
class Nesterov(AcceleratedGD):
    """Nesterov's accelerated method, with the noise divided over the steps.

    Use it where noise dominates (``solver="auto"`` takes it for two classes, counts,
    amounts and quantiles outside of the default recipe where `noisy_gd` would take
    fewer than 100 steps), or with real regularisation. Elsewhere `noisy_gd` is as good
    or better. With ``delta=0`` prefer `objective_perturbation`: Adult at epsilon 1 has
    0.804 here and 0.837 there.

    Parameters
    ----------
    n_steps : int in [1, 1e6] or None, default=None
        Number of gradients; all are taken. None: ``2 / sqrt(step_size * mu)``, at most
        1000.
    step_size : float in [1e-250, 1e250] or None, default=None
        Weights per gradient of the mean loss. None: 1/L, or a quarter of the flow time
        of `noisy_gd` if that is less.
    strong_convexity : float in [1e-250, 1e250] or None, default=None
        mu, from which momentum and division follow. None: the larger of `alpha` and one
        over the flow time.
    division : {"optimal", "even"}, default="optimal"
        "optimal": late steps get less noise, so that more steps than needed cost time
        and not accuracy.
    residual_clip, intercept_weight
        As for `noisy_gd`.
    law : {"gaussian", "spherical"} or None, default=None
        None: spherical if delta is 0. Spherical noise beside a delta is refused for
        several steps.
    batch_size : int in [1, 2^31] or None, default=None
        Records of a secret batch without replacement; spherical noise only. It saves
        time, not noise.
    keeps_path : bool, default=False
        Whether all iterates are kept.

    Notes
    -----
    Released are adaptive answers of unequal noise: ``mu^2 = sum_t 1 / z_t^2``, or
    ``epsilon = sum_t 1 / z_t`` for pure epsilon. All iterates may be published. Unit of
    privacy: one record, or without batches all rows of a user. Proof:
    ``docs/proofs/gradient_descent.md``, Theorems 1 and 3.

    References
    ----------
    .. [1] Kuru, Birbil, Gurbuzbalaban and Yildirim (2022). Differentially private
       accelerated optimization algorithms. SIAM J. Optim. 32(2).
       https://arxiv.org/abs/2008.01989
    """

    key: ClassVar[str] = "nesterov"
    takes_users: ClassVar[bool] = True
