"""The constant model, and one minimisation centred at the constant model."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from skdp._configured import Given
from skdp._fit import Progress
from skdp.exceptions import Refused
from skdp.losses._base import Loss
from skdp.losses._objective import LinearObjective
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._relations import Relation
from skdp.privacy.noise._laws import LAWS_OF_COUNTS, NoiseLaw, law_for
from skdp.privacy.release._answers import Answers, Released
from skdp.privacy.release._plan import Line, Part, Plan, Query
from skdp.solvers._base import Solution, Solver
from skdp.solvers._default_rules import (
    pure_share,
    share_of_histogram,
    signal_to_noise_of,
)
from skdp.solvers._objective_perturbation import ObjectivePerturbation
from skdp.solvers._target_base import (
    count_query,
    is_of_squares,
    released_base,
    target_query,
)
from skdp.sums._counts import StateSums
from skdp.sums._record_sums import TargetSum

# ------------------------------------------------------------------- The constant model
# Where noise dominates, weights would be noise, and this noise would hide the base rate
# or the mean as well. So one sum over the targets is released, and the constant
# minimises the loss: the log-odds of the base rate, the mean, the logarithm of the
# mean, or a quantile. Where noise leaves the sum uncertain, a prior takes it from the
# declared bounds or labels. Laplace noise in one number is about a third of Gaussian
# noise, but its cost does not add up in squares with that of other releases.


# Least epsilon of a budget.
_LEAST_EPSILON = 1e-6
# The privacy record's reason for a default fit that is a constant.
NO_WEIGHTS = "noise dominates: an intercept and no weights"


LawOfConstant = Literal["gaussian", "laplace"]


def law_alone(loss: Loss, relation: Relation, budget: Budget) -> LawOfConstant:
    """The law with the least noise for a constant, the only answer of a fit."""
    queries = {norm: target_query(loss, 1, norm) for norm in (1, 2)}
    sensitivities = {n: each.bound().under(relation) for n, each in queries.items()}
    size = math.prod(queries[1].shape)
    law = law_for(budget, size, sensitivities, adds_up=budget.adds_up)
    # Spherical noise is never smaller than Laplace noise in one number or in at least
    # three counts; two labels are one number.
    return "laplace" if law.is_pure else "gaussian"


@dataclass(frozen=True, kw_only=True)
class ConstantModel(Solver):
    """Release of the targets' location; all weights are 0.

    Privacy
    -------
    One answer: label counts, a histogram of the targets, or their sum, with Laplace
    noise for its L1 sensitivity or Gaussian noise for its L2 sensitivity; or two
    Gaussian answers, a histogram, and the sum of the targets clipped to the range in
    which the histogram puts most of them. No feature is read.
    The law is the one with less noise, unless the budget's cost adds up with others;
    then it is Gaussian if delta allows it.
    Both adjacencies, and users: ``docs/proofs/default.md``, Lemmas 1 and 4.

    Parameters
    ----------
    law : {"gaussian", "laplace"}
    histogram_share : float in [0, 1), default=0.0
        Fraction of mu squared for a histogram before the sum; 0: no histogram.
    """

    key: ClassVar[str] = "constant"
    takes_users: ClassVar[bool] = True
    takes_nonconvex: ClassVar[bool] = True
    is_pure: ClassVar[bool] = True

    law: LawOfConstant
    histogram_share: float = 0.0

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        cls.check(objective, budget)
        law = law_alone(objective.loss, objective.adjacency, budget)
        share = 0.0
        if law == "gaussian" and is_of_squares(objective.loss):
            signal_to_noise = signal_to_noise_of(
                objective.n_samples, budget, objective.adjacency
            )
            share = share_of_histogram(signal_to_noise)
        return cls(law=law, histogram_share=share)

    @property
    def noise_law(self) -> NoiseLaw:
        return LAWS_OF_COUNTS[self.law]

    @property
    def norm(self) -> int:
        """Norm of the bounds of all queries."""
        return 2 if self.histogram_share else self.noise_law.norm

    def query(self, objective: LinearObjective) -> StateSums | TargetSum:
        """The query about the targets."""
        return target_query(objective.loss, objective.n_samples, self.norm)

    @property
    def params(self) -> dict[str, Any]:
        own = {"law": self.law, "weights": "none: the model is a constant"}
        share = {"histogram_share": self.histogram_share}
        return own | share if self.histogram_share else own

    @property
    def mechanism(self) -> str:
        return f"{self.noise_law.name} noise on where the targets lie"

    def plan(self, objective: LinearObjective) -> Plan:
        share = self.histogram_share
        if not share:
            return Plan((Line(law=self.noise_law),))
        return Plan((Line(mu_share=share), Line(mu_share=1 - share)))

    def sensitivity(self, objective: LinearObjective) -> float:
        bounds = [self.query(objective).bound()]
        if self.histogram_share:
            bounds.append(count_query(objective.loss, objective.n_samples).bound())
        return max(float(bound.under(objective.adjacency)) for bound in bounds)

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        weights = np.zeros(objective.shape)
        constant = self.constant(answers, objective)
        weights[-1] = np.array(constant) / objective.intercept_value
        progress.step(1, 1)
        return Solution(weights, answers.noise_scale)

    def constant(
        self, answers: Answers, objective: LinearObjective
    ) -> tuple[float, ...]:
        """Released raw predictions, the same for every row."""
        loss, n = objective.loss, objective.n_samples
        is_sum = isinstance(self.query(objective), TargetSum)
        asked = ["mean"] if is_sum else ["targets"]
        if self.histogram_share:
            asked = ["targets", "mean"]

        def ask(name: str, query: Query) -> Released:
            return answers.ask(query, asked.index(name))

        found = released_base(loss, n, ask, asked, norm=self.norm, is_alone=True)
        return found.constant


@dataclass(frozen=True, kw_only=True)
class AroundConstant(Solver):
    """One minimisation centred at the constant model, for delta = 0.

    The penalty, which the inner solver requires, applies to the distance of weights and
    intercept from the constant, not from 0: pure noise asks for a penalty that would
    move a base rate or a mean half of the way to 0.

    Privacy
    -------
    First the constant model, then the inner solver's release for the same losses, with
    the constant added to each raw prediction. Their epsilons add up, under both
    adjacencies (``docs/proofs/objective_perturbation.md``). Unit of privacy: one
    record.

    Parameters
    ----------
    inner : Solver
        Solver that releases a single minimiser.
    share : float in (0, 1)
        Fraction of epsilon for the constant.
    """

    key: ClassVar[str] = "around_constant"
    is_pure: ClassVar[bool] = True

    inner: Solver
    share: float

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        if not objective.fit_intercept:
            raise Refused("A constant is an intercept. Use fit_intercept=True.")
        share = pure_share(objective, budget)
        # Only rules read this budget, so the least epsilon is enough.
        left = Budget(max((1 - share) * budget.epsilon, _LEAST_EPSILON), 0.0)
        kind: type[Solver] = given.get("inner", ObjectivePerturbation)
        inner = kind.planned({}, objective, left)
        return cls(inner=inner, share=share)

    @property
    def named(self) -> str:
        return self.inner.named

    @property
    def mechanism(self) -> str:
        return self.inner.mechanism

    def sensitivity(self, objective: LinearObjective) -> float:
        return self.inner.sensitivity(objective)

    @property
    def params(self) -> dict[str, Any]:
        return {**self.inner.params, "constant_share": self.share}

    def plan(self, objective: LinearObjective) -> Plan:
        # The inner plan's multiplier is about 1 over its epsilon.
        law = LAWS_OF_COUNTS["laplace"]
        first = Line(law=law, strength=self.share / (1 - self.share))
        return Plan((first, Part(self.inner.plan(objective))))

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        offset = ConstantModel(law="laplace").constant(answers, objective)
        moved = replace(objective, offset=offset)
        found = self.inner.run(answers.part(1), moved, progress)
        weights = found.weights.copy()
        weights[-1] += np.array(offset) / objective.intercept_value
        return Solution(weights, answers.noise_scale)
