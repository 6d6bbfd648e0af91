"""`factorize`: ratings through the door: plan, commit, ask."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from sklearn.utils import check_random_state

from skdp._quiet import warn
from skdp.decomposition._factorizer import Draws, Factorizer, PrivateFactorizer
from skdp.decomposition._factors import Factors
from skdp.decomposition._rating_source import RatingSource
from skdp.decomposition._ratings import Ratings
from skdp.decomposition._task import Task
from skdp.decomposition._threads import Threads
from skdp.privacy._door import Door
from skdp.privacy._events import Event
from skdp.solvers._progress import Progress


@dataclass(frozen=True)
class Outcome:
    """A factorisation with the public facts of how it was released.

    `noise_multiplier` is sigma / sensitivity, 0.0 without noise; `n_passes` counts the
    passes over the ratings that were made.
    """

    factors: Factors
    event: Event
    noise_multiplier: float
    n_passes: int


def factorize(
    solver: Factorizer | PrivateFactorizer,
    ratings: Ratings,
    task: Task,
    door: Door,
    *,
    n_jobs: int | None,
    label: str,
    verbose: bool,
) -> Outcome:
    """Factorise; the event is on the ledger before the first rating is read.

    Ratings are private, and a solver that is not private requires an infinite epsilon.
    In a rehearsal nothing is read and everything is zero. `label` is what the books
    call this fit.

    Raises
    ------
    BudgetExceeded
        From the ledger; nothing was read or spent.
    """
    plan = solver.plan(task) if isinstance(solver, PrivateFactorizer) else None
    answers = door.commit(plan, RatingSource(ratings, task.n_units), label=label)
    event, multiplier = answers.event, answers.noise_multiplier
    if answers.is_rehearsed:
        return Outcome(Factors.zeros(task), event, multiplier, 0)
    # Not NumPy's own generator: its state would tell of other trials of a search.
    rng = check_random_state(int(door.draws.integers(2**32, 1)[0]))
    # From here on no warning may depend on the data, so NumPy is kept from giving any.
    with np.errstate(all="ignore"):
        progress = Progress(label, verbose)
        if isinstance(solver, PrivateFactorizer):
            factors = solver.run(answers, task, rng, progress)
            return Outcome(factors, event, multiplier, 0)
        with Threads(n_jobs) as threads:
            last = _last_iterate(solver, ratings, task, rng, threads, progress)
    return Outcome(last[0], event, multiplier, last[1])


def _last_iterate(
    solver: Factorizer,
    ratings: Ratings,
    task: Task,
    rng: Draws,
    threads: Threads,
    progress: Progress,
) -> tuple[Factors, int]:
    """The factors after the last pass, or after the last before an interrupt."""
    iterates = solver.iterates(ratings, task, rng, threads)
    # The start counts as an iterate: an interrupt always leaves a model.
    factors, n_passes = next(iterates), 0  # the first one is the start
    try:
        _report(solver, factors, ratings, n_passes, progress)
        for factors in iterates:
            n_passes += 1
            _report(solver, factors, ratings, n_passes, progress)
    except KeyboardInterrupt:
        warn(
            f"Interrupted after {n_passes} of {solver.n_steps} passes. The "
            "model so far is kept."
        )
    return factors, n_passes


def _report(
    solver: Factorizer,
    factors: Factors,
    ratings: Ratings,
    n_passes: int,
    progress: Progress,
) -> None:
    if progress.is_due(n_passes, solver.n_steps):
        note = f": training RMSE {training_rmse(factors, ratings):.4f}"
        progress.step(n_passes, solver.n_steps, note)


def training_rmse(factors: Factors, ratings: Ratings) -> float:
    """Root mean square error over the ratings. Private."""
    pattern = ratings.pattern
    error = factors.predictions(pattern.users, pattern.items) - ratings.values
    return math.sqrt(float(np.mean(np.square(error, dtype=np.float64))))
