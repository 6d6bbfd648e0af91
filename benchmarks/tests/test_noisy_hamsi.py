"""Noisy gradients in a quasi-Newton step: what they declare is what they release."""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
import pytest

from benchmarks import _noisy_hamsi as module
from benchmarks._noisy_hamsi import NoisyGradientHAMSI
from skdp.privacy import Budget, epsilon_of
from skdp.privacy.accounting._calibrate import calibrate
from skdp.privacy.noise._noise import NoiseSource
from tests.contract.test_factorizers import (
    answered,
    event_of,
    neighbours,
    some_ratings,
    task_of,
)
from tests.decomposition.ratings import low_rank_ratings
from tests.decomposition.small import planned
from tests.spies import SpyNoise, Transcript

UNIT = "rating_value"
variants = pytest.mark.parametrize(
    "solver",
    [
        NoisyGradientHAMSI(n_steps=6, certainty=0.0, start_share=0.5),
        NoisyGradientHAMSI(n_steps=6, n_corrections=0, start_share=0.5),
    ],
    ids=["hamsi", "gradient"],
)


def fit(solver, ratings, noise, multiplier, seed=0, **facts):
    task = task_of(UNIT, ratings, **facts)
    return answered(solver, ratings, task, multiplier, noise, seed)


def farthest(solver):
    """Largest change of a query in units of its sensitivity; all else is the same."""
    worst = {"start": 0.0, "gradients": 0.0}
    for seed in range(8):
        first = Transcript(seed)
        second = Transcript(seed, heard=first)
        pair = neighbours(UNIT, some_ratings(seed), np.random.RandomState(seed))
        multiplier = [0.05, 3.0][seed % 2]
        a, b = (
            fit(solver, ratings, noise, multiplier, seed)
            for ratings, noise in zip(pair, (first, second), strict=True)
        )
        assert first.facts == second.facts
        assert np.array_equal(a.flat, b.flat)
        assert a.mean == b.mean
        for t, (x, y, (_, facts)) in enumerate(
            zip(first.queries, second.queries, first.facts, strict=True)
        ):
            part = "start" if t < len(first.queries) - solver.n_steps else "gradients"
            change = float(np.linalg.norm(x - y)) / facts["sensitivity"]
            worst[part] = max(worst[part], change)
    return worst


@variants
def test_no_query_moves_farther_than_its_sensitivity(solver):
    worst = farthest(solver)
    assert max(worst.values()) <= 1
    # Near the bound, so that half of it is found out.
    assert worst["gradients"] > 0.6


@variants
def test_broken_twin_of_half_the_sensitivity_is_found_out(solver, monkeypatch):
    right = module.residual_sensitivity
    monkeypatch.setattr(module, "residual_sensitivity", lambda *args: right(*args) / 2)
    assert farthest(solver)["gradients"] > 1


def test_broken_twin_that_counts_rows_of_one_side_is_found_out(monkeypatch):
    """A value is in the sums of its user and in those of its item."""

    def one_side(rows, pattern):
        users = rows[: pattern.n_users]
        return float(np.linalg.norm(users, axis=1).max())

    monkeypatch.setattr(module, "longest_pair", one_side)
    assert farthest(NoisyGradientHAMSI(n_steps=6, start_share=0.5))["gradients"] > 1


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_shares_sum_to_one_and_the_budget_is_kept(epsilon):
    ratings, budget = some_ratings(), Budget(epsilon, 1e-6)
    task = task_of(UNIT, ratings)
    solver = planned(NoisyGradientHAMSI, task, budget)
    assert planned(NoisyGradientHAMSI, task, budget, **asdict(solver)) == solver
    assert sum(solver.shares) == pytest.approx(1, abs=1e-12)
    multiplier = calibrate(lambda z: event_of(solver, z, task), budget)
    event = event_of(solver, multiplier, task)
    spent = epsilon_of(event, budget.delta)
    assert 0.996 * epsilon <= spent <= epsilon
    # Exact composition of Gaussian mechanisms: that of one of the same mu.
    mu_squared = sum(part.count / part.noise_multiplier**2 for part in event.leaves)
    assert mu_squared == pytest.approx(multiplier**-2, rel=1e-12)


@variants
def test_noise_drawn_is_noise_declared(solver):
    ratings, noise = some_ratings(), SpyNoise(0)
    task = task_of(UNIT, ratings)
    fit(solver, ratings, noise, 2.0)
    declared = [
        part.noise_multiplier
        for part in event_of(solver, 2.0, task).leaves
        for _ in range(part.count)
    ]
    drawn = [draw.noise_multiplier for draw in noise.draws]
    assert drawn == pytest.approx(declared, rel=1e-12)
    largest = solver.sensitivity(task)
    assert max(draw.sensitivity for draw in noise.draws) <= largest


@variants
@pytest.mark.parametrize("multiplier", [1e-6, 1e9])
def test_factors_are_finite_whatever_the_noise(solver, multiplier):
    found = fit(solver, some_ratings(), NoiseSource(0), multiplier)
    assert np.isfinite(found.flat).all()
    assert math.isfinite(found.mean)


def test_with_little_noise_factors_explain_what_biases_do_not():
    _, values = low_rank_ratings()
    ratings = some_ratings()
    pairs = ratings.pattern.users, ratings.pattern.items
    solver = NoisyGradientHAMSI(n_steps=60, row_bound=5.0, taste=0.2, start_share=0.5)
    error = {}
    for k in (0, 2):
        found = fit(solver, ratings, NoiseSource(0), 1e-4, n_components=k)
        error[k] = np.std(found.predictions(*pairs) - values)
    assert error[2] < 0.8 * error[0]


def test_noise_alone_is_no_curvature():
    """Along noise of the gradient before a step, changes of it are positive."""
    rng = np.random.default_rng(0)
    solver, roots = NoisyGradientHAMSI(step=0.5, start_share=0.5), np.ones((5000, 1))
    before, after = rng.normal(size=(2, 5000, 2))
    moved, change = 0.5 * before, before - after
    assert np.sum(moved * change) > 0
    assert not solver._is_curvature(moved, change, (1.0, 1.0), 1.0, roots)
    assert solver._is_curvature(moved, change + moved, (1.0, 1.0), 1.0, roots)
