r"""Weights of a noisy descent, shrunk to what they are worth on the records.

One plan of three parts: the inner solver's answers, and two of its weights: the mean of
their products with the rows, and how much less is lost with them, or with half or a
quarter of them, than with an intercept alone. The best of these is what is released.
Proofs: ``docs/proofs/shrinkage.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from skdp._configured import Given
from skdp._floats import FloatArray
from skdp.losses._weighted import typical_curvature
from skdp.objectives import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._answers import Answers, Released
from skdp.privacy._plan import Line, Part, Plan
from skdp.queries._trial import Gains, MeanProduct, Trial
from skdp.solvers._around import Around
from skdp.solvers._base import Solution, Solver
from skdp.solvers._budget_parts import level_of, part_of
from skdp.solvers._flow_time import FlowTime
from skdp.solvers._progress import Progress
from skdp.solvers._strength import share_of_gains
from skdp.solvers._worth import SHARES, best_of

_SHARES = np.array(SHARES)
# Of what is spent on both answers, for the mean of the products.
_FOR_MEAN = 1 / 3
# Clip of products, over the usual raw predictions.
_PRODUCTS = 3.0
# A mean, and a gain by all weights, count from so many deviations of their noise on.
_MEAN_FROM, _GAIN_FROM = 2.0, 1.0


@dataclass(frozen=True, kw_only=True)
class Shrunken(Around):
    """A Gaussian solver whose weights are shrunk by what they are worth.

    Privacy
    -------
    Three parts, all Gaussian: exactly mu-GDP for their squares together. Both
    adjacencies: ``docs/proofs/shrinkage.md`` and the inner solver's page.

    Parameters
    ----------
    inner : Solver
        Of answers about gradients.
    share : float in (0, 1)
        Of mu squared, for both answers about its weights.
    leverage : float in [0, inf), default=0.0
        Part that a record's residual has in its own raw prediction.
    level : float
        Noise of the inner part in units of what the whole budget would get.
    """

    key: ClassVar[str] = "shrunken"

    share: float
    leverage: float = 0.0
    level: float

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        """Everything is given but the level."""
        level = level_of(given["inner"], objective, budget, 1 - given["share"])
        return cls(**given, level=level)

    @property
    def params(self) -> dict[str, Any]:
        return {**self.inner.params, "shrinkage": {"share": self.share}}

    def plan(self, objective: LinearObjective) -> Plan:
        return Plan(
            (
                Part(self.inner.plan(objective), self.level),
                Line(mu_share=self.share * _FOR_MEAN),
                Line(mu_share=self.share * (1 - _FOR_MEAN)),
            )
        )

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        found = self.inner.run(answers.part(0), objective, progress)
        coef, intercept = found.unpack(objective)
        asked = self.mean_product(objective, coef.T)
        mean = answers.ask(asked, 1)
        candidates = Candidates.of(coef, intercept, mean, objective)
        gains = answers.ask(self.gains(objective, candidates), 2)
        chosen = best_share(gains)
        weights = np.concatenate([chosen * coef.T, candidates.at(chosen)[None]])
        weights[-1] -= objective.offset or 0.0
        weights[-1] /= objective.intercept_value
        return replace(found, weights=weights[: objective.n_columns], shrinkage=chosen)

    def mean_product(self, objective: LinearObjective, coef: FloatArray) -> MeanProduct:
        """The question after the descent; `coef` has a column for each output."""
        loss = objective.loss
        clip = _PRODUCTS * loss.raw_unit * math.sqrt(loss.n_outputs)
        return MeanProduct(Trial(objective), coef, clip)

    def gains(self, objective: LinearObjective, candidates: Candidates) -> Gains:
        """The last question."""
        intercepts = [candidates.at(share) for share in (0.0, *_SHARES)]
        return Gains(
            Trial(objective),
            candidates.coef.T,
            _SHARES,
            np.stack(intercepts),
            objective.loss.gain_clip,
            self.leverage,
        )


@dataclass(frozen=True, eq=False)
class Candidates:
    """Shares of released weights, each with the intercept that goes with it.

    Intercepts keep the mean prediction: products have a mean.

    Parameters
    ----------
    coef : ndarray of float64 of shape (n_outputs, n_features)
    intercept, mean : ndarray of float64 of shape (n_outputs,)
        Mean of the products with `coef`.
    """

    coef: FloatArray
    intercept: FloatArray
    mean: FloatArray

    @classmethod
    def of(
        cls,
        coef: FloatArray,
        intercept: FloatArray,
        released: Released,
        objective: LinearObjective,
    ) -> Candidates:
        """Post-processing of both."""
        mean = known(released, objective.n_samples)
        if not objective.fit_intercept:
            mean = np.zeros_like(mean)
        return cls(coef, intercept, mean)

    def at(self, share: float) -> FloatArray:
        """The intercept beside a share of the weights."""
        return np.asarray(self.intercept + self.mean - share * self.mean)


def shrunken(
    inner: Callable[[LinearObjective, Budget], Solver],
    objective: LinearObjective,
    budget: Budget,
    strength: float,
) -> Solver:
    """What a rule plans, shrunk to what it is worth where that can be asked.

    `strength` is that of the whole budget.
    """
    share = share_of_gains(strength)
    if not share:
        return inner(objective, budget)
    facts: Given = {
        "inner": inner(objective, part_of(budget, 1 - share)),
        "share": share,
        "leverage": _leverage(objective, budget),
    }
    return Shrunken.planned(facts, objective, budget)


def _leverage(objective: LinearObjective, budget: Budget) -> float:
    r"""Part that a record's own residual has in its raw prediction after a descent.

    Of a direction of curvature h a share of ``1 - exp(-h s)`` is learned in a flow time
    s, and a record's part in it is one in n.
    """
    loss, rule = objective.loss, FlowTime.of(objective, budget)
    flow = rule.flow(*rule.clip_and_weight(None, None))
    spread = np.array(objective.expected.spectrum) * objective.data_norm**2
    bend = typical_curvature(loss)
    learned = float(np.sum(-np.expm1(-bend * spread * flow)))
    return learned / (bend * objective.n_samples)


def known(released: Released, n_samples: int) -> FloatArray:
    """A mean, less what its noise may have added; post-processing."""
    noise = _MEAN_FROM * released.deviation * math.sqrt(released.value.size)
    size = float(np.linalg.norm(released.value))
    left = max(0.0, 1 - (noise / size) ** 2) if size > 0 else 0.0
    return np.asarray(left * released.value / n_samples)


def best_share(gains: Released) -> float:
    """The share of the weights that is worth most; 0 if none is; post-processing."""
    return best_of(gains, _GAIN_FROM)
