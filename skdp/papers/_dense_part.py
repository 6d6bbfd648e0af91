"""A registered solver inside another: how it is named, planned and shown.

A sparse solver may leave some of its work to one that gives every feature a weight.
Users name it by key and parameters; the record shows both, all of them decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skdp._configured import Given, given_params
from skdp.exceptions import Refused
from skdp.objectives._linear import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.solvers._auto import first_that_can
from skdp.solvers._base import Solver
from skdp.solvers._named import Named, willing
from skdp.solvers._registry import SOLVERS

# Names and values of parameters in the order of their names.
Pairs = tuple[tuple[str, Any], ...]


def dense_solvers() -> dict[str, type[Solver]]:
    """The solvers that give every feature a weight, by key."""
    return {key: kind for key, kind in SOLVERS.items() if not kind.is_sparse}


def check_dense_key(name: str, value: Any) -> str:
    """Return the key of a private solver of all features, or raise."""
    dense = dense_solvers()
    if isinstance(value, str) and value in dense:
        return value
    text = f"The {name!r} parameter must be one of {list(dense)}."
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


def check_params(name: str, value: Any) -> Pairs:
    """Return parameters as pairs in the order of their names, or raise."""
    if isinstance(value, tuple) and all(_is_pair(item) for item in value):
        return value  # as records show them
    if not isinstance(value, Mapping):
        raise TypeError(
            f"The {name!r} parameter must be None or a mapping. "
            f"Got an instance of {type(value).__name__}."
        )
    return _in_order(value)


def _is_pair(item: Any) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str)


def _in_order(params: Mapping[str, Any]) -> Pairs:
    return tuple(sorted(params.items(), key=lambda item: str(item[0])))


def named_part(name: str, given: Given) -> Named | None:
    """What the parameters `name` and `name_params` name; None without a key.

    Raises `ValueError` or `TypeError` if a parameter is unknown or out of range, or
    there are some without a key.
    """
    params = dict(given.get(f"{name}_params", ()))
    key = given.get(name)
    if key is not None:
        return Named(SOLVERS[key], given_params(SOLVERS[key], key, params))
    if params:
        raise ValueError(
            f"The '{name}_params' parameter must be None with {name}=None. "
            f"Got a mapping. Name the solver: one of {list(dense_solvers())}."
        )
    return None


def planned_part(
    named: Named | None, objective: LinearObjective, budget: Budget
) -> Solver:
    """A solver as it was named; otherwise what ``"auto"`` would take.

    Raises `Refused`.
    """
    if named is None:
        return first_that_can(objective, budget).solver
    return named.planned(objective, budget)


def needs_another(
    kind: type[Solver],
    name: str,
    reason: ValueError,
    objective: LinearObjective,
    budget: Budget,
) -> Refused:
    """What a solver says that cannot do with its part, whose problem this is."""
    can = willing(dense_solvers(), objective, budget)
    return Refused(
        f"solver={kind.key!r} needs another {name}. {reason.args[0]} "
        f"Use solver_params={{{name!r}: key}} with a key of {can}."
    )


def shown(params: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Parameters for the record, a solver among them by its key and its own."""
    found: dict[str, Any] = {}
    for key, value in params.items():
        found[key] = value
        if key == name:
            found[key] = value.key
            found[f"{key}_params"] = _in_order(value.params)
    return found
