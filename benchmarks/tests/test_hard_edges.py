"""`benchmarks.hard_edges`: a constant model is one, and weights are asked for."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.hard_edges import TABLES, fitted, losses, table
from skdp import DPGammaRegressor, DPLogisticRegression
from skdp.columns import Range


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_its_shape_and_targets_within_bounds(name):
    X, label, number = table(name, 0)
    assert X.shape == TABLES[name]
    assert set(label) <= {0, 1}
    assert np.abs(number).max() <= 1


@pytest.mark.parametrize("epsilon", [1e-4, 10.0])
def test_the_constant_model_has_no_weights_at_any_budget(epsilon):
    X, y, _ = table("small", 0)
    model = DPLogisticRegression(
        epsilon, classes=[0, 1], columns=Range(-1.0, 1.0), random_state=0
    )
    assert not np.any(fitted(model, X, y, True).coef_)
    # At a small budget a gate may leave none either.
    assert epsilon < 1 or np.all(fitted(model, X, y, False).coef_)


def test_the_constant_model_is_near_the_best_constant_at_a_large_epsilon():
    _, constant, best = losses(DPGammaRegressor, "small", (100.0, 1e-6), 0)
    assert best <= constant < best + 0.01
