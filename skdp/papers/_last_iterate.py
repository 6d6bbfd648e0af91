"""Gradient descent that releases only the last iterate.

Contractive steps forget: the effect of one record on an early iterate shrinks in every
later step, so hiding the path makes the last iterate cheaper than all of them together.
With ``c = 1 - step_size * alpha`` the last of T iterates is mu-GDP with

    mu = sqrt((1 - c^T) (1 + c) / ((1 + c^T) (1 - c))) / noise_multiplier

instead of ``sqrt(T) / noise_multiplier`` [1]_. The noise is added to the next iterate,
so that rounding to the grid is part of a map that is a contraction up to a charged
constant (``docs/proofs/gradient_descent.md``, "Only the last iterate").

References
----------
.. [1] Bok, Su and Altschuler (2024). Shifted interpolation for differential privacy.
   ICML. https://arxiv.org/abs/2403.00278
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np

from skdp._arrays import UNIT_ROUNDOFF, FloatArray
from skdp._checks import check_choice
from skdp._configured import Checks, Given
from skdp._fit import Progress
from skdp.exceptions import Refused
from skdp.losses._objective import LinearObjective
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._events import GaussianEvent
from skdp.privacy.accounting._relations import is_of_users
from skdp.privacy.noise._laws import LAWS
from skdp.privacy.release._answers import Answers
from skdp.privacy.release._plan import Draws, Line, Plan
from skdp.solvers._base import Solution, projected_onto_box
from skdp.solvers._descent import NoisyGD, PlainFlowTime
from skdp.sums._floating import GradientSum, rounding_slack
from skdp.sums._gradient import ClippedGradient
from skdp.tables._source import Source

# Hidden weights are kept in a box of this half side, in units of the loss's raw
# predictions over data_norm: far beyond any useful model, yet so small that rounding
# errors anywhere in the box are small beside the sensitivity.
_FARTHEST = 1e3
# Relative error of the public constants: clipped norms, products, logarithms.
_MARGIN = 1e-9


@dataclass(frozen=True)
class HiddenDescent:
    """T gradient steps without momentum on iterates that are not released."""

    objective: LinearObjective
    step_size: float
    n_steps: int

    @property
    def gap(self) -> float:
        """``1 - c``, where every step is c-Lipschitz; useless if at most 0."""
        bend = self.objective.smoothness
        from_below = self.step_size * self.objective.alpha
        return min(from_below, 2 - self.step_size * bend * (1 + _MARGIN))

    @property
    def factor(self) -> float:
        """The last iterate's mu times the noise multiplier; at most sqrt(T)."""
        if self.gap >= 1:
            return 1.0
        # With c = exp(-rate) the formula is tanh(rate T / 2) / tanh(rate / 2).
        rate = -math.log1p(-self.gap)
        squared = math.tanh(rate * self.n_steps / 2) / math.tanh(rate / 2)
        return min(math.sqrt(squared) * (1 + _MARGIN), math.sqrt(self.n_steps))

    @property
    def sensitivity(self) -> float:
        """Largest change of the next iterate by one record, in exact arithmetic."""
        bound = ClippedGradient(self.objective).real_bound(math.inf)
        worst = bound.under(self.objective.adjacency)
        return self.step_size * worst / self.objective.n_samples

    @property
    def farthest(self) -> float:
        """Half the side of the box in which hidden weights are kept."""
        return (
            _FARTHEST * self.objective.loss.prediction_unit / self.objective.data_norm
        )

    def floating_point_error(self, largest_block: int) -> float:
        """Bound on the error of two computed steps from anywhere in the box."""
        objective, n = self.objective, self.objective.n_samples
        norm = math.sqrt(objective.n_columns * objective.loss.n_outputs) * self.farthest
        slack = rounding_slack(objective, largest_block, norm, moved_rows=n)
        moved = (
            self.step_size
            * objective.row_norm
            * objective.loss.zero_out_bound(math.inf)
        )
        arithmetic = 16 * UNIT_ROUNDOFF * (2 * norm + moved)
        return self.step_size * slack / n + arithmetic

    def charged(self, largest_block: int, noise_multiplier: float) -> float:
        """Sensitivity with the rounding in a step, except the last rounding.

        The noise source charges the last rounding, that of the query.
        """
        exact = self.sensitivity * (1 + _MARGIN)
        exact += self.floating_point_error(largest_block)
        # The iterate at the start of a step was rounded too. The grid of twice the
        # sensitivity is at least as wide as the grid in use.
        size = self.objective.n_columns * self.objective.loss.n_outputs
        scale = LAWS["gaussian"].scale(2 * exact, noise_multiplier, size)
        rounding = math.sqrt(size) * scale.grid * (1 + _MARGIN)
        return exact + rounding if rounding <= exact else math.nan  # refused

    @property
    def plan(self) -> Plan:
        """All steps; only the last is released, and its cost is the event's."""
        lines = (Line(self.n_steps - 1, is_hidden=True), Line(1))
        return Plan(lines, lambda z: GaussianEvent(z / self.factor))

    def run(self, answers: Answers, progress: Progress) -> Solution:
        """The last iterate; nothing else of the path leaves the walls."""
        charged = self.charged(answers.layout.largest_block, answers.noise_multiplier)
        released = answers.inside(HiddenPath(self, charged, progress))
        progress.step(self.n_steps, self.n_steps)
        return Solution(
            projected_onto_box(released, self.farthest), answers.noise_scale
        )


@dataclass(frozen=True)
class HiddenPath:
    """The steps of a `HiddenDescent`, for `Answers.inside`.

    `charged` is the sensitivity of the next iterate, rounding included.
    """

    descent: HiddenDescent
    charged: float
    progress: Progress

    def bound(self, line: int, done: int) -> float:
        return self.charged

    def within(
        self, source: Source, draws: Draws
    ) -> Generator[FloatArray, FloatArray, None]:
        """Yield the next iterate, receive it with noise."""
        descent, objective = self.descent, self.descent.objective
        gradient = GradientSum(source, objective)
        weights = np.zeros(objective.shape)
        for t in range(descent.n_steps):
            mean = gradient(weights) / objective.n_samples + objective.alpha * weights
            noisy = yield weights - descent.step_size * mean
            weights = projected_onto_box(noisy, descent.farthest)
            self.progress.step(t + 1, descent.n_steps)


# Parameters that a hidden path needs: contractive steps with noise of one size.
_NEEDED: dict[str, Any] = {
    "momentum": 0.0,
    "residual_clip": math.inf,
    "intercept_weight": 1.0,
    "tail": 1e-9,
}


@dataclass(frozen=True, kw_only=True)
class LastIterateGD(NoisyGD):
    """`NoisyGD` with ``release="last"``."""

    checks: ClassVar[Checks] = {
        **NoisyGD.checks,
        "release": partial(check_choice, allowed=("last",)),
    }

    release: Literal["path", "last"] = "last"

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        needs = f"solver={cls.key!r} with release='last' needs"
        if not objective.holds_rows:
            raise Refused(f"{needs} all rows in memory. Use release='path'.")
        if is_of_users(objective.adjacency):
            raise Refused(f"{needs} privacy_unit='record'. Use release='path'.")
        for name, value in _NEEDED.items():
            if given.get(name, value) != value:
                raise Refused(
                    f"{needs} {name}={value:g}. Use {name}=None or release='path'."
                )
        if given.get("keeps_path", False):
            raise Refused(f"{needs} keeps_path=False: no other iterate is released.")
        if not objective.loss.is_convex:
            raise Refused(f"{needs} a convex loss. Use release='path'.")
        if objective.alpha == 0:
            raise Refused(
                f"{needs} regularisation. Set C or alpha, or use release='path'."
            )
        rule = PlainFlowTime.of(objective, budget)
        flow = rule.flow(math.inf)
        n_steps = given.get("n_steps", rule.steps(flow))
        step_size = given.get("step_size", rule.step_size(flow, n_steps, 0.0))
        if HiddenDescent(objective, step_size, n_steps).gap <= 0:
            raise Refused(
                f"{needs} contractive steps, of a 'step_size' below 2 / L, which is "
                f"{2 / objective.smoothness:.3g}. Got {given.get('step_size')}. "
                "Use step_size=None."
            )
        return cls(n_steps=n_steps, step_size=step_size, **_NEEDED)

    def hidden(self, objective: LinearObjective) -> HiddenDescent:
        """The descent that releases only the last iterate."""
        return HiddenDescent(objective, self.step_size, self.n_steps)

    def plan(self, objective: LinearObjective) -> Plan:
        return self.hidden(objective).plan

    def sensitivity(self, objective: LinearObjective) -> float:
        """Sensitivity of the next iterate, before rounding."""
        return self.hidden(objective).sensitivity

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        return self.hidden(objective).run(answers, progress)
