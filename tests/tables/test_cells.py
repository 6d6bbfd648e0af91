"""Cells of declared columns: one number each, from which the rows come back exactly."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

from skdp import DPLogisticRegression, DPPoissonRegressor, TableEncoder
from skdp.columns import Dates, Range
from skdp.sums import _grid_rows
from skdp.sums._grid_rows import CellGrid, StateGrid, gridded
from skdp.tables import _centred
from skdp.tables._centred import CellRows, CentredMatrix, Centring, StateRows

N = 700
COLUMNS = {
    "a": Range(-2, 2),
    "b": Range(-2, 2, missing=True, heaps=[0.0]),
    "word": ["up", "down"],
    "day": Dates("2024-01-01", "2025-12-31", parts=("month", "weekday")),
}
pytestmark = pytest.mark.filterwarnings("ignore")


def table(n=N):
    """Cells at knots, between them, beyond them, missing, and unknown."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    frame.loc[::3, "a"] = np.round(frame["a"][::3] * 8) / 8
    frame.loc[::5, "b"], frame.loc[1::5, "b"] = np.nan, 0.0
    frame["word"] = rng.choice(["up", "down", "sideways"], n)
    days = pd.to_timedelta(rng.integers(-50, 800, n), "D")
    frame["day"] = pd.Timestamp("2024-01-01") + days
    return frame


def state_rows(n_knots=9):
    encoder = TableEncoder(COLUMNS, n_knots=n_knots).fit(table())
    encoding = encoder._encoding
    states = encoding.states(encoder._cells(table()))
    return StateRows(states, encoding.basis, encoding.parts).gridded()


def same(one, other):
    return (one.toarray() == other.toarray()).all()


@pytest.mark.parametrize(("n_knots", "dtype"), [(9, "uint32"), (1025, "uint64")])
def test_rows_come_back_exactly(n_knots, dtype):
    rows = state_rows(n_knots)
    # A null record has weights of 0.
    rows.states.data[: rows.states.indptr[1]] = 0.0
    packed = rows.packed()
    assert packed.cells.dtype == dtype
    assert packed.cells.shape == (N, len(rows.parts))
    assert same(packed.unpacked().states, rows.states)
    assert packed.terms == rows.terms
    weights = np.random.default_rng(1).normal(size=(rows.shape[1], 2))
    assert (packed @ weights == rows @ weights).all()
    units = np.random.default_rng(2).normal(size=(N, 2))
    assert (packed.T @ units == rows.T @ units).all()


def test_a_twin_without_the_lacking_unit_is_found():
    """Both shares of most cells lack one unit of the whole, which is rounded away."""
    rows = state_rows()
    packed = rows.packed()
    twin = CellRows(packed.cells & ~np.uint32(1), packed.basis, packed.parts)
    assert not same(twin.unpacked().states, rows.states)


NOT_OF_CELLS = {
    "negative": [-0.5, 0.5, 0],
    "three states": [0.25, 0.5, 0.25],
    "apart": [0.5, 0, 0.5],
    "less than the whole": [0.5, 0, 0],
    "more than the whole": [1.0, 0.5, 0],
}


@pytest.mark.parametrize("case", NOT_OF_CELLS)
def test_other_rows_stay_as_they_are(case):
    states = csr_array(np.array([[0, 1.0, 0], NOT_OF_CELLS[case]]))
    rows = StateRows(states, csr_array(np.eye(3)), (3,))
    assert rows.packed() is None
    centred = CentredMatrix(rows, np.zeros(3), np.ones(2), np.ones(2), 1.0)
    assert centred.packed() is centred


def grids():
    """The same centred rows, in both forms."""
    rows = state_rows()
    centring = Centring(np.full(rows.shape[1], 0.01), np.ones(rows.shape[1]), 0.7)
    centred = centring.of(rows)
    return gridded(centred, 1.0), gridded(centred.packed(), 1.0)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_products_are_the_same_to_the_last_bit(n_outputs):
    plain, cells = grids()
    assert type(plain) is StateGrid
    assert type(cells) is CellGrid
    rng = np.random.default_rng(3)
    d = plain.rows.shape[1]
    for weights in rng.normal(size=(2, d + 1, n_outputs)):
        assert (cells.raw(weights) == plain.raw(weights)).all()
        assert (cells.raw(weights[:d]) == plain.raw(weights[:d])).all()
    variances = rng.uniform(size=sum(plain.rows.X.parts))
    assert (cells.variance_of(variances) == plain.variance_of(variances)).all()
    assert (cells.factor == plain.factor).all()
    assert 5 * cells.n_bytes < plain.n_bytes


LABELS = {"classes": [0, 1], "random_state": 0}
MODELS = {
    "labels": DPLogisticRegression(20.0, columns=COLUMNS, **LABELS),
    "three labels": DPLogisticRegression(
        20.0, columns=COLUMNS, classes=[0, 1, 2], random_state=0
    ),
    "weights of labels": DPLogisticRegression(
        20.0, columns=COLUMNS, class_weight={0: 1.0, 1: 0.5}, **LABELS
    ),
    "counts": DPPoissonRegressor(
        20.0, columns=COLUMNS, target_bounds=(0, 1), random_state=0
    ),
    "exact": DPLogisticRegression(float("inf"), columns=COLUMNS, **LABELS),
    "users": DPLogisticRegression(20.0, columns=COLUMNS, privacy_unit="user", **LABELS),
}


@pytest.mark.parametrize("name", MODELS)
def test_fits_to_cells_have_the_bits_of_fits_to_sparse_rows(name, monkeypatch):
    frame = table(3 * N)
    y, groups = (frame["a"] > 0) * 1, np.arange(3 * N) // 2
    given = (frame, y, groups) if name == "users" else (frame, y)
    found, used = [], []
    for least, kind in ((np.inf, StateGrid), (0, CellGrid)):
        monkeypatch.setattr(_centred, "WORTH_CELLS", least)
        seen = set()

        def spied(X, *bounds, seen=seen, of=gridded):
            rows = of(X, *bounds)
            seen.add(type(rows))
            return rows

        for module in ("_gradient_sum", "_record_sums"):
            monkeypatch.setattr(f"skdp.sums.{module}.gridded", spied)
        model = clone(MODELS[name]).fit(*given)
        found.append(np.append(model.coef_, model.intercept_).tobytes())
        used.append(seen == {kind})
    assert found[0] == found[1]
    assert all(used)


def test_more_rows_than_add_up_in_one_word(monkeypatch):
    """Runs of a compiled pass end before a sum of 64 bits is full."""
    monkeypatch.setattr(_centred, "WORTH_CELLS", 0)
    frame = table(3 * N)
    y, found = (frame["a"] > 0) * 1, []
    for most in (_grid_rows._StatesGrid.most_rows, 100):
        monkeypatch.setattr(_grid_rows._StatesGrid, "most_rows", most)
        model = clone(MODELS["three labels"]).fit(frame, y)
        found.append(model.coef_.tobytes())
    assert found[0] == found[1]
