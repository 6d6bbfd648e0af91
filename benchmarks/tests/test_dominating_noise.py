"""Designs of `benchmarks.dominating_noise`: what they measure, and that they do."""

from __future__ import annotations

import pytest

from benchmarks.dominating_noise import designs, rating_design, table_design
from skdp import DPLinearRegression, DPLogisticRegression


@pytest.mark.parametrize("kind", [DPLogisticRegression, DPLinearRegression])
def test_skill_is_one_at_best_and_about_none_under_noise(kind):
    design = table_design(kind, 2000, 3, 3)
    assert 0.7 < design.skill(100.0, 0) <= 1
    assert design.skill(1e-5, 0) < 0.4
    assert design.ratio(1e-5) > 100 * design.ratio(1.0)


@pytest.mark.parametrize("unit", ["rating_value", "user"])
def test_ratings_are_explained_at_a_large_epsilon_only(unit):
    design = rating_design(unit, 150, 20, 10)
    assert design.skill(1000.0, 0) > 0.3 > design.skill(1e-4, 0)
    assert design.ratio(1e-4) > 100 * design.ratio(1.0)


def test_every_design_has_a_ratio_and_a_name_of_its_own():
    every = list(designs())
    assert len({design.name for design in every}) == len(every)
    assert all(design.ratio(1.0) > 0 for design in every)
