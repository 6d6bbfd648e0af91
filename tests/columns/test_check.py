"""`columns.check`: it counts and quotes what is not as declared, and says so."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skdp import columns
from skdp.columns import Boolean, Categories, Dates

DECLARED = {
    "age": (17, 90),
    "sex": ["Female", "Male"],
    "kids": (0, 20),
    "seen": Dates("2000-01-01", "2010-01-01"),
    "mixed": (0, 1),
    "citizen": Boolean(),
    "income": (0, 5),
}


def frame():
    n = 40
    return pd.DataFrame(
        {
            "age": [16.0, 91.0, np.nan, *np.linspace(17, 90, n - 3)],
            "sex": [" male", "Femal", "x"] + ["Female"] * (n - 3),
            "kids": [0, 1, 2, 3] * (n // 4),
            "seen": pd.to_datetime(["1999-12-31"] + ["2005-05-05"] * (n - 1)),
            "mixed": ["a"] + [0.5] * (n - 1),
            "citizen": [None] + [True] * (n - 1),
            "Income": [1.5] * n,
        }
    )


def found(table, declared=DECLARED):
    rows = columns.check(table, declared).to_frame()
    return {(row.column, row.problem): row for row in rows.itertuples()}


EXPECTED = {
    ("income", "column not found"): (0, "perhaps 'Income'"),
    ("Income", "column not declared"): (0, ""),
    ("age", "missing"): (1, "missing=True"),
    ("age", "below the range"): (1, "16"),
    ("age", "above the range"): (1, "91"),
    ("sex", "not a category"): (3, "' male' (1 cells), perhaps 'Male'"),
    ("sex", "category not found"): (0, "'Male'"),
    ("kids", "few values"): (0, "Categories"),
    ("seen", "below the range"): (1, "1999-12-31"),
    ("mixed", "another kind"): (1, "numbers"),
    ("citizen", "missing"): (1, "missing=True"),
}


def test_every_difference_is_found_and_nothing_else():
    rows = found(frame())
    assert set(rows) == set(EXPECTED)
    for key, (cells, detail) in EXPECTED.items():
        assert rows[key].cells == cells
        assert rows[key].share == cells / 40
        assert detail in rows[key].detail


def test_polars_and_pandas_agree():
    polars = pytest.importorskip("polars")
    plain = frame().drop(columns="mixed")
    declared = {name: each for name, each in DECLARED.items() if name != "mixed"}
    pd.testing.assert_frame_equal(
        columns.check(polars.from_pandas(plain), declared).to_frame(),
        columns.check(plain, declared).to_frame(),
    )


def test_it_says_that_it_is_not_private_and_when_all_is_well():
    bad = columns.check(frame(), DECLARED)
    good = columns.check(frame()[["kids"]], {"kids": Categories([0, 1, 2, 3])})
    assert bad
    assert not good
    assert "as declared" in str(good)
    for each in (bad, good):
        assert str(each).startswith("NOT PRIVATE")
        assert "NOT PRIVATE" in each._repr_html_()
    assert "not private" in columns.check.__doc__.lower()


@pytest.mark.parametrize("declared", [(0, 5), [(0, 5)]])
def test_columns_may_be_declared_by_position(declared):
    rows = found(pd.DataFrame(np.array([[-1.0], [2.5]])), declared)
    assert set(rows) == {("0", "below the range")}


def test_other_tables_are_refused():
    with pytest.raises(TypeError, match=r"pandas.DataFrame\(X\)"):
        columns.check(np.zeros((2, 2)), (0, 1))
    with pytest.raises(ValueError, match="one for each column"):
        columns.check(frame(), [(0, 1)])
