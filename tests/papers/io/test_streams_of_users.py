"""Streams of users: parts of whole users, in memory and where they lie."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skdp import BudgetLedger, DPLinearRegression, DPLogisticRegression
from skdp.audit._exact import replayed, verdict
from skdp.exceptions import BudgetExceeded, Refused, StreamOverError
from skdp.io._external_users import UserShares
from skdp.papers._streams import stream_of
from skdp.privacy.release._door import audited_by
from tests.io import places
from tests.io.places import COLUMNS, FEATURES

N_USERS, K = 15, 4
ROUNDING = 1e-9
GIVEN = {"solver": "ftrl", "privacy_unit": "user", "epsilon": 5.0}
GIVEN |= {"solver_params": {"n_parts": K, "steps_per_part": 2}}
MODEL = DPLogisticRegression(classes=[0, 1], **GIVEN)
MODELS = {
    "logistic": MODEL,
    "three labels": clone(MODEL).set_params(classes=[0, 1, 2], adjacency="zero_out"),
    "declared": clone(MODEL).set_params(columns=COLUMNS),
    "regression": DPLinearRegression(target_bounds=(0, 1), **GIVEN),
}

pytestmark = pytest.mark.filterwarnings("ignore")
every_adjacency = pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])


def users_of(rng, n_users=N_USERS, most_rows=4):
    """A list of rows for each user, with a label."""
    sizes = rng.integers(1, most_rows + 1, n_users)
    rows = [rng.normal(size=(size, 3)) / 2 for size in sizes]
    return [[(x, int(x[0] > 0)) for x in own] for own in rows]


def table_of(users, order=lambda n: np.arange(n)):
    rows = [(u, *x, y) for u, own in enumerate(users) for x, y in own]
    frame = pd.DataFrame(rows, columns=["id", *FEATURES, "y"])
    frame = frame.astype({"id": np.int64, "y": np.int64})
    return frame.iloc[order(len(frame))]


def shuffled(n):
    return np.random.default_rng(7).permutation(n)


def in_memory(model, users, path=None):
    frame = table_of(users)
    ids = frame["id"].astype(pd.CategoricalDtype(range(len(users))))
    return model.partial_fit(frame[FEATURES], frame["y"], groups=ids)


def by_file(model, users, path):
    facts = {"groups": "id", "n_samples": len(users), "batch_size": 7}
    frame = table_of(users, shuffled)
    return model.partial_fit(places.in_files(frame, path, n_files=2, **facts))


def by_database(model, users, path=None):
    facts = {"groups": "id", "n_samples": len(users)}
    return model.partial_fit(places.in_database(table_of(users, shuffled), **facts))


WAYS = {"memory": in_memory, "file": by_file, "database": by_database}
every_way = pytest.mark.parametrize("way", WAYS)


def given(model, parts, way, path):
    for k, users in enumerate(parts):
        WAYS[way](model, users, path / f"{way}{k}")
    return model


def parts_of(seed=0):
    rng = np.random.default_rng(seed)
    return [users_of(rng, n) for n in (N_USERS, N_USERS - 4, N_USERS, 3)]


@pytest.mark.parametrize("name", MODELS)
def test_parts_have_the_same_bits_wherever_they_lie(name, tmp_path):
    model = clone(MODELS[name]).set_params(random_state=3)
    here = given(clone(model), parts_of(), "memory", tmp_path)
    for way in ("file", "database"):
        there = given(clone(model), parts_of(), way, tmp_path)
        assert here.coef_.tobytes() == there.coef_.tobytes()
        assert np.array_equal(here.intercept_, there.intercept_)
        assert there.privacy_.n_samples == K * N_USERS


# ------------------------------------------------------------------------- neighbours

WORST = (np.array([0.7, -0.7, 0.7]), 1)
OTHER = (np.array([0.7, -0.7, 0.7]) * 1e6, 0)


def pair_of(part, instead):
    """Parts, and the same ones in which one user has other rows."""
    parts = [users[:-1] for users in parts_of()]
    first, second = ([*map(list, parts)] for _ in range(2))
    first[part].append([WORST] * 3)
    second[part].append(instead)
    return first, second


def told(pair, way, adjacency, path):
    """What a transcript of whole streams tells apart, over what is charged."""
    models = []

    def run(parts, noise):
        with audited_by(noise):
            own = path / str(len(models))
            own.mkdir(exist_ok=True)
            model = clone(MODEL).set_params(adjacency=adjacency)
            models.append(given(model, parts, way, own))
            return models[-1]

    first, second, _ = replayed(run, pair, 0)
    assert models[0].coef_.tobytes() == models[1].coef_.tobytes()
    records = [model.privacy_.to_json() for model in models]
    assert records[0] == records[1], "what is public depends on a user"
    return verdict(first, second, models[0].privacy_.event).largest


@every_way
@every_adjacency
def test_no_neighbour_tells_more_than_is_charged(adjacency, way, tmp_path):
    others = [[], [OTHER] * 5, [OTHER] * 1100]
    found = [
        told(pair_of(part, instead), way, adjacency, tmp_path)
        for part in (0, K - 1)
        for instead in (others[:1] if adjacency == "zero_out" else others)
    ]
    assert max(found) <= 1 + ROUNDING
    assert max(found) > 0.2


def shares_of_rows(codes, n_users):
    return np.ones(len(codes))


TWINS = {
    "memory": lambda patch: patch.setattr("skdp._users.equal_shares", shares_of_rows),
    "file": lambda patch: patch.setattr(
        UserShares, "of", lambda self, rows, codes: rows.is_present.astype(float)
    ),
}
TWINS["database"] = TWINS["file"]


@every_way
@every_adjacency
def test_rows_that_count_as_records_are_found(adjacency, way, tmp_path, monkeypatch):
    pair = pair_of(0, [])
    pair[0][0][-1] = [OTHER] * 5
    assert told(pair, way, adjacency, tmp_path) <= 1 + ROUNDING
    TWINS[way](monkeypatch)
    assert told(pair, way, adjacency, tmp_path) > 1.5


def test_a_table_of_users_is_not_cut_by_position(tmp_path):
    frame = table_of(users_of(np.random.default_rng(0)))
    with pytest.raises(Refused, match="Use partial_fit"):
        clone(MODEL).fit(frame[FEATURES], frame["y"], groups=frame["id"])
    source = places.in_files(frame, tmp_path / "rows", groups="id", n_samples=N_USERS)
    with pytest.raises(Refused, match="Use partial_fit"):
        clone(MODEL).fit(source)


# ------------------------------------------------------------------------------ errors


def books(path, epsilon=20.0):
    facts = {"epsilon": epsilon, "delta": 1e-4, "adjacency": "replace_user"}
    return BudgetLedger(path / "users.db", unit="user", **facts)


def test_what_is_refused_costs_nothing_and_loses_no_stream(tmp_path):
    ledger, users = books(tmp_path), users_of(np.random.default_rng(0))
    frame = table_of(users)
    X, y, ids = frame[FEATURES], frame["y"], frame["id"]
    own = {"groups": "id", "n_samples": N_USERS}
    source = places.in_files(frame, tmp_path / "u", **own)
    rows = places.in_files(frame, tmp_path / "r")
    few = places.in_files(frame, tmp_path / "f", **own | {"n_samples": N_USERS - 1})
    larger = places.in_files(frame, tmp_path / "l", **own | {"n_samples": 99})
    refused = [
        ({"X": X, "y": y}, r"Got None\. .*partial_fit"),
        ({"X": X, "y": y, "groups": ids[:-1]}, "one column with the id"),
        ({"X": source, "groups": ids}, "must be left out with a source"),
        ({"X": rows}, "must name the column of the users' ids"),
        ({"X": few}, "including users without rows"),
    ]
    model = clone(MODEL).set_params(ledger=ledger)
    for bad, message in refused:
        with pytest.raises(ValueError, match=message):
            model.partial_fit(**bad)
        assert stream_of(model) is None
    of_records = clone(MODEL).set_params(privacy_unit="record")
    for bad in ({"X": source}, {"X": X, "y": y, "groups": ids}):
        with pytest.raises(ValueError, match=r"groups out|privacy_unit='record'"):
            of_records.partial_fit(**bad)
    assert not ledger.spends()
    before = model.partial_fit(source).coef_.copy()
    larger = [({"X": larger}, f"many users as the first one, {N_USERS}")]
    for bad, message in refused + larger:
        with pytest.raises(ValueError, match=message):
            model.partial_fit(**bad)
    assert np.array_equal(model.coef_, before)
    for _ in range(1, K):
        model.partial_fit(source)
    with pytest.raises(StreamOverError):
        model.partial_fit(source)
    assert len(ledger.spends()) == K


def test_records_and_ledgers_are_of_users(tmp_path):
    frame = table_of(users_of(np.random.default_rng(0)))
    source = places.in_database(frame, groups="id", n_samples=N_USERS)
    ledger = books(tmp_path, epsilon=6.0)
    model = clone(MODEL).set_params(ledger=ledger).partial_fit(source)
    record = model.privacy_
    assert (record.unit, record.n_samples) == ("user", K * N_USERS)
    assert "that no user is in two parts" in record.assumed_public
    assert "number of parts, and of users in each" in record.assumed_public
    assert not any("of records" in fact for fact in record.assumed_public)
    with pytest.raises(BudgetExceeded):
        clone(model).partial_fit(source)
    of_rows = BudgetLedger(tmp_path / "rows.db", epsilon=20, delta=1e-4)
    with pytest.raises(ValueError, match=r"adjacency|unit"):
        clone(MODEL).set_params(ledger=of_rows).partial_fit(source)
    assert not of_rows.spends()
