"""Shares of the trees that are worth the most, and units of targets."""

from __future__ import annotations

import numpy as np
import pytest

from skdp.ensemble import _boosting as module
from skdp.ensemble._boosting import best_share
from skdp.privacy import Budget
from skdp.privacy.noise._noise import NoiseSource
from skdp.privacy.release._answers import Released
from tests.ensemble.coded import MIXED, codes_of, source_of, targets_of
from tests.ensemble.fits import BUDGET, fitted, solver_of, task_of


@pytest.mark.parametrize(
    ("gains", "share"),
    [
        ([10.0, 6.0, 3.0], 1.0),
        ([9.6, 10.0, 6.0], 1.0),
        ([9.4, 10.0, 6.0], 0.5),
        ([-5.0, 1.4, 2.0], 0.25),
        ([1.9, 0.1, 0.0], 0.0),
        ([-9.0, -4.0, 0.4], 0.0),
        ([-9.0, -4.0, -2.0], 0.0),
    ],
)
def test_the_largest_share_that_is_as_good_as_the_best(gains, share):
    assert best_share(Released(np.array(gains), 1.0, 1.0)) == share


def test_without_noise_any_gain_counts():
    assert best_share(Released(np.array([1e-9, 0.0, 0.0]), 0.0, 0.0)) == 1.0
    assert best_share(Released(np.array([0.0, 0.0, 0.0]), 0.0, 0.0)) == 0.0


def test_trees_of_noise_are_not_worth_anything():
    rng, n = np.random.default_rng(0), 3000
    codes, shares = codes_of(MIXED, n), []
    for seed in range(4):
        y = (rng.random(n) < 0.3).astype(float)
        budget = Budget(0.1, 1e-6)
        model, _ = fitted(
            task_of("logistic", n), source_of(codes, y), NoiseSource(seed), budget, seed
        )
        assert model.shrinkage is not None
        assert np.all(model.values == 0) == (model.shrinkage == 0)
        shares.append(model.shrinkage)
    assert np.mean(shares) <= 0.25


def test_noise_is_told_at_the_share_that_is_taken(monkeypatch):
    codes = codes_of(MIXED, 2000)
    y = targets_of("logistic", codes)
    task, models = task_of("logistic", len(y)), []
    for share in (1.0, 0.5):
        monkeypatch.setattr(module, "best_share", lambda gains, own=share: own)
        source, noise = source_of(codes, y), NoiseSource(1)
        models.append(fitted(task, source, noise, BUDGET, 7, n_estimators=9)[0])
    whole, half = models
    assert np.array_equal(0.5 * whole.values, half.values)
    assert np.array_equal(0.5 * whole.deviations, half.deviations)


def test_lines_are_only_what_is_asked():
    for loss, params, n_lines in [
        ("logistic", {}, 4),
        ("logistic", {"gains_share": 0.0}, 3),
        ("squared", {}, 5),
        ("squared", {"targets_share": 0.0}, 4),
    ]:
        task = task_of(loss, 1000)
        solver = solver_of(task, **params)
        *first, grown = solver.plan(task).lines
        assert len(first) + len(grown.plan.lines) == n_lines
        event = solver.plan(task).event(1.0, "zero_out")
        assert event.gdp_mu_squared == pytest.approx(1.0)


def test_without_a_share_for_gains_all_trees_are_kept_whole():
    codes = codes_of(MIXED, 200)
    y = targets_of("logistic", codes)
    task, source = task_of("logistic", 200), source_of(codes, y)
    model, _ = fitted(task, source, n_estimators=3, gains_share=0.0)
    assert model.shrinkage is None
    model, _ = fitted(task, source, n_estimators=3, gains_share=0.1)
    assert 0 <= model.shrinkage <= 1
