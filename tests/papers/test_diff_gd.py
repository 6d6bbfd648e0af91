"""diff_gd: differences with little noise, and the average that they are mixed in by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skdp._fit import Progress
from skdp.losses import LogisticLoss, SigmoidLoss
from skdp.papers._momentum import DiffGD
from skdp.privacy import GaussianEvent, epsilon_of
from tests import door
from tests.papers.problem import (
    BUDGET,
    Heard,
    by_adjacency,
    mean_gradient,
    objective_of,
    source,
    table,
)
from tests.spies import NoNoise, SpyNoise

OBJECTIVE = objective_of()


def planned(objective=OBJECTIVE, **params):
    return door.planned(DiffGD, objective, BUDGET, **params)


@pytest.mark.parametrize("of_changes", [0.0, 2.0])
def test_the_gain_is_that_of_the_least_variance(of_changes):
    """Estimates are Kalman's; a twin that forgets the noise of changes is another."""
    solver = planned(n_steps=4, step_size=1.0, tail=1e-9)
    rng, shape, n = np.random.default_rng(0), OBJECTIVE.shape, OBJECTIVE.n_samples
    fresh, moved = rng.normal(size=(2, 4, *shape))
    deviations = [3.0, 2.0, 1.0, 0.5]
    values, told = [fresh[0]], [deviations[0]]
    for t in (1, 2, 3):
        values += [moved[t], fresh[t]]
        told += [of_changes, deviations[t]]
    heard = Heard(values, told)
    found = solver.run(heard, OBJECTIVE, Progress()).weights
    assert [line for line, _ in heard.asked] == [0, 2, 1, 2, 1, 2, 1]
    estimate, variance = fresh[0], 9.0
    weights = -estimate / n
    for t in (1, 2, 3):
        variance += of_changes**2
        gain = variance / (variance + deviations[t] ** 2)
        estimate = (1 - gain) * (estimate + moved[t]) + gain * fresh[t]
        variance *= 1 - gain
        weights = weights - estimate / n
    assert found == pytest.approx(weights, abs=1e-12)


def test_without_noise_it_is_gradient_descent():
    solver = planned(n_steps=25, step_size=0.8, tail=1e-9)
    found = door.run(solver, source(), OBJECTIVE, 1.0, NoNoise()).weights
    weights = np.zeros((4, 1))
    for _ in range(25):
        weights = weights - 0.8 * mean_gradient(*table(), weights)
    assert np.abs(found - weights).max() < 1e-4


@pytest.mark.parametrize("n_steps", [2, 7])
@pytest.mark.parametrize("params", [{}, {"first_share": 0.5, "change_share": 0.3}])
def test_shares_add_up_to_one_gaussian(params, n_steps):
    """However mu squared is shared out, the whole is one Gaussian answer's cost."""
    solver = planned(n_steps=n_steps, **params)
    epsilon = epsilon_of(door.event_of(solver, 3.0, OBJECTIVE), 1e-6)
    assert epsilon == pytest.approx(epsilon_of(GaussianEvent(3.0), 1e-6), rel=1e-6)
    times = [line.times for line in solver.plan(OBJECTIVE).lines]
    assert times == [1, n_steps - 1, n_steps - 1]


@pytest.mark.parametrize("loss", [LogisticLoss(), SigmoidLoss()], ids=repr)
@by_adjacency
def test_differences_need_little_noise_on_short_steps(loss, adjacency):
    """Their noise over a gradient's falls with the step, for equal shares of mu."""
    objective, ratios = replace(OBJECTIVE, adjacency=adjacency, loss=loss), []
    for step_size in (1.0, 0.01):
        noise = SpyNoise(seed=0)
        solver = planned(objective, n_steps=3, step_size=step_size)
        door.run(solver, source(), objective, 0.05, noise)
        change, fresh = noise.draws[1], noise.draws[2]
        ratios.append(change.sensitivity / fresh.sensitivity)
    assert ratios[1] < 0.02 * ratios[0]
