"""Errors about arguments that skdp does not have, with the nearest names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar

_Call = TypeVar("_Call", bound=Callable[..., Any])

_NO_WEIGHTS = (
    "A weight multiplies what one record adds to a release, and weights without a "
    "declared bound void the sensitivity that the noise is made for. Fit without it."
)
_NO_STOP = (
    "When to stop would follow from the data and tell of them, so that solvers take a "
    "number of steps that is known before: solver_params={'n_steps': ...} of a solver "
    "that has steps, n_estimators of boosted trees."
)
_OF_COLUMNS = (
    "How declared columns are encoded is said by columns=TableEncoder(declared, ...)."
)
_SHRUNK = (
    "How many records are in a leaf is private: leaves are shrunk by the noise in what "
    "was released of them, and max_depth= bounds their number."
)
# Names that users of scikit-learn will type, and why skdp has none of them.
REASONS: dict[str, str] = {
    "sample_weight": _NO_WEIGHTS,
    "class_weight": "Weights are declared when a classifier is made, as for example "
    "class_weight={'ill': 20}: those of 'balanced' would follow from the labels, which "
    "are private.",
    "penalty": "The penalty is L2, by C of a classifier and alpha of a regressor; for "
    "few features use DPSparseLogisticRegression or DPSparseLinearRegression.",
    "l1_ratio": "The penalty is L2, by C of a classifier and alpha of a regressor; for "
    "few features use DPSparseLogisticRegression or DPSparseLinearRegression.",
    "max_iter": _NO_STOP,
    "tol": _NO_STOP,
    "early_stopping": _NO_STOP,
    "warm_start": "Every fit is a release of its own. To start from weights that are "
    "released or public would change what its proof is about.",
    "cv": "Its splits are made by the method of the search, since folds made otherwise "
    "could depend on the data; see method= and method_params=.",
    "return_train_score": "Scores on training rows are not private.",
    "dual": "The form in which the loss is minimised follows from solver=.",
    "intercept_scaling": "The intercept is the weight of a constant column, data_norm.",
    "positive": "Weights are not constrained.",
    "n_iter_no_change": _NO_STOP,
    "feature_range": "Columns are scaled so that rows have norm 1 at most; bounds= "
    "declares where the columns lie.",
    "handle_unknown": "What is not declared is encoded as zeros, in every row alike.",
    "numeric": _OF_COLUMNS,
    "n_knots": _OF_COLUMNS,
    "remainder": _OF_COLUMNS,
    "sparse_output": _OF_COLUMNS,
    "max_bins": "How finely ranges are cut is said by columns=TableEncoder(declared, "
    "n_knots=...).",
    "categorical_features": "Which columns hold categories is declared by columns=.",
    "min_samples_leaf": _SHRUNK,
    "max_leaf_nodes": _SHRUNK,
    "l2_regularization": _SHRUNK,
}


def explained(call: _Call, *, when_missing: str = "") -> _Call:
    """A method that refuses what its signature does not have in words of the class.

    Parameters
    ----------
    call : function
        A method: its first argument is an object of the class to be named.
    when_missing : str, default=""
        What to do if a required argument is missing.

    Returns
    -------
    function
        With the same signature.
    """
    signature = inspect.signature(call)

    @wraps(call)
    def checked(self: Any, *args: Any, **named: Any) -> Any:
        problem = ""
        try:
            signature.bind(self, *args, **named)
        except TypeError as error:
            problem = str(error)
        if problem:
            allowed = list(signature.parameters)[1:]
            unknown = [name for name in named if name not in allowed]
            told = _of_unknown(unknown[0], allowed) if unknown else f"{problem}."
            remedy = when_missing if problem.startswith("missing") else ""
            if problem.startswith("too many positional"):
                remedy = _names_to_give(signature)
            name = type(self).__name__
            if call.__name__ != "__init__":
                name += f".{call.__name__}"
            raise TypeError(f"{name}(): {told} {remedy}".rstrip())
        return call(self, *args, **named)

    # `wraps` keeps the signature, which no type can say of *args.
    return checked  # type: ignore[return-value]


def explained_nesting(set_params: _Call) -> _Call:
    """``set_params`` that refuses ``<name>__<other>`` in words if it sets nothing."""

    @wraps(set_params)
    def checked(self: Any, **params: Any) -> Any:
        known = self.get_params(deep=False) | params
        for key in params:
            name, nested, _ = key.partition("__")
            if nested and name in known and not hasattr(known[name], "set_params"):
                raise ValueError(_of_nested(self, key, name, known[name]))
        return set_params(self, **params)

    # `wraps` keeps the signature, which no type can say of **params.
    return checked  # type: ignore[return-value]


def _names_to_give(signature: inspect.Signature) -> str:
    """Arguments that may be positional, and arguments that must be named."""
    found = list(signature.parameters.values())[1:]
    bare = [x.name for x in found if x.kind is x.POSITIONAL_OR_KEYWORD]
    named = [x.name for x in found if x.kind is x.KEYWORD_ONLY]
    order = f"In this order: {bare}. " if bare else ""
    return f"{order}By name: {named}." if named else order.rstrip()


def _of_nested(estimator: Any, key: str, name: str, value: Any) -> str:
    remedies = {
        "columns": "Give columns=TableEncoder(declared): its parameters can be set.",
        "solver_params": "Set solver_params as a whole: a mapping.",
    }
    remedy = remedies.get(name, f"Set {name!r} as a whole.")
    return (
        f"The parameter {key!r} of {type(estimator).__name__} must be one of an "
        f"estimator in {name!r}. Got an instance of {type(value).__name__} there. "
        f"{remedy}"
    )


def _of_unknown(name: str, allowed: list[str]) -> str:
    text = f"there is no argument {name!r}."
    if name in REASONS:
        return f"{text} {REASONS[name]}"
    similar = get_close_matches(name, allowed, n=1)
    hint = f" Did you mean {similar[0]!r}?" if similar else ""
    return f"{text}{hint} Allowed are {allowed}."
