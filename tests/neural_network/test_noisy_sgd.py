"""Descent of networks on samples: the plan of linear models, a public divisor."""

from __future__ import annotations

import numpy as np
import pytest

from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.neural_network._solvers import NetworkSGD
from skdp.solvers._descent import NoisySGD
from tests import door
from tests.neural_network.test_noisy_gd import BUDGET, objective_of, run
from tests.spies import SpyNoise

ADJACENCIES = ("replace_one", "zero_out")


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("batch_size", [7, 50, 2**31])
def test_the_plan_is_that_of_linear_models(adjacency, batch_size):
    params = {"n_steps": 4, "batch_size": batch_size}
    objective = objective_of(adjacency=adjacency)
    linear = LinearObjective(
        loss=LogisticLoss(),
        n_samples=50,
        n_features=3,
        data_norm=1.0,
        adjacency=adjacency,
    )
    network = door.planned(NetworkSGD, objective, BUDGET, **params)
    other = door.planned(NoisySGD, linear, BUDGET, **params)
    assert network.plan(objective) == other.plan(linear)
    assert network.batch_size == min(batch_size, 50)


def test_a_sample_counts_one_record_under_both_adjacencies():
    def sensitivity(adjacency, batch_size):
        objective = objective_of(adjacency=adjacency)
        params = {"batch_size": batch_size, "gradient_clip": 0.5}
        solver = door.planned(NetworkSGD, objective, BUDGET, **params)
        return solver.sensitivity(objective)

    assert sensitivity("replace_one", 7) == sensitivity("zero_out", 7)
    assert sensitivity("replace_one", 50) == 2 * sensitivity("zero_out", 50)


def test_sums_are_divided_by_the_public_batch_size():
    objective = objective_of(alpha=0.0)
    params = {"n_steps": 1, "batch_size": 10, "step_size": 1.0, "tail": 1.0}
    solver = door.planned(NetworkSGD, objective, BUDGET, **params)
    for seed in range(5):
        noise = SpyNoise(seed=seed)
        moved = run(solver, objective, noise).weights - objective.start(3)
        assert np.allclose(-10 * moved, noise.draws[0].released, atol=1e-9)
