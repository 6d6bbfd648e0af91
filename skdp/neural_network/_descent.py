"""What private descents of networks share: their parameters, plan and walk."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar, Self

from skdp._configured import Checks, Configured, Given
from skdp._floats import FloatArray
from skdp._validation import check_count, check_real
from skdp.exceptions import Refused
from skdp.neural_network._rules import LAST_STEP, TAIL, gradient_clip_of, n_steps_of
from skdp.objectives._network import FARTHEST, NetworkObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._answers import Answers
from skdp.privacy._plan import Plan
from skdp.queries._network_gradient import NetworkGradients
from skdp.solvers._base import Solution
from skdp.solvers._progress import Progress
from skdp.solvers._steps import Pace, Steps, descend, sampled


@dataclass(frozen=True, kw_only=True)
class NetworkDescent(Configured, ABC):
    """A descent along noisy sums of clipped gradients.

    Parameters
    ----------
    n_steps : int in [1, 1e6]
        Number of sums, all of them taken. Public.
    step_size : float in [1e-250, 1e250]
        Of the first step.
    last_step : float in (0, 1]
        The last step's size over the first one's; those between fall evenly.
    gradient_clip : float in [1e-6, 1e6] or inf
        Norm to which every record's joint gradient of all layers is clipped; inf
        without privacy only.
    tail : float in [1e-9, 1]
        Share of the last iterates that is averaged; the very last one if the share is
        smaller than one step.
    """

    is_pure: ClassVar[bool] = False
    checks: ClassVar[Checks] = {
        "n_steps": partial(check_count, high=10**6),
        "step_size": partial(check_real, low=1e-250, high=1e250),
        "last_step": partial(check_real, low=0.0, high=1.0, low_open=True),
        "gradient_clip": partial(check_real, low=1e-6, high=math.inf),
        "tail": partial(check_real, low=1e-9, high=1.0),
    }

    n_steps: int
    step_size: float
    last_step: float
    gradient_clip: float
    tail: float

    @classmethod
    def check(cls, given: Given, budget: Budget) -> None:
        """Raise what no other rule can mend.

        Raises
        ------
        Refused
        """
        if budget.delta == 0 and budget.is_finite:
            raise Refused(
                f"solver={cls.key!r} adds Gaussian noise and cannot do delta=0. "
                "Use a delta above 0."
            )
        if budget.is_finite and given.get("gradient_clip", 1.0) > 1e6:
            raise Refused(
                f"solver={cls.key!r} needs a gradient_clip of at most 1e6, or no noise "
                f"could hide a record. Got {given['gradient_clip']:g}. Use None."
            )

    @classmethod
    @abstractmethod
    def planned(cls, given: Given, objective: NetworkObjective, budget: Budget) -> Self:
        """What was not given decided by rule; from public facts only.

        Parameters
        ----------
        given : mapping
            Checked parameters.
        objective : NetworkObjective
        budget : Budget

        Raises
        ------
        Refused
            If this solver cannot do the job.
        """

    @staticmethod
    def shared_by_rule(
        given: Given, objective: NetworkObjective, budget: Budget
    ) -> dict[str, Any]:
        """The parameters above, but for the size of steps, by rules if not given."""
        clip = gradient_clip_of(objective, budget)
        return {
            "n_steps": given.get("n_steps", n_steps_of(objective, budget)),
            "last_step": given.get("last_step", LAST_STEP),
            "gradient_clip": given.get("gradient_clip", clip),
            "tail": given.get("tail", TAIL),
        }

    @classmethod
    def adds_in_squares(cls, given: Given) -> bool:
        """Whether at delta > 0 all that is released has Gaussian noise."""
        return False

    @property
    def params(self) -> dict[str, Any]:
        """The hyper-parameters by name, for the record."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    @abstractmethod
    def mechanism(self) -> str:
        """What makes the release private, for the record."""

    def records_of_a_step(self, objective: NetworkObjective) -> int:
        """Expected number of records in a sum: all of them."""
        return objective.n_samples

    def plan(self, objective: NetworkObjective) -> Plan:
        """Everything `run` will ask. Pure: sees no data, draws no noise."""
        batch_size = self.records_of_a_step(objective)
        return sampled(self.n_steps, batch_size, objective.n_samples)

    def sensitivity(self, objective: NetworkObjective) -> float:
        """Of one sum; of a sample a record's contribution, under both adjacencies."""
        is_sampled = self.records_of_a_step(objective) < objective.n_samples
        relation = "zero_out" if is_sampled else objective.adjacency
        return self.gradients(objective).worst.under(relation)

    def gradients(self, objective: NetworkObjective) -> NetworkGradients:
        return NetworkGradients(objective, self.gradient_clip)

    @abstractmethod
    def walk(self, objective: NetworkObjective, start: FloatArray) -> Steps:
        """The steps, from public weights."""

    def run(
        self,
        answers: Answers,
        objective: NetworkObjective,
        seed: int,
        progress: Progress,
    ) -> Solution:
        """Walk over released values; ask exactly what `plan` declared.

        Parameters
        ----------
        seed : int
            From which the first weights are drawn; public.
        """
        return descend(
            answers,
            self.gradients(objective),
            self.walk(objective, objective.start(seed)),
            self.records_of_a_step(objective),
            progress,
        )

    def pace(self, objective: NetworkObjective) -> Pace:
        return Pace(
            n_steps=self.n_steps,
            step_size=self.step_size,
            last_step=self.last_step,
            tail=self.tail,
            alpha=objective.alpha,
            farthest=FARTHEST,
        )
