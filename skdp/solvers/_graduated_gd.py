r"""Gradient descent on a convex loss first, and then on the one that is not convex.

Algorithm: `noisy_gd`, whose first ``convex_share`` of the steps follow the rounded
hinge of the same labels, and the others the objective's own loss from there. The
release is the mean of the last ``tail`` share of the iterates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

from skdp._configured import Checks, Given
from skdp._validation import check_count, check_real
from skdp.exceptions import Refused
from skdp.objectives._linear import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._answers import Answers
from skdp.privacy._plan import Line, Plan
from skdp.solvers._base import Solution
from skdp.solvers._convex_start import convex_start
from skdp.solvers._descent import Descent
from skdp.solvers._flow_time import FlowTime
from skdp.solvers._progress import Progress


@dataclass(frozen=True, kw_only=True)
class GraduatedGD(Descent):
    r"""Noisy full-batch gradient descent from a convex loss to one that is not.

    A loss that bounds what a record counts is flat far from the boundary: from 0 a
    descent may end where every record has the frequent label, and stay there. A convex
    loss has no such places, and from its minimum the other one is near a good minimum
    of its own.

    Privacy
    -------
    ``n_steps`` adaptive Gaussian releases of gradient sums, each with noise
    ``noise_multiplier`` times the sensitivity of its own loss at its weights: exactly
    mu-GDP with ``mu = sqrt(n_steps) / noise_multiplier``. All iterates may be
    published. ``docs/proofs/graduated_gd.md``. Unit of privacy: one record, or
    all rows of a user (``docs/proofs/users.md``).

    Parameters
    ----------
    n_steps : int in [1, 1e6] or None, default=None
        Number of gradients, all of them taken. Public. None: the rule of `noisy_gd` for
        the convex loss, doubled.
    convex_share : float in [0, 1], default=0.5
        Share of the steps that follow the convex loss.
    step_size, momentum, intercept_weight
        As for `noisy_gd`; None: its rules for the convex loss.
    residual_clip : float in [1e-6, inf], default=inf
        Norm to which every record's residual is clipped, of both losses.
    tail : float in [1e-9, 1], default=0.25
        Share of the last iterates that is averaged; the very last one if the share
        is smaller than one step.

    References
    ----------
    .. [1] Blake and Zisserman (1987). Visual reconstruction. MIT Press. (graduated
       non-convexity)

    Deviations: two losses in place of a family of them.
    """

    key: ClassVar[str] = "graduated_gd"
    is_pure: ClassVar[bool] = False
    takes_nonconvex: ClassVar[bool] = True
    takes_users: ClassVar[bool] = True
    checks: ClassVar[Checks] = {
        **Descent.checks,
        "n_steps": partial(check_count, high=10**6),
        "convex_share": partial(check_real, low=0.0, high=1.0),
    }

    n_steps: int
    convex_share: float = 0.5

    @classmethod
    def adds_in_squares(cls, given: Given) -> bool:
        return True

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        cls.check(objective, budget)
        if objective.loss.is_convex:
            raise Refused(
                f"solver={cls.key!r} is for losses that are not convex, and "
                f"{type(objective.loss).__name__} is convex. Use solver='noisy_gd'."
            )
        own: dict[str, Any] = {"residual_clip": math.inf, "tail": 0.25, **given}
        share = own.pop("convex_share", cls.convex_share)
        rule = FlowTime.of(convex_start(objective), budget)
        n_steps, rest = cls.rest_by_rule(own, rule)
        if "n_steps" not in own:
            n_steps = min(2 * n_steps, 2 * rule.most_steps)
        return cls(n_steps=n_steps, convex_share=share, **rest)

    @property
    def mechanism(self) -> str:
        return "Gaussian noise, calibrated exactly"

    def plan(self, objective: LinearObjective) -> Plan:
        return Plan((Line(self.n_steps),))

    def sensitivity(self, objective: LinearObjective) -> float:
        """Of a gradient sum of either loss that is asked for, at any weights."""
        n_convex = self._n_convex
        asked = [convex_start(objective)] * (n_convex > 0)
        asked += [objective] * (n_convex < self.n_steps)
        return max(super(GraduatedGD, self).sensitivity(each) for each in asked)

    @property
    def _n_convex(self) -> int:
        return math.floor(self.convex_share * self.n_steps)

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        first = self.gradients(convex_start(objective))
        later = self.gradients(objective)
        walk = self.walk(objective, self.n_steps)
        for t in range(self.n_steps):
            query = (first if t < self._n_convex else later).at(walk.weights)
            released = query.read(answers.ask(query).value)
            walk.step(released / objective.n_samples)
            progress.step(t + 1, self.n_steps)
        return Solution(walk.average(), answers.noise_scale, path=walk.path)
