"""What is read is the same wherever a table lies; null records stay where they are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy.sparse import csr_array

from skdp import DPLogisticRegression, TableEncoder
from skdp.columns import Boolean, Categories, Dates, Range
from skdp.io import ParquetSource, _reading
from skdp.io._external import applied
from skdp.io._reading import Labels, NumberTargets
from skdp.io._rows import StreamRows
from tests.io.places import (
    FEATURES,
    ROW_LAYOUTS,
    N,
    in_files,
    numbers,
    read,
    with_holes,
)

# Of those without an engine two that differ in all; engines are in `engines/`.
HERE = ["small batches", "two threads"]


@pytest.mark.parametrize("layout", HERE)
def test_rows_without_numbers_are_null_records(layout, tmp_path):
    frame, bad = with_holes()
    rows, present, _ = read(ROW_LAYOUTS[layout](frame, tmp_path))
    assert len(rows) == N
    assert np.array_equal(present, ~bad)
    assert np.all(rows[bad].astype(float) == 0)
    assert np.array_equal(rows[~bad].astype(float), frame[FEATURES].to_numpy()[~bad])


def test_single_precision_stays_where_all_is_single(tmp_path):
    frame = numbers().astype(dict.fromkeys(FEATURES, np.float32))
    source = in_files(frame, tmp_path / "single")
    assert set(source.dtypes.values()) == {"float"}
    blocks = blocks_of(source)
    assert {block.X.dtype for block in blocks} == {np.dtype(np.float32)}
    mixed = numbers().astype({"b": np.float32})
    blocks = blocks_of(in_files(mixed, tmp_path / "mixed"))
    assert np.array_equal(np.vstack([block.X for block in blocks]), mixed[FEATURES])


def blocks_of(source, targets=None):
    row = source.sample_row().to_numpy()
    rows = StreamRows(source, source.reading(), lambda X: X, row.shape[1], row.dtype)
    return source.during(lambda: list(rows.with_targets(targets).blocks()))


def test_targets_that_cannot_be_read_make_null_records(tmp_path):
    frame = numbers()
    frame["y"] = frame["y"].astype(float)
    frame.loc[[3, 5, 9], "y"] = [np.nan, 7.0, np.inf]
    source = in_files(frame, tmp_path / "y")
    (block,) = blocks_of(source, Labels(np.array([0, 1])))
    assert list(np.flatnonzero(~block.present)) == [3, 5, 9]
    assert np.all(block.X[~block.present] == 0)
    (block,) = blocks_of(source, NumberTargets())
    assert list(np.flatnonzero(~block.present)) == [3, 9]


DECLARED = {
    "age": Range(17, 90, missing=True),
    "score": Range(0, 1),
    "job": Categories(["a", "b"], missing=True),
    "is_new": Boolean(missing=True),
    "day": Dates("2020-01-01", "2021-01-01", missing=True),
}


def mixed(n=300):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"age": rng.uniform(0, 100, n), "score": rng.uniform(size=n)})
    frame["job"] = rng.choice(["a", "b", "other"], n)
    frame["is_new"] = pd.array(rng.uniform(size=n) < 0.5, dtype="boolean")
    days = pd.to_datetime("2020-01-01") + pd.to_timedelta(np.arange(n), unit="D")
    frame["day"] = days.astype("datetime64[us]")
    frame["y"], frame["key"] = 1, np.arange(n)
    frame.loc[4, "age"] = np.nan
    frame.loc[8, "job"] = None
    frame.loc[12, "is_new"] = pd.NA
    frame.loc[16, "day"] = pd.NaT
    frame.loc[20, "age"] = np.inf
    return frame


@pytest.mark.parametrize("layout", HERE)
def test_declared_columns_are_encoded_as_in_memory(layout, tmp_path):
    frame = mixed()
    source = ROW_LAYOUTS[layout](frame, tmp_path, features=list(DECLARED))
    encoder = TableEncoder(DECLARED).fit(frame[list(DECLARED)])
    rows, present, _ = read(source.appended(encoder))
    assert present.all()
    expected = encoder.transform(frame[list(DECLARED)])
    assert np.array_equal(rows.astype(float), expected)


@pytest.mark.parametrize("layout", HERE)
def test_what_may_not_be_missing_makes_a_null_record(layout, tmp_path):
    frame = mixed()
    frame.loc[[1, 2], "score"] = np.nan
    source = ROW_LAYOUTS[layout](frame, tmp_path, features=list(DECLARED))
    encoder = TableEncoder(DECLARED, handle_unknown="error").fit(source)
    rows, present, _ = read(source.appended(encoder))
    bad = frame["score"].isna() | (frame["job"] == "other")
    assert np.array_equal(present, ~bad)
    alone = frame.loc[~bad, list(DECLARED)]
    assert np.array_equal(rows[~bad].astype(float), encoder.transform(alone))


def test_a_row_that_a_step_refuses_is_a_null_record(tmp_path):
    class Picky(TableEncoder):
        def transform(self, X):
            if (X["a"] > 0.9).any():
                raise ValueError(X["a"].max())
            return super().transform(X)

    frame, columns = numbers(), dict.fromkeys(FEATURES, (-2, 2))
    source = in_files(frame, tmp_path, batch_size=100)
    encoder = Picky(columns).fit(source)
    rows, present, _ = read(encoder.transform(source))
    assert np.array_equal(present, frame["a"] <= 0.9)
    assert 0 < (~present).sum()
    plain = TableEncoder(columns).fit(frame[FEATURES])
    expected = plain.transform(frame.loc[present, FEATURES])
    assert np.array_equal(rows[present].astype(float), expected)


# ------------------------------------------------------------------- a broken twin


def one_by_one(change, rows, is_present, shown):
    """The twin: other rows are changed in another shape because of one."""
    found = []
    for i in range(len(rows)):
        try:
            found.append(change(rows[i : i + 1]))
        except ValueError:
            found.append(shown)
    return np.concatenate(found), is_present


def test_a_refused_row_changes_no_bit_of_others():
    """Products of many rows need not have the bits of products of one."""

    def change(rows):
        if (rows > 9).any():
            raise ValueError("too far")
        return rows + 1e-9 * len(rows)  # as if the shape showed

    rows, there = np.arange(8.0)[:, None], np.ones(8, dtype=bool)
    refused = rows.copy()
    refused[3] = 10.0
    shown = np.zeros((1, 1))
    whole, _ = applied(change, rows, there, shown)
    found, present = applied(change, refused, there, shown)
    assert np.flatnonzero(~present).tolist() == [3]
    same = np.delete(np.arange(8), 3)
    assert np.array_equal(found[same], whole[same])
    sparse, present = applied(
        lambda X: csr_array(change(X.toarray())), csr_array(refused), there, shown
    )
    assert not present[3]
    assert np.array_equal(sparse.toarray()[same], whole[same])
    twin, _ = one_by_one(change, refused, there, shown)
    assert not np.array_equal(twin[same], whole[same])
    none, present = applied(change, refused[3:4], there[:1], shown)
    assert not present.any()
    assert np.array_equal(none, shown)


def test_bytes_that_are_no_text_are_missing(tmp_path):
    """One cell that no one can decode ends no fit."""
    words = [b"up", b"down", b"\xff\xfe", b"up"] * 50
    text = pa.array(words, pa.binary()).view(pa.string())
    large = pa.array(words, pa.large_binary()).view(pa.large_string())
    for column in (text, text.dictionary_encode(), large):
        table = pa.table({"w": column, "a": np.linspace(0, 1, 200), "y": [0, 1] * 100})
        path = tmp_path / f"{column.type.id}.parquet"
        parquet.write_table(table, path)
        columns = {"w": Categories(["up", "down"], missing=True), "a": (0, 1)}
        source = ParquetSource(path, target="y", n_samples=200, columns=columns)
        DPLogisticRegression(1.0, classes=[0, 1]).fit(source)
        labels = ParquetSource(path, target="w", n_samples=200, features=["a"])
        DPLogisticRegression(1.0, classes=["down", "up"]).fit(labels)
        found, known = Labels(np.array(["down", "up"]))(column)
        assert known.tolist() == [True, True, False, True] * 50
        assert found[known].tolist() == [1.0, 0.0, 1.0] * 50
        cells, is_missing = _reading.cells(column, None)
        assert is_missing.tolist() == [False, False, True, False] * 50
        assert list(cells[:2]) == ["up", "down"]


@pytest.mark.parametrize("as_rows", [np.copy, pd.DataFrame])
def test_a_change_in_place_before_a_refusal_changes_no_other_row(as_rows):
    def change(rows):
        rows *= 2
        if (np.asarray(rows) > 9).any():
            raise ValueError("too far")
        return rows

    rows, there = np.arange(4.0)[:, None], np.ones(4, dtype=bool)
    refused = rows.copy()
    refused[3] = 10.0
    found, present = applied(change, as_rows(refused), there, np.zeros((1, 1)))
    assert np.flatnonzero(~present).tolist() == [3]
    assert np.array_equal(np.asarray(found)[:3], 2 * rows[:3])
