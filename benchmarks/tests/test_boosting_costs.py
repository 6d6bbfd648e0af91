"""Costs of boosting's parameters: a line for each, against the first."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import boosting_costs
from benchmarks._declared import load
from skdp import DPGradientBoostingClassifier


@pytest.fixture
def small(monkeypatch):
    """Another table, of few records."""
    monkeypatch.setattr(boosting_costs, "_TABLE", "digits_odd")
    monkeypatch.setattr(
        boosting_costs, "load", lambda name, seed: load(name, seed, n_train=300)
    )


def test_every_change_asked_for_has_a_line(small, capsys):
    asked = ["--change", "default", "--change", "max_interaction=1"]
    boosting_costs.main([*asked, "--fits", "2", "--epsilon", "4"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("| default | 0.")
    assert "+0.0000 ± 0.0000 | +0.0000 ± 0.0000" in lines[2]
    assert lines[3].startswith("| max_interaction=1 | 0.")
    assert {line.count("|") for line in lines} == {7}


def test_a_fit_has_what_is_asked_and_all_else_is_default(small):
    default = boosting_costs.scores({}, 4.0, "zero_out", 0)
    assert boosting_costs.scores({}, 4.0, "zero_out", 0) == default
    few = boosting_costs.scores({"n_estimators": 3}, 4.0, "zero_out", 0)
    assert few[:2] != default[:2]


def test_differences_are_taken_fit_by_fit():
    first = np.array([[0.8, 0.4, 1.0], [0.6, 0.5, 1.0]])
    more = np.array([0.1, -0.1, 0.0])
    told = boosting_costs.row("more", first + more, first)
    assert "| +0.1000 ± 0.0000 | -0.1000 ± 0.0000 |" in told


def test_changes_are_parameters_of_the_model():
    known = DPGradientBoostingClassifier().get_params()
    assert all(set(change) <= set(known) for change in boosting_costs.CHANGES.values())
    assert not boosting_costs.CHANGES["default"]
