"""The solvers users may name.

One key, five places: this table, the module ``skdp/solvers/_<key>.py``, its test
``tests/solvers/test_<key>.py``, its page ``docs/solvers/<key>.md`` with its proof
``docs/proofs/<key>.md``, and its benchmark configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from skdp._validation import check_choice
from skdp.losses import Loss
from skdp.privacy._accounting import Budget
from skdp.solvers._base import Problem, Solver
from skdp.solvers._noisy_gd import NoisyGD

SOLVERS: dict[str, type[Solver]] = {
    "noisy_gd": NoisyGD,
}


def make_solver(key: str, params: Mapping[str, Any] | None) -> Solver:
    """The configuration that ``solver=key, solver_params=params`` stands for."""
    check_choice("solver", key, ["auto", *SOLVERS])
    if params is not None and not isinstance(params, Mapping):
        raise TypeError(
            "The 'solver_params' parameter must be None or a mapping. "
            f"Got an instance of {type(params).__name__}."
        )
    allowed = [field.name for field in fields(SOLVERS[key])]
    unknown = sorted(str(name) for name in params or {} if name not in allowed)
    if unknown:
        raise ValueError(
            f"The 'solver_params' of solver={key!r} must be among {allowed}. "
            f"Got {unknown}. Noise scale, sensitivity, sampler and randomness "
            "follow from epsilon, delta and adjacency and cannot be set."
        )
    return SOLVERS[key](**(params or {}))


def choose_solver(
    key: str,
    params: Mapping[str, Any] | None,
    loss: Loss,
    problem: Problem,
    budget: Budget,
) -> Solver:
    """The solver to use, resolved; ``"auto"`` decides from public facts only.

    Raises
    ------
    ValueError
        If the solver named, or every solver under ``"auto"``, refuses the job; the
        message gives the reason.
    """
    check_choice("solver", key, ["auto", *SOLVERS])
    if key != "auto":
        solver = make_solver(key, params)
        if reason := solver.refusal(loss, problem, budget):
            raise ValueError(reason)
        return solver.resolve(loss, problem, budget)
    if params is not None:
        raise ValueError(
            "The 'solver_params' parameter must be None with solver='auto'. "
            f"Got a mapping. Name the solver: one of {sorted(SOLVERS)}."
        )
    reasons = []
    for candidate in (NoisyGD(),):
        reason = candidate.refusal(loss, problem, budget)
        if not reason:
            return candidate.resolve(loss, problem, budget)
        reasons.append(reason)
    raise ValueError("No solver can do this fit. " + " ".join(reasons))
