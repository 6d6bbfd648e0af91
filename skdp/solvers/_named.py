"""A solver as it was asked for, before anything is decided; and who else could."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from skdp._configured import Given
from skdp.objectives._linear import LinearObjective
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


def willing(
    kinds: Mapping[str, type[Solver]], objective: LinearObjective, budget: Budget
) -> list[str]:
    """Keys of the solvers that, by their rules alone, do not refuse a fit."""
    keys = []
    for key, kind in kinds.items():
        try:
            kind.planned({}, objective, budget)
        except ValueError:  # refused, or in need of a parameter
            continue
        keys.append(key)
    return keys
