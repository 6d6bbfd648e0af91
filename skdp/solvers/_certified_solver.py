"""What the solvers that release a certified minimiser share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from skdp._validation import check_real
from skdp.losses import Loss
from skdp.privacy._accounting import Budget
from skdp.solvers._base import Problem
from skdp.solvers._certified import CertifiedProblem
from skdp.solvers._chosen_law import ChosenLaw
from skdp.solvers._configured import Checks


@dataclass(frozen=True, kw_only=True)
class CertifiedSolver(ChosenLaw):
    """A regularisation of the sum, and the refusals that go with it.

    Parameters
    ----------
    strength : float in [1e-250, 1e250] or None, default=None
        L2 regularisation of the sum of the losses.
    """

    checks: ClassVar[Checks] = {
        **ChosenLaw.checks,
        "strength": partial(check_real, low=1e-250, high=1e250),
    }

    strength: float | None = None

    def refusal(self, loss: Loss, problem: Problem, budget: Budget) -> str:
        reason = super().refusal(loss, problem, budget)
        if reason:
            return reason
        if not math.isfinite(loss.value_at_zero):
            return (
                f"solver={self.key!r} needs a bounded loss at 0. Use a finite target "
                "bound."
            )
        resolved = self.resolve(loss, problem, budget)
        assert resolved.strength is not None, "resolve() fills in the strength"
        if CertifiedProblem(loss, problem, resolved.strength).is_ill_conditioned:
            return f"solver={self.key!r} needs more regularisation. Use a smaller C."
        side = resolved.noise_law.side_multiple
        return self.noise_refusal(budget, problem.n_columns * loss.n_outputs, side)
