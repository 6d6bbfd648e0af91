"""ftrl: weights of the root, what parts cost together, what answers stand for."""

from __future__ import annotations

import gc
import math
import weakref

import numpy as np
import pytest
from scipy.linalg import toeplitz

from skdp._fit import Progress
from skdp.audit._exact import marked, replayed, verdict
from skdp.papers._streams import FTRL
from skdp.privacy.noise import _correlated
from skdp.privacy.noise._correlated import (
    SquareRoot,
    joint_norm,
    root_weights,
)
from skdp.privacy.noise._laws import Gaussian
from skdp.privacy.noise._noise import NoiseSource, gaussian_scale
from skdp.privacy.release._plan import Correlated, Line, Plan
from skdp.sums._gradient import ClippedGradient
from skdp.tables._memory import MemorySource
from skdp.tables._views import ChunkSource
from tests import door
from tests.papers.problem import objective_of, table
from tests.spies import NoNoise

SHAPES = [(1, 1, 1), (5, 3, 500), (5, 3, 4), (6, 2, 1), (20, 2, 10)]
by_shape = pytest.mark.parametrize(("n_parts", "asks", "band"), SHAPES)


OBJECTIVE = objective_of(12, 2, adjacency="replace_one")


def parts_of(size, n_parts, asks, band):
    """What answers of a line are about."""
    return Correlated(size, SquareRoot(n_parts, asks, band))


def root(times, band):
    """The matrix C."""
    first = np.zeros(times)
    weights = root_weights(times, band)
    first[: len(weights)] = weights
    return toeplitz(first, np.zeros(times))


# Weights -----------------------------------------------------------------------------


@by_shape
def test_the_joint_norm_is_the_largest_of_all_parts_and_directions(n_parts, asks, band):
    times, C = n_parts * asks, root(n_parts * asks, band)
    blocks = [C[:, p * asks : (p + 1) * asks] for p in range(n_parts)]
    alike = [np.linalg.norm(block.sum(axis=1)) for block in blocks]
    assert joint_norm(times, asks, band) == pytest.approx(max(alike), rel=1e-13)
    rng = np.random.default_rng(0)
    for block in blocks:
        for _ in range(20):
            change = rng.normal(size=(asks, 3))
            change /= np.linalg.norm(change, axis=1, keepdims=True)
            moved = np.linalg.norm(block @ change)
            assert moved <= joint_norm(times, asks, band) * (1 + 1e-12)


# What is released --------------------------------------------------------------------


def source(seed, n=12, changed=None):
    X, y = table(n, 2, seed)
    if changed is not None:
        y[changed] = 1 - y[changed]
    return MemorySource(X, y)


def asked(parts, noise, data, multiplier=1.0):
    plan = Plan((Line(parts.times, sample=parts),))
    return door.answers_for(plan, data, multiplier, "replace_one", noise)


@pytest.mark.parametrize("band", [1, 2, 500])
def test_without_noise_an_answer_is_the_sum_over_its_part(band):
    data, sums = source(0), ClippedGradient(OBJECTIVE)
    answers = asked(parts_of(4, 3, 2, band), NoNoise(), data)
    rng = np.random.default_rng(1)
    for t in range(6):
        query = sums.at(rng.normal(size=OBJECTIVE.shape))
        part = next(iter(data.blocks()))
        rows = slice(4 * (t // 2), 4 * (t // 2) + 4)
        own = MemorySource(part.X[rows], part.y[rows])
        wanted = query.total(query.open(own), None)
        np.testing.assert_allclose(answers.ask(query).value, wanted, atol=1e-9)


def audited(changed=0, shape=(4, 3, 500), seed=0):
    """What neighbours are told apart by, over what is charged."""
    params = dict(zip(("n_parts", "steps_per_part", "band"), shape, strict=True))
    params |= {"momentum": 0.5, "residual_clip": math.inf, "intercept_weight": 0.5}
    solver = FTRL(step_size=0.5, tail=0.5, **params)
    plan = solver.plan(OBJECTIVE)

    def run(data, noise):
        answers = marked(plan, data, 1.5, "replace_one", noise)
        return solver.run(answers, OBJECTIVE, Progress())

    pair = source(seed), source(seed, changed=changed)
    first, second, _ = replayed(run, pair, seed)
    return verdict(first, second, plan.event(1.5, "replace_one")).total


@pytest.mark.parametrize("changed", [0, 3, 11])
@pytest.mark.parametrize("shape", [(4, 3, 500), (4, 3, 2), (12, 1, 500)])
def test_neighbours_are_told_apart_by_no_more_than_is_charged(changed, shape):
    assert max(audited(changed=changed, shape=shape, seed=s) for s in range(5)) <= 1


@by_shape
@pytest.mark.parametrize("z", [1e9, 1.0, 1e-3])
def test_the_grid_is_charged_for_each_sum_a_record_is_in(n_parts, asks, band, z):
    parts = parts_of(100, n_parts, asks, band)
    bound = parts.on_grid(Gaussian(), z, 50)
    scale = gaussian_scale(sensitivity=bound, noise_multiplier=z, size=50)
    moved = min(parts.times, band + asks - 1)
    least = parts.joint + math.sqrt(moved * 50) * scale.grid
    assert scale.sigma / z >= least * (1 - 1e-14)


def test_records_are_forgotten_when_a_part_has_been_answered_about():
    arriving = ChunkSource(source(0, n=4), 3)
    answers = asked(parts_of(4, 3, 2, 500), NoiseSource(0), arriving)
    query = ClippedGradient(OBJECTIVE).at(np.zeros(OBJECTIVE.shape))
    arriving.give(part := source(1, n=4))
    held = weakref.ref(part)
    del part
    answers.ask(query)
    assert held() is not None
    answers.ask(query)
    gc.collect()
    assert held() is None


WRONG = {
    "one answer of a part": lambda times, asks, band: joint_norm(times, 1, band),
    "one weighted sum": lambda times, asks, band: 1.0,
    "independent noise": lambda times, asks, band: math.sqrt(asks),
}


@pytest.mark.parametrize("name", WRONG)
def test_broken_twins_of_the_joint_bound_are_caught(name, monkeypatch):
    monkeypatch.setattr(_correlated, "joint_norm", WRONG[name])
    assert max(audited(seed=s) for s in range(5)) > 1.1
