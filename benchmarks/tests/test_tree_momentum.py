"""The table of momentum from trees, and STORM beside it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import tree_momentum as command
from benchmarks._papers._storm import Storm, gradient
from benchmarks.nonconvex import Table


def rows(n=24):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, (X[:, 0] > 0).astype(float)


def test_storm_of_all_records_is_descent_and_of_batches_is_recursive():
    X, y = rows()
    rng, whole = np.random.default_rng(0), np.hstack([X, np.ones((len(X), 1))])
    found = Storm(n_steps=2, batch_size=10**6, step_size=1.0, refresh=0.2)
    weights = np.zeros(3)
    for _ in range(2):
        weights = weights - gradient(whole, y, weights)
    # Changes telescope where every step has all records.
    assert found.run(X, y, 0) == pytest.approx(weights, abs=1e-14)
    batches = replace(found, batch_size=4)
    assert np.abs(batches.run(X, y, 0) - weights).max() > 1e-3
    one, two = (rng.choice(len(y), 4, replace=False) for _ in range(2))
    first = gradient(whole[one], y[one], np.zeros(3))
    second = gradient(whole[two], y[two], -first)
    moved = second - gradient(whole[two], y[two], np.zeros(3))
    wanted = -first - (0.8 * (first + moved) + 0.2 * second)
    assert batches.run(X, y, 0) == pytest.approx(wanted, abs=1e-14)


@pytest.mark.parametrize("method", command.METHODS, ids=lambda method: method.name)
def test_its_table_is_of_settings_chosen_without_the_test_part(method):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = (X[:, 0] > 0).astype(int)
    table = Table(X[:240], y[:240], X[240:], y[240:])
    blind = replace(table, X_test=table.X_test * math.nan)
    shared = {**method.grid[0], "n_leaves": 4, "n_epochs": 6}
    grid = tuple({**shared, "step_length": length} for length in (1e-9, 0.3))
    few, facts = replace(method, grid=grid), ("zero_out", 50.0)
    assert few.best(blind, adjacency=facts[0], epsilon=facts[1]) == grid[1]
    shown = command.from_trees(few, table, *facts, 2)
    assert shown.startswith(f"| zero_out | {method.name} | 50.0 | 50.0")
    assert shown.endswith("| n_leaves=4, n_epochs=6, step_length=0.3 |")
