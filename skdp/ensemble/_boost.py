"""`boost`: a boosted model through the door: plan, commit, ask."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skdp.data._held import in_memory
from skdp.data._source import Source
from skdp.ensemble._boosted import BoostedTrees, without_trees
from skdp.ensemble._newton_boosting import NewtonBoosting
from skdp.ensemble._task import BoostingTask
from skdp.privacy._answers import Answers
from skdp.privacy._door import Door
from skdp.solvers._progress import Progress


@dataclass(frozen=True, eq=False)
class Outcome:
    """A released model with what is public of its release.

    Parameters
    ----------
    boosted : BoostedTrees
        In a rehearsal a constant.
    answers : Answers
        Used up.
    seed : int
        From which the trees were drawn; public.
    """

    boosted: BoostedTrees
    answers: Answers
    seed: int


def boost(
    solver: NewtonBoosting,
    source: Source,
    task: BoostingTask,
    door: Door,
    *,
    is_private: bool,
    label: str,
    progress: Progress,
) -> Outcome:
    """Fit; the event is on the ledger before the first read.

    Parameters
    ----------
    source : Source
        Of codes, as uint8 of shape (n_samples, n_columns), and targets. Private. It is
        read once at most, in blocks of any size and order, and kept.
    is_private : bool
        False computes without noise and requires an infinite epsilon.
    label : str
        What the ledger's books call this fit.

    Raises
    ------
    BudgetExceeded
        From the ledger; nothing was read or spent.
    """
    plan = solver.plan(task) if is_private else None
    answers = door.commit(plan, in_memory(source), label=label)
    if answers.is_rehearsed:
        return Outcome(
            without_trees(task.columns, np.zeros(task.n_outputs)), answers, 0
        )
    # Public: trees hide nothing, and are independent of the noise.
    seed = door.public_seed()
    # From here on no warning may depend on the data, so NumPy is kept from giving any.
    with np.errstate(all="ignore"):
        return Outcome(solver.run(answers, task, seed, progress), answers, seed)
