"""What the solvers share that add Gaussian or spherical noise, by the budget."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from skdp._validation import check_choice
from skdp.losses import Loss
from skdp.privacy._accounting import Budget
from skdp.privacy._laws import LAWS, NoiseLaw
from skdp.solvers._base import Problem, Solver
from skdp.solvers._configured import Checks


@dataclass(frozen=True, kw_only=True)
class ChosenLaw(Solver):
    """A noise law, and the refusals that go with it.

    Parameters
    ----------
    law : {"gaussian", "spherical"} or None, default=None
        None: spherical if delta is 0, Gaussian otherwise.
    """

    is_pure: ClassVar[bool] = True
    checks: ClassVar[Checks] = {"law": partial(check_choice, allowed=LAWS)}

    law: Literal["gaussian", "spherical"] | None = None

    @property
    def noise_law(self) -> NoiseLaw:
        """The resolved law."""
        assert self.law is not None, "resolve() fills in the law"
        return LAWS[self.law]

    @property
    def is_gaussian(self) -> bool:
        return self.law != "spherical"

    def law_for(self, budget: Budget) -> Literal["gaussian", "spherical"]:
        """The law, or the one that the budget asks for."""
        return self.law or ("spherical" if budget.delta == 0 else "gaussian")

    def refusal(self, loss: Loss, problem: Problem, budget: Budget) -> str:
        reason = super().refusal(loss, problem, budget)
        if reason:
            return reason
        if budget.delta == 0 and not LAWS[self.law_for(budget)].is_pure:
            return (
                f"solver={self.key!r} cannot do delta=0 with law={self.law!r}. Use "
                "law=None."
            )
        return ""

    def steps_refusal(self, budget: Budget, n_steps: int) -> str:
        """Why the law is a bad one for so many releases, or nothing."""
        law = LAWS[self.law_for(budget)]
        if budget.delta == 0 or n_steps == 1 or not law.is_pure:
            return ""
        return (
            f"solver={self.key!r} takes law={law.name!r} beside a delta above 0 for "
            f"one release only. Got n_steps={n_steps}: over several releases a delta "
            "gains little with it. Use law=None for Gaussian noise, or delta=0."
        )

    def noise_refusal(self, budget: Budget, size: int, multiple: float = 1.0) -> str:
        """Why `size` draws of `multiple` / epsilon are impossible, or nothing."""
        if LAWS[self.law_for(budget)].is_possible(multiple / budget.epsilon, size):
            return ""
        return f"solver={self.key!r} cannot draw such noise. Use a larger epsilon."
