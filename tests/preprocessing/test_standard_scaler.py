"""DPStandardScaler: its sums, both sensitivities, accuracy, what comes out."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from skdp import BoundedScaler, DPStandardScaler
from skdp.privacy.release._plan import Layout
from skdp.sums._counts import PRESENCE, SQUARES, Pairs, PairSums, shrunken_mean
from skdp.tables._memory import MemorySource
from tests.preprocessing.steps import ADJACENCIES, make_rows
from tests.spies import SpyNoise

by_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES)
by_bounds = pytest.mark.parametrize("bounds", [(-1, 1), (1e6, 1e6 + 1), (0, 1e-9)])
# Values in units of the bounds that a record may have, out of them too.
VALUES = [-1e300, -3.0, -1.0, -0.5, 0.0, 0.3, math.sqrt(0.5), 1.0, 1e300]


def source_of(X, present=None):
    return MemorySource(X, np.zeros(len(X)), present)


def sums_of(X, bounds, pairs=SQUARES):
    low, high = (np.full(X.shape[1], float(end)) for end in bounds)
    return PairSums(pairs, low, high, len(X))


def query_of(X, bounds, pairs=SQUARES, present=None, rows=None):
    sums = sums_of(X, bounds, pairs)
    with np.errstate(all="ignore"):
        return sums.total(sums.open(source_of(X, present)), rows)


def farthest(adjacency, sums=SQUARES, bounds=(-1, 1), d=2, values=VALUES):
    """Largest distance found between the sums of neighbouring data sets."""
    rng = np.random.default_rng(0)
    middle, half = (bounds[0] + bounds[1]) / 2, (bounds[1] - bounds[0]) / 2
    largest = 0.0
    for _ in range(1500):
        X = middle + half * rng.choice([*values, rng.uniform(-1, 1)], size=(3, d))
        Z, present = X.copy(), None
        if adjacency == "zero_out":
            present = np.array([False, True, True])
        else:
            Z[0] = middle + half * rng.choice([*values, rng.uniform(-1, 1)], size=d)
        change = query_of(X, bounds, sums) - query_of(Z, bounds, sums, present)
        largest = max(largest, float(np.linalg.norm(change)))
    return largest


@by_adjacency
@by_bounds
def test_search_never_exceeds_the_sensitivity_and_attains_it(adjacency, bounds):
    stated = SQUARES.bound(2).under(adjacency)
    assert 0.999 * stated <= farthest(adjacency, bounds=bounds) <= stated * (1 + 1e-6)


def test_squares_cost_nothing_under_replace_one():
    """Up to a weight of sqrt(2): the extreme records have equal squares."""
    rng = np.random.default_rng(0)
    v, w = rng.uniform(-1, 1, size=(2, 400_000))
    distance = (v - w) ** 2 + 2 * (v**2 - w**2) ** 2
    assert 3.9 < distance.max() <= 4
    assert SQUARES.bound(7).replace_one == pytest.approx(2 * math.sqrt(7))
    assert SQUARES.bound(7).zero_out == pytest.approx(math.sqrt(10.5))


NOT_CENTRED = Pairs(lambda v: (v, v * v), SQUARES.weight)
TOO_HEAVY = Pairs(SQUARES.split, 3.0)
TWINS = {
    "half of replace_one under zero_out": ("zero_out", SQUARES, math.sqrt(2)),
    "zero_out used under replace_one": ("replace_one", SQUARES, math.sqrt(3)),
    "squares forgotten": ("zero_out", SQUARES, math.sqrt(2)),
    "squares not centred": ("zero_out", NOT_CENTRED, math.sqrt(3)),
    "squares too heavy": ("replace_one", TOO_HEAVY, 2 * math.sqrt(2)),
    "one feature for all": ("replace_one", SQUARES, 2.0),
}


@pytest.mark.parametrize("twin", TWINS)
def test_broken_sensitivities_are_found_out(twin):
    adjacency, sums, stated = TWINS[twin]
    assert farthest(adjacency, sums) > 1.01 * stated


def test_broken_twin_that_does_not_clip_is_found_out(monkeypatch):
    monkeypatch.setattr("skdp.sums._counts.to_unit", lambda X, low, high: X)
    found = farthest("zero_out", values=[2.0, -2.0])
    assert found > 1.1 * SQUARES.bound(2).zero_out


def test_definition_blocks_and_null_records_agree():
    X = make_rows(3000, 4)
    present = np.random.default_rng(1).random(3000) < 0.7
    v = np.clip(X / 2, -1, 1)
    expected = np.concatenate([v.sum(0), math.sqrt(2) * (v**2 - 0.5).sum(0)])
    assert np.allclose(query_of(X, (-2, 2)), expected, rtol=1e-12)
    source = source_of(X)
    source.facts = replace(source.facts, largest_block=7)
    sums = sums_of(X, (-2, 2))
    assert np.allclose(sums.total(source, None), expected, rtol=1e-12)
    some = np.flatnonzero(present)
    assert np.allclose(query_of(X, (-2, 2), rows=some), query_of(X[some], (-2, 2)))
    X[~present] = 1e300
    kept = query_of(X[present], (-2, 2))
    assert np.allclose(query_of(X, (-2, 2), present=present), kept, rtol=1e-12)
    none = query_of(X, (-2, 2), present=np.zeros(3000, dtype=bool))
    assert np.array_equal(none, np.zeros(8))
    first, squares = sums.read(expected)
    assert np.allclose(first, v.sum(0))
    assert np.allclose(squares, (v**2).sum(0))


@pytest.mark.parametrize("pairs", [SQUARES, PRESENCE], ids=["squares", "presence"])
def test_sums_depend_on_no_layout_and_little_is_charged(pairs):
    n = 20_000
    X = make_rows(n).astype(np.float32).astype(float)
    if pairs is PRESENCE:
        X[::7, 1] = np.nan
    first = query_of(X, (-3, 3), pairs)
    orders = (slice(None), np.arange(n)[::-1], np.argsort(X[:, 0]))
    for order in orders:
        for stored in (X, np.asfortranarray(X), X.astype(np.float32)):
            for block in (7, 1000, n):
                source = source_of(stored[order])
                source.facts = replace(source.facts, largest_block=block)
                sums = sums_of(X, (-3, 3), pairs)
                assert np.array_equal(sums.total(source, None), first)
    assert 0 < sums.slack(Layout(1)) == sums.slack(Layout(n)) < 1e-8
    # Broken twin: values as they are, added up in doubles.
    v = np.nan_to_num(np.clip(X / 3, -1, 1))
    assert not np.array_equal(v.sum(axis=0), v[::-1].sum(axis=0))


@by_adjacency
@pytest.mark.parametrize("pairs", [SQUARES, PRESENCE], ids=["squares", "presence"])
def test_the_slack_covers_the_rounding_of_records(adjacency, pairs, monkeypatch):
    """With units that are coarse; broken twin: nothing is charged for them."""
    monkeypatch.setattr(PairSums, "unit", 2.0**-5)
    values = [*np.linspace(-1, 1, 41), -1.0, 1.0, *[np.nan] * (pairs is PRESENCE)]
    sums = sums_of(np.zeros((3, 2)), (-1, 1), pairs)
    stated = sums.bound().under(adjacency)
    found = farthest(adjacency, pairs, values=values)
    assert stated * 0.9 < found <= stated + sums.slack(Layout(3))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_infinite_epsilon_is_scikit_learn(dtype):
    X = (5 + 3 * make_rows(400, 4)).astype(dtype)
    X[:, 2] = 7.0
    own = DPStandardScaler(math.inf, bounds=(0, 1)).fit(X)
    theirs = StandardScaler().fit(X.astype(np.float64))
    assert np.allclose(own.mean_, theirs.mean_, rtol=1e-12)
    assert np.allclose(own.var_, theirs.var_, rtol=1e-12)
    assert np.allclose(own.scale_, theirs.scale_, rtol=1e-12)
    out, expected = own.transform(X), theirs.transform(X) / 2
    assert np.allclose(out, expected, rtol=1e-5, atol=1e-6)
    assert own.data_norm_ == math.inf


@pytest.mark.parametrize("delta", [1e-6, 0.0])
@by_adjacency
def test_much_budget_comes_close_to_scikit_learn(delta, adjacency):
    X = np.array([3, -2, 0.1]) + [0.5, 1.0, 2.0] * make_rows(5000)
    own = DPStandardScaler(1e4, delta=delta, adjacency=adjacency, bounds=(-20, 20))
    own.fit(X)
    assert np.allclose(own.mean_, X.mean(0), atol=0.02)
    assert np.allclose(own.scale_, X.std(0), rtol=0.05)


def test_error_is_that_of_the_noise():
    """Mean and variance are within six standard deviations (1e-8 with fresh seeds)."""
    X = make_rows(4000, 5)
    v = np.clip(X / 4, -1, 1)
    for seed in range(20):
        step = DPStandardScaler(bounds=(-4, 4), random_state=seed).fit(X)
        noise = step.privacy_.noise_scale / 4000
        assert np.abs(step.mean_ / 4 - v.mean(0)).max() < 6 * noise + 0.01
        assert np.abs(step.var_ / 16 - v.var(0)).max() < 6 * noise / math.sqrt(2) + 0.02


def test_typical_rows_have_norm_about_one_and_none_more():
    X = np.array([100, 0, 0, 5]) + [20, 0.1, 3, 1] * make_rows(20_000, 4)
    bounds = ([0, -1, -20, -5], [300, 1, 20, 15])
    out = DPStandardScaler(bounds=bounds).fit_transform(X)
    norms = np.linalg.norm(out, axis=1)
    assert norms.max() <= 1 + 1e-12
    assert 0.7 < np.median(norms) <= 1
    before = np.linalg.norm(BoundedScaler(bounds).fit_transform(X), axis=1)
    assert np.median(norms) > 2 * np.median(before)  # what the budget is spent for


def test_rows_are_transformed_one_by_one():
    X = make_rows()
    step = DPStandardScaler(bounds=(-3, 3)).fit(X)
    assert np.array_equal(step.transform(X)[3:4], step.transform(X[3:4]))
    wild = X.copy()
    wild[7] = 1e308
    assert np.array_equal(step.transform(wild)[:7], step.transform(X)[:7])


class Forced(SpyNoise):
    """Releases that no data explain."""

    value = 0.0

    def gaussian(self, query, *, sensitivity, noise_multiplier, fine=False):
        return np.full(query.shape, self.value)


@pytest.mark.parametrize("value", [0.0, 1e15, -1e15, 1e-300])
@pytest.mark.parametrize(
    "bounds", [(-1, 1), (-1.7e308, 1.7e308), (0, 1e-320), (1e308, 1.7e308)]
)
def test_any_released_numbers_give_a_positive_variance(value, bounds, monkeypatch):
    monkeypatch.setattr(Forced, "value", value)
    monkeypatch.setattr("skdp.privacy.release._door.NoiseSource", Forced)
    step = DPStandardScaler(bounds=bounds).fit(make_rows())
    for values in (step.var_, step.scale_):
        assert np.isfinite(values).all()
        assert (values > 0).all()
    assert (bounds[0] <= step.mean_).all()
    assert (step.mean_ <= bounds[1]).all()
    ends = np.array([[bounds[0]] * 3, [bounds[1]] * 3])
    assert np.isfinite(step.transform(ends)).all()


def test_variance_stays_above_what_noise_can_tell():
    X = np.full((1000, 2), 0.5)
    step = DPStandardScaler(bounds=(0, 1)).fit(X)
    noise = step.privacy_.noise_scale / 1000
    assert (step.var_ * 4 >= 0.5 * noise).all()
    assert (step.var_ * 4 <= 1.0).all()


def test_means_are_shrunk_where_noise_rules():
    total = np.array([-50.0, 50.0, 0.0])
    assert np.abs(shrunken_mean(total, 10, sigma=1000.0)).max() < 0.01
    assert np.array_equal(shrunken_mean(total, 100, sigma=0.0), total / 100)
    assert np.array_equal(shrunken_mean(total, -3.0, sigma=1.0), np.zeros(3))
    assert np.array_equal(shrunken_mean(total, 0.0, sigma=0.0), np.zeros(3))


def test_bounds_are_matched_by_name():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"age": [20.0, 60.0] * 500, "hours": [10.0, 40.0] * 500})
    step = DPStandardScaler(bounds={"hours": (0, 99), "age": (17, 90)}).fit(frame)
    assert np.array_equal(step.low_, [17, 0])
    assert np.array_equal(clone(step).fit(frame).high_, [90, 99])
