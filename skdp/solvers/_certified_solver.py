"""What the solvers that release a certified minimiser share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from skdp._validation import check_choice, check_real
from skdp.losses import Loss
from skdp.privacy._accounting import Budget
from skdp.privacy._laws import LAWS, NoiseLaw
from skdp.solvers._base import Problem, Solver
from skdp.solvers._certified import CertifiedProblem


@dataclass(frozen=True, kw_only=True)
class CertifiedSolver(Solver):
    """A regularisation of the sum, a noise law, and the refusals that go with them.

    Parameters
    ----------
    strength : float in [1e-250, 1e250] or None, default=None
        L2 regularisation of the sum of the losses.
    law : {"gaussian", "spherical"} or None, default=None
        None: spherical if delta is 0, Gaussian otherwise.
    """

    is_pure: ClassVar[bool] = True

    strength: float | None = None
    law: Literal["gaussian", "spherical"] | None = None

    def __post_init__(self) -> None:
        if self.strength is not None:
            strength = check_real("strength", self.strength, low=1e-250, high=1e250)
            object.__setattr__(self, "strength", strength)
        if self.law is not None:
            check_choice("law", self.law, sorted(LAWS))

    @property
    def noise_law(self) -> NoiseLaw:
        """The resolved law."""
        assert self.law is not None, "resolve() fills in the law"
        return LAWS[self.law]

    def refusal(self, loss: Loss, problem: Problem, budget: Budget) -> str:
        reason = super().refusal(loss, problem, budget)
        if reason:
            return reason
        if not math.isfinite(loss.value_at_zero + loss.zero_out_bound(math.inf)):
            return f"solver={self.key!r} needs a bounded loss at 0 and gradient."
        if budget.delta == 0 and self.law is not None and not self.noise_law.is_pure:
            return (
                f"solver={self.key!r} cannot do delta=0 with law={self.law!r}. Use "
                "law=None."
            )
        resolved = self.resolve(loss, problem, budget)
        assert resolved.strength is not None, "resolve() fills in the strength"
        if CertifiedProblem(loss, problem, resolved.strength).is_ill_conditioned:
            return f"solver={self.key!r} needs more regularisation. Use a smaller C."
        law, size = resolved.noise_law, problem.n_columns * loss.n_outputs
        if not law.is_possible(law.side_multiple / budget.epsilon, size):
            return f"solver={self.key!r} cannot draw such noise. Use a larger epsilon."
        return ""
