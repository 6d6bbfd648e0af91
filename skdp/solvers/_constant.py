r"""The constant model: an intercept and no weights, for the whole budget.

Where noise dominates, weights would be noise, and their noise would hide the base rate
or the mean as well. So every record is shown as a row of one column that holds the same
number, and a solver finds that column's weight. It is the solver that ``"auto"`` takes
for rows of one feature, so that each loss has its own constant: the log-odds of the
base rate, the mean, its logarithm, or a quantile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from skdp._configured import Given
from skdp.data import ConstantColumn
from skdp.losses import SquaredLoss
from skdp.objectives import Expected, LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._answers import Answers
from skdp.privacy._plan import Part, Plan
from skdp.solvers._around import Around
from skdp.solvers._auto import Chosen, first_that_can
from skdp.solvers._base import Solution
from skdp.solvers._noisy_gd import NoisyGD
from skdp.solvers._progress import Progress

# Why a default fit is a constant, for the record.
NO_WEIGHTS = "noise dominates: an intercept and no weights"
# Deviation of constants from where descents start, in the loss's units of raw
# predictions: where the budget cannot tell a constant so far away, the descent stops
# at its start. More follows rare labels further, and more noise as well. In log-loss at
# epsilon 0.01, of 300 balanced labels 4 lost 0.25 and 2 lost 0.03; of 3,000 labels with
# one 1 in 500, 4 lost 0.07, 2 lost 0.11 and 1 lost 0.15
# (`python -m benchmarks.hard_edges signal`).
_SIGNAL = 2.0


@dataclass(frozen=True, kw_only=True)
class ConstantModel(Around):
    """A solver of an intercept alone; all weights are 0.

    Privacy
    -------
    What the inner solver asks of rows that are one public number. No feature is read.
    Both adjacencies, and users: the inner solver's page, for rows of that norm.

    Parameters
    ----------
    inner : Solver
        Planned for `of_constant` of the objective.
    """

    key: ClassVar[str] = "constant"
    is_pure: ClassVar[bool] = True

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        alone, is_pure = of_constant(objective), budget.delta == 0
        if isinstance(objective.loss, SquaredLoss) and not is_pure:
            # Clipped residuals would lead to a robust location in place of the mean.
            unclipped: Given = {"residual_clip": math.inf}
            return cls(inner=NoisyGD.planned(unclipped, alone, budget))
        # With a delta above 0 the noise is Gaussian, as books and searches expect.
        return cls(inner=first_that_can(alone, budget, has_ledger=not is_pure).solver)

    @property
    def params(self) -> dict[str, Any]:
        return {**self.inner.params, "weights": "none: the model is a constant"}

    def plan(self, objective: LinearObjective) -> Plan:
        return Plan((Part(self.inner.plan(of_constant(objective))),))

    def sensitivity(self, objective: LinearObjective) -> float:
        return self.inner.sensitivity(of_constant(objective))

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        view = partial(ConstantColumn, value=objective.intercept_value)
        found = self.inner.run(answers.part(0, view), of_constant(objective), progress)
        weights = np.zeros(objective.shape)
        weights[-1] = found.weights[0]
        return Solution(weights, found.noise_scale)


def of_constant(objective: LinearObjective) -> LinearObjective:
    """The problem of the intercept alone: one feature, the same in all rows."""
    expected = Expected(signal=_SIGNAL, spectrum=(1.0,))
    return replace(objective, n_features=1, fit_intercept=False, expected=expected)


def constant_model(objective: LinearObjective, budget: Budget) -> Chosen:
    """The constant model, planned."""
    return Chosen(ConstantModel.planned({}, objective, budget), NO_WEIGHTS)
