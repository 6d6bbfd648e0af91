"""Candidates of a search: checked, given their budgets, rehearsed before the commit.

A rehearsal runs ``fit`` on the rows with an `Allowance` that notes events down, so that
whatever a step would refuse is refused before anything is spent, and the search knows
what every fit will release. Nothing is read from the rows beyond acceptance.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from skdp._base import UNIT
from skdp.pipeline._budget import set_budget_in_place
from skdp.pipeline._walk import private_steps
from skdp.privacy._accounting import Budget
from skdp.privacy._adjacency import Adjacency
from skdp.privacy._allowance import Allowance
from skdp.privacy._events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    NonPrivateEvent,
    PureEvent,
)
from skdp.privacy._gaussian import gaussian_epsilon

# Parameters that decide the guarantee or what is public; a search sets or keeps them.
_NOT_TUNABLE = (
    "adjacency",
    "bounds",
    "classes",
    "data_norm",
    "delta",
    "epsilon",
    "ledger",
    "random_state",
    "target_bounds",
)
# Inner epsilons are set this much below what the search paid for, for rounding.
_MARGIN = 1e-6
_MOST_REHEARSALS = 12

Strength = GaussianEvent | PureEvent


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
    """An unfitted clone with its budgets, and the events that its fit will commit."""

    estimator: Any
    events: tuple[Event, ...]


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


def configured(estimator: Any, params: Mapping[str, Any], adjacency: Adjacency) -> Any:
    """A clone with these parameters, silent, under the search's adjacency.

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
        _check_defaults(step, adjacency)
        step.set_params(adjacency=adjacency)
    # What a fit prints, or how often, would tell how many trials there are.
    loud = [name for name in model.get_params() if name.split("__")[-1] == "verbose"]
    return model.set_params(**dict.fromkeys(loud, False))


def _check_defaults(step: Any, adjacency: Adjacency) -> None:
    parameters = inspect.signature(type(step)).parameters
    for name in ("epsilon", "delta", "adjacency", "random_state", "ledger"):
        value, default = getattr(step, name), parameters[name].default
        if value is default or value == default:
            continue
        if name == "adjacency" and value == adjacency:
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


def rehearse(
    model: Any, X: Any, y: Any, adjacency: Adjacency
) -> tuple[Any, tuple[Event, ...]]:
    """Go through a fit up to where data would be read, and note its events.

    Returns
    -------
    fitted clone, tuple of events
        The clone's private outputs are constants.
    """
    allowance = Allowance(adjacency, UNIT)
    rehearsed = clone(model)
    for step in steps_of(rehearsed):
        step.set_params(ledger=allowance)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rehearsed.fit(X, y)
    return rehearsed, tuple(allowance.noted)


def prepare(
    model: Any,
    strength: Strength,
    X: Any,
    y: Any,
    delta: float,
    adjacency: Adjacency,
    *,
    is_seeded: bool,
) -> Prepared:
    """Give a candidate the largest budget whose events cost no more than `strength`.

    Gaussian steps take exactly what there is. Others, such as objective perturbation,
    are charged by the mu that dominates them, so their epsilon is lowered until that
    fits.
    """
    budget = _budget_for(strength, delta)
    scale = 1.0
    for _ in range(_MOST_REHEARSALS):
        ready = clone(model)
        set_budget_in_place(ready, Budget(budget.epsilon * scale, delta))
        _, events = rehearse(ready, X, y, adjacency)
        excess = _excess(ComposedEvent(events), strength)
        if excess <= 1:
            if is_seeded:
                events = (NonPrivateEvent(),) * len(events)
            return Prepared(ready, events)
        scale /= min(excess * (1 + _MARGIN), 8.0)
    raise ValueError(
        f"A candidate cannot be fitted at the cost of {strength}. Got a solver "
        "whose noise does not add up in squares. Use solver='noisy_gd' or 'auto'."
    )


def _budget_for(strength: Strength, delta: float) -> Budget:
    if isinstance(strength, PureEvent):
        epsilon = strength.pure_epsilon
    else:
        epsilon = gaussian_epsilon(math.sqrt(strength.mu_squared), delta)
    if epsilon < 2e-6:
        raise ValueError(
            "The 'epsilon' parameter of a search must leave each fit at least 1e-6. "
            f"Got {epsilon:.3g} for each. Use fewer candidates or a larger epsilon."
        )
    return Budget(min(epsilon, 1e8) * (1 - _MARGIN), delta)


def _excess(event: Event, strength: Strength) -> float:
    """Cost over what is allowed, in units of epsilon or of mu."""
    if isinstance(strength, PureEvent):
        is_pure = event.mu_squared == 0 and event.box_delta == 0
        return event.pure_epsilon / strength.pure_epsilon if is_pure else math.inf
    return math.sqrt(event.gdp_mu_squared / strength.mu_squared)
