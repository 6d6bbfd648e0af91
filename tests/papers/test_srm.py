"""srm: the recursion, what a record adds to it, and bounds that are too small."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

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
from skdp.losses._objective import LinearObjective
from skdp.papers._momentum import SRM, ClippedChange
from skdp.privacy import Budget
from skdp.privacy.release._plan import Layout, Line, Poisson
from skdp.solvers._descent import NoisySGD
from skdp.sums._exact import on_grid
from skdp.tables._memory import MemorySource
from tests import door
from tests.solvers.neighbours import random_targets
from tests.spies import NoNoise, SpyNoise

BUDGET = Budget(1.0, 1e-6)
OBJECTIVE = LinearObjective(
    loss=LogisticLoss(),
    n_samples=60,
    n_features=3,
    data_norm=1.0,
    adjacency="zero_out",
)
LOSSES = [
    LogisticLoss(),
    SoftmaxLoss(3),
    SquaredLoss(2.0, 1.0),
    HuberHingeLoss(),
    SigmoidLoss(),
    CauchyLoss(n_outputs=3),
]
by_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
by_adjacency = pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])


def planned(objective=OBJECTIVE, budget=BUDGET, **params):
    return door.planned(SRM, objective, budget, **params)


def table(objective, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(objective.n_samples, objective.n_features))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    return X, random_targets(objective.loss, rng, objective.n_samples)


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
    X, y = table(objective)
    query = sums.since(before, weights)
    source = MemorySource(X, y)
    found = query.total(query.open(source), None)
    wanted = sum(
        part_of_record(sums, query.weights, query.before, *record)
        for record in zip(X, y, strict=True)
    )
    # Rows are on a grid of 2^-22, residuals on one of 2^-18.
    assert np.abs(found - wanted).max() < 60 * 2 * sums.largest_residual * 2.0**-17
    some = np.array([1, 5, 40])
    part = query.total(query.open(source), some)
    chosen = sum(
        part_of_record(sums, query.weights, query.before, X[i], y[i]) for i in some
    )
    assert np.abs(part - chosen).max() < 3 * 2 * sums.largest_residual * 2.0**-17


def test_null_records_add_nothing():
    X, y = table(OBJECTIVE)
    there = np.arange(60) > 10
    sums = changed(OBJECTIVE, 0.5, 0.1, 0.3)
    rng = np.random.default_rng(1)
    query = sums.since(*rng.normal(size=(2, *OBJECTIVE.shape))[::-1])
    other = X.copy()
    other[:11] = 1e300
    totals = [
        query.total(query.open(MemorySource(rows, y, there)), None)
        for rows in (X, other)
    ]
    assert np.array_equal(*totals)


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


def search(sums, adjacency, seed=0, count=3000):
    """Largest change found over the stated bound, at random and at worst weights."""
    rng, objective = np.random.default_rng(seed), sums.objective
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
    found = search(sums, adjacency, count=400)
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


@by_adjacency
def test_short_steps_need_little_noise(adjacency):
    """As in the theory: the change is bounded by the way, without a clip."""
    objective = replace(OBJECTIVE, adjacency=adjacency)
    sums = changed(objective, math.inf, math.inf, 0.01)
    weights = np.full(objective.shape, 0.3)
    far, near = (
        sums.since(weights - way, weights).bound().under(adjacency)
        for way in (1.0, 1e-3)
    )
    assert near < 0.05 * far
    layout = Layout(60)
    assert 0 < sums.since(weights, weights).slack(layout) < 1e-6


def test_without_noise_and_clips_the_momentum_is_the_gradient():
    """It telescopes: full samples, any refresh, the path of plain descent."""
    X, y = table(OBJECTIVE)
    paths = [
        door.run(
            planned(
                n_steps=30,
                batch_size=60,
                step_size=0.5,
                residual_clip=math.inf,
                change_clip=math.inf,
                refresh=refresh,
                tail=1e-9,
            ),
            MemorySource(X, y),
            OBJECTIVE,
            1.0,
            NoNoise(),
        ).weights
        for refresh in (0.05, 0.5, 1.0)
    ]
    for path in paths[:2]:
        assert np.abs(path - paths[2]).max() < 1e-4


def test_a_walk_is_the_recursion_of_its_page():
    """Of released sums, by the formulas, to the last bits."""
    X, y = table(OBJECTIVE)
    params = {
        "n_steps": 6,
        "batch_size": 20,
        "step_size": 0.7,
        "longest_step": 0.4,
        "penalty": 0.05,
        "refresh": 0.25,
        "tail": 0.5,
    }
    objective = replace(OBJECTIVE, alpha=0.01)
    noise = SpyNoise(seed=3)
    solver = planned(objective, **params)
    found = door.run(solver, MemorySource(X, y), objective, 1.0, noise).weights
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


def test_defaults_are_those_of_noisy_sgd_without_momentum():
    objective = replace(OBJECTIVE, n_samples=30_000)
    solver = planned(objective)
    like = door.planned(NoisySGD, objective, BUDGET, momentum=0.0, intercept_weight=1.0)
    for name in ("n_steps", "batch_size", "step_size", "tail"):
        assert getattr(solver, name) == getattr(like, name)
    assert solver.change_clip == pytest.approx(0.3)
    rate = like.batch_size / 30_000
    assert solver.plan(objective).lines == (Line(like.n_steps, sample=Poisson(rate)),)
    everyone = planned(replace(OBJECTIVE, n_samples=300))
    assert everyone.plan(replace(OBJECTIVE, n_samples=300)).lines == (
        Line(everyone.n_steps),
    )


@by_adjacency
def test_the_record_states_the_largest_sensitivity(adjacency):
    objective = replace(OBJECTIVE, adjacency=adjacency)
    X, y = table(objective)
    for batch_size in (20, 60):
        noise = SpyNoise(seed=0)
        solver = planned(objective, n_steps=5, batch_size=batch_size, step_size=5.0)
        door.run(solver, MemorySource(X, y), objective, 2.0, noise)
        largest = max(draw.sigma for draw in noise.draws) / 2.0
        assert largest <= solver.sensitivity(objective) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"refresh": 0.0}, "refresh"),
        ({"refresh": 1.5}, "refresh"),
        ({"longest_step": 0.0}, "longest_step"),
        ({"change_clip": 0.0}, "change_clip"),
        ({"momentum": 0.5}, r"momentum.*cannot be set"),
    ],
)
def test_bad_parameters_are_named(params, message):
    with pytest.raises((TypeError, ValueError), match=message):
        partial(planned, n_steps=3)(**params)
