"""The contract between an estimator and what factorises for it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from skdp._configured import Configured, Given
from skdp.decomposition._factors import Factors
from skdp.decomposition._ratings import Ratings
from skdp.decomposition._task import Task
from skdp.decomposition._threads import Threads
from skdp.exceptions import Refused
from skdp.privacy._accounting import Budget
from skdp.privacy._adjacency import Unit
from skdp.privacy._answers import Answers
from skdp.privacy._plan import Plan
from skdp.solvers._progress import Progress

# A generator of scikit-learn's kind, for draws on which no privacy rests.
Draws = Any


@dataclass(frozen=True, kw_only=True)
class Factorizer(Configured, ABC):
    """Minimises the objective of a `Task`, without privacy."""

    uses_alpha: ClassVar[bool] = True
    # For n_components=None, and of `default_alpha`: all but one minimise one objective.
    components: ClassVar[int] = 48
    penalty: ClassVar[float] = 0.62

    @classmethod
    def planned(cls, given: Given, task: Task) -> Self:
        """What was not given decided by rule.

        Parameters
        ----------
        given : mapping
            Checked parameters.
        task : Task
        """
        return cls(**given)

    @classmethod
    def default_alpha(cls, task: Task) -> float:
        """`penalty` over the root of the mean number of ratings of an id.

        The error that a rating's penalty has to balance is that of a row's estimate,
        which falls with the row's number of ratings.
        """
        n_ids = task.n_users + task.n_items
        n_ratings = len(task.pattern) if task.pattern is not None else 0
        return cls.penalty * math.sqrt(n_ids / n_ratings) if n_ratings else cls.penalty

    @property
    @abstractmethod
    def n_steps(self) -> int:
        """Passes that `iterates` makes at most."""

    @abstractmethod
    def iterates(
        self, ratings: Ratings, task: Task, rng: Draws, threads: Threads
    ) -> Iterator[Factors]:
        """The start, then the factors after each pass; `n_steps` of them at most.

        What is yielded may be changed in place by the next pass. Never NaN or infinite
        for finite ratings: a start or a step that would be is made smaller.

        Parameters
        ----------
        ratings : Ratings
        task : Task
        rng : Draws
            For starts and orders, which no privacy rests on.
        threads : Threads
        """


@dataclass(frozen=True, kw_only=True)
class PrivateFactorizer(Configured, ABC):
    """Factorises privately: plans what it asks, then walks over the answers."""

    unit: ClassVar[Unit]
    # Of `sensitivity`, for the record.
    sensitivity_unit: ClassVar[str]

    @classmethod
    def check(cls, task: Task, budget: Budget) -> None:
        """Raise what no parameter can mend.

        Raises
        ------
        Refused
        """
        if budget.delta == 0:
            raise Refused(
                f"solver={cls.key!r} adds Gaussian noise and cannot do delta=0. "
                "Use a delta above 0."
            )
        if task.rating_bounds is None or not math.isfinite(task.rating_bounds[1]):
            raise Refused(f"solver={cls.key!r} needs finite rating_bounds.")

    @classmethod
    @abstractmethod
    def planned(cls, given: Given, task: Task, budget: Budget) -> Self:
        """What was not given decided by rule; from public facts only.

        Parameters
        ----------
        given : mapping
            Checked parameters.

        Raises
        ------
        Refused
            If this cannot do the job.
        """

    @classmethod
    @abstractmethod
    def default_components(cls, given: Given, task: Task, budget: Budget) -> int:
        """The rule for ``n_components=None``; that of `task` means nothing yet."""

    @property
    def mechanism(self) -> str:
        """What makes the release private, for the record."""
        return "Gaussian noise, calibrated exactly"

    @abstractmethod
    def plan(self, task: Task) -> Plan:
        """Everything `run` will ask. Pure: sees no data, draws no noise."""

    @abstractmethod
    def sensitivity(self, task: Task) -> float:
        """Largest L2 sensitivity of one query under the task's unit."""

    @abstractmethod
    def bias_noise(self, task: Task, budget: Budget) -> float:
        """Deviation of the noise in a bias that the whole budget went into.

        In units of the width of the rating bounds; a rule of thumb, from public facts.
        """

    @abstractmethod
    def run(
        self, answers: Answers, task: Task, rng: Draws, progress: Progress
    ) -> Factors:
        """Walk over released values; ask exactly what `plan` declared.

        Under ``unit="user"`` the rows of users in the result are those of nobody: the
        mean user's.

        Parameters
        ----------
        answers : Answers
            Over a `RatingSource`, its values within the task's bounds.
        rng : Draws
            For draws that no privacy rests on and that are independent of the data.
        """
