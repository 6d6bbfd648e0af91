"""What the solvers that release a certified minimiser share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from skdp._validation import check_real
from skdp.objectives import LinearObjective
from skdp.privacy._accounting import Budget
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

    def refusal(self, objective: LinearObjective, budget: Budget) -> str:
        reason = super().refusal(objective, budget)
        if reason:
            return reason
        if not math.isfinite(objective.loss.value_at_zero):
            return (
                f"solver={self.key!r} needs a bounded loss at 0. Use a finite target "
                "bound."
            )
        resolved = self.resolve(objective, budget)
        assert resolved.strength is not None, "resolve() fills in the strength"
        if CertifiedProblem(objective, resolved.strength).is_ill_conditioned:
            return f"solver={self.key!r} needs more regularisation. Use a smaller C."
        side = resolved.noise_law.side_multiple
        return self.noise_refusal(
            budget, objective.n_columns * objective.loss.n_outputs, side
        )
