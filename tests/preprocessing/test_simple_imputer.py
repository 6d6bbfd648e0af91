"""DPSimpleImputer: its sums, both sensitivities, accuracy, silence on the pattern."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

from skdp import BoundedScaler, DPSimpleImputer
from skdp.privacy.release._record import FREE
from skdp.sums._counts import PRESENCE, Pairs
from tests.preprocessing.steps import ADJACENCIES, make_rows
from tests.preprocessing.test_standard_scaler import VALUES, farthest, query_of, sums_of
from tests.problems import make_ledger

by_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES)


def make_gaps(n=3000, d=3, share=0.3, seed=0):
    X = make_rows(n, d, seed)
    X[np.random.default_rng(seed + 1).random((n, d)) < share] = math.nan
    return X


@by_adjacency
@pytest.mark.parametrize("bounds", [(-1, 1), (1e6, 1e6 + 1)])
def test_search_never_exceeds_the_sensitivity_and_attains_it(adjacency, bounds):
    stated = PRESENCE.bound(2).under(adjacency)
    found = farthest(adjacency, PRESENCE, bounds, values=[*VALUES, math.nan])
    assert 0.999 * stated <= found <= stated * (1 + 1e-6)


def test_both_kinds_of_exchange_are_at_the_bound():
    """Low for high, and present for missing."""
    low, high, gap = np.array([[-1.0]]), np.array([[1.0]]), np.array([[math.nan]])
    of_low, of_high, of_gap = (query_of(X, (-1, 1), PRESENCE) for X in (low, high, gap))
    assert np.linalg.norm(of_high - of_low) == pytest.approx(2.0)
    assert np.linalg.norm(of_high - of_gap) == pytest.approx(2.0)
    assert np.linalg.norm(of_gap) == pytest.approx(math.sqrt(0.75))
    assert np.linalg.norm(of_high) == pytest.approx(math.sqrt(1.75))


def _zero_or_one(values):
    a, b = PRESENCE.split(values)
    return a, b + 0.5


def _filled(values):
    a, b = PRESENCE.split(values)
    return a, np.full_like(b, 0.5)


NOT_CENTRED = Pairs(_zero_or_one, PRESENCE.weight)
TWINS = {
    "half of replace_one under zero_out": ("zero_out", PRESENCE, math.sqrt(2)),
    "zero_out used under replace_one": ("replace_one", PRESENCE, math.sqrt(3.5)),
    "number present forgotten": ("zero_out", PRESENCE, math.sqrt(2)),
    "not centred": ("zero_out", NOT_CENTRED, math.sqrt(3.5)),
    "counted too heavily": (
        "replace_one",
        Pairs(PRESENCE.split, 2.5),
        2 * math.sqrt(2),
    ),
}


@pytest.mark.parametrize("twin", TWINS)
def test_broken_sensitivities_are_found_out(twin):
    adjacency, sums, stated = TWINS[twin]
    assert farthest(adjacency, sums, values=[*VALUES, math.nan]) > 1.01 * stated


def test_definition_and_null_records():
    X = make_gaps()
    present = np.random.default_rng(5).random(3000) < 0.6
    v, is_there = np.clip(X / 2, -1, 1), ~np.isnan(X)
    expected = [np.nansum(v, axis=0), math.sqrt(3) * (is_there - 0.5).sum(axis=0)]
    found = query_of(X, (-2, 2), PRESENCE)
    assert np.allclose(found, np.concatenate(expected), rtol=1e-12)
    total, count = sums_of(X, (-2, 2), PRESENCE).read(found)
    assert np.allclose(total, expected[0])
    assert np.allclose(count, is_there.sum(axis=0))
    X[~present] = math.nan
    kept = query_of(X[present], (-2, 2), PRESENCE)
    assert np.allclose(query_of(X, (-2, 2), PRESENCE, present=present), kept)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_infinite_epsilon_is_scikit_learn(dtype):
    X = make_gaps().astype(dtype)
    own = DPSimpleImputer(epsilon=math.inf, bounds=(0, 1)).fit(X)
    theirs = SimpleImputer().fit(X)
    assert np.allclose(own.statistics_, theirs.statistics_, rtol=1e-4, atol=1e-7)
    assert np.allclose(own.transform(X), theirs.transform(X), rtol=1e-4, atol=1e-6)
    assert own.transform(X).dtype == dtype


@by_adjacency
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_much_budget_comes_close_to_scikit_learn(adjacency, delta):
    X = np.array([5, 0, -3]) + make_gaps()
    own = DPSimpleImputer(
        epsilon=1e4, delta=delta, adjacency=adjacency, bounds=(-20, 20)
    ).fit(X)
    assert np.allclose(own.statistics_, SimpleImputer().fit(X).statistics_, atol=0.05)


def test_only_missing_values_change():
    X = make_gaps()
    X[0, 0], X[1, 1] = 1e300, -50.0  # far out of the bounds, and present
    step = DPSimpleImputer(bounds=(-3, 3)).fit(X)
    out, gaps = step.transform(X), np.isnan(X)
    assert np.array_equal(out[~gaps], X[~gaps])
    assert np.array_equal(out[gaps], np.broadcast_to(step.statistics_, X.shape)[gaps])
    assert np.isfinite(step.transform(np.full((4, 3), math.nan))).all()


def test_a_feature_with_hardly_any_value_gets_the_middle():
    X = make_gaps(20_000)
    X[:, 1] = math.nan
    X[:3, 1] = 9.0
    for seed in range(20):  # about 1e-9 of all seeds would fail
        step = DPSimpleImputer(bounds=([-3, 0, -3], [3, 10, 3]), random_state=seed)
        step.fit(X)
        assert abs(step.statistics_[1] - 5) < 3
        assert step.transform(X).shape == X.shape
        assert (np.abs(step.statistics_[[0, 2]]) < 0.3).all()
    exact = DPSimpleImputer(epsilon=math.inf, bounds=(0, 10))
    assert exact.fit(np.full((5, 1), math.nan)).statistics_[0] == 5


def test_infinity_is_refused_without_a_charge(tmp_path):
    X, ledger = make_gaps(), make_ledger(tmp_path)
    step = DPSimpleImputer(bounds=(-3, 3), ledger=ledger)
    for value in (math.inf, -math.inf):
        bad = X.copy()
        bad[5, 1] = value
        with pytest.raises(ValueError, match="infinity"):
            step.fit(bad)
    assert ledger.spends() == []


def test_nullable_frames():
    frame = pd.DataFrame(
        {"age": [20, None, 60] * 400, "hours": [10.5, 40.0, None] * 400}
    )
    frame["age"] = frame["age"].astype("Int64")
    step = DPSimpleImputer(bounds={"hours": (0, 99), "age": (17, 90)}, epsilon=100.0)
    out = step.set_output(transform="pandas").fit_transform(frame)
    assert not out.isna().any().any()
    assert abs(step.statistics_[0] - 40) < 3


@pytest.mark.parametrize(
    ("fill_value", "expected"),
    [(7, [7, 7]), ([1, 2], [1, 2]), ({"hours": 2, "age": 1}, [1, 2])],
)
def test_constants_cost_nothing(fill_value, expected, tmp_path):
    frame = pd.DataFrame({"age": [1.0, math.nan], "hours": [math.nan, 4.0]})
    ledger = make_ledger(tmp_path)
    step = DPSimpleImputer(strategy="constant", fill_value=fill_value, ledger=ledger)
    assert step.step_privacy() is FREE
    step.fit(frame)
    assert ledger.spends() == []
    assert np.array_equal(step.statistics_, expected)
    assert step.step_privacy() is FREE
    assert not hasattr(step, "privacy_")


def test_a_constant_after_a_mean_leaves_no_record_behind():
    step = DPSimpleImputer(bounds=(-3, 3)).fit(make_gaps())
    assert step.step_privacy().epsilon == 1.0
    step.set_params(strategy="constant", fill_value=0.0).fit(make_gaps())
    assert not hasattr(step, "privacy_")


@pytest.mark.parametrize(
    "fill_value", [None, math.nan, math.inf, "mean", [1, 2], {"x": 3}, [[1], [2], [3]]]
)
def test_wrong_constants_are_refused(fill_value):
    with pytest.raises(ValueError, match="fill_value"):
        DPSimpleImputer(strategy="constant", fill_value=fill_value).fit(make_gaps())


def test_constants_beyond_single_precision():
    X = np.full((2, 1), math.nan, dtype=np.float32)
    out = DPSimpleImputer(strategy="constant", fill_value=1e300).fit_transform(X)
    assert out.dtype == np.float32
    assert np.isfinite(out).all()


def test_before_a_scaler():
    X = make_gaps()
    steps = make_pipeline(DPSimpleImputer(bounds=(-3, 3)), BoundedScaler((-3, 3)))
    assert np.linalg.norm(steps.fit_transform(X), axis=1).max() <= 1 + 1e-12
