"""Ratios of noise to signal: epsilon gives them, and the table has a line for each."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import boosting_noise
from benchmarks._declared import load
from benchmarks._declared_tables import declared

_INITS = ("linear", "constant")


@pytest.mark.parametrize("ratio", [0.1, 1.0])
def test_epsilon_gives_the_ratio(ratio):
    known = declared("digits_odd")
    epsilon = boosting_noise.epsilon_of(known, 3000, ratio)
    model = boosting_noise.default(known, epsilon)
    told = model.forecast(3000).noise_to_signal
    assert told == pytest.approx(ratio, rel=0.02)
    more = boosting_noise.default(known, 2 * epsilon)
    assert more.forecast(3000).noise_to_signal < 0.9 * ratio  # the twin


class _Same:
    """Tells everybody the same."""

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)


def test_a_constant_is_seen(monkeypatch):
    known, parts = declared("digits_odd"), load("digits_odd", 0, n_train=300)
    auc, _, _, is_constant = boosting_noise.scores(known, parts, 8.0, 0)
    assert (auc > 0.6, is_constant) == (True, 0.0)
    monkeypatch.setattr(boosting_noise, "default", lambda *given: _Same())
    auc, loss, mean, is_constant = boosting_noise.scores(known, parts, 8.0, 0)
    assert (auc, loss) == (0.5, pytest.approx(np.log(2)))
    assert (mean, is_constant) == (0.5, 1.0)


def test_the_start_is_as_it_is_asked_for():
    known = declared("digits_odd")
    starts = [boosting_noise.default(known, 1.0, 0, init).init for init in _INITS]
    assert starts == list(_INITS)


def test_each_ratio_has_a_line(monkeypatch, capsys):
    monkeypatch.setattr(boosting_noise, "_TABLE", "digits_odd")
    asked = ["--fits", "2", "--records", "300", "--ratio", "0.3", "--ratio", "3"]
    boosting_noise.main(asked)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[:2] for line in lines[2:]] == [
        ["| 300", "0.3"],
        ["| 300", "3"],
    ]
    assert {line.count("|") for line in lines} == {8}
