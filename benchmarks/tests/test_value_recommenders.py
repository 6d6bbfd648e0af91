"""The table of recommenders that protect values: its baselines, and that it runs."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import numpy as np
import pytest

from benchmarks._value_recommenders import CONFIG, Coded, run
from benchmarks.tests.test_user_recommenders import films
from tests.spies import Transcript

CONFIGURED = tomllib.loads(CONFIG.read_text())


def test_all_rows_of_the_table_run(monkeypatch, capsys):
    monkeypatch.setattr(
        "benchmarks._value_recommenders.load_movielens", lambda size: films()
    )
    config = CONFIGURED | {"epsilon": [1.0], "sizes": ["100k"]}
    monkeypatch.setattr(tomllib, "loads", lambda text: config)
    run(runs=1, on_validation=True)
    printed = capsys.readouterr().out
    names = [*config["methods"], *config["gradients"]]
    for name in ["noisy means", *names, "not private: biases"]:
        assert name in printed
    assert "validation part" in printed


@pytest.mark.parametrize("changed", [0, 57, 399])
def test_sums_of_noisy_means_change_by_at_most_the_width(changed):
    """With the same releases, one value going from one bound to the other."""
    data = Coded.of(films(), CONFIGURED)
    first = Transcript(0)
    second = Transcript(0, heard=first)
    for value, noise in zip(CONFIGURED["bounds"], (first, second), strict=True):
        values = data.values.copy()
        values[changed] = value
        replace(data, values=values).means(1.0, 0, noise)
    for a, b, (_, facts) in zip(
        first.queries, second.queries, first.facts, strict=True
    ):
        change = np.linalg.norm(a - b) / facts["sensitivity"]
        assert change == pytest.approx(1)


def test_noisy_means_come_near_biases_with_little_noise():
    rng = np.random.default_rng(0)
    tiny = films()
    items = rng.normal(size=100)
    whole = [np.clip(3 + items[X[:, 1]], 1, 5) for X in (tiny.X_train, tiny.X_test)]
    data = Coded.of(replace(tiny, y_train=whole[0], y_test=whole[1]), CONFIGURED)
    assert data.means(1e5, 0) < 0.35
    assert data.biases() < 0.35
    assert data.means(0.01, 0) > 0.6
