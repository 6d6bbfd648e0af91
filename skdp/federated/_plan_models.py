"""Estimators as plans hold them: a name of a list, and parameters in JSON.

A plan names what each owner makes itself; no code travels. Whatever is not on the list,
or brings entropy or books of its own, is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

from skdp import columns as declarations
from skdp.exceptions import Refused
from skdp.objectives._layer import LAYERS, Layer
from skdp.pipeline._walk import private_steps

# What may be fitted, alone or as a step, and where it is.
HOMES = {
    "BoundedScaler": "skdp.preprocessing",
    "DPGammaRegressor": "skdp.linear_model",
    "DPGradientBoostingClassifier": "skdp.ensemble",
    "DPGradientBoostingRegressor": "skdp.ensemble",
    "DPGridSearchCV": "skdp.model_selection",
    "DPLinearRegression": "skdp.linear_model",
    "DPLinearSVC": "skdp.linear_model",
    "DPLogisticRegression": "skdp.linear_model",
    "DPMLPClassifier": "skdp.neural_network",
    "DPMLPRegressor": "skdp.neural_network",
    "DPPCA": "skdp.preprocessing",
    "DPPoissonRegressor": "skdp.linear_model",
    "DPQuantileClipper": "skdp.preprocessing",
    "DPQuantileRegressor": "skdp.linear_model",
    "DPRobustClassifier": "skdp.linear_model",
    "DPSimpleImputer": "skdp.preprocessing",
    "DPSparseLinearRegression": "skdp.linear_model",
    "DPSparseLogisticRegression": "skdp.linear_model",
    "DPStandardScaler": "skdp.preprocessing",
    "Pipeline": "sklearn.pipeline",
    "RowNormClipper": "skdp.preprocessing",
    "TableEncoder": "skdp.preprocessing",
}
# Each party has its own.
_OWN = ("ledger", "random_state")
# Where a pipeline would keep what its steps made of rows.
_NO_MEMORY = "memory"


def params_of(model: Any) -> str:
    """Parameters as JSON, from which owners make the same estimator.

    Raises
    ------
    Refused, ValueError
        If a plan cannot hold it.
    """
    _check_kind(model)
    return json.dumps(_own_params(model), sort_keys=True, allow_nan=False)


def model_of(name: str, params: str, ledger: Any) -> Any:
    """The estimator, not fitted; all its private steps have the ledger.

    Raises
    ------
    Refused
        If it is not on the list, or brings a ledger or entropy.
    """
    model = _made(name, json.loads(params))
    for _, step in private_steps(model):
        step.set_params(ledger=ledger)
    return model


def _check_kind(model: Any) -> None:
    name = type(model).__name__
    if _kind_of(name) is not type(model):
        raise Refused(_not_listed(name))


def _kind_of(name: str) -> Any:
    if name not in HOMES:
        raise Refused(_not_listed(name))
    return getattr(import_module(HOMES[name]), name)


def _not_listed(name: str) -> str:
    return f"A plan must be of one of {sorted(HOMES)}. Got {name!r}."


def _own_params(model: Any) -> dict[str, Any]:
    given = model.get_params(deep=False)
    for name in (*_OWN, _NO_MEMORY):
        if given.pop(name, None) is not None:
            raise ValueError(
                f"The {name!r} parameter must be None in a plan: each party has its "
                "own. Got another."
            )
    return {name: _plain(name, value) for name, value in given.items()}


def _plain(name: str, value: Any) -> Any:
    """A parameter in JSON; what JSON does not know by a name of its own."""
    if isinstance(value, tuple):
        if name == "columns":
            return {"columns": declarations.to_json(value)}
        return {"tuple": [_plain("", one) for one in value]}
    if hasattr(value, "get_params") and not isinstance(value, type):
        _check_kind(value)
        return {"model": {type(value).__name__: _own_params(value)}}
    if isinstance(value, Layer):
        return {"layer": {type(value).__name__: vars(value)}}
    if name == "columns" and value is not None:
        return {"columns": declarations.to_json(value)}
    if isinstance(value, list):
        return [_plain("", one) for one in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"mapping": {key: _plain("", one) for key, one in value.items()}}
    if isinstance(value, dict):  # by labels that are no strings
        return {"pairs": [[_plain("", own) for own in pair] for pair in value.items()]}
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise ValueError(
        "The parameters in a plan must be plain numbers, strings, lists, tuples, "
        "mappings, declared columns and estimators that a plan can have. Got an "
        f"instance of {type(value).__name__} for {name!r}."
    )


def _back(value: Any) -> Any:
    if isinstance(value, list):
        return [_back(one) for one in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    return _BACK[kind](content)


def _made(name: str, params: dict[str, Any]) -> Any:
    if not {*_OWN, _NO_MEMORY}.isdisjoint(params):
        raise Refused(
            "A plan must leave ledgers, entropy and memory to each party. Got one with "
            "'ledger', 'random_state' or 'memory'. Ask for another plan."
        )
    return _kind_of(name)(**{key: _back(value) for key, value in params.items()})


def _model_back(content: dict[str, Any]) -> Any:
    ((name, params),) = content.items()
    return _made(name, params)


def _layer_back(content: dict[str, Any]) -> Layer:
    ((name, fields),) = content.items()
    return LAYERS[name](**fields)


_BACK: dict[str, Callable[[Any], Any]] = {
    "columns": declarations.from_json,
    "layer": _layer_back,
    "mapping": lambda content: {key: _back(one) for key, one in content.items()},
    "model": _model_back,
    "pairs": lambda content: dict(_back(content)),
    "tuple": lambda content: tuple(_back(one) for one in content),
}
