"""Post-processing of counts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from skdp.sums._histogram import (
    ReleasedHistogram,
    consistent,
    place_of_rank,
    total_of,
)


@pytest.mark.parametrize("seed", range(5))
def test_nearest_counts_of_the_sum(seed):
    counts = np.random.default_rng(seed).normal(5, 10, size=6)
    found = consistent(counts, 30.0)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(30)
    best = minimize(
        lambda x: np.sum((x - counts) ** 2),
        np.full(6, 5.0),
        bounds=[(0, None)] * 6,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 30},
    )
    assert found == pytest.approx(best.x, abs=1e-3)


@pytest.mark.parametrize("counts", [[-5.0, -9.0], [0.0, 0.0], [1e9, -1e9]])
def test_hostile_counts(counts):
    found = consistent(np.array(counts), 10.0)
    assert found.sum() == pytest.approx(10)
    assert consistent(np.array(counts), 0.0).sum() == pytest.approx(0, abs=1e-6)


def test_places_of_ranks():
    counts = np.array([0.0, 4.0, 0.0, 4.0, 0.0])
    ranks = [-1, 0, 1, 4, 5, 8, 99]
    found = [place_of_rank(counts, rank) for rank in ranks]
    assert found == [1.0, 1.0, 1.25, 2.0, 3.25, 4.0, 4.0]


def test_far_fewer_records_than_there_should_be_are_believed():
    rng = np.random.default_rng(0)

    def found(n):
        each = [np.full(4, n / 4) + rng.normal(0, 3, 4) for _ in range(5)]
        return total_of([ReleasedHistogram(counts, 3.0) for counts in each], 1000)

    for _ in range(100):
        assert found(1000) == (1000.0, 0.0)
        few, error = found(700)
        assert error == pytest.approx(3 * 2 / math.sqrt(5))
        assert abs(few - 700) < 8 * error
    below = ReleasedHistogram(np.array([-5.0, -9.0]), 0.1)
    assert total_of([below], 10)[0] == 0.0
    exact = ReleasedHistogram(np.array([2.0, 3.0]), 0.0)
    assert total_of([exact], 10) == (5.0, 0.0)
