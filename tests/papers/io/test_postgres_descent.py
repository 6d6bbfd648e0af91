"""The descent as an aggregate of PostgreSQL: weights of memory, and nothing raises."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from skdp import BudgetLedger, DPLogisticRegression
from skdp.exceptions import SourceError
from skdp.io import SqlSource
from skdp.io._reading import Labels
from skdp.losses import HuberHingeLoss, LogisticLoss, SquaredLoss
from skdp.losses._classification import WeightedLoss
from skdp.losses._objective import LinearObjective
from skdp.papers import TrainingSource, _bolt_on_postgres
from skdp.papers._bolt_on import State
from skdp.papers._bolt_on_postgres import (
    CAN_TRAIN,
    DescentText,
    PlainDescent,
    aggregated,
    is_within,
    target_text,
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
            if query.startswith("EXPLAIN"):  # which cannot be copied
                options = {"adbc.postgresql.use_copy": "false"}
                cursor.adbc_statement.set_options(**options)
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
    updates = solver.updates(objective)
    keys = keys * (given["n_passes"] if len(keys) == 1 else 1)
    return updates, PlainDescent(
        updates.steps,
        updates.shares,
        keys,
        updates.batch_size,
        objective.n_samples,
        objective.n_features,
        objective.alpha,
        updates.radius,
        objective.data_norm,
        objective.intercept_value if objective.fit_intercept else None,
        objective.loss.form,
        objective.loss.form_constants,
    )


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


def trained(link, asked, change=lambda text: text, records=RECORDS):
    """Weights of texts that a twin may have changed."""
    text = DescentText(asked, records)
    link.execute("SAVEPOINT before")
    for statement in text.statements:
        link.execute(change(statement))
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


@pytest.mark.parametrize("batch_size", [1, 7, 60])
@pytest.mark.parametrize("loss", LOSSES)
def test_weights_are_those_of_memory(loss, batch_size, link):
    frame = targets_of(loss, numbers(N))
    memory, there = both(link, frame, objective_of(LOSSES[loss]), batch_size=batch_size)
    assert np.linalg.norm(memory) > 0.01
    assert are_same(memory, there)


@pytest.mark.parametrize(
    "params",
    [
        {"reshuffle": True, "keys": ("1", "2", "3")},
        {"average": "uniform", "radius": 0.2},
        {"average": "linear", "schedule": "strongly_convex"},
        {"schedule": "constant"},
        {"n_passes": 1, "schedule": "decreasing"},
    ],
    ids=str,
)
def test_weights_are_those_of_memory_whatever_the_parameters(params, link):
    objective = objective_of(fit_intercept="radius" not in params)
    memory, there = both(link, numbers(N), objective, batch_size=10, **params)
    assert are_same(memory, there)


HOSTILE = [np.nan, np.inf, -np.inf, 1.7e308, -1.7e308, 1e160, -1e100, 1e91]
HOSTILE += [1e-160, 5e-324, -1e-308, 1e-120, 0.0, -0.0]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("alpha", [0.0, 1.0])
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


def test_weights_that_fade_away_raise_nothing(link):
    """One record, and then only the regulariser, for thousands of halvings."""
    frame = numbers(N)
    frame.loc[frame.index[1:], "a"] = np.nan
    objective = objective_of(alpha=1.0, fit_intercept=False)
    params = {"n_passes": 20, "batch_size": 1, "schedule": "constant"}
    memory, there = both(link, frame, objective, **params)
    assert np.abs(there).max() < 1e-20
    assert np.abs(memory - there).max() <= 1e-100


def test_broken_twin_without_a_grid_raises(link):
    frame = numbers(N)
    frame.loc[:, FEATURES] = 1e-200
    _, asked = asked_of(objective_of(), batch_size=3)
    fill(link, frame)
    *made, last = DescentText(asked, RECORDS).statements
    grid = f"'{2.0**-400!r}'::double precision"
    assert grid in last
    for statement in (*made, last.replace(grid, "'0.0'::double precision")):
        link.execute(statement)
    text = DescentText(asked, RECORDS)
    with pytest.raises(Exception, match="out of range: underflow"):
        link.execute(text.call)


def test_public_numbers_out_of_range_are_left_to_reading():
    _, asked = asked_of(objective_of())
    assert is_within(asked)
    for norm in (1e-30, 1e30):
        assert not is_within(replace(asked, data_norm=norm))
    assert not is_within(replace(asked, n_samples=2**31))


# One order, one state ------------------------------------------------------------


def in_storage_order(text):
    start = text.find("OVER (ORDER BY md5")
    end = text.find(", id)", start) + len(", id)")
    return text if start < 0 else text[:start] + "OVER ()" + text[end:]


def redrawn(text):
    return text.replace("md5(keys[j] || CAST(id AS text))", "md5(random()::text)")


def test_where_rows_are_stored_changes_nothing(link):
    _, asked = asked_of(objective_of(), batch_size=1)
    fill(link, numbers(N))
    found = [trained(link, asked) for _ in range(2)]
    twins = [trained(link, asked, in_storage_order) for _ in range(2)]
    # New versions of rows are stored elsewhere.
    link.execute("UPDATE records SET a = a WHERE y = 1")
    found.append(trained(link, asked))
    twins.append(trained(link, asked, in_storage_order))
    assert all(np.array_equal(one, found[0]) for one in found)
    assert np.array_equal(twins[0], twins[1])
    assert not np.array_equal(twins[1], twins[2])


def test_broken_twin_that_redraws_its_order_is_found(link):
    _, asked = asked_of(objective_of(), batch_size=1)
    fill(link, numbers(N))
    link.execute("SELECT setseed(0.5)")
    found = [trained(link, asked, redrawn) for _ in range(2)]
    assert not np.array_equal(*found)


def test_order_is_that_of_the_call():
    (*_, text) = DescentText(asked_of(objective_of())[1], RECORDS).statements
    assert text.count("ORDER BY place") == 1
    assert "random" not in text


MERGED = """CREATE FUNCTION pg_temp.merged(double precision[], double precision[])
RETURNS double precision[] LANGUAGE sql PARALLEL SAFE AS $$
    SELECT array_agg((a + b) / 2 ORDER BY i)
    FROM unnest($1, $2) WITH ORDINALITY AS pairs(a, b, i) $$"""
FACTS = (
    "SELECT aggcombinefn = 0, proparallel FROM pg_aggregate AS a "
    "JOIN pg_proc AS p ON p.oid = a.aggfnoid WHERE proname = 'skdp_pass'"
)


def mergeable(text):
    return text.replace(
        "PARALLEL = UNSAFE", "PARALLEL = SAFE, COMBINEFUNC = pg_temp.merged"
    )


def facts_of(link, change=lambda text: text):
    link.execute("SAVEPOINT facts")
    link.execute(MERGED)
    for statement in DescentText(asked_of(objective_of())[1], RECORDS).statements:
        link.execute(change(statement))
    (found,) = link.execute(FACTS)
    link.execute("ROLLBACK TO SAVEPOINT facts")
    return found


def test_states_cannot_be_merged(link):
    fill(link, numbers(N))
    assert facts_of(link) == (True, "u")
    assert facts_of(link, mergeable) == (False, "s")


def test_weights_are_the_same_where_plans_are_parallel(link):
    frame, (_, asked) = numbers(N), asked_of(objective_of(), batch_size=1)
    fill(link, frame)
    # Workers do not see temporary tables.
    link.execute("CREATE TABLE stored AS SELECT * FROM records")
    link.execute("ANALYZE stored")
    before = trained(link, asked)
    for name in ("parallel_setup_cost", "parallel_tuple_cost"):
        link.execute(f"SET LOCAL {name} = 0")
    link.execute("SET LOCAL min_parallel_table_scan_size = 0")
    plan = str(link.execute("EXPLAIN SELECT sum(a) FROM stored"))
    assert "Gather" in plan
    there = trained(link, asked, records=RECORDS.replace("records", "stored"))
    assert np.array_equal(before, there)


# The transaction -----------------------------------------------------------------


def test_who_can_train(link):
    assert link.execute(CAN_TRAIN) == [(True,)]
    link.execute("CREATE ROLE weak")
    link.execute("REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC")
    link.execute("SET LOCAL ROLE weak")
    assert link.execute(CAN_TRAIN) == [(False,)]


# By definition of a table with a column k.
KEYS = {
    "k int PRIMARY KEY": True,
    "k int UNIQUE NOT NULL": True,
    "k text PRIMARY KEY": True,
    "k uuid PRIMARY KEY": True,
    "k int": False,
    "k int NOT NULL": False,
    "k int UNIQUE": False,
    "k int NOT NULL UNIQUE DEFERRABLE": False,
    "k int, b int, PRIMARY KEY (k, b)": False,
    "k float8 PRIMARY KEY": False,
    "k int NOT NULL, UNIQUE (k) INCLUDE (y)": True,
}
INDEXES = ["(k) WHERE k > 0", "((k + 1))"]


def accepts(definition, index=None):
    """Whether a source takes k for an id."""
    with Link(autocommit=True) as writer:
        writer.execute("DROP TABLE IF EXISTS known")
        writer.execute(f"CREATE TABLE known (a float8, y int, {definition})")
        if index is not None:
            writer.execute(f"CREATE UNIQUE INDEX ON known {index}")
        try:
            facts = {"target": "y", "n_samples": 5, "record_id": "k"}
            return SqlSource(writer.connection, "known", **facts).is_permutable
        except ValueError as refusal:
            return "PRIMARY KEY, or UNIQUE and NOT NULL" not in str(refusal)
        finally:
            writer.execute("DROP TABLE known")


@pytest.mark.parametrize("definition", KEYS)
def test_keys_are_read_from_the_catalogue(definition):
    assert accepts(definition) is KEYS[definition]


@pytest.mark.parametrize("index", INDEXES)
def test_indexes_of_a_part_or_an_expression_make_no_key(index):
    assert not accepts("k int NOT NULL", index)


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


@pytest.mark.parametrize("where", [None, "b < 0.5"])
@pytest.mark.parametrize("reshuffle", [False, True])
def test_a_fit_inside_is_the_fit_by_reading_and_that_of_duckdb(
    reshuffle, where, study, monkeypatch
):
    model, asked, descend = model_of(reshuffle=reshuffle), [], aggregated
    monkeypatch.setattr(
        _bolt_on_postgres,
        "aggregated",
        lambda *given: asked.append(given) or descend(*given),
    )
    inside = model.fit(source_in(study, where=where)).coef_
    assert len(asked) == 1
    read = model.fit(source_in(study, SqlSource, where=where)).coef_
    assert len(asked) == 1
    frame = numbers(N)
    frame.loc[3, "a"], frame.loc[4, "b"] = np.nan, np.inf
    there = model.fit(source_of(frame, where=where)).coef_
    assert np.allclose(inside, read, rtol=1e-9)
    assert np.allclose(there, read, rtol=1e-9)


def test_labels_with_quotation_marks_are_written():
    assert "'it''s'" in target_text(Labels(np.array(["it's", "so"])), "cell")


def test_who_may_make_nothing_is_told_so_and_reads_the_same(study):
    inside = model_of().fit(source_in(study)).coef_
    study.execute("REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC")
    study.execute("CREATE ROLE weak LOGIN")
    study.execute("GRANT SELECT ON study TO weak")
    try:
        from adbc_driver_postgresql import dbapi

        where = uri().replace("postgres@", "weak@")
        with dbapi.connect(where, autocommit=True) as weak:
            facts = {"target": "y", "n_samples": N, "record_id": "key"}
            with pytest.raises(ValueError, match="A TrainingSource must be"):
                TrainingSource(weak, "study", **facts)
            read = model_of().fit(SqlSource(weak, "study", **facts)).coef_
    finally:
        study.execute("DROP OWNED BY weak")
        study.execute("DROP ROLE weak")
        study.execute("GRANT TEMPORARY ON DATABASE postgres TO PUBLIC")
    assert np.allclose(inside, read, rtol=1e-9)


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


def test_more_outputs_are_read(study, monkeypatch):
    study.execute("UPDATE study SET y = key % 3")

    def refuses(engine, text):
        raise AssertionError

    monkeypatch.setattr(_bolt_on_postgres, "aggregated", refuses)
    model = model_of().set_params(classes=[0, 1, 2])
    assert model.fit(source_in(study)).coef_.shape == (3, len(FEATURES))


def test_duckdb_is_read_and_needs_no_aggregate():
    facts = {"target": "y", "n_samples": N, "record_id": "key"}
    with pytest.raises(ValueError, match="A TrainingSource must be"):
        TrainingSource(table_of(numbers(N)), "records", **facts)


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


def fitted_inside(connection, label, books):
    """By the server, which is told the labels."""
    facts = {"target": "y", "n_samples": 100, "record_id": "key"}
    source = TrainingSource(connection, "records", **facts)
    given = {"solver": "bolt_on", "solver_params": {"n_passes": 2, "batch_size": 10}}
    asked = DPLogisticRegression(5.0, classes=["a", label], ledger=books, **given)
    return asked.fit(source)


@pytest.mark.parametrize("label", ["\u0141\u00f3d\u017a", "a\0b", "b"])
def test_labels_that_a_database_cannot_write_are_in_no_row(label, in_latin1, tmp_path):
    books = BudgetLedger(tmp_path / "books.db", epsilon=10.0, delta=1e-3)
    fitted = fitted_inside(in_latin1, label, books)
    assert set(fitted.classes_) == {"a", label}
    assert len(books.spends()) == 1


def test_broken_twin_that_writes_any_label_ends_after_the_commit(
    in_latin1, tmp_path, monkeypatch
):
    monkeypatch.setattr(_bolt_on_postgres, "_can_write", lambda text, encoding: True)
    books = BudgetLedger(tmp_path / "books.db", epsilon=10.0, delta=1e-3)
    with pytest.raises(SourceError):
        fitted_inside(in_latin1, "\u0141", books)
    assert len(books.spends()) == 1
