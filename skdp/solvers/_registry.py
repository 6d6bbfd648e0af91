"""The solvers users may name.

One key, five places: these tables, the module ``skdp/solvers/_<key>.py``, its test
``tests/solvers/test_<key>.py``, its page ``docs/solvers/<key>.md`` with its proof
``docs/proofs/<key>.md``, and its benchmark configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skdp._configured import given_params
from skdp._validation import check_choice
from skdp.exceptions import Refused
from skdp.objectives._linear import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.solvers._auto import Chosen, default_solver
from skdp.solvers._base import Solver
from skdp.solvers._centred_rows import CentredRows
from skdp.solvers._dense_registry import DENSE
from skdp.solvers._frank_wolfe import FrankWolfe
from skdp.solvers._iht import IHT
from skdp.solvers._knowledge_transfer import KnowledgeTransfer
from skdp.solvers._named import Named, willing
from skdp.solvers._peeling import Peeling
from skdp.solvers._two_stage import TwoStage

SPARSE: dict[str, type[Solver]] = {
    "frank_wolfe": FrankWolfe,
    "iht": IHT,
    "knowledge_transfer": KnowledgeTransfer,
    "peeling": Peeling,
    "two_stage": TwoStage,
}
SOLVERS: dict[str, type[Solver]] = dict(sorted({**DENSE, **SPARSE}.items()))


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
    rows: CentredRows | None = None,
) -> Chosen | None:
    """The first solver that does not refuse, planned, with why; from public facts.

    `rows` are what is declared of them; None: they are numbers.

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
    if key not in ("auto", *SOLVERS) and budget.is_finite:
        check_choice("solver", key, ["auto", *willing(SOLVERS, objective, budget)])
    named = named_solver(key, params)
    if not budget.is_finite and (rows is None or named is not None):
        return None
    return planned_solver(named, objective, budget, rows)


def planned_solver(
    named: Named | None,
    objective: LinearObjective,
    budget: Budget,
    rows: CentredRows | None = None,
) -> Chosen:
    """The named solver, or the default, for a finite epsilon or declared rows."""
    try:
        if named is None:
            return default_solver(objective, budget, rows)
        return Chosen(named.planned(objective, budget), "named by the user")
    except Refused as refused:
        told = refused.args[0]
    can = willing(SOLVERS, objective, budget)
    raise Refused(f"{told} This fit can be done by {can}.")
