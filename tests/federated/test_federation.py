"""Fits to a federation: the integers of the pooled table, or a refusal for nothing."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skdp import (
    BoundedScaler,
    BudgetLedger,
    DPGradientBoostingClassifier,
    DPGridSearchCV,
    DPLogisticRegression,
    DPMLPClassifier,
    DPStandardScaler,
    private_score,
)
from skdp.exceptions import Refused, SourceError
from skdp.federated import Federation, _federation
from skdp.io import TableSource
from skdp.solvers import SOLVERS
from tests.federated.owned import DIVISIONS, divided, federation, model
from tests.io.places import COLUMNS, FEATURES, numbers
from tests.io.test_same_bits import MODELS, released
from tests.io.test_solvers import model_for

# Several owners answer with noise only.
SHARED = sorted(name for name in MODELS if "no noise" not in name)

SAMPLED = {"solver": "noisy_sgd", "solver_params": {"batch_size": 50}}
# Every answer of theirs is a full sum with Gaussian noise.
SUMS = {
    "adassp",
    "graduated_gd",
    "heavy_ball",
    "iht",
    "knowledge_transfer",
    "laplacian_smoothing",
    "multistage",
    "nesterov",
    "noisy_gd",
    "noisy_newton",
    "noisy_sgd",  # of all records at its defaults here
    "peeling",
}


class DrawnInside(Federation):
    """Owners whose sums get all their noise at once, as that of a pooled table."""

    during = TableSource.during


def books(tmp_path, **given):
    facts = {"epsilon": 10.0, "delta": 1e-3, **given}
    return BudgetLedger(tmp_path / "books.db", **facts)


# Each by one division; every division has several.
DIVIDED = [
    (name, [*DIVISIONS][i % len(DIVISIONS)]) for i, name in enumerate(SHARED[::2])
]


@pytest.mark.parametrize(("name", "division"), DIVIDED)
def test_integers_are_those_of_the_pooled_table(name, division):
    frame, (given, target) = numbers(), MODELS[name]
    here = clone(given).fit(frame[FEATURES], frame[target])
    parties = divided(frame, DIVISIONS[division], target)
    there = clone(given).fit(DrawnInside.simulated(parties))
    for one, other in zip(released(here), released(there), strict=True):
        assert one.tobytes() == other.tobytes()


def test_a_refusal_comes_before_the_charge(tmp_path):
    ledger = books(tmp_path)
    refused = [
        DPLogisticRegression(np.inf, classes=[0, 1]),
        DPLogisticRegression(1.0, delta=0.0, classes=[0, 1], ledger=ledger),
        DPMLPClassifier(1.0, classes=[0, 1], **SAMPLED, ledger=ledger),
        model(solver="noisy_sgd", solver_params={"batch_size": 50}, ledger=ledger),
    ]
    for one in refused:
        before = dict(vars(one))
        with pytest.raises(Refused, match=r"[Ss]everal owners|No solver can"):
            one.fit(federation())
        assert vars(one) == before
    assert ledger.spends() == []


@pytest.mark.parametrize("key", sorted(SOLVERS.keys() - {"diff_gd", "line_search_gd"}))
def test_solvers_fit_or_refuse_for_nothing(key, tmp_path):
    ledger = books(tmp_path)
    one, target = model_for(key, ledger)
    if key == "knowledge_transfer":
        one.set_params(solver_params={"teacher": "noisy_gd"})
    source = federation(target=target)
    try:
        one.fit(source)
    except Refused:
        assert key not in SUMS
        assert ledger.spends() == []
    else:
        assert one.privacy_.solver == key
        assert len(ledger.spends()) == 1


@pytest.mark.parametrize("name", SHARED[::5])
def test_private_scores_are_those_of_the_pooled_table(name, tmp_path):
    frame, (given, target) = numbers(), MODELS[name]
    fitted = clone(given).fit(frame[FEATURES], frame[target])
    parties = divided(frame, DIVISIONS["unequal"], target)
    score = {"epsilon": 1.0, "random_state": 0}
    there = private_score(fitted, DrawnInside.simulated(parties), **score)
    # Books of Gaussian releases ask for Gaussian noise, as several owners do.
    ledger = books(tmp_path, allow_nonprivate=True)
    here = private_score(fitted, frame[FEATURES], frame[target], ledger=ledger, **score)
    assert here.value == there.value
    shared = private_score(fitted, Federation.simulated(parties), epsilon=1.0)
    assert "several owners" in shared.privacy.why_solver


def test_steps_are_refused_before_the_first_is_charged(tmp_path):
    ledger = books(tmp_path)
    steps = (
        DPStandardScaler(bounds=(-2, 2), ledger=ledger),
        model(solver="noisy_sgd", solver_params={"batch_size": 50}, ledger=ledger),
    )
    with pytest.raises(Refused):
        federation().fit(make_pipeline(*steps))
    assert ledger.spends() == []
    # Broken twin: each step by itself charges the first one.
    with pytest.raises(Refused):
        make_pipeline(*steps).fit(federation())
    assert len(ledger.spends()) == 1


SEARCHED = {
    "linear": (DPLogisticRegression(classes=[0, 1]), {"C": [0.01, 1.0]}, "y"),
    "boosting": (
        DPGradientBoostingClassifier(columns=COLUMNS, classes=[0, 1], n_estimators=2),
        {"learning_rate": [0.1, 0.5]},
        "y",
    ),
}


def search(name, **given):
    model, grid, target = SEARCHED[name]
    facts = {"epsilon": 3.0, "method": "composition", **given}
    return DPGridSearchCV(clone(model), grid, **facts), target


@pytest.mark.parametrize("name", SEARCHED)
def test_searches_among_shares_are_charged_once(name, tmp_path):
    """Also where an owner has no record in one of the parts."""
    ledger = books(tmp_path)
    grid, target = search(name, ledger=ledger)
    source = federation(DIVISIONS["one row a party"], target)
    found = grid.fit(source)
    assert found.has_model_
    (spend,) = ledger.spends()
    assert spend.epsilon == pytest.approx(3.0, rel=1e-3)
    # Fits, one answer with the scores of both candidates, and the last fit.
    assert source.traffic.sizes.count(2) >= 1


class Stays(BoundedScaler):
    """Cannot be pickled, as what holds a lock or a connection."""

    def __reduce_ex__(self, protocol):
        raise TypeError("a lock")


def test_what_cannot_travel_is_refused_before_it_is_charged(tmp_path, monkeypatch):
    ledger = books(tmp_path)
    pipeline = make_pipeline(Stays(bounds=(-9, 9)), model(ledger=ledger))
    with pytest.raises(Refused, match=r"must be picklable.*Nothing was charged"):
        federation().fit(pipeline)
    assert ledger.spends() == []
    # The twin finds out when owners are asked.
    monkeypatch.setattr(_federation, "_check_travels", lambda *asked: None)
    with pytest.raises((TypeError, SourceError)):
        federation().fit(pipeline)
    assert len(ledger.spends()) == 1


@pytest.mark.parametrize(
    "given",
    [{"method": "random_stopping"}, {"method": "disjoint_splits"}, {"delta": 0.0}],
)
def test_searches_that_hide_something_are_refused(given, tmp_path):
    """Their events are those of what is released, and owners see all of it."""
    ledger = books(tmp_path)
    grid, _ = search("linear", ledger=ledger, **given)
    with pytest.raises(Refused, match=r"[Ss]everal owners"):
        grid.fit(federation())
    assert ledger.spends() == []


def test_rows_stay_with_their_owners(tmp_path):
    ledger = books(tmp_path)
    source = federation()
    fitted = model().fit(source)
    with pytest.raises(Refused, match=r"[Ss]everal owners"):
        private_score(fitted, source, epsilon=1.0, delta=0.0, ledger=ledger)
    with pytest.raises(ValueError, match="order"):
        fitted.predict(source)
    with pytest.raises(Refused, match="stay with their owners"):
        fitted.score(source)
    with pytest.raises(Refused, match="stay with their owners"):
        source.predict_to(fitted, tmp_path / "p.parquet", keys=["a"])
    assert ledger.spends() == []


def test_one_fit_is_charged_once_and_says_whom_it_trusts(tmp_path):
    ledger = books(tmp_path)
    source = federation(n_honest=1)
    record = model(ledger=ledger).fit(source).privacy_
    assert len(ledger.spends()) == 1
    assert any("1 of 3 owners" in fact for fact in record.assumed_public)
    assert source.traffic.sizes == (4,) * 8
    assert source.traffic.n_bytes == 8 * 4 * 8


def test_records_that_change_during_a_fit_end_it(tmp_path, monkeypatch):
    source, states = federation(), itertools.count()
    kind = type(source.owners._parts[0])
    answer = kind.answer
    monkeypatch.setattr(
        kind,
        "answer",
        lambda *asked: replace(answer(*asked), state=bytes([next(states)])),
    )
    with pytest.raises(SourceError, match="source changed"):
        model(ledger=books(tmp_path)).fit(source)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda parties: parties[:1], "from 2 to 512"),
        (lambda parties: [*parties, parties[0][0]], "a pair"),
        (
            lambda parties: [*parties, (parties[0][0], parties[1][1])],
            "at least one row",
        ),
        (
            lambda parties: [*parties, (parties[0][0][[]], parties[0][1])],
            "same columns",
        ),
    ],
)
def test_what_is_no_party_is_refused(change, error):
    with pytest.raises((TypeError, ValueError), match=error):
        Federation.simulated(change(divided(numbers(), (300, 301))))


@pytest.mark.parametrize("n_honest", [0, 3, 4, 1.5])
def test_readers_of_the_model_are_outside_of_the_honest(n_honest):
    with pytest.raises((TypeError, ValueError), match="n_honest"):
        federation(n_honest=n_honest)


def test_arrays_are_parties_too():
    frame = numbers()
    tables = [(X.to_numpy(), y.to_numpy()) for X, y in divided(frame, (300, 301))]
    named = model(random_state=0).fit(federation())
    assert model(random_state=0).fit(Federation.simulated(tables)).coef_.tobytes() == (
        named.coef_.tobytes()
    )
