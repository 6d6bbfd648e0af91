"""Events as JSON; reading imports no class by name but uses a fixed list."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from typing import Any, cast

from skdp.privacy.accounting._events import (
    BoundedRangeEvent,
    ComposedEvent,
    EpsilonDeltaEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    ObjectiveEvent,
    ParallelEvent,
    PoissonGaussianEvent,
    PureEvent,
    SelectionEvent,
)

# Meanings of keys and fields never change; a new meaning gets a new key.
EVENTS: dict[str, type[Any]] = {
    "gaussian": GaussianEvent,
    "pure": PureEvent,
    "laplace": LaplaceEvent,
    "bounded_range": BoundedRangeEvent,
    "epsilon_delta": EpsilonDeltaEvent,
    "poisson_gaussian": PoissonGaussianEvent,
    "objective": ObjectiveEvent,
    "selection": SelectionEvent,
    "non_private": NonPrivateEvent,
    "composed": ComposedEvent,
    "parallel": ParallelEvent,
}
# Fields added later, with defaults. A field with its default is not written, and a
# missing field has its default, so events stored before keep their text.
_LATER: dict[str, dict[str, Any]] = {"objective": {"outputs": 1}}
_KEYS = {kind: key for key, kind in EVENTS.items()}


def names_of(key: str) -> tuple[str, ...]:
    """Names of the fields of an event; "trial" is an event, "parts" are several."""
    return tuple(field.name for field in fields(EVENTS[key]))


def event_to_dict(event: Event) -> dict[str, Any]:
    """A JSON-ready description of an event."""
    key = _KEYS[type(event)]
    values = {name: getattr(event, name) for name in names_of(key)}
    for name, old in _LATER.get(key, {}).items():
        if values[name] == old:
            del values[name]
    if "trial" in values:
        values["trial"] = event_to_dict(values["trial"])
    if "parts" in values:
        values["parts"] = [event_to_dict(part) for part in values["parts"]]
    return {"event": key} | values


def event_from_dict(record: Any) -> Event:
    """The event that `event_to_dict` described.

    Raises `ValueError` if the record does not have exactly an allowed form, or a value
    is out of range.
    """
    if not isinstance(record, dict) or "event" not in record:
        raise ValueError("An event record must be an object with the field 'event'.")
    values = {name: value for name, value in record.items() if name != "event"}
    key = record["event"]
    if not isinstance(key, str) or key not in EVENTS:
        raise ValueError(f"An event must be one of {sorted(EVENTS)}.")
    values, names = _LATER.get(key, {}) | values, names_of(key)
    if names == ("parts",):
        if set(values) != {*names} or not isinstance(values["parts"], list):
            raise ValueError(f"A {key} event must have one list, 'parts'.")
        values["parts"] = tuple(event_from_dict(part) for part in values["parts"])
    if set(values) != {*names}:
        raise ValueError(f"A {key} event must have the fields {names}.")
    if "trial" in values:
        values["trial"] = event_from_dict(values["trial"])
    try:
        return cast(Callable[..., Event], EVENTS[key])(**values)
    except TypeError as error:
        raise ValueError(str(error)) from None


def event_to_json(event: Event) -> str:
    """Canonical text of an event: the same event always gives the same text."""
    return json.dumps(event_to_dict(event), sort_keys=True, allow_nan=False)


def event_from_json(text: str) -> Event:
    """The event that `event_to_json` wrote; raises ValueError for anything else."""
    try:
        return event_from_dict(json.loads(text, parse_constant=_refuse_constant))
    except RecursionError:
        raise ValueError("An event must not be nested too deeply.") from None


def _refuse_constant(name: str) -> float:
    raise ValueError(f"An event must not contain {name}.")
