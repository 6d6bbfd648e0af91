"""The descent as an aggregate of PostgreSQL: weights of memory, and nothing raises."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import numpy as np
import pandas as pd
import pytest

from skdp import DPLogisticRegression
from skdp.data import Block
from skdp.io._duckdb import DuckDB
from skdp.io._postgres_descent import (
    CAN_TRAIN,
    IS_KEY,
    DescentText,
    descended,
    is_within,
)
from skdp.losses import HuberHingeLoss, LogisticLoss, SquaredLoss
from skdp.objectives import LinearObjective
from skdp.queries._plain_descent import PlainDescent
from skdp.solvers._permuted_descent import State
from tests.io.cluster import postgres  # noqa: F401 - a fixture
from tests.io.places import FEATURES, numbers
from tests.io.test_permuted import order_of, source_of
from tests.solvers.permutation import resolved

N = 151
LOSSES = {
    "logistic": LogisticLoss(),
    "hinge": HuberHingeLoss(),
    "squared": SquaredLoss(residual_bound=0.7, target_bound=2.0),
}
CELLS = ", ".join(f"{name} AS x{j}" for j, name in enumerate(FEATURES))
RECORDS = f"SELECT key AS id, {CELLS}, y FROM records"


@pytest.fixture
def link(postgres):  # noqa: F811 - the fixture
    import psycopg

    with psycopg.connect(postgres) as found:
        yield found
        found.rollback()


def fill(link, frame):
    """A table `records`, in no order."""
    own = ", ".join(f"{name} float8" for name in [*FEATURES, "y"])
    link.execute(f"CREATE TEMP TABLE records (key bigint PRIMARY KEY, {own})")
    frame = frame.sample(frac=1.0, random_state=3)
    with link.cursor().copy("COPY records FROM STDIN") as copy:
        for row in frame[["key", *FEATURES, "y"]].itertuples(index=False):
            key, *cells = row
            copy.write_row([int(key), *(float(cell) for cell in cells)])


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


def both(link, frame, objective, **params):
    """Weights from memory, and from the cluster."""
    updates, asked = asked_of(objective, **params)
    fill(link, frame)
    memory = from_memory(frame, objective, updates, asked.keys)
    return memory, descended(link, asked, RECORDS)


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
    import psycopg

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
    with pytest.raises(psycopg.errors.NumericValueOutOfRange):
        link.execute(text.call, text.given)


def test_public_numbers_out_of_range_are_left_to_reading():
    _, asked = asked_of(objective_of())
    assert is_within(asked)
    for norm in (1e-30, 1e30):
        assert not is_within(replace(asked, data_norm=norm))
    assert not is_within(replace(asked, n_samples=2**31))


# One order, one state ------------------------------------------------------------


def trained(link, asked, change=lambda text: text):
    """Weights of texts that a twin may have changed."""
    text = DescentText(asked, RECORDS)
    link.execute("SAVEPOINT before")
    for statement in text.statements:
        link.execute(change(statement))
    ((found,),) = link.execute(text.call, text.given).fetchall()
    link.execute("ROLLBACK TO before")
    return np.array(found)


def without_order(text):
    return text.replace("ORDER BY place", "")


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
    (found,) = link.execute(FACTS).fetchall()
    link.execute("ROLLBACK TO facts")
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
    plan = str(link.execute("EXPLAIN SELECT sum(a) FROM stored").fetchall())
    assert "Gather" in plan
    there = descended(link, asked, RECORDS.replace("records", "stored"))
    assert np.array_equal(before, there)


# The transaction -----------------------------------------------------------------


def test_a_writing_transaction_shares_the_snapshot_of_a_reading_one(postgres):  # noqa: F811 - the fixture
    import psycopg

    _, asked = asked_of(objective_of(), batch_size=3)
    with (
        psycopg.connect(postgres, autocommit=True) as writer,
        psycopg.connect(postgres, autocommit=True) as reader,
        psycopg.connect(postgres, autocommit=True) as trainer,
    ):
        own = ", ".join(f"{name} float8" for name in [*FEATURES, "y"])
        writer.execute(f"CREATE TABLE records (key bigint PRIMARY KEY, {own})")
        try:
            rows = numbers(N)[["key", *FEATURES, "y"]].to_numpy().tolist()
            with writer.cursor() as cursor:
                cursor.executemany("INSERT INTO records VALUES (%s,%s,%s,%s,%s)", rows)
            reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            ((token,),) = reader.execute("SELECT pg_export_snapshot()").fetchall()
            found = []
            for _ in range(2):
                trainer.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
                trainer.execute(f"SET TRANSACTION SNAPSHOT '{token}'")
                found.append(descended(trainer, asked, RECORDS))
                trainer.execute("ROLLBACK")
                writer.execute("UPDATE records SET a = 2 * a")
            left = trainer.execute(
                "SELECT count(*) FROM pg_proc WHERE proname LIKE 'skdp%'"
            )
            assert left.fetchall() == [(0,)]
            assert np.array_equal(*found)
            assert not np.array_equal(found[0], descended(trainer, asked, RECORDS))
        finally:
            reader.execute("ROLLBACK")
            writer.execute("DROP TABLE records")


def test_who_can_train(link):
    assert link.execute(CAN_TRAIN).fetchall() == [(True,)]
    link.execute("CREATE ROLE weak")
    link.execute("REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC")
    link.execute("SET LOCAL ROLE weak")
    assert link.execute(CAN_TRAIN).fetchall() == [(False,)]


# By definition of a column k of a table.
KEYS = {
    "k int PRIMARY KEY": True,
    "k int UNIQUE NOT NULL": True,
    "k text PRIMARY KEY": True,
    "k int": False,
    "k int NOT NULL": False,
    "k int UNIQUE": False,
    "k int NOT NULL UNIQUE DEFERRABLE": False,
    "k int, b int, PRIMARY KEY (k, b)": False,
    "k int GENERATED ALWAYS AS (1) STORED UNIQUE NOT NULL": False,
}


@pytest.mark.parametrize("columns", KEYS)
def test_keys_are_read_from_the_catalogue(columns, link):
    link.execute(f"CREATE TABLE known ({columns})")
    asked = "known", "k"
    ((oid,),) = link.execute("SELECT 'known'::regclass::oid").fetchall()
    found = link.execute(IS_KEY, (oid, asked[1])).fetchall()
    assert found == [(KEYS[columns],)]


@pytest.mark.parametrize("index", ["(k) WHERE k > 0", "((k + 1))"])
def test_indexes_of_a_part_or_an_expression_make_no_key(index, link):
    link.execute("CREATE TABLE known (k int NOT NULL)")
    link.execute(f"CREATE UNIQUE INDEX ON known {index}")
    ((oid,),) = link.execute("SELECT 'known'::regclass::oid").fetchall()
    assert link.execute(IS_KEY, (oid, "k")).fetchall() == [(False,)]


# Through an estimator ------------------------------------------------------------


class TrainsElsewhere(DuckDB):
    """DuckDB that has its records go through the aggregate of a cluster."""

    trains, link, n_descents = True, None, 0

    def descended(self, asked, records):
        rows = self._link.sql(records).df()
        names = [f"x{j}" for j in range(asked.n_features)]
        link = type(self).link
        own = ", ".join(f"{name} float8" for name in [*names, "y"])
        link.execute(f"CREATE TEMP TABLE shown (id bigint, {own})")
        with link.cursor().copy("COPY shown FROM STDIN") as copy:
            for row in rows[["id", *names, "y"]].itertuples(index=False):
                cells = [None if pd.isna(cell) else float(cell) for cell in row[1:]]
                copy.write_row([int(row[0]), *cells])
        type(self).n_descents += 1
        return descended(link, asked, "SELECT * FROM shown")


@pytest.mark.parametrize("reshuffle", [False, True])
def test_a_fit_inside_is_the_fit_by_reading(reshuffle, link, monkeypatch):
    params = {"n_passes": 2, "batch_size": 10, "reshuffle": reshuffle}
    model = DPLogisticRegression(
        5.0, classes=[0, 1], solver="bolt_on", solver_params=params, random_state=0
    )
    frame = numbers(N)
    frame.loc[3, "a"] = np.nan
    read = model.fit(source_of(frame, where="b < 0.5")).coef_
    monkeypatch.setattr(TrainsElsewhere, "link", link)
    monkeypatch.setattr(TrainsElsewhere, "n_descents", 0)
    monkeypatch.setattr("skdp.io._sql.DuckDB", TrainsElsewhere)
    inside = model.fit(source_of(frame, where="b < 0.5")).coef_
    assert TrainsElsewhere.n_descents == 1
    assert np.allclose(read, inside, rtol=1e-9)


def test_more_outputs_are_read():
    class Refuses(TrainsElsewhere):
        def descended(self, asked, records):
            raise AssertionError

    frame = numbers(N)
    frame["y"] = np.arange(N) % 3
    model = DPLogisticRegression(
        5.0,
        classes=[0, 1, 2],
        solver="bolt_on",
        solver_params={"n_passes": 1, "batch_size": 10},
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skdp.io._sql.DuckDB", Refuses)
        assert model.fit(source_of(frame)).coef_.shape == (3, len(FEATURES))


def test_duckdb_is_read_and_needs_no_aggregate():
    assert not DuckDB(duckdb.connect()).trains
