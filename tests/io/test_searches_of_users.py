"""Searches of sources of users: divided by slots, which follow from the own id alone.

Whole searches are run on pairs of tables in which one user has other rows, or none, by
what searches in memory are run by (`tests.model_selection.test_users`).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skdp import (
    BudgetLedger,
    DPCalibratedClassifier,
    DPGradientBoostingClassifier,
    DPGridSearchCV,
    DPLinearRegression,
    DPLogisticRegression,
)
from skdp.io._external_users import UserIds
from skdp.privacy.release._answers import Answers
from tests.io import places
from tests.io.places import COLUMNS, FEATURES
from tests.io.users import facts_of, shuffled, table
from tests.model_selection import test_users as in_memory

ROUNDING = 1e-9
LOGISTIC = DPLogisticRegression(columns=COLUMNS, classes=[0, 1])
USER = {"privacy_unit": "user", "epsilon": 5.0, "random_state": 1}
GRID = {"C": [0.1, None]}
TREES = DPGradientBoostingClassifier(columns=COLUMNS, classes=[0, 1], n_estimators=2)
CLIPPED = clone(LOGISTIC).set_params(
    solver="noisy_gd", solver_params={"user_clip": 0.5, "n_steps": 3}
)
STOPPED = {"method": "random_stopping", "method_params": {"mean_trials": 2.0}}
SEARCHES = {
    "grid": DPGridSearchCV(LOGISTIC, GRID, **USER),
    "trees": DPGridSearchCV(TREES, {"learning_rate": [0.1, 0.5]}, **USER),
    "clipped": DPGridSearchCV(CLIPPED, GRID, **STOPPED, **USER),
    # Whose plan has a part: with less budget there is none.
    "centred": DPGridSearchCV(LOGISTIC, GRID, **USER | {"epsilon": 200.0}),
    "calibrated": DPCalibratedClassifier(LOGISTIC, **USER),
}

quiet = pytest.mark.filterwarnings("ignore")


# ------------------------------------------------------------------------------- parts

N_SLOTS = 40


def parts_of(frame, path, sizes=(25, 15), n_slots=N_SLOTS, way="file"):
    """Rows in each part, by a secret order of slots."""
    facts = {"groups": "id", "n_samples": n_slots}
    if way == "file":
        source = places.in_files(frame, path, n_files=2, batch_size=13, **facts)
    else:
        source = places.in_database(frame, **facts)
    order = np.random.default_rng(4).permutation(n_slots)
    parts, start = [], 0
    for size in sizes:
        part = source.taking(order[start : start + size])
        assert part.n_samples == len(part) == part.shape[0] == size
        assert part.max_overcount == n_slots / size
        rows = source.during(
            lambda part=part: list(part.rows(part.reading(), ("id", "key")))
        )
        shown = [columns.to_pandas() for _, _, columns in rows]
        parts.append(pd.concat(shown) if shown else frame.iloc[:0][["id", "key"]])
        start += size
    return parts


def members(parts):
    """In which part each user is."""
    return {u: k for k, part in enumerate(parts) for u in part["id"]}


def people(n_rows):
    """Numbers of rows by user; ids are far apart."""
    codes = np.repeat(np.arange(len(n_rows)), n_rows)
    return places.numbers(len(codes)).assign(id=codes * 1013 + 5)


@pytest.mark.parametrize("way", ["file", "database"])
def test_each_user_is_in_one_part_with_all_rows(way, tmp_path):
    frame = people(np.random.default_rng(0).integers(0, 5, N_SLOTS))
    first, second = parts = parts_of(frame, tmp_path / "t", way=way)
    assert not set(first["id"]) & set(second["id"])
    assert sorted([*first["key"], *second["key"]]) == sorted(frame["key"])
    assert members(parts) == members(parts_of(shuffled(frame), tmp_path / "s"))


def moved(tmp_path):
    """Others who are in another part when one user has no rows, or many."""
    sizes = np.random.default_rng(0).integers(1, 5, N_SLOTS)
    found = []
    for who, n_rows in [(0, sizes[0]), (0, 0), (3, 300), (17, 0)]:
        others = sizes.copy()
        others[who] = n_rows
        frame = people(others)
        found.append(members(parts_of(frame, tmp_path / f"{who}{n_rows}")))
    gone = {int(who * 1013 + 5) for who in (0, 3, 17)}
    first = {u: k for u, k in found[0].items() if u not in gone}
    return sum(other[u] != k for other in found[1:] for u, k in first.items())


def test_no_user_moves_another_to_another_part(tmp_path):
    assert moved(tmp_path) == 0


def test_rows_of_nobody_are_in_no_part(tmp_path):
    frame = people([2] * N_SLOTS).assign(
        id=lambda own: own["id"].where(own["key"] % 3 > 0).astype("Int64")
    )
    parts = parts_of(frame, tmp_path / "t")
    assert not pd.concat(parts)["id"].isna().any()
    assert len(pd.concat(parts)) == frame["id"].notna().sum()


# ------------------------------------------------------------------------- neighbours


def searched_there(monkeypatch, path, way="file"):
    """Fit searches of users to sources in place of tables."""
    folder = iter(range(10**6))

    def fit_of(search, users):
        rows = [(u, *x, y) for u, own in enumerate(users) for x, y in own]
        frame = pd.DataFrame(rows, columns=["id", "a", "b", "y"])
        frame = frame.astype({"id": np.int64, "y": np.int64})
        frame = frame.iloc[np.random.default_rng(5).permutation(len(frame))]
        facts = {"groups": "id", "n_samples": len(users), "features": ["a", "b"]}
        if way == "database":
            return search.fit(places.in_database(frame, **facts))
        own = path / str(next(folder))
        return search.fit(places.in_files(frame, own, batch_size=20, **facts))

    monkeypatch.setattr(in_memory, "fit_of", fit_of)


def found_by(name, adjacency, model=in_memory.PLAIN, people=(0,)):
    return max(
        in_memory.searched(name, adjacency, pair, model)
        for who in people
        for pair in in_memory.neighbours(adjacency, np.random.default_rng(who), who)
    )


@quiet
@pytest.mark.parametrize(
    ("name", "adjacency"),
    [("composition", "replace_one"), ("random_stopping", "zero_out")],
)
def test_no_neighbour_of_a_search_tells_more_than_is_charged(
    name, adjacency, tmp_path, monkeypatch
):
    way = "file" if adjacency == "replace_one" else "database"
    searched_there(monkeypatch, tmp_path, way)
    assert 0.05 < found_by(name, adjacency) <= 1 + ROUNDING


# ------------------------------------------------- parts with more users than have room


def all_in(slot):
    return lambda self, n_slots: np.full(self.n_users, slot, dtype=np.int64)


@quiet
@pytest.mark.parametrize(("name", "slot"), [("grid", 0), ("clipped", 1), ("trees", 2)])
def test_parts_may_be_empty_or_have_everybody(name, slot, tmp_path, monkeypatch):
    """Nothing raises, warns or says so."""
    monkeypatch.setattr(UserIds, "slots", all_in(slot))
    frame = table(n_users=30)
    source = places.in_files(frame, tmp_path / "f", **facts_of(frame))
    search = clone(SEARCHES[name]).fit(source)
    assert search.has_model_
    assert np.isfinite(search.predict_proba(frame[FEATURES])).all()


@quiet
@pytest.mark.parametrize("name", SEARCHES)
def test_rounding_is_charged_for_as_many_as_there_may_be(name, tmp_path, monkeypatch):
    """Of every fit in a part the room is known where answers are bounded."""
    frame, seen = table(n_users=30), []
    charged = Answers._slack

    def spied(self, query, layout):
        found = charged(self, query, layout)
        assert found == self._grant.max_overcount * query.slack(layout)
        seen.append((self._grant.max_overcount, self._source.n_samples))
        return found

    monkeypatch.setattr(Answers, "_slack", spied)
    source = places.in_files(frame, tmp_path / "f", **facts_of(frame))
    clone(SEARCHES[name]).fit(source)
    # Of fits, and of scores of all.
    assert any(times > 1 for times, _ in seen)
    assert all(times * n == pytest.approx(30) for times, n in seen)


# ------------------------------------------------------------------------------ errors


@quiet
def test_what_is_refused_costs_nothing(tmp_path):
    frame = table(n_users=30)
    facts = {"epsilon": 20, "delta": 1e-4, "adjacency": "replace_user"}
    books = BudgetLedger(tmp_path / "users.db", unit="user", **facts)
    own = {**USER, "random_state": None, "ledger": books}
    source = places.in_files(frame, tmp_path / "u", **facts_of(frame))
    rows = places.in_files(frame, tmp_path / "r")
    few = facts_of(frame, n_samples=29)
    regression = DPLinearRegression(columns=COLUMNS, target_bounds=(0, 1))
    targets = places.in_files(frame, tmp_path / "t", **facts_of(frame, target="t"))
    tuned = {"method": "composition", "method_params": {"tuning_fraction": 0.5}}
    for X, given, message in [
        (source, {"method": "disjoint_splits"}, "at least 60% of the declared users"),
        (source, tuned, "without tuning_fraction"),
        (source, {"validation_fraction": 0.5}, "smaller validation_fraction"),
        (source, {"n_jobs": 2}, "'n_jobs' parameter must be None or 1"),
        (source, {"epsilon": np.inf, "ledger": None}, "must be finite"),
        (rows, {}, "must name the column of the users' ids"),
        (places.in_database(frame), {}, "must name the column of the users' ids"),
        (places.in_files(frame, tmp_path / "w", **few), {}, "users without rows"),
        (targets, {"estimator": regression, "scoring": "r2"}, "number of scored users"),
    ]:
        grid = {"alpha": [0.1]} if "estimator" in given else GRID
        search = DPGridSearchCV(LOGISTIC, grid, **own).set_params(**given)
        with pytest.raises(ValueError, match=message):
            search.fit(X)
        assert not hasattr(search, "best_estimator_")
    with pytest.raises(ValueError, match="must be left out with a source"):
        DPGridSearchCV(LOGISTIC, GRID, **own).fit(source, groups=frame["id"])
    of_records = DPGridSearchCV(LOGISTIC, GRID, **own).set_params(
        privacy_unit="record", ledger=None
    )
    with pytest.raises(ValueError, match=r"without groups"):
        of_records.fit(source)
    assert not books.spends()
    search = DPGridSearchCV(LOGISTIC, GRID, **own).fit(source)
    assert len(books.spends()) == 1
    assert search.privacy_.adjacency == "replace_user"


@quiet
def test_what_is_said_is_the_same_for_neighbours(tmp_path, capsys):
    """Parts are named by their room, and nothing by rows."""
    said, records = [], []
    for number, n_rows in enumerate([0, 40]):
        frame = people([2] * 29 + [n_rows])
        facts = {"groups": "id", "n_samples": 30}
        source = places.in_files(frame, tmp_path / str(number), **facts)
        search = clone(SEARCHES["trees"]).set_params(verbose=True).fit(source)
        said.append(capsys.readouterr().out)
        records.append(search.privacy_)
    assert said[0]
    assert len(set(said)) == 1
    assert {record.n_samples for record in records} == {30}
    assert records[0].assumed_public == records[1].assumed_public
    assert not any("of records" in fact for fact in records[0].assumed_public)
