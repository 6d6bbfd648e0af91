"""diff_gd: differences with little noise, and the average that they are mixed in by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skdp._fit import Progress
from skdp.exceptions import Refused
from skdp.losses import LogisticLoss, SigmoidLoss
from skdp.losses._objective import LinearObjective
from skdp.papers._momentum import DiffGD
from skdp.privacy import Budget, GaussianEvent, epsilon_of
from skdp.privacy.release._answers import Released
from skdp.tables._memory import MemorySource
from tests import door
from tests.spies import NoNoise, SpyNoise

BUDGET = Budget(1.0, 1e-6)
OBJECTIVE = LinearObjective(
    loss=LogisticLoss(),
    n_samples=200,
    n_features=3,
    data_norm=1.0,
    adjacency="zero_out",
)
by_adjacency = pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])


def planned(objective=OBJECTIVE, **params):
    return door.planned(DiffGD, objective, BUDGET, **params)


def source(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X /= np.linalg.norm(X, axis=1)[:, None]
    return MemorySource(X, (X[:, 0] > 0).astype(float))


class Heard:
    """Answers that are told beforehand, with the deviations of honest ones."""

    noise_scale = 1.0

    def __init__(self, values, deviations):
        self.values, self.deviations, self.asked = values, deviations, []

    def ask(self, query, line=0):
        self.asked.append((line, query))
        t = len(self.asked) - 1
        return Released(self.values[t], 1.0, self.deviations[t])


def test_the_gain_is_that_of_the_least_variance():
    """Estimates are the mean of all releases of one number, weighted by precision.

    With zero differences without noise every release is of the same gradient.
    """
    solver = planned(n_steps=4, step_size=1.0, tail=1e-9)
    rng, shape = np.random.default_rng(0), OBJECTIVE.shape
    fresh = rng.normal(size=(4, *shape))
    zero, deviations = np.zeros(shape), [3.0, 2.0, 1.0, 0.5]
    values, told = [fresh[0]], [deviations[0]]
    for t in (1, 2, 3):
        values += [zero, fresh[t]]
        told += [0.0, deviations[t]]
    heard = Heard(values, told)
    found = solver.run(heard, OBJECTIVE, Progress()).weights
    assert [line for line, _ in heard.asked] == [0, 2, 1, 2, 1, 2, 1]
    weights, n = np.zeros(shape), OBJECTIVE.n_samples
    precision = 1 / np.square(deviations)
    for t in range(4):
        own = precision[: t + 1, None, None]
        estimate = np.sum(own * fresh[: t + 1], axis=0) / own.sum()
        weights = weights - estimate / n
    assert found == pytest.approx(weights, abs=1e-12)


def test_noisy_differences_are_trusted_less():
    """Broken twin of a filter that adds up differences and forgets their noise."""
    solver = planned(n_steps=2, step_size=1.0, tail=1e-9)
    shape, one = OBJECTIVE.shape, np.ones(OBJECTIVE.shape)
    ends = []
    for deviation in (0.0, 2.0):
        heard = Heard([one, one, 0 * one], [1.0, deviation, 1.0])
        ends.append(solver.run(heard, OBJECTIVE, Progress()).weights)
    # E_0 = 1; E' = 2; the fresh answer is 0: gains 1/2, and 5/6.
    for end, gain in zip(ends, (1 / 2, 5 / 6), strict=True):
        assert end == pytest.approx(-(1 + (1 - gain) * 2) / 200 * np.ones(shape))


def test_without_noise_it_is_gradient_descent():
    solver = planned(n_steps=25, step_size=0.8, tail=1e-9)
    found = door.run(solver, source(), OBJECTIVE, 1.0, NoNoise()).weights
    (block,) = source().blocks()
    rows = np.hstack([block.X, np.ones((200, 1))])
    weights = np.zeros((4, 1))
    for _ in range(25):
        p = 1 / (1 + np.exp(-rows @ weights))
        weights = weights - 0.8 * rows.T @ (p - block.y[:, None]) / 200
    assert np.abs(found - weights).max() < 1e-4


@by_adjacency
@pytest.mark.parametrize("n_steps", [2, 7])
def test_shares_add_up_to_one_gaussian(adjacency, n_steps):
    """However mu squared is shared out, the whole is one Gaussian answer's cost."""
    objective = replace(OBJECTIVE, adjacency=adjacency)
    for params in ({}, {"first_share": 0.5, "change_share": 0.3}):
        solver = planned(objective, n_steps=n_steps, **params)
        event = door.event_of(solver, 3.0, objective)
        whole = epsilon_of(GaussianEvent(3.0), 1e-6)
        assert epsilon_of(event, 1e-6) == pytest.approx(whole, rel=1e-6)
        times = [line.times for line in solver.plan(objective).lines]
        assert times == [1, n_steps - 1, n_steps - 1]


@pytest.mark.parametrize("loss", [LogisticLoss(), SigmoidLoss()], ids=repr)
@by_adjacency
def test_differences_need_little_noise_on_short_steps(loss, adjacency):
    """Their noise over a gradient's falls with the step, for equal shares of mu."""
    objective = replace(OBJECTIVE, adjacency=adjacency, loss=loss)
    ratios = []
    for step_size in (1.0, 0.01):
        noise = SpyNoise(seed=0)
        solver = planned(objective, n_steps=3, step_size=step_size)
        door.run(solver, source(), objective, 0.05, noise)
        change, fresh = noise.draws[1], noise.draws[2]
        ratios.append(change.sensitivity / fresh.sensitivity)
    assert ratios[1] < 0.02 * ratios[0]


def test_defaults_follow_from_public_facts():
    solver = planned()
    assert solver == planned()
    assert 2 <= solver.n_steps <= 300
    assert solver.step_size <= 1 / OBJECTIVE.smoothness
    assert planned(replace(OBJECTIVE, n_samples=10**6)).n_steps == 300


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"n_steps": 1}, ValueError, "n_steps"),
        ({"first_share": 0.0}, ValueError, "first_share"),
        ({"change_share": 1.0}, ValueError, "change_share"),
        ({"first_share": 0.5, "change_share": 0.5}, Refused, "sum is below 1"),
        ({"residual_clip": 0.5}, (TypeError, ValueError), "cannot be set"),
    ],
)
def test_bad_parameters_are_named(params, error, message):
    with pytest.raises(error, match=message):
        planned(**params)
