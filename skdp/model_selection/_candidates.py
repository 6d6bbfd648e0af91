"""Candidates of a search: checked, silenced, and given their budgets."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from skdp._base import PrivateEstimator
from skdp.pipeline._budget import check_accounted
from skdp.pipeline._walk import private_steps, says_its_privacy, walk
from skdp.privacy._adjacency import Relation
from skdp.privacy._allowance import Strength

# Parameters that decide the guarantee or what is public; a search sets or keeps them.
_NOT_TUNABLE = (
    "adjacency",
    "bounds",
    "classes",
    "data_norm",
    "delta",
    "epsilon",
    "item_ids",
    "ledger",
    "max_ratings",
    "n_users",
    "privacy_unit",
    "random_state",
    "rating_bounds",
    "target_bounds",
)


@dataclass(frozen=True)
class Need:
    """A kind of fit that a method will make of a candidate.

    Parameters
    ----------
    rows : int
        Number of records.
    strength : GaussianEvent or PureEvent
        What the fit may cost, all its steps together.
    """

    rows: int
    strength: Strength


@dataclass(frozen=True)
class Prepared:
    """An unfitted clone with its budgets, and what its fit may cost."""

    estimator: Any
    strength: Strength


@dataclass(frozen=True)
class Candidate:
    """One set of parameters, ready to be fitted for each need of the method."""

    params: dict[str, Any]
    prepared: tuple[Prepared, ...]


def steps_of(model: Any) -> list[Any]:
    """The private objects that an unfitted model is made of."""
    return [step for _, step in private_steps(model)]


def needs_labels(model: Any) -> bool:
    """Whether a step would take the set of labels from y."""
    return any(_undeclared(step) for step in steps_of(model))


def _undeclared(step: Any) -> bool:
    return "classes" in step.get_params() and step.classes is None


def check_tunable(names: Iterable[str]) -> None:
    """Refuse a grid over what decides the guarantee or what is taken as public."""
    refused = sorted({name for name in names if name.split("__")[-1] in _NOT_TUNABLE})
    if refused:
        raise ValueError(
            f"The parameters of a private search must not be among {_NOT_TUNABLE}. Got "
            f"{refused}. epsilon, delta and adjacency are the search's own; bounds, "
            "norms and labels are facts, not choices."
        )


def configured(
    estimator: Any,
    params: Mapping[str, Any],
    adjacency: Relation,
    delta: float,
    seed: int,
) -> Any:
    """A clone with these parameters and the search's relation, without side effects.

    Its delta is the search's until it gets a budget of its own: what a solver refuses
    depends on whether delta is 0.

    `seed` is public and goes to declared steps that draw at random: with the state of
    NumPy's generator they would tell how many trials there are.

    Raises
    ------
    ValueError, TypeError
        If a parameter is unknown, or a private step has a budget or books of its own.
    """
    model = clone(estimator).set_params(
        **{name: clone(value, safe=False) for name, value in params.items()}
    )
    steps = steps_of(model)
    if not steps:
        raise ValueError(
            "The 'estimator' parameter must have a private step. Got "
            f"{type(model).__name__} without one. Use DPLogisticRegression, say, "
            "or scikit-learn's own search if privacy is not needed."
        )
    for step in steps:
        if step.is_search:
            raise ValueError(
                "The 'estimator' parameter must have no search inside. Got "
                f"{type(step).__name__}. Put all choices into one grid."
            )
        _check_defaults(step, adjacency)
        step._be_under(adjacency)
        step.set_params(delta=delta)
    check_accounted(model)
    _check_order(model)
    return model.set_params(**_harmless(model, seed))


def _harmless(model: Any, seed: int) -> dict[str, Any]:
    """Parameters by which trials would tell of each other, or leave the process.

    What a fit prints or caches tells how many trials there are, a cache hands one
    trial's release to another, and workers would not share a trial's allowance.
    """
    fixed = {"verbose": False, "memory": None, "n_jobs": 1}
    params, changed = model.get_params(deep=True), {}
    for name, value in params.items():
        last = name.rpartition("__")[2]
        if last in fixed:
            changed[name] = fixed[last]
        if last != "random_state" or is_private_step(owner_of(model, params, name)):
            continue
        if value is not None and not isinstance(value, Integral):
            raise ValueError(
                f"The {name!r} parameter must be None or an integer inside a search. "
                f"Got an instance of {type(value).__name__}, which trials would share."
            )
        changed[name] = seed if value is None else int(value)
    return changed


def owner_of(model: Any, params: Mapping[str, Any], name: str) -> Any:
    """The object within a model that a parameter belongs to."""
    prefix = name.rpartition("__")[0]
    return params[prefix] if prefix else model


def is_private_step(step: Any) -> bool:
    """Whether an object releases something when it is fitted."""
    return isinstance(step, PrivateEstimator)


def _check_order(model: Any) -> None:
    """Refuse other libraries' steps behind private ones.

    What they make of released numbers could be refused further on, for the sake of one
    record and after the search is paid for.
    """
    for pipeline in [model, *model.get_params(deep=True).values()]:
        if not isinstance(pipeline, Pipeline):
            continue
        is_behind = False
        for _, step in pipeline.steps:
            parts = [leaf.step for leaf in walk(step, planned=True)]
            if is_behind and not all(map(_is_own, parts)):
                raise ValueError(
                    "The steps behind a private step must be of skdp inside a search. "
                    f"Got {type(step).__name__}. Put it before the private steps."
                )
            is_behind |= any(map(is_private_step, parts))


def _is_own(step: Any) -> bool:
    return isinstance(step, str) or says_its_privacy(step)


def _check_defaults(step: Any, adjacency: Relation) -> None:
    parameters = inspect.signature(type(step)).parameters
    kept = ["epsilon", "delta", "random_state", "ledger"]
    if not step._has_relation(adjacency):
        kept.insert(0, step.relation_parameter)
    for name in kept:
        value, default = getattr(step, name), parameters[name].default
        if value is default or value == default:
            continue
        raise ValueError(
            f"The {name!r} parameter of {type(step).__name__} must stay at its default "
            f"{default!r} inside a search. Got another. Set it on the search, which "
            "divides one budget among all its fits."
        )


def declare_labels(model: Any, labels: Any) -> Any:
    """Declare labels on every step that was to take them from y."""
    for step in steps_of(model):
        if _undeclared(step):
            step.set_params(classes=labels)
    return model
