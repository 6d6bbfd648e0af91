"""CSV files: each cell by its own text and the declaration, and by nothing else."""

from __future__ import annotations

import csv
import io

import numpy as np
import pandas as pd
import pytest

from skdp.columns import Boolean, Categories, Dates, Range
from skdp.io._csv import read_csv

COLUMNS = {
    "age": Range(0, 100),
    "job": Categories(["office", "NA"]),
    "code": Categories([1, 2]),
    "smokes": Boolean(),
    "day": Dates("2020-01-01", "2024-12-31"),
}
ROWS = [
    ["12.5", "NA", "1", "True", "2021-03-04", "x"],
    ["30", "office", "2", "0", "2021-03-04T05:06:07", "y"],
]
# What one record may bring along; none of it may change the others, or be an error.
HOSTILE = [
    ["old", "", "one", "maybe", "yesterday", "x"],
    ["1", "office"],
    ["1", "office", "1", "1", "2021-03-04", "x", "7", "8"],
    ["1_000", "nobody", "1.5", "TRUE", "2021-03-04T05:06:07+01:00", ""],
    ["nan", "None", "1e400", "", "0000-00-00", "\x00"],
    ["9" * 5000, "x" * 200_000, "9" * 5000, "\ufffd", "2021", 'a "quoted", \n one'],
    ["١٢", " office", "-0", "null", "NaT", "x"],
]


def written(rows, folder, header=(*COLUMNS, "unused")):
    text = io.StringIO()
    csv.writer(text).writerows([header, *rows])
    (folder / "t.csv").write_bytes(text.getvalue().encode("utf-8"))
    return folder / "t.csv"


def read(rows, folder):
    return read_csv(written(rows, folder), COLUMNS)[0]


def test_cells_are_what_is_declared(tmp_path):
    frame = read(ROWS, tmp_path)
    assert frame["age"].tolist() == [12.5, 30.0]
    assert frame["job"].tolist() == ["NA", "office"]
    assert frame["code"].tolist() == [1, 2]
    assert frame["smokes"].tolist() == [True, False]
    assert [str(day) for day in frame["day"]] == [
        "2021-03-04 00:00:00",
        "2021-03-04 05:06:07",
    ]
    assert list(frame) == list(COLUMNS)


def test_any_cell_may_be_missing(tmp_path):
    frame, declared = read_csv(written(HOSTILE, tmp_path), COLUMNS)
    assert all(each.missing for each in declared.values())
    assert not any(each.missing for each in COLUMNS.values())
    assert frame.iloc[0].isna().all()
    assert frame.iloc[1].isna().tolist() == [False, False, True, True, True]
    assert frame["job"].tolist()[3:5] == ["nobody", "None"]
    assert frame["day"].isna()[3]


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_a_record_changes_no_other(hostile, tmp_path):
    frame = read([*ROWS, hostile, *ROWS], tmp_path)
    kept = frame.drop(index=2).reset_index(drop=True)
    pd.testing.assert_frame_equal(kept, read(ROWS * 2, tmp_path))


# Lines that no CSV writer writes.
OPEN = ['30,"office', '30,"office"x', '"30', '30,"offi"ce",1']


@pytest.mark.parametrize("line", OPEN)
@pytest.mark.parametrize("place", ["first", "last"])
def test_a_quoted_cell_that_takes_others_along_is_refused(line, place, tmp_path):
    path = written(ROWS, tmp_path)
    header, *rest = path.read_text().splitlines()
    rest = [line, *rest] if place == "first" else [*rest, line]
    path.write_text("\n".join([header, *rest]) + "\n")
    with pytest.raises(ValueError, match="Nothing was spent") as caught:
        read_csv(path, COLUMNS)
    assert "office" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_an_open_quoted_cell_is_refused_before_the_ledger(tmp_path, capsys):
    from skdp import BudgetLedger
    from skdp.__main__ import main

    path = written(ROWS, tmp_path)
    path.write_text(path.read_text() + '30,"office\n')
    (tmp_path / "columns.toml").write_text("age = {low = 0, high = 9}")
    ledger = BudgetLedger(tmp_path / "l.db", epsilon=1, delta=1e-6)
    words = ["describe", path, tmp_path / "columns.toml", "--ledger", tmp_path / "l.db"]
    assert main([str(word) for word in words]) == 1
    assert "Nothing was spent" in capsys.readouterr().err
    assert ledger.spends() == []


def test_a_quotation_mark_within_a_cell_is_its_own(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('job,age\n5" pipe,1\noffice,2\n')
    frame = read_csv(path, {name: COLUMNS[name] for name in ("job", "age")})[0]
    assert frame["job"].tolist() == ['5" pipe', "office"]


@pytest.mark.parametrize("header", [["age"], ["age", "job", "job"]])
def test_a_header_that_does_not_name_each_once_is_refused(header, tmp_path):
    path = written([["1", "secret", "secret"]], tmp_path, header=header)
    columns = {name: COLUMNS[name] for name in ("age", "job")}
    with pytest.raises(ValueError, match="header") as caught:
        read_csv(path, columns)
    assert "secret" not in str(caught.value)


def test_what_the_encoder_makes_of_it_is_what_typed_cells_give(tmp_path):
    from skdp import TableEncoder

    frame, declared = read_csv(written(ROWS, tmp_path), COLUMNS)
    typed = pd.DataFrame(
        {
            "age": [12.5, 30.0],
            "job": ["NA", "office"],
            "code": [1, 2],
            "smokes": [True, False],
            "day": np.array(["2021-03-04", "2021-03-04T05:06:07"], "datetime64[us]"),
        }
    )
    encoder = TableEncoder(declared)
    assert np.array_equal(
        encoder.fit_transform(frame), encoder.fit_transform(typed), equal_nan=True
    )
