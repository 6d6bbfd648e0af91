"""The descent as an aggregate of PostgreSQL: weights of memory, and nothing raises."""

from __future__ import annotations

from contextlib import closing, nullcontext

import numpy as np
import pyarrow as pa
import pytest

from skdp import BudgetLedger, DPLogisticRegression
from skdp._fit import Progress
from skdp.exceptions import SourceError
from skdp.io import SqlSource
from skdp.losses import HuberHingeLoss, LogisticLoss, SquaredLoss
from skdp.losses._classification import WeightedLoss
from skdp.losses._objective import LinearObjective
from skdp.papers import TrainingSource, _bolt_on, _bolt_on_postgres
from skdp.papers._bolt_on import State
from skdp.papers._bolt_on_postgres import (
    DescentText,
    aggregated,
)
from skdp.tables._source import Block
from tests.io import postgres_cluster
from tests.io.engines.test_postgres import connected, run
from tests.io.places import FEATURES, numbers
from tests.io.postgres_cluster import uri
from tests.io.test_permuted import order_of, source_of, table_of
from tests.papers.permutation import resolved

N = 151
LOSSES = {
    "logistic": LogisticLoss(),
    "hinge": HuberHingeLoss(),
    "squared": SquaredLoss(residual_bound=0.7, target_bound=2.0),
    "weighted": WeightedLoss(LogisticLoss(), (0.3, 1.0)),
}
CELLS = ", ".join(f"{name} AS x{j}" for j, name in enumerate(FEATURES))
RECORDS = f"SELECT key AS id, {CELLS}, y FROM records"


class Link:
    """A connection in a transaction; answers as lists of rows."""

    def __init__(self, autocommit=False):
        where = uri()
        from adbc_driver_postgresql import dbapi

        self.connection = dbapi.connect(where, autocommit=autocommit)

    def execute(self, query):
        with closing(self.connection.cursor()) as cursor:
            cursor.execute(query)
            return cursor.fetchall() if cursor.description else []

    def load(self, name, table):
        values = ", ".join(f"${i + 1}" for i in range(table.num_columns))
        with closing(self.connection.cursor()) as cursor:
            cursor.executemany(f"INSERT INTO {name} VALUES ({values})", table)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()


@pytest.fixture
def link():
    with Link() as found:
        yield found


def fill(link, frame):
    """A table `records`, in no order."""
    own = ", ".join(f"{name} float8" for name in [*FEATURES, "y"])
    link.execute(f"CREATE TEMP TABLE records (key bigint PRIMARY KEY, {own})")
    frame = frame.sample(frac=1.0, random_state=3)[["key", *FEATURES, "y"]]
    frame = frame.astype(dict.fromkeys([*FEATURES, "y"], float))
    link.load("records", pa.Table.from_pandas(frame, preserve_index=False))


def asked_of(objective, keys=("ab12",), **params):
    given = {"n_passes": 3, "step_size": 0.5, "schedule": "sqrt"} | params
    solver = resolved(objective, **given)
    keys = keys * (given["n_passes"] if len(keys) == 1 else 1)
    asked = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_bolt_on, "descended", lambda source, own: asked.append(own))
        descent = solver.descent(objective, Progress())
        assert descent._descended(None, keys) is None
    return descent.updates, asked[0]


def objective_of(loss=LOSSES["logistic"], **facts):
    given = {"n_samples": N, "n_features": len(FEATURES), "data_norm": 0.4}
    given |= {"adjacency": "replace_one", "alpha": 0.01} | facts
    return LinearObjective(loss=loss, **given)


def from_memory(frame, objective, updates, keys):
    X, y = frame[FEATURES].to_numpy(), frame["y"].to_numpy().astype(float)
    present = np.isfinite(X).all(axis=1) & np.isfinite(y)
    X = np.where(present[:, None], X, 0.0)
    state = State(objective, updates)
    with np.errstate(all="ignore"):
        for key in keys:
            state.transition(Block(X, y, present), order_of(frame, key))
    return state.terminate().ravel()


def trained(link, asked):
    text = DescentText(asked, RECORDS)
    link.execute("SAVEPOINT before")
    for statement in text.statements:
        link.execute(statement)
    ((found,),) = link.execute(text.call)
    link.execute("ROLLBACK TO SAVEPOINT before")
    return np.array(found)


def both(link, frame, objective, **params):
    """Weights from memory, and from the cluster."""
    updates, asked = asked_of(objective, **params)
    fill(link, frame)
    memory = from_memory(frame, objective, updates, asked.keys)
    return memory, trained(link, asked)


def are_same(memory, there):
    return np.abs(memory - there).max() <= 1e-12 * np.abs(memory).max()


def targets_of(loss, frame):
    return frame.assign(y=frame["t"] * 3) if loss == "squared" else frame


# The weights ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "batch_size", "params"),
    [
        ("logistic", 1, {}),
        ("hinge", 7, {"average": "uniform", "radius": 0.2}),
        ("squared", 60, {"average": "linear", "schedule": "strongly_convex"}),
        ("weighted", 10, {"reshuffle": True, "keys": ("1", "2", "3")}),
        ("logistic", 10, {"n_passes": 1, "schedule": "decreasing"}),
    ],
)
def test_weights_are_those_of_memory(loss, batch_size, params, link):
    frame = targets_of(loss, numbers(N))
    objective = objective_of(LOSSES[loss], fit_intercept="radius" not in params)
    memory, there = both(link, frame, objective, batch_size=batch_size, **params)
    assert np.linalg.norm(memory) > 0.01
    assert are_same(memory, there)


HOSTILE = [np.nan, np.inf, -np.inf, 1.7e308, -1.7e308, 1e160, -1e100, 1e91]
HOSTILE += [1e-160, 5e-324, -1e-308, 1e-120, 0.0, -0.0]


@pytest.mark.parametrize(("loss", "alpha"), [("squared", 0.0), ("weighted", 1.0)])
def test_no_number_raises_or_spoils_the_weights(loss, alpha, link):
    frame = targets_of(loss, numbers(N)).astype({"y": float})
    rng = np.random.default_rng(0)
    for name in FEATURES:
        hit = rng.random(N) < 0.6
        frame.loc[hit, name] = rng.choice(HOSTILE[3:], hit.sum())
    frame.loc[5:12, "a"] = HOSTILE[:8]
    frame.loc[20, FEATURES] = 5e-324
    frame.loc[21, FEATURES] = 1.7e308
    frame.loc[22:24, "y"] = HOSTILE[:3]
    if loss == "squared":
        frame.loc[25:35, "y"] = HOSTILE[3:]
    memory, there = both(
        link, frame, objective_of(LOSSES[loss], alpha=alpha), batch_size=3
    )
    assert np.isfinite(there).all()
    assert are_same(memory, there)


# By definition of a table with a column k.
KEYS = ("int PRIMARY KEY", "int UNIQUE NOT NULL", "text PRIMARY KEY")
KEYS += ("uuid PRIMARY KEY", "int NOT NULL, UNIQUE (k) INCLUDE (y)")
NONE = ("int", "int NOT NULL", "int UNIQUE", "int NOT NULL UNIQUE DEFERRABLE")
NONE += ("int, b int, PRIMARY KEY (k, b)", "float8 PRIMARY KEY")


@pytest.mark.parametrize("definition", KEYS + NONE)
def test_keys_are_read_from_the_catalogue(definition):
    with Link(autocommit=True) as writer:
        writer.execute("DROP TABLE IF EXISTS known")
        writer.execute(f"CREATE TABLE known (a float8, y int, k {definition})")
        facts = {"target": "y", "n_samples": 5, "record_id": "k"}
        expected = nullcontext()
        if definition in NONE:
            expected = pytest.raises(ValueError, match="PRIMARY KEY, or UNIQUE and NOT")
        with expected:
            SqlSource(writer.connection, "known", **facts)
        writer.execute("DROP TABLE known")


# Through an estimator ------------------------------------------------------------


def stored(writer, frame):
    """A table that other connections see."""
    own = ", ".join(f"{name} float8" for name in FEATURES)
    writer.execute("DROP TABLE IF EXISTS study")
    writer.execute(f"CREATE TABLE study (key bigint PRIMARY KEY, {own}, y int)")
    frame = frame[["key", *FEATURES, "y"]].astype({"y": int})
    writer.load("study", pa.Table.from_pandas(frame, preserve_index=False))


@pytest.fixture
def study():
    frame = numbers(N)
    frame.loc[3, "a"] = np.nan
    frame.loc[4, "b"] = np.inf
    with Link(autocommit=True) as writer:
        stored(writer, frame)
        yield writer
        writer.execute("DROP TABLE study")


def model_of(**params):
    given = {"n_passes": 2, "batch_size": 10} | params
    return DPLogisticRegression(
        5.0, classes=[0, 1], solver="bolt_on", solver_params=given, random_state=0
    )


def source_in(study, kind=TrainingSource, **facts):
    given = {"target": "y", "n_samples": N, "record_id": "key"}
    return kind(study.connection, "study", **(given | facts))


@pytest.mark.parametrize(("reshuffle", "where"), [(False, None), (True, "b < 0.5")])
def test_a_fit_inside_is_the_fit_by_reading_and_that_of_duckdb(
    reshuffle, where, study, monkeypatch
):
    model, asked, descend = model_of(reshuffle=reshuffle), [], aggregated

    def spied(*given):
        asked.append(given)
        return descend(*given)

    monkeypatch.setattr(_bolt_on_postgres, "aggregated", spied)
    inside = model.fit(source_in(study, where=where)).coef_
    assert len(asked) == 1
    read = model.fit(source_in(study, SqlSource, where=where)).coef_
    assert len(asked) == 1
    frame = numbers(N)
    frame.loc[3, "a"], frame.loc[4, "b"] = np.nan, np.inf
    there = model.fit(source_of(frame, where=where)).coef_
    assert np.allclose(inside, read, rtol=1e-9)
    assert np.allclose(there, read, rtol=1e-9)


def test_duckdb_is_read_and_needs_no_aggregate():
    facts = {"target": "y", "n_samples": N, "record_id": "key"}
    with pytest.raises(ValueError, match="A TrainingSource must be"):
        TrainingSource(table_of(numbers(N)), "records", **facts)


def test_training_sees_the_snapshot_and_leaves_nothing(study, monkeypatch):
    """What others commit between the first count and the training is not seen."""
    before = model_of().fit(source_in(study)).coef_
    descend = aggregated

    def disturbed(self, *given):
        with Link(autocommit=True) as other:
            other.execute("UPDATE study SET a = -a")
        return descend(self, *given)

    monkeypatch.setattr(_bolt_on_postgres, "aggregated", disturbed)
    assert np.array_equal(before, model_of().fit(source_in(study)).coef_)
    assert not np.array_equal(before, model_of().fit(source_in(study)).coef_)
    left = study.execute("SELECT count(*) FROM pg_proc WHERE proname LIKE 'skdp%'")
    assert left == [(0,)]


def test_a_training_that_fails_is_one_constant_message(study, monkeypatch, tmp_path):
    """The connection is dropped while the server trains."""
    ledger = BudgetLedger(tmp_path / "books.db", epsilon=20.0, delta=1e-3)
    make = DescentText.statements.fget

    def slow(self):
        *made, last = make(self)
        end = "pg_terminate_backend(pg_backend_pid())"
        yield from [*made, last.replace("RETURN s[", f"PERFORM {end}; RETURN s[")]

    monkeypatch.setattr(DescentText, "statements", property(slow))
    model = model_of().set_params(ledger=ledger, random_state=None)
    with pytest.raises(SourceError, match="could not be read to the end") as failure:
        model.fit(source_in(study))
    assert failure.value.__context__ is None
    assert len(ledger.spends()) == 1


LATIN1 = "ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"


@pytest.fixture
def in_latin1():
    """A connection to a database in which not all labels can be written."""
    uri = postgres_cluster.uri()
    with connected(uri) as own:
        run(own, f"CREATE DATABASE latin {LATIN1}")
        with connected(uri.replace("/postgres?", "/latin?")) as other:
            run(
                other,
                "CREATE TABLE records AS SELECT i AS key, CAST(i AS REAL) / 100 AS a, "
                "chr(97 + i % 2) AS y FROM generate_series(0, 99) AS t(i)",
                "ALTER TABLE records ADD PRIMARY KEY (key)",
            )
            yield other
        run(own, "DROP DATABASE latin WITH (FORCE)")


def test_labels_that_a_database_cannot_write_are_in_no_row(
    in_latin1, tmp_path, monkeypatch
):
    books = BudgetLedger(tmp_path / "books.db", epsilon=100.0, delta=1e-3)
    facts = {"target": "y", "n_samples": 100, "record_id": "key"}
    source = TrainingSource(in_latin1, "records", **facts)
    model = model_of().set_params(ledger=books, random_state=None)
    for count, label in enumerate(["\u0141\u00f3d\u017a", "a\0b", "b"], start=1):
        model.set_params(classes=["a", label]).fit(source)
        assert set(model.classes_) == {"a", label}
        assert len(books.spends()) == count
    # A broken twin that writes any label ends after the commit.
    monkeypatch.setattr(_bolt_on_postgres, "_can_write", lambda text, encoding: True)
    with pytest.raises(SourceError):
        model.set_params(classes=["a", "\u0141"]).fit(source)
    assert len(books.spends()) == 4
