"""The statement that a fitted object carries."""

from __future__ import annotations

import dataclasses
import json
import math
import re

import numpy as np
import pytest

from skdp import DPGridSearchCV, DPLogisticRegression
from skdp.privacy import GaussianEvent, NonPrivateEvent, epsilon_of
from skdp.privacy.accounting._codec import event_from_dict
from skdp.privacy.accounting._risk import pair_advantage
from tests.problems import make_ledger

X = np.random.default_rng(0).normal(size=(40, 3))
Y = (X[:, 0] > 0).astype(int)


def fitted(**changes):
    values = {"solver": "noisy_gd", "solver_params": {"n_steps": 4}, "classes": [0, 1]}
    return DPLogisticRegression(**values | changes).fit(X, Y)


@pytest.fixture(scope="module")
def record():
    return fitted().privacy_


def not_private():
    return {
        "seeded": fitted(random_state=0).privacy_,
        "infinite": fitted(
            epsilon=math.inf, solver="auto", solver_params=None
        ).privacy_,
    }


def test_json_says_everything(record):
    values = json.loads(record.to_json())
    fields = {field.name for field in dataclasses.fields(record)}
    assert set(values) == fields | {"schema"}
    assert values["adjacency"] == "replace_one"
    assert values["unit"] == "record"
    assert (values["epsilon"], values["delta"]) == (1.0, 1e-6)
    assert values["noise_multiplier"] == record.event.noise_multiplier
    assert values["noise_scale"] == record.noise_scale > 0
    assert (values["n_samples"], values["n_features"]) == X.shape
    assert values["solver_params"]["n_steps"] == 4
    assert values["is_private"] is True


def test_event_can_be_charged_again_from_the_json(record):
    event = event_from_dict(json.loads(record.to_json())["event"])
    assert event == record.event == GaussianEvent(record.noise_multiplier, 4)
    assert 0.99 < epsilon_of(event, record.delta) <= record.epsilon


def test_json_is_strict_and_writes_infinity_as_text(record):
    for one in (record, *not_private().values()):
        text = one.to_json()
        json.loads(text, parse_constant=pytest.fail)
    values = json.loads(not_private()["infinite"].to_json())
    assert values["epsilon"] == values["data_norm"] == values["sensitivity"] == "inf"
    assert values["event"] == {"event": "non_private"}
    assert json.loads(record.to_json())["solver_params"]["residual_clip"] == "inf"


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_statement_names_the_guarantee(adjacency):
    statement = fitted(adjacency=adjacency).privacy_.statement()
    for word in ("DPLogisticRegression", "(1, 1e-06)", adjacency, "one record"):
        assert word in statement
    assert "NOT" not in statement
    assert ("null record" in statement) == (adjacency == "zero_out")


def points(record):
    """The printed points of a record, each on one line; a name begins a line."""
    lines = re.sub(r"\n +", " ", repr(record)).splitlines()
    return [re.sub(" +", " ", line) for line in lines if line]


def test_a_record_begins_with_what_how_much_and_what_may_be_shown(record):
    what, much, shown, *technical = points(record)
    assert what.startswith("What DPLogisticRegression, computed from 40")
    assert "Noise hides whether one record is replaced by any other" in what
    assert much == f"How much epsilon 1, delta 1e-06. {record.risk}"
    assert shown.startswith("May be shown What it released, and everything")
    assert technical[0] == "adjacency replace_one, unit: one record"
    assert max(map(len, repr(record).splitlines())) <= 88
    html = record._repr_html_()
    for words in (record.risk, "May be shown", record.statement(), "why this solver"):
        assert words in html
    older = dataclasses.replace(record, risk="")  # of a version that computed none
    assert points(older)[1] == "How much epsilon 1, delta 1e-06."


@pytest.mark.parametrize("name", ["seeded", "infinite"])
def test_a_record_that_is_not_private_begins_with_that(name):
    what, much, shown, *_ = points(not_private()[name])
    assert what.startswith("What NOT private: DPLogisticRegression")
    assert "No promise limits" in much
    assert "Nothing" in shown
    assert "#b42318" in not_private()[name]._repr_html_()


@pytest.mark.parametrize("name", ["seeded", "infinite"])
def test_statement_of_a_fit_that_is_not_private_says_so(name):
    one = not_private()[name]
    assert one.statement().startswith("DPLogisticRegression: NOT a private release.")
    assert ("random_state" if name == "seeded" else "epsilon=inf") in one.statement()
    assert "differentially" not in one.statement()
    assert (one.is_private, one.epsilon) == (False, math.inf)
    assert one.event == NonPrivateEvent()


def test_html_contains_the_statement_and_escapes(record):
    poison = "<script>alert('x') & \"y\"</script>"
    fields = ("estimator", "reason", "unit", "why_solver", "ledger", "dataset")
    poisoned = dataclasses.replace(record, **dict.fromkeys(fields, poison))
    poisoned = dataclasses.replace(
        poisoned, warnings=(poison,), assumed_public=(poison,)
    )
    text = poisoned._repr_html_()
    assert "<script" not in text
    assert text.count("&lt;script&gt;") >= len(fields)
    assert "&amp; &quot;y&quot;" in text
    assert "differentially private" in record._repr_html_()


def test_record_names_the_ledger_and_its_label(tmp_path):
    ledger = make_ledger(tmp_path, dataset="ward 7")
    record = fitted(ledger=ledger).privacy_
    assert (record.ledger, record.dataset) == (ledger.path, "ward 7")
    assert f"ledger {ledger.path} ward 7" in points(record)
    assert "ledger" not in repr(fitted().privacy_)


def test_the_risk_of_a_pair_is_at_least_its_delta():
    assert pair_advantage(0.5, 0.25) >= 0.25 + 0.7 * pair_advantage(0.5, 0.0)


GRID = {"C": [0.1, 1.0]}


@pytest.mark.filterwarnings("ignore::skdp.exceptions.TuningCostWarning")
@pytest.mark.parametrize("method", ["composition", "random_stopping"])
def test_a_searchs_record_is_for_people(method):
    """Found in review: it printed Python's dicts, None, and a stray comma."""
    search = DPGridSearchCV(fitted(), GRID, method=method).fit(X, Y)
    for text in (repr(search.privacy_), search.privacy_._repr_html_()):
        for wrong in ("{", "None", "noise, from"):
            assert wrong not in text
        assert "of the release as a whole" in text
        assert "gaussian, noise_multiplier" in text
