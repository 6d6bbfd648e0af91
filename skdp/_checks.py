"""Checks of public arguments, and errors about arguments that skdp does not have.

Every message has the same parts: what is wrong, what is allowed, what it got, and what
to do.

No message quotes a value from the data: these functions see only constructor arguments
and declared facts.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches
from functools import wraps
from numbers import Integral, Real
from typing import Any, TypeVar

# --------------------------------------------------------------------- Checks of values


def _remedy(text: str) -> str:
    return f" {text}" if text else ""


# Plain floats and integers are tested by their type first: calibration checks hundreds,
# and the classes of `numbers` are slow.
def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_integral(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_real(
    name: str,
    value: Any,
    *,
    low: float,
    high: float,
    low_open: bool = False,
    high_open: bool = False,
    remedy: str = "",
) -> float:
    """Return `value` as a float, or raise if it is not a number in the interval."""
    is_number = type(value) is float or _is_real(value)
    if is_number:
        try:
            number = float(value)
        except OverflowError:  # an integer beyond all doubles
            number = math.nan
        above = number > low if low_open else number >= low
        below = number < high if high_open else number <= high
        if above and below:
            return number
    kind = TypeError if not is_number else ValueError
    interval = f"{'(' if low_open else '['}{low:g}, {high:g}{')' if high_open else ']'}"
    raise kind(
        f"The {name!r} parameter must be a number in {interval}. Got {value!r}."
        + _remedy(remedy)
    )


def check_epsilon(value: Any) -> float:
    """Return `value` as a privacy parameter: inf, or in the range of the formulas."""
    if isinstance(value, Real) and value == math.inf:
        return math.inf
    return check_real(
        "epsilon",
        value,
        low=1e-6,
        high=1e8,
        remedy="Use 1.0 for a private fit, or inf for one without privacy.",
    )


def check_delta(value: Any) -> float:
    """Return `value` as a failure probability: 0, or in [1e-50, 1)."""
    if _is_real(value) and value == 0:
        return 0.0
    return check_real(
        "delta",
        value,
        low=1e-50,
        high=1.0,
        high_open=True,
        remedy="Use a value far below 1 / n_samples, such as 1e-6, or 0.",
    )


def check_positive(name: str, value: Any, *, remedy: str = "") -> float:
    """Return `value` as a finite float above zero."""
    return check_real(
        name,
        value,
        low=0.0,
        high=math.inf,
        low_open=True,
        high_open=True,
        remedy=remedy,
    )


def check_data_norm(value: Any) -> float:
    """Return `value` as a bound on the norm of a row, in units of the features."""
    return check_real(
        "data_norm",
        value,
        low=1e-100,
        high=1e100,
        remedy="Rows are clipped to this norm, in units of the features.",
    )


def check_alpha(value: Any) -> float:
    """Return `value` as an L2 penalty of the mean loss; None, the default, as 0."""
    if value is None:
        return 0.0
    remedy = "Use None for the default rule."
    return check_real("alpha", value, low=0.0, high=1e100, remedy=remedy)


def check_count(
    name: str, value: Any, *, low: int = 1, high: int | None = None, remedy: str = ""
) -> int:
    """Return `value` as an integer from `low` to `high`."""
    is_integer = type(value) is int or _is_integral(value)
    if is_integer and int(value) >= low and (high is None or int(value) <= high):
        return int(value)
    kind = ValueError if is_integer else TypeError
    raise kind(
        f"The {name!r} parameter must be an integer of at least {low}"
        + (f" and at most {high}. " if high is not None else ". ")
        + f"Got {value!r}."
        + _remedy(remedy)
    )


def check_bool(name: str, value: Any) -> bool:
    """Return `value` if it is True or False."""
    if isinstance(value, bool):
        return value
    raise TypeError(f"The {name!r} parameter must be True or False. Got {value!r}.")


def check_choice(
    name: str, value: Any, allowed: Collection[str], *, remedy: str = ""
) -> str:
    """Return `value` if it is one of the `allowed` strings."""
    if isinstance(value, str) and str(value) in allowed:
        return str(value)
    meant = similar_to(value, allowed) if isinstance(value, str) else ""
    raise ValueError(
        f"The {name!r} parameter must be one of {list(allowed)}. Got {value!r}.{meant}"
        + _remedy(remedy)
    )


def check_random_state(value: Any) -> int | None:
    """Return `value` if it is None (private noise) or a non-negative integer seed."""
    if value is None:
        return None
    is_integer = _is_integral(value)
    if is_integer and int(value) >= 0:
        return int(value)
    raise TypeError(
        "The 'random_state' parameter must be None or a non-negative integer. "
        f"Got an instance of {type(value).__name__} that is neither. "
        "Use None for private noise; generator objects are refused because "
        "clones would share their noise."
    )


def check_n_jobs(value: Any) -> int | None:
    """Return `value` if it is None or a number of workers, as in scikit-learn."""
    is_count = _is_integral(value)
    if value is not None and not (is_count and value != 0):
        raise ValueError(
            "The 'n_jobs' parameter must be None or an integer other than 0. "
            f"Got {value!r}. Use -1 for all processors."
        )
    return None if value is None else int(value)


def check_target_bounds(
    bounds: Any, *, name: str = "target_bounds"
) -> tuple[float, float]:
    """The bounds as two floats; public, so a message may quote them."""
    what = name.partition("_")[0]
    rule = (
        f"The {name!r} parameter must be two numbers, the lowest and the highest "
        f"{what}, known without looking at the data. Got {bounds!r}. Pass for example "
        f"{name}=(0, 100)."
    )
    try:
        low, high = bounds
    except (TypeError, ValueError):
        raise ValueError(rule) from None
    known = f"Use a bound of the {what} that is known without looking at the data."
    low, high = (
        check_real(f"{name}[{i}]", end, low=-1e100, high=1e100, remedy=known)
        for i, end in enumerate((low, high))
    )
    if not high - low >= 1e-100:
        raise ValueError(f"{rule} The first must be below the second.")
    return low, high


# ----------------------------------- Arguments that do not exist, and the nearest names


_Call = TypeVar("_Call", bound=Callable[..., Any])

_NO_WEIGHTS = (
    "A weight multiplies the contribution of a record, so that weights without a "
    "declared bound invalidate the sensitivity to which the noise is calibrated. Fit "
    "without weights."
)
_NO_STOP = (
    "A stopping rule that depends on the data would leak information about them, so "
    "the number of steps is fixed in advance: use solver_params={'n_steps': ...} of a "
    "solver that has steps, or n_estimators of boosted trees."
)
_OF_COLUMNS = (
    "Choose the encoding of declared columns with columns=TableEncoder(declared, ...)."
)
_SHRUNK = (
    "The number of records in a leaf is private. Instead, leaves are shrunk according "
    "to the noise in their released values, and max_depth= bounds their number."
)
# Arguments of scikit-learn that skdp does not have, and the reasons.
REASONS: dict[str, str] = {
    "sample_weight": _NO_WEIGHTS,
    "class_weight": "Declare weights in the constructor of a classifier, for example "
    "class_weight={'ill': 20}. The weights of 'balanced' would depend on the labels, "
    "which are private.",
    "penalty": "The penalty is L2, set by C of classifiers or alpha of regressors. To "
    "select features use DPSparseLogisticRegression or DPSparseLinearRegression.",
    "l1_ratio": "The penalty is L2, set by C of classifiers or alpha of regressors. To "
    "select features use DPSparseLogisticRegression or DPSparseLinearRegression.",
    "max_iter": _NO_STOP,
    "tol": _NO_STOP,
    "early_stopping": _NO_STOP,
    "warm_start": "Every fit is a separate release that starts from the same point. "
    "The privacy proofs do not cover other starts.",
    "cv": "The method of the search makes the splits, since other folds could depend "
    "on the data; see method= and method_params=.",
    "return_train_score": "Scores on training rows are not private.",
    "dual": "The solver= decides in which form the loss is minimised.",
    "intercept_scaling": "The intercept is the weight of a column with the constant "
    "value data_norm.",
    "positive": "Signs of weights cannot be constrained.",
    "n_iter_no_change": _NO_STOP,
    "feature_range": "Columns are scaled so that rows have norm at most 1; declare the "
    "ranges of the columns with bounds=.",
    "handle_unknown": "Values that are not declared are encoded as zeros in all rows.",
    "numeric": _OF_COLUMNS,
    "n_knots": _OF_COLUMNS,
    "remainder": _OF_COLUMNS,
    "sparse_output": _OF_COLUMNS,
    "max_bins": "Set the number of intervals with columns=TableEncoder(declared, "
    "n_knots=...).",
    "categorical_features": "Declare the columns with categories in columns=.",
    "min_samples_leaf": _SHRUNK,
    "max_leaf_nodes": _SHRUNK,
    "l2_regularization": _SHRUNK,
}


def explained(call: _Call, *, when_missing: str = "") -> _Call:
    """Wrap a function or method to explain arguments that its signature does not have.

    Parameters
    ----------
    call : function
        A function, or a method, whose error names the class of its object.
    when_missing : str, default=""
        Advice if a required argument is missing.

    Returns
    -------
    function
        With the same signature.
    """
    signature = inspect.signature(call)
    is_method = next(iter(signature.parameters), "") == "self"

    @wraps(call)
    def checked(*args: Any, **named: Any) -> Any:
        problem = ""
        try:
            signature.bind(*args, **named)
        except TypeError as error:
            problem = str(error)
        if problem:
            allowed = list(signature.parameters.values())[is_method:]
            names = [each.name for each in allowed]
            unknown = [name for name in named if name not in names]
            told = _of_unknown(unknown[0], names) if unknown else f"{problem}."
            remedy = when_missing if problem.startswith("missing") else ""
            if problem.startswith("too many positional"):
                remedy = _names_to_give(allowed)
            name = call.__name__
            if is_method and args:
                owner = type(args[0]).__name__
                name = owner if name == "__init__" else f"{owner}.{name}"
            raise TypeError(f"{name}(): {told} {remedy}".rstrip())
        return call(*args, **named)

    # `wraps` keeps the signature, which the type of *args cannot express.
    return checked  # type: ignore[return-value]


def explained_nesting(set_params: _Call) -> _Call:
    """Wrap ``set_params`` to explain why ``<name>__<other>`` cannot be set."""

    @wraps(set_params)
    def checked(self: Any, **params: Any) -> Any:
        known = self.get_params(deep=False) | params
        for key in params:
            name, nested, _ = key.partition("__")
            if nested and name in known and not hasattr(known[name], "set_params"):
                raise ValueError(_of_nested(self, key, name, known[name]))
        return set_params(self, **params)

    # `wraps` keeps the signature, which the type of **params cannot express.
    return checked  # type: ignore[return-value]


def explain_methods(cls: type) -> None:
    """Wrap the constructor and `fit` that a class defines by `explained`, once."""
    for name in ("__init__", "fit"):
        call = vars(cls).get(name)
        if inspect.isfunction(call) and not hasattr(call, "__wrapped__"):
            setattr(cls, name, explained(call))


def _names_to_give(allowed: list[inspect.Parameter]) -> str:
    """Arguments that may be positional, and arguments that must be named."""
    bare = [x.name for x in allowed if x.kind is x.POSITIONAL_OR_KEYWORD]
    named = [x.name for x in allowed if x.kind is x.KEYWORD_ONLY]
    order = f"In this order: {bare}. " if bare else ""
    return f"{order}By name: {named}." if named else order.rstrip()


def _of_nested(estimator: Any, key: str, name: str, value: Any) -> str:
    remedies = {
        "columns": "Use columns=TableEncoder(declared), whose parameters can be set.",
        "solver_params": "Set the whole mapping solver_params.",
    }
    remedy = remedies.get(name, f"Set {name!r} as a whole.")
    return (
        f"The parameter {key!r} of {type(estimator).__name__} must belong to an "
        f"estimator in {name!r}. Got an instance of {type(value).__name__} there. "
        f"{remedy}"
    )


def _of_unknown(name: str, allowed: list[str]) -> str:
    text = f"there is no argument {name!r}."
    if name in REASONS:
        return f"{text} {REASONS[name]}"
    return f"{text}{similar_to(name, allowed)} Allowed are {allowed}."


def similar_to(name: str, known: Iterable[str]) -> str:
    """A question about the known name that is most like this name; "" if none is."""
    by_shape = {each.strip().casefold(): each for each in known}
    found = get_close_matches(name.strip().casefold(), list(by_shape), n=1)
    return f" Did you mean {by_shape[found[0]]!r}?" if found else ""
