"""multistage: its stages, their momentum, and the restart between them."""

from __future__ import annotations

import numpy as np

from skdp.papers._accelerated import Multistage
from skdp.solvers import _accelerated as module
from skdp.solvers._accelerated import Nesterov
from tests import door
from tests.papers.problem import BUDGET, objective_of, source
from tests.solvers.test_nesterov import reference
from tests.spies import NoNoise

OBJECTIVE = objective_of(alpha=0.01, adjacency="replace_one")


def weights_of(solver):
    return door.run(solver, source(), OBJECTIVE, 1.0, NoNoise()).weights


def test_momentum_follows_the_step_size_of_the_stage():
    """The thesis keeps the first stage's momentum with far smaller steps."""
    params = {"n_steps": 60, "first_stage": 10}
    solver = door.planned(Multistage, OBJECTIVE, BUDGET, **params)
    schedule = solver.schedule(OBJECTIVE)
    assert np.sum(schedule.stages == 1) == 10
    root = np.sqrt(schedule.step_sizes * solver.strong_convexity)
    assert np.allclose(schedule.momenta, (1 - root) / (1 + root))
    assert schedule.momenta[-1] > schedule.momenta[0]


def test_a_single_stage_is_nesterovs_method():
    params = {"n_steps": 30, "first_stage": 30}
    stages = door.planned(Multistage, OBJECTIVE, BUDGET, **params)
    plain = door.planned(Nesterov, OBJECTIVE, BUDGET, n_steps=30)
    assert door.event_of(stages, 3.0, OBJECTIVE) == door.event_of(plain, 3.0, OBJECTIVE)
    assert np.array_equal(weights_of(stages), weights_of(plain))


class Carried(Multistage):
    """A twin that carries velocity over: another method, whose bound has no proof."""

    def schedule(self, objective):
        own = super().schedule(objective)
        stages = np.ones_like(own.stages)
        return module.Schedule(own.step_sizes, own.momenta, stages)


def test_a_stage_starts_without_velocity():
    params = {"n_steps": 24, "first_stage": 12}
    solver = door.planned(Multistage, OBJECTIVE, BUDGET, **params)
    expected = reference(solver, source(), OBJECTIVE)
    assert np.allclose(weights_of(solver), expected)
    assert not np.allclose(weights_of(Carried(**vars(solver))), expected, rtol=1e-3)
