"""Scores and descriptions of users of sources: neighbours, and others' places.

One transcript is replayed on a table in which one user has other rows, or none
(`skdp.audit._exact`). A model whose predictions depend on places stands for whatever
rounds by them. That bits are those of memory is in `test_same_bits.py`.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from skdp import (
    BudgetLedger,
    describe,
    private_score,
)
from skdp._users import Users
from skdp.audit._exact import replayed, verdict
from skdp.io._passes import _Taking
from skdp.io._scores import scores_of
from skdp.model_selection._candidates import ScoredTable
from skdp.model_selection._scorers import resolve_scoring
from skdp.sums._record_sums import (
    MOST_RECORDS,
    MOST_USERS,
)
from tests.audit import tables
from tests.audit.tables import answered_by
from tests.io import places
from tests.io.places import COLUMNS, FEATURES
from tests.io.users import (
    N_USERS,
    ROUNDING,
    by_database,
    by_file,
    facts_of,
    pairs,
    table,
)

pytestmark = pytest.mark.filterwarnings("ignore")


class Signs(tables.Says):
    """Predicts whether the first number is positive."""

    def _said(self, X):
        return (np.asarray(X)[:, 0] > 0).astype(float)

    def predict(self, X):
        return self._said(X)

    def predict_proba(self, X):
        return np.column_stack([1 - self._said(X), self._said(X)])


class ByPlaces(Signs):
    """Stands for a matrix product: what is predicted depends on places."""

    def _said(self, X):
        return (super()._said(X) + np.arange(len(X))) % 2.0


class ByLengths(Signs):
    """The same of how many places there are."""

    def _said(self, X):
        return (super()._said(X) + len(X)) % 2.0


class Refuses(ByPlaces):
    """Raises for one value."""

    def _said(self, X):
        if (np.asarray(X)[:, 0] > 0.4).any():
            raise ValueError("0.4")
        return super()._said(X)


def exact(source, model, scoring="accuracy"):
    """The statistic before noise."""
    scorer = resolve_scoring(scoring, model)
    scored = scores_of(source, scorer, model, is_private=True)
    return source.during(lambda: scored.statistic(scorer, model))


def in_memory(frame, model, scoring="accuracy", ids="id"):
    users = Users.of(frame[ids].to_numpy(), len(frame))
    scored = ScoredTable(frame[FEATURES].to_numpy(), frame["y"], users)
    return scored.statistic(resolve_scoring(scoring, model), model)


# ------------------------------------------------------------------ whose rows count


@pytest.mark.parametrize(
    "place", [places.in_files, lambda f, p, **k: places.in_database(f, **k)]
)
def test_null_records_stay_with_their_user_and_others_are_nobodys(place, tmp_path):
    frame = table()
    bad = frame["key"].to_numpy() % 4 == 0
    holes = frame.assign(a=frame["a"].where(~bad))
    source = place(holes, tmp_path / "holes", **facts_of(frame))
    shares = 1 / frame.groupby("id")["id"].transform("size").to_numpy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Users, "shares", np.where(bad, 0.0, shares))
        stated = in_memory(frame, Refuses(), "roc_auc")
    assert exact(source, Refuses(), "roc_auc").tobytes() == stated.tobytes()
    some = frame["name"].where(~bad)
    facts = facts_of(frame, groups="name")
    source = place(frame.assign(name=some), tmp_path / "nobody", **facts)
    stated = in_memory(frame[~bad], ByPlaces(), ids="name")
    assert exact(source, ByPlaces()).tobytes() == stated.tobytes()


# ------------------------------------------------------------------------- neighbours


def scored(model, scoring):
    def release(source, adjacency, **given):
        facts = {"privacy_unit": "user", "epsilon": 1.0, "adjacency": adjacency}
        return private_score(model, source, scoring=scoring, **facts | given).privacy

    return release


def described(source, adjacency, **given):
    facts = {"privacy_unit": "user", "epsilon": 1.0, "adjacency": adjacency}
    facts |= {"n_bins": 4, "cross_bins": 2}
    return describe(source, COLUMNS, **facts | given).privacy_


ASKED = {
    "by places": scored(ByPlaces(), "accuracy"),
    "by lengths": scored(ByLengths(), "accuracy"),
    "refuses": scored(Refuses(), "balanced_accuracy"),
    "signs": scored(Signs(), "roc_auc"),
    "labels": scored(Signs(), "accuracy"),
    "described": described,
}


def told(name, make, pair, adjacency):
    """What a transcript of whole releases tells apart, over what is charged."""
    records = []

    def run(users, noise):
        with answered_by(noise):
            records.append(ASKED[name](make(users), adjacency))

    first, second, _ = replayed(run, pair, 0)
    one, other = (record.to_json() for record in records)
    assert one == other, "what is public depends on a user"
    return verdict(first, second, records[0].event).largest


@pytest.mark.parametrize(
    ("name", "adjacency"),
    [(name, ("replace_one", "zero_out")[i % 2]) for i, name in enumerate(ASKED)],
)
def test_no_neighbour_tells_more_than_is_charged(name, adjacency, tmp_path):
    found = 0.0
    for number, pair in enumerate(pairs(adjacency)):
        make = by_database if number % 2 else by_file(tmp_path / "rows")
        found = max(found, told(name, make, pair, adjacency))
    assert 0.3 < found <= 1 + ROUNDING


# ------------------------------------------------------------- what is said and booked


@pytest.mark.parametrize("name", ["labels", "described"])
def test_releases_are_of_users_or_cost_nothing(name, tmp_path):
    frame, release = table(), ASKED[name]
    facts = {"epsilon": 9, "delta": 1e-4}
    relation = {"unit": "user", "adjacency": "zero_out_user"}
    own = BudgetLedger(tmp_path / "own.db", **relation, **facts)
    rows = BudgetLedger(tmp_path / "rows.db", adjacency="zero_out", **facts)
    users = places.in_files(frame, tmp_path / "u", **facts_of(frame))
    record = release(users, "zero_out", ledger=own)
    assert (record.adjacency, record.unit) == ("zero_out_user", "user")
    assert record.n_samples == N_USERS
    assert "number of users, but not the number of rows" in record.assumed_public
    assert not any("number of records" in fact for fact in record.assumed_public)
    few = facts_of(frame, n_samples=N_USERS - 1)
    records, no_groups = (
        {"privacy_unit": "record", "ledger": rows},
        {"groups": frame["id"]},
    )
    for source, given, words in (
        (users, {"ledger": rows}, "unit"),
        (
            places.in_files(frame, tmp_path / "r"),
            {},
            "must name the column of the users",
        ),
        (users, records, "have no groups= with privacy_unit='record'"),
        (users, no_groups, "must be left out with a source"),
        (
            users,
            {"epsilon": math.inf, "ledger": None},
            "must be finite with privacy_unit",
        ),
        (
            places.in_files(frame, tmp_path / "few", **few),
            {},
            "including users without rows",
        ),
    ):
        with pytest.raises(ValueError, match=words) as error:
            release(source, "zero_out", **{"ledger": own} | given)
        assert str(len(frame)) not in str(error.value)
    assert len(own.spends()) == 1
    assert not rows.spends()


def test_more_than_can_be_summed_exactly_are_refused(tmp_path):
    frame = table()
    for groups, most, unit in (
        (None, MOST_RECORDS, "record"),
        ("id", MOST_USERS, "user"),
    ):
        facts = {"groups": groups, "n_samples": most + 1}
        source = places.in_files(frame, tmp_path / unit, **facts)
        with pytest.raises(ValueError, match=f"at most {most}"):
            private_score(
                Signs(), source, scoring="accuracy", epsilon=1.0, privacy_unit=unit
            )


class Codes(Signs):
    """Predicts by codes of texts, where there are some."""

    feature_names_in_ = np.array(["a", "word"], dtype=object)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # who takes texts takes missing ones
        return tags

    def _said(self, X):
        word = X["word"]
        codes = word.cat.codes if hasattr(word, "cat") else word == "up"
        return codes.to_numpy() % 2.0


def told_by_a_text(groups, path):
    """By how much the exact score moves with one text, where 1 is charged."""
    frame = table().assign(word="up", y=1)
    scorer, found = resolve_scoring("accuracy", Codes()), []
    for word in ("up", "first"):
        own = frame.assign(word=np.where(np.arange(len(frame)) == 0, word, "up"))
        facts = facts_of(frame, groups=groups, features=["a", "word"])
        facts["n_samples"] = len(frame) if groups is None else N_USERS
        source = places.in_files(own, path / word, **facts)
        scored = scores_of(source, scorer, Codes(), is_private=True)
        found.append(source.during(partial(scored.statistic, scorer, Codes())))
    return abs(found[0] - found[1])


@pytest.mark.parametrize("groups", [None, "id"])
def test_texts_of_one_give_no_codes_to_those_of_others(groups, tmp_path, monkeypatch):
    assert told_by_a_text(groups, tmp_path) <= 1
    monkeypatch.setattr(_Taking, "rows", lambda self, rows: rows)  # the twin
    assert told_by_a_text(groups, tmp_path) > 10
