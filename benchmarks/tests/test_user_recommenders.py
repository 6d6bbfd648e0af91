"""The table of recommenders that protect users: its baseline, and that it runs."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest

from benchmarks._user_recommenders import CONFIG, Split, run, validation
from skdp.datasets import FilmRatings


def films(n_users=60, n_items=20):
    rng = np.random.default_rng(0)
    every = np.array([(u + 1, 3 * i) for u in range(n_users) for i in range(n_items)])
    X = every[rng.permutation(len(every))[:500]]
    y = rng.integers(1, 6, len(X)).astype(float)
    return FilmRatings("tiny", "", X[:400], y[:400], X[400:], y[400:], {})


def test_baseline_changes_by_at_most_2_when_a_user_is_replaced():
    """Sums and counts jointly, over random users and the worst ones."""
    rng = np.random.default_rng(1)

    def contribution(ratings):
        rated = ~np.isnan(ratings)
        weight = 1 / np.sqrt(max(rated.sum(), 1))
        return weight * np.r_[np.where(rated, ratings, 0), rated]

    people = [np.where(rng.random(8) < 0.6, rng.uniform(-1, 1, 8), np.nan)]
    people += [
        np.where(rng.random(8) < rng.random(), np.sign(rng.normal(size=8)), np.nan)
        for _ in range(60)
    ]
    people += [np.ones(8), -np.ones(8), np.full(8, np.nan)]
    given = [contribution(person) for person in people]
    largest = max(np.linalg.norm(a - b) for a in given for b in given)
    assert 2 - 1e-9 < largest <= 2 + 1e-12


def test_all_rows_of_the_table_run(monkeypatch, capsys):
    monkeypatch.setattr(
        "benchmarks._user_recommenders.load_movielens", lambda size: films()
    )
    config = tomllib.loads(CONFIG.read_text())
    config |= {"epsilon": [1.0], "sizes": ["100k"]}
    monkeypatch.setattr(tomllib, "loads", lambda text: config)
    run(runs=1, on_validation=True)
    printed = capsys.readouterr().out
    for name in ["item means", *config["models"], *config["variants"]]:
        assert f"| {name}" in printed
    assert "validation part" in printed


def test_validation_never_sees_the_test_ratings():
    whole = films()
    part = validation(whole)
    assert len(part.y_train) + len(part.y_test) == len(whole.y_train)
    both = np.vstack([part.X_train, part.X_test])
    assert {tuple(pair) for pair in both} == {tuple(pair) for pair in whole.X_train}


@pytest.mark.parametrize("epsilon", [1e5])
def test_with_little_noise_the_baseline_is_the_weighted_mean(epsilon):
    config = tomllib.loads(CONFIG.read_text())
    split = Split(films(), config)
    assert split.item_means(epsilon, 0) == pytest.approx(
        split.item_means(10 * epsilon, 1), abs=1e-3
    )
