"""Users of sources: whose rows count, ids, leaks to neighbours, what is refused.

Neighbours are fitted from files and from a database: one transcript, replayed on a
table in which one user has other rows, or none (`skdp.audit._exact`). That bits are
those of memory is in `test_same_bits.py`.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skdp import (
    DPPCA,
    BudgetLedger,
    DPGridSearchCV,
    DPLogisticRegression,
    DPSimpleImputer,
    DPStandardScaler,
    RowNormClipper,
    describe,
    private_score,
)
from skdp._arrays import row_norms, row_products
from skdp.exceptions import SourceError
from skdp.io import ParquetSource, SqlSource
from skdp.io import _session as session_module
from skdp.io._external_users import UserIds
from skdp.io._table import Table
from skdp.tables._memory import UserSource
from tests.io import places
from tests.io.places import COLUMNS, FEATURES
from tests.io.users import (
    MODEL,
    MOST,
    N_USERS,
    ROUNDING,
    by_database,
    by_file,
    facts_of,
    in_memory,
    least,
    pairs,
    released,
    shuffled,
    table,
    told,
)

RELATIONS = {"replace_one": "replace_user", "zero_out": "zero_out_user"}
CLIPPED = clone(MODEL).set_params(solver_params={"n_steps": 4, "user_clip": 0.5})
SOME = {
    "file": places.in_files,
    "DuckDB": lambda frame, path, **facts: places.in_database(shuffled(frame), **facts),
}

every_adjacency = pytest.mark.parametrize("adjacency", RELATIONS)
every_layout = pytest.mark.parametrize("layout", SOME)
pytestmark = pytest.mark.filterwarnings("ignore")

# ------------------------------------------------------------------ whose rows count


def test_of_many_rows_the_first_count_in_files(tmp_path):
    frame = table(many=[MOST + 300, 3 * MOST, MOST])
    here = released(in_memory(MODEL, frame))
    for batch_size in (97, 1 << 14):
        facts = facts_of(frame, batch_size=batch_size)
        source = places.in_files(frame, tmp_path / "f", n_files=3, **facts)
        assert released(clone(MODEL).fit(source)).tobytes() == here.tobytes()
    cut = frame[frame.groupby("id").cumcount() < MOST]
    assert released(in_memory(MODEL, cut)).tobytes() == here.tobytes()


def repeated(frame):
    """Users whose many rows are few different ones."""
    frame = frame.copy()
    few = frame.groupby("id").cumcount() % 3
    for name in (*FEATURES, "y", "t"):
        frame[name] = frame.groupby(["id", few])[name].transform("first")
    return frame


@pytest.mark.parametrize("change", [lambda frame: frame, repeated])
def test_of_many_rows_the_same_count_in_any_order_of_a_database(change):
    frame = change(table(many=[MOST + 300, 2 * MOST, MOST]))
    here = released(in_memory(MODEL, least(frame, [*FEATURES, "y", "id"])))
    turned = frame.iloc[::-1]
    some = set()
    for own, threads in ((shuffled(frame), 2), (turned, 1)):
        facts = {"threads": threads, "batch_size": 300, **facts_of(frame)}
        source = places.in_database(own, **facts)
        assert released(clone(MODEL).fit(source)).tobytes() == here.tobytes()
        source = places.in_database(own, where="word = 'up'", **facts)
        some.add(released(clone(MODEL).fit(source)).tobytes())
    assert len(some) == 1, "rows that read alike are told apart by the condition"


@every_layout
@pytest.mark.parametrize("model", [MODEL, CLIPPED])
def test_rows_without_an_id_are_nobodys_and_leave_no_trace(model, layout, tmp_path):
    frame = table()
    some = frame["name"].where(np.arange(len(frame)) % 7 > 0)
    facts = facts_of(frame, groups="name", n_samples=some.nunique())
    alone = clone(model).fit(SOME[layout](frame.assign(name=some), tmp_path, **facts))
    here = in_memory(model, frame[some.notna()], ids="name")
    assert released(here).tobytes() == released(alone).tobytes()


@every_layout
@pytest.mark.parametrize(("column", "value"), [("a", np.nan), ("y", 7)])
def test_null_records_are_among_the_rows_of_their_user(column, value, layout, tmp_path):
    frame = table()
    holes, bad = frame.copy(), frame["key"].to_numpy() % 4 == 0
    holes.loc[bad, column] = value
    there = clone(MODEL).fit(SOME[layout](holes, tmp_path, **facts_of(frame)))
    shares = 1 / frame.groupby("id")["id"].transform("size").to_numpy()
    X, y = frame[FEATURES].to_numpy(), frame["y"].to_numpy(dtype=float)
    source = UserSource(X, y, np.where(bad, 0.0, shares), N_USERS)
    here = clone(MODEL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "source", lambda *given, **private: source)
        here.fit(frame[FEATURES], frame["y"], groups=frame["id"])
    assert released(here).tobytes() == released(there).tobytes()
    # So are rows that fail a condition.
    some = places.in_database(frame, where="key % 4 <> 0", **facts_of(frame))
    assert released(clone(MODEL).fit(some)).tobytes() == released(there).tobytes()


STEPS = {
    "components": (DPPCA(epsilon=10.0, n_components=1, random_state=0),),
    "norms": (DPSimpleImputer(bounds=(-2, 2), random_state=0), RowNormClipper(0.5)),
}


@pytest.mark.parametrize("name", STEPS)
def test_no_row_depends_on_how_many_are_beside_it(name, tmp_path):
    """How many rows come before, and in a block, is private of users."""
    frame, shown = table(), []
    steps = make_pipeline(*STEPS[name]).fit(frame[FEATURES])
    for batch_size in (1, 1 << 14):
        facts = facts_of(frame, batch_size=batch_size)
        source = steps.transform(places.in_files(frame, tmp_path / "f", **facts))
        rows = Table.of(source).rows(source.sample_row()).with_targets(None)
        blocks = source.during(lambda rows=rows: list(rows.blocks()))
        shown.append(np.concatenate([block.X for block in blocks]).tobytes())
    assert len(set(shown)) == 1


@pytest.mark.parametrize(("d", "order"), [(1, "C"), (3, "F"), (33, "C"), (2999, "F")])
def test_norms_and_products_are_those_of_each_row_alone(d, order):
    rng = np.random.default_rng(0)
    X, weights = np.asarray(rng.normal(size=(9, d)), order=order), rng.normal(size=d)
    for part in (slice(4, 5), slice(1, 9), slice(0, 7)):
        assert np.array_equal(row_norms(X)[part], row_norms(X[part]))
        own = row_products(X[part], weights[None, :])
        assert np.array_equal(row_products(X, weights[None, :])[part], own)


# --------------------------------------------------------------------------------- ids


def test_ids_are_told_apart_to_the_last_bit():
    for ids, n in (
        (pa.array([2**63, 2**63 + 1, None, 2**63], pa.uint64()), 2),
        (pa.array([2**53, 2**53 + 1, None, -1]), 3),
        (pa.array(["a", "a ", "A", "ä", "a\u0308", "1", "01", "", None]), 8),
        (pa.array(["a", None, "b", "a"]).dictionary_encode(), 2),
        (pa.DictionaryArray.from_arrays([0, 1, 2], ["a", "a", None]), 1),
    ):
        users = UserIds.counted([ids, ids, ids.slice(1)])
        assert users.n_users == n
        codes, seen = users.codes(ids), {}
        for code, own in zip(codes.tolist(), ids.to_pylist(), strict=True):
            assert seen.setdefault(own, code) == code
            assert (code == n) == (own is None)
        assert len(set(seen.values())) == len(seen)
    with pytest.raises(SourceError):
        UserIds.counted([pa.array([1, 2])]).codes(pa.array([3]))
    rng = np.random.default_rng(0)
    columns = [pa.array(rng.integers(0, 500, 100)) for _ in range(40)]
    users = UserIds.counted(columns)
    whole = np.concatenate([column.to_numpy() for column in columns])
    codes = users.codes(pa.array(whole))
    assert np.array_equal(users.counts[codes], np.bincount(whole)[whole])


def test_what_may_be_rounded_is_no_id(tmp_path):
    types = (pa.float64(), pa.bool_(), pa.timestamp("us"), pa.decimal128(38, 0))
    for ids in [pa.array([1, 2]).cast(dtype) for dtype in types] + [
        pa.array([b"1", b"2"])
    ]:
        rows = pa.table({"a": [1.0, 2.0], "y": [0, 1], "id": ids})
        parquet.write_table(rows, tmp_path / "rows.parquet")
        with pytest.raises(ValueError, match="whole numbers or text"):
            ParquetSource(tmp_path, target="y", n_samples=2, groups="id")
    connection = places.database(places.numbers(10))
    for dtype in ("DOUBLE", "DECIMAL(38, 0)", "HUGEINT", "BOOLEAN"):
        connection.execute("DROP TABLE IF EXISTS own")
        connection.execute(
            f"CREATE TABLE own AS SELECT *, CAST(key > 1 AS {dtype}) AS id FROM records"
        )
        with pytest.raises(ValueError, match="whole numbers or text"):
            SqlSource(connection, "own", target="y", n_samples=9, groups="id")


# ------------------------------------------------------------------------- neighbours


@pytest.fixture
def makes(tmp_path):
    return by_file(tmp_path / "rows"), by_database


@every_adjacency
def test_no_neighbour_tells_more_than_is_charged(adjacency, makes):
    declared = clone(MODEL).set_params(columns=COLUMNS)
    for number, pair in enumerate(pairs(adjacency)):
        assert told(makes[number % 2], pair, adjacency) <= 1 + ROUNDING
    assert told(makes[0], pair, adjacency, declared) <= 1 + ROUNDING
    assert told(makes[1], pair, adjacency, CLIPPED) <= 1 + ROUNDING


# ------------------------------------------------------------- what is said and booked


def test_what_is_printed_is_the_same_for_neighbours(
    makes, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(session_module, "_PATIENCE", 0.0)
    model = clone(MODEL).set_params(verbose=True)
    for make in makes:
        said = set()
        for users in list(pairs("replace_one"))[-1]:
            clone(model).fit(make(users))
            said.add(capsys.readouterr().out)
        assert len(said) == 1
        assert said != {""}
    of_rows = clone(model).set_params(privacy_unit="record")
    of_rows.fit(places.in_files(table(), tmp_path / "of_rows"))
    assert "rows" in capsys.readouterr().out  # which are public of records


@every_adjacency
def test_records_and_ledgers_are_of_users(adjacency, tmp_path):
    relation, frame = RELATIONS[adjacency], table()
    facts = {"epsilon": 20, "delta": 1e-4, "adjacency": relation}
    books = BudgetLedger(tmp_path / "users.db", unit="user", **facts)
    model = clone(MODEL).set_params(random_state=None, adjacency=adjacency)
    connection = places.database(frame)
    given = facts_of(frame, target="y", features=FEATURES, one_record_per_row=True)
    source = SqlSource(connection, "SELECT * FROM records WHERE a < 10", **given)
    record = model.set_params(ledger=books).fit(source).privacy_
    assert 5 < books.spent().epsilon < 10  # at the ledger's delta
    assert (record.adjacency, record.unit) == (relation, "user")
    assert any("no other user" in fact for fact in record.assumed_public)
    words = ("number of records", "depends on no record")
    assert not any(word in fact for word in words for fact in record.assumed_public)
    rows = BudgetLedger(tmp_path / "rows.db", epsilon=20, delta=1e-4)
    with pytest.raises(ValueError, match=r"adjacency|unit"):
        model.set_params(ledger=rows).fit(source)
    assert not rows.spent().epsilon
    for layout in SOME.values():
        few = layout(frame, tmp_path / "few", **facts_of(frame, n_samples=N_USERS - 1))
        with pytest.raises(ValueError, match="including users without rows") as e:
            clone(model).set_params(ledger=books).fit(few)
        assert not any(sign.isdigit() for sign in str(e.value))
    assert len(books.spends()) == 1


# ---------------------------------------------------------------------------- refusals


def test_columns_of_ids_are_checked_when_a_source_is_made(tmp_path):
    frame = table()
    folder = places.write(frame, tmp_path / "rows")
    facts = {"target": "y", "n_samples": N_USERS, "features": FEATURES}
    for groups, words in (
        ("who", "'groups' argument must name a column"),
        ("a", "neither the target nor a feature"),
        ("y", "neither the target nor a feature"),
    ):
        with pytest.raises(ValueError, match=words):
            ParquetSource(folder, groups=groups, **facts)
    whole = ParquetSource(folder, target="y", n_samples=N_USERS, groups="id")
    assert "id" not in whole.feature_names
    assert repr(whole).startswith(f"ParquetSource({N_USERS} users")
    connection = places.database(frame)
    connection.execute("CREATE TABLE own (visit INT PRIMARY KEY, id INT, y INT)")
    given = {"target": "y", "n_samples": 3, "groups": "id", "record_id": "visit"}
    with pytest.raises(ValueError, match="'record_id' must be left out"):
        SqlSource(connection, "own", **given)
    for name in ("7", "007"):  # of which a folder's name may make one number
        (tmp_path / "by" / f"who={name}").mkdir(parents=True)
        frame.to_parquet(tmp_path / "by" / f"who={name}" / "rows.parquet")
    with pytest.raises(ValueError, match="a column within the files"):
        ParquetSource(tmp_path / "by", groups="who", **facts)


def test_sources_of_users_and_models_of_records_do_not_meet(tmp_path):
    frame = table()
    users = places.in_files(frame, tmp_path / "u", **facts_of(frame))
    rows = places.in_files(frame, tmp_path / "r")
    with pytest.raises(ValueError, match="must name the column of the users' ids"):
        clone(MODEL).fit(rows)
    with pytest.raises(ValueError, match="must be left out with a source"):
        clone(MODEL).fit(users, groups=frame["id"])
    with pytest.raises(ValueError, match="must be finite with a source of users"):
        clone(MODEL).set_params(epsilon=math.inf).fit(users)
    model = clone(MODEL).fit(users)
    for of_records in (
        clone(MODEL).set_params(privacy_unit="record").fit,
        DPStandardScaler(bounds=(-2, 2)).fit,
        DPGridSearchCV(DPLogisticRegression(classes=[0, 1]), {"C": [1.0, 2.0]}).fit,
        lambda X: describe(X, COLUMNS, epsilon=1.0),
        lambda X: private_score(model, X, epsilon=1.0),
    ):
        with pytest.raises(ValueError, match=r"groups=|groups out"):
            of_records(users)
    assert model.predict(users).shape == (len(frame),)
    assert model.score(users) == model.score(rows)


def test_a_user_who_comes_during_a_fit_ends_it(tmp_path, monkeypatch):
    frame = table()
    # In several blocks: of one that is kept nothing more is read.
    source = places.in_files(frame, tmp_path / "u", **facts_of(frame, batch_size=16))
    codes, n_times = UserIds.codes, Counter()

    def later(self, column):
        n_times["read"] += 1
        if n_times["read"] == 2:
            column = pa.array([-1] * len(column), column.type)
        return codes(self, column)

    monkeypatch.setattr(UserIds, "codes", later)
    with pytest.raises(SourceError, match="could not be read to the end"):
        clone(MODEL).fit(source)
