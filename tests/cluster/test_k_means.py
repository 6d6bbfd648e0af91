"""`DPKMeans`: what it finds, what it costs, whose rows count."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import skdp
from skdp import BudgetLedger, DPKMeans
from skdp.sums._moments import ClusterSums
from skdp.tables._memory import MemorySource

BOUNDS = ([0, 0], [100, 5])
CENTERS = np.array([[20.0, 1.0], [70.0, 4.0], [25.0, 4.2]])


def table(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    label = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    return CENTERS[label] + rng.normal(size=(n, 2)) * [4.0, 0.25], label


def fitted(epsilon=1.0, n=6000, **params):
    given = {"bounds": BOUNDS} | params
    return DPKMeans(n_clusters=3, epsilon=epsilon, **given).fit(table(n)[0])


def matched(model):
    """Distance of each true centre to the nearest that was found, in bounds."""
    apart = (CENTERS[:, None] - model.cluster_centers_) / np.diff(BOUNDS, axis=0)
    return np.linalg.norm(apart, axis=2).min(axis=1)


# ------------------------------------------------------------------------- the query

EVERY = np.concatenate([np.eye(3), -np.eye(3), [[9.0, 9.0, 9.0]], np.zeros((1, 3))])
QUERY = ClusterSums(
    50, -np.ones(3), np.ones(3), np.zeros(3), 0.5, np.array([[0.2, 0, 0], [-0.2, 0, 0]])
)


def counted(rows):
    source = MemorySource(rows, np.zeros(len(rows)))
    return QUERY.total(QUERY.open(source), None)


def farthest():
    each = np.array([counted(row[None]) for row in EVERY])
    apart = np.linalg.norm(each[:, None] - each[None], axis=2).max()
    return {"zero_out": np.linalg.norm(each, axis=1).max(), "replace_one": apart}


def test_no_neighbour_is_farther_than_the_bound_which_is_attained():
    for adjacency, found in farthest().items():
        bound = QUERY.bound().under(adjacency)
        assert found <= bound
        assert found == pytest.approx(bound, rel=1e-5)


def test_broken_twin_with_rows_that_are_not_clipped_passes_the_bound(monkeypatch):
    monkeypatch.setattr(ClusterSums, "rows", lambda self, X: X / self.radius * 2.0**21)
    for adjacency, found in farthest().items():
        assert found > 1.4 * QUERY.bound().under(adjacency)


def test_a_record_adds_one_and_itself_to_the_nearest_centre():
    sums, counts = QUERY.read(counted(EVERY))
    # Rows as far from both centres belong to the first.
    assert counts.tolist() == [7, 1]
    assert sums[1] == pytest.approx([-1, 0, 0])
    assert QUERY.nearest(QUERY.rows(EVERY)).tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    # A centre far out has the larger product with a row between the two.
    farther = replace(QUERY, centers=np.array([[0.2, 0, 0], [0.9, 0, 0]]))
    between = np.array([[0.25, 0, 0], [0.3, 0, 0]])
    assert farther.nearest(farther.rows(between)).tolist() == [0, 1]


# ------------------------------------------------------------------------ the model


def test_without_noise_it_is_lloyds_algorithm():
    X, _ = table()
    one, more = (fitted(math.inf, n_iter=k) for k in (3, 4))
    units = np.clip((X - [50, 2.5]) / [50, 2.5], -1, 1)
    # One step from what three steps found, of rows that are clipped to the radius.
    moved = units - one._last.mean
    norms = np.linalg.norm(moved, axis=1) / one._last.radius
    moved /= np.maximum(norms, 1)[:, None]
    apart = moved[:, None] - one._last.radius * one._last.centers
    near = np.linalg.norm(apart, axis=2).argmin(axis=1)
    means = [moved[near == k].mean(axis=0) + one._last.mean for k in range(3)]
    expected = np.array([50, 2.5]) + np.array(means) * [50, 2.5]
    assert more.cluster_centers_ == pytest.approx(expected, abs=1e-4)
    assert more.cluster_counts_ == pytest.approx(np.bincount(near))
    assert (one.predict(X) == near).all()
    assert one.transform(X).argmin(axis=1).tolist() == near.tolist()
    assert one.transform(X) == pytest.approx(np.linalg.norm(apart, axis=2), abs=1e-5)


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_centres_are_found_in_noise(delta):
    # The largest error of 200 runs was .05 of the bounds.
    epsilon = 1.0 if delta else 8.0
    found = [matched(fitted(epsilon, delta=delta)).max() for _ in range(5)]
    assert np.median(found) < 0.1
    counts = np.sort(fitted(8.0).cluster_counts_)
    assert counts == pytest.approx([1200, 1800, 3000], abs=400)


def test_bounds_that_are_far_too_wide_lose_no_cluster():
    # A run misses a centre with a chance of .02 (200 runs), and the median of 11 runs
    # with one below 1e-7.
    wide = ([-900, -40], [1000, 50])
    errors = [matched(fitted(2.0, bounds=wide)).max() for _ in range(11)]
    assert np.median(errors) < 0.1


def test_where_noise_hides_everything_centres_are_within_the_bounds():
    for epsilon in (1e-6, 1e-3):
        model = fitted(epsilon, n=5)
        assert np.isfinite(model.cluster_centers_).all()
        assert (model.cluster_centers_ >= BOUNDS[0]).all()
        assert (model.cluster_centers_ <= BOUNDS[1]).all()


def test_nothing_fitted_follows_from_single_records():
    X, _ = table()
    model = fitted(random_state=0)
    assert not hasattr(model, "labels_")
    assert not hasattr(model, "inertia_")
    same = clone(model).fit(X[::-1])
    assert (same.cluster_centers_ == model.cluster_centers_).all()
    far = np.array([[1e300, -1e300]])
    assert model.predict(far) == model.predict([[100, 0]])


# ---------------------------------------------------------------------- books, users


@pytest.mark.parametrize("delta", [1e-6, 0.0])
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_record_and_ledger(adjacency, delta, tmp_path):
    books = BudgetLedger(
        tmp_path / "x.db", epsilon=1.0, delta=1e-5, adjacency=adjacency
    )
    model = fitted(0.9, adjacency=adjacency, delta=delta, ledger=books, n=50)
    record = model.privacy_
    moved = {"replace_one": 2 * math.sqrt(2), "zero_out": math.sqrt(3)}[adjacency]
    assert record.sensitivity == pytest.approx(moved)
    assert record.solver == "noisy_lloyd"
    assert record.event.count == 6  # moments, and five steps
    X, _ = table(50)
    for params, words in [
        ({"bounds": None}, "bounds"),
        ({"n_clusters": 0}, "n_clusters"),
        ({"n_iter": 101}, "n_iter"),
    ]:
        with pytest.raises(ValueError, match=words):
            clone(model).set_params(ledger=books, **params).fit(X)
    with pytest.raises(skdp.BudgetExceeded):
        clone(model).set_params(ledger=books).fit(X)
    assert len(books.spends()) == 1


def test_a_user_of_many_rows_weighs_no_more_than_one_of_few():
    X, _ = table(900)
    rows = np.concatenate([X, np.repeat([[95.0, 0.2]], 4000, axis=0)])
    ids = np.append(np.arange(900), np.full(4000, 900))
    model = DPKMeans(n_clusters=3, epsilon=50.0, bounds=BOUNDS, privacy_unit="user")
    model.fit(rows, groups=ids)
    assert matched(model).max() < 0.1
    assert model.cluster_counts_.sum() == pytest.approx(901, abs=10)
    assert model.privacy_.n_samples == 901


def test_null_records_of_a_source_are_in_no_cluster(tmp_path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(table()[0], columns=["a", "b"])
    frame.loc[frame.index % 3 == 0, "a"] = np.nan
    frame.to_parquet(tmp_path / "x.parquet")
    source = skdp.ParquetSource(tmp_path / "x.parquet", target=None, n_samples=6000)
    model = DPKMeans(n_clusters=3, epsilon=20.0, bounds=BOUNDS).fit(source)
    assert model.cluster_counts_.sum() == pytest.approx(4000, abs=60)
    assert matched(model).max() < 0.15
