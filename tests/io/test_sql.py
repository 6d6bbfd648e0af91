"""What an SqlSource reads: one row for each record, by expressions of its own row."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest

from skdp import DPLogisticRegression
from skdp.io import SqlSource
from skdp.io._duckdb import DuckDB
from tests.io.places import FEATURES, N, database, in_database, numbers, read

FACTS = {"target": "y", "n_samples": N}


@pytest.fixture
def study():
    connection = database(numbers())
    connection.execute(
        "CREATE VIEW scaled AS SELECT a / 2 AS half, y, key FROM records"
    )
    connection.execute("CREATE VIEW few AS SELECT * FROM records WHERE a > 0")
    connection.execute(
        "CREATE VIEW grouped AS SELECT y, avg(a) FROM records GROUP BY y"
    )
    connection.execute(
        "CREATE TABLE computed (w VARCHAR, a DOUBLE AS (CAST(w AS DOUBLE)), y INTEGER)"
    )
    connection.execute("CREATE SEQUENCE s")
    connection.execute("CREATE MACRO largest() AS (SELECT max(a) FROM records)")
    return connection


# The last ones have passed as harmless: by what is asked beside a column, by a sample
# that is taken in the scan, by statistics that make a filter vanish from the plan.
OTHERS = [
    "scaled",
    "few",
    "grouped",
    "SELECT DISTINCT a, y FROM records",
    "SELECT r.a, r.y FROM records AS r JOIN records AS s USING (key)",
    "SELECT * FROM records LIMIT 10",
    "SELECT a, y, row_number() OVER (ORDER BY a) AS rank FROM records",
    "SELECT a, y, (SELECT max(a) FROM records) AS largest FROM records",
    "SELECT * FROM records UNION ALL SELECT * FROM records",
    "SELECT unnest([a, b]) AS part, y FROM records",
    "SELECT a / 2 AS half, y FROM records",
    "SELECT CASE WHEN a > 9 THEN nextval('s') ELSE 0 END AS a, y FROM records",
    "SELECT stats(a) AS a, y FROM records",
    "SELECT * FROM records TABLESAMPLE system(50%)",
    "SELECT * FROM records WHERE a <= 1e9",
    "computed",
]


@pytest.mark.parametrize("text", OTHERS)
def test_other_queries_need_a_declaration(text, study):
    with pytest.raises(ValueError, match="one_record_per_row=True"):
        SqlSource(study, text, **FACTS)


def test_the_declaration_is_repeated(study):
    text = "SELECT a, y FROM records WHERE key >= 100"
    source = SqlSource(
        study, text, target="y", n_samples=N - 100, one_record_per_row=True
    )
    fitted = DPLogisticRegression(1.0, classes=[0, 1]).fit(source)
    assert any("each row of the query is one record" in fact for fact in facts(fitted))


def facts(fitted):
    return fitted.privacy_.assumed_public


NOT_ROW_WISE = [
    "sum(a)",
    "a - avg(a) OVER ()",
    "(SELECT max(a) FROM records)",
    "largest()",
    "random()",
    "nextval('s')",
    "now() - now()",
    "a, b",
    "a FROM records; SELECT a",
    "a FROM records WHERE b > 0 --",
    "a --",
    "*",
    "columns('a')",
    "unnest([a])",
    "no_such_function(a)",
    "no_such_column + 1",
    "current_timestamp",
    "rowid",
    "main.abs(a)",
    "list_resize([a], 9)",
    "contains(CAST(json_serialize_plan('SELECT * FROM records') AS VARCHAR), 'F')",
    "stats(a)",
    "length(replace(word, 'u', word))",  # as long as the product of two cells
    "length(replace('uuu', word, 'p'))",
]


@pytest.mark.parametrize("text", NOT_ROW_WISE)
def test_expressions_look_at_their_own_row_only(text, study):
    for given in ({"features": {"f": text}}, {"where": text, "features": ["a"]}):
        with pytest.raises(
            ValueError, match=r"columns? of (one row|the source)|can read"
        ):
            SqlSource(study, "records", **FACTS, **given)


def test_expressions_of_a_row(study):
    features = {
        "sum": "a + b",
        "case": "CASE WHEN word = 'up' THEN 1 ELSE 0 END",
        "between": "CAST(a BETWEEN -1 AND 1 AS INTEGER)",
        "log": "ln(a)",
        "length": "length(replace(word, 'up', ''))",
        "a": "a",
    }
    source = SqlSource(study, "records", **FACTS, features=features)
    rows, present, _ = read(source)
    frame = numbers()
    assert np.array_equal(present, frame["a"] > 0)  # there is no other logarithm
    found, there = rows.astype(float), frame[present]
    assert np.array_equal(found[present, 0], there["a"] + there["b"])
    assert np.array_equal(found[present, 1], there["word"] == "up")
    assert np.allclose(found[present, 3], np.log(there["a"]))
    assert list(source.feature_names) == list(features)


def test_rows_that_fail_where_are_null_records(study):
    source = SqlSource(study, "records", **FACTS, features=FEATURES, where="a > 0.1")
    rows, present, _ = read(source)
    assert len(rows) == N
    assert np.array_equal(present, numbers()["a"] > 0.1)
    fitted = DPLogisticRegression(1.0, classes=[0, 1]).fit(source)
    assert fitted.privacy_.n_samples == N


def test_a_condition_without_a_value_is_not_met():
    frame = numbers()
    frame.loc[[5, 8], "word"] = None
    _, present, _ = read(in_database(frame, where="word <> 'no'"))
    assert np.flatnonzero(~present).tolist() == [5, 8]


def test_what_a_condition_says_of_one_record_moves_no_other(study):
    """Neighbours: n is the same, and all other rows are as they were."""
    first = SqlSource(study, "records", **FACTS, features=FEATURES, where="a > 0.1")
    rows, present, _ = read(first)
    other = numbers()
    at = int(np.flatnonzero(present)[0])
    other.loc[at, "a"] = -1.0
    moved, there, _ = read(in_database(other, where="a > 0.1"))
    assert np.flatnonzero(present != there).tolist() == [at]
    assert np.array_equal(np.delete(rows, at, axis=0), np.delete(moved, at, axis=0))


def test_what_no_transaction_holds_still_is_refused(study, tmp_path):
    path = tmp_path / "t.parquet"
    study.execute(f"COPY records TO '{path}'")
    study.execute(f"CREATE VIEW files AS SELECT * FROM '{path}'")
    frame = numbers()
    assert len(frame) == N
    for text in (f"'{path}'", f"SELECT * FROM '{path}'", "files", "range(900)"):
        with pytest.raises(
            ValueError, match=r"tables that the database stores|can read"
        ):
            SqlSource(study, text, **FACTS, one_record_per_row=True)


def test_tables_that_others_do_not_see_are_refused(study):
    study.execute("CREATE TEMP TABLE mine AS SELECT * FROM records")
    with pytest.raises(ValueError, match="Temporary and registered tables"):
        SqlSource(study, "mine", **FACTS)
    with pytest.raises(ValueError, match="'no_such_table', which it cannot read"):
        SqlSource(study, "no_such_table", **FACTS)
    with pytest.raises(TypeError, match="DuckDB"):
        SqlSource("study.db", "records", **FACTS)


@pytest.mark.parametrize(
    ("given", "name", "near"),
    [
        ({"table": "record"}, "record", "records"),
        ({"target": "yy"}, "yy", "y"),
        ({"target": "yy > 0"}, "yy", "y"),
        ({"features": ["a", "words"]}, "words", "word"),
        ({"features": {"f": "words"}}, "words", "word"),
        ({"where": "length(Words) > 2"}, "Words", "word"),
        ({"order_by": "keys"}, "keys", "key"),
        ({"record_id": "keyy"}, "keyy", "key"),
        ({"groups": "Keys"}, "Keys", "key"),
    ],
)
def test_a_misspelt_name_is_quoted_with_the_most_similar_one(study, given, name, near):
    facts = {"table": "records", **FACTS, **given}
    with pytest.raises(ValueError, match=rf"Got \[?'{name}'") as refused:
        SqlSource(study, facts.pop("table"), **facts)
    assert f"Did you mean {near!r}?" in str(refused.value)


def test_the_users_connection_is_left_alone(study):
    study.execute("BEGIN")
    study.execute("CREATE TABLE own (i INTEGER)")
    source = SqlSource(study, "records", **FACTS, features=FEATURES)
    DPLogisticRegression(1.0, classes=[0, 1]).fit(source)
    study.execute("ROLLBACK")
    with pytest.raises(duckdb.CatalogException):
        study.execute("SELECT * FROM own")


def test_a_condition_that_the_database_cannot_read_costs_nothing(study, tmp_path):
    """It is bound when the source is made, before anything could be spent."""
    with pytest.raises(ValueError, match="can read"):
        SqlSource(study, "records", **FACTS, features=FEATURES, where="left(a) > 0")


def test_what_is_accepted_does_not_depend_on_what_is_stored():
    """Of a plan only what is there before statistics have improved it."""
    seen = []
    for value in (0.0, 500.0):
        frame = numbers()
        frame.loc[0, "a"] = value
        engine = DuckDB(database(frame))
        with engine.transaction():
            seen.append(list(engine._plan("SELECT * FROM records WHERE a <= 120")))
    names = [[node["name"].strip() for node in plan] for plan in seen]
    assert names[0] == names[1]
    assert "FILTER" in names[0]


def test_other_types_are_read_and_an_order_needs_a_column(study):
    study.execute(
        "CREATE TABLE typed AS SELECT CAST(a AS DECIMAL(9, 4)) AS d, "
        "CAST(1 AS HUGEINT) AS h, CAST(a AS FLOAT) AS f, y, key FROM records"
    )
    source = SqlSource(study, "typed", **FACTS, features=["d", "h", "f"])
    assert source.dtypes == {"d": "double", "h": "double", "f": "float"}
    with pytest.raises(ValueError, match="must name a column of the source"):
        SqlSource(study, "typed", **FACTS, order_by="no column")


def test_a_target_may_be_an_expression(study):
    source = SqlSource(study, "records", target="a > 0", n_samples=N, features=["a"])
    fitted = DPLogisticRegression(5.0, classes=[False, True]).fit(source)
    assert fitted.score(source) > 0.8
