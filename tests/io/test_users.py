"""Users of sources: the bits of memory wherever rows lie, whose rows count, leaks.

Neighbours are fitted from files and from a database: one transcript, replayed on a
table in which one user has other rows, or none (`skdp.audit._exact`).
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skdp import (
    DPPCA,
    BoundedScaler,
    BudgetLedger,
    DPGradientBoostingClassifier,
    DPGridSearchCV,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPQuantileClipper,
    DPSimpleImputer,
    DPStandardScaler,
    RowNormClipper,
    describe,
    private_score,
)
from skdp._arrays import row_norms, row_products
from skdp.audit._exact import replayed, verdict
from skdp.exceptions import SourceError
from skdp.io import ParquetSource, SqlSource
from skdp.io import _session as session_module
from skdp.io._external_users import FirstRows, LeastRows, Rows, UserIds, UserShares
from skdp.io._rows import StreamSource
from skdp.io._table import Table
from skdp.privacy.release._door import audited_by
from skdp.tables._memory import UserSource
from tests.io import places
from tests.io.places import COLUMNS, FEATURES

N_USERS, MOST = 60, 1024
ADJACENCIES = ("replace_one", "zero_out")
RELATIONS = {"replace_one": "replace_user", "zero_out": "zero_out_user"}
ROUNDING = 1e-9
GD = {"solver": "noisy_gd", "solver_params": {"n_steps": 4}}
SUMS = {"solver": "noisy_gd", "solver_params": {"n_steps": 4, "user_clip": 0.5}}
USER = {"privacy_unit": "user", "random_state": 0, "epsilon": 10.0}
LABELS = {"classes": [0, 1], **USER}
BOUNDS = {"target_bounds": (0, 1), **USER}
STEP = {"bounds": (-2, 2), "random_state": 0, "privacy_unit": "user"}
MODELS = {
    "logistic": (DPLogisticRegression(**GD, **LABELS), "y"),
    "by the rules": (DPLogisticRegression(adjacency="zero_out", **LABELS), "y"),
    "three labels": (
        DPLogisticRegression(classes=[0, 1, 2], **GD, **USER),
        "y",
    ),
    "svc": (DPLinearSVC(adjacency="zero_out", **GD, **LABELS), "y"),
    "declared": (DPLogisticRegression(columns=COLUMNS, **GD, **LABELS), "y"),
    "clipped sums": (DPLogisticRegression(**SUMS, **LABELS), "y"),
    "centred": (
        DPLogisticRegression(columns=COLUMNS, **(LABELS | {"epsilon": 40.0})),
        "y",
    ),
    "centred regression": (
        DPLinearRegression(columns=COLUMNS, **(BOUNDS | {"epsilon": 40.0})),
        "t",
    ),
    "regression": (DPLinearRegression(columns=COLUMNS, **GD, **BOUNDS), "t"),
    "scaled": (
        make_pipeline(
            BoundedScaler((-2, 2)),
            DPStandardScaler(**STEP),
            DPLogisticRegression(**GD, **LABELS),
        ),
        "y",
    ),
    "clipped": (
        make_pipeline(
            DPSimpleImputer(adjacency="zero_out", **STEP),
            DPQuantileClipper(**STEP),
            DPLogisticRegression(**GD, **LABELS),
        ),
        "y",
    ),
}
MODEL = MODELS["logistic"][0]

every_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES)
quiet = pytest.mark.filterwarnings("ignore")


def table(seed=0, n_users=N_USERS, most_rows=5, many=()):
    """Rows of users with ids that are numbers and texts; `many` are numbers of rows."""
    rng = np.random.default_rng(seed)
    n_rows = rng.integers(1, most_rows + 1, n_users)
    n_rows[: len(many)] = many
    frame = places.numbers(int(n_rows.sum()), seed)
    of = np.repeat(np.arange(n_users), n_rows)
    frame["id"] = of + 2**53  # of which doubles hold every second
    frame["name"] = [f"Jürgen {u} " for u in of]
    return frame


def in_memory(model, frame, target="y", ids="id"):
    given = {}
    for name, step in getattr(model, "steps", [("", model)]):
        if "privacy_unit" in step.get_params():
            given[f"{name}__groups" if name else "groups"] = frame[ids]
    return clone(model).fit(frame[FEATURES], frame[target], **given)


def facts_of(frame, **facts):
    users = {"groups": "id", "n_samples": frame["id"].nunique()}
    return {**users, **facts}


def released(model):
    steps = [step for _, step in getattr(model, "steps", [("", model)])]
    names = ("mean_", "scale_", "statistics_", "low_", "high_", "coef_", "intercept_")
    found = [
        np.ravel(vars(step)[n]) for step in steps for n in names if n in vars(step)
    ]
    return np.concatenate(found)


def shuffled(frame, seed=1):
    return frame.iloc[np.random.default_rng(seed).permutation(len(frame))]


LAYOUTS = {
    "file": lambda frame, path, **facts: places.in_files(frame, path / "file", **facts),
    "shuffled rows": lambda frame, path, **facts: places.in_files(
        shuffled(frame), path / "rows", n_files=3, batch_size=16, **facts
    ),
    "DuckDB": lambda frame, path, **facts: places.in_database(shuffled(frame), **facts),
    "threads": lambda frame, path, **facts: places.in_database(
        frame, threads=2, batch_size=10, **facts
    ),
    "PostgreSQL": lambda frame, path, **facts: places.in_postgres(frame, **facts),
    "readers": lambda frame, path, **facts: places.in_postgres(
        shuffled(frame), n_readers=2, batch_size=20, **facts
    ),
    "workers": lambda frame, path, **facts: places.on_workers(
        shuffled(frame), path / "workers", **facts
    ),
    "partitions": lambda frame, path, **facts: places.in_partitions(frame, **facts),
}
SOME = ("file", "DuckDB")

# Of models, those that are fitted wherever rows may lie.
SPREAD = (0, 4)

# ---------------------------------------------------------------- the same bits


@quiet
@pytest.mark.parametrize("layout", LAYOUTS)
def test_fits_are_those_of_memory_bit_for_bit(layout, tmp_path):
    frame = table()
    for number, (model, target) in enumerate(MODELS.values()):
        if layout not in SOME and number not in SPREAD:
            continue
        facts = facts_of(frame, groups="id" if number % 3 else "name", target=target)
        source = LAYOUTS[layout](frame, tmp_path / str(number), **facts)
        here, there = in_memory(model, frame, target), clone(model).fit(source)
        assert released(here).tobytes() == released(there).tobytes()
        last = there[-1] if hasattr(there, "steps") else there
        assert last.privacy_.n_samples == len(source) == N_USERS
        assert last.privacy_.unit == "user"


@pytest.fixture(autouse=True)
def _folders(tmp_path):
    for number in range(len(MODELS)):
        (tmp_path / str(number)).mkdir()


@quiet
def test_users_without_rows_are_declared(tmp_path):
    frame = table()
    declared = pd.CategoricalDtype(range(2**53, 2**53 + N_USERS + 5))
    here = clone(MODEL).fit(
        frame[FEATURES], frame["y"], groups=frame["id"].astype(declared)
    )
    for layout in SOME:
        facts = facts_of(frame, n_samples=N_USERS + 5)
        there = clone(MODEL).fit(LAYOUTS[layout](frame, tmp_path, **facts))
        assert released(here).tobytes() == released(there).tobytes()
        assert there.privacy_.n_samples == N_USERS + 5
    nobody = frame.iloc[:0]
    for layout in ("file", "DuckDB"):
        source = LAYOUTS[layout](nobody, tmp_path / "0", groups="id", n_samples=5)
        assert np.isfinite(released(clone(MODEL).fit(source))).all()


@quiet
def test_of_many_rows_the_first_count_in_files(tmp_path):
    frame = table(many=[MOST + 300, 3 * MOST, MOST])
    here = released(in_memory(MODEL, frame))
    for batch_size in (97, 1 << 14):
        source = places.in_files(
            frame, tmp_path / "f", n_files=3, batch_size=batch_size, **facts_of(frame)
        )
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


def least(frame, names):
    """The rows that count where rows have no order, found otherwise."""
    batch = pa.RecordBatch.from_pandas(frame[names], preserve_index=False)
    digests = Rows(batch, np.ones(len(frame), dtype=bool)).digests()
    order = frame.assign(digest=digests).sort_values("digest", kind="stable")
    return order[order.groupby("id").cumcount() < MOST]


@quiet
@pytest.mark.parametrize("change", [lambda frame: frame, repeated])
def test_of_many_rows_the_same_count_in_any_order_of_a_database(change, tmp_path):
    frame = change(table(many=[MOST + 300, 2 * MOST, MOST]))
    here = released(in_memory(MODEL, least(frame, [*FEATURES, "y", "id"])))
    turned = frame.iloc[np.arange(len(frame))[::-1]]
    for own, threads in ((shuffled(frame), 2), (turned, 1)):
        source = places.in_database(
            own, threads=threads, batch_size=300, **facts_of(frame)
        )
        assert released(clone(MODEL).fit(source)).tobytes() == here.tobytes()
    some = {
        released(
            clone(MODEL).fit(
                places.in_database(own, where="word = 'up'", **facts_of(frame))
            )
        ).tobytes()
        for own in (shuffled(frame), turned)
    }
    assert len(some) == 1, "rows that read alike are told apart by the condition"


@quiet
@pytest.mark.engines
def test_of_many_rows_the_same_count_in_any_order_of_partitions():
    frame = repeated(table(many=[MOST + 300, 2 * MOST, MOST]))
    here = released(in_memory(MODEL, least(frame, [*FEATURES, "y", "id"])))
    source = places.in_partitions(shuffled(frame), **facts_of(frame))
    assert released(clone(MODEL).fit(source)).tobytes() == here.tobytes()


# -------------------------------------------------------------------- ids and null rows


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
        codes = users.codes(ids)
        seen = {}
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


@pytest.mark.parametrize(
    "ids",
    [
        pa.array([1.0, 2.0]),
        pa.array([True, False]),
        pa.array([1, 2], pa.timestamp("us")),
        pa.array([1, 2], pa.decimal128(38, 0)),
        pa.array([b"1", b"2"]),
    ],
)
def test_what_may_be_rounded_is_no_id(ids, tmp_path):
    rows = pa.table({"a": [1.0, 2.0], "y": [0, 1], "id": ids})
    parquet.write_table(rows, tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="whole numbers or text"):
        ParquetSource(tmp_path, target="y", n_samples=2, groups="id")


def test_numbers_of_a_database_that_are_no_whole_ones_are_no_ids():
    connection = places.database(places.numbers(10))
    for dtype in ("DOUBLE", "DECIMAL(38, 0)", "HUGEINT", "BOOLEAN"):
        connection.execute("DROP TABLE IF EXISTS own")
        connection.execute(
            f"CREATE TABLE own AS SELECT *, CAST(key > 1 AS {dtype}) AS id FROM records"
        )
        with pytest.raises(ValueError, match="whole numbers or text"):
            SqlSource(connection, "own", target="y", n_samples=9, groups="id")


@quiet
@pytest.mark.parametrize("layout", SOME)
@pytest.mark.parametrize("kind", ["logistic", "clipped sums"])
def test_rows_without_an_id_are_nobodys_and_leave_no_trace(kind, layout, tmp_path):
    model, frame = MODELS[kind][0], table()
    some = frame["name"].where(np.arange(len(frame)) % 7 > 0)
    holes = frame.assign(name=some)
    facts = facts_of(frame, groups="name")
    there = clone(model).fit(LAYOUTS[layout](holes, tmp_path / "0", **facts))
    n_users = some.nunique()
    facts["n_samples"] = n_users
    alone = clone(model).fit(LAYOUTS[layout](holes, tmp_path / "1", **facts))
    here = in_memory(model, frame[some.notna()], ids="name")
    assert released(here).tobytes() == released(alone).tobytes()
    assert there.privacy_.n_samples == N_USERS


@quiet
@pytest.mark.parametrize("layout", SOME)
@pytest.mark.parametrize(("column", "value"), [("a", np.nan), ("y", 7)])
def test_null_records_are_among_the_rows_of_their_user(column, value, layout, tmp_path):
    frame = table()
    holes = frame.copy()
    bad = np.arange(len(frame)) % 4 == 0
    holes.loc[bad, column] = value
    there = clone(MODEL).fit(LAYOUTS[layout](holes, tmp_path, **facts_of(frame)))
    shares = 1 / frame.groupby("id")["id"].transform("size").to_numpy()
    source = users_of_memory(frame, np.where(bad, 0.0, shares))
    here = clone(MODEL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "source", lambda *given, **private: source)
        here.fit(frame[FEATURES], frame["y"], groups=frame["id"])
    assert released(here).tobytes() == released(there).tobytes()


def users_of_memory(frame, shares):
    y = frame["y"].to_numpy(dtype=float)
    return UserSource(frame[FEATURES].to_numpy(), y, shares, frame["id"].nunique())


@quiet
def test_rows_that_fail_a_condition_are_null_records():
    frame = table()
    facts = facts_of(frame)
    some = places.in_database(frame, where="key % 4 <> 0", **facts)
    holes = frame.copy()
    holes.loc[frame["key"] % 4 == 0, "a"] = np.nan
    same = places.in_database(holes, **facts)
    one, other = clone(MODEL).fit(some), clone(MODEL).fit(same)
    assert released(one).tobytes() == released(other).tobytes()


STEPS = {
    "components": (DPPCA(epsilon=10.0, n_components=1, random_state=0),),
    "norms": (DPSimpleImputer(bounds=(-2, 2), random_state=0), RowNormClipper(0.5)),
}


@pytest.mark.parametrize("name", STEPS)
def test_no_row_depends_on_how_many_are_beside_it(name, tmp_path):
    """How many rows come before, and in a block, is private of users."""
    frame, shown = table(), []
    steps = make_pipeline(*STEPS[name]).fit(frame[FEATURES])
    for batch_size in (1, 2, 7, 1 << 14):
        facts = facts_of(frame, batch_size=batch_size)
        source = steps.transform(places.in_files(frame, tmp_path / "f", **facts))
        rows = Table.of(source).rows(source.sample_row()).with_targets(None)
        blocks = source.during(lambda rows=rows: list(rows.blocks()))
        shown.append(np.concatenate([block.X for block in blocks]).tobytes())
    assert len(set(shown)) == 1


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("d", [1, 3, 33, 9000])
def test_norms_and_products_are_those_of_each_row_alone(d, order):
    rng = np.random.default_rng(0)
    X, weights = np.asarray(rng.normal(size=(9, d)), order=order), rng.normal(size=d)
    for part in (slice(4, 5), slice(1, 9), slice(0, 7)):
        assert np.array_equal(row_norms(X)[part], row_norms(X[part]))
        if d <= 3000:  # of which DPPCA takes no more
            own = row_products(X[part], weights[None, :])
            assert np.array_equal(row_products(X, weights[None, :])[part], own)


# ------------------------------------------------------------------------- neighbours


def table_of(users, order):
    """Rows of a list for each user; `order` is that of the table."""
    rows = [(u, *x, y) for u, own in enumerate(users) for x, y in own]
    frame = pd.DataFrame(rows, columns=["id", *FEATURES, "y"])
    frame = frame.astype({"id": np.int64, "y": np.int64})
    return frame.iloc[order(len(frame))]


def users_of(rng, n_users=20, most_rows=4):
    users = []
    for _ in range(n_users):
        X = rng.normal(size=(rng.integers(1, most_rows + 1), 3)) / 2
        users.append([(x, int(x[0] > 0)) for x in X])
    return users


def pairs(adjacency):
    """Tables whose last user has other rows: many, few, unreadable, or none."""
    rng = np.random.default_rng(3)
    users, along = users_of(rng), np.array([0.7, -0.7, 0.7])
    users[-1] = [(along, 1)] * 3
    worst = [(along * 1e6, 0)]
    unread = [(along * math.nan, 1)]
    others = [[], worst * 4, worst * (MOST + 76), worst + unread * 2, users_of(rng)[0]]
    for other in others[:1] if adjacency == "zero_out" else others:
        yield users, [*users[:-1], other]
    yield [*users[:-1], worst * (MOST + 76)], [*users[:-1], []]


def told(make, pair, adjacency, model=MODEL):
    """What a transcript of whole fits tells apart; and both models."""
    models = []

    def run(users, noise):
        with audited_by(noise):
            fitted = clone(model).set_params(adjacency=adjacency)
            models.append(fitted.fit(make(users)))
            return models[-1]

    first, second, _ = replayed(run, pair, 0)
    assert released(models[0]).tobytes() == released(models[1]).tobytes()
    records = [fitted.privacy_.to_json() for fitted in models]
    assert records[0] == records[1], "what is public depends on a user"
    return verdict(first, second, models[0].privacy_.event).largest


def by_file(path):
    def make(users):
        frame = table_of(users, np.random.default_rng(5).permutation)
        facts = {"groups": "id", "n_samples": len(users)}
        return places.in_files(frame, path, batch_size=50, **facts)

    return make


def by_database(users):
    frame = table_of(users, np.random.default_rng(5).permutation)
    return places.in_database(frame, groups="id", n_samples=len(users))


@quiet
@pytest.mark.parametrize("columns", [None, COLUMNS])
@every_adjacency
def test_no_neighbour_tells_more_than_is_charged(adjacency, columns, tmp_path):
    model = clone(MODEL).set_params(columns=columns)
    makes = (by_file(tmp_path / "rows"), by_database)
    for pair in pairs(adjacency):
        for make in makes if columns is None else makes[:1]:
            assert told(make, pair, adjacency, model) <= 1 + ROUNDING


# By name: a bug, and how many rows of one user show it.
TWINS = {
    "rows count as records": (
        5,
        lambda patch: patch.setattr(
            UserShares, "of", lambda self, rows, codes: rows.is_present.astype(float)
        ),
    ),
    "rows beyond the last one count": (
        5 * MOST,
        lambda patch: [
            patch.setattr(kept, "those", all_count) for kept in (FirstRows, LeastRows)
        ],
    ),
    "two rows more than are divided by": (
        3,
        lambda patch: patch.setattr(UserShares, "of", shares_of_two_more),
    ),
}


@quiet
@every_adjacency
@pytest.mark.parametrize("name", TWINS)
def test_planted_bugs_are_found(name, adjacency, tmp_path, monkeypatch):
    n_rows, plant = TWINS[name]
    users = users_of(np.random.default_rng(3))
    worst = (np.array([0.7, -0.7, 0.7]) * 1e6, 0)
    pair = [*users[:-1], [worst] * n_rows], [*users[:-1], []]
    makes = (by_file(tmp_path / "rows"), by_database)
    assert all(told(make, pair, adjacency) <= 1 + ROUNDING for make in makes)
    plant(monkeypatch)
    assert all(told(make, pair, adjacency) > 1.05 for make in makes)


@quiet
@every_adjacency
def test_rows_that_are_users_of_their_own_are_found(adjacency, tmp_path, monkeypatch):
    """Four rows of one user, each of which is clipped by itself."""
    model = MODELS["clipped sums"][0]
    users = users_of(np.random.default_rng(3), 40)
    worst = (np.array([0.7, -0.7, 0.7]) * 1e6, 0)
    pair = [*users[:-1], [worst] * 4], [*users[:-1], []]
    makes = (by_file(tmp_path / "rows"), by_database)
    assert all(told(make, pair, adjacency, model) <= 1 + ROUNDING for make in makes)
    honest = UserShares.codes
    monkeypatch.setattr(
        UserShares, "codes", lambda self, rows: np.arange(len(honest(self, rows))) % 40
    )
    monkeypatch.setattr(UserShares, "of", lambda self, rows, codes: np.ones(len(codes)))
    assert all(told(make, pair, adjacency, model) > 1.5 for make in makes)


def all_count(self, codes, rows):
    return np.ones(len(codes), dtype=bool)


def shares_of_two_more(self, rows, codes):
    return rows.is_present / np.clip(self.users.counts[codes] - 2, 1, MOST)


@quiet
def test_twin_by_places_in_a_database_is_found(monkeypatch):
    """There the order of one user's rows may follow from whether another is there."""
    along = np.array([0.7, -0.7, 0.7])
    many = [(along, 1)] * MOST + [(-along, 1)] * MOST
    pair = [[many, [(along, 1)]], [many, []]]

    def make(users):
        turned = np.arange if users[-1] else lambda n: np.arange(n)[::-1]
        frame = table_of(users, turned)
        return places.in_database(frame, groups="id", n_samples=len(users))

    assert told(make, pair, "zero_out") <= 1 + ROUNDING
    monkeypatch.setattr(SqlSource, "has_fixed_order", True)
    assert told(make, pair, "zero_out") > 1.5


@quiet
@pytest.mark.engines
def test_twin_of_dask_whose_workers_add_up_rows_as_records_is_found(tmp_path):
    (pair, *_) = pairs("zero_out")
    number = iter(range(99))

    def make(users):
        frame, folder = table_of(users, np.arange), tmp_path / f"part{next(number)}"
        facts = {"groups": "id", "n_samples": len(users)}
        return places.on_workers(frame, folder, n_files=2, **facts)

    assert told(make, pair, "zero_out") <= 1 + ROUNDING
    with pytest.MonkeyPatch.context() as patch:
        there = property(lambda self: self.rows.table.remote)
        patch.setattr(StreamSource, "remote", there)
        assert told(make, pair, "zero_out") > 1.5


# ------------------------------------------------------------------------- what is said


@quiet
@every_adjacency
def test_what_is_printed_is_the_same_for_neighbours(
    adjacency, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(session_module, "_PATIENCE", 0.0)
    model = clone(MODEL).set_params(verbose=True, adjacency=adjacency)
    for make in (by_file(tmp_path / "rows"), by_database):
        said = []
        for pair in list(pairs(adjacency))[-2:]:
            for users in pair:
                clone(model).fit(make(users))
                said.append(capsys.readouterr().out)
        assert said[0]
        assert set(said) == {said[0]}
    frame = table()
    rows = places.in_files(frame, tmp_path / "of_rows")
    of_rows = clone(model).set_params(privacy_unit="record").fit(rows)
    assert of_rows.privacy_.unit == "record"
    assert "rows" in capsys.readouterr().out


@quiet
@every_adjacency
def test_records_and_ledgers_are_of_users(adjacency, tmp_path):
    relation, frame = RELATIONS[adjacency], table()
    facts = {"epsilon": 20, "delta": 1e-4, "adjacency": relation}
    books = BudgetLedger(tmp_path / "users.db", unit="user", **facts)
    model = clone(MODEL).set_params(random_state=None, adjacency=adjacency)
    source = places.in_database(frame, **facts_of(frame))
    model.set_params(ledger=books).fit(source)
    assert 5 < books.spent().epsilon < 10  # at the ledger's delta
    record = model.privacy_
    assert (record.adjacency, record.unit) == (relation, "user")
    assert not any("number of records" in fact for fact in record.assumed_public)
    rows = BudgetLedger(tmp_path / "rows.db", epsilon=20, delta=1e-4)
    with pytest.raises(ValueError, match=r"adjacency|unit"):
        model.set_params(ledger=rows).fit(source)
    assert not rows.spent().epsilon


def test_too_few_users_are_refused_without_a_word_of_data(tmp_path):
    frame = table()
    books = BudgetLedger(
        tmp_path / "b.db",
        unit="user",
        epsilon=20,
        delta=1e-4,
        adjacency="replace_user",
    )
    model = clone(MODEL).set_params(ledger=books, random_state=None)
    for layout in SOME:
        facts = facts_of(frame, n_samples=N_USERS - 1)
        source = LAYOUTS[layout](frame, tmp_path, **facts)
        with pytest.raises(ValueError, match="including users without rows") as e:
            model.fit(source)
        assert not any(sign.isdigit() for sign in str(e.value))
        assert not hasattr(model, "coef_")
    assert not books.spent().epsilon


@quiet
def test_queries_declare_what_is_public_of_users(tmp_path):
    frame = table()
    connection = places.database(frame)
    query = "SELECT * FROM records WHERE a < 10"
    facts = facts_of(frame, target="y", features=FEATURES, one_record_per_row=True)
    assert_speaks_of_users(SqlSource(connection, query, **facts))


@quiet
@pytest.mark.engines
def test_partitions_declare_what_is_public_of_users():
    frame = table()
    assert_speaks_of_users(places.in_partitions(frame, **facts_of(frame)))


def assert_speaks_of_users(source):
    found = clone(MODEL).fit(source).privacy_
    assert any("no other user" in fact for fact in found.assumed_public)
    for fact in found.assumed_public:
        assert "depends on no record" not in fact


# ---------------------------------------------------------------------------- refusals


def test_columns_of_ids_are_checked_when_a_source_is_made(tmp_path):
    frame = table()
    folder = places.write(frame, tmp_path / "rows")
    facts = {"target": "y", "n_samples": N_USERS, "features": FEATURES}
    with pytest.raises(ValueError, match="'groups' argument must name a column"):
        ParquetSource(folder, groups="who", **facts)
    with pytest.raises(ValueError, match="neither the target nor a feature"):
        ParquetSource(folder, groups="a", **facts)
    with pytest.raises(ValueError, match="neither the target nor a feature"):
        ParquetSource(folder, groups="y", **facts)
    whole = ParquetSource(folder, target="y", n_samples=N_USERS, groups="id")
    assert "id" not in whole.feature_names
    assert repr(whole).startswith(f"ParquetSource({N_USERS} users")
    connection = places.database(frame)
    connection.execute("CREATE TABLE own (visit INT PRIMARY KEY, id INT, y INT)")
    with pytest.raises(ValueError, match="'record_id' must be left out"):
        SqlSource(
            connection, "own", target="y", n_samples=3, groups="id", record_id="visit"
        )


def workers_read(folder, **facts):
    """A source of Dask, which is loaded for those who have it."""
    from skdp.io import DaskSource
    from tests.io.cluster import client

    return DaskSource(str(folder), client(), **facts)


@quiet
@pytest.mark.parametrize(
    "make", [ParquetSource, pytest.param(workers_read, marks=pytest.mark.engines)]
)
def test_ids_in_names_of_folders_are_refused(make, tmp_path):
    frame = table()
    for name in ("7", "007"):
        (tmp_path / "by" / f"who={name}").mkdir(parents=True)
        frame.to_parquet(tmp_path / "by" / f"who={name}" / "rows.parquet")
    facts = {"target": "y", "n_samples": N_USERS, "features": FEATURES}
    with pytest.raises(ValueError, match="a column within the files"):
        make(tmp_path / "by", groups="who", **facts)


@quiet
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
    of_records = clone(MODEL).set_params(privacy_unit="record")
    others = [
        of_records,
        clone(of_records).set_params(epsilon=math.inf),
        DPStandardScaler(bounds=(-2, 2)),
        DPGradientBoostingClassifier(1.0, columns=COLUMNS, classes=[0, 1]),
        DPGridSearchCV(DPLogisticRegression(classes=[0, 1]), {"C": [1.0, 2.0]}),
    ]
    for model in others:
        with pytest.raises(ValueError, match=r"groups=|groups out"):
            model.fit(users)
    stream = clone(of_records).set_params(solver="ftrl", solver_params={"n_parts": 2})
    with pytest.raises(ValueError, match="without groups="):
        stream.partial_fit(users)
    half = places.in_files(frame, tmp_path / "h", n_samples=len(frame))
    stream.partial_fit(half)
    with pytest.raises(ValueError, match="without groups="):
        stream.partial_fit(users)
    with pytest.raises(ValueError, match="without groups="):
        describe(users, COLUMNS, epsilon=1.0)
    model = clone(MODEL).fit(users)
    with pytest.raises(ValueError, match="without groups="):
        private_score(model, users, epsilon=1.0)
    assert model.predict(users).shape == (len(frame),)
    assert model.score(users) == model.score(rows)


@quiet
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
