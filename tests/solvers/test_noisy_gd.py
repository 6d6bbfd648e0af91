"""noisy_gd: its rules, its utility statement, and what it must not depend on."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from skdp.losses import LogisticLoss
from skdp.losses._base import LossId
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget, calibrate
from skdp.privacy.noise._noise import NoiseSource
from skdp.solvers._descent import NoisyGD
from skdp.tables._memory import MemorySource
from tests import door
from tests.spies import SpyNoise

LOSS = LogisticLoss()
OBJECTIVE = LinearObjective(
    loss=LOSS, n_samples=2000, n_features=5, data_norm=1.0, adjacency="zero_out"
)
BUDGET = Budget(1.0, 1e-6)


class Flat:
    """A loss with no curvature and no signal: what is left is the noise."""

    n_outputs = 1
    smoothness = 0.25
    prediction_unit = 1.0
    noisy_clip = math.inf
    is_convex = True
    form, form_constants = LossId.ERROR, (0.0, 0.0)  # errors clipped to nothing
    label_weights = ()

    def residual(self, y, raw):
        return np.zeros_like(raw)

    def zero_out_bound(self, radius):
        return 1.0

    def replace_one_bound(self, radius):
        return 2.0


def resolved(objective=OBJECTIVE, budget=BUDGET, **params):
    return door.planned(NoisyGD, objective, budget, **params)


def test_noise_follows_the_released_weights():
    """The first query, at W = 0, needs half the noise of the worst case."""
    rng = np.random.default_rng(0)
    source = MemorySource(rng.normal(size=(2000, 5)), np.ones(2000))
    solver = resolved(n_steps=30, step_size=4.0)
    noise = SpyNoise(seed=0)
    z = calibrate(lambda z: door.event_of(solver, z, OBJECTIVE), BUDGET)
    door.run(solver, source, OBJECTIVE, z, noise)
    sigmas = [draw.sigma for draw in noise.draws]
    worst = z * solver.sensitivity(OBJECTIVE)
    assert sigmas[0] == pytest.approx(worst / 2, rel=2e-3)
    assert max(sigmas) <= 1.002 * worst
    assert sigmas[-1] > 1.1 * sigmas[0]


def test_noise_in_a_flat_direction_matches_the_utility_statement():
    """Its deviation without momentum is flow time * S / (n mu), per weight."""
    objective = replace(OBJECTIVE, loss=Flat(), n_features=4000, fit_intercept=False)
    solver = NoisyGD(
        n_steps=25,
        step_size=2.0,
        momentum=0.0,
        tail=1e-9,
        residual_clip=math.inf,
        intercept_weight=1.0,
    )
    z = calibrate(lambda z: door.event_of(solver, z, objective), BUDGET)
    source = MemorySource(np.zeros((4, 4000)), np.zeros(4))
    run = door.run(solver, source, objective, z, NoiseSource(7))
    flow, mu = 25 * 2.0, math.sqrt(25) / z
    theory = flow * solver.sensitivity(objective) / (2000 * mu)
    assert float(np.std(run.weights)) == pytest.approx(theory, rel=0.05)
