"""Full-batch descent of networks: rules, cost, steps."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from skdp._configured import given_params
from skdp.exceptions import Refused
from skdp.losses import LogisticLoss
from skdp.losses._objective import NetworkObjective
from skdp.neural_network import NETWORK_SOLVERS
from skdp.neural_network._solvers import NetworkGD
from skdp.privacy import Budget, GaussianEvent
from skdp.tables._memory import MemorySource
from tests import door
from tests.spies import SpyNoise

BUDGET = Budget(1.0, 1e-6)
by_key = pytest.mark.parametrize("key", NETWORK_SOLVERS)
PARAMS = {"n_steps": 6, "gradient_clip": 0.5, "step_size": 0.3, "momentum": 0.4}


def objective_of(**changes):
    facts = {"n_samples": 50, "n_features": 3, "hidden": (4,), "activation": "tanh"}
    facts |= {
        "data_norm": 1.0,
        "input_factor": 6.0,
        "input_norm": 6.0,
        "adjacency": "zero_out",
    }
    facts |= {"loss": LogisticLoss(), "alpha": 0.01}
    return NetworkObjective(**(facts | changes))


def source_of(objective, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(objective.n_samples, objective.n_features))
    return MemorySource(X, (X[:, 0] * X[:, 1] > 0).astype(float))


def run(solver, objective, noise, multiplier=1e-9, source=None):
    plan = solver.plan(objective)
    source = source or source_of(objective)
    answers = door.answers_for(plan, source, multiplier, objective.adjacency, noise)
    return solver.run(answers, replace(objective, seed=3), door.Progress())


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_its_event_is_that_of_gaussian_answers(adjacency):
    objective = objective_of(adjacency=adjacency)
    solver = door.planned(NetworkGD, objective, BUDGET, **PARAMS)
    assert door.event_of(solver, 2.0, objective) == GaussianEvent(2.0, count=6)
    records = 2 if adjacency == "replace_one" else 1
    assert solver.sensitivity(objective) == pytest.approx(0.5 * records, rel=1e-9)
    assert NetworkGD.adds_in_squares({})


def test_steps_are_those_of_its_docstring():
    objective = objective_of()
    solver = door.planned(NetworkGD, objective, BUDGET, **PARAMS, tail=0.5)
    noise = SpyNoise(seed=0)
    found = run(solver, objective, noise, 1.0).weights
    w, v, path = objective.start(3), 0.0, []
    sizes = np.linspace(0.3, 0.03, 6)
    for size, draw in zip(sizes, noise.draws, strict=True):
        v = 0.4 * v - size * (draw.released / 50 + 0.01 * w)
        w = w + v
        path.append(w)
    assert np.allclose(found, np.mean(path[3:], axis=0), rtol=1e-12)


def test_far_weights_are_kept_in_a_box():
    objective = objective_of(alpha=1e3)  # the regulariser alone expands a step
    solver = door.planned(NetworkGD, objective, BUDGET, **(PARAMS | {"n_steps": 60}))
    found = run(solver, objective, SpyNoise(seed=0)).weights
    assert np.abs(found).max() <= 1e6
    assert np.isfinite(found).all()


@by_key
def test_defaults_follow_from_public_facts_only(key):
    kind, objective = NETWORK_SOLVERS[key], objective_of()
    solver = door.planned(kind, objective, BUDGET)
    assert solver == door.planned(kind, objective, BUDGET)
    assert door.planned(kind, objective, BUDGET, **solver.params) == solver
    assert solver.n_steps == 30
    many = door.planned(kind, objective_of(n_samples=10**6), BUDGET)
    # With momentum 0.9 by rule.
    assert many.n_steps == 760
    assert many.gradient_clip == 4.0
    free = door.planned(kind, objective, Budget(math.inf, 0.0))
    assert math.isinf(free.gradient_clip)
    assert free.sample_size(objective) == 50


@by_key
def test_what_cannot_be_done_is_refused(key):
    kind, objective = NETWORK_SOLVERS[key], objective_of()
    with pytest.raises(Refused, match="cannot do delta=0"):
        door.planned(kind, objective, Budget(1.0, 0.0))
    with pytest.raises(Refused, match="needs a gradient_clip of at most 1e6"):
        door.planned(kind, objective, BUDGET, gradient_clip=math.inf)
    for name, value in (("n_steps", 0), ("step_size", -1.0), ("gradient_clip", 0.0)):
        with pytest.raises(ValueError, match=f"The '{name}' parameter"):
            given_params(kind, key, {name: value})
    with pytest.raises(ValueError, match="must be among"):
        given_params(kind, key, {"noise_multiplier": 1.0})


@by_key
def test_all_declared_answers_are_asked_and_no_more(key):
    objective = objective_of()
    solver = door.planned(NETWORK_SOLVERS[key], objective, BUDGET, n_steps=5)
    noise = SpyNoise(seed=0)
    run(solver, objective, noise)
    assert len(noise.draws) == 5
    assert {draw.sensitivity for draw in noise.draws} == {noise.draws[0].sensitivity}
    assert all(len(draw.query) == objective.n_weights for draw in noise.draws)
