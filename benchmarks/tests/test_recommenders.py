"""The race for held-out error, on a few ratings."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from benchmarks import _recommenders
from benchmarks._recommender_peers import peer
from skdp.datasets import FilmRatings


@pytest.fixture
def films():
    rng = np.random.default_rng(0)
    places = rng.permutation(30 * 20)[:400]
    X = np.column_stack([places // 20 + 7, places % 20 + 100])
    y = np.clip(np.rint(3 + rng.normal(size=30)[places // 20]), 1, 5)
    return FilmRatings("few", "made", X[:350], y[:350], X[350:], y[350:], {})


def test_the_race_prints_one_line_for_each_solver(films, monkeypatch, capsys):
    monkeypatch.setattr(_recommenders, "load_movielens", lambda size: films)
    monkeypatch.setattr(_recommenders, "peer", lambda method, params: None)
    _recommenders.run(sizes=["100k"], solvers=["als", "vb"])
    lines = capsys.readouterr().out.splitlines()
    rows = {
        line.split("|")[1].strip(): line for line in lines if line.startswith("| `")
    }
    assert sorted(rows) == ["`als`", "`vb`"]
    errors = [float(row.split("|")[-2]) for row in rows.values()]
    # A rating is its user's: much less than the deviation of all is left.
    assert all(0 <= error < 0.5 * np.std(films.y_test) for error in errors)


def test_errors_are_those_of_clipped_predictions(films):
    parts = _recommenders._Parts.of(films, (1.0, 5.0))
    train, test = parts.errors(lambda users, items: np.full(len(users), 9.0))
    assert train == pytest.approx(np.sqrt(np.mean((5 - films.y_train) ** 2)))
    assert test == pytest.approx(np.sqrt(np.mean((5 - films.y_test) ** 2)))


def test_a_study_names_its_settings(films, monkeypatch, capsys):
    monkeypatch.setattr(_recommenders, "load_movielens", lambda size: films)
    study = {"data": [["1m", 1.0], ["100k", 0.5]], "alpha": [0.1, 0.2]}
    _recommenders._study(_recommenders.FACTORIZERS["als"], "als", study)
    rows = capsys.readouterr().out.splitlines()[3:]
    assert [row.split("|")[3].strip() for row in rows] == ["0.1", "0.2"]


def test_a_peer_that_is_not_installed_is_left_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "libmf", None)
    assert peer("libmf", {"k": 2, "penalty": 0.1, "n_passes": 1}) is None
