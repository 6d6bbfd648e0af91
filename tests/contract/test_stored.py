"""What is stored says who wrote it; what this release could misread is refused."""

from __future__ import annotations

import copy
import json
import pickle
import sqlite3
from contextlib import closing

import joblib
import numpy as np
import pytest

import skdp
from skdp import BudgetLedger, DPLogisticRegression, RowNormClipper
from skdp._base import STATE_SCHEMA, StoredEstimator
from skdp.exceptions import InconsistentVersionWarning, LedgerError
from skdp.privacy import Budget, GaussianEvent, PrivacyRecord

# Models --------------------------------------------------------------------------


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
        patch.setattr("skdp._base.__version__", version)
        patch.setattr("skdp._base.STATE_SCHEMA", schema)
        return pickle.dumps(RowNormClipper())


@pytest.mark.parametrize("version", ["1.7.0", "7.0.0", "7.1.0rc1"])
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


def test_newer_state_is_refused(monkeypatch):
    content = stored_by("7.0.0", schema=3, monkeypatch=monkeypatch)
    with pytest.raises(ValueError, match=r"RowNormClipper .*number 2 .*Got 3.*7\.0"):
        pickle.loads(content)


@pytest.mark.parametrize("version", [None, 3, "", "new", "1", "0.1.0", "1.2\n"])
def test_version_that_is_none_is_refused(version, monkeypatch):
    content = stored_by(version, monkeypatch=monkeypatch)
    with pytest.raises(ValueError, match="must name the version"):
        pickle.loads(content)


def without_version(monkeypatch, kind, thing):
    """A pickle as version 0.1 wrote it, which named no version."""
    names = ("_skdp_version", "_skdp_schema", "skdp_version", "reserve_delta")
    state = {name: value for name, value in vars(thing).items() if name not in names}
    with monkeypatch.context() as patch:
        patch.setattr(kind, "__getstate__", lambda self: state)
        return pickle.dumps(thing)


def test_model_of_before_1_0_is_refused(monkeypatch):
    content = without_version(monkeypatch, StoredEstimator, RowNormClipper())
    with pytest.raises(ValueError, match=r"RowNormClipper .*1\.0 or later.*before 1"):
        pickle.loads(content)


def test_every_public_estimator_stores_its_version():
    for name in skdp.__all__:
        thing = getattr(skdp, name)
        # A federation fits others, and is not stored.
        is_fitted = isinstance(thing, type) and hasattr(thing, "fit")
        if is_fitted and name != "Federation":
            assert issubclass(thing, StoredEstimator), name
            state = thing.__new__(thing).__getstate__()
            assert state["_skdp_version"] == skdp.__version__


# Records -------------------------------------------------------------------------


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


def private_record():
    model = DPLogisticRegression(solver="noisy_gd", classes=[0, 1])
    return model.fit(np.eye(4), [0, 1, 0, 1]).privacy_


BAD_RECORDS = {
    "newer schema": ({"schema": 2}, "number 1 .*Got 2"),
    "schema of text": ({"schema": "1"}, "number 1 "),
    "no version": ({"skdp_version": None}, "must name the version"),
    "of before 1.0": ({"skdp_version": "0.1.0"}, "1.0 or later. Got '0.1.0'"),
    "unknown field": ({"bound": 1.0}, "the fields of a PrivacyRecord"),
    "unknown event": ({"event": {"event": "new"}}, "An event must be"),
    "unknown relation": ({"adjacency": "new"}, "adjacency"),
}


@pytest.mark.parametrize(("change", "match"), BAD_RECORDS.values(), ids=BAD_RECORDS)
def test_bad_record_is_refused(change, match):
    values = private_record().to_dict() | change
    with pytest.raises(ValueError, match=match):
        PrivacyRecord.from_dict(values)


@pytest.mark.parametrize("values", [[], "record", {}])
def test_what_is_no_record_is_refused(values):
    with pytest.raises(ValueError, match="A stored record must"):
        PrivacyRecord.from_dict(values)


def test_record_of_before_1_0_is_refused(monkeypatch):
    record = private_record()
    values = {k: v for k, v in record.to_dict().items() if k != "skdp_version"}
    for read in (
        lambda: PrivacyRecord.from_dict(values),
        lambda: PrivacyRecord.from_json(json.dumps(values)),
        lambda: pickle.loads(without_version(monkeypatch, PrivacyRecord, record)),
    ):
        with pytest.raises(ValueError, match=r"1\.0 or later.*before 1\.0.*again"):
            read()


# Ledgers -------------------------------------------------------------------------


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


def spent_ledger(folder):
    ledger = BudgetLedger(folder / "study.db", epsilon=10.0, delta=1e-6)
    ledger.commit(
        GaussianEvent(30.0),
        adjacency="replace_one",
        budget=Budget(1.0, 1e-6),
        label="fit",
    )
    return ledger


BEFORE_1_0 = {
    "schema 1": ("PRAGMA user_version=1", "version 2. Got version 1. Use the release"),
    "carried over": (
        "INSERT INTO carried VALUES (1, '{}')",
        "it has other tables than a ledger",
    ),
    "no versions": ("DROP TABLE versions", "names no version of skdp"),
}


@pytest.mark.parametrize(("change", "match"), BEFORE_1_0.values(), ids=BEFORE_1_0)
def test_ledger_of_before_1_0_is_refused_and_left_as_it_is(change, match, tmp_path):
    path = spent_ledger(tmp_path).path
    with closing(sqlite3.connect(path)) as connection:
        # As release candidates of 1.0 made it.
        connection.execute("CREATE TABLE carried (after INTEGER, balance TEXT)")
        connection.commit()
        assert len(BudgetLedger.open(path).spends(verify=True)) == 1
        connection.execute(change)
        connection.commit()
    before = (tmp_path / "study.db").read_bytes()
    with pytest.raises(LedgerError, match=match):
        BudgetLedger.open(path)
    assert (tmp_path / "study.db").read_bytes() == before


def test_handle_of_before_1_0_is_refused(tmp_path, monkeypatch):
    content = without_version(monkeypatch, BudgetLedger, spent_ledger(tmp_path))
    with pytest.raises(LedgerError, match=r"before skdp 1\.0\. Use the release"):
        pickle.loads(content)
