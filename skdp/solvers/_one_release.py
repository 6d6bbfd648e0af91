"""What the solvers that add noise once, to weights, share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from skdp._validation import check_choice
from skdp.losses import Loss
from skdp.privacy._accounting import Budget
from skdp.privacy._laws import LAWS, NoiseLaw
from skdp.solvers._base import Problem, Solver


@dataclass(frozen=True, kw_only=True)
class OneRelease(Solver):
    """A noise law, and the refusals that go with it.

    Parameters
    ----------
    law : {"gaussian", "spherical"} or None, default=None
        None: spherical if delta is 0, Gaussian otherwise.
    """

    is_pure: ClassVar[bool] = True

    law: Literal["gaussian", "spherical"] | None = None

    def __post_init__(self) -> None:
        if self.law is not None:
            check_choice("law", self.law, sorted(LAWS))

    @property
    def noise_law(self) -> NoiseLaw:
        """The resolved law."""
        assert self.law is not None, "resolve() fills in the law"
        return LAWS[self.law]

    def law_for(self, budget: Budget) -> Literal["gaussian", "spherical"]:
        """The law, or the one that the budget asks for."""
        return self.law or ("spherical" if budget.delta == 0 else "gaussian")

    def refusal(self, loss: Loss, problem: Problem, budget: Budget) -> str:
        reason = super().refusal(loss, problem, budget)
        if reason:
            return reason
        if budget.delta == 0 and self.law is not None and not self.noise_law.is_pure:
            return (
                f"solver={self.key!r} cannot do delta=0 with law={self.law!r}. Use "
                "law=None."
            )
        return ""

    def noise_refusal(
        self, loss: Loss, problem: Problem, budget: Budget, multiple: float = 1.0
    ) -> str:
        """Why noise of this multiple of 1 / epsilon cannot be drawn, or nothing."""
        law, size = LAWS[self.law_for(budget)], problem.n_columns * loss.n_outputs
        if law.is_possible(multiple / budget.epsilon, size):
            return ""
        return f"solver={self.key!r} cannot draw such noise. Use a larger epsilon."
