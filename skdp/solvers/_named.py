"""A solver as it was asked for, before anything is decided."""

from __future__ import annotations

from dataclasses import dataclass

from skdp._configured import Given
from skdp.objectives import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.solvers._base import Solver


@dataclass(frozen=True)
class Named:
    """The kind of a solver, and the parameters that were given."""

    kind: type[Solver]
    given: Given

    @property
    def adds_in_squares(self) -> bool:
        """Whether at delta > 0 all that will be released has Gaussian noise."""
        return self.kind.adds_in_squares(self.given)

    def planned(self, objective: LinearObjective, budget: Budget) -> Solver:
        """The solver with everything decided.

        Raises `Refused`.
        """
        return self.kind.planned(self.given, objective, budget)
