"""Heaps: declared values with an effect of their own, in every kind of model."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import pandas as pd
import pytest

import skdp
from skdp import TableEncoder, describe
from skdp._predictor import Predictor
from skdp.columns import Range
from skdp.ensemble._linear_start import features_of
from skdp.ensemble._trees import bins_of
from skdp.preprocessing import _blocks
from skdp.preprocessing._cells import read_cells
from skdp.preprocessing._exported import exact_edges

DECLARED = {
    "gain": Range(0, 1000, heaps=[0, 300, 1000]),
    "hours": Range(1, 99, whole=True, heaps=[40, 60], missing=True),
}
# Ranges and numbers of intervals, whose edges heaps meet or miss.
CASES = [
    (Range(0, 100, heaps=[0, 30, 50, 100]), 4),
    (Range(0, 1, heaps=[k / 10 for k in range(11)]), 10),
    (Range(0, 1, heaps=[0.1, np.nextafter(0.1, 1), 0.3 + 1e-12]), 10),
    (Range(-1e300, 1e300, heaps=[-1e300, 0, 1e-300]), 33),
    (Range(0, 1e6, log=True, heaps=[0, 1, 2, 1e6]), 32),
    (Range(0, 100, whole=True, heaps=[0, 30, 50, 100]), 4),
    (Range(0, 9, whole=True, heaps=range(10)), 4),
    (Range(0, 9, whole=True, heaps=range(10)), 32),
    (Range(-7, 99_999, whole=True, heaps=[-7, 0, 99_999]), 32),
    (Range(0, 9, heaps=[0, 9]), 1),
]
every_case = pytest.mark.parametrize(("declared", "count"), CASES)


def table(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    gain = np.where(rng.random(n) < 0.5, 0.0, rng.uniform(-100, 1200, n))
    gain[rng.random(n) < 0.1] = 300.0
    hours = np.where(rng.random(n) < 0.5, 40.0, rng.integers(0, 110, n))
    hours[rng.random(n) < 0.1] = np.nan
    labels = (gain == 300) ^ (rng.random(n) < 0.2)
    return pd.DataFrame({"gain": gain, "hours": hours}), labels.astype(int)


@lru_cache
def model_of(kind, **params):
    X, y = table()
    given = {"columns": DECLARED, "classes": [0, 1], "random_state": 0} | params
    return getattr(skdp, kind)(10.0, **given).fit(X, y)


def trees(**params):
    given = {"n_estimators": 40, "max_interaction": 2} | params
    return model_of("DPGradientBoostingClassifier", **given)


def effect_of(model, at):
    """The effect of the heap at a gain."""
    gains = model.effects()["gain"]
    key = "at" if "at" in gains else "from"
    return float(gains.loc[gains["heap"] & (gains[key] == at), "effect"].iloc[0])


# -------------------------------------------------------------------- Curves and heaps


@pytest.mark.parametrize("numeric", ["linear", "hats"])
def test_a_heap_is_the_curve_and_an_indicator(numeric):
    encoder = TableEncoder(DECLARED["gain"], numeric=numeric, n_knots=5)
    beyond = [-5.0, -math.inf, 1000.5, math.inf]
    X = np.array([0, 1e-300, 300, np.nextafter(300, 0), 301, 1000, *beyond])
    rows = encoder.fit_transform(X[:, None])
    assert list(encoder.get_feature_names_out()[-3:]) == [
        "x0_at_0",
        "x0_at_300",
        "x0_at_1000",
    ]
    curve, heaps = rows[:, :-3], rows[:, -3:]
    is_at = np.column_stack([X <= 0, X == 300, X >= 1000])
    assert np.array_equal(heaps > 0, is_at)
    assert len({*heaps[is_at]}) == 1
    # Without its indicator a heap is where its neighbours are.
    assert np.allclose(curve[[0, 2]], curve[[1, 3]], atol=1e-12)
    assert not np.allclose(curve[2], curve[4], atol=1e-12)
    plain = TableEncoder(Range(0, 1000), numeric=numeric, n_knots=5)
    straight = plain.fit_transform(X[:, None])
    ratios = curve[straight != 0] / straight[straight != 0]
    assert np.ptp(ratios) < 1e-12


def test_states_of_heaps_are_effects_that_add_up():
    encoder = TableEncoder(DECLARED, n_knots=9)
    X, _ = table(300)
    rows = encoder.fit_transform(X)
    coef = np.random.default_rng(1).normal(size=rows.shape[1])
    gains = encoder.effects(coef)["gain"]
    heap = gains[gains["heap"]].set_index("at")["effect"]
    own = encoder.blocks_["gain"]
    for at in (0, 300):
        found = rows[X["gain"] == at][:, own] @ coef[own]
        assert len(found)
        assert np.allclose(found, heap[at])
    knots = gains[~gains["heap"].astype(bool)]
    between = X["gain"].between(0, 1000) & ~X["gain"].isin(heap.index)
    found = rows[between][:, own] @ coef[own]
    curve = np.interp(X["gain"][between], knots["at"], knots["effect"])
    assert np.allclose(found, curve)


# ---------------------------------------------------------------------------- Intervals


def near(declared, count):
    """Heaps, edges and ends with their neighbours, and numbers in between."""
    column = bins_of(("x",), (declared,), intervals=count).columns[0]
    ends = [declared.low, declared.high, *declared.heaps, *column.edges]
    rng = np.random.default_rng(0)
    half = declared.high / 2 - declared.low / 2
    inside = declared.low + 2 * half * rng.random(2000)
    X = np.concatenate([ends, inside, [-math.inf, math.inf]])
    if declared.whole:
        X = np.round(X)
    else:
        X = np.concatenate([X, np.nextafter(X, math.inf), np.nextafter(X, -math.inf)])
    X = np.sort(X)
    return X, column.codes(read_cells(X, declared, "x")), column


@every_case
def test_codes_keep_their_order_and_heaps_are_alone(declared, count):
    X, codes, column = near(declared, count)
    assert (np.diff(codes.astype(int)) >= 0).all()
    assert codes.max() < column.n_bins <= 255
    clipped = np.clip(X, declared.low, declared.high)
    assert len({*column.heaps}) == len(declared.heaps)
    for heap, code in zip(declared.heaps, column.heaps, strict=True):
        own = clipped[codes == code]
        assert heap in own
        # Rounding may put a heap's neighbours on its side of an edge.
        far = 1e-8 * (declared.high / 2 - declared.low / 2) / count
        assert np.abs(own - heap).max() <= (0 if declared.whole else far)


@every_case
def test_every_interval_of_whole_numbers_holds_one(declared, count):
    if declared.whole and declared.high - declared.low < 1000:
        column = bins_of(("x",), (declared,), intervals=count).columns[0]
        X = np.arange(declared.low, declared.high + 1.0)
        codes = column.codes(read_cells(X, declared, "x"))
        assert sorted({*codes}) == list(range(column.n_bins))


@every_case
def test_edges_are_shown_and_exact(declared, count):
    X, codes, column = near(declared, count)
    edges = column.edges
    assert len(edges) == column.n_bins + 1 == len(column.labels) + 1
    assert (np.diff(edges) >= 0).all()
    inner = exact_edges(column.block)[1:-1]
    assert np.array_equal(np.searchsorted(inner, X, side="right"), codes)
    # Places among the intervals are those of the edges.
    assert np.allclose(column.block.at(np.arange(len(edges))), edges, rtol=1e-9)


def test_a_heap_without_an_interval_is_found(monkeypatch):
    """The broken twin of the tests above."""
    monkeypatch.setattr(_blocks, "_AT_EDGE", 1.0)
    X, codes, _ = near(*CASES[0])
    (code,) = {*codes[X == 30]}
    assert np.ptp(X[codes == code]) > 1


def test_heaps_in_words():
    columns = bins_of(tuple(DECLARED), tuple(DECLARED.values()), intervals=2).columns
    assert columns[0].labels == (
        "0",
        "0 to 300",
        "300",
        "300 to 500",
        "500 to 1000",
        "1000",
    )
    assert columns[1].labels == (
        "1 to 39",
        "40",
        "41 to 50",
        "51 to 59",
        "60",
        "61 to 100",
        "missing",
    )
    many = Range(0, 1e6, heaps=range(100))
    with pytest.raises(ValueError, match="fewer knots or heaps"):
        bins_of(("x",), (many,), intervals=100)


def test_a_linear_start_has_an_indicator_for_each_heap():
    names, declared = tuple(DECLARED), tuple(DECLARED.values())
    with_heaps = features_of(bins_of(names, declared), 16)
    for features, heaps in zip(with_heaps, bins_of(names, declared).heaps, strict=True):
        own = [
            j for j in range(features.shape[1]) if np.count_nonzero(features[:, j]) == 1
        ]
        rows = {int(np.flatnonzero(features[:, j])[0]) for j in own}
        assert set(heaps) <= rows


# ------------------------------------------------------------------------- Whole models


@pytest.mark.parametrize("make", [lambda: model_of("DPLogisticRegression"), trees])
def test_a_heap_has_an_effect_of_its_own(make):
    model = make()
    assert effect_of(model, 300) > 2 > 1 > abs(effect_of(model, 0))
    X = pd.DataFrame({"gain": [290.0, 300.0, 310.0], "hours": [50.0] * 3})
    below, at, above = model.decision_function(X)
    assert at > 1.5 + max(below, above)
    model.plot_effects()


@pytest.mark.parametrize("make", [lambda: model_of("DPLogisticRegression"), trees])
def test_a_file_predicts_the_same_at_heaps_and_beside_them(make):
    model = make()
    gains = [0, 1e-9, 300, np.nextafter(300, 0), np.nextafter(300, 999), 1000, -7, 1e9]
    hours = [40.0, 39.0, 41.0, 60.0, 99.0, 200.0, 1.0, np.nan]
    X = pd.DataFrame({"gain": np.array(gains, float), "hours": hours})
    found = Predictor(model.to_json()).predict_proba(X)
    assert np.allclose(found, model.predict_proba(X), rtol=0, atol=1e-12)


def test_a_pipeline_of_scikit_learn_has_heaps():
    X, y = table()
    X, columns = X[["gain"]], {"gain": DECLARED["gain"]}
    model = skdp.DPLogisticRegression(10.0, columns=columns, classes=[0, 1]).fit(X, y)
    found = model.export_sklearn().predict_proba(X)
    assert np.allclose(found, model.predict_proba(X), rtol=0, atol=1e-12)


def test_monotone_predictions_do_not_fall_at_heaps():
    X = pd.DataFrame({"gain": np.linspace(-10, 1010, 1021), "hours": 40.0})
    steps = np.diff(trees(monotonic_cst=(1, 0)).decision_function(X))
    assert steps.min() >= 0
    assert np.diff(trees().decision_function(X)).min() < -1  # the broken twin


def test_a_description_counts_heaps():
    X, _ = table()
    found = describe(X, DECLARED, epsilon=math.inf)
    gains = np.clip(X["gain"], 0, 1000)
    counts = found.counts("gain").set_index("from")
    heaps = counts[counts["heap"]]["count"]
    for at in DECLARED["gain"].heaps:
        assert heaps[at] == (gains == at).sum()
    counts = found.counts("hours")
    assert counts.loc["40", "count"] == (X["hours"] == 40).sum()
    for q in (0.3, 0.55, 0.8, 0.95):
        exact = np.quantile(gains, q)
        assert abs(found.quantile("gain", q) - exact) < 1000 / 64
        assert exact not in (0, 300, 1000) or found.quantile("gain", q) == exact
    found.plot()
