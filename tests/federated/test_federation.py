"""Fits to a federation: the integers of the pooled table, or a refusal for nothing."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline

from skdp import (
    BoundedScaler,
    BudgetExceeded,
    BudgetLedger,
    DPGradientBoostingClassifier,
    DPGridSearchCV,
    DPLinearRegression,
    DPLogisticRegression,
    DPMLPClassifier,
    DPStandardScaler,
    private_score,
)
from skdp.exceptions import Refused, SourceError
from skdp.federated import Federation, _federation
from skdp.io import TableSource
from skdp.io._table import SourceTable
from skdp.privacy.noise import _noise
from skdp.solvers import SOLVERS
from tests.federated.owned import DIVISIONS, divided, federation, model
from tests.io.places import COLUMNS, FEATURES, N, numbers, with_holes
from tests.io.test_same_bits import GD, MODELS, released
from tests.io.test_solvers import model_for
from tests.wide import covering

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


@pytest.mark.parametrize(
    ("name", "division"), covering(itertools.product(SHARED, DIVISIONS))
)
def test_integers_are_those_of_the_pooled_table(name, division):
    frame, (given, target) = numbers(), MODELS[name]
    here = clone(given).fit(frame[FEATURES], frame[target])
    parties = divided(frame, DIVISIONS[division], target)
    there = clone(given).fit(DrawnInside.simulated(parties))
    for one, other in zip(released(here), released(there), strict=True):
        assert one.tobytes() == other.tobytes()


def test_broken_twin_that_loses_a_record_has_other_integers():
    frame, (given, target) = numbers(), MODELS["noisy_gd"]
    here = clone(given).fit(frame[FEATURES], frame[target])
    parties = divided(frame, (450,), target)
    parties[1][1].iloc[0] = 1 - parties[1][1].iloc[0]
    there = clone(given).fit(DrawnInside.simulated(parties))
    assert released(here)[0].tobytes() != released(there)[0].tobytes()


@pytest.mark.parametrize("name", SHARED)
def test_every_estimator_of_sums_fits_shares(name):
    given, target = MODELS[name]
    source = federation(target=target)
    fitted = clone(given).fit(source)
    assert all(np.isfinite(part).all() for part in released(fitted))
    assert source.traffic.n_rounds >= 1


def test_without_noise_owners_differ_by_their_rounding_only(monkeypatch):
    frame = numbers()

    def no_draws(law, ratio, size, entropy):
        return np.zeros(size, dtype=np.int64)

    monkeypatch.setattr(_noise, "rounded_draws", no_draws)
    here = model(random_state=0).fit(frame[FEATURES], frame["y"])
    there = model(random_state=0).fit(federation())
    steps = 3 * 8 * 2.0**-11 / N  # parties, steps, a grid of 2^-12 of the sensitivity
    assert np.abs(here.coef_ - there.coef_).max() < 40 * steps


def test_a_refusal_comes_before_the_books(tmp_path):
    ledger = books(tmp_path)
    refused = [
        DPLogisticRegression(np.inf, classes=[0, 1]),
        DPLogisticRegression(1.0, delta=0.0, classes=[0, 1], ledger=ledger),
        DPMLPClassifier(1.0, classes=[0, 1], **SAMPLED, ledger=ledger),
        model(solver="noisy_sgd", solver_params={"batch_size": 50}, ledger=ledger),
    ]
    for one in refused:
        before = dict(vars(one))
        with pytest.raises(Refused, match=r"Several owners|No solver can"):
            one.fit(federation())
        assert vars(one) == before
    assert ledger.spends() == []


@pytest.mark.parametrize("key", sorted(SOLVERS))
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


def test_solvers_of_full_sums_are_supported():
    assert SUMS <= SOLVERS.keys()


@pytest.mark.parametrize("name", SHARED)
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


def test_a_score_of_a_model_that_cannot_be_told_is_refused(tmp_path):
    ledger, frame = books(tmp_path), numbers()
    forest = RandomForestClassifier(3).fit(frame[FEATURES], frame["y"])
    with pytest.raises(Refused, match="must be able to tell"):
        private_score(forest, federation(), epsilon=1.0, ledger=ledger)
    assert ledger.spends() == []


def test_steps_are_refused_before_the_first_is_booked(tmp_path):
    ledger = books(tmp_path)
    steps = (
        DPStandardScaler(bounds=(-2, 2), ledger=ledger),
        model(solver="noisy_sgd", solver_params={"batch_size": 50}, ledger=ledger),
    )
    with pytest.raises(Refused):
        federation().fit(make_pipeline(*steps))
    assert ledger.spends() == []
    # Broken twin: each step by itself books the first one.
    with pytest.raises(Refused):
        make_pipeline(*steps).fit(federation())
    assert len(ledger.spends()) == 1


def test_a_pipeline_fitted_as_one_has_the_traffic_of_all_steps():
    source = federation()
    given, _ = MODELS["standard"]
    source.fit(clone(given).set_params(dpstandardscaler__random_state=None))
    assert source.traffic.n_rounds == 1 + GD["solver_params"]["n_steps"]


def test_a_fit_that_is_refused_leaves_the_model_as_it_was(tmp_path):
    """Found in review: zeros of the rehearsal stayed, with a record of a release."""
    one = model(ledger=books(tmp_path, epsilon=0.5))
    before = dict(vars(one))
    with pytest.raises(BudgetExceeded):
        one.fit(federation())
    assert vars(one) == before


SEARCHED = {
    "linear": (DPLogisticRegression(classes=[0, 1]), {"C": [0.01, 1.0]}, "y"),
    "declared": (
        DPLogisticRegression(classes=[0, 1], columns=COLUMNS),
        {"C": [1.0, 10.0]},
        "y",
    ),
    "moments": (
        DPLinearRegression(solver="adassp", target_bounds=(0, 1)),
        {"alpha": [1e-4, 1e-2]},
        "t",
    ),
    "boosting": (
        DPGradientBoostingClassifier(columns=COLUMNS, classes=[0, 1], n_estimators=5),
        {"learning_rate": [0.1, 0.5]},
        "y",
    ),
    "network": (
        DPMLPClassifier(classes=[0, 1], solver="noisy_gd"),
        {"alpha": [1e-4, 1e-2]},
        "y",
    ),
}


def search(name, **given):
    model, grid, target = SEARCHED[name]
    facts = {"epsilon": 3.0, "method": "composition", **given}
    return DPGridSearchCV(clone(model), grid, **facts), target


@pytest.mark.parametrize(
    ("name", "division"),
    covering(itertools.product(SEARCHED, ["unequal", "one row a party"])),
)
def test_searches_are_those_of_the_pooled_table(name, division):
    frame, (grid, target) = numbers(), search(name, random_state=0)
    here = clone(grid).fit(frame[FEATURES], frame[target])
    parties = divided(frame, DIVISIONS[division], target)
    there = clone(grid).fit(DrawnInside.simulated(parties))
    scores = [one.cv_results_["mean_test_score"] for one in (here, there)]
    assert scores[0].tobytes() == scores[1].tobytes()
    best = [released(one.best_estimator_) for one in (here, there)]
    for one, other in zip(*best, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("name", SEARCHED)
def test_searches_among_shares_are_booked_once(name, tmp_path):
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


def test_what_cannot_travel_is_refused_before_it_is_booked(tmp_path, monkeypatch):
    ledger = books(tmp_path)
    pipeline = make_pipeline(Stays(bounds=(-9, 9)), model(ledger=ledger))
    with pytest.raises(Refused, match=r"must be picklable.*Nothing was booked"):
        federation().fit(pipeline)
    assert ledger.spends() == []
    # The twin finds out when owners are asked.
    monkeypatch.setattr(_federation, "_check_travels", lambda *asked: None)
    with pytest.raises((TypeError, SourceError)):
        federation().fit(pipeline)
    assert len(ledger.spends()) == 1


def test_no_owner_gives_an_exact_score(monkeypatch):
    """Broken twin: scored as other sources are, rows would have to come here."""
    grid, _ = search("linear")
    monkeypatch.setattr(SourceTable, "is_shared", False)
    with pytest.raises(Refused, match=r"Several owners|stay with their owners"):
        grid.fit(federation())


@pytest.mark.parametrize(
    "given",
    [{"method": "random_stopping"}, {"method": "disjoint_splits"}, {"delta": 0.0}],
)
def test_searches_that_hide_something_are_refused(given, tmp_path):
    """Their events are those of what is released, and owners see all of it."""
    ledger = books(tmp_path)
    grid, _ = search("linear", ledger=ledger, **given)
    with pytest.raises(Refused, match="Several owners"):
        grid.fit(federation())
    assert ledger.spends() == []


def test_rows_stay_with_their_owners(tmp_path):
    ledger = books(tmp_path)
    source = federation()
    fitted = model().fit(source)
    with pytest.raises(Refused, match="Several owners"):
        private_score(fitted, source, epsilon=1.0, delta=0.0, ledger=ledger)
    with pytest.raises(ValueError, match="order"):
        fitted.predict(source)
    with pytest.raises(Refused, match="stay with their owners"):
        fitted.score(source)
    with pytest.raises(Refused, match="stay with their owners"):
        source.predict_to(fitted, tmp_path / "p.parquet", keys=["a"])
    assert ledger.spends() == []


def test_one_fit_is_booked_once_and_says_whom_it_trusts(tmp_path):
    ledger = books(tmp_path)
    source = federation(n_honest=1)
    record = model(ledger=ledger).fit(source).privacy_
    assert len(ledger.spends()) == 1
    assert any("1 of 3 owners" in fact for fact in record.assumed_public)
    assert source.traffic.sizes == (4,) * 8
    assert source.traffic.n_bytes == 8 * 4 * 8


def test_a_ledger_that_is_full_refuses_before_anybody_is_asked(tmp_path):
    source = federation()

    def never(*asked):
        raise AssertionError

    source.owners.answers = never
    with pytest.raises(BudgetExceeded):
        model(ledger=books(tmp_path, epsilon=0.5)).fit(source)


def test_the_noise_of_all_shares_is_reported():
    half, most = federation(n_honest=1), federation(n_honest=2)
    one = model(random_state=0).fit(half).privacy_
    other = model(random_state=0).fit(most).privacy_
    assert one.noise_multiplier == other.noise_multiplier
    assert one.noise_scale / other.noise_scale == pytest.approx(np.sqrt(2), rel=0.05)


def test_a_party_without_a_positive_label_changes_nothing():
    frame = numbers().sort_values("y", kind="stable")
    here = model(random_state=0).fit(frame[FEATURES], frame["y"])
    parties = divided(frame, (100,))
    assert set(parties[0][1]) == {0}
    there = model(random_state=0).fit(DrawnInside.simulated(parties))
    assert here.coef_.tobytes() == there.coef_.tobytes()


def test_rows_that_cannot_be_read_are_null_records_wherever_they_are():
    frame, bad = with_holes()
    source = federation(frame=frame)
    there = model(random_state=0).fit(source)
    filled = frame.assign(**{name: frame[name].where(~bad, np.nan) for name in "abc"})
    again = model(random_state=0).fit(federation(frame=filled))
    assert there.coef_.tobytes() == again.coef_.tobytes()


def test_arrays_are_parties_too():
    frame = numbers()
    tables = [(X.to_numpy(), y.to_numpy()) for X, y in divided(frame, (300, 301))]
    named = model(random_state=0).fit(federation())
    assert model(random_state=0).fit(Federation.simulated(tables)).coef_.tobytes() == (
        named.coef_.tobytes()
    )


def test_models_of_arrays_predict_arrays_without_a_warning():
    frame = numbers()
    X, y = frame[FEATURES].to_numpy(), frame["y"].to_numpy()
    source = Federation.simulated([(X[:400], y[:400]), (X[400:], y[400:])])
    for given in ({}, {"columns": (-2, 2)}, {"columns": [(-2, 2)] * 3}):
        one = model(**given).fit(source)
        assert not hasattr(one, "feature_names_in_")
        assert one.predict(X).shape == (N,)


def test_rehearsals_are_silent(capsys):
    one = model().set_params(verbose=True)
    one.fit(federation())
    assert capsys.readouterr().out.count("step 8 of 8") == 1


def test_records_that_change_during_a_fit_end_it(tmp_path):
    source = federation()
    states = iter(range(10**6))
    part = source.owners._parts[0]
    type(part.rows).state, before = (
        lambda self: bytes([next(states) % 251]),
        type(part.rows).state,
    )
    try:
        with pytest.raises((SourceError, ValueError)):
            model(ledger=books(tmp_path)).fit(source)
    finally:
        type(part.rows).state = before


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
