"""srm: the recursion, what a record adds to it, and bounds that are too small."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from skdp.losses import (
    CauchyLoss,
    HuberHingeLoss,
    LogisticLoss,
    SigmoidLoss,
    SoftmaxLoss,
    SquaredLoss,
)
from skdp.papers._momentum import SRM, ClippedChange
from skdp.sums._exact import on_grid
from skdp.tables._memory import MemorySource
from tests import door
from tests.papers.problem import BUDGET, by_adjacency, objective_of, source, table
from tests.solvers.neighbours import random_targets
from tests.spies import SpyNoise

OBJECTIVE = objective_of(60)
LOSSES = [
    LogisticLoss(),
    SoftmaxLoss(3),
    SquaredLoss(2.0, 1.0),
    HuberHingeLoss(),
    SigmoidLoss(),
    CauchyLoss(n_outputs=3),
]
by_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def planned(objective=OBJECTIVE, budget=BUDGET, **params):
    return door.planned(SRM, objective, budget, **params)


def shortened(vector, limit):
    norm = np.linalg.norm(vector)
    return vector if norm <= limit else vector * (limit / norm)


def part_of_record(sums, weights, before, row, target):
    """By the definition, record by record in floating point."""
    loss, objective = sums.objective.loss, sums.objective
    x = np.append(row, objective.intercept_value) if objective.fit_intercept else row
    y = np.array([target])
    now, earlier = (loss.residual(y, (x @ w)[None])[0] for w in (weights, before))
    change = shortened(now - earlier, sums.change_clip)
    own = shortened(now, sums.residual_clip)
    return np.outer(x, (1 - sums.refresh) * change + sums.refresh * own)


def changed(objective, residual_clip, change_clip, refresh, kind=ClippedChange):
    return kind(objective, residual_clip, change_clip=change_clip, refresh=refresh)


@by_loss
@pytest.mark.parametrize("clips", [(math.inf, math.inf), (0.3, 0.05)])
def test_the_query_is_the_sum_of_what_records_add(loss, clips):
    objective = replace(OBJECTIVE, loss=loss)
    sums = changed(objective, *clips, 0.3)
    rng = np.random.default_rng(1)
    weights, before = (on_grid(rng.normal(size=objective.shape)) for _ in range(2))
    X, y = table(60)[0], random_targets(loss, rng, 60)
    X[:2] *= 1e9  # clipped
    query = sums.since(before, weights)
    data = MemorySource(X, y)
    found = query.total(query.open(data), None)
    X[:2] /= 1e9
    wanted = sum(
        part_of_record(sums, query.weights, query.before, *record)
        for record in zip(X, y, strict=True)
    )
    # Rows are on a grid of 2^-22, residuals on one of 2^-18.
    assert np.abs(found - wanted).max() < 60 * 2 * sums.largest_residual * 2.0**-17


@by_adjacency
def test_rounded_predictions_of_far_weights_are_in_the_bound(adjacency):
    """Broken twin: a bound by the way alone, where weights are far and ways short."""
    sums = changed(OBJECTIVE, math.inf, math.inf, 0.0)
    before = on_grid(np.full(OBJECTIVE.shape, 2.0**40))
    query = sums.since(before, before)
    radius = sums.radius(float(np.linalg.norm(before)))
    still = sums.changed_bound(radius, 0.0).under(adjacency)
    added = query.bound().under(adjacency) - still
    twice = 2 if adjacency == "replace_one" else 1
    reach = OBJECTIVE.row_norm
    wanted = reach**2 * 0.25 * 2**-51 * 2 * float(np.linalg.norm(before))
    assert added == pytest.approx(twice * wanted, rel=1e-6)
    # And nothing beyond what residuals can be, however far.
    far = sums.since(before, before * 2.0**30).bound().under(adjacency)
    assert far <= sums.worst.under(adjacency)


def search(sums, adjacency, count=400):
    """Largest change found over the stated bound, at random and at worst weights."""
    rng, objective = np.random.default_rng(0), sums.objective
    worst = 0.0
    for trial in range(count):
        axis = rng.normal(size=objective.shape)
        axis /= np.linalg.norm(axis)
        size, step = 10.0 ** rng.uniform(-2, 2), 10.0 ** rng.uniform(-3, 1)
        weights = size * axis * (trial % 3 > 0)
        before = weights - step * axis
        query = sums.since(before, weights)
        row = axis[: objective.n_features].sum(axis=1) * rng.choice([-1.0, 1.0])
        row = row + rng.normal(size=len(row)) * rng.choice([0.0, 0.3])
        row /= max(np.linalg.norm(row), 1e-300)
        targets = random_targets(objective.loss, rng, 2)
        first = part_of_record(sums, query.weights, query.before, row, targets[0])
        change = first
        if adjacency == "replace_one":
            other = part_of_record(sums, query.weights, query.before, -row, targets[1])
            change = first - other
        stated = query.bound().under(adjacency)
        worst = max(worst, float(np.linalg.norm(change)) / stated)
    return worst


@by_adjacency
@by_loss
@pytest.mark.parametrize("clips", [(math.inf, math.inf), (0.3, 0.05)])
def test_no_pair_of_neighbours_exceeds_the_bound(loss, clips, adjacency):
    objective = replace(OBJECTIVE, loss=loss, adjacency=adjacency, fit_intercept=False)
    sums = changed(objective, *clips, 0.3)
    found = search(sums, adjacency)
    assert 0.3 < found <= 1 + 1e-9


class Forgetful(ClippedChange):
    """Broken twin: the change of a gradient is taken for nothing."""

    def _part(self, radius, moved):
        return super()._part(radius, 0.0)


class Swapped(ClippedChange):
    """Broken twin: the clips as the thesis prints them."""

    def _part(self, radius, moved):
        return (1 - self.refresh) * self.residual_clip + self.refresh * self.change_clip


@pytest.mark.parametrize(
    ("twin", "refresh"), [(Forgetful, 0.1), (Forgetful, 0.5), (Swapped, 0.9)]
)
def test_broken_bounds_are_exceeded(twin, refresh):
    objective = replace(OBJECTIVE, fit_intercept=False)
    clips = (1.0, 0.2) if twin is Swapped else (math.inf, math.inf)
    assert search(changed(objective, *clips, refresh, twin), "zero_out") > 1.2
    assert search(changed(objective, *clips, refresh), "zero_out") <= 1 + 1e-9


def test_a_walk_is_the_recursion_of_its_page():
    """Of released sums, by the formulas, to the last bits."""
    params = {"n_steps": 6, "batch_size": 20, "step_size": 0.7, "longest_step": 0.4}
    params |= {"penalty": 0.05, "refresh": 0.25, "tail": 0.5}
    objective = replace(OBJECTIVE, alpha=0.01)
    noise = SpyNoise(seed=3)
    solver = planned(objective, **params)
    found = door.run(solver, source(60), objective, 1.0, noise).weights
    weights, momentum, path = np.zeros(objective.shape), 0.0, []
    for t, draw in enumerate(noise.draws):
        released = np.asarray(draw.released).reshape(objective.shape) / 20
        momentum = released if t == 0 else 0.75 * momentum + released
        step = 0.7 * momentum
        step = step * min(1.0, 0.4 / np.linalg.norm(step))
        own = weights[:3]
        slope = 0.01 * weights
        slope[:3] += 0.05 * 2 * own / (1 + own**2) ** 2
        weights = weights - step - 0.7 * slope
        path.append(weights)
    assert len(path) == 6
    assert found == pytest.approx(np.mean(path[3:], axis=0), abs=1e-12)
