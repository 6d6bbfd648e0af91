"""Rates by simulation: one problem for all methods, and settings of other runs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks import tree_momentum_rates as rates
from benchmarks._line import FIRST_TUNING_RUN
from skdp.privacy import GaussianEvent, epsilon_of


@pytest.fixture
def small():
    return rates.problem(512, 4)


def test_every_method_descends_on_the_problem_that_it_is_measured_by(
    small, monkeypatch
):
    """With next to no noise all of them end where its gradient is small."""
    monkeypatch.setattr(rates, "EPSILON", 1e6)
    settings = [
        {"n_steps": 300, "step_size": 30.0, "momentum": 0.0, "tail": 1e-9},
        {"n_steps": 300, "step_size": 30.0},
        {"n_leaves": 4, "n_epochs": 200, "way": 0.1},
        {"n_leaves": 4, "n_epochs": 200, "way": 0.1, "by_differences": True},
    ]
    start = rates.steepness(small, np.zeros(4))
    for method, chosen in zip(rates.METHODS, settings, strict=True):
        (found,) = method.found(small, chosen, range(1))
        assert found < start / 30, method.name


def test_settings_are_chosen_on_runs_that_are_not_reported(small, monkeypatch):
    monkeypatch.setattr(rates, "steepness", lambda task, weights: weights.sum())
    seen = []

    def fit(task, settings, run):
        seen.append(run)
        return np.full(4, settings["off"])

    method = rates.Method("two", fit, ({"off": 9.0}, {"off": 0.1}, {"off": 8.0}))
    assert method.best(small) == {"off": 0.1}
    assert min(seen) == FIRST_TUNING_RUN


def test_trees_cost_what_is_claimed(small):
    for method in rates.METHODS[2:]:
        for settings in method.grid:
            facts = dict(settings)
            facts["step_length"] = facts.pop("way") / facts["n_leaves"]
            model = rates.model_of("tree_momentum", small, facts, None)
            # All nodes together are one Gaussian answer.
            once = GaussianEvent(model.forecast(len(small.y), 4).noise_multiplier)
            assert epsilon_of(once, rates.DELTA) <= rates.EPSILON


def test_slopes_are_those_of_the_logarithms():
    n = np.array([100, 1000, 5000])
    table = pd.concat(
        pd.DataFrame({"method": name, "n": n, "mean": 7.0 * n**power})
        for name, power in (("one", -0.5), ("two", -2 / 3))
    )
    assert rates.slopes(table) == pytest.approx({"one": -0.5, "two": -2 / 3})


def test_its_table_has_a_row_for_each_method(monkeypatch, capsys):
    grid = ({"n_steps": 2, "step_size": 1.0},)
    monkeypatch.setattr(
        rates, "METHODS", (rates.Method("one", rates.METHODS[1].fit, grid),)
    )
    table = rates.rows(2, (64, 128))
    assert table["n"].tolist() == [64, 128]
    assert (table["standard error"] > 0).all()
    assert "n_steps=2" in capsys.readouterr().out
