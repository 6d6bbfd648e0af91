"""The regression table runs and refuses missing data with a reason."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import _regression
from benchmarks.__main__ import main

CONFIG = """
title = "small"
solver = "auto"
seeds = 2
epsilon = [1.0]
adjacency = ["zero_out"]
pure = true
datasets = ["diabetes", "ccpp"]
"""


def test_a_table_is_printed_and_missing_data_are_refused(tmp_path, monkeypatch, capsys):
    (tmp_path / "regression.toml").write_text(CONFIG)
    monkeypatch.setattr(_regression, "CONFIGS", tmp_path)
    monkeypatch.setenv("SKDP_DATA_HOME", str(tmp_path))
    assert main(["regression"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("diabetes | zero_out | 1.0" in line for line in lines) == 2
    assert any("diabetes | not private | inf" in line for line in lines)
    assert any("ccpp | refused" in line and "data.md" in line for line in lines)


@pytest.mark.parametrize("name", ["diabetes", "synthetic"])
def test_rows_and_targets_are_within_their_bounds(name):
    X, y = _regression.load(name)
    assert np.linalg.norm(X, axis=1).max() <= 1 + 1e-12
    assert (y.min(), y.max()) == (-1.0, 1.0)
