"""`benchmarks.hard_edges`: a constant model is one, and weights are asked for."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks._possible import fewest_records, least_chance, misses, simple_shares
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


def test_of_one_record_a_random_answer_attains_the_least_chance():
    # The true label with probability e/(1 + e), for epsilon = 1.
    assert least_chance(1, 1.0, 0.0) == pytest.approx(1 - np.e / (1 + np.e))
    assert least_chance(1, 1e-9, 0.0) == pytest.approx(0.5)
    assert least_chance(1, 1e-9, 0.1) == pytest.approx(0.45)
    assert least_chance(3000, 1.0, 1e-6) == 0.0


@pytest.mark.parametrize(
    ("n", "of_labels", "of_numbers"), [(1, 1, 1), (5, 2, 2), (20, 6, 5)]
)
def test_records_that_tell_two_tables_apart(n, of_labels, of_numbers):
    assert fewest_records("labels", n) == of_labels
    assert fewest_records("numbers", n) == of_numbers


@pytest.mark.parametrize("n", [1, 5, 20])
@pytest.mark.parametrize("kind", ["labels", "numbers"])
@pytest.mark.parametrize("epsilon", [0.01, 1.0])
def test_no_simple_constant_misses_less_than_it_must(n, kind, epsilon):
    share = np.arange(n // 2 + 1)[:, None] / n
    share = share[np.unique(np.linspace(0, n // 2, 11).astype(int))]
    least = least_chance(fewest_records(kind, n), epsilon, 1e-6)
    for told in simple_shares(n, (epsilon, 1e-6), 100).values():
        assert misses(kind, share, told).mean(axis=1).max() >= least
