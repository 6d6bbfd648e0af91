"""The last iterate of noisy_gd alone: theory, measurement, and what breaks it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from skdp._fit import Progress
from skdp.losses import HuberHingeLoss, LogisticLoss, SoftmaxLoss, SquaredLoss
from skdp.losses._objective import LinearObjective
from skdp.papers._last_iterate import HiddenDescent
from skdp.privacy import Budget, GaussianEvent, calibrate
from skdp.privacy.noise._noise import NoiseSource, gaussian_scale
from skdp.solvers._descent import NoisyGD
from skdp.solvers._registry import choose_solver
from skdp.sums._floating import GradientSum
from skdp.tables._memory import MemorySource
from tests import door
from tests.spies import SpyNoise

BUDGET = Budget(1.0, 1e-6)
LOSS = LogisticLoss()
OBJECTIVE = LinearObjective(
    loss=LOSS,
    n_samples=200,
    n_features=3,
    data_norm=1.0,
    adjacency="replace_one",
    alpha=0.05,
)
LOSSES = [LOSS, SoftmaxLoss(3), SquaredLoss(2.0, 1.0), HuberHingeLoss()]


def hidden(n_steps=20, step_size=None, objective=OBJECTIVE):
    bend = objective.loss.smoothness * objective.row_norm**2 + objective.alpha
    step_size = step_size or 1.0 / bend
    return HiddenDescent(objective, step_size, n_steps)


# The formula ---------------------------------------------------------------------


@pytest.mark.parametrize("n_steps", [2, 5, 12])
@pytest.mark.parametrize("contraction", [0.05, 0.6, 0.97])
def test_formula_is_the_best_allocation_of_shifts(n_steps, contraction):
    """Minimise sum a_t^2 with d_{t+1} = c d_t + 1 - a_t >= 0 and d_T = 0, directly."""
    powers = contraction ** np.arange(n_steps)[::-1]

    def left(a):
        distances, d = [], 0.0
        for shift in a:
            d = contraction * d + 1 - shift
            distances.append(d)
        return np.array(distances[:-1])

    start = np.full(n_steps, 0.5)  # what is missing is made up for at the end
    start[-1] = np.sum(powers) - np.sum((powers * start)[:-1])
    best = minimize(
        lambda a: np.sum(a**2),
        start,
        jac=lambda a: 2 * a,
        constraints=[
            {"type": "eq", "fun": lambda a: np.sum(powers * (1 - a))},
            {"type": "ineq", "fun": left},
        ],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    # Rows so short that the regulariser alone bends the objective.
    objective = replace(OBJECTIVE, data_norm=1e-3, alpha=1 - contraction)
    found = hidden(n_steps, 1.0, objective=objective)
    assert found.gap == pytest.approx(1 - contraction)
    assert found.factor == pytest.approx(math.sqrt(best.fun), rel=1e-5)


def test_factor_never_exceeds_composition_and_stays_bounded():
    factors = [hidden(n).factor for n in (1, 2, 10, 100, 10**4, 10**6)]
    assert factors[0] == 1.0
    assert factors == sorted(factors)
    assert all(
        f <= math.sqrt(n)
        for f, n in zip(factors, (1, 2, 10, 100, 10**4, 10**6), strict=True)
    )
    gap = hidden().gap
    assert factors[-1] == pytest.approx(math.sqrt((2 - gap) / gap), rel=1e-8)
    tiny = hidden(100, objective=replace(OBJECTIVE, alpha=1e-9))
    assert tiny.factor == pytest.approx(10.0, rel=1e-6)


# An exact law --------------------------------------------------------------------

LINE_LOSS = SquaredLoss(residual_bound=1.05, target_bound=1.0)


def line(adjacency, n_steps, n_samples=4000, alpha=0.02, step_size=0.9):
    objective = LinearObjective(
        loss=LINE_LOSS,
        n_samples=n_samples,
        n_features=1,
        data_norm=1.0,
        adjacency=adjacency,
        alpha=alpha,
        fit_intercept=False,
    )
    return hidden(n_steps, step_size, objective)


def exact_mu(descent, z, alpha=None):
    """Of the last iterate when all records but one are null; a Gaussian law.

    That record is (1, 1), against (1, -1) or null; its residual is never clipped.
    """
    objective, step = descent.objective, descent.step_size
    alpha = objective.alpha if alpha is None else alpha
    sigma = z * descent.sensitivity
    curvature = {"replace_one": 1 / objective.n_samples, "zero_out": 0.0}
    steps = np.arange(descent.n_steps)
    c = 1 - step * (alpha + curvature[objective.adjacency])
    pull = {"replace_one": 2.0, "zero_out": 1.0}[objective.adjacency]
    moved = step * pull / objective.n_samples * np.sum(c**steps)
    return moved / (sigma * np.sqrt(np.sum(c ** (2 * steps))))


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("n_steps", [1, 7, 60, 3000])
def test_exact_law_never_exceeds_the_bound_and_comes_near(adjacency, n_steps):
    descent = line(adjacency, n_steps)
    share = exact_mu(descent, 3.0) / (descent.factor / 3.0)
    assert 0.93 < share <= 1


def law_is_exact(shrink):
    """Mean and deviation of the last iterate over 200 seeds, at six deviations.

    A chance of 1e-8 to be rejected if it is right; the seeds make it one or zero.
    """
    descent, z = line("replace_one", 30, n_samples=50), 2.0
    X, y = np.zeros((50, 1)), np.zeros(50)
    X[0], y[0] = 1.0, 1.0
    source = MemorySource(X, y, np.arange(50) == 0)

    def end(seed):
        noise = SpyNoise(seed, shrink)
        answers = door.answers_for(descent.plan, source, z, "replace_one", noise)
        return descent.run(answers, Progress()).weights[0, 0]

    ends = [end(seed) for seed in range(200)]
    c = 1 - descent.step_size * (descent.objective.alpha + 1 / 50)
    steps = np.arange(30)
    sigma = z * descent.sensitivity * np.sqrt(np.sum(c ** (2 * steps)))
    mean = descent.step_size / 50 * np.sum(c**steps)
    is_centred = abs(np.mean(ends) - mean) < 6 * sigma / math.sqrt(200)
    return is_centred and abs(np.std(ends) / sigma - 1) < 6 / math.sqrt(400)


def test_the_run_has_the_exact_law_and_half_the_noise_has_not():
    assert law_is_exact(1.0)
    assert not law_is_exact(0.5)


def test_broken_twin_without_strong_convexity_is_caught():
    """The formula of alpha = 0.02 for an objective that has none."""
    descent = line("replace_one", 3000, n_samples=10**6)
    claim = descent.factor / 3.0
    assert exact_mu(descent, 3.0) <= claim
    assert exact_mu(descent, 3.0, alpha=0.0) > 3 * claim
    # What the code claims of alpha = 0 is plain composition, and it is refused.
    free = line("replace_one", 3000, alpha=0.0)
    assert free.gap == 0


# Contraction ---------------------------------------------------------------------


def largest_stretch(objective, step_size, residual_clip=math.inf, seed=0):
    """Largest ratio found of distances after and before a step, no noise."""
    rng = np.random.default_rng(seed)
    largest = 0.0
    for trial in range(250):
        X = np.eye(objective.n_features)[rng.integers(0, 1 + trial % 3, 6)]
        signs = rng.choice([-1.0, 1.0], size=(6, 1)) if trial % 2 else 1.0
        X = X * signs * objective.data_norm
        y = rng.integers(0, max(2, objective.loss.n_outputs), 6).astype(float)
        source = MemorySource(X, y)
        total = GradientSum(source, objective, residual_clip)
        scale = 10 ** rng.uniform(-2, 1)
        W = scale * rng.normal(size=(objective.n_columns, objective.loss.n_outputs))
        away = rng.normal(size=W.shape)
        if trial % 4:  # along the first record
            row = np.append(X[0], objective.data_norm)
            away = np.outer(row, rng.normal(size=objective.loss.n_outputs))
        V = W + 1e-4 * away * 10 ** rng.uniform(0, 4)

        def step(W, total=total):
            return W - step_size * (total(W) / 6 + objective.alpha * W)

        stretch = np.linalg.norm(step(W) - step(V)) / np.linalg.norm(W - V)
        largest = max(largest, stretch)
    return largest


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("share", [0.5, 0.999, 1.01])
def test_steps_are_contractions_as_stated(loss, share):
    objective = replace(OBJECTIVE, loss=loss, n_samples=6, alpha=0.02)
    bend = loss.smoothness * objective.row_norm**2 + objective.alpha
    step_size = share * 2 / (bend + objective.alpha)
    stated = 1 - hidden(5, step_size, objective).gap
    found = largest_stretch(objective, step_size)
    assert found <= stated * (1 + 1e-9)
    assert found > 0.95 * stated


def test_broken_twins_are_no_contractions():
    facts = {"n_samples": 6, "alpha": 0.001}
    # Steps above 2 / L.
    objective = replace(OBJECTIVE, loss=SquaredLoss(100.0, 1.0), **facts)
    bend = objective.smoothness
    assert largest_stretch(objective, 2.4 / bend) > 1.1
    assert hidden(5, 2.4 / bend, objective).gap < 0
    # Residuals of several outputs clipped in norm: no gradient of a convex function.
    objective = replace(OBJECTIVE, loss=SoftmaxLoss(3), **facts)
    bend = objective.smoothness
    stated = 1 - hidden(5, 1.9 / bend, objective).gap
    assert largest_stretch(objective, 1.9 / bend) <= stated
    assert largest_stretch(objective, 1.9 / bend, residual_clip=0.5) > stated


# Rounding ------------------------------------------------------------------------


def test_rounding_is_charged():
    descent, z = hidden(), 4.0
    charged = descent.charged(200, z)
    scale = gaussian_scale(sensitivity=charged, noise_multiplier=z, size=4)
    start, query = math.sqrt(4) * scale.grid, math.sqrt(4) * scale.grid
    errors = descent.floating_point_error(200)
    assert charged >= descent.sensitivity + start + errors
    assert scale.sigma >= z * (descent.sensitivity + start + query + errors)
    assert scale.sigma <= 1.002 * z * descent.sensitivity


def test_broken_twin_that_charges_the_query_only_is_caught():
    """Two hidden positions, a hair apart, are rounded apart before a step is taken."""
    grid, step, alpha = 2.0**-6, 1.0, 0.01

    def next_query(position, pull):
        start = grid * np.rint(position / grid)
        return grid * np.rint((start - step * (alpha * start - pull)) / grid)

    rng = np.random.default_rng(0)
    y = rng.normal(size=200_000)
    near = y + 1e-6 * rng.random(len(y))
    delta = 3e-3
    moved = np.abs(next_query(near, delta) - next_query(y, 0.0)).max()
    apart = (1 - step * alpha) * 1e-6
    assert moved > delta + apart + grid
    assert moved <= delta + apart + grid + (1 - step * alpha) * grid


def test_error_of_a_step_stays_below_what_is_charged():
    """The same step in another order of the records."""
    n, d = 5000, 3
    objective = replace(OBJECTIVE, n_samples=n)
    descent = hidden(objective=objective)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, d)), rng.integers(0, 2, n).astype(float)
    W = rng.normal(size=(4, 1))
    order = rng.permutation(n)
    sums = [
        GradientSum(MemorySource(X[i], y[i]), objective)(W)
        for i in (np.arange(n), order)
    ]
    steps = [W - descent.step_size * (g / n + objective.alpha * W) for g in sums]
    error = np.linalg.norm(steps[0] - steps[1])
    assert 0 < error <= descent.floating_point_error(5000)
    assert descent.floating_point_error(5000) < 1e-3 * descent.sensitivity


# The solver ----------------------------------------------------------------------


def chosen(objective=OBJECTIVE, **params):
    params = {"release": "last"} | params
    return choose_solver("noisy_gd", params, objective, BUDGET).solver


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_event_is_one_release_of_less_noise_than_the_path_needs(adjacency):
    objective = replace(OBJECTIVE, adjacency=adjacency)
    solver = chosen(objective, n_steps=400, step_size=3.0)
    factor = solver.hidden(objective).factor
    assert door.event_of(solver, 5.0, objective) == GaussianEvent(5.0 / factor)
    z = calibrate(lambda z: door.event_of(solver, z, objective), BUDGET)
    path = NoisyGD(**solver.params | {"release": "path"})
    assert z < 0.5 * calibrate(lambda z: door.event_of(path, z, objective), BUDGET)


def test_noise_and_sensitivity_are_the_same_in_every_step():
    """A scale that followed the weights would need the path to be public."""
    rng = np.random.default_rng(0)
    source = MemorySource(rng.normal(size=(200, 3)), np.ones(200))
    solver, noise = chosen(n_steps=30), SpyNoise()
    run = door.run(solver, source, OBJECTIVE, 3.0, noise)
    assert len(noise.draws) == 30
    (sensitivity,) = {draw.sensitivity for draw in noise.draws}
    assert sensitivity == solver.hidden(OBJECTIVE).charged(200, 3.0)
    assert {draw.noise_multiplier for draw in noise.draws} == {3.0}
    assert {draw.sigma for draw in noise.draws} == {run.noise_scale}
    assert np.array_equal(run.weights, noise.draws[-1].released)


def test_progress_of_a_hidden_path_counts_steps_only(capsys):
    source = MemorySource(np.zeros((200, 3)), np.zeros(200))
    solver = chosen(n_steps=3)
    door.run(solver, source, OBJECTIVE, 3.0, NoiseSource(0), Progress("fit", True))
    assert capsys.readouterr().out.splitlines() == [
        f"[fit] step {i} of 3" for i in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("params", "changes", "message"),
    [
        ({"momentum": 0.5}, {}, "momentum=0"),
        ({"residual_clip": 0.5}, {}, "residual_clip=inf"),
        ({"intercept_weight": 0.5}, {}, "intercept_weight=1"),
        ({"tail": 0.5}, {}, "tail"),
        ({}, {"alpha": 0.0}, "Set C or alpha"),
        ({}, {"adjacency": "replace_user"}, "privacy_unit='record'"),
        ({"step_size": 4.1}, {}, "below 2 / L"),
    ],
)
def test_what_breaks_the_theorem_is_refused(params, changes, message):
    with pytest.raises(ValueError, match=rf"release='last' needs.*{message}"):
        chosen(replace(OBJECTIVE, **changes), **params)


def test_unknown_releases_are_refused():
    with pytest.raises(ValueError, match="release"):
        chosen(release="all")


def test_a_loss_of_unbounded_gradient_is_refused():
    with pytest.raises(ValueError, match="bounded gradient"):
        chosen(OBJECTIVE.with_loss(SquaredLoss(math.inf, 1.0)))
