"""Events as text: readable for ever, and nothing forged gets in."""

from __future__ import annotations

import json

import numpy as np
import pytest

from skdp.privacy import (
    BoundedRangeEvent,
    ComposedEvent,
    EpsilonDeltaEvent,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    ObjectiveEvent,
    PoissonGaussianEvent,
    PureEvent,
)
from skdp.privacy.accounting._codec import (
    event_from_dict,
    event_from_json,
    event_to_dict,
    event_to_json,
)

NESTED = ComposedEvent(
    (
        GaussianEvent(4.25, 30),
        ComposedEvent((PureEvent(0.1, 2), NonPrivateEvent())),
        ComposedEvent(()),
    )
)
# Files written today must be readable by every later release: never edit these.
GOLDEN = {
    '{"count": 1, "event": "gaussian", "noise_multiplier": 4.25}': GaussianEvent(4.25),
    '{"count": 30, "event": "gaussian", "noise_multiplier": 0.1}': GaussianEvent(
        0.1, 30
    ),
    '{"count": 1, "epsilon": 0.5, "event": "pure"}': PureEvent(0.5),
    '{"count": 7, "epsilon": 1e-09, "event": "pure"}': PureEvent(1e-9, 7),
    '{"count": 3, "epsilon": 0.5, "event": "bounded_range"}': BoundedRangeEvent(0.5, 3),
    '{"count": 3, "event": "laplace", "noise_multiplier": 2.5}': LaplaceEvent(2.5, 3),
    '{"count": 1, "delta": 1e-07, "epsilon": 0.5, "event": "epsilon_delta"}': (
        EpsilonDeltaEvent(0.5, 1e-7)
    ),
    '{"adjacency": "zero_out", "count": 9, "event": "poisson_gaussian", '
    '"noise_multiplier": 1.5, "sampling_rate": 0.01}': PoissonGaussianEvent(
        1.5, 0.01, 9
    ),
    '{"adjacency": "replace_one", "count": 1, "event": "poisson_gaussian", '
    '"noise_multiplier": 1.5, "sampling_rate": 0.01}': PoissonGaussianEvent(
        1.5, 0.01, adjacency="replace_one"
    ),
    '{"corners": 1, "curvature": null, "event": "objective", "half_corners": 0, '
    '"log_determinant": 0.02, "noise_multiplier": 4.5}': ObjectiveEvent(4.5, 0.02),
    '{"corners": 1, "curvature": 0.08, "event": "objective", "half_corners": 0, '
    '"log_determinant": 0.02, "noise_multiplier": 4.5}': ObjectiveEvent(
        4.5, 0.02, curvature=0.08
    ),
    '{"corners": 10, "curvature": null, "event": "objective", "half_corners": 45, '
    '"log_determinant": 0.0, "noise_multiplier": 4.5}': ObjectiveEvent(
        4.5, 0.0, 10, 45
    ),
    '{"corners": 1, "curvature": null, "event": "objective", "half_corners": 2, '
    '"log_determinant": 0.0, "noise_multiplier": 4.5, "outputs": 7}': ObjectiveEvent(
        4.5, 0.0, 1, 2, outputs=7
    ),
    '{"event": "non_private"}': NonPrivateEvent(),
    '{"event": "composed", "parts": []}': ComposedEvent(()),
    '{"event": "composed", "parts": [{"count": 30, "event": "gaussian", '
    '"noise_multiplier": 4.25}, {"event": "composed", "parts": [{"count": 2, '
    '"epsilon": 0.1, "event": "pure"}, {"event": "non_private"}]}, '
    '{"event": "composed", "parts": []}]}': NESTED,
}


@pytest.mark.parametrize(("text", "event"), GOLDEN.items())
def test_text_is_canonical_and_stable(text, event):
    assert event_to_json(event) == text
    assert event_from_json(text) == event
    assert event_from_dict(event_to_dict(event)) == event


@pytest.mark.parametrize(
    "event",
    [GaussianEvent(5), GaussianEvent(np.float32(5)), GaussianEvent(5.0, np.int64(1))],
)
def test_equal_events_have_equal_text_whatever_their_number_types(event):
    assert event == GaussianEvent(5.0)
    assert event_to_json(event) == event_to_json(GaussianEvent(5.0))


GAUSSIAN = {"event": "gaussian", "noise_multiplier": 1.0, "count": 1}


def test_a_later_field_is_read_where_it_is_missing_or_plain():
    event = ObjectiveEvent(4.5, 0.02)
    text = event_to_json(event)
    assert "outputs" not in text
    plain = json.loads(text) | {"outputs": 1}
    assert event_from_json(json.dumps(plain)) == event_from_json(text) == event
    # It is told from the event with another value.
    several = ObjectiveEvent(4.5, 0.02, outputs=2)
    assert event_to_json(several) != text
    assert event_from_json(event_to_json(several)) == several


PURE = {"event": "pure", "epsilon": 1.0, "count": 1}
SAMPLED = {
    "event": "poisson_gaussian",
    "noise_multiplier": 1.0,
    "sampling_rate": 0.1,
    "count": 1,
    "adjacency": "zero_out",
}
BOX = {"event": "epsilon_delta", "epsilon": 1.0, "delta": 1e-9, "count": 1}
OBJECTIVE = {
    "event": "objective",
    "noise_multiplier": 1.0,
    "log_determinant": 0.1,
    "corners": 1,
    "half_corners": 0,
    "curvature": 0.4,
}
FORGED = {
    "unknown class": {"event": "free"},
    "module path": {"event": "os.system"},
    "python class name": GAUSSIAN | {"event": "GaussianEvent"},
    "no class": {"noise_multiplier": 1.0, "count": 1},
    "class of another type": GAUSSIAN | {"event": 1},
    "extra field": GAUSSIAN | {"sensitivity": 1.0},
    "fields of another class": GAUSSIAN | {"event": "pure"},
    "missing count": {"event": "gaussian", "noise_multiplier": 1.0},
    "negative multiplier": GAUSSIAN | {"noise_multiplier": -1.0},
    "string multiplier": GAUSSIAN | {"noise_multiplier": "1.0"},
    "negative count": GAUSSIAN | {"count": -1},
    "bool count": GAUSSIAN | {"count": True},
    "real count": GAUSSIAN | {"count": 1.0},
    "unknown adjacency": SAMPLED | {"adjacency": "add_remove"},
    "sampling rate above one": SAMPLED | {"sampling_rate": 1.5},
    "delta of one": BOX | {"delta": 1.0},
    "curvature of many corners": OBJECTIVE | {"corners": 2},
    "curvature of many outputs": OBJECTIVE | {"outputs": 2},
    "negative determinant": OBJECTIVE | {"log_determinant": -0.1},
    "objective without curvature": {k: OBJECTIVE[k] for k in list(OBJECTIVE)[:-1]},
    "no parts": {"event": "composed"},
    "parts of another type": {"event": "composed", "parts": GAUSSIAN},
    "a part that is no event": {"event": "composed", "parts": [1]},
    "a forged part": {"event": "composed", "parts": [GAUSSIAN, {"event": "free"}]},
    "composed with an extra field": {"event": "composed", "parts": [], "count": 1},
    "a list": [GAUSSIAN],
    "nothing": None,
}


@pytest.mark.parametrize("record", FORGED.values(), ids=FORGED)
def test_forged_records_are_refused(record):
    with pytest.raises(ValueError, match="must"):
        event_from_json(json.dumps(record))


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "1e999", "{", ""])
@pytest.mark.parametrize("field", ["noise_multiplier", "count"])
def test_numbers_that_are_none_are_refused(constant, field):
    text = json.dumps(GAUSSIAN | {field: 0}).replace(f'"{field}": 0', "@")
    with pytest.raises(ValueError, match=r"must|may not|Expecting"):
        event_from_json(text.replace("@", f'"{field}": {constant}'))


def test_reading_imports_nothing():
    import sys

    before = set(sys.modules)
    with pytest.raises(ValueError, match="must be one of"):
        event_from_dict({"event": "antigravity", "parts": []})
    assert set(sys.modules) == before


def test_events_nested_beyond_measure_are_refused():
    text = '{"event": "composed", "parts": [' * 100_000
    with pytest.raises(ValueError, match="nested too deeply"):
        event_from_json(text)


def test_parts_that_are_no_events_are_refused():
    with pytest.raises(TypeError, match="contain events only"):
        ComposedEvent((1.0,))
