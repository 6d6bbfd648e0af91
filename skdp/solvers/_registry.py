"""The solvers users may name.

One key, five places: this table, the module ``skdp/solvers/_<key>.py``, its test
``tests/solvers/test_<key>.py``, its page ``docs/solvers/<key>.md`` with its proof
``docs/proofs/<key>.md``, and its benchmark configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skdp._configured import Given, Refused, given_params
from skdp._validation import check_choice
from skdp.objectives import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.solvers._adassp import AdaSSP
from skdp.solvers._auto import auto_candidates
from skdp.solvers._base import Solver
from skdp.solvers._bolt_on import BoltOn
from skdp.solvers._frank_wolfe import FrankWolfe
from skdp.solvers._heavy_ball import HeavyBall
from skdp.solvers._iht import IHT
from skdp.solvers._knowledge_transfer import KnowledgeTransfer
from skdp.solvers._multistage import Multistage
from skdp.solvers._nesterov import Nesterov
from skdp.solvers._noisy_gd import NoisyGD
from skdp.solvers._noisy_sgd import NoisySGD
from skdp.solvers._objective_perturbation import ObjectivePerturbation
from skdp.solvers._online import OnlineGD
from skdp.solvers._output_perturbation import OutputPerturbation
from skdp.solvers._peeling import Peeling
from skdp.solvers._two_stage import TwoStage

SOLVERS: dict[str, type[Solver]] = {
    "adassp": AdaSSP,
    "bolt_on": BoltOn,
    "frank_wolfe": FrankWolfe,
    "heavy_ball": HeavyBall,
    "iht": IHT,
    "knowledge_transfer": KnowledgeTransfer,
    "multistage": Multistage,
    "nesterov": Nesterov,
    "noisy_gd": NoisyGD,
    "noisy_sgd": NoisySGD,
    "objective_perturbation": ObjectivePerturbation,
    "online": OnlineGD,
    "output_perturbation": OutputPerturbation,
    "peeling": Peeling,
    "two_stage": TwoStage,
}


@dataclass(frozen=True)
class Named:
    """A solver as it was asked for: its kind, and the parameters that were given."""

    kind: type[Solver]
    given: Given

    @property
    def adds_in_squares(self) -> bool:
        """Whether at delta > 0 all that will be released has Gaussian noise."""
        return self.kind.adds_in_squares(self.given)


@dataclass(frozen=True)
class Chosen:
    """A planned solver, and why it was chosen."""

    solver: Solver
    reason: str


def named_solver(key: str, params: Mapping[str, Any] | None) -> Named | None:
    """What ``solver=key, solver_params=params`` names; None for ``"auto"``.

    Raises
    ------
    ValueError, TypeError
        If the key or a parameter is unknown or out of range.
    """
    check_choice("solver", key, ["auto", *SOLVERS])
    if key == "auto":
        if params:
            raise ValueError(
                "The 'solver_params' parameter must be None with solver='auto'. "
                f"Got a mapping. Name the solver: one of {sorted(SOLVERS)}."
            )
        return None
    return Named(SOLVERS[key], given_params(SOLVERS[key], key, params))


def choose_solver(
    key: str,
    params: Mapping[str, Any] | None,
    objective: LinearObjective,
    budget: Budget,
    *,
    has_ledger: bool = False,
) -> Chosen | None:
    """The first solver that does not refuse, planned, with why; from public facts.

    `has_ledger` says whether the fit is one of several that are added up.

    Returns
    -------
    Chosen or None
        None if epsilon is inf: the optimum is computed instead.

    Raises
    ------
    ValueError, TypeError
        If the key or a parameter is wrong, or every solver refuses the job; the
        message gives the reasons.
    """
    named = named_solver(key, params)
    if not budget.is_finite:
        return None
    if named is not None:
        solver = named.kind.planned(named.given, objective, budget)
        return Chosen(solver, "named by the user")
    refusals = []
    for candidate in auto_candidates(objective, budget, has_ledger=has_ledger):
        try:
            solver = candidate.kind.planned({}, objective, budget)
        except Refused as refused:
            refusals.append(str(refused))
        else:
            return Chosen(solver, candidate.reason)
    raise Refused("No solver can do this fit. " + " ".join(refusals))
