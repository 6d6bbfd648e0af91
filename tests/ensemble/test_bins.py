"""Bins: codes of declared columns, by public rules, each row by itself."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csc_array, csr_array

from skdp import TableEncoder
from skdp.columns import Boolean, Categories, Dates, Range
from skdp.ensemble._trees import bins_of, read_to_fit, read_to_predict
from skdp.io._table import Table
from tests.preprocessing.tables import DECLARED, REFUSED, frame


class Reader(TableEncoder):
    """The least that can read a table: it has columns, and takes attributes."""


def read(X, columns=DECLARED):
    model = Reader(columns)
    return read_to_fit(model, Table.of(X)), model


def one(declared, values, **how):
    """Codes of a column."""
    codes, model = read(
        pd.DataFrame({"x": values}), TableEncoder({"x": declared}, **how)
    )
    assert codes.dtype == np.uint8
    assert codes.flags.c_contiguous
    assert (codes < np.array(model.bins_.n_bins)).all()
    return codes[:, 0].tolist(), model.bins_


def test_a_range_is_cut_into_equal_intervals_and_clipped():
    codes, bins = one(Range(0, 32), [-np.inf, -1.0, 0.0, 0.5, 1.0, 31.9, 32, np.inf])
    assert codes == [0, 0, 0, 2, 4, 127, 127, 127]
    assert (bins.n_bins, bins.is_ordered, bins.missing) == ((128,), (True,), (None,))
    assert bins.columns[0].labels[4] == "1 to 1.25"


def test_a_log_range_is_cut_in_logarithms():
    codes, bins = one(Range(1, 10_000, log=True), [1, 9.9, 10.1, 9_999], n_knots=5)
    assert codes == [0, 0, 1, 3]
    assert np.allclose(bins.columns[0].edges, [1, 10, 100, 1_000, 10_000])


def test_categories_others_and_missing_have_codes_apart():
    declared = Categories(["a", "b"], missing=True)
    codes, bins = one(declared, ["b", "a", "?", None])
    assert codes == [1, 0, 2, 3]
    assert (bins.n_bins, bins.is_ordered, bins.missing) == ((4,), (False,), (3,))
    assert bins.columns[0].labels == ("a", "b", "other", "missing")


def test_truth_values_and_parts_of_dates():
    codes, bins = one(Boolean(missing=True), [True, False, None])
    assert codes == [1, 0, 2]
    assert bins.columns[0].values == (False, True)
    days = np.array(["2024-01-01T00", "2024-12-31T23"], dtype="datetime64[us]")
    declared = Dates("2024-01-01", "2025-01-01", parts=["month", "weekday", "hour"])
    codes, model = read(pd.DataFrame({"x": days}), {"x": declared})
    assert model.bins_.names == ("x", "x_month", "x_weekday", "x_hour")
    assert codes.tolist() == [[0, 0, 0, 0], [127, 11, 1, 23]]
    assert model.bins_.is_ordered == (True, False, False, True)
    assert model.bins_.sources == (0, 0, 0, 0)
    assert model.bins_.columns[1].values == tuple(range(1, 13))


def changed_by_others(coded):
    """Whether the code of a row depends on other rows, for codes by `coded`."""
    X = frame()
    whole = coded(X)
    return any(not np.array_equal(coded(X[i : i + 7])[0], whole[i]) for i in range(9))


def test_each_row_is_coded_by_itself():
    _, model = read(frame())
    assert not changed_by_others(lambda X: read_to_predict(model, X))
    assert read(frame(60))[1].bins_ == read(frame(90, seed=1))[1].bins_


@pytest.mark.parametrize(("change", "text"), REFUSED)
def test_a_table_that_is_not_as_declared_is_refused(change, text):
    with pytest.raises((ValueError, TypeError), match=text) as caught:
        read(change(frame()))
    assert "Female" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (None, "'columns' parameter must declare.*Got None.*template"),
        (TableEncoder(DECLARED, numeric="linear"), "must be 'bins' for trees"),
        (TableEncoder(DECLARED, n_knots=300), "at most 256 for trees. Got 300"),
        ({"age": Categories(range(300))}, r"at most 255 bins.*'age'"),
        (TableEncoder({"age": Range(0, 1, missing=True)}, n_knots=256), "at most 255"),
    ],
)
def test_what_trees_cannot_do_is_refused(columns, text):
    with pytest.raises(ValueError, match=text):
        read(pd.DataFrame({"age": [1.0, 2.0]}), columns)


def test_the_most_bins_fit_a_byte():
    declared = (Categories(list(range(254))), Range(0, 1))
    bins = bins_of(("a", "b"), declared, intervals=255)
    assert bins.n_bins == (255, 255)
    cells = [254.0, *range(254)]
    codes, _ = one(Categories(list(range(254))), cells)
    assert sorted(codes) == list(range(255))


def test_sparse_rows_have_the_codes_of_dense_ones():
    dense = np.round(np.random.default_rng(0).normal(size=(40, 3)), 0)
    dense[3, 1] = np.nan
    for declared in (Range(-2, 2, missing=True), [Range(-2, 2, missing=True)] * 3):
        codes, model = read(dense, declared)
        for form in (csr_array, csc_array):
            assert np.array_equal(read(form(dense), declared)[0], codes)
            assert np.array_equal(read_to_predict(model, form(dense)), codes)
    with pytest.raises(ValueError, match="3 features"):
        read_to_predict(model, csr_array(dense[:, :2]))
    with pytest.raises(TypeError, match="dense data is required"):
        read(csr_array(dense), {"a": (0, 1)})
    infinite = csr_array(dense)
    infinite.data[0] = np.inf
    with pytest.raises(ValueError, match=r"contains infinity.*Clip to finite"):
        read(infinite, Range(-2, 2, missing=True))
