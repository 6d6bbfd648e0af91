"""A registered solver inside another: how it is named, chosen and kept.

A sparse solver may leave some of its work to one that gives every feature a weight. The
configuration keeps its key and its resolved parameters, so that it stays a frozen value
and the privacy record names everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from skdp.objectives import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.solvers._base import Solver

# Names and values of parameters: as users give them, or pairs in the order of names,
# as they are kept.
Params = Mapping[str, Any] | tuple[tuple[str, Any], ...]


def check_dense_key(name: str, value: Any) -> str:
    """Return the key of a private solver of all features, or raise."""
    # Imported here and below, because the registry imports the solvers that ask.
    from skdp.solvers._registry import SOLVERS

    allowed = sorted(key for key, kind in SOLVERS.items() if not kind.is_sparse)
    if isinstance(value, str) and value in allowed:
        return value
    text = f"The {name!r} parameter must be one of {allowed}."
    if not isinstance(value, str):
        raise TypeError(
            f"{text} Got an instance of {type(value).__name__}. What is computed of a "
            "model that is not private is not private; a fitted or unfitted estimator "
            "cannot vouch for itself here. Use a key, and solver_params for the rest."
        )
    if value in SOLVERS:
        raise ValueError(
            f"{text} Got {value!r}, which selects features. Use it as the solver."
        )
    raise ValueError(
        f"{text} Got {value!r}. Without noise nothing computed of it would be private: "
        "one record decides which features a sparse model has (docs/errata.md). Use "
        "None for the default rule."
    )


def check_params(name: str, value: Any) -> tuple[tuple[str, Any], ...]:
    """Return parameters as pairs in the order of their names, or raise."""
    if isinstance(value, tuple) and all(_is_pair(item) for item in value):
        return value  # as they are kept
    if not isinstance(value, Mapping):
        raise TypeError(
            f"The {name!r} parameter must be None or a mapping. "
            f"Got an instance of {type(value).__name__}."
        )
    return tuple(sorted(value.items(), key=lambda item: str(item[0])))


def _is_pair(item: Any) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str)


def _mapping(params: Params | None) -> dict[str, Any]:
    return dict(check_params("params", params or {}))


def dense_solver(key: str | None, params: Params | None) -> Solver | None:
    """The configuration that a key and its parameters name; None for no key."""
    from skdp.solvers._registry import named_solver

    return named_solver(key or "auto", _mapping(params))


def resolved_dense(
    key: str | None,
    params: Params | None,
    objective: LinearObjective,
    budget: Budget,
) -> tuple[str, Params]:
    """Key and resolved parameters; without a key those that ``"auto"`` would take.

    Raises
    ------
    ValueError
        If the solver refuses the problem.
    """
    from skdp.solvers._registry import choose_solver

    chosen = choose_solver(key or "auto", _mapping(params), objective, budget)
    assert chosen is not None, "the budget is finite"
    solver = chosen.solver
    values = {field.name: getattr(solver, field.name) for field in fields(solver)}
    return solver.key, check_params("params", values)
