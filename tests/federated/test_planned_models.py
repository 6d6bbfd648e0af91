"""Models that plans can hold, among real parties: the same for all, all charged."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skdp import (
    BoundedScaler,
    BudgetExceeded,
    BudgetLedger,
    DPGradientBoostingClassifier,
    DPGridSearchCV,
    DPLogisticRegression,
    DPMLPClassifier,
    DPStandardScaler,
)
from skdp.exceptions import Refused
from skdp.federated import FederationPlan, coordinate
from skdp.federated._plan import HOMES, model_of, params_of
from skdp.federated._remote import PartyOwners
from skdp.model_selection import _methods
from skdp.privacy.release._door import is_rehearsing
from tests.federated.parties import Running, changed, setting
from tests.io.places import COLUMNS, FEATURES, numbers

pytest.importorskip("cryptography")
LABELS = {"classes": [0, 1]}
GD = {"solver": "noisy_gd", "solver_params": {"n_steps": 5}}
LINEAR = DPLogisticRegression(1.0, **GD, **LABELS)
SCALED = make_pipeline(DPStandardScaler(1.0, bounds=(-2, 2)), LINEAR)
# A model, and how often each owner charges its ledger.
PLANNED = {
    "boosting": (
        DPGradientBoostingClassifier(
            1.0, columns=COLUMNS, n_estimators=5, max_depth=3, **LABELS
        ),
        1,
    ),
    "scaled": (SCALED, 2),
    "network": (DPMLPClassifier(1.0, hidden_layer_sizes=(3,), **GD, **LABELS), 1),
    "search of steps": (
        DPGridSearchCV(
            make_pipeline(
                BoundedScaler((-2, 2)),
                DPLogisticRegression(solver="noisy_gd", **LABELS),
            ),
            {"dplogisticregression__solver_params": [{"n_steps": 3}, {"n_steps": 6}]},
            epsilon=1.0,
            method_params={"tuning_fraction": 0.4},
            method="composition",
        ),
        1,
    ),
}


def fitted(own):
    """Models of the coordinator and of three parties."""
    runs = [Running(lambda i=i: own.serve(i)) for i in range(3)]
    hub = Running(lambda: coordinate(own.plan, own.hub, patience=20.0))
    return [one.outcome() for one in (hub, *runs)]


def predicted(model):
    rows = numbers()[FEATURES]
    ask = getattr(model, "decision_function", model.predict)
    return np.asarray(ask(rows))


@pytest.mark.parametrize("name", PLANNED)
def test_all_have_one_model_and_charge_every_step(name, tmp_path):
    given, n_events = PLANNED[name]
    own = setting(tmp_path, clone(given))
    own.plan.save(tmp_path / "plan.json")
    again = FederationPlan.load(tmp_path / "plan.json")
    assert again == own.plan
    assert repr(again.model()) == repr(own.plan.model())
    models = fitted(own)
    assert len({predicted(one).tobytes() for one in models}) == 1
    assert [len(own.ledger(i).spends()) for i in range(3)] == [n_events] * 3
    assert own.plan.charges().count("Each party charges epsilon 1 ") == n_events


def test_a_ledger_without_room_for_all_steps_is_charged_none(tmp_path):
    own = setting(tmp_path, SCALED)
    BudgetLedger(tmp_path / "1.db", epsilon=1.1, delta=2e-6)
    with pytest.raises(BudgetExceeded, match="room for all steps"):
        own.serve(1, patience=1.0)
    assert own.ledger(1).spends() == []


def last_chosen(released, scores, facts):
    """The best score is the last one, once records are asked."""
    return 0 if is_rehearsing() else len(scores) - 1


def test_a_search_may_choose_any_candidate_of_its_plan(tmp_path, monkeypatch):
    """The rehearsal chooses the first; all rounds of the others are in the plan."""
    given = clone(PLANNED["search of steps"][0])
    name = "dplogisticregression__solver_params"
    own = setting(tmp_path, given)
    lengths = sorted({len(path) for path in own.plan.paths})
    assert lengths == [3 + 6 + 1 + 3, 3 + 6 + 1 + 6]
    assert "13 or 16 rounds" in str(own.plan)
    monkeypatch.setattr(_methods, "best_of", last_chosen)
    models = fitted(own)
    assert [one.best_params_[name] for one in models] == [{"n_steps": 6}] * 4
    assert len({predicted(one).tobytes() for one in models}) == 1


class Stranger(DPLogisticRegression):
    """Its name is on no list."""


Stranger.__name__ = "DPLogisticRegression"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (make_pipeline(DPStandardScaler(1.0, bounds=(-2, 2)), Stranger(1.0)), Refused),
        (make_pipeline("passthrough", LINEAR, memory="cache"), ValueError),
        (
            make_pipeline(
                DPStandardScaler(1.0, bounds=(-2, 2), random_state=0), LINEAR
            ),
            ValueError,
        ),
    ],
)
def test_what_brings_code_or_places_of_its_own_is_refused(given, error, tmp_path):
    with pytest.raises(error):
        setting(tmp_path, given)


def hidden(**more):
    """Parameters of a pipeline whose second step has others."""
    stored = json.loads(params_of(SCALED))
    ((_, step),) = stored["steps"][1]["tuple"][1]["model"].items()
    step.update(more)
    return json.dumps(stored)


@pytest.mark.parametrize("name", ["ledger", "random_state", "memory"])
def test_a_step_that_brings_its_own_ledger_is_refused(name, tmp_path):
    """Broken twin: a check of the outer parameters alone sees none of them."""
    with pytest.raises(Refused, match="leave ledgers"):
        model_of("Pipeline", hidden(**{name: None}), None)
    own = setting(tmp_path, SCALED)
    with pytest.raises(Refused, match="leave ledgers"):
        own.serve(0, changed(own.plan, params=hidden(**{name: 0})))
    assert own.ledger(0).spends() == []


def test_a_step_that_would_be_charged_nowhere_is_refused(tmp_path, monkeypatch):
    """Broken twin: a walk that misses a step leaves it without a ledger."""
    own = setting(tmp_path, SCALED)
    monkeypatch.setattr(
        "skdp.federated._plan.private_steps",
        lambda model: [("last", model.steps[-1][1])],
    )
    with pytest.raises(Refused, match="charge all of its events"):
        own.serve(0)
    assert own.ledger(0).spends() == []


class Told:
    """A line on which a coordinator tells totals of its own."""

    def __init__(self, lie):
        self.asked, self._lie = [], lie

    def added(self, statement, share):
        self.asked.append(statement)
        return share + self._lie


def test_owners_that_were_told_different_totals_are_asked_different_questions(
    tmp_path, monkeypatch
):
    """Whatever the totals were of: a scaler's are in no later query."""
    own = setting(tmp_path, clone(SCALED))
    monkeypatch.setattr(PartyOwners, "_passed", lambda self, ask: ask())
    asked = []
    for lie in (0, 0, 1):
        line = Told(lie)
        owners = PartyOwners(own.plan, [], line, own.ledger(0))
        for _ in range(2):
            owners.added(b"the same query", [np.arange(3)])
        asked.append(line.asked)
    assert asked[0] == asked[1]
    assert asked[0][0] == asked[2][0]
    assert asked[0][1] != asked[2][1]


def test_parameters_come_back_as_they_were(tmp_path):
    given = DPLogisticRegression(
        2.0, columns={"a": (0, 1), "b": ["u", "v"]}, classes=["no", "yes"]
    )
    again = model_of("DPLogisticRegression", params_of(given), None)
    assert again.classes == ["no", "yes"]
    assert again.columns is not None
    scaler = params_of(DPStandardScaler(bounds=(-1, 1)))
    assert model_of("DPStandardScaler", scaler, None).bounds == (-1, 1)


def test_mappings_by_labels_come_back():
    grid = {"C": [0.1, 1.0], "classes": [{0: 1.0, 1: (2.0,)}]}
    given = DPGridSearchCV(LINEAR, grid, epsilon=1.0)
    again = model_of("DPGridSearchCV", params_of(given), None)
    assert again.param_grid == grid


def test_a_step_that_is_not_listed_is_refused():
    stored = hidden().replace("DPStandardScaler", "DPMatrixFactorization")
    with pytest.raises(Refused, match="must be of one of"):
        model_of("Pipeline", stored, None)
    assert "DPMatrixFactorization" not in HOMES
