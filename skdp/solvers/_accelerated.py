r"""What the accelerated methods share: momentum, divided noise, secret batches.

Algorithm: with the weights ``W_t`` (zero at first), the velocity
``V_t = W_t - W_{t-1}`` (zero at the start of every stage) and the look-ahead
``A_t = W_t + momentum_t V_t``,

    W_{t+1} = A_t - step_t ((g_t + N_t) / m + alpha Q_t),

where g_t is the clipped gradient sum over m records at the point Q_t: the look-ahead
for Nesterov's method, the weights themselves for the heavy ball. The release is the
last iterate; all of them may be published.

The noise N_t has the standard deviation (or scale) ``noise_multiplier * r_t`` times the
sensitivity at the released point. The factors r_t divide the budget so that the error
bound of `skdp.solvers._noise_division` is least: late steps get less noise.
Proofs: ``docs/proofs/nesterov.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from skdp._configured import Checks, Given
from skdp._floats import FloatArray, IntArray
from skdp._validation import check_bool, check_choice, check_count, check_real
from skdp.exceptions import Refused
from skdp.objectives._linear import LinearObjective
from skdp.privacy._accounting import Budget, calibrate
from skdp.privacy._adjacency import is_of_users
from skdp.privacy._answers import Answers
from skdp.privacy._laws import LAWS, budget_of
from skdp.privacy._plan import EVERYONE, Batch, Line, Plan, Sample
from skdp.queries._gradient import Gradients
from skdp.solvers._accelerated_rules import DefaultRules
from skdp.solvers._base import Solution
from skdp.solvers._boxed import boxed, farthest_weight
from skdp.solvers._chosen_law import ChosenLaw
from skdp.solvers._noise_division import bound_weights, nesterov_momentum, noise_levels
from skdp.solvers._progress import Progress
from skdp.solvers._steps import restarted


class Schedule(NamedTuple):
    """Public course of a run: arrays of shape (n_steps,)."""

    step_sizes: FloatArray
    momenta: FloatArray
    stages: IntArray


@dataclass(frozen=True, kw_only=True)
class AcceleratedGD(ChosenLaw):
    """Noisy gradient descent with momentum and a divided budget.

    Parameters
    ----------
    n_steps : int in [1, 1e6] or None, default=None
        Number of gradients, all of them taken. Public. None: ``2 / sqrt(step_size mu)``
        (heavy ball: sqrt(10) in place of 2) where noise limits the run, that is, where
        mu is above alpha; otherwise the number with the least error bound, from that to
        ``6 / sqrt(step_size mu)``. At most 1000.
    step_size : float in [1e-250, 1e250] or None, default=None
        In units of weights per gradient of the mean loss. None: ``1 / L`` with the
        public smoothness bound ``L = smoothness * row_norm^2 + alpha``, or a quarter of
        the flow time of `noisy_gd`'s rule if that is less.
    strong_convexity : float in [1e-250, 1e250] or None, default=None
        mu, from which momentum and division of the noise follow. None: alpha, or
        the inverse of the flow time of `noisy_gd`'s rule if that is larger: directions
        of smaller curvature are lost in the noise anyway.
    division : {"optimal", "even"}, default="optimal"
        Whether late steps get less noise, or all the same.
    residual_clip : float in [1e-6, inf] or None, default=None
        Norm to which the residual of every record is clipped. None: `noisy_gd`'s rule.
    intercept_weight : float in [1e-6, 1] or None, default=None
        Factor on the intercept's part of every query, undone after the noise. None:
        `noisy_gd`'s rule.
    law : {"gaussian", "spherical"} or None, default=None
        Law of the noise. None: spherical if delta is 0, which is what it needs,
        Gaussian otherwise. "spherical" is refused for several steps beside a delta
        above 0, which gains little with it.
    batch_size : int in [1, 2^31] or None, default=None
        Records in each step's secret batch, drawn afresh without replacement. Spherical
        noise only. None, or n_samples and more: all records in every step.
    keeps_path : bool, default=False
        Whether all iterates are kept, as `coef_path_` and `intercept_path_`.
    """

    checks: ClassVar[Checks] = {
        **ChosenLaw.checks,
        "n_steps": partial(check_count, high=10**6),
        "step_size": partial(check_real, low=1e-250, high=1e250),
        "strong_convexity": partial(check_real, low=1e-250, high=1e250),
        "division": partial(check_choice, allowed=("even", "optimal")),
        "residual_clip": partial(check_real, low=1e-6, high=math.inf),
        "intercept_weight": partial(check_real, low=1e-6, high=1.0),
        "batch_size": partial(check_count, high=2**31),
        "keeps_path": check_bool,
    }
    # Whether the intercept's velocity starts anew where it leads uphill; the heavy
    # ball follows its papers.
    restarts_intercept: ClassVar[bool] = True
    looks_ahead: ClassVar[bool] = True  # whether gradients are taken at the look-ahead
    # Times 1 / sqrt(step_size * mu) steps in which momentum covers a flow time 1 / mu.
    relaxations: ClassVar[float] = 2.0

    n_steps: int
    step_size: float
    strong_convexity: float
    division: Literal["optimal", "even"] = "optimal"
    residual_clip: float
    intercept_weight: float
    batch_size: int
    keeps_path: bool = False

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        cls.check(objective, budget)
        solver = cls(**cls.by_rule(given, objective, budget))
        solver._check_batches(objective)
        cls.check_steps(solver.law, budget, solver.n_steps)
        solver._check_draws(objective, budget)
        return solver

    @classmethod
    def by_rule(
        cls, given: Given, objective: LinearObjective, budget: Budget
    ) -> dict[str, Any]:
        """All parameters, by the rules if they are not given."""
        law, n = cls.law_for(given, budget), objective.n_samples
        rules = DefaultRules(objective, budget, LAWS[law])
        clip, weight = rules.flow_time.clip_and_weight(
            given.get("residual_clip"), given.get("intercept_weight")
        )
        step_size, convexity = rules.constants(clip, weight)
        step_size = given.get("step_size", step_size)
        convexity = given.get("strong_convexity", convexity)
        division = given.get("division", "optimal")
        batch_size = min(given.get("batch_size", n), n)
        n_steps = given.get("n_steps")
        if n_steps is None:
            bound = Gradients(objective, clip, weight).worst
            relation = _sample(batch_size, n).covering(objective.adjacency)
            n_steps = rules.n_steps(
                step_size,
                convexity,
                bound.under(relation),
                relaxations=cls.relaxations,
                is_even=division == "even",
            )
        return {
            "law": law,
            "n_steps": n_steps,
            "step_size": step_size,
            "strong_convexity": convexity,
            "division": division,
            "residual_clip": clip,
            "intercept_weight": weight,
            "batch_size": batch_size,
            "keeps_path": given.get("keeps_path", False),
        }

    def _check_batches(self, objective: LinearObjective) -> None:
        is_batch = self.batch_size < objective.n_samples
        if is_batch and is_of_users(objective.adjacency):
            raise Refused(
                f"solver={self.key!r} takes a batch_size with privacy_unit='record' "
                "only: batches are of rows. Use batch_size=None."
            )
        if is_batch and not self.noise_law.is_pure:
            raise Refused(
                f"solver={self.key!r} takes a batch_size with law='spherical' only, "
                "since no exact law is known for Gaussian noise and batches of a fixed "
                "size. Use delta=0, or solver='noisy_sgd'."
            )

    def _check_draws(self, objective: LinearObjective, budget: Budget) -> None:
        """Raise if the noise of a step cannot be drawn."""
        law, size = self.noise_law, objective.n_columns * objective.loss.n_outputs
        if not law.is_pure:
            return
        plan = self.plan(objective)
        declare = partial(plan.event, relation=objective.adjacency)
        multiplier = calibrate(declare, budget_of(law, budget))
        multipliers = [line.multiplier(multiplier) for line in plan.lines]
        if not all(law.is_possible(z, size) for z in multipliers):
            raise Refused(
                f"solver={self.key!r} cannot draw such noise. Use fewer n_steps."
            )

    @property
    def mechanism(self) -> str:
        return f"{self.noise_law.name} noise on gradients, divided over the steps"

    def schedule(self, objective: LinearObjective) -> Schedule:
        """The course of the run."""
        step_sizes, stages = self._stages(objective)
        return Schedule(step_sizes, self._momenta(step_sizes), stages)

    def _stages(self, objective: LinearObjective) -> tuple[FloatArray, IntArray]:
        """Step sizes and stages, of which there is one here."""
        ones = np.ones(self.n_steps, dtype=np.int64)
        return np.full(self.n_steps, self.step_size), ones

    def _momenta(self, step_sizes: FloatArray) -> FloatArray:
        return nesterov_momentum(step_sizes, self.strong_convexity)

    def levels(self, objective: LinearObjective) -> list[tuple[float, int]]:
        """Factors on the noise multiplier in the order of the steps, with numbers."""
        schedule = self.schedule(objective)
        weights = np.ones(len(schedule.stages))
        if self.division == "optimal":
            _, weights = bound_weights(
                schedule.step_sizes,
                schedule.stages,
                smoothness=objective.smoothness,
                strong_convexity=self.strong_convexity,
            )
        return noise_levels(weights, is_pure=self.noise_law.is_pure)

    def sample(self, objective: LinearObjective) -> Sample:
        """Which records a step sees."""
        return _sample(self.batch_size, objective.n_samples)

    def plan(self, objective: LinearObjective) -> Plan:
        law, sample = self.noise_law, self.sample(objective)
        levels = self.levels(objective)
        return Plan(tuple(Line(k, r, law=law, sample=sample) for r, k in levels))

    def gradients(self, objective: LinearObjective) -> Gradients:
        """The queries."""
        return Gradients(objective, self.residual_clip, self.intercept_weight)

    def sensitivity(self, objective: LinearObjective) -> float:
        relation = self.sample(objective).covering(objective.adjacency)
        return self.gradients(objective).worst.under(relation)

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        sums, weights = self.gradients(objective), np.zeros(objective.shape)
        velocity, farthest = np.zeros_like(weights), farthest_weight(objective)
        steps, stage = self.schedule(objective), 1
        path: list[FloatArray] = []
        for t, line in enumerate(self._line_of_each_step(objective)):
            if steps.stages[t] > stage:
                stage, velocity = steps.stages[t], np.zeros_like(weights)
            ahead = boxed(weights + steps.momenta[t] * velocity, farthest)
            query = sums.at(ahead if self.looks_ahead else weights)
            released = query.read(answers.ask(query, line).value)
            mean = released / self.batch_size + objective.alpha * query.weights
            moved = boxed(ahead - steps.step_sizes[t] * mean, farthest)
            velocity, weights = moved - weights, moved
            if self.restarts_intercept and objective.fit_intercept:
                velocity = restarted(velocity, mean)
            if self.keeps_path:
                path.append(weights)
            progress.step(t + 1, len(steps.stages))
        return Solution(weights, answers.noise_scale, path=tuple(path))

    def _line_of_each_step(self, objective: LinearObjective) -> Iterator[int]:
        counts = (count for _, count in self.levels(objective))
        return chain.from_iterable(repeat(i, count) for i, count in enumerate(counts))


def _sample(batch_size: int, n_samples: int) -> Sample:
    return EVERYONE if batch_size >= n_samples else Batch(batch_size, n_samples)
