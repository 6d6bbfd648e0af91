"""PostgreSQL as a source: what may be read, what may fail, and what is held still."""

from __future__ import annotations

import traceback

import numpy as np
import pytest

from skdp import BudgetLedger, DPLogisticRegression
from skdp.columns import Dates, as_declared
from skdp.exceptions import READ_FAILED, SourceError
from skdp.io import SqlSource
from skdp.io.engines import _postgres
from tests.io import places, postgres_cluster
from tests.io.places import (
    FEATURES,
    PARALLEL,
    N,
    in_postgres,
    kept,
    numbers,
    postgres,
    read,
)

FACTS = {"target": "y", "n_samples": N}


@pytest.fixture
def is_too_large_to_keep(monkeypatch):
    places.keeps(monkeypatch, 0)


def run(connection, *statements):
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def ask(connection, query):
    """The only cell of an answer."""
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchone()[0]


def model(**given):
    steps = {"solver": "noisy_gd", "solver_params": {"n_steps": 4}}
    return DPLogisticRegression(epsilon=1.0, classes=[0, 1], **(steps | given))


# ------------------------------------------------------------------ what is read


@pytest.fixture
def own():
    """For tests that change something."""
    return postgres(numbers())


@pytest.fixture(scope="module")
def study():
    """For those that change nothing."""
    with kept() as once:
        connection = once(postgres, numbers())
        run(
            connection,
            "CREATE VIEW few AS SELECT * FROM records WHERE a > 0",
            "CREATE MATERIALIZED VIEW kept AS SELECT * FROM records",
            "CREATE FUNCTION rows_of() RETURNS SETOF records LANGUAGE plpgsql AS "
            "$$ BEGIN RETURN QUERY SELECT * FROM records; END $$",
            "CREATE VIEW called AS SELECT * FROM rows_of()",
            "CREATE TABLE parts (LIKE records) PARTITION BY RANGE (key)",
            "CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (450)",
            "CREATE TABLE high PARTITION OF parts FOR VALUES FROM (450) TO (900)",
            "INSERT INTO parts SELECT * FROM records",
            "CREATE TABLE sums (LIKE records, "
            "both_of DOUBLE PRECISION GENERATED ALWAYS AS (a + b) STORED)",
            "INSERT INTO sums SELECT * FROM records",
            'CREATE TABLE "Odd name" (LIKE records)',
            'INSERT INTO "Odd name" SELECT * FROM records',
            'CREATE TABLE "user" (LIKE records)',
            'INSERT INTO "user" SELECT * FROM records',
        )
        yield connection


@pytest.mark.parametrize("table", ["parts", '"Odd name"', "RECORDS", "user"])
def test_stored_tables_need_no_declaration(table, study):
    source = SqlSource(study, table, **FACTS, features=FEATURES)
    rows, present, _ = read(source)
    assert present.all()
    assert np.array_equal(rows.astype(float), numbers()[FEATURES].to_numpy())


@pytest.mark.parametrize(
    "text",
    [
        "few",
        "kept",
        "SELECT a, y FROM records",
        "SELECT * FROM records LIMIT 10",
        "records AS r",
        "ONLY records",
    ],
)
def test_others_need_one(text, study):
    with pytest.raises(ValueError, match=r"one_record_per_row=True|can read"):
        SqlSource(study, text, **FACTS)


@pytest.mark.parametrize(
    "text",
    [
        "rows_of()",
        "called",
        "SELECT * FROM records TABLESAMPLE system(50)",
        "no_such_table",
        "SELECT * FROM records; DROP TABLE records",
        "SELECT * FROM records) AS r; ROLLBACK; SELECT (1",
        "WITH gone AS (DELETE FROM records RETURNING *) SELECT * FROM gone",
    ],
)
def test_what_no_snapshot_holds_still_is_refused(text, study):
    with pytest.raises(ValueError, match=r"the database stores|can(not)? read"):
        SqlSource(study, text, **FACTS, one_record_per_row=True)
    assert ask(study, "SELECT count(*) FROM records") == N


def test_tables_that_others_do_not_see_are_refused(own):
    run(own, "CREATE TEMP TABLE mine AS SELECT * FROM records")
    with pytest.raises(ValueError, match="Temporary"):
        SqlSource(own, "mine", **FACTS)
    with pytest.raises(ValueError, match="Did you mean 'records'"):
        SqlSource(own, "record", **FACTS)


def test_tables_of_which_rows_are_hidden_are_refused(own):
    run(
        own,
        "CREATE ROLE reader LOGIN",
        "ALTER TABLE records ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY few ON records USING (a > 0)",
        "GRANT SELECT ON records TO reader",
    )
    schema = ask(own, "SELECT CAST(current_schema AS text)")
    run(own, f"GRANT USAGE ON SCHEMA {schema} TO reader")
    try:
        uri = postgres_cluster.uri(search_path=schema)
        with connected(uri.replace("postgres@", "reader@")) as seen:
            assert ask(seen, "SELECT count(*) FROM records") < N
            with pytest.raises(ValueError, match=r"can(not)? read"):
                SqlSource(seen, "records", **FACTS)
    finally:
        run(own, "DROP OWNED BY reader", "DROP ROLE reader")


def connected(uri):
    from adbc_driver_postgresql import dbapi

    return dbapi.connect(uri, autocommit=True)


def test_the_users_connection_is_left_alone(own):
    own.adbc_connection.set_autocommit(False)
    run(own, "SET statement_timeout = 1234", "CREATE TABLE own (i INTEGER)")
    model().fit(SqlSource(own, "records", **FACTS, features=FEATURES))
    assert ask(own, "SELECT current_setting('statement_timeout')") == "1234ms"
    assert ask(own, "SELECT count(*) FROM own") == 0
    own.adbc_connection.rollback()


# ----------------------------------------------------------- values of all types

TYPED = {
    "small": "SMALLINT",
    "whole": "INTEGER",
    "big": "BIGINT",
    "single": "REAL",
    "double_": "DOUBLE PRECISION",
    "decimal_": "NUMERIC",
    "money_": "NUMERIC(12, 2)",
    "is_so": "BOOLEAN",
}
# Of each type some that no double, no date of Python and no number can show.
HOSTILE = {
    "single": ["'NaN'", "'Infinity'", "1e-45", "3e38", "NULL"],
    "double_": ["'NaN'", "'-Infinity'", "5e-324", "1.7e308", "NULL"],
    "decimal_": ["'NaN'", "1e400", "-1e131000", "1e-16000", "NULL"],
    "big": ["NULL", "-9223372036854775808", "9223372036854775807"],
    "small": ["NULL", "-32768"],
    "is_so": ["NULL"],
}


@pytest.fixture
def typed():
    connection = postgres(numbers())
    columns = ", ".join(f"{name} {dtype}" for name, dtype in TYPED.items())
    run(
        connection,
        f"CREATE TABLE typed (key INTEGER, y INTEGER, {columns}, word TEXT, "
        "day DATE, moment TIMESTAMP, id UUID)",
        "INSERT INTO typed SELECT key, y, key % 7, key % 11, key, a, b, "
        "round(c::numeric, 4), 0.25, key % 2 = 0, word, '2020-01-01'::date + "
        "key::integer, '2020-01-01 10:00', md5(key::text)::uuid FROM records",
    )
    return connection


def typed_source(connection, **facts):
    facts = {"features": list(TYPED), **FACTS, **facts}
    return SqlSource(connection, "typed", **facts)


def test_types(typed):
    source = typed_source(typed)
    assert list(source.dtypes.values()) == [
        "int16",
        "int32",
        "int64",
        "float",
        "double",
        "double",
        "double",
        "bool",
    ]
    rows, present, _ = read(source)
    assert present.all()
    frame = numbers()
    assert np.array_equal(rows[:, 3].astype(float), frame["a"].astype(np.float32))
    assert np.array_equal(rows[:, 5].astype(float), frame["c"].round(4))
    others = typed_source(typed, features=["word", "day", "moment", "id"]).dtypes
    assert list(others.values()) == ["string", "date32[day]", "timestamp[us]", "string"]


def hostile(typed):
    """One value for each row from the tenth on; how many they are."""
    changed = 0
    for name, values in HOSTILE.items():
        for value in values:
            run(typed, f"UPDATE typed SET {name} = {value} WHERE key = {10 + changed}")
            changed += 1
    return changed


@pytest.mark.usefixtures("is_too_large_to_keep")
def test_no_value_fails(typed):
    n_hostile = hostile(typed)
    source = typed_source(typed)
    _, present, _ = read(source)
    assert (~present).sum() == n_hostile - 8  # eight are numbers, if odd ones
    model().fit(source)


def test_dates_that_are_none(typed):
    run(
        typed,
        "UPDATE typed SET day = 'infinity' WHERE key = 3",
        "UPDATE typed SET day = '0044-03-15 BC' WHERE key = 4",
        "UPDATE typed SET day = '294277-01-01' WHERE key = 5",
        "UPDATE typed SET moment = '-infinity' WHERE key = 6",
    )
    source = typed_source(typed, features=["day", "moment"])
    dates = Dates("2019-01-01", "2030-01-01")
    columns = as_declared({"day": dates, "moment": dates})
    _, present, _ = read(source, source.reading(columns))
    assert np.flatnonzero(~present).tolist() == [3, 4, 5, 6]


# -------------------------------------------------------------------- conditions

GOOD = {
    "a > 0.1": lambda t: t["a"] > 0.1,
    "A >= -1e-1 AND b < .5": lambda t: (t["a"] >= -0.1) & (t["b"] < 0.5),
    "a > b OR NOT c <= 0": lambda t: (t["a"] > t["b"]) | (t["c"] > 0),
    "(a BETWEEN -0.2 AND 0.2)": lambda t: t["a"].between(-0.2, 0.2),
    "a NOT BETWEEN -0.2 AND b": lambda t: ~((t["a"] >= -0.2) & (t["a"] <= t["b"])),
    "word = 'up'": lambda t: t["word"] == "up",
    "word IN ('up', 'it''s')": lambda t: t["word"] == "up",
    "key NOT IN (1, 2, 3)": lambda t: ~t["key"].isin([1, 2, 3]),
    "\"word\" <> 'up' and a is not null": lambda t: t["word"] != "up",
    "NOT (a > 0 AND (b > 0 OR c > 0))": lambda t: (
        ~((t["a"] > 0) & ((t["b"] > 0) | (t["c"] > 0)))
    ),
    "y = 1 OR a IS NULL": lambda t: t["y"] == 1,
}


def test_rows_that_fail_a_condition_are_null_records(study):
    for text, expected in GOOD.items():
        source = SqlSource(study, "records", **FACTS, features=FEATURES, where=text)
        _, present, _ = read(source)
        assert np.array_equal(present, expected(numbers()))


def test_conditions_of_other_kinds(typed):
    for text, expected in {
        "is_so": range(0, N, 2),
        "NOT is_so": range(1, N, 2),
        "is_so = FALSE": range(1, N, 2),
        "day < '2020-01-11'": range(10),
        "day = '2020-01-03' OR moment > '2020-01-01T10:00:01'": [2],
        "decimal_ < -9 OR big = 7": [7],
    }.items():
        _, present, _ = read(typed_source(typed, features=["big"], where=text))
        assert np.flatnonzero(present).tolist() == list(expected)
    for text in ("day < 'soon'", "moment > '2020-01-01T10:00+02:00'", "day < 3"):
        with pytest.raises(ValueError, match="a condition on the columns"):
            typed_source(typed, where=text)


BAD = [
    "a + b > 0",
    "1 / a > 0",
    "a / b",
    "a::integer > 0",
    "CAST(a AS INTEGER) > 0",
    "ln(a) > 0",
    "a",  # no condition
    "no_such_column > 0",
    "current_user = 'postgres'",
    "a > 'up'",
    "word > 1",
    "word LIKE 'u%'",
    "a > (SELECT max(a) FROM records)",
    "a > 0; SELECT 1",
    "a > 0 -- so",
    "a > 0) OR (TRUE",
    "a > 0 AND",
    "a > 0 b > 0",
    "a IS TRUE",
    "a IN ()",
    "random() < 0.5",
    "E'\\n' = word",
    "$1 = a",
    "",
]


def test_whatever_might_fail_is_refused(study):
    for text in BAD:
        with pytest.raises(ValueError, match="a condition on the columns of one row"):
            SqlSource(study, "records", **FACTS, features=FEATURES, where=text)


# ---------------------------------------------------------- snapshots, failures


class Meddled(SqlSource):
    """A source during whose passes something happens."""

    def happens(self):
        raise NotImplementedError

    def _scan(self, names):
        for part in super()._scan(names):
            self.happens()
            yield part


@pytest.mark.usefixtures("is_too_large_to_keep")
def test_what_others_commit_meanwhile_is_not_seen(own):
    class Updated(Meddled):
        def happens(self):
            run(
                own,
                "UPDATE records SET a = 1e9",
                "INSERT INTO records (a) VALUES (1)",
            )

    asked, facts = model(random_state=0), FACTS | {"features": FEATURES}
    honest = asked.fit(in_postgres(numbers())).coef_
    assert np.array_equal(asked.fit(Updated(own, "records", **facts)).coef_, honest)
    with pytest.raises(ValueError, match="n_samples"):
        asked.fit(SqlSource(own, "records", **facts))


def test_a_table_cannot_be_emptied_meanwhile(own):
    """The one change that a snapshot does not hide has to wait for the lock."""
    refused = []

    class Emptied(Meddled):
        def happens(self):
            try:
                run(own, "SET lock_timeout = 50", "TRUNCATE records")
            except own.Error:
                refused.append(True)

    source = Emptied(own, "records", **FACTS, features=FEATURES)
    model().fit(source)
    assert refused


def backend_of(source):
    return source._engine.row("SELECT pg_backend_pid()")[0]


@pytest.mark.usefixtures("is_too_large_to_keep")
def test_a_dropped_connection(tmp_path):
    """One message, one spend, and no number."""
    connection = postgres(numbers(), **PARALLEL)
    books = BudgetLedger(tmp_path / "books.db", epsilon=10.0, delta=1e-3)

    class Dropped(Meddled):
        n_parts = 0

        def happens(self):
            self.n_parts += 1
            if self.n_parts == 2:
                run(connection, f"SELECT pg_terminate_backend({backend_of(self)})")

    asked, facts = model(ledger=books), FACTS | {"features": FEATURES}
    with pytest.raises(SourceError) as caught:
        asked.fit(Dropped(connection, "records", **facts))
    assert caught.value.args == (READ_FAILED,)
    assert caught.value.__context__ is None
    assert "terminating" not in "".join(traceback.format_exception(caught.value))
    assert len(books.spends()) == 1
    assert not hasattr(asked, "coef_")
    asked.fit(SqlSource(connection, "records", **facts))
    assert len(books.spends()) == 2


# --------------------------------------------------------- settings and workers


def test_text_that_the_clients_encoding_lacks():
    """What cannot be shown would end the query: the encoding is that of the reading."""
    frame = numbers()
    frame.loc[5, "word"] = "\u0141\u00f3d\u017a"
    declared = as_declared({"word": ["up", "down", frame.loc[5, "word"]]})
    facts = {"features": ["word"], **FACTS}
    connection = postgres(frame, client_encoding="LATIN1")
    source = SqlSource(connection, "records", **facts)
    rows, present, _ = read(source, source.reading(declared))
    assert present.all()
    assert rows[5, 0] == frame.loc[5, "word"]
    with pytest.raises(connection.Error):
        ask(connection, "SELECT max(word) FROM records WHERE key = 5")


def test_connections_that_quote_all_names_are_refused():
    connection = postgres(numbers(), quote_all_identifiers="on")
    with pytest.raises(ValueError, match="quote_all_identifiers"):
        SqlSource(connection, "records", **FACTS, features=FEATURES)


def test_databases_whose_texts_cannot_all_be_read_are_refused():
    uri = postgres_cluster.uri()
    with connected(uri) as own:
        run(
            own,
            "CREATE DATABASE bytes ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' "
            "TEMPLATE template0",
        )
        with connected(uri.replace("/postgres?", "/bytes?")) as other:
            run(other, "CREATE TABLE records (a REAL, y INTEGER)")
            with pytest.raises(ValueError, match="UTF8 or LATIN1"):
                SqlSource(other, "records", **FACTS)
        run(own, "DROP DATABASE bytes WITH (FORCE)")


HOSTILE_SETTINGS = {
    "datestyle": "German",
    "standard_conforming_strings": "off",
    "extra_float_digits": "-15",
    "timezone": "Asia/Tokyo",
    "transform_null_equals": "on",
    "default_transaction_isolation": "serializable",
    "statement_timeout": "600000",
    "jit_above_cost": "0",
    "jit_inline_above_cost": "0",
    "jit_optimize_above_cost": "0",
}


@pytest.mark.usefixtures("is_too_large_to_keep")
def test_settings_of_the_session_change_nothing():
    facts = {"where": "a > -0.3 AND word IN ('up', 'down')"}
    expected = model(random_state=0).fit(in_postgres(numbers(), **facts)).coef_
    source = in_postgres(numbers(), settings=HOSTILE_SETTINGS, **facts)
    assert np.array_equal(model(random_state=0).fit(source).coef_, expected)


def test_functions_of_others_are_not_called(own):
    run(
        own,
        "CREATE FUNCTION abs(x double precision) RETURNS double precision "
        "LANGUAGE plpgsql AS $$ BEGIN RAISE 'called'; END $$",
    )
    schema = ask(own, "SELECT CAST(current_schema AS text)")
    path = f"{schema},pg_catalog"
    with connected(postgres_cluster.uri(search_path=path)) as other:
        with pytest.raises(other.Error):
            ask(other, "SELECT sum(abs(a)) FROM records")
        source = SqlSource(other, "records", **FACTS, features=FEATURES)
        model().fit(source)


# ---------------------------------------------------------- what one row could end


def booked(source, tmp_path, **given):
    """Spends of a fit that must not fail."""
    books = BudgetLedger(tmp_path / "books.db", epsilon=10.0, delta=1e-3)
    model(ledger=books, **given).fit(source)
    return len(books.spends())


MADE = "CREATE TABLE made AS SELECT i AS key, sin(i)::float8 AS a, i % 2 AS y"
FROM = "FROM generate_series(1, 200) AS t (i)"


@pytest.mark.parametrize(
    "column",
    ["to_jsonb(i)", "ARRAY[i::numeric]", "i::money", "i::oid", "make_interval(0, i)"],
)
def test_columns_whose_text_may_fail_are_none(own, column):
    run(own, f"{MADE}, {column} AS other {FROM}")
    given = {"target": "y", "n_samples": 200}
    assert SqlSource(own, "made", **given).feature_names == ("key", "a")
    with pytest.raises(ValueError, match="features"):
        SqlSource(own, "made", features=["other"], **given)
    with pytest.raises(ValueError):  # noqa: PT011 - of a column that is none
        SqlSource(own, "made", where="other = '1'", **given)


def test_enumerations_are_text_unless_they_have_a_cast_of_their_own(own):
    run(
        own,
        "CREATE TYPE mood AS ENUM ('well', 'ill')",
        f"{MADE}, CAST(CASE WHEN i = 1 THEN 'ill' ELSE 'well' END AS mood) AS m {FROM}",
    )
    given = {"target": "y", "n_samples": 200}
    assert "m" in SqlSource(own, "made", **given).feature_names
    run(
        own,
        "CREATE FUNCTION shown(mood) RETURNS text LANGUAGE plpgsql AS "
        "$$ BEGIN IF $1 = 'ill' THEN RAISE 'ill'; END IF; RETURN 'well'; END $$",
        "CREATE CAST (mood AS text) WITH FUNCTION shown(mood)",
    )
    assert "m" not in SqlSource(own, "made", **given).feature_names


def test_long_texts_are_read_in_part(own, tmp_path, monkeypatch):
    run(own, f"{MADE}, repeat('x', 100) AS word {FROM}")
    given = {"target": "y", "n_samples": 200, "features": ["a"]}
    source = SqlSource(own, "made", **given)
    monkeypatch.setattr(_postgres, "LONGEST_TEXT", 5)
    cut = SqlSource(own, "made", **given)
    found = [read(one, also=("word", "key"))[2]["word"] for one in (source, cut)]
    assert set(found[0]) == {"x" * 100}
    assert set(found[1]) == {"x" * 5}


def test_ids_of_tables_that_others_inherit_from_are_refused(own):
    run(
        own,
        "CREATE TABLE made (key int PRIMARY KEY, a float8, y int)",
        f"INSERT INTO made SELECT i, sin(i), i % 2 {FROM}",
    )
    given = {"target": "y", "n_samples": 200, "record_id": "key"}
    source = SqlSource(own, "made", **given)
    run(own, "CREATE TABLE child () INHERITS (made)")
    with pytest.raises(ValueError, match="'record_id' argument must name"):
        SqlSource(own, "made", **given)
    # Also if it was made after the source.
    with pytest.raises(ValueError, match="'record_id' argument must name"):
        model(solver="bolt_on", solver_params={}).fit(source)


@pytest.mark.parametrize("name", ["steps", "x"])
def test_names_of_variables_are_no_names_of_columns(own, tmp_path, name):
    run(
        own,
        f'CREATE TABLE made (key int PRIMARY KEY, "{name}" float8, y int)',
        f"INSERT INTO made SELECT i, sin(i), i % 2 {FROM}",
    )
    facts = {"target": "y", "n_samples": 200, "record_id": "key"}
    source = SqlSource(own, "made", features=[name], **facts)
    given = {"solver": "bolt_on", "solver_params": {"n_passes": 2}}
    assert booked(source, tmp_path, **given) == 1


@pytest.mark.parametrize(
    "query",
    [
        "SELECT generate_series(1, 900) AS key, 1.0 AS a, 1 AS y",
        "SELECT (rows_of()).key AS key, 1.0 AS a, 1 AS y",
        "SELECT 1 AS key, random() AS a, 1 AS y",
    ],
)
def test_rows_that_come_from_no_table_are_refused(study, query):
    with pytest.raises(ValueError, match="the database stores"):
        SqlSource(study, query, **FACTS, one_record_per_row=True)
