"""The measuring scripts run, refuse with a reason, and report what they measured."""

from __future__ import annotations

import math
import tomllib

import pytest
from sklearn.linear_model import LogisticRegression

from benchmarks import _accuracy
from benchmarks.__main__ import main
from benchmarks._data import load, split

CONFIG = """
title = "small"
solver = "auto"
seeds = 2
[[tables]]
dataset = "breast_cancer"
adjacency = ["zero_out"]
epsilon = [1.0]
[[tables]]
dataset = "adult"
adjacency = ["zero_out"]
epsilon = [1.0]
"""


def test_a_table_is_printed_and_missing_data_are_refused(tmp_path, monkeypatch, capsys):
    (tmp_path / "small.toml").write_text(CONFIG)
    monkeypatch.setattr(_accuracy, "CONFIGS", tmp_path)
    monkeypatch.setenv("SKDP_DATA_HOME", str(tmp_path))
    assert main(["small"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("breast_cancer | zero_out | 1.0" in line for line in lines)
    assert any("adult | refused" in line and "data.md" in line for line in lines)


def test_unknown_names_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["nothing"])
    assert "noisy_gd" in capsys.readouterr().err


def test_every_configuration_has_a_command(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out.split()
    own = [path.stem for path in _accuracy.CONFIGS.glob("*.toml")]
    published = [path.stem for path in (_accuracy.CONFIGS / "published").glob("*")]
    assert {*own, *published} < set(shown)


def test_rows_have_norm_one_and_splits_are_disjoint():
    X, y = load("breast_cancer")
    assert (X**2).sum(axis=1) == pytest.approx(1.0)
    X_train, y_train, X_test, y_test = split(X, y, 3)
    assert len(X_train) + len(X_test) == len(X)
    assert len(y_test) == len(y) // 5
    accuracy, loss, seconds = _accuracy.scores(
        LogisticRegression(), (X_train, y_train, X_test, y_test)
    )
    assert 0.8 < accuracy <= 1
    assert loss > 0
    assert seconds > 0


def test_mean_and_error():
    assert _accuracy.mean_and_error([1.0, 3.0]) == (2.0, 1.0)
    assert math.isnan(_accuracy.mean_and_error([1.0])[1])


def test_published_configurations_parse():
    for path in _accuracy.CONFIGS.glob("*.toml"):
        config = tomllib.loads(path.read_text())
        assert config["seeds"] >= 10
