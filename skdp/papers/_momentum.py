"""Gradients of differences: SRM and difference gradient descent."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np

from skdp._arrays import FloatArray, IntArray
from skdp._checks import check_count, check_real
from skdp._configured import Checks, Given
from skdp.exceptions import Refused
from skdp.losses._base import plain_error
from skdp.losses._objective import LinearObjective
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.release._answers import Answers
from skdp.privacy.release._plan import Bound, Layout, Line, Plan
from skdp.solvers._base import Solver, box_radius
from skdp.solvers._descent import LinearDescent, NoisySGD, PlainFlowTime
from skdp.solvers._steps import PoissonSamples, Steps, ranges
from skdp.sums._exact import Sums, on_grid
from skdp.sums._gradient import ClippedGradient, LinearGradient
from skdp.sums._gradient_sum import ExactGradientSum, clipped
from skdp.sums._grid_rows import GridRows
from skdp.tables._source import Block, Source

# --------------------------------------------------- Sum of gradients and their changes
# The query of recursive momentum: a record adds ``(1 - refresh)`` times the change of
# its gradient since the last weights, and ``refresh`` times the gradient itself, each
# clipped. Proofs: ``docs/proofs/papers.md``.


# Factor on the weights' norm, for the rounding of raw predictions.
_ROUNDED = 1 + 1e-12
# Twice the relative error of a raw prediction in double precision, over its bound.
_RAW_ERROR = 2.0**-51


@dataclass(frozen=True, kw_only=True)
class ClippedChange(ClippedGradient):
    """Settings of the sum of gradients and their changes.

    The objective has a finite `data_norm` and a loss of bounded residuals.

    Parameters
    ----------
    change_clip : float in (0, inf]
        Norm to which the change of a record's residual is clipped.
    refresh : float in [0, 1]
        Weight of the gradient itself; 0: changes alone.
    """

    change_clip: float
    refresh: float

    def since(self, before: FloatArray, weights: FloatArray) -> GradientChange:
        """The query at released weights, and at the weights before them.

        Both have shape (n_columns, n_outputs) and are moved to the public grid.
        """
        return GradientChange(self, on_grid(weights), before=on_grid(before))

    def reader(self, source: Source) -> ChangeSum:
        return ChangeSum(source, self)

    @property
    def is_exact(self) -> bool:
        return ClippedGradient(self.objective).is_exact

    @property
    def worst(self) -> Bound:
        """Bound at any weights."""
        return self.changed_bound(math.inf, math.inf)

    @property
    def largest_residual(self) -> float:
        """Largest norm of a record's part over its row's norm, at any weights."""
        return self._part(math.inf, math.inf)

    def _part(self, radius: float, moved: float) -> float:
        """For raw predictions within `radius` that have moved by at most `moved`."""
        loss = self.objective.loss
        residual = loss.zero_out_bound(radius)
        change = min(2 * loss.zero_out_bound(math.inf), loss.smoothness * moved)
        change = min(change, self.change_clip)
        kept = (1 - self.refresh) * change
        return kept + self.refresh * min(residual, self.residual_clip)

    def changed_bound(self, radius: float, moved: float) -> Bound:
        """Bound for raw predictions within `radius` that have moved by `moved`."""
        part = self._part(radius, moved)
        part += 2 * plain_error(self.objective.loss) + self.half_unit
        length = self.length()
        return Bound(zero_out=length * part, replace_one=2 * length * part)


@dataclass(frozen=True, eq=False)
class GradientChange(LinearGradient):
    """The sum at `weights` and at those `before`, both of them released."""

    before: FloatArray = field(kw_only=True)

    def bound(self) -> Bound:
        settings = cast(ClippedChange, self.family)
        norm, earlier, moved = (
            float(np.linalg.norm(w, 2)) * _ROUNDED
            for w in (self.weights, self.before, self.weights - self.before)
        )
        # The difference of two close predictions also contains their rounding.
        moved += _RAW_ERROR * (norm + earlier)
        return settings.changed_bound(settings.radius(norm), settings.reach * moved)

    def slack(self, layout: Layout) -> float:
        # Both residuals are rounded, and their raw predictions err.
        norm = float(np.linalg.norm(self.weights) + np.linalg.norm(self.before))
        whole = ClippedGradient(self.family.objective)
        return 2 * whole.grid_slack(layout, whole.length(), norm)

    def whole_sums(self, reader: Any, rows: IntArray | None) -> Sums:
        sums: Sums = reader.whole_sums((self.weights, self.before), rows)
        return sums


class ChangeSum(ExactGradientSum):
    """Exact sums over a source, at weights and those before; rows are kept."""

    def __init__(self, source: Source, gradients: ClippedChange) -> None:
        super().__init__(source, gradients)
        self._changes, self._is_compiled = gradients, False
        self._clip = math.inf  # a change is that of unclipped residuals

    def _residual(self, rows: GridRows, block: Block, weights: Any) -> FloatArray:
        """Factor on each row, 0 for null records."""
        changes, (after, before) = self._changes, weights
        own = super()._residual(rows, block, after)
        change = own - super()._residual(rows, block, before)
        if math.isfinite(changes.change_clip):
            change = clipped(change, changes.change_clip)
        if math.isfinite(changes.residual_clip):
            own = clipped(own, changes.residual_clip)
        return np.asarray((1 - changes.refresh) * change + changes.refresh * own)


# ------------------------------------------------------------------- Recursive momentum
# Gradients are kept up to date by their changes. Algorithm: with B_t a fresh, secret
# sample that every record enters independently with probability ``q = batch_size / n``,
# and clip_c(r) a vector shortened to the norm c,
#
#     V_0 = (sum over B_0 of x clip_c1(r(W_0)) + N_0) / batch_size
#     V_t = (1 - refresh) V_{t-1} + (sum over B_t of x ((1 - refresh)
#           clip_c2(r(W_t) - r(W_{t-1})) + refresh clip_c1(r(W_t))) + N_t) / batch_size
#     W_{t+1} = W_t - step V_t - step_size (alpha W_t + penalty's gradient),
#
# where r is a record's residual, c1 is `residual_clip`, c2 `change_clip`, and the step
# is ``step_size``, or less so that ``step |V_t|`` is at most `longest_step`. The
# release is the mean of the last ``tail`` share of the iterates.


# Parameters that the rule takes from noisy_sgd, without momentum.
_SHARED = ("n_steps", "batch_size", "step_size", "residual_clip", "tail")


@dataclass(frozen=True, kw_only=True)
class SRM(PoissonSamples[LinearObjective], LinearDescent):
    """Noisy stochastic recursive momentum (DP-SRM).

    Kept for replication and study: at equal privacy it has not been better than
    `noisy_sgd` without momentum (a9a, epsilon 0.2: log-loss 0.3415, and 0.3320 there).
    Any loss with bounded residuals, convex or not. It refuses ``delta=0``.

    Parameters
    ----------
    n_steps, batch_size, step_size, residual_clip, tail
        As for `noisy_sgd` without momentum; `residual_clip` times the row norm is C_1.
    change_clip : float in [1e-6, inf] or None, default=None
        Norm to which the change of a record's residual is clipped; times the row norm
        it is C_2. None: `refresh` times the bound on residuals, as in [1]_.
    refresh : float in (0, 1], default=0.3
        Share of the fresh gradient, gamma of [1]_; 1 is plain descent.
    longest_step : float in (0, inf], default=inf
        Norm to which a step is shortened; zeta / (n0 L) in the theory of [1]_.
    penalty : float in [0, 1e250], default=0.0
        Strength of ``sum of w^2 / (1 + w^2)`` over the features' weights, which is not
        convex, of [1]_; public, outside of the noise.

    Notes
    -----
    Released are ``n_steps`` Poisson-sampled Gaussian answers, composed by privacy-loss
    distributions, with noise that follows the bound at the released weights: a change
    is at most the smoothness times what raw predictions have moved by, and
    `change_clip`. All iterates may be published, the samples may not. With C_2 = gamma
    C_1 the recursion has ``(2 - gamma)^2`` times the variance of an average that
    forgets as fast. Unit of privacy: one record. Proof: ``docs/proofs/papers.md``,
    Theorem 5.

    References
    ----------
    .. [1] Wang (2021). Towards efficient and effective privacy-preserving machine
       learning. PhD thesis, UCLA. (chapter 4, Algorithm 4)
    .. [2] Cutkosky and Orabona (2019). Momentum-based variance reduction in non-convex
       SGD. NeurIPS. https://arxiv.org/abs/1905.10018
    """

    key: ClassVar[str] = "srm"
    takes_nonconvex: ClassVar[bool] = True
    checks: ClassVar[Checks] = {
        **ranges("n_steps", "batch_size", "step_size", "residual_clip", "tail"),
        "change_clip": partial(check_real, low=1e-6, high=math.inf),
        "refresh": partial(check_real, low=0.0, high=1.0, low_open=True),
        "longest_step": partial(check_real, low=0.0, high=math.inf, low_open=True),
        "penalty": partial(check_real, low=0.0, high=1e250),
    }

    n_steps: int
    batch_size: int
    step_size: float
    residual_clip: float
    change_clip: float
    refresh: float = 0.3
    longest_step: float = math.inf
    penalty: float = 0.0
    tail: float

    @classmethod
    def by_rule(
        cls, given: Given, objective: LinearObjective, budget: Budget
    ) -> dict[str, Any]:
        plain: dict[str, Any] = {"momentum": 0.0, "intercept_weight": 1.0}
        plain |= {name: given[name] for name in _SHARED if name in given}
        like = NoisySGD.by_rule(plain, objective, budget)
        found = {name: like[name] for name in _SHARED}
        largest = min(objective.loss.zero_out_bound(math.inf), like["residual_clip"])
        found["change_clip"] = max(1e-6, given.get("refresh", cls.refresh) * largest)
        return {**found, **given, "batch_size": like["batch_size"]}

    def sensitivity(self, objective: LinearObjective) -> float:
        """Largest sensitivity of all queries: one record's contribution to a sample."""
        worst = (self.gradients(objective).worst, self._later(objective).worst)
        relation = self.sample(objective).covering(objective.adjacency)
        return max(bound.under(relation) for bound in worst[: self.n_steps])

    def gradients(self, objective: LinearObjective) -> ClippedGradient:
        """The first query; `_later` has the others."""
        return ClippedGradient(objective, self.residual_clip)

    def _later(self, objective: LinearObjective) -> ClippedChange:
        return ClippedChange(
            objective,
            self.residual_clip,
            change_clip=self.change_clip,
            refresh=self.refresh,
        )

    def steps(self, objective: LinearObjective, start: FloatArray) -> Steps:
        """Steps along `means`, which have their sizes and the penalty in them."""
        sizes = np.ones(self.n_steps)
        return Steps(start, sizes, 0.0, box_radius(objective), self.tail)

    def means(
        self, answers: Answers, objective: LinearObjective, steps: Steps
    ) -> Iterator[FloatArray]:
        first, later = self.gradients(objective), self._later(objective)
        before, momentum = steps.weights, np.zeros(objective.shape)
        for t in range(self.n_steps):
            weights = steps.weights
            query = later.since(before, weights) if t else first.at(weights)
            released = answers.ask(query).value / self.batch_size
            momentum = (1 - self.refresh) * momentum * (t > 0) + released
            before = weights
            public = self.step_size * self._outside(weights, objective)
            yield self._along(momentum) + public

    def _along(self, momentum: FloatArray) -> FloatArray:
        """A step along released momentum, none longer than `longest_step`."""
        step = self.step_size * momentum
        norm = float(np.linalg.norm(step))
        return step if norm <= self.longest_step else step * (self.longest_step / norm)

    def _outside(self, weights: FloatArray, objective: LinearObjective) -> FloatArray:
        """Gradient of the public part of the objective."""
        gradient = objective.alpha * weights
        if self.penalty:
            own = weights[: objective.n_features]
            # In this order nothing overflows before it is small.
            slope = 2 * (own / (1 + own**2)) / (1 + own**2)
            gradient[: len(own)] += self.penalty * slope
        return gradient


# --------------------------------------------- Full gradients, updated by their changes
# Gradients are averaged with fresh ones as far as noise allows. Algorithm: with g_t the
# gradient sum at the released weights W_t over all records, and noises N of declared
# deviations, whose squares are written var,
#
#     E_0 = g_0 + N_0,                           P_0 = var N_0,
#     E'_t = E_{t-1} + (g_t - g_{t-1}) + N'_t,   P'_t = P_{t-1} + var N'_t,
#     E_t = (1 - k) E'_t + k (g_t + N_t),        P_t = (1 - k) P'_t,
#     k = P'_t / (P'_t + var N_t),
#     W_{t+1} = W_t - step_size (E_t / n + alpha W_t).
#
# The gain k follows from public deviations: E_t is the best average of all releases so
# far. The release is the mean of the last ``tail`` share of the iterates.


_FIRST, _FRESH, _CHANGES = range(3)  # lines of the plan
# Every step reads all records three times.
_MOST_STEPS = 300


def check_shares(kind: type[Solver], given: Given, *names: str) -> None:
    """Refuse two shares of mu squared that leave nothing for gradients."""
    first, second = (given.get(name, getattr(kind, name)) for name in names)
    if 1 - first - second <= 0:
        raise Refused(
            f"solver={kind.key!r} needs a {names[0]!r} and a {names[1]!r} whose sum is "
            f"below 1. Got {first:g} and {second:g}. Use smaller shares."
        )


@dataclass(frozen=True, kw_only=True)
class DiffGD(LinearDescent):
    """Noisy gradient descent by gradients and their differences (DIFF-GD).

    An experiment, kept for study: it can help only where steps are many and short, and
    averages of iterates already buy most of that. On a9a at epsilon 0.2 its log-loss is
    0.3451, and 0.3325 with tuned `noisy_gd`. Any loss with bounded residuals, convex or
    not. It refuses ``delta=0``.

    Parameters
    ----------
    n_steps : int in [2, 1e6] or None, default=None
        Number of steps; all are taken, and each reads the table three times. None: L
        times the flow time of `noisy_gd`, at most 300.
    step_size : float in [1e-250, 1e250] or None, default=None
        Weights per gradient of the mean loss. None: the flow time over the steps, at
        most 1/L, without momentum.
    first_share : float in (0, 1), default=0.02
        Budget fraction of mu^2 for the first gradient.
    change_share : float in (0, 1), default=0.1
        Budget fraction of mu^2 for all differences; the rest is for fresh gradients.
    tail : float in [1e-9, 1], default=0.5
        Share of the last iterates that is averaged.

    Notes
    -----
    Released are ``2 n_steps - 1`` adaptive Gaussian answers: mu-GDP. A difference has
    the noise of its bound at the released weights, the loss's smoothness times the way
    of the raw predictions. All iterates may be published. Unit of privacy: one record.
    Proof: ``docs/proofs/papers.md``, Theorem 5.

    References
    ----------
    .. [1] Tran and Cutkosky (2022). Momentum aggregation for private non-convex ERM.
       NeurIPS. (section 4, without trees and order of records)
    .. [2] Murata and Suzuki (2023). DIFF2: differential private optimization via
       gradient differences. ICML. https://arxiv.org/abs/2302.03884
    """

    key: ClassVar[str] = "diff_gd"
    takes_nonconvex: ClassVar[bool] = True
    checks: ClassVar[Checks] = {
        "n_steps": partial(check_count, low=2, high=10**6),
        **ranges("step_size", "tail"),
        "first_share": partial(check_real, low=1e-9, high=1.0, high_open=True),
        "change_share": partial(check_real, low=1e-9, high=1.0, high_open=True),
    }

    n_steps: int
    step_size: float
    first_share: float = 0.02
    change_share: float = 0.1
    tail: float = 0.5

    @classmethod
    def by_rule(
        cls, given: Given, objective: LinearObjective, budget: Budget
    ) -> dict[str, Any]:
        rule = PlainFlowTime.of(objective, budget)
        flow = rule.flow(math.inf)
        n_steps = given.get("n_steps", min(rule.steps(flow), _MOST_STEPS))
        step_size = rule.step_size(flow, n_steps, 0.0)
        check_shares(cls, given, "first_share", "change_share")
        return {"n_steps": n_steps, "step_size": step_size, **given}

    @property
    def fresh_share(self) -> float:
        """Fraction of mu squared that remains for fresh gradients."""
        return 1 - self.first_share - self.change_share

    def plan(self, objective: LinearObjective) -> Plan:
        later = self.n_steps - 1
        return Plan(
            (
                Line(mu_share=self.first_share),
                Line(later, mu_share=self.fresh_share / later),
                Line(later, mu_share=self.change_share / later),
            )
        )

    def sensitivity(self, objective: LinearObjective) -> float:
        """Sensitivity of a gradient sum or of a difference of two, at any weights."""
        families = (self.gradients(objective), self._changes(objective))
        return max(f.worst.under(objective.adjacency) for f in families)

    def gradients(self, objective: LinearObjective) -> ClippedGradient:
        return ClippedGradient(objective)

    @staticmethod
    def _changes(objective: LinearObjective) -> ClippedChange:
        return ClippedChange(objective, change_clip=math.inf, refresh=0.0)

    def steps(self, objective: LinearObjective, start: FloatArray) -> Steps:
        sizes, farthest = np.full(self.n_steps, self.step_size), box_radius(objective)
        return Steps(start, sizes, objective.alpha, farthest, self.tail)

    def means(
        self, answers: Answers, objective: LinearObjective, steps: Steps
    ) -> Iterator[FloatArray]:
        gradients, changes = self.gradients(objective), self._changes(objective)
        before = steps.weights
        first = answers.ask(gradients.at(before), _FIRST)
        estimate, variance = first.value, first.deviation**2
        yield estimate / objective.n_samples
        for _ in range(1, self.n_steps):
            weights = steps.weights
            moved = answers.ask(changes.since(before, weights), _CHANGES)
            fresh = answers.ask(gradients.at(weights), _FRESH)
            estimate = estimate + moved.value
            variance = variance + moved.deviation**2
            gain = variance / (variance + fresh.deviation**2)
            estimate = (1 - gain) * estimate + gain * fresh.value
            variance *= 1 - gain
            before = weights
            yield estimate / objective.n_samples
