"""The contract between an estimator and what factorises for it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from skdp.decomposition._factors import Factors
from skdp.decomposition._ratings import Ratings
from skdp.decomposition._task import Task
from skdp.decomposition._threads import Threads
from skdp.privacy._accounting import Budget
from skdp.privacy._adjacency import Unit
from skdp.privacy._events import Event
from skdp.privacy._noise import NoiseSource
from skdp.solvers._base import Progress
from skdp.solvers._configured import Configured

# A generator of scikit-learn's kind, for draws on which no privacy rests.
Draws = Any


@dataclass(frozen=True, kw_only=True)
class Factorizer(Configured, ABC):
    """Minimises the objective of a `Task`, without privacy."""

    uses_alpha: ClassVar[bool] = True

    def resolve(self, task: Task) -> Self:
        """Copy with every None replaced by its rule."""
        return self

    @abstractmethod
    def default_components(self, task: Task) -> int:
        """The rule for ``n_components=None``; that of `task` means nothing yet."""

    @abstractmethod
    def default_alpha(self, task: Task) -> float:
        """The rule for ``alpha=None``, for the number of components of `task`."""

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
    """Factorises privately: declares an event, then reads and adds its noise."""

    unit: ClassVar[Unit]
    # Of `sensitivity`, for the record.
    sensitivity_unit: ClassVar[str]

    def refusal(self, task: Task, budget: Budget) -> str:
        """Why this cannot do the job, or an empty string if it can."""
        if budget.delta == 0:
            return (
                f"solver={self.key!r} adds Gaussian noise and cannot do delta=0. "
                "Use a delta above 0."
            )
        if task.rating_bounds is None or not math.isfinite(task.rating_bounds[1]):
            return f"solver={self.key!r} needs finite rating_bounds."
        return ""

    @abstractmethod
    def resolve(self, task: Task, budget: Budget) -> Self:
        """Copy with every None replaced by its rule; public facts only."""

    @abstractmethod
    def default_components(self, task: Task, budget: Budget) -> int:
        """The rule for ``n_components=None``; that of `task` means nothing yet."""

    @property
    def mechanism(self) -> str:
        """What makes the release private, for the record."""
        return "Gaussian noise, calibrated exactly"

    @abstractmethod
    def event(self, noise_multiplier: float, task: Task) -> Event:
        """Everything `run` will release. Pure: sees no data, draws no noise."""

    @abstractmethod
    def sensitivity(self, task: Task) -> float:
        """Largest L2 sensitivity of one query under the task's unit."""

    @abstractmethod
    def run(
        self,
        ratings: Ratings,
        task: Task,
        noise_multiplier: float,
        noise: NoiseSource,
        rng: Draws,
        progress: Progress,
    ) -> Factors:
        """Read `ratings`; add exactly the noise that `event` declared.

        Called only by `factorize`, after the commit. Under ``unit="user"`` the rows of
        users in the result are those of nobody: the mean user's.

        Parameters
        ----------
        ratings : Ratings
            Private: the values, and under ``unit="user"`` the pattern too. Values are
            within the task's bounds.
        task : Task
        noise_multiplier : float
        noise : NoiseSource
        rng : Draws
            For draws that no privacy rests on and that are independent of the data.
        progress : Progress
        """
