"""`benchmarks.default_rows` and `benchmarks.default_gates`: what they measure."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.sparse import csr_array

from benchmarks.default_gates import known_within, ratios
from benchmarks.default_rows import Rows, fitted
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
