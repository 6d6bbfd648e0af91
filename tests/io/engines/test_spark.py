"""Spark as a source: the bits of memory, one copy for each fit, and what is refused."""

from __future__ import annotations

import gc
import traceback

import numpy as np
import pytest
from sklearn.base import clone

from skdp import BudgetLedger, DPLogisticRegression
from skdp.exceptions import READ_FAILED, SourceError
from skdp.io import SqlSource
from skdp.io.engines._spark import Spark, _spelled
from tests.io import places
from tests.io.places import FEATURES, N, numbers, read
from tests.io.spark import stored
from tests.io.test_same_bits import MODELS, released

# Pyspark leaves it to the collector to close its sockets.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
FACTS = {"target": "y", "n_samples": N}


@pytest.fixture(autouse=True)
def _sockets_end():
    yield
    gc.collect()


@pytest.fixture
def is_too_large_to_keep(monkeypatch):
    places.keeps(monkeypatch, 0)


@pytest.fixture(scope="module")
def study():
    """One table for all that do not change it, and others that are made of it."""
    session = stored(numbers())
    for statement in (
        "CREATE VIEW few AS SELECT * FROM records WHERE a > 0",
        "CREATE VIEW halves AS SELECT a / 2 AS half, y, key FROM records",
        "CREATE TABLE lines USING csv AS SELECT * FROM records",
        "CREATE TEMPORARY VIEW mine AS SELECT * FROM records",
        "CREATE OR REPLACE GLOBAL TEMPORARY VIEW shared AS SELECT * FROM records",
    ):
        session.sql(statement)
    return session, session.catalog.currentDatabase()


@pytest.fixture
def here(study):
    session, database = study
    session.sql(f"USE {database}")
    return session


def model(**given):
    steps = {"solver": "noisy_gd", "solver_params": {"n_steps": 3}}
    return DPLogisticRegression(epsilon=1.0, classes=[0, 1], **steps, **given)


def n_copies(session):
    return session._jsc.getPersistentRDDs().size()


# --------------------------------------------------------------- the bits of memory


@pytest.mark.parametrize("name", ["noisy_gd", "centred", "moments", "boosting"])
def test_fits_are_equal_bit_for_bit(name, here):
    frame, (asked, target) = numbers(), MODELS[name]
    inside = clone(asked).fit(frame[FEATURES], frame[target])
    facts = {"n_samples": N, "features": FEATURES, "target": target}
    there = clone(asked).fit(SqlSource(here, "records", **facts))
    for one, other in zip(released(inside), released(there), strict=True):
        assert one.tobytes() == other.tobytes()
    assert n_copies(here) == 0


# ------------------------------------------------------------------ what is read


TYPED = (
    "CREATE TABLE typed USING parquet AS SELECT key, y, CAST(key % 7 AS TINYINT) AS "
    "small, CAST(key AS INT) AS whole, key AS big, CAST(a AS FLOAT) AS single, a AS "
    "precise, CAST(key / 8 AS DECIMAL(20, 3)) AS exact, key % 2 = 0 AS is_so, "
    "IF(key % 3 = 0, NULL, 'it''s \\\\ so') AS word, "
    "date_add(DATE'2020-01-01', CAST(key AS INT)) AS day, "
    "TIMESTAMP'2020-01-01 10:00:00' AS moment, array(key) AS several FROM records"
).replace("it''s", "it\\'s")


@pytest.fixture(scope="module")
def typed(study):
    session, database = study
    session.sql(f"USE {database}")
    session.sql(TYPED)


@pytest.mark.usefixtures("typed")
def test_types(here):
    source = SqlSource(here, "typed", **FACTS)
    told = source.dtypes
    told.pop("key")
    assert told == {
        "small": "int8",
        "whole": "int32",
        "big": "int64",
        "single": "float",
        "precise": "double",
        "exact": "double",
        "is_so": "bool",
        "word": "string",
        "day": "date32[day]",
        "moment": "timestamp[us]",
        "several": "string",
    }
    plain = ["small", "whole", "big", "single", "precise", "exact", "is_so"]
    source = SqlSource(here, "typed", **FACTS, features=plain)
    rows, present, others = read(source, also=("key", "day", "moment", "several"))
    key = np.arange(N)
    assert present.all()
    assert np.array_equal(rows[:, 5].astype(float), key / 8)
    assert np.array_equal(rows[:, 3].astype(float), numbers()["a"].astype(np.float32))
    assert str(others["day"].iloc[31]) == "2020-02-01"
    assert others["several"].iloc[7] == "[7]"


CONDITIONS = {
    "word = 'it''s \\ so'": lambda key: key % 3 > 0,
    "word IS NULL OR word < 'a'": lambda key: key % 3 == 0,
    '"exact" BETWEEN 1 AND 2.5 AND NOT is_so': lambda key: (
        (key >= 8) & (key <= 20) & (key % 2 == 1)
    ),
    "day >= '2020-01-11' AND moment < '2020-01-01T10:30:00'": lambda key: key >= 10,
    "small IN (1, 2) AND is_so = TRUE": lambda key: (
        np.isin(key % 7, [1, 2]) & (key % 2 == 0)
    ),
}


@pytest.mark.parametrize("text", CONDITIONS)
@pytest.mark.usefixtures("typed")
def test_conditions(text, here):
    source = SqlSource(here, "typed", **FACTS, features=["whole"], where=text)
    _, present, _ = read(source)
    assert np.array_equal(present, CONDITIONS[text](np.arange(N)))


@pytest.mark.parametrize("text", ["a / b > 1", "rand() < 0.5", "assert_true(a > 0)"])
def test_expressions_that_may_fail_are_refused(text, here):
    with pytest.raises(ValueError, match="must be a column, or a condition"):
        SqlSource(here, "records", **FACTS, where=text)


def test_texts_and_names_are_respelled():
    text = """SELECT "a`b""c", 'it''s "\\' AS x, CAST(y AS DOUBLE PRECISION)"""
    expected = """SELECT `a``b"c`, 'it\\'s "\\\\' AS x, CAST(y AS DOUBLE)"""
    assert _spelled(text) == expected


@pytest.mark.parametrize("name", ["few", "halves", "lines", "global_temp.shared"])
def test_views_and_text_files_need_a_declaration(name, here):
    with pytest.raises(ValueError, match="one_record_per_row=True"):
        SqlSource(here, name, **FACTS)


def test_a_declared_view(here):
    facts = {"features": ["half"], "one_record_per_row": True}
    source = SqlSource(here, "halves", **FACTS, **facts)
    rows, _, _ = read(source)
    assert np.array_equal(rows[:, 0].astype(float), numbers()["a"] / 2)
    assert any("each row of the query" in told for told in source.assumed_public)
    assert any("computes twice" in told for told in source.assumed_public)


@pytest.mark.parametrize(
    "text", ["mine", "no_such_table", "SELECT * FROM records", "records; SELECT 1"]
)
def test_what_is_no_stored_table_is_refused(text, here):
    with pytest.raises(ValueError, match=r"the database stores|can(not)? read"):
        SqlSource(here, text, **FACTS, one_record_per_row=True)


def test_ids_that_nothing_enforces_are_refused(here):
    with pytest.raises(ValueError, match="'record_id'"):
        SqlSource(here, "records", **FACTS, record_id="key")


# ----------------------------------------------------------- one copy, and its end


class Meddled(SqlSource):
    """A source during whose passes something happens."""

    def happens(self):
        raise NotImplementedError

    def _scan(self, names):
        for part in super()._scan(names):
            self.happens()
            yield part


class Updated(Meddled):
    def happens(self):
        made = "SELECT 1e9D AS a, b, c, 1 - y AS y, t, word, key"
        rows = self._engine._session.createDataFrame(
            [(0.5, 0.5, 1, 0.5, "up", 1)] * N,
            "b double, c double, y bigint, t double, word string, key bigint",
        )
        rows.createOrReplaceTempView("changed")
        self._engine._session.sql(f"INSERT OVERWRITE records {made} FROM changed")


@pytest.mark.usefixtures("is_too_large_to_keep")
def test_what_is_changed_meanwhile_is_not_seen():
    frame = numbers()
    honest = model(random_state=0).fit(frame[FEATURES], frame["y"]).coef_
    source = Updated(stored(frame), "records", **FACTS, features=FEATURES)
    assert model(random_state=0).fit(source).coef_.tobytes() == honest.tobytes()


@pytest.mark.usefixtures("is_too_large_to_keep")
def test_twin_without_a_copy_is_found(monkeypatch):
    def count(self, relation):
        return self._asked(f"SELECT COUNT(*) FROM {relation}").collect()[0][0]

    monkeypatch.setattr(Spark, "count", count)
    frame = numbers()
    honest = model(random_state=0).fit(frame[FEATURES], frame["y"]).coef_
    source = Updated(stored(frame), "records", **FACTS, features=FEATURES)
    try:
        found = model(random_state=0).fit(source).coef_
    except SourceError:
        return
    assert found.tobytes() != honest.tobytes()


@pytest.mark.usefixtures("is_too_large_to_keep")
def test_a_copy_that_is_lost(here, tmp_path):
    """One message, one spend, and no number."""
    books = BudgetLedger(tmp_path / "books.db", epsilon=10.0, delta=1e-3)

    class Lost(Meddled):
        def happens(self):
            kept = self._engine._session._jsc.getPersistentRDDs()
            for copy in kept.values():
                copy.unpersist(True)

    asked, facts = model(ledger=books), FACTS | {"features": FEATURES}
    with pytest.raises(SourceError) as caught:
        asked.fit(Lost(here, "records", **facts))
    assert caught.value.args == (READ_FAILED,)
    assert caught.value.__context__ is None
    assert "copy" not in "".join(traceback.format_exception_only(caught.value))
    assert len(books.spends()) == 1
    assert not hasattr(asked, "coef_")
    assert n_copies(here) == 0
    wrong = facts | {"n_samples": N + 1}
    with pytest.raises(ValueError, match="'n_samples' must be their number"):
        asked.fit(SqlSource(here, "records", **wrong))
    assert len(books.spends()) == 1
    assert n_copies(here) == 0


HOSTILE = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.session.timeZone": "Asia/Tokyo",
}


def test_the_users_session_is_left_alone_and_changes_nothing(here):
    source = SqlSource(here, "records", **FACTS, features=FEATURES, where="word='up'")
    expected = model(random_state=0).fit(source).coef_
    views = {view.name for view in here.catalog.listTables()}
    for name, value in HOSTILE.items():
        here.conf.set(name, value)
    try:
        here.sql("USE default")
        found = model(random_state=0).fit(source).coef_
        assert {name: here.conf.get(name) for name in HOSTILE} == HOSTILE
        assert here.catalog.currentDatabase() == "default"
    finally:
        for name in HOSTILE:
            here.conf.unset(name)
    assert found.tobytes() == expected.tobytes()
    here.sql(f"USE {source._engine._place[1]}")
    assert {view.name for view in here.catalog.listTables()} == views


@pytest.mark.parametrize("is_odd", [False, True])
def test_far_dates_and_long_texts_are_read(here, tmp_path, is_odd):
    """A date that has no moment is missing, and a text is cut; neither ends a fit."""
    days, times = ("200000000", "200000") if is_odd else ("0", "1")
    here.sql("DROP TABLE IF EXISTS odd")
    here.sql(
        "CREATE TABLE odd USING parquet AS SELECT i, sin(i) AS a, i % 2 AS y, "
        f"date_add(DATE '2000-01-01', IF(i = 7, {days}, 0)) AS d, "
        f"repeat('x', IF(i = 7, {times}, 1)) AS word "
        "FROM (SELECT explode(sequence(1, 200)) AS i) AS t"
    )
    books = BudgetLedger(tmp_path / "books.db", epsilon=10.0, delta=1e-3)
    given = {"target": "y", "n_samples": 200, "features": ["a"]}
    source = SqlSource(here, "odd", where="d > '1999-01-01' AND word = 'x'", **given)
    model(ledger=books, random_state=None).fit(source)
    assert len(books.spends()) == 1
    here.sql("DROP TABLE odd")


def test_the_users_data_sets_stay_in_their_session(here):
    from pyspark import RDD

    bound = RDD.toDF
    with Spark(here).transaction():
        assert RDD.toDF is bound
