"""`Around`: a solver with one of Gaussian answers inside, and answers of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from skdp._configured import Given
from skdp.objectives._linear import LinearObjective
from skdp.solvers._base import Solver


@dataclass(frozen=True, kw_only=True)
class Around(Solver):
    """What the record, the books and the accounting see is that of the inner solver.

    Parameters
    ----------
    inner : Solver
        Of answers about gradients, with Gaussian noise.
    """

    is_pure: ClassVar[bool] = False

    inner: Solver

    @classmethod
    def adds_in_squares(cls, given: Given) -> bool:
        return True

    @property
    def named(self) -> str:
        return self.inner.named

    @property
    def mechanism(self) -> str:
        return self.inner.mechanism

    def sensitivity(self, objective: LinearObjective) -> float:
        return self.inner.sensitivity(objective)
