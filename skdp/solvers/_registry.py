"""The solvers that users may name.

Each key of this table has a test ``tests/solvers/test_<key>.py``, a page
``docs/solvers/<key>.md``, a proof ``docs/proofs/<key>.md`` and a benchmark
configuration. A solver of `skdp.papers` is in ``skdp/papers/entry_points.txt`` instead,
with its test in ``tests/papers`` and its page in ``docs/papers``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skdp._checks import check_choice
from skdp._configured import given_params
from skdp._registry import Registry
from skdp.solvers._accelerated import Nesterov
from skdp.solvers._adassp import AdaSSP
from skdp.solvers._base import Named, Solver
from skdp.solvers._descent import GraduatedGD, NoisyGD, NoisySGD
from skdp.solvers._newton import NoisyNewton
from skdp.solvers._objective_perturbation import ObjectivePerturbation
from skdp.solvers._sparse import IHT, Peeling

SOLVERS: Registry[type[Solver]] = Registry(
    "skdp.solvers",
    {
        "adassp": AdaSSP,
        "graduated_gd": GraduatedGD,
        "iht": IHT,
        "nesterov": Nesterov,
        "noisy_gd": NoisyGD,
        "noisy_newton": NoisyNewton,
        "noisy_sgd": NoisySGD,
        "objective_perturbation": ObjectivePerturbation,
        "peeling": Peeling,
    },
)


def named_solver(key: str, params: Mapping[str, Any] | None) -> Named | None:
    """The solver named by ``solver=key, solver_params=params``; None for ``"auto"``.

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
                f"Got a mapping. Name the solver: one of {list(SOLVERS)}."
            )
        return None
    return Named(SOLVERS[key], given_params(SOLVERS[key], key, params))
