"""Bands of boosting: what is seen against what is told, with the same trees."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import boosting_bands
from skdp import DPGradientBoostingClassifier
from skdp.columns import Range


def test_noise_as_it_is_told_has_ratio_one():
    rng = np.random.default_rng(0)
    noise = rng.uniform(0.5, 2.0, size=300)
    fits = [np.array([noise * rng.normal(size=300), noise]) for _ in range(200)]
    ratios, (one, two) = boosting_bands.compared(fits)
    assert np.median(ratios) == pytest.approx(1, abs=0.03)
    assert one == pytest.approx(0.683, abs=0.01)
    assert two == pytest.approx(0.954, abs=0.01)


def test_half_of_the_noise_is_told_apart():
    # The twin of the test above.
    rng = np.random.default_rng(0)
    fits = [np.array([2 * rng.normal(size=300), np.ones(300)]) for _ in range(200)]
    ratios, (_, two) = boosting_bands.compared(fits)
    assert np.median(ratios) > 1.9
    assert two < 0.75


def test_entries_without_noise_are_left_out():
    fits = [np.array([[0.0, k], [0.0, 1.0]]) for k in range(4)]
    ratios, within = boosting_bands.compared(fits)
    assert (ratios.shape, within) == ((1,), [0.5, 1.0])


def _trees(max_interaction, seed):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(400, 3))
    model = DPGradientBoostingClassifier(
        4.0,
        columns=Range(0, 1),
        classes=[0, 1],
        n_estimators=5,
        max_interaction=max_interaction,
        random_state=seed,
    )
    return model.fit(X, (X[:, 0] > 0.5).astype(int))


def test_trees_are_the_same_and_noise_is_not():
    with boosting_bands.same_trees():
        first, second = (_trees(2, seed)._model.boosted for seed in (0, 1))
    assert first.trees is second.trees
    assert not np.array_equal(first.curves.tables[0], second.curves.tables[0])
    # The twin: without, trees are of the seed.
    assert _trees(2, 1)._model.boosted.trees is not first.trees


def test_curves_and_tables_are_apart():
    found = boosting_bands.entries(_trees(2, 0).shape_functions_)
    assert found["curves"].shape == (2, 3 * 32)
    assert found["tables"].shape[1] % 32**2 == 0
    assert set(boosting_bands.entries(_trees(1, 0).shape_functions_)) == {"curves"}


def test_each_kind_has_a_line(monkeypatch, capsys):
    monkeypatch.setattr(boosting_bands, "_TABLE", "digits_odd")
    asked = ["--fits", "2", "--n-train", "300", "--max-interaction", "1"]
    boosting_bands.main([*asked, "--epsilon", "4", "--epsilon", "8"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[:2] for line in lines[2:]] == [
        ["| 4", "curves"],
        ["| 8", "curves"],
    ]
    assert {line.count("|") for line in lines} == {15}
