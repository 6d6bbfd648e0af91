"""Gradient sums: agreement of storages, clipping, sensitivity over neighbours."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix

from skdp._compiled import compiled
from skdp.losses import HuberHingeLoss, LogisticLoss, SoftmaxLoss, SquaredLoss
from skdp.losses._classification import WeightedLoss
from skdp.losses._objective import LinearObjective
from skdp.sums import _floating as module
from skdp.sums._floating import GradientSum
from skdp.tables._memory import MemorySource

LOSSES = [
    LogisticLoss(),
    SoftmaxLoss(3),
    SquaredLoss(2.0),
    HuberHingeLoss(),
    HuberHingeLoss(n_outputs=3),
    WeightedLoss(LogisticLoss(), (0.3, 1.0)),
    WeightedLoss(SoftmaxLoss(3), (1.0, 1.0, 0.3)),
]
by_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def make_problem(**changes):
    facts = {"n_samples": 300, "n_features": 4, "data_norm": 1.0}
    facts |= {"loss": LogisticLoss(), "adjacency": "replace_one"}
    return LinearObjective(**(facts | changes))


def make_data(loss, n=300, d=4, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = scale * rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    return X, rng.integers(0, max(2, loss.n_outputs), n).astype(float)


def plain_sum(objective, X, y, W, clip=math.inf):
    """The definition, one record after the other."""
    total = np.zeros_like(W)
    for x, target in zip(X, y, strict=True):
        row = x * min(1.0, objective.data_norm / max(np.linalg.norm(x), 1e-300))
        if objective.fit_intercept:
            row = np.append(row, objective.intercept_value)
        residual = objective.loss.residual(np.array([target]), (row @ W)[None, :])[0]
        own = clip * dict(enumerate(objective.loss.label_weights)).get(int(target), 1.0)
        residual = residual * min(1.0, own / max(np.linalg.norm(residual), 1e-300))
        total += np.outer(row, residual)
    return total


def weights(objective, scale=2.0, seed=9):
    shape = (objective.n_columns, objective.loss.n_outputs)
    return scale * np.random.default_rng(seed).normal(size=shape)


@by_loss
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("clip", [math.inf, 0.3])
def test_blocks_storages_and_definition_agree(loss, fit_intercept, clip, monkeypatch):
    objective = make_problem(loss=loss, fit_intercept=fit_intercept, data_norm=0.8)
    X, y = make_data(loss)
    W = weights(objective)
    expected = plain_sum(objective, X, y, W, clip)
    for stored in (X, np.asfortranarray(X), csr_array(X), csr_matrix(X)):
        for block in (7, 300):
            source = MemorySource(stored, y)
            source.facts = replace(source.facts, largest_block=block)
            for least in (0, 10**9):  # compiled and not
                monkeypatch.setattr(module, "_WORTH_COMPILING", least)
                found = GradientSum(source, objective, clip)
                assert np.allclose(found(W), expected, rtol=1e-12, atol=1e-12)
                assert np.array_equal(found(W), found(W))  # kept factors are the same


@by_loss
def test_null_records_contribute_exactly_nothing(loss):
    objective = make_problem(loss=loss)
    X, y = make_data(loss)
    W = weights(objective)
    present = np.random.default_rng(3).random(len(y)) < 0.6
    masked = GradientSum(MemorySource(X, y, present), objective)(W)
    expected = plain_sum(objective, X[present], y[present], W)
    assert np.allclose(masked, expected, rtol=1e-12, atol=1e-12)
    # A row of zeros is another thing: its intercept column still speaks.
    zeroed = np.where(present[:, None], X, 0.0)
    assert not np.allclose(GradientSum(MemorySource(zeroed, y), objective)(W), masked)


@pytest.mark.parametrize(
    ("layout", "least"),
    [
        (np.ascontiguousarray, 0),  # compiled
        (np.ascontiguousarray, 10**9),
        (np.asfortranarray, 10**9),
        (csr_array, 10**9),
    ],
)
def test_a_huge_record_changes_no_other_records_rounding(layout, least, monkeypatch):
    """Found in review: a copy in another memory order moved all other products."""
    monkeypatch.setattr(module, "_WORTH_COMPILING", least)
    loss, n, d = LogisticLoss(), 3000, 40
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, d)), np.zeros(n)
    objective = make_problem(loss=loss, n_samples=n, n_features=d, fit_intercept=False)
    W = 1e10 * rng.normal(size=(d, 1))
    present = np.ones(n, dtype=bool)
    present[7] = False  # what is left are the others
    sums = []
    for value in (0.1, 1e150):
        X[7] = value
        source = MemorySource(layout(X), y, present)
        with np.errstate(all="ignore"):
            sums.append(GradientSum(source, objective)(W))
    assert np.array_equal(sums[0], sums[1])
    if layout is np.ascontiguousarray:  # and it is in the sum itself
        with np.errstate(all="ignore"):
            whole = GradientSum(MemorySource(layout(X), y), objective)(W)
        assert 0 < np.linalg.norm(whole - sums[0]) <= 1 + 1e-9


def test_loops_are_compiled_where_nothing_can_be_kept():
    """A locked-down machine; the import would fail after the commit."""
    namespace = {}
    exec("def double(x): return 2 * x", namespace)  # no file, so no place for a cache
    assert compiled(namespace["double"])(3.0) == 6.0


@pytest.mark.parametrize("stored", [np.asarray, csr_array])
def test_sums_over_chosen_rows_are_sums_of_these_rows(stored):
    objective = make_problem(data_norm=0.8)
    X, y = make_data(objective.loss)
    present = np.ones(len(y), dtype=bool)
    present[[5, 77]] = False
    source = MemorySource(stored(X), y, present)
    source.facts = replace(source.facts, largest_block=64)
    found, W = GradientSum(source, objective, 0.3), weights(objective)
    kept = np.array([0, 63, 64, 299])
    expected = plain_sum(objective, X[kept], y[kept], W, 0.3)
    rows = np.array([0, 5, 63, 64, 77, 299])
    assert np.allclose(found(W, rows), expected, rtol=1e-12, atol=1e-12)
    assert not found(W, np.empty(0, dtype=np.int64)).any()
