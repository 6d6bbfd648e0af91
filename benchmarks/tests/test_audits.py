"""The benchmark of audits: its tables, with few audits."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest

from benchmarks import audits


def rows_of(text):
    return [line for line in text.splitlines() if line.startswith("| ")][1:]


def test_what_recommended_solvers_attain(capsys):
    audits.transcripts()
    rows = [row.split(" | ") for row in rows_of(capsys.readouterr().out)]
    assert len(rows) == 14
    for name, adjacency, found, *_ in rows:
        least = 0.5 if "graduated_gd" in name else 0.9
        assert least < float(found) <= 1 + 1e-6, (name, adjacency)


def test_planted_bugs_and_peers(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["audits", "planted", "--times", "1"])
    audits.main()
    rows = rows_of(capsys.readouterr().out)
    assert len(rows) == 8
    sound = [row for row in rows if "Noisy" in row]
    assert all("| 1 of 1 |" in row for row in sound)
    if importlib.util.find_spec("diffprivlib") is None:
        audits.peers(1)
        assert "not installed" in capsys.readouterr().out


def test_planted_bugs_of_users(capsys):
    audits.bugs_of_users(1)
    rows = rows_of(capsys.readouterr().out)
    assert len(rows) == 12
    sound = [row for row in rows if "Noisy" in row]
    assert all("| 1 of 1 |" in row for row in sound)


def test_only_weights_are_looked_at():
    model = audits.classifier(audits.DPLinearSVC, "output_perturbation")
    X, y = audits.table(50, 4)
    fitted = audits.WeightsOf(model, random_state=1).fit(X, y)
    again = audits.WeightsOf(model, random_state=1).fit(X, y)
    assert np.array_equal(fitted.coef_, again.coef_)
    assert not hasattr(model, "coef_")


@pytest.mark.bench
def test_models(capsys):
    audits.models(1)
    assert len(rows_of(capsys.readouterr().out)) == 4
