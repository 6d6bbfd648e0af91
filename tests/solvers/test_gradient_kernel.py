"""The compiled gradient pass is the same query as the one in NumPy, for every row."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from skdp.losses import HuberHingeLoss, LogisticLoss, SoftmaxLoss, SquaredLoss
from skdp.losses._classification import WeightedLoss
from skdp.losses._objective import LinearObjective
from skdp.sums import _floating as gradient_module
from skdp.sums._floating import GradientSum
from skdp.tables._memory import MemorySource

LOSSES = [LogisticLoss(), SquaredLoss(2.0, 1.0), HuberHingeLoss()]
LOSSES += [WeightedLoss(LogisticLoss(), (1.0, 0.3))]
by_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


@pytest.fixture
def compiled(monkeypatch):
    monkeypatch.setattr(gradient_module, "_WORTH_COMPILING", 0)


def make(X, y, loss, clip=math.inf, present=None, block=64, fit_intercept=True):
    objective = LinearObjective(
        loss=loss,
        n_samples=len(y),
        n_features=X.shape[1],
        data_norm=0.8,
        adjacency="replace_one",
        fit_intercept=fit_intercept,
    )
    source = MemorySource(X, y, present)
    source.facts = replace(source.facts, largest_block=block)
    return GradientSum(source, objective, clip)


def data(dtype=np.float64, n=200, d=5):
    rng = np.random.default_rng(3)
    X = (rng.normal(size=(n, d)) * 10 ** rng.uniform(-2, 1, (n, 1))).astype(dtype)
    return X, rng.integers(0, 2, n).astype(float), rng.normal(size=(d + 1, 1))


@by_loss
@pytest.mark.parametrize("clip", [math.inf, 0.3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_it_agrees_with_numpy(loss, clip, dtype, fit_intercept, monkeypatch):
    X, y, W = data(dtype)
    W = W if fit_intercept else W[:-1]
    present = np.arange(len(y)) % 7 > 0
    expected = make(X, y, loss, clip, present, fit_intercept=fit_intercept)(W)
    monkeypatch.setattr(gradient_module, "_WORTH_COMPILING", 0)
    found = make(X, y, loss, clip, present, fit_intercept=fit_intercept)
    assert found._is_compiled
    assert np.allclose(found(W), expected, rtol=1e-12, atol=1e-12)
    assert np.array_equal(found(W), found(W))


@by_loss
@pytest.mark.usefixtures("compiled")
def test_a_huge_or_absent_record_changes_no_other_records_rounding(loss):
    X, y, W = data()
    present = np.ones(len(y), dtype=bool)
    present[70] = False
    without = make(X, y, loss, present=present)(W)
    wild = X.copy()
    wild[70] = [1e300, -1e300, 1e300, 0, 1e300]
    with np.errstate(all="ignore"):  # as `solve` does
        assert np.array_equal(make(wild, y, loss, present=present)(W), without)
        with_huge = make(wild, y, loss)(W)
        assert np.isfinite(with_huge).all()
        alone = make(wild[70:71], y[70:71], loss)(W)
    assert np.allclose(with_huge - without, alone, rtol=0, atol=1e-12)


@pytest.mark.usefixtures("compiled")
def test_extreme_predictions_stay_finite_and_bounded():
    X, y, W = data()
    for loss in LOSSES:
        for size in (1e-300, 1e10, 1e50):
            total = make(X, y, loss)(size * W)
            worst = len(y) * loss.zero_out_bound(math.inf) * 0.8 * math.sqrt(2)
            assert np.linalg.norm(total) <= worst * (1 + 1e-12)


@pytest.mark.usefixtures("compiled")
def test_it_is_for_dense_rows_and_one_output_only():
    X, y, _ = data()
    assert make(X, y, LogisticLoss())._is_compiled
    assert not make(np.asfortranarray(X), y, LogisticLoss())._is_compiled
    assert not make(csr_array(X), y, LogisticLoss())._is_compiled
    assert not make(X, y, SoftmaxLoss(3))._is_compiled


def test_small_tables_do_not_load_it():
    X, y, _ = data()
    assert not make(X, y, LogisticLoss())._is_compiled


def test_loops_are_compiled_where_nothing_can_be_kept():
    """A locked-down machine; the import would fail after the commit."""
    from numba import njit

    from skdp._compiled import compiled

    namespace = {}
    exec("def double(x): return 2 * x", namespace)  # no file, so no place for a cache
    with pytest.raises(RuntimeError, match="cannot cache"):
        njit(namespace["double"], cache=True)
    assert compiled(namespace["double"])(3.0) == 6.0
