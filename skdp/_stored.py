"""Versions in stored objects, frozen configurations, and errors about arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from difflib import get_close_matches
from functools import wraps
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from sklearn.base import BaseEstimator

from skdp._quiet import warn
from skdp._version import __version__
from skdp.exceptions import InconsistentVersionWarning

# ------------------------------------------------------------------------------------
# Versions of what is stored: written beside it, compared when it is read
# Every kind of stored thing (fitted state, record, ledger) has a schema number of its
# own. It grows when a release writes what the releases before would misread; what is
# newer than the number known here is refused, and so is what was stored before 1.0.
# ``docs/architecture.md`` has the rules.


def check_schema(what: str, schema: Any, known: int, version: str) -> None:
    """Refuse a stored thing that this release could misread.

    Raises `ValueError` if its schema number is not the one known.
    """
    if type(schema) is int and schema == known:
        return
    raise ValueError(
        f"{what} must have the schema number {known} to be read by skdp "
        f"{__version__}. Got {schema!r}, written by skdp {version}. Use that release "
        "of skdp, or a newer one."
    )


def warn_of_version(what: str, version: str, remedy: str) -> None:
    """Warn if another minor version wrote a stored thing."""
    if _minor(version) == _minor(__version__):
        return
    warn(InconsistentVersionWarning(what, version, __version__, remedy))


def check_version(what: str, version: Any) -> str:
    """The version that something says it was written by; ValueError if it is none.

    What was stored before 1.0 named none, and is not read.
    """
    is_text = isinstance(version, str)
    if is_text and re.fullmatch(r"[1-9]\d*\.\d+[\w.+]*", version):
        return str(version)
    raise ValueError(
        f"{what} must name the version of skdp that wrote it, 1.0 or later. Got "
        f"{repr(version) if is_text else 'none, as before 1.0'}. Read it with the "
        "release that wrote it, or fit anew, which spends anew."
    )


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


# ------------------------------------------------------------------------------------
# What is said of arguments that skdp does not have: names of public classes, reasons
# The one place that takes any keyword: it hands on what the signature allows, and
# refuses the rest in words. Signatures, and with them editors, stay as they are
# written.


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


def explain_methods(cls: type) -> None:
    """Let the constructor and `fit` that a class defines be `explained`."""
    for name in ("__init__", "fit"):
        if inspect.isfunction(vars(cls).get(name)):
            setattr(cls, name, explained(vars(cls)[name]))


def _names_to_give(signature: inspect.Signature) -> str:
    """What may stand without its name, and what may not."""
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


# ------------------------------ Fitted state that says which version of skdp wrote it


STATE_SCHEMA = 2
_VERSION, _SCHEMA = "_skdp_version", "_skdp_schema"


class StoredEstimator(BaseEstimator):
    """An estimator whose pickled state names skdp's version and a schema number."""

    set_params = explained_nesting(BaseEstimator.set_params)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        explain_methods(cls)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return state | {_VERSION: __version__, _SCHEMA: STATE_SCHEMA}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        name = type(self).__name__
        what = f"The stored state of {name}"
        version = check_version(what, state.pop(_VERSION, None))
        check_schema(what, state.pop(_SCHEMA, None), STATE_SCHEMA, version)
        remedy = (
            "Check what it predicts, or load it with the version that stored it. To "
            "fit it again is another release."
        )
        warn_of_version(f"a fitted {name}", version, remedy)
        super().__setstate__(self._defaults() | state)

    def _defaults(self) -> dict[str, Any]:
        """Of parameters, some of which the writer's version did not have."""
        parameters = inspect.signature(type(self)).parameters
        return {name: each.default for name, each in parameters.items()}


# ------------------------------------------------------------------------------------
# Frozen configurations: what users gave, apart from what rules make of it


# What a parameter has to pass: from its name and value to what is kept.
Checks = Mapping[str, Callable[[str, Any], Any]]
# Parameters that were given, checked; those that are left to a rule are not in it.
Given = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Configured:
    """A frozen dataclass of public hyper-parameters, all of them decided.

    A field without a default has a data-independent rule, by which the subclass's
    ``planned`` decides it if it was not given.
    """

    key: ClassVar[str]  # in the registry, the module's name, tests, docs and benchmarks
    checks: ClassVar[Checks] = {}
    # Of parameters that are given in another form than they are kept in.
    given_checks: ClassVar[Checks] = {}

    @classmethod
    def check_given(cls, given: Given) -> None:
        """Raise if checked parameters do not go together."""

    def __post_init__(self) -> None:
        # Plain numbers are kept: a NumPy scalar of half precision would carry its
        # rounding, and its overflow, into the sensitivity and the noise.
        for name, check in self.checks.items():
            object.__setattr__(self, name, check(name, getattr(self, name)))


def given_params(
    kind: type[Configured], key: str, params: Mapping[str, Any] | None
) -> Given:
    """The checked parameters of ``solver=key, solver_params=params``.

    None stands for the rule of a parameter that has one.

    Raises `ValueError` or `TypeError` if a parameter is unknown or out of range.
    """
    if params is not None and not isinstance(params, Mapping):
        raise TypeError(
            "The 'solver_params' parameter must be None or a mapping. "
            f"Got an instance of {type(params).__name__}."
        )
    names = [field.name for field in fields(kind)]
    allowed = list(dict.fromkeys([*names, *kind.given_checks]))
    unknown = sorted(str(name) for name in params or {} if name not in allowed)
    if unknown:
        raise ValueError(
            f"The 'solver_params' of solver={key!r} must be among {allowed}. "
            f"Got {unknown}. Noise scale, sensitivity, sampler and randomness "
            "follow from epsilon, delta and adjacency and cannot be set."
        )
    return checked_params(kind, params or {})


def checked_params(kind: type[Configured], params: Mapping[str, Any]) -> Given:
    """Known parameters, each checked; without None where there is a rule."""
    fixed = {field.name for field in fields(kind) if not _has_rule(field)}
    checks, given = {**kind.checks, **kind.given_checks}, {}
    for name, value in params.items():
        if value is None and name not in fixed:
            continue
        check = checks.get(name)
        given[name] = value if check is None else check(name, value)
    kind.check_given(given)
    return MappingProxyType(given)


def _has_rule(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING
