"""online: disjoint buckets, one reading, one release's cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skdp.papers._output_perturbation import OnlineGD
from skdp.solvers._steps import restarted
from skdp.sums._exact import on_grid
from skdp.tables._memory import MemorySource
from skdp.tables._views import buckets
from tests import door
from tests.gradients import exact_sum
from tests.papers.problem import BUDGET, PURE, objective_of, source
from tests.spies import NoNoise

OBJECTIVE = objective_of(100, 5)


def resolved(objective=OBJECTIVE, budget=BUDGET, **params):
    return door.planned(OnlineGD, objective, budget, **params)


@pytest.mark.parametrize("size", [1, 7, 33, 1000])
@pytest.mark.parametrize("largest_block", [1, 8, 100])
def test_buckets_are_a_partition_by_position(size, largest_block):
    places = np.arange(100.0)
    whole = MemorySource(places[:, None], places)
    whole.facts = replace(whole.facts, largest_block=largest_block)
    found = [
        np.concatenate([piece.y for piece in bucket.blocks()]).tolist()
        for bucket in buckets(whole, size)
    ]
    wanted = [list(range(i, min(i + size, 100))) for i in range(0, 100, size)]
    assert found == wanted


def test_the_divisor_is_the_same_for_a_short_bucket():
    objective = objective_of(25, 5, alpha=0.3)
    params = {"bucket_size": 10, "step_size": 0.4, "momentum": 0.5, "tail": 1.0}
    found = door.run(
        resolved(objective, **params), source(25, 5), objective, 1.0, NoNoise()
    )
    total = exact_sum(source(25, 5), objective)
    weights, velocity, path = np.zeros((6, 1)), np.zeros((6, 1)), []
    for rows in (np.arange(10), np.arange(10, 20), np.arange(20, 25)):
        mean = total(on_grid(weights), rows) / 10 + 0.3 * weights
        velocity = 0.5 * restarted(velocity, mean) - 0.4 * mean
        weights = weights + velocity
        path.append(weights)
    assert np.allclose(found.weights, np.mean(path, axis=0), rtol=1e-12)


def test_smoothing_is_heavy_ball():
    """v = (1 - b) v + b g, W = W - a v: momentum 1 - b with steps of a b."""
    a, b = 0.7, 0.1
    objective = replace(OBJECTIVE, fit_intercept=False)
    solver = resolved(objective, step_size=a * b, momentum=1 - b, tail=1e-9)
    start = np.zeros(objective.shape)
    ball = solver.steps(replace(objective, n_samples=30 * solver.bucket_size), start)
    smooth, weights = np.zeros((5, 1)), np.zeros((5, 1))
    for released in np.random.default_rng(0).normal(size=(30, 5, 1)):
        ball.step(released)
        smooth = (1 - b) * smooth + b * released
        weights = weights - a * smooth
    assert np.allclose(ball.average(), weights, rtol=1e-12)


def test_defaults_follow_from_public_facts_only():
    many, few = objective_of(10**6, 5), objective_of(20, 5)
    assert 1 < resolved(many).n_buckets(many) <= 300
    # So much noise that one step is best.
    assert resolved(few, replace(BUDGET, epsilon=0.01)).n_buckets(few) == 1
    assert "Use law=None" in door.refusal(OnlineGD, OBJECTIVE, PURE, law="gaussian")


def test_noise_too_large_to_be_drawn_is_refused():
    wide = replace(OBJECTIVE, n_features=10**8)
    with pytest.raises(ValueError, match="larger epsilon"):
        door.planned(OnlineGD, wide, replace(PURE, epsilon=1e-6))
