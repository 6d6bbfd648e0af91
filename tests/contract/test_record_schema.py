"""The record of every estimator is of the published schema, and forgeries are not."""

from __future__ import annotations

import copy
import dataclasses
import json
import math

import numpy as np
import pytest
from sklearn.base import clone, is_classifier

from skdp import DPLogisticRegression, private_score
from skdp.privacy import PrivacyRecord, record_schema
from skdp.privacy.accounting._codec import _LATER as LATER_FIELDS
from skdp.privacy.accounting._codec import (
    EVENTS,
    event_from_json,
    event_to_dict,
    names_of,
)
from skdp.privacy.release._record import RECORD_SCHEMA
from tests.contract.test_estimators import INSTANCES
from tests.decomposition.ratings import low_rank_ratings
from tests.decomposition.test_matrix_factorization import BY_USER, PRIVATE
from tests.json_schema import is_valid
from tests.privacy.test_codec import GOLDEN

SCHEMA = record_schema()
X = np.random.default_rng(0).normal(size=(60, 3))
SCORE = X[:, 0] + 0.1
# What works by declaration alone makes no release and has no record.
RELEASES_NOTHING = {"imputer-constant"}
ESTIMATORS = [
    name
    for name, one in INSTANCES.items()
    if hasattr(one, "epsilon") and name not in RELEASES_NOTHING
]


def written(record):
    return json.loads(record.to_json())


def record_of(name):
    model = clone(INSTANCES[name])
    y = (SCORE > 0).astype(int) if is_classifier(model) else np.clip(SCORE, -3, 3)
    if hasattr(model, "classes"):
        model.set_params(classes=[0, 1])
    return model.fit(X, y).privacy_


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_record_of_every_estimator_is_of_the_schema(name):
    values = written(record_of(name))
    assert is_valid(values, SCHEMA)
    assert ("wins at most" in values["risk"]) == values["is_private"]


@pytest.mark.parametrize("model", [PRIVATE, BY_USER], ids=["value", "user"])
@pytest.mark.parametrize("epsilon", [1.0, math.inf])
@pytest.mark.filterwarnings("ignore")
def test_record_of_a_factorisation_is_of_the_schema(model, epsilon):
    pairs, ratings = low_rank_ratings()
    fitted = clone(model).set_params(epsilon=epsilon).fit(pairs, ratings)
    assert is_valid(written(fitted.privacy_), SCHEMA)


def test_record_of_a_score_is_of_the_schema():
    model = DPLogisticRegression(classes=[0, 1]).fit(X, SCORE > 0)
    score = private_score(model, X, SCORE > 0, epsilon=1.0)
    assert is_valid(written(score.privacy), SCHEMA)


def test_schema_has_the_fields_and_the_number_of_a_record():
    names = {field.name for field in dataclasses.fields(PrivacyRecord)} | {"schema"}
    assert set(SCHEMA["properties"]) == set(SCHEMA["required"]) == names
    assert SCHEMA["properties"]["schema"]["const"] == RECORD_SCHEMA
    assert SCHEMA["$id"].endswith(f":{RECORD_SCHEMA}")


def test_schema_has_the_events_and_their_fields():
    allowed = SCHEMA["$defs"]["event"]["anyOf"]
    forms = {one["$ref"].removeprefix("#/$defs/") for one in allowed}
    assert forms == {*EVENTS}
    for key in forms:
        names = set(names_of(key))
        form = SCHEMA["$defs"][key]
        assert set(form["properties"]) == names | {"event"}
        later = set(LATER_FIELDS.get(key, {}))
        assert set(form["required"]) == (names | {"event"}) - later


@pytest.mark.parametrize("text", GOLDEN)
def test_events_are_of_the_schema(text):
    event = event_to_dict(event_from_json(text))
    assert is_valid(event, SCHEMA["$defs"]["event"], SCHEMA)


FORGERIES = {
    "another schema": {"schema": 2},
    "schema that is true": {"schema": True},
    "no text of a version": {"skdp_version": "new"},
    "unknown field": {"bound": 1.0},
    "negative epsilon": {"epsilon": -1.0},
    "epsilon as text": {"epsilon": "1.0"},
    "infinite epsilon of a private release": {"epsilon": "inf"},
    "finite epsilon of no private release": {"is_private": False},
    "delta of 1": {"delta": 1.0},
    "unknown relation": {"adjacency": "symmetric"},
    "unknown event": {"event": {"event": "zcdp", "rho": 1.0}},
    "event with another field": {"event": {"event": "non_private", "rho": 1.0}},
    "event without a count": {"event": {"event": "pure", "epsilon": 1.0}},
    "half a record": {"n_samples": 0.5},
    "text for a list": {"warnings": "none"},
    "risk as a number": {"risk": 0.1},
}


@pytest.fixture(scope="module")
def values():
    return written(DPLogisticRegression(classes=[0, 1]).fit(X, SCORE > 0).privacy_)


@pytest.mark.parametrize("change", FORGERIES.values(), ids=FORGERIES)
def test_forged_record_is_not_of_the_schema(values, change):
    assert is_valid(values, SCHEMA)
    assert not is_valid(values | change, SCHEMA)


def test_broken_twin_that_allows_any_epsilon_is_found(values):
    twin = copy.deepcopy(SCHEMA)
    del twin["if"]
    forged = values | FORGERIES["infinite epsilon of a private release"]
    assert is_valid(forged, twin)
    assert not is_valid(forged, SCHEMA)
