"""`train`: a network through the door: plan, commit, ask."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skdp.data._source import Source
from skdp.neural_network._constant import ConstantNetwork
from skdp.neural_network._descent import NetworkDescent
from skdp.objectives._network import NetworkObjective
from skdp.privacy._answers import Answers
from skdp.privacy._door import Door
from skdp.solvers._base import Solution
from skdp.solvers._progress import Progress


@dataclass(frozen=True, eq=False)
class Trained:
    """Released weights with what is public of their release.

    Parameters
    ----------
    solution : Solution
        In a rehearsal weights of zero.
    answers : Answers
        Used up.
    seed : int
        From which the first weights were drawn; public.
    """

    solution: Solution
    answers: Answers
    seed: int


def train(
    solver: NetworkDescent | ConstantNetwork,
    source: Source,
    objective: NetworkObjective,
    door: Door,
    *,
    is_private: bool,
    label: str,
    progress: Progress,
) -> Trained:
    """Fit; the event is on the ledger before the first read.

    Parameters
    ----------
    solver : NetworkDescent or ConstantNetwork
    source : Source
        Private. Nothing is read from it before the commit.
    objective : NetworkObjective
    door : Door
    is_private : bool
        False computes without noise and requires an infinite epsilon.
    label : str
        What the ledger's books call this fit.
    progress : Progress

    Raises
    ------
    BudgetExceeded
        From the ledger; nothing was read or spent.
    """
    plan = solver.plan(objective) if is_private else None
    answers = door.commit(plan, source, label=label)
    if answers.is_rehearsed:
        return Trained(Solution(np.zeros(objective.n_weights), 0.0), answers, 0)
    # Public: the first weights hide nothing, and are independent of the noise.
    seed = door.public_seed()
    # From here on no warning may depend on the data, so NumPy is kept from giving any.
    with np.errstate(all="ignore"):
        return Trained(solver.run(answers, objective, seed, progress), answers, seed)
