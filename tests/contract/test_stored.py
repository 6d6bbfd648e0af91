"""Stored files of every version load, mean what they meant, and say who wrote them."""

from __future__ import annotations

import copy
import importlib.util
import json
import pickle
import pickletools
import shutil
import sqlite3
import warnings
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import pytest

import skdp
from skdp import BudgetLedger, DPLogisticRegression, PrivacyRecord, RowNormClipper
from skdp._stored import STATE_SCHEMA, StoredEstimator
from skdp.exceptions import (
    BudgetExceeded,
    InconsistentVersionWarning,
    LedgerError,
)
from skdp.linear_model._base import DPEstimator
from skdp.privacy import (
    Budget,
    EpsilonDeltaEvent,
    GaussianEvent,
    NonPrivateEvent,
    PoissonGaussianEvent,
    PureEvent,
    _books,
    _states,
    _two_phases,
    epsilon_of,
)
from skdp.privacy.__main__ import main
from skdp.privacy._books import Balance, _balance_from, _balance_text
from skdp.privacy._charge import Charge
from skdp.privacy._codec import event_from_dict, event_to_dict
from skdp.privacy._gaussian import gaussian_mu, pure_mu

FOLDER = Path(__file__).parents[1] / "stored" / "0.1"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())

# Where pickles look for classes. Who moves one leaves an alias at the old place, and
# adds the new place: models that were stored before must go on loading.
PLACES = {
    "skdp.decomposition._factors": {"Factors"},
    "skdp.decomposition._ids": {"Ids"},
    "skdp.decomposition._matrix_factorization": {"DPMatrixFactorization"},
    "skdp.decomposition._ratings": {"Order", "Pattern"},
    "skdp.decomposition._recommender": {"Recommender"},
    "skdp.decomposition._task": {"Task"},
    "skdp.linear_model._linear_regression": {"DPLinearRegression"},
    "skdp.linear_model._logistic": {"DPLogisticRegression"},
    "skdp.linear_model._sparse_linear_regression": {"DPSparseLinearRegression"},
    "skdp.linear_model._sparse_logistic_regression": {"DPSparseLogisticRegression"},
    "skdp.linear_model._svc": {"DPLinearSVC"},
    "skdp.model_selection._grid_search": {"DPGridSearchCV", "DPRandomizedSearchCV"},
    "skdp.model_selection._private_score": {"PrivateScore"},
    "skdp.preprocessing._bounded_scaler": {"BoundedScaler"},
    "skdp.preprocessing._declared_one_hot_encoder": {"DeclaredOneHotEncoder"},
    "skdp.preprocessing._pca": {"DPPCA"},
    "skdp.preprocessing._quantile_clipper": {"DPQuantileClipper"},
    "skdp.preprocessing._row_norm_clipper": {"RowNormClipper"},
    "skdp.preprocessing._simple_imputer": {"DPSimpleImputer"},
    "skdp.preprocessing._standard_scaler": {"DPStandardScaler"},
    "skdp.privacy._events": {
        "BoundedRangeEvent",
        "ComposedEvent",
        "EpsilonDeltaEvent",
        "GaussianEvent",
        "LaplaceEvent",
        "NonPrivateEvent",
        "ObjectiveEvent",
        "PoissonGaussianEvent",
        "PureEvent",
    },
    "skdp.privacy._ledger": {"BudgetLedger"},
    "skdp.privacy._record": {"PrivacyRecord"},
    "skdp.privacy._search_events": {"ParallelEvent", "SelectionEvent"},
    "skdp.solvers._two_stage": {"Levels"},
}


def from_first():
    """What is loaded inside was written by version 0.1, and says so."""
    return pytest.warns(InconsistentVersionWarning, match=r"by skdp 0\.1 into")


def load(name):
    return pickle.loads((FOLDER / f"{name}.pickle").read_bytes())


def places_in(content):
    """What a pickle imports from skdp: pairs of a module and a name."""
    texts, memo, found, last = [], [], set(), None
    for operation, argument, _ in pickletools.genops(content):
        if operation.name in ("SHORT_BINUNICODE", "BINUNICODE"):
            texts.append(argument)
        elif operation.name == "MEMOIZE":
            memo.append(texts[-1] if "UNICODE" in last else None)
        elif operation.name in ("BINGET", "LONG_BINGET"):
            texts += [memo[argument]] if memo[argument] else []
        elif operation.name == "STACK_GLOBAL":
            found.add((texts[-2], texts[-1]))
        last = operation.name
    return {(module, name) for module, name in found if module.startswith("skdp")}


def unlisted(content, places=PLACES):
    return {
        pair for pair in places_in(content) if pair[1] not in places.get(pair[0], ())
    }


# Models --------------------------------------------------------------------------


def told_without_a_clip(model, rows):
    """Which rows no fit clips, and what version 0.1 predicted for all rows."""
    model = getattr(model, "best_estimator_", model)
    unclipped = rows @ model.coef_.T + model.intercept_
    if hasattr(model, "classes_"):
        top = unclipped.argmax(axis=1)
        codes = top if len(model.classes_) > 2 else (unclipped[:, 0] > 0).astype(int)
        unclipped = model.classes_[codes]
    return np.linalg.norm(rows, axis=1) <= model.privacy_.data_norm, unclipped


@pytest.mark.parametrize("name", EXPECTED["models"])
def test_stored_model_answers_as_it_did_but_for_rows_that_fit_clipped(name):
    told = EXPECTED["models"][name]
    with from_first() as caught:
        model = load(name)
    assert caught[-1].message.what == f"a fitted {type(model).__name__}"
    rows, expected = np.array(told["rows"]), np.array(told["answer"])
    if isinstance(getattr(model, "best_estimator_", model), DPEstimator):
        is_same, unclipped = told_without_a_clip(model, rows)
        np.testing.assert_allclose(unclipped, expected, rtol=1e-12, atol=0)
        rows, expected = rows[is_same], expected[is_same]
    answer = getattr(model, told["method"])(rows)
    np.testing.assert_allclose(answer, expected, rtol=1e-12, atol=0)
    assert not any("_skdp" in attribute for attribute in vars(model))
    if told["record"] is None:
        assert not hasattr(model, "privacy_")
        return
    written = model.privacy_.to_dict()
    assert (written.pop("skdp_version"), written.pop("schema")) == ("0.1", 1)
    assert told["record"].items() <= written.items()
    assert model.privacy_.statement() == told["statement"]
    # A tighter accountant may lower it.
    assert epsilon_of(model.privacy_.event, 1e-6) <= float(told["epsilon"]) * (1 + 1e-9)


def said_of_clips(caught):
    return ["did not clip" in str(warning.message) for warning in caught]


@pytest.mark.parametrize(
    "name", ["logistic", "sparse_regression", "search_composition"]
)
def test_stored_model_says_that_its_predictions_were_not_clipped(name):
    with from_first() as caught:
        model = load(name)
    assert any(said_of_clips(caught))
    model = getattr(model, "best_estimator_", model)
    rows = 5 * np.eye(3)
    norms = np.full(3, 5 / model.privacy_.data_norm)
    raw = getattr(model, "decision_function", model.predict)
    assert np.allclose(raw(rows), raw(rows / norms[:, None]))
    with warnings.catch_warnings(record=True) as again:
        warnings.simplefilter("always")
        pickle.loads(pickle.dumps(model))  # now it is of this version
    assert not again


@pytest.mark.parametrize("name", ["logistic_exact", "standard_scaler", "factorization"])
def test_stored_thing_that_is_as_it_was_says_nothing_of_clips(name):
    with from_first() as caught:
        load(name)
    assert not any(said_of_clips(caught))


def test_broken_twin_that_does_not_clip_is_found(monkeypatch):
    with from_first():
        model = load("sparse_regression")
    monkeypatch.setattr(DPEstimator, "_products", lambda self, X, coef: X @ coef)
    assert not np.allclose(model.predict(5 * np.eye(3)), model.predict(np.eye(3)))


def test_stored_score_reads():
    score = load("score")
    assert float(score) == EXPECTED["score"]
    assert "GaussianEvent" not in repr(score)
    assert score.privacy.skdp_version == "0.1"


def test_stored_model_fits_again_and_then_is_of_this_version():
    with from_first():
        model = load("standard_scaler")
    X = np.random.default_rng(0).uniform(-1, 1, (50, 3))
    model.fit(X)
    assert model.privacy_.skdp_version == skdp.__version__
    pickle.loads(pickle.dumps(model))  # no warning


@pytest.mark.parametrize("store", ["pickle", "joblib", "copy"])
def test_this_version_loads_silently(store, tmp_path):
    model = DPLogisticRegression(classes=[0, 1]).fit(np.eye(4), [0, 1, 0, 1])
    if store == "joblib":
        joblib.dump(model, tmp_path / "model")
        again = joblib.load(tmp_path / "model")
    else:
        again = {"pickle": lambda x: pickle.loads(pickle.dumps(x))}.get(
            store, copy.deepcopy
        )(model)
    assert vars(again).keys() == vars(model).keys()
    assert again.privacy_ == model.privacy_
    assert again.privacy_.skdp_version == skdp.__version__


def stored_by(version, schema=STATE_SCHEMA, monkeypatch=None):
    """A pickle that another version wrote."""
    with monkeypatch.context() as patch:
        patch.setattr("skdp._stored.__version__", version)
        patch.setattr("skdp._stored.STATE_SCHEMA", schema)
        return pickle.dumps(RowNormClipper())


@pytest.mark.parametrize("version", ["0.1.7", "7.0.0", "7.1.0rc1"])
def test_other_minor_version_warns_with_a_remedy(version, monkeypatch):
    content = stored_by(version, monkeypatch=monkeypatch)
    with pytest.warns(InconsistentVersionWarning) as caught:
        pickle.loads(content)
    (warning,) = caught
    assert warning.filename == __file__
    message = warning.message
    assert message.original_version == version
    assert message.current_version == skdp.__version__
    for part in ("a fitted RowNormClipper", version, skdp.__version__, message.remedy):
        assert part in str(message)
    again = pickle.loads(pickle.dumps(message))
    assert (str(again), again.what) == (str(message), message.what)


def test_patch_releases_do_not_warn(monkeypatch):
    monkeypatch.setattr("skdp._versions.__version__", "7.1.2")
    pickle.loads(stored_by("7.1.0", monkeypatch=monkeypatch))


def test_newer_state_is_refused(monkeypatch):
    content = stored_by("7.0.0", schema=3, monkeypatch=monkeypatch)
    with pytest.raises(ValueError, match=r"RowNormClipper .* 1 to 2 .*Got 3.*7\.0\.0"):
        pickle.loads(content)


def test_broken_twin_that_ignores_the_schema_misreads(monkeypatch):
    content = stored_by("7.0.0", schema=3, monkeypatch=monkeypatch)
    monkeypatch.setattr("skdp._stored.check_schema", lambda *arguments: None)
    with pytest.warns(InconsistentVersionWarning):
        assert isinstance(pickle.loads(content), RowNormClipper)


@pytest.mark.parametrize("version", [3, "", "new", "1", "0.2\n"])
def test_version_that_is_none_is_refused(version, monkeypatch):
    content = stored_by(version, monkeypatch=monkeypatch)
    with pytest.raises(ValueError, match="must name the version"):
        pickle.loads(content)


# Places --------------------------------------------------------------------------


def test_stored_pickles_look_where_the_list_says():
    found = set()
    for path in FOLDER.glob("*.pickle"):
        assert unlisted(path.read_bytes()) == set(), path.name
        found |= places_in(path.read_bytes())
    listed = {(module, name) for module, names in PLACES.items() for name in names}
    assert found >= listed


def resolved(module, name):
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("module", PLACES)
def test_every_place_still_holds_its_class(module):
    for name in PLACES[module]:
        assert resolved(module, name).__name__ == name


def test_broken_twin_that_moved_a_class_without_an_alias_is_found(monkeypatch):
    monkeypatch.delattr("skdp.privacy._events.GaussianEvent")
    with pytest.raises(AttributeError):
        resolved("skdp.privacy._events", "GaussianEvent")
    with pytest.raises(AttributeError, match="GaussianEvent"):
        load("events")


def test_what_is_stored_now_looks_nowhere_else(books):
    spec = importlib.util.spec_from_file_location("make", FOLDER / "make.py")
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    models = make.models(open_books(books))
    assert models.keys() == EXPECTED["models"].keys()
    for name, (model, _, _) in models.items():
        assert unlisted(pickle.dumps(model, protocol=4)) == set(), name


def test_broken_twin_with_a_class_of_another_place_is_found():
    model = RowNormClipper()
    model.budget_ = Budget(1.0, 1e-6)
    assert unlisted(pickle.dumps(model, protocol=4)) == {
        ("skdp.privacy._accounting", "Budget")
    }


def test_every_public_estimator_stores_its_version():
    for name in skdp.__all__:
        thing = getattr(skdp, name)
        # A federation fits others, and is not stored.
        is_fitted = isinstance(thing, type) and hasattr(thing, "fit")
        if is_fitted and name != "Federation":
            assert issubclass(thing, StoredEstimator), name
            state = thing.__new__(thing).__getstate__()
            assert state["_skdp_version"] == skdp.__version__


# Events and records --------------------------------------------------------------


def test_stored_events_are_those_in_the_books(books):
    stored = load("events")
    for event, spend in zip(stored[:-1], open_books(books).spends(), strict=False):
        assert event == spend.event == event_from_dict(event_to_dict(event))


def test_stored_record_reads():
    text = (FOLDER / "record.json").read_text()
    with from_first() as caught:
        record = PrivacyRecord.from_json(text)
    assert caught[0].filename == __file__
    assert record == load("record")
    assert record.skdp_version == "0.1"
    assert json.loads(text).items() <= record.to_dict().items()


@pytest.mark.parametrize("name", EXPECTED["models"])
def test_every_stored_record_survives_reading(name):
    values = EXPECTED["models"][name]["record"]
    if values is None:
        return
    with from_first():
        written = PrivacyRecord.from_dict(values).to_dict()
    assert values.items() <= written.items()


def test_record_of_this_version_comes_back_silently():
    model = DPLogisticRegression(solver="noisy_gd", classes=[0, 1], epsilon=np.inf).fit(
        np.eye(4), [0, 1, 0, 1]
    )
    record = model.privacy_
    values = json.loads(record.to_json())
    assert (values["schema"], values["skdp_version"]) == (1, skdp.__version__)
    again = PrivacyRecord.from_json(record.to_json())
    assert again == record
    assert again.epsilon == np.inf


BAD_RECORDS = {
    "newer schema": ({"schema": 2}, "from 1 to 1 .*Got 2"),
    "schema of text": ({"schema": "1"}, "from 1 to 1"),
    "no version": ({"skdp_version": None}, "must name the version"),
    "unknown field": ({"bound": 1.0}, "the fields of a PrivacyRecord"),
    "unknown event": ({"event": {"event": "new"}}, "An event must be"),
    "unknown relation": ({"adjacency": "new"}, "adjacency"),
}


@pytest.mark.parametrize(("change", "match"), BAD_RECORDS.values(), ids=BAD_RECORDS)
def test_bad_record_is_refused(change, match):
    values = load("record").to_dict() | {"skdp_version": skdp.__version__} | change
    with pytest.raises(ValueError, match=match):
        PrivacyRecord.from_dict(values)


@pytest.mark.parametrize("values", [[], "record", {}])
def test_what_is_no_record_is_refused(values):
    with pytest.raises(ValueError, match="A stored record must"):
        PrivacyRecord.from_dict(values)


# Ledgers -------------------------------------------------------------------------


@pytest.fixture
def books(tmp_path):
    path = tmp_path / "study.db"
    shutil.copy(FOLDER / "study.db", path)
    return path


def open_books(path):
    with pytest.warns(InconsistentVersionWarning, match="the ledger"):
        return BudgetLedger.open(path)


def test_stored_ledger_opens_verifies_and_sums(books):
    before = books.read_bytes()
    ledger = open_books(books)
    told = EXPECTED["ledger"]
    # A tighter accountant may lower what was spent and raise what is left.
    assert ledger.spent().epsilon <= told["spent"] * (1 + 1e-9)
    assert ledger.remaining().epsilon >= told["remaining"][0] * (1 - 1e-9)
    assert ledger.remaining().delta == told["remaining"][1]
    alone = ledger.to_frame()["epsilon_alone"].to_numpy()
    assert (alone <= np.array(told["epsilon_alone"]) * (1 + 1e-9)).all()
    assert {spend.skdp_version for spend in ledger.spends()} == {"0.1"}
    assert books.read_bytes() == before


def test_stored_ledger_is_charged_and_then_silent(books):
    ledger = open_books(books)
    n_spends, spent = len(ledger.spends()), ledger.spent().epsilon
    model = DPLogisticRegression(solver="noisy_gd", classes=[0, 1], ledger=ledger)
    model.fit(np.eye(4), [0, 1, 0, 1])
    again = BudgetLedger.open(books)  # no warning
    versions = [spend.skdp_version for spend in again.spends()]
    assert versions == ["0.1"] * n_spends + [skdp.__version__]
    assert again.spent().epsilon > spent


def test_stored_handle_keeps_the_same_books(books):
    handle = load("ledger")
    assert handle.path == "study.db"  # stored without the folder
    handle.path = str(books)
    assert handle == open_books(books)
    handle.commit(
        GaussianEvent(30.0),
        adjacency="replace_one",
        budget=Budget(1.0, 1e-6),
        label="more",
    )
    assert handle.spends()[-1].label == "more"


def test_stored_model_is_charged_to_its_ledger(books):
    with from_first():
        model = load("logistic")
    model.ledger.path = str(books)
    n_spends = len(model.ledger.spends())
    model.fit(np.eye(3), [0, 1, 2])
    assert len(model.ledger.spends()) == n_spends + 1


def test_broken_twin_with_a_forged_spend_of_the_stored_ledger_is_found(books):
    with closing(sqlite3.connect(books)) as connection:
        connection.execute("UPDATE spends SET label = 'other' WHERE id = 3")
        connection.commit()
    with pytest.raises(LedgerError, match="chain of digests"):
        BudgetLedger.open(books)


def test_new_ledger_is_silent_and_names_the_version(tmp_path):
    ledger = BudgetLedger(tmp_path / "new.db", epsilon=10.0, delta=1e-6)
    BudgetLedger(ledger.path, epsilon=10.0, delta=1e-6)
    for number in range(2):
        ledger.commit(
            GaussianEvent(30.0),
            adjacency="replace_one",
            budget=Budget(1.0, 1e-6),
            label=str(number),
        )
    assert [s.skdp_version for s in ledger.spends()] == [skdp.__version__] * 2
    with closing(sqlite3.connect(ledger.path)) as connection:
        assert connection.execute("SELECT * FROM versions").fetchall() == [
            (1, skdp.__version__)
        ]
        connection.execute("UPDATE versions SET skdp_version = 'x'")
        connection.commit()
    with pytest.raises(LedgerError, match="must name the version"):
        ledger.spends()


# Ledgers of schema 1, which knew no charges --------------------------------------

BEFORE = FOLDER.parent / "schema_1"
BOOKS = json.loads((BEFORE / "expected.json").read_text())


def before(name, folder):
    shutil.copy(BEFORE / f"{name}.db", folder / f"{name}.db")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentVersionWarning)
        return BudgetLedger.open(folder / f"{name}.db")


def book(ledger, event, asked=1e-7):
    budget = Budget(1.0, min(asked, ledger.delta))
    ledger.commit(event, adjacency="replace_one", budget=budget, label="new")


def schema_of(ledger):
    with closing(sqlite3.connect(ledger.path)) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


@pytest.mark.parametrize("name", BOOKS)
def test_ledger_without_charges_promises_what_it_promised(name, tmp_path):
    ledger, told = before(name, tmp_path), BOOKS[name]
    content = Path(ledger.path).read_bytes()
    assert ledger.spent().epsilon <= float(told["spent"]) * (1 + 1e-9)
    epsilon, delta, pure = told["remaining"]
    left = ledger.remaining()
    assert left.epsilon >= epsilon * (1 - 1e-9)
    assert left.delta == delta
    assert left.pure_epsilon >= pure * (1 - 1e-9)
    assert (ledger.reserve_epsilon, ledger.reserve_delta) == (0.0, ledger.delta / 2)
    assert len(ledger.spends(verify=True)) == len(ledger.to_frame())
    assert Path(ledger.path).read_bytes() == content
    assert schema_of(ledger) == 1


@pytest.mark.parametrize("name", ["first", "second", "empty"])
def test_what_was_left_is_admitted_after_the_change_of_schema(name, tmp_path):
    ledger = before(name, tmp_path)
    epsilon, delta, _ = BOOKS[name]["remaining"]
    ledger.commit(
        GaussianEvent(1 / gaussian_mu(epsilon, delta)),
        adjacency="replace_one",
        budget=Budget(epsilon, delta),
        label="all that was left",
    )
    assert schema_of(ledger) == 2
    assert ledger.spent().epsilon <= 3.0
    with pytest.raises(BudgetExceeded):
        book(ledger, PureEvent(0.1))


def test_sampled_spends_are_charged_what_they_were(tmp_path):
    ledger, told = before("sampled", tmp_path), BOOKS["sampled"]
    assert np.isclose(ledger.spent().epsilon, float(told["spent"]), rtol=1e-9, atol=0)
    epsilon = told["remaining"][0]
    assert np.isclose(ledger.remaining().epsilon, epsilon, rtol=1e-9, atol=0)
    book(ledger, PureEvent(0.9 * epsilon))
    assert ledger.spent().epsilon <= 3.0
    assert len(ledger.spends(verify=True)) == 4


def test_broken_twin_with_later_accounting_leaves_old_books_unusable(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(_two_phases, "first_epsilon", epsilon_of)
    _two_phases._epsilon_alone.cache_clear()
    ledger = before("sampled", tmp_path)
    assert ledger.spent().epsilon == np.inf
    book(ledger, NonPrivateEvent())  # no infinity breaks the file
    assert ledger.spent().epsilon == np.inf
    with pytest.raises(BudgetExceeded):
        book(ledger, PureEvent(0.1))
    _two_phases._epsilon_alone.cache_clear()


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"epsilon": -9.0}', '{"is_void": false}']
)
def test_balance_without_its_form_is_refused_under_any_digest(
    text, tmp_path, monkeypatch
):
    ledger = before("first", tmp_path)
    monkeypatch.setattr(_books, "_balance_text", lambda balance: text)
    book(ledger, PureEvent(0.01))
    with pytest.raises(LedgerError, match="damaged or forged"):
        ledger.spends()


def test_balance_is_read_as_it_was_written():
    balance = Balance(Charge(0.5, np.inf, 0.25, is_void=True), np.inf, 1e-7)
    assert _balance_from(_balance_text(balance)) == balance


@pytest.mark.parametrize("name", BOOKS)
def test_spends_without_charges_are_settled_once_and_for_good(
    name, tmp_path, monkeypatch
):
    ledger = before(name, tmp_path)
    spent, old = ledger.spent().epsilon, ledger.spends()
    book(ledger, PureEvent(0.01))
    assert schema_of(ledger) == 2
    assert ledger.spent().epsilon > spent or spent == np.inf

    def again(*_):
        raise AssertionError("charged again")

    monkeypatch.setattr(_states, "settled", again)
    fresh = BudgetLedger.open(ledger.path)  # no warning: this version wrote last
    total = fresh.spent().epsilon
    assert fresh.spends()[:-1] == old
    assert [spend.charge is None for spend in fresh.spends()] == [True] * len(old) + [
        False
    ]
    assert len(fresh.spends(verify=True)) == len(old) + 1
    book(fresh, PureEvent(0.01))
    assert fresh.spent().epsilon > total or total == np.inf
    # The twin: a file that is not carried over has to be charged again.
    with pytest.raises(AssertionError, match="charged again"):
        before("second", tmp_path).spent()


def state_of(ledger):
    return ledger._state(ledger._books.read())


def test_first_phase_goes_on_with_what_is_left_of_the_cap(tmp_path):
    ledger = before("first", tmp_path)
    state = state_of(ledger)
    epsilon, delta = state.spent.epsilon, state.spent.delta
    assert epsilon < 3.0 - BOOKS["first"]["remaining"][0] + 1e-9
    assert delta == 3e-7
    book(ledger, GaussianEvent(9.0))
    state = state_of(ledger)
    assert state.room.epsilon == 0
    assert state.room.delta == pytest.approx((1e-6 - delta) / 2)
    whole = gaussian_mu(3.0 - epsilon, (1e-6 - delta) / 2) ** 2
    assert state.room.mu_squared == pytest.approx(whole - 1 / 81)
    sampled = PoissonGaussianEvent(2.5, 0.01, 200, "replace_one")
    book(ledger, sampled)
    assert state_of(ledger).spent.epsilon == epsilon


def test_second_phase_has_only_its_squares_left(tmp_path):
    ledger = before("second", tmp_path)
    state = state_of(ledger)
    assert (state.room.epsilon, state.room.delta) == (0, 0)
    for event in (
        PoissonGaussianEvent(9.0, 0.01, 10, "replace_one"),
        EpsilonDeltaEvent(0.01, 1e-9),
    ):
        with pytest.raises(BudgetExceeded):
            book(ledger, event)
    book(ledger, PureEvent(0.05))
    after = state_of(ledger)
    assert after.spent == replace(
        state.spent, mu_squared=state.spent.mu_squared + pure_mu(0.05) ** 2
    )


def test_forged_balance_is_found(tmp_path):
    ledger = before("first", tmp_path)
    book(ledger, PureEvent(0.01))
    with closing(sqlite3.connect(ledger.path)) as connection:
        connection.execute(
            """UPDATE carried SET balance = replace(balance, '"delta": 3e-07', """
            """'"delta": 1e-07')"""
        )
        connection.commit()
    with pytest.raises(LedgerError, match="digests"):
        ledger.spent()


def with_all_digests(path):
    """Compute the whole chain anew, as who knows the code can."""
    with closing(sqlite3.connect(path)) as connection:
        terms = connection.execute("SELECT * FROM books").fetchone()
        link = _books._first_link(terms)
        carried = connection.execute("SELECT * FROM carried").fetchone() or (0, "")
        rows = connection.execute("SELECT * FROM spends ORDER BY id").fetchall()
        for number, row in enumerate(rows, start=1):
            link = _books._next_link(link, row[:6] if number <= carried[0] else row)
            if number == carried[0]:
                link = _books._next_link(link, ("carried", *carried))
        connection.execute("UPDATE books SET head = ?", (link,))
        connection.commit()


@pytest.mark.parametrize("name", ["first", "second", "sampled"])
def test_balance_is_looked_over_too(name, tmp_path):
    ledger = before(name, tmp_path)
    book(ledger, GaussianEvent(40.0))
    with_all_digests(ledger.path)
    assert ledger.spends(verify=True)
    spent = ledger.spent().epsilon
    told = _balance_text(Balance(Charge(), 0.0, 0.0))
    with closing(sqlite3.connect(ledger.path)) as connection:
        connection.execute("UPDATE carried SET balance = ?", (told,))
        connection.commit()
    with_all_digests(ledger.path)
    # No digest can tell; only finding the charges again does.
    assert BudgetLedger.open(ledger.path).spent().epsilon < spent
    with pytest.raises(LedgerError, match="Got another balance"):
        ledger.spends(verify=True)


def test_an_empty_ledger_is_told_its_set_asides_with_its_first_spend(tmp_path):
    """A later default would otherwise change them under its spends."""
    ledger = before("empty", tmp_path)
    book(ledger, GaussianEvent(9.0))
    state = state_of(ledger)
    for values, match in (
        ((None, None), "set-asides"),
        ((0.0, 9e-7), "digests"),
    ):
        forged = shutil.copy(ledger.path, tmp_path / "forged.db")
        with closing(sqlite3.connect(forged)) as connection:
            connection.execute(
                "UPDATE books SET reserve_epsilon = ?, reserve_delta = ?", values
            )
            connection.commit()
        with pytest.raises(LedgerError, match=match):
            BudgetLedger.open(forged).spent()
    assert state_of(BudgetLedger.open(ledger.path)) == state


def test_books_tell_the_set_asides_that_are_in_force(tmp_path, capsys):
    ledger = before("second", tmp_path)
    book(ledger, GaussianEvent(40.0))
    assert main([ledger.path]) == 0
    reserve = state_of(ledger).reserve
    assert reserve.epsilon > 1
    told = f"set aside  epsilon {reserve.epsilon:g}, delta {reserve.delta:g},"
    assert told in capsys.readouterr().out


def test_old_release_is_kept_out_of_a_ledger_that_has_charges(tmp_path):
    """Version 0.1 reads schema 1 only, so it cannot overlook a charge."""
    ledger = before("first", tmp_path)
    book(ledger, PureEvent(0.01))
    assert schema_of(ledger) > 1
    # The same for a process that had opened the file before it was changed: the rows
    # are longer than the ones it knows, and their digests others.
    with closing(sqlite3.connect(ledger.path)) as connection:
        assert len(connection.execute("SELECT * FROM spends").fetchone()) == 7
        assert len(connection.execute("SELECT * FROM books").fetchone()) == 10
