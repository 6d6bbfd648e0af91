"""Several connections that read one table of PostgreSQL at once."""

from __future__ import annotations

import threading
import traceback

import numpy as np
import pytest

from skdp import BudgetLedger, DPLogisticRegression
from skdp.exceptions import READ_FAILED, SourceError
from skdp.io import SqlSource
from skdp.io.engines._postgres import PostgreSQL
from tests.io import places
from tests.io.places import (
    FEATURES,
    N,
    database,
    in_postgres,
    kept,
    numbers,
    postgres,
    read,
)

FACTS = {"target": "y", "n_samples": N, "features": FEATURES}


@pytest.fixture(autouse=True)
def rows_are_fetched_in_every_pass(monkeypatch):
    places.keeps(monkeypatch, 0)


def run(connection, *statements):
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def model(**given):
    steps = {"solver": "noisy_gd", "solver_params": {"n_steps": 4}}
    return DPLogisticRegression(epsilon=1.0, classes=[0, 1], **(steps | given))


@pytest.fixture(scope="module")
def study():
    """For tests that change nothing."""
    with kept() as once:
        connection = once(postgres, numbers())
        run(
            connection,
            "CREATE VIEW few AS SELECT * FROM records WHERE a > 0",
            "CREATE TABLE parts (LIKE records) PARTITION BY RANGE (key)",
            "CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (100)",
            "CREATE TABLE high PARTITION OF parts FOR VALUES FROM (100) TO (900)",
            "INSERT INTO parts SELECT * FROM records",
            "CREATE TABLE heir () INHERITS (records)",
            "INSERT INTO heir SELECT r.* FROM ONLY records r, (VALUES (1), (2)) AS t",
        )
        yield connection


# ------------------------------------------------------------ each row once, anywhere


@pytest.mark.parametrize(
    ("table", "n_rows", "n_readers"),
    [("parts", N, 3), ("records", 3 * N, 2), ("low", 100, 64)],
)
def test_every_row_is_read_once(table, n_rows, n_readers, study):
    facts = FACTS | {"n_samples": n_rows}
    source = SqlSource(study, table, **facts, n_readers=n_readers)
    _, present, others = read(source)
    _, _, alone = read(SqlSource(study, table, **facts))
    assert len(present) == n_rows
    assert others["key"].tolist() == alone["key"].tolist()


def test_readings_in_an_order_have_one_reader(study):
    source = SqlSource(
        study, "parts", **FACTS, n_readers=3, order_by="key", batch_size=50
    )
    fitted = model(random_state=0).fit(source)
    np.testing.assert_array_equal(
        fitted.predict(source), fitted.predict(numbers()[FEATURES])
    )


@pytest.mark.parametrize("n_readers", [2, 65])
def test_what_cannot_be_divided_is_refused(n_readers, study):
    given = FACTS | {"n_readers": n_readers, "one_record_per_row": True}
    for connection, table in ((study, "few"), (database(numbers()), "records")):
        with pytest.raises((ValueError, TypeError), match="'n_readers'"):
            SqlSource(connection, table, **given)


# ------------------------------------------------------------- one moment, or nothing


class Meddled(SqlSource):
    """A source during whose passes something happens, after some batches."""

    n_batches = 0

    def happens(self):
        raise NotImplementedError

    def _scan(self, names):
        for part in super()._scan(names):
            self.n_batches += 1
            self.happens()
            yield part


def test_readers_see_what_was_there_when_the_fit_began():
    connection = postgres(numbers())

    class Updated(Meddled):
        def happens(self):
            run(connection, "UPDATE records SET a = 1e9, y = 1 - y")

    asked = model(random_state=0)
    honest = asked.fit(in_postgres(numbers())).coef_
    source = Updated(connection, "records", **FACTS, n_readers=2)
    assert np.array_equal(asked.fit(source).coef_, honest)


def test_twin_with_another_snapshot_is_refused(monkeypatch):
    source = in_postgres(numbers(), n_readers=2)
    begin = PostgreSQL._begin

    def other_snapshot(self, snapshot="", access="READ ONLY"):
        begin(self, "", access)
        if snapshot:
            # It looks at another moment than the one that was exported.
            run(self._connection, "UPDATE records SET a = 1e9")
            self._run("COMMIT")
            self._run("BEGIN ISOLATION LEVEL REPEATABLE READ")

    monkeypatch.setattr(PostgreSQL, "_begin", other_snapshot)
    with pytest.raises(SourceError):
        model().fit(source)


def test_a_dropped_reader(tmp_path):
    """One message, one spend, no number, and no thread left behind."""
    connection = postgres(numbers())
    books = BudgetLedger(tmp_path / "books.db", epsilon=10.0, delta=1e-3)

    class Dropped(Meddled):
        def happens(self):
            if self.n_batches == 3:
                engine = self._engine._readers._engines[1]
                (pid, *_) = engine._state
                run(connection, f"SELECT pg_terminate_backend({pid})")

    asked = model(ledger=books)
    source = Dropped(connection, "records", **FACTS, n_readers=2)
    before = threading.active_count()
    with pytest.raises(SourceError) as caught:
        asked.fit(source)
    assert caught.value.args == (READ_FAILED,)
    assert caught.value.__context__ is None
    assert "terminating" not in "".join(traceback.format_exception(caught.value))
    assert threading.active_count() == before
    assert len(books.spends()) == 1
    assert not hasattr(asked, "coef_")
    asked.fit(SqlSource(connection, "records", **FACTS, n_readers=2))
    assert len(books.spends()) == 2


def test_a_reading_that_is_left_ends_its_readers():
    source = in_postgres(numbers(), n_readers=3, batch_size=50)

    def first_rows():
        return len(next(iter(source.rows(source.reading())))[0])

    before = threading.active_count()
    with pytest.raises(SourceError):
        # Whoever leaves a pass has not seen all rows of it.
        source.during(lambda: [first_rows(), 1 / 0])
    assert threading.active_count() == before
    assert source._engine._readers._engines == []
