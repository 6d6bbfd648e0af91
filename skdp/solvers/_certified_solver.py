"""What the solvers that release a certified minimiser share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from skdp._configured import Checks
from skdp._validation import check_real
from skdp.exceptions import Refused
from skdp.objectives._linear import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.solvers._certified import CertifiedProblem
from skdp.solvers._chosen_law import ChosenLaw


@dataclass(frozen=True, kw_only=True)
class CertifiedSolver(ChosenLaw):
    """A regularisation of the sum, and the refusals that go with it.

    `strength`, in [1e-250, 1e250], is the L2 regularisation of the sum of the losses.
    """

    checks: ClassVar[Checks] = {
        **ChosenLaw.checks,
        "strength": partial(check_real, low=1e-250, high=1e250),
    }

    strength: float

    @classmethod
    def check(cls, objective: LinearObjective, budget: Budget) -> None:
        super().check(objective, budget)
        if not math.isfinite(objective.loss.value_at_zero):
            raise Refused(
                f"solver={cls.key!r} needs a bounded loss at 0. Use a finite target "
                "bound."
            )

    def check_certificate(self, objective: LinearObjective, budget: Budget) -> None:
        """Raise if the minimiser cannot be certified, or its noise not be drawn.

        Raises `Refused`.
        """
        if CertifiedProblem(objective, self.strength).is_ill_conditioned:
            raise Refused(
                f"solver={self.key!r} needs more regularisation. Use a smaller C."
            )
        size, side = math.prod(objective.shape), self.noise_law.side_multiple
        self.check_noise(self.law, budget, size, side)
