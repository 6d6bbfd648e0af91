"""What the solvers share that add Gaussian or spherical noise, by the budget."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from skdp._configured import Checks, Given
from skdp._validation import check_choice
from skdp.exceptions import Refused
from skdp.privacy._accounting import Budget
from skdp.privacy._laws import LAWS, NoiseLaw
from skdp.solvers._base import Solver

LawName = Literal["gaussian", "spherical"]


@dataclass(frozen=True, kw_only=True)
class ChosenLaw(Solver):
    """A noise law, and the refusals that go with it.

    By rule it is spherical if delta is 0, Gaussian otherwise.
    """

    is_pure: ClassVar[bool] = True
    checks: ClassVar[Checks] = {"law": partial(check_choice, allowed=LAWS)}

    law: LawName

    @property
    def noise_law(self) -> NoiseLaw:
        """The law by its name."""
        return LAWS[self.law]

    @classmethod
    def adds_in_squares(cls, given: Given) -> bool:
        return given.get("law") != "spherical"

    @classmethod
    def law_for(cls, given: Given, budget: Budget) -> LawName:
        """The law, or the one that the budget asks for.

        Raises `Refused` if it cannot do delta=0.
        """
        by_rule: LawName = "spherical" if budget.delta == 0 else "gaussian"
        law: LawName = given.get("law", by_rule)
        if budget.delta == 0 and not LAWS[law].is_pure:
            raise Refused(
                f"solver={cls.key!r} cannot do delta=0 with law={law!r}. Use law=None."
            )
        return law

    @classmethod
    def check_steps(cls, law: LawName, budget: Budget, n_steps: int) -> None:
        """Raise if the law is a bad one for so many releases."""
        if budget.delta > 0 and n_steps > 1 and LAWS[law].is_pure:
            raise Refused(
                f"solver={cls.key!r} takes law={LAWS[law].name!r} beside a delta above "
                f"0 for one release only. Got n_steps={n_steps}: over several releases "
                "a delta gains little with it. Use law=None for Gaussian noise, or "
                "delta=0."
            )

    @classmethod
    def check_noise(
        cls, law: LawName, budget: Budget, size: int, multiple: float = 1.0
    ) -> None:
        """Raise if `size` draws of `multiple` / epsilon are impossible."""
        if not LAWS[law].is_possible(multiple / budget.epsilon, size):
            raise Refused(
                f"solver={cls.key!r} cannot draw such noise. Use a larger epsilon."
            )
