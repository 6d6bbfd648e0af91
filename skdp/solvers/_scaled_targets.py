r"""A regression of targets that are scaled by a private release first.

One plan of two parts: a histogram of the targets in one Gaussian answer, and the inner
solver's answers over targets that are centred, scaled and clipped as the first says.
Proofs: ``docs/proofs/centred_descent.md``, of a release that reads no columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

from skdp._configured import Given
from skdp._floats import FloatArray
from skdp.data import TargetScale, TargetsScaled
from skdp.objectives import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._answers import Answers
from skdp.privacy._plan import Line, Part, Plan
from skdp.queries._state_sums import StateSums
from skdp.solvers._around import Around
from skdp.solvers._base import Solution
from skdp.solvers._budget_parts import level_of
from skdp.solvers._margins import target_scale
from skdp.solvers._progress import Progress


@dataclass(frozen=True, kw_only=True)
class ScaledTargets(Around):
    """A Gaussian solver of squared errors on targets that are scaled first.

    Privacy
    -------
    Two parts, both Gaussian: exactly mu-GDP for their squares together. Both
    adjacencies: ``docs/proofs/centred_descent.md`` and the inner solver's page.

    Parameters
    ----------
    inner : Solver
        Of answers about gradients; with an intercept.
    share : float in (0, 1)
        Of mu squared, for the histogram.
    n_intervals : int
        Between its knots, which are even over [-1, 1].
    level : float
        Noise of the inner part in units of what the whole budget would get.
    """

    key: ClassVar[str] = "scaled_targets"

    share: float
    n_intervals: int
    level: float

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        """Everything is given but the level."""
        level = level_of(given["inner"], objective, budget, 1 - given["share"])
        return cls(**given, level=level)

    @property
    def params(self) -> dict[str, Any]:
        return {**self.inner.params, "scaled_targets": {"share": self.share}}

    def plan(self, objective: LinearObjective) -> Plan:
        fit = Part(self.inner.plan(objective), self.level)
        return Plan((Line(mu_share=self.share), fit))

    def sums(self, objective: LinearObjective) -> StateSums:
        """The first query."""
        return StateSums(0, objective.n_samples, 0, self.n_intervals)

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        targets = self._scale(answers, objective)
        view = partial(TargetsScaled, targets=targets)
        found = self.inner.run(answers.part(1, view), objective, progress)
        middle = targets.middle / objective.intercept_value

        def scaled(own: FloatArray) -> FloatArray:
            weights = targets.half * own
            weights[-1] += middle
            return weights

        path = tuple(map(scaled, found.path))
        return replace(found, weights=scaled(found.weights), path=path)

    def _scale(self, answers: Answers, objective: LinearObjective) -> TargetScale:
        """Where targets lie; a private output."""
        released, n = answers.ask(self.sums(objective)), objective.n_samples
        return target_scale(released.value / n, released.sigma / n)
