"""What one record's cell holds decides nothing but numbers, in whatever batch it is.

A batch may hold one row, and a column of it nothing at all. Neither its types nor
whether it can be read may follow from its cells.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.pipeline import make_pipeline

from skdp import (
    BudgetLedger,
    DPGradientBoostingClassifier,
    DPGridSearchCV,
    DPLogisticRegression,
    DPSimpleImputer,
    describe,
    propose_ranges,
)
from skdp.columns import Categories, Dates
from skdp.io import ParquetSource, SqlSource
from tests.io.places import (
    N,
    database,
    in_database,
    in_files,
    numbers,
)

KNOWN = {"word": Categories(("up", "down"), missing=True), "a": (-2, 2)}
# The last of N rows is alone in its batch.
PLACES = {
    "Parquet": lambda frame, path, **facts: in_files(
        frame, path / "files", batch_size=N - 1, **facts
    ),
    "DuckDB": lambda frame, path, **facts: in_database(
        frame, batch_size=N - 1, **facts
    ),
}
BOOSTED = {"epsilon": 1.0, "classes": [0, 1], "n_estimators": 2}
ASKED = {
    "linear": lambda source, **given: DPLogisticRegression(
        classes=[0, 1], columns=KNOWN, **given
    ).fit(source),
    "boosted": lambda source, **given: DPGradientBoostingClassifier(
        columns=KNOWN, **BOOSTED, **given
    ).fit(source),
    "describe": lambda source, **given: describe(source, KNOWN, epsilon=1.0, **given),
    "propose_ranges": lambda source, **given: propose_ranges(source, ["a"], **given),
    "search": lambda source, **given: DPGridSearchCV(
        DPLogisticRegression(classes=[0, 1], columns=KNOWN, solver="noisy_gd"),
        {"C": [0.1, 1.0]},
        epsilon=1.0,
        **given,
    ).fit(source),
}


def ledger(tmp_path, **given):
    return BudgetLedger(tmp_path / "books.db", epsilon=10.0, delta=1e-3, **given)


def with_last(value, column="word"):
    """A table whose last record has a value in a column; None is missing."""
    frame = numbers()
    cells = [*frame[column].astype(object)[:-1], value]
    return frame.assign(**{column: pd.Series(cells, dtype=object)})


@pytest.mark.parametrize(
    ("asked", "value"),
    [("linear", "\0" * 70_000), *((asked, None) for asked in ASKED)],
)
def test_a_text_alone_in_its_batch(asked, value, tmp_path):
    books = ledger(tmp_path)
    source = PLACES["Parquet"](with_last(value), tmp_path, features=["word", "a"])
    ASKED[asked](source, ledger=books)
    assert len(books.spends()) == 1


def test_a_missing_text_alone_in_its_batch_of_a_database(tmp_path):
    source = PLACES["DuckDB"](with_last(None), tmp_path, features=["word", "a"])
    ASKED["linear"](source)


# ----------------------------------------------------------------------- truth values


def imputed(**given):
    return make_pipeline(
        DPSimpleImputer(bounds=(-2, 2), **given),
        DPLogisticRegression(classes=[0, 1], solver="noisy_gd", **given),
    )


def searched(**given):
    return DPGridSearchCV(
        imputed(), {"dplogisticregression__C": [0.1, 1.0]}, epsilon=1.0, **given
    )


def truths(value):
    frame = numbers()
    cells = [*(bool(number > 0) for number in frame["a"][:-1]), value]
    return frame.assign(a=pd.Series(cells, dtype="boolean"))


@pytest.mark.parametrize(
    ("make", "place"), [(imputed, "DuckDB"), (searched, "Parquet")]
)
def test_a_missing_truth_value_is_imputed(make, place, tmp_path):
    frames = {value: truths(value) for value in (True, None)}
    n_spends = []
    for name, frame in frames.items():
        folder = tmp_path / str(name)
        folder.mkdir()
        books = ledger(folder)
        make(ledger=books).fit(PLACES[place](frame, folder))
        n_spends.append(len(books.spends()))
    assert n_spends[0] == n_spends[1]


# ------------------------------------------------------------------------------ dates

ENDS = {"lowest": -(2**63) + 1, "highest": 2**63 - 1}
DATED = {
    "a": Dates("2000-01-01", "2020-01-01", parts=["day", "month", "hour", "weekday"])
}


def dated(end, unit):
    """Arrow dates of a unit, the last of them anywhere."""
    days = np.arange(N, dtype=np.int64) % 3000
    per_day = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit] * 86_400
    counts = days * per_day
    counts[-1] = end
    return pa.array(counts, pa.int64()).cast(pa.timestamp(unit))


def dates_in_files(end, unit, folder):
    table = pa.table({"a": dated(end, unit), "y": np.arange(N) % 2})
    folder.mkdir(exist_ok=True)
    parquet.write_table(table, folder / "part.parquet", store_schema=True)
    return ParquetSource(folder, target="y", n_samples=N, features=["a"])


DATE_FITS = {
    "linear": lambda source: DPLogisticRegression(
        classes=[0, 1], columns=DATED, solver="noisy_gd"
    ).fit(source),
    "boosted": lambda source: DPGradientBoostingClassifier(
        columns=DATED, **BOOSTED
    ).fit(source),
    "describe": lambda source: describe(source, DATED, epsilon=1.0),
}


@pytest.mark.parametrize(
    ("asked", "end", "unit"),
    [
        ("linear", "lowest", "ms"),
        ("linear", "highest", "us"),
        ("boosted", "highest", "ms"),
        ("describe", "lowest", "us"),
        ("describe", "highest", "ns"),
    ],
)
def test_dates_of_files_at_the_ends_of_their_unit(asked, end, unit, tmp_path):
    DATE_FITS[asked](dates_in_files(ENDS[end], unit, tmp_path / "files"))


def test_dates_of_a_database_at_the_ends_of_their_unit():
    frame = pd.DataFrame({"y": np.arange(N) % 2})
    for last in ("infinity", "-infinity", "294247-01-10", "290308-12-22 (BC)", "epoch"):
        connection = database(frame)
        connection.execute(
            "ALTER TABLE records ADD COLUMN a TIMESTAMP DEFAULT '2010-05-05'"
        )
        connection.execute(
            f"INSERT INTO records VALUES (1, CAST('{last}' AS TIMESTAMP))"
        )
        source = SqlSource(
            connection, "records", target="y", n_samples=N + 1, features=["a"]
        )
        DATE_FITS["linear"](source)
