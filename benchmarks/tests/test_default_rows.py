"""What the benchmarks of the default measure: rows, gates, and tables left out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.sparse import csr_array

from benchmarks.default_gates import _marked, known_within, ratios
from benchmarks.default_left_out import CONSTANTS, moves, settled
from benchmarks.default_rows import Rows, fitted
from benchmarks.default_solver import NAMES
from benchmarks.hostile import Cell


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_a_fit_is_compared_with_the_constant(kind):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (4000, 3)) / math.sqrt(3)
    rows = Rows(kind(X), (X[:, 0] > 0).astype(int))
    found = fitted(rows, 3000, 4.0, "zero_out", 0)
    assert found.loss < 0.5 < found.constant < 0.7
    assert found.seconds > 0
    # With labels in random order there is nothing to learn.
    found = fitted(rows, 3000, 4.0, "zero_out", 0, is_permuted=True)
    assert found.loss == pytest.approx(found.constant, abs=0.01)


def test_rare_labels_are_known_less_well():
    frequent, rare = Cell(5000, 20, 1.0), Cell(5000, 20, 1.0, base=0.02)
    assert known_within(rare) == pytest.approx(25 * known_within(frequent))
    assert known_within(Cell(5000, 20, 1.0, "zero_out")) < known_within(frequent)


def test_mean_predictions_are_near_the_base_rate():
    assert all(0.8 < found < 1.25 for found in ratios(Cell(5000, 5, 3.0), None, 2))


def test_shipped_values_are_among_those_that_are_tried():
    for name, (module, values) in CONSTANTS.items():
        assert values[1] == getattr(module, name)


def test_a_table_does_not_choose_its_constants():
    losses = {(name, move): 0.5 for name in NAMES for move in ((), *moves())}
    better = next(moves())
    losses[NAMES[0], better] = 0.1
    assert settled(losses, NAMES[0]) == ()
    assert settled(losses, NAMES[1]) == better


def test_an_excess_beyond_two_errors_is_marked():
    noise = np.resize([-1.0, 1.0], 20)
    assert "MISSED" not in _marked(0.004 + 0.001 * noise)
    assert "MISSED" in _marked(0.006 + 0.001 * noise)
    assert "MISSED" not in _marked(0.006 + 0.1 * noise)
