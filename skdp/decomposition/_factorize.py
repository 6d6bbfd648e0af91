"""Protocols of factorisers: without privacy, and private."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state

from skdp._configured import Given
from skdp._fit import PrivateSolver, Progress
from skdp._quiet import warn
from skdp.decomposition._ratings import Factors, Ratings, Task, Threads
from skdp.exceptions import Refused
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._relations import Unit
from skdp.privacy.release._answers import Answers, ExactAnswers
from skdp.privacy.release._plan import Plan

# A generator like scikit-learn's, for draws on which no privacy rests.
Draws = Any
# Width of the ratings' range in standard units: the penalties were tuned on 1 to 5
# stars.
_STANDARD_RANGE = 4.0


@dataclass(frozen=True, kw_only=True)
class Factorizer(PrivateSolver[Task, Factors]):
    """Minimises the objective of a `Task`, without privacy, for an infinite epsilon.

    The ratings are in standard units, so that the result does not depend on theirs.
    """

    mechanism: ClassVar[str] = ""
    uses_alpha: ClassVar[bool] = True
    # Value of n_components=None, and factor of `default_alpha`. All solvers but one
    # minimise the same objective.
    components: ClassVar[int] = 48
    penalty: ClassVar[float] = 0.62

    @classmethod
    def planned(cls, given: Given, task: Task) -> Self:
        """The solver with missing parameters set by rules.

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

        The penalty has to balance the error of a row's estimate, which falls with the
        row's number of ratings.
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

        The next pass may change the yielded factors in place. For finite ratings they
        are never NaN or infinite: a start or a step that would be is made smaller.

        Parameters
        ----------
        ratings : Ratings
        task : Task
        rng : Draws
            For starts and orders, on which no privacy rests.
        threads : Threads
        """

    def plan(self, task: Task, /) -> None:
        return None

    def sensitivity(self, task: Task, /) -> float:
        return math.inf

    def run(self, answers: Answers, task: Task, progress: Progress, /) -> Factors:
        assert isinstance(answers, ExactAnswers)  # a plan of None allows no others
        ratings, draws = answers.records.ratings, check_random_state(task.seed)
        unit = _standard_unit(ratings, task)
        standard = replace(ratings, values=ratings.values / unit)
        with Threads(task.n_jobs) as threads:
            iterates = self.iterates(standard, task, draws, threads)
            last = _last_iterate(self, iterates, standard, unit, progress)
        return last.scaled(unit)

    def rehearse(self, answers: Answers, task: Task, /) -> Factors:
        return Factors.zeros(task)


def _standard_unit(ratings: Ratings, task: Task) -> float:
    """The standard unit: a quarter of `rating_bounds`, or of the range of ratings."""
    low, high = task.rating_bounds or (ratings.values.min(), ratings.values.max())
    # Divided first, since the range of finite ratings may overflow.
    unit = float(high) / _STANDARD_RANGE - float(low) / _STANDARD_RANGE
    return unit if unit > 0 else 1.0


def _last_iterate(
    solver: Factorizer,
    iterates: Iterator[Factors],
    ratings: Ratings,
    unit: float,
    progress: Progress,
) -> Factors:
    """The factors after the last pass that was completed before an interrupt."""
    # The start counts as an iterate: an interrupt always leaves a model.
    factors, n_passes = next(iterates), 0  # the first one is the start
    try:
        _report(solver, factors, ratings, unit, n_passes, progress)
        for factors in iterates:
            n_passes += 1
            _report(solver, factors, ratings, unit, n_passes, progress)
    except KeyboardInterrupt:
        warn(
            f"Interrupted after {n_passes} of {solver.n_steps} passes. The "
            "model so far is kept."
        )
    return replace(factors, n_passes=n_passes)


def _report(
    solver: Factorizer,
    factors: Factors,
    ratings: Ratings,
    unit: float,
    n_passes: int,
    progress: Progress,
) -> None:
    if progress.is_due(n_passes, solver.n_steps):
        note = f": training RMSE {unit * training_rmse(factors, ratings):.4f}"
        progress.step(n_passes, solver.n_steps, note)


def training_rmse(factors: Factors, ratings: Ratings) -> float:
    """Root mean square error over the ratings. Private."""
    pattern = ratings.pattern
    error = factors.predictions(pattern.users, pattern.items) - ratings.values
    return math.sqrt(float(np.mean(np.square(error, dtype=np.float64))))


@dataclass(frozen=True, kw_only=True)
class PrivateFactorizer(PrivateSolver[Task, Factors]):
    """Factorises privately: plans what it asks, then walks over the answers."""

    unit: ClassVar[Unit]
    mechanism: ClassVar[str] = "Gaussian noise, calibrated exactly"

    @classmethod
    def check(cls, task: Task, budget: Budget) -> None:
        """Refuse a fit that no choice of parameters makes possible.

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
        """The solver with missing parameters set by rules of public facts.

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
        """The rule for ``n_components=None``; the task's number has no meaning yet."""

    @abstractmethod
    def plan(self, task: Task, /) -> Plan: ...

    @abstractmethod
    def sensitivity(self, task: Task, /) -> float: ...

    def noise_scale(self, released: Factors, answers: Answers, task: Task, /) -> float:
        lines, multiplier = self.plan(task).lines, answers.noise_multiplier
        return self.sensitivity(task) * max(x.multiplier(multiplier) for x in lines)

    @abstractmethod
    def bias_noise(self, task: Task, budget: Budget) -> float:
        """Deviation of the noise in a bias on which the whole budget is spent.

        In units of the width of the rating bounds; a rule of thumb, from public facts.
        """

    @abstractmethod
    def run(self, answers: Answers, task: Task, progress: Progress, /) -> Factors:
        """Walk over released values; ask exactly what `plan` declared.

        Under ``unit="user"`` the result has no user's row, only the mean user's.

        Parameters
        ----------
        answers : Answers
            Over a `RatingSource`, its values within the task's bounds.
        """

    def rehearse(self, answers: Answers, task: Task, /) -> Factors:
        return Factors.zeros(task)
