"""Events as JSON, from an allow-list of classes; no class is imported by name."""

from __future__ import annotations

import json
from collections.abc import Callable
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
_FIELDS: dict[str, tuple[type[Any], tuple[str, ...]]] = {
    "gaussian": (GaussianEvent, ("noise_multiplier", "count")),
    "pure": (PureEvent, ("epsilon", "count")),
    "laplace": (LaplaceEvent, ("noise_multiplier", "count")),
    "bounded_range": (BoundedRangeEvent, ("epsilon", "count")),
    "epsilon_delta": (EpsilonDeltaEvent, ("epsilon", "delta", "count")),
    "poisson_gaussian": (
        PoissonGaussianEvent,
        ("noise_multiplier", "sampling_rate", "count", "adjacency"),
    ),
    "objective": (
        ObjectiveEvent,
        (
            "noise_multiplier",
            "log_determinant",
            "corners",
            "half_corners",
            "curvature",
            "outputs",
        ),
    ),
    "selection": (SelectionEvent, ("trial", "family", "mean", "most", "shape")),
    "non_private": (NonPrivateEvent, ()),
}
# Events composed of other events, which are in the field "parts".
_WHOLES: dict[str, type[Any]] = {"composed": ComposedEvent, "parallel": ParallelEvent}
# Fields added later, with defaults. A field with its default is not written, and a
# missing field has its default, so events stored before keep their text.
_LATER: dict[str, dict[str, Any]] = {"objective": {"outputs": 1}}
_ALL_KEYS = sorted([*_FIELDS, *_WHOLES])
_KEYS = {kind: key for key, (kind, _) in _FIELDS.items()}


def event_to_dict(event: Event) -> dict[str, Any]:
    """A JSON-ready description of an event."""
    for key, kind in _WHOLES.items():
        if isinstance(event, kind):
            return {"event": key, "parts": [event_to_dict(p) for p in event.parts]}
    key = _KEYS[type(event)]
    fields = {name: getattr(event, name) for name in _FIELDS[key][1]}
    for name, old in _LATER.get(key, {}).items():
        if fields[name] == old:
            del fields[name]
    return {"event": key} | {
        name: event_to_dict(value) if hasattr(value, "leaves") else value
        for name, value in fields.items()
    }


def event_from_dict(record: Any) -> Event:
    """The event that `event_to_dict` described.

    Raises `ValueError` if the record does not have exactly an allowed form, or a value
    is out of range.
    """
    if not isinstance(record, dict) or "event" not in record:
        raise ValueError("An event record must be an object with the field 'event'.")
    fields = {name: value for name, value in record.items() if name != "event"}
    if not isinstance(record["event"], str) or record["event"] not in _ALL_KEYS:
        raise ValueError(f"An event must be one of {_ALL_KEYS}.")
    if record["event"] in _WHOLES:
        if set(fields) != {"parts"} or not isinstance(fields["parts"], list):
            raise ValueError(f"A {record['event']} event must have one list, 'parts'.")
        parts = tuple(event_from_dict(part) for part in fields["parts"])
        return _built(_WHOLES[record["event"]], {"parts": parts})
    kind, names = _FIELDS[record["event"]]
    fields = _LATER.get(record["event"], {}) | fields
    if set(fields) != set(names):
        raise ValueError(f"A {record['event']} event must have the fields {names}.")
    if "trial" in fields:
        fields["trial"] = event_from_dict(fields["trial"])
    return _built(kind, fields)


def _built(kind: type[Any], fields: dict[str, Any]) -> Event:
    try:
        return cast(Callable[..., Event], kind)(**fields)
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
        raise ValueError("An event may not be nested without end.") from None


def _refuse_constant(name: str) -> float:
    raise ValueError(f"An event may not hold {name}.")
