"""`benchmarks.forecast_score`: what it measures."""

from __future__ import annotations

import math

import pytest

from benchmarks import forecast_score
from benchmarks.default_solver import Cell
from benchmarks.forecast_score import Score, factor, score_of, summary
from skdp import forecast

EPSILONS = (0.1, 0.3, 1.0, 4.0)


def scores(measured, n=5000, gain=0.5):
    return [
        Score(Cell("digits", n, epsilon, "zero_out"), share, told(epsilon, n), gain)
        for epsilon, share in zip(EPSILONS, measured, strict=True)
    ]


def told(epsilon, n):
    return forecast(n, 1, epsilon, adjacency="zero_out")


def test_a_table_that_goes_by_the_formula_has_factors_near_1():
    exact = scores([Score(*each).expected for each in _empty()])
    assert factor(exact, 0.75) == pytest.approx(1, rel=0.1)  # of the interpolation
    lines = summary(exact, 0.1)
    assert "4 cells; mean error of a score 0.000" in lines[0]
    assert "100% within 2" in lines[-1]


def _empty():
    return [(Cell("", 5000, e, "zero_out"), 0.0, told(e, 5000), 0.5) for e in EPSILONS]


def test_a_score_that_is_not_reached_between_epsilons_has_no_factor():
    assert factor(scores([0.8, 0.9, 0.95, 0.99]), 0.75) is None
    assert factor(scores([0.0, 0.1, 0.2, 0.3]), 0.75) is None
    late = factor(scores([0.0, 0.0, 0.1, 0.9]), 0.75)
    assert late < factor(scores([0.0, 0.0, 0.8, 0.9]), 0.75)


def test_where_there_is_nothing_to_gain_nothing_is_summed_up():
    assert summary(scores([0.1, 0.2, 0.3, 0.4], gain=-0.1), 0.0) == []


def test_a_score_is_of_what_a_model_without_privacy_gains(monkeypatch):
    losses = {math.inf: 0.2, 1.0: 0.4}
    monkeypatch.setattr(
        forecast_score, "_means", lambda cell, *_: (losses[cell.epsilon], 1.0, 1000)
    )
    found = score_of(Cell("adult", 1000, 1.0, "zero_out"), 1)
    assert (found.measured, found.gain) == pytest.approx((0.75, 0.8))
    assert found.told.epsilon == 1.0
