"""`solve`: a linear model through the door: plan, commit, ask."""

from __future__ import annotations

import numpy as np

from skdp.data._source import Source
from skdp.data._views import EntriesClipped
from skdp.objectives._linear import LinearObjective
from skdp.privacy._answers import Answers, ExactAnswers
from skdp.privacy._door import Door
from skdp.solvers._base import Solution, Solver
from skdp.solvers._exact import exact_minimum, sparse_minimum
from skdp.solvers._progress import Progress


def solve(
    solver: Solver | None,
    source: Source,
    objective: LinearObjective,
    door: Door,
    *,
    label: str,
    progress: Progress,
) -> tuple[Solution, Answers]:
    """Fit privately; the event is on the ledger before the first read.

    Parameters
    ----------
    solver : Solver or None
        None computes the non-private optimum and requires an infinite epsilon, with
        which a solver asks without noise.
    source : Source
        Private. Nothing is read from it before the commit.
    objective : LinearObjective
    door : Door
    label : str
        What the ledger's books call this fit.
    progress : Progress

    Returns
    -------
    solution : Solution
        In a rehearsal weights of zero.
    answers : Answers
        Used up; what is public of the release.

    Raises
    ------
    BudgetExceeded
        From the ledger; nothing was read or spent.
    ValueError
        If the door is for another adjacency than the objective.
    """
    # Algorithms within the walls take their bounds from the objective.
    if objective.adjacency != door.relation:
        raise ValueError(
            f"The objective must have the door's adjacency {door.relation!r}. Got "
            f"{objective.adjacency!r}. Use one for both."
        )
    if objective.feature_bound < objective.data_norm:
        source = EntriesClipped(source, objective.feature_bound)
    plan = None if solver is None else solver.plan(objective)
    answers = door.commit(plan, source, label=label)
    # From here on no warning may depend on the data, so NumPy is kept from giving any.
    with np.errstate(all="ignore"):
        if isinstance(answers, ExactAnswers) and solver is None:
            minimum = exact_minimum if objective.n_nonzero is None else sparse_minimum
            return minimum(answers.records, objective, progress), answers
        if solver is not None and not answers.is_rehearsed:
            return solver.run(answers, objective, progress), answers
    return Solution(np.zeros(objective.shape), 0.0), answers
