"""`solve`, the only door between data and a solver.

The order of its steps is the privacy argument: declare, calibrate, commit, read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from skdp.data import EntriesClipped, Source
from skdp.objectives import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._door import Ledger
from skdp.privacy._events import Event
from skdp.privacy._noise import NoiseSource
from skdp.privacy._old_door import commit
from skdp.solvers._base import Progress, Solution, Solver
from skdp.solvers._exact import exact_minimum, sparse_minimum


@dataclass(frozen=True)
class Outcome:
    """A solution with the public facts of how it was released.

    Parameters
    ----------
    solution : Solution
    event : Event
        What was committed: the declared event, or `NonPrivateEvent`.
    noise_multiplier : float
        sigma / sensitivity; 0.0 for ``epsilon=inf``.
    """

    solution: Solution
    event: Event
    noise_multiplier: float


def solve(
    solver: Solver | None,
    source: Source,
    objective: LinearObjective,
    budget: Budget,
    *,
    ledger: Ledger | None,
    noise: NoiseSource,
    label: str,
    progress: Progress,
) -> Outcome:
    """Fit privately; the event is on the ledger before the first read.

    Parameters
    ----------
    solver : Solver or None
        Resolved configuration; None computes the non-private optimum and requires
        an infinite epsilon.
    source : Source
        Private. Nothing is read from it before the commit.
    objective : LinearObjective
    budget : Budget
    ledger : BudgetLedger, Allowance or None
        In a rehearsal nothing is read and the weights are zeros.
    noise : NoiseSource
    label : str
        What the ledger's books call this fit.
    progress : Progress

    Raises
    ------
    BudgetExceeded
        From the ledger; nothing was read or spent.
    """
    declare = None
    if solver is not None:
        declare = partial(solver.event, objective=objective)
    done = commit(
        declare,
        budget,
        adjacency=objective.adjacency,
        ledger=ledger,
        noise=noise,
        label=label,
    )
    if not done.may_read:
        zeros = np.zeros((objective.n_columns, objective.loss.n_outputs))
        return Outcome(Solution(zeros, 0.0), done.event, done.noise_multiplier)
    if objective.feature_bound < objective.data_norm:
        source = EntriesClipped(source, objective.feature_bound)
    # From here on no warning may depend on the data, so NumPy is kept from giving any.
    with np.errstate(all="ignore"):
        if solver is None:
            minimum = exact_minimum if objective.n_nonzero is None else sparse_minimum
            solution = minimum(source, objective, progress)
        else:
            solution = solver.run(
                source, objective, done.noise_multiplier, noise, progress
            )
    return Outcome(solution, done.event, done.noise_multiplier)
