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


@pytest.mark.usefixtures("compiled")
def test_it_is_for_dense_rows_and_one_output_only():
    X, y, _ = data()
    assert make(X, y, LogisticLoss())._is_compiled
    assert not make(np.asfortranarray(X), y, LogisticLoss())._is_compiled
    assert not make(csr_array(X), y, LogisticLoss())._is_compiled
    assert not make(X, y, SoftmaxLoss(3))._is_compiled
