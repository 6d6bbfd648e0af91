"""Adam of networks: what is asked is what noisy_sgd asks; steps are Adam's."""

from __future__ import annotations

import numpy as np
import pytest

from skdp.neural_network._solvers import NetworkAdam, NetworkSGD
from tests import door
from tests.neural_network.test_noisy_gd import BUDGET, objective_of, run
from tests.spies import SpyNoise


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("batch_size", [7, 50])
def test_it_costs_what_noisy_sgd_costs(adjacency, batch_size):
    objective = objective_of(adjacency=adjacency)
    params = {"n_steps": 4, "batch_size": batch_size, "gradient_clip": 0.5}
    adam, plain = (
        door.planned(kind, objective, BUDGET, **params)
        for kind in (NetworkAdam, NetworkSGD)
    )
    assert adam.plan(objective) == plain.plan(objective)
    assert adam.sensitivity(objective) == plain.sensitivity(objective)


def test_steps_are_those_of_its_docstring():
    objective = objective_of()
    params = {"n_steps": 6, "beta_1": 0.8, "beta_2": 0.95, "step_size": 0.02}
    solver = door.planned(
        NetworkAdam, objective, BUDGET, last_step=0.5, tail=0.5, **params
    )
    noise = SpyNoise(seed=0)
    found = run(solver, objective, noise, 1.0).weights
    w, mean, square, path = objective.start(3), 0.0, 0.0, []
    sizes = np.linspace(0.02, 0.01, 6)
    for t, (size, draw) in enumerate(zip(sizes, noise.draws, strict=True), start=1):
        gradient = draw.released / 50 + 0.01 * w
        mean = 0.8 * mean + 0.2 * gradient
        square = 0.95 * square + 0.05 * gradient**2
        root = np.sqrt(square / (1 - 0.95**t)) + 1e-8
        w = w - size * mean / (1 - 0.8**t) / root
        path.append(w)
    assert np.allclose(found, np.mean(path[3:], axis=0), rtol=1e-9, atol=1e-12)
