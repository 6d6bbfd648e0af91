"""Gains by trees: what a sample alone makes of them, and the best share of trees."""

from __future__ import annotations

import numpy as np
import pytest

from skdp.ensemble import _boosting as module
from skdp.ensemble._gains import (
    SHARES,
    EffectiveParameters,
    best_share,
    helps,
    without_optimism,
)
from skdp.ensemble._losses import Scale
from skdp.ensemble._releases import LeafSteps
from skdp.losses import LogisticLoss
from skdp.privacy import Budget
from skdp.privacy.noise._noise import NoiseSource
from skdp.privacy.release._answers import Released
from skdp.sums._leaves import LeafTerms
from tests.ensemble.coded import (
    MIXED,
    codes_of,
    draw_trees,
    source_of,
    targets_of,
)
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


def test_a_trial_helps_if_noise_alone_is_unlikely_to_make_its_gain():
    assert not helps(None)
    assert helps(Released(np.array([3.1]), 1.0, 1.0))
    assert not helps(Released(np.array([2.9]), 1.0, 1.0))


EVEN = tuple(np.full(size, 1 / size) for size in MIXED.n_bins)


def parameters_of(learned, trees, n_outputs=1):
    found = EffectiveParameters(EVEN, n_outputs)
    for t, fraction in enumerate(learned):
        found.add(trees[t], np.full((trees.n_leaves, n_outputs), fraction))
    return found.number


def test_means_of_leaves_are_one_parameter_each():
    trees = draw_trees(MIXED, n_trees=30, max_depth=3, seed=0)
    # Random signs estimate the number; its deviation is the root of twice the number.
    for t in range(5):
        n_leaves = int(trees.is_reached(t).sum())
        found = EffectiveParameters(EVEN, 1)
        for _ in range(2):  # the second time there is nothing left to learn
            found.add(trees[t], np.ones((trees.n_leaves, 1)))
            assert abs(found.number - n_leaves) < 5 * np.sqrt(2 * n_leaves)
    assert parameters_of([0.0] * 30, trees) == 0.0
    small, all_means = (parameters_of([f] * 30, trees) for f in (0.01, 1.0))
    assert 0 < small < 0.02 * 30 * trees.n_leaves
    assert 2 * small < all_means < 30 * trees.n_leaves
    assert parameters_of([0.5] * 30, trees, 3) == pytest.approx(
        3 * parameters_of([0.5] * 30, trees)
    )


def test_the_gain_of_a_share_has_its_share_of_the_optimism():
    gains = Released(np.array([50.0, 40.0, 30.0]), 2.0, 1.0)
    found = without_optimism(gains, SHARES, 100.0)
    less = gains.value - found.value
    assert less[0] > 0
    assert less == pytest.approx(less[0] * np.array(SHARES))
    assert found.deviation == gains.deviation


def test_leaves_without_curvature_have_learned_nothing():
    """Noise alone may not count as parameters, though it limits the steps."""
    terms, n_leaves = LeafTerms(LogisticLoss(), 0.7, 0.8), 512
    steps = LeafSteps(terms, 0.1, Scale())
    rng = np.random.default_rng(0)
    noise, reached = 30.0, np.ones(n_leaves, dtype=bool)
    sums, curvature = rng.normal(0, noise, (2, n_leaves, 1))
    found = steps.next(Released(np.hstack([sums, curvature]), noise, noise), reached)
    assert np.abs(found.values).max() > 0
    assert found.learned.mean() < 0.002
    many = np.hstack([sums, 0.8 * 20 * noise + curvature])
    assert steps.next(Released(many, noise, noise), reached).learned.mean() > 0.02


def test_trees_that_learned_the_sample_are_dropped(monkeypatch):
    """Gains on the records of a fit are positive, whatever the labels are."""
    n = 3000
    codes, shares = codes_of(MIXED, n), {}
    task, budget = task_of("logistic", n), Budget(8.0, 1e-6)
    for part in (module.without_optimism, lambda gains, shares, number: gains):
        monkeypatch.setattr(module, "without_optimism", part)
        for seed in range(6):
            y = (np.random.default_rng(seed).random(n) < 0.5).astype(float)
            source, noise = source_of(codes, y), NoiseSource(seed)
            model, _ = fitted(task, source, noise, budget, 7, n_estimators=100)
            shares.setdefault(part, []).append(model.shrinkage)
    honest, raw = map(np.mean, shares.values())
    assert honest < raw / 2


def test_without_noise_any_gain_counts():
    assert best_share(Released(np.array([1e-9, 0.0, 0.0]), 0.0, 0.0)) == 1.0
    assert best_share(Released(np.array([0.0, 0.0, 0.0]), 0.0, 0.0)) == 0.0


@pytest.mark.long
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
