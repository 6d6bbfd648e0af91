"""The benchmark of losses that are not convex, on a table that is made up."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks import nonconvex
from skdp.solvers import SOLVERS


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = (X[:, 0] > 0).astype(int)
    return nonconvex.Table(X[:400], y[:400], X[400:], y[400:])


def test_settings_are_chosen_without_the_test_part(table):
    part = table.validation()
    assert len(part.y) == 320
    assert len(part.y_test) == 80
    kept = {row.tobytes() for row in part.X}
    held = {row.tobytes() for row in part.X_test}
    assert not kept & held
    assert not (kept | held) & {row.tobytes() for row in table.X_test}
    method = nonconvex.Method(
        "two", "noisy_gd", tuple(nonconvex.every(n_steps=(20,), step_size=(1e-9, 1.0)))
    )
    facts = {"epsilon": 50.0, "adjacency": "zero_out"}
    # A step of nothing leaves the constant model.
    assert method.best(table, **facts) == {"n_steps": 20, "step_size": 1.0}
    broken = nonconvex.Table(table.X, table.y, table.X_test * math.nan, table.y_test)
    assert method.best(broken, **facts) == {"n_steps": 20, "step_size": 1.0}


def test_every_method_fits_and_has_a_known_solver(table):
    for method in nonconvex.METHODS:
        assert method.solver == "auto" or method.solver in SOLVERS
        few = {**method.grid[0]}
        if "n_steps" in few:
            few["n_steps"] = 3
        model = method.fitted(table, few, epsilon=5.0, random_state=0)
        loss, error = nonconvex.measured(model, table)
        assert 0 <= error <= 1
        assert math.isfinite(loss)


def test_means_have_their_errors():
    assert nonconvex.spread([1.0, 3.0]) == "2.0000 ± 1.0000"
    assert nonconvex.spread([0.5]) == "0.5000"
