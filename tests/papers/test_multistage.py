"""multistage: its stages, their momentum, and the restart between them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.papers._accelerated import Multistage
from skdp.privacy import Budget
from skdp.solvers import _accelerated as module
from skdp.solvers._accelerated import Nesterov, multistage_steps
from skdp.solvers._registry import named_solver
from skdp.tables._memory import MemorySource
from tests import door
from tests.solvers.test_nesterov import reference
from tests.spies import NoNoise

LOSS = LogisticLoss()
OBJECTIVE = LinearObjective(
    loss=LOSS,
    n_samples=200,
    n_features=5,
    data_norm=1.0,
    adjacency="replace_one",
    alpha=0.01,
)
BUDGET = Budget(1.0, 1e-6)


def resolved(**params):
    return door.planned(Multistage, OBJECTIVE, BUDGET, **params)


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    return MemorySource(X, (X[:, 0] > 0).astype(float))


def test_bad_first_stage_is_named():
    with pytest.raises(ValueError, match="first_stage"):
        named_solver("multistage", {"first_stage": 0})
    assert type(resolved(first_stage=np.int16(5)).first_stage) is int


def test_defaults_are_nesterovs_with_a_last_quarter_of_small_steps():
    solver, plain = resolved(), door.planned(Nesterov, OBJECTIVE, BUDGET)
    assert solver.n_steps == plain.n_steps
    assert solver.first_stage == math.ceil(0.75 * solver.n_steps)
    schedule = solver.schedule(OBJECTIVE)
    assert set(schedule.stages) == {1, 2}
    assert np.sum(schedule.stages == 1) == solver.first_stage
    shrink = schedule.step_sizes / schedule.step_sizes[0]
    assert np.allclose(shrink, np.where(schedule.stages == 1, 1, 1 / 16))


def test_momentum_follows_the_step_size_of_the_stage():
    """The thesis keeps the first stage's momentum with far smaller steps."""
    solver = resolved(n_steps=60, first_stage=10)
    schedule = solver.schedule(OBJECTIVE)
    root = np.sqrt(schedule.step_sizes * solver.strong_convexity)
    assert np.allclose(schedule.momenta, (1 - root) / (1 + root))
    assert schedule.momenta[-1] > schedule.momenta[0]


def test_a_single_stage_is_nesterovs_method():
    stages = resolved(n_steps=30, first_stage=30)
    plain = door.planned(Nesterov, OBJECTIVE, BUDGET, n_steps=30)
    assert door.event_of(stages, 3.0, OBJECTIVE) == door.event_of(plain, 3.0, OBJECTIVE)
    first, second = (
        door.run(solver, data(), OBJECTIVE, 1.0, NoNoise()).weights
        for solver in (stages, plain)
    )
    assert np.array_equal(first, second)


def test_noise_jumps_up_where_a_stage_begins():
    """Early steps of a stage are forgotten, and its steps are small: less matters."""
    solver = resolved(n_steps=60, first_stage=20)
    noise = np.concatenate([[z] * count for z, count in solver.levels(OBJECTIVE)])
    assert noise[20] > noise[19]
    assert noise[-1] < noise[20]


def test_a_stage_starts_without_velocity():
    """A twin that carries velocity over is another method; its bound has no proof."""
    solver = resolved(n_steps=24, first_stage=12)
    found = door.run(solver, data(), OBJECTIVE, 1.0, NoNoise()).weights
    expected = reference(solver, data(), OBJECTIVE)
    assert np.allclose(found, expected)

    class Carried(Multistage):
        def schedule(self, objective):
            schedule = super().schedule(objective)
            return module.Schedule(
                schedule.step_sizes, schedule.momenta, np.ones_like(schedule.stages)
            )

    twin = Carried(**vars(solver))
    carried = door.run(twin, data(), OBJECTIVE, 1.0, NoNoise()).weights
    assert not np.allclose(carried, expected, rtol=1e-3)


@pytest.mark.parametrize("first_stage", [1, 7, 500])
def test_stages_fill_the_steps(first_stage):
    sizes, stages = multistage_steps(
        400,
        step_size=0.5,
        smoothness=1.0,
        strong_convexity=0.01,
        first_stage=first_stage,
    )
    assert len(sizes) == len(stages) == 400
    assert np.all(np.diff(stages) >= 0)
    second = np.sum(stages == 2)
    assert second == (4 * math.ceil(10 * math.log(8)) if first_stage < 500 else 0)
