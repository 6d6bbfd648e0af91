"""`factorize`, the only door between ratings and what factorises them.

The order of its steps is the privacy argument: declare, calibrate, commit, read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from sklearn.utils import check_random_state

from skdp._quiet import warn
from skdp.decomposition._factorizer import Draws, Factorizer, PrivateFactorizer
from skdp.decomposition._factors import Factors
from skdp.decomposition._ratings import Ratings
from skdp.decomposition._task import Task
from skdp.decomposition._threads import Threads
from skdp.privacy._accounting import Budget
from skdp.privacy._adjacency import Unit
from skdp.privacy._door import Ledger
from skdp.privacy._events import Event
from skdp.privacy._noise import NoiseSource
from skdp.privacy._old_door import commit
from skdp.solvers import Progress


@dataclass(frozen=True)
class Outcome:
    """A factorisation with the public facts of how it was released.

    Parameters
    ----------
    factors : Factors
    event : Event
        What was committed.
    noise_multiplier : float
        sigma / sensitivity; 0.0 without noise.
    n_passes : int
        Passes over the ratings that were made.
    """

    factors: Factors
    event: Event
    noise_multiplier: float
    n_passes: int


def factorize(
    solver: Factorizer | PrivateFactorizer,
    ratings: Ratings,
    task: Task,
    budget: Budget,
    *,
    unit: Unit,
    ledger: Ledger | None,
    noise: NoiseSource,
    n_jobs: int | None,
    label: str,
    verbose: bool,
) -> Outcome:
    """Factorise; the event is on the ledger before the first rating is read.

    Parameters
    ----------
    solver : Factorizer or PrivateFactorizer
        Resolved. One that is not private requires an infinite epsilon.
    ratings : Ratings
        Private. Nothing is read from it before the commit.
    task : Task
    budget : Budget
    unit : {"rating_value", "user"}
    ledger : BudgetLedger, Allowance or None
        In a rehearsal nothing is read and everything is zero.
    noise : NoiseSource
    n_jobs : int or None
    label : str
        What the books call this fit.
    verbose : bool

    Raises
    ------
    BudgetExceeded
        From the ledger; nothing was read or spent.
    """
    declare = None
    if isinstance(solver, PrivateFactorizer):
        declare = partial(solver.event, task=task)
    done = commit(
        declare,
        budget,
        adjacency=unit,
        ledger=ledger,
        noise=noise,
        label=label,
    )
    if not done.may_read:
        return Outcome(Factors.zeros(task), done.event, done.noise_multiplier, 0)
    # Not NumPy's own generator: its state would tell of other trials of a search.
    rng = check_random_state(int(noise.integers(2**32, 1)[0]))
    # From here on no warning may depend on the data, so NumPy is kept from giving any.
    with np.errstate(all="ignore"):
        progress = Progress(label, verbose)
        if isinstance(solver, PrivateFactorizer):
            factors = solver.run(
                ratings, task, done.noise_multiplier, noise, rng, progress
            )
            return Outcome(factors, done.event, done.noise_multiplier, 0)
        with Threads(n_jobs) as threads:
            factors, n_passes = _last_iterate(
                solver, ratings, task, rng, threads, progress
            )
    return Outcome(factors, done.event, 0.0, n_passes)


def _last_iterate(
    solver: Factorizer,
    ratings: Ratings,
    task: Task,
    rng: Draws,
    threads: Threads,
    progress: Progress,
) -> tuple[Factors, int]:
    """The factors after the last pass, or after the last before an interrupt."""
    factors: Factors | None = None
    n_passes = -1  # the first iterate is the start
    try:
        for factors in solver.iterates(ratings, task, rng, threads):
            n_passes += 1
            if progress.is_due(n_passes, solver.n_steps):
                error = training_rmse(factors, ratings)
                note = f": training RMSE {error:.4f}"
                progress.step(n_passes, solver.n_steps, note)
    except KeyboardInterrupt:
        if factors is None:
            raise
        warn(
            f"Interrupted after {max(n_passes, 0)} of {solver.n_steps} passes. The "
            "model so far is kept."
        )
    assert factors is not None, "the start is an iterate"
    return factors, max(n_passes, 0)


def training_rmse(factors: Factors, ratings: Ratings) -> float:
    """Root mean square error over the ratings. Private."""
    pattern = ratings.pattern
    error = factors.predictions(pattern.users, pattern.items) - ratings.values
    return math.sqrt(float(np.mean(np.square(error, dtype=np.float64))))
