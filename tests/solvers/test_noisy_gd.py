"""noisy_gd: its rules, its utility statement, and what it must not depend on."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from skdp.exceptions import SourceError
from skdp.losses import HuberHingeLoss, LogisticLoss, SoftmaxLoss, SquaredLoss
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


def test_several_outputs_are_clipped_and_one_is_not():
    assert resolved().residual_clip == math.inf
    # A clip would cut residuals of rare labels only.
    assert resolved(OBJECTIVE.with_loss(SoftmaxLoss(4))).residual_clip == math.inf
    assert resolved(OBJECTIVE.with_loss(HuberHingeLoss())).residual_clip == math.inf
    rest = resolved(OBJECTIVE.with_loss(HuberHingeLoss(n_outputs=4)))
    assert rest.residual_clip == 0.5
    # With little noise the optimum matters more: nothing is clipped.
    assert resolved(
        OBJECTIVE.with_loss(SoftmaxLoss(4)), budget=Budget(1e6, 1e-6)
    ).residual_clip == (math.inf)


def test_squared_residuals_are_clipped_less_the_less_noise_there_is():
    loss = SquaredLoss(2.0, target_bound=1.0)
    clips = [
        resolved(replace(OBJECTIVE, loss=loss, n_samples=n)).residual_clip
        for n in (200, 2000, 20_000, 30_000, 10**6)
    ]
    assert clips[0] == clips[1] == 0.25
    assert 0.25 < clips[2] < clips[3] < 2.0
    assert clips[4] == math.inf
    # In units of the target: half the target, half the clip and half the noise.
    half = resolved(OBJECTIVE.with_loss(SquaredLoss(1.0, target_bound=0.5)))
    assert half.residual_clip == 0.125
    assert half.n_steps == resolved(OBJECTIVE.with_loss(loss)).n_steps


def test_a_smaller_intercept_weight_moves_noise_to_the_intercept():
    """The weighted intercept's noise is 1 / weight times that of the others."""
    source = MemorySource(np.zeros((10, 3000)), np.zeros(10))
    objective = replace(OBJECTIVE, loss=Flat(), n_features=3000, n_samples=10)
    intercepts, others = [], []
    for seed in range(200):
        solver = resolved(objective, n_steps=1, step_size=1.0, intercept_weight=0.25)
        run = door.run(solver, source, objective, 1.0, NoiseSource(seed))
        intercepts.append(run.weights[-1, 0])
        others.append(run.weights[0, 0])
    ratio = np.std(intercepts) / np.std(others)
    assert ratio == pytest.approx(4.0, rel=0.3)


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


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble])
def test_numpy_scalars_become_plain_numbers(kind):
    """Found in review: half precision overflowed and the noise was gone."""
    solver = NoisyGD(
        n_steps=np.int8(3),
        step_size=kind(0.5),
        momentum=kind(0.5),
        residual_clip=kind(0.4),
        intercept_weight=kind(0.3),
        tail=kind(0.5),
    )
    others = ("keeps_path", "release", "user_clip")
    numbers = [value for name, value in vars(solver).items() if name not in others]
    assert all(type(value) in (int, float) for value in numbers)
    assert type(replace(solver, user_clip=kind(0.5)).user_clip) is float
    objective = LinearObjective(
        loss=LOSS,
        n_samples=np.int16(200),
        n_features=np.int8(1),
        data_norm=kind(2e4),
        adjacency="replace_one",
        alpha=kind(0.1),
        feature_bound=kind(2e4),
        n_nonzero=np.int8(1),
    )
    facts = [
        value
        for name, value in vars(objective).items()
        if name not in ("loss", "expected", "product_norm", "offset")
    ]
    assert all(type(value) in (int, float, str, bool) for value in facts)
    noise = SpyNoise(seed=0)
    source = MemorySource(np.full((200, 1), 2e4), np.zeros(200))
    door.run(solver, source, objective, 5.0, noise)
    for draw in noise.draws:
        assert math.isfinite(draw.sigma)
        assert draw.sigma >= 5.0 * draw.sensitivity
        assert draw.released[0, 0] != draw.query[0, 0]


@pytest.mark.parametrize("loss", [LOSS, SoftmaxLoss(3)], ids=repr)
@pytest.mark.parametrize("params", [{"step_size": 1e214}, {"intercept_weight": 1e-6}])
@pytest.mark.parametrize("entry", [0.3, 3e99, 1e308])
def test_a_diverging_run_ends_like_any_other(loss, params, entry):
    """Found in review: overflow turned one record into NaN, or into an exception."""
    X = np.full((60, 8), 0.3)
    X[0] = entry
    objective = replace(OBJECTIVE, loss=loss, n_samples=60, n_features=8, alpha=50.0)
    solver = resolved(objective, n_steps=6, residual_clip=math.inf, **params)
    source = MemorySource(X, np.arange(60.0) % max(2, loss.n_outputs))
    with np.errstate(all="ignore"):
        run = door.run(solver, source, objective, 5.0, NoiseSource(0))
    assert np.isfinite(run.weights).all()
    assert np.abs(run.weights).max() <= 1e50


def test_broken_twin_without_the_box_is_found_out(monkeypatch):
    monkeypatch.setattr(
        "skdp.solvers._steps.projected_onto_box", lambda values, limit: values
    )
    objective = replace(OBJECTIVE, n_samples=60, n_features=8, alpha=50.0)
    solver = resolved(objective, n_steps=6, step_size=1e214)
    source = MemorySource(np.full((60, 8), 3e99), np.arange(60.0) % 2)
    with np.errstate(all="ignore"):
        try:
            run = door.run(solver, source, objective, 5.0, NoiseSource(0))
            assert not np.abs(run.weights).max() <= 1e50
        except (np.linalg.LinAlgError, ValueError, SourceError):
            pass  # the other ways in which the twin fails
