"""two_stage: every stage is declared, and what is drawn costs what was declared."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from skdp import DPSparseLinearRegression, DPSparseLogisticRegression
from skdp._fit import Progress, release
from skdp.losses import LogisticLoss, SquaredLoss
from skdp.papers import _two_stage as module
from skdp.papers._two_stage import TwoStage
from skdp.privacy import GaussianEvent, epsilon_of
from skdp.privacy.accounting._events import BoundedRangeEvent, ComposedEvent, PureEvent
from skdp.tables._memory import MemorySource
from skdp.tables._views import EntriesClipped
from tests.door import OpenDoor, planned, refusal
from tests.papers.problem import BUDGET, PURE, by_adjacency, objective_of
from tests.problems import Outcome
from tests.spies import NoNoise, SpyNoise

LOGISTIC, SQUARED = LogisticLoss(), SquaredLoss(2.0, target_bound=1.0)
OBJECTIVE = objective_of(
    80, 12, data_norm=4.0, feature_bound=1.0, n_nonzero=3, adjacency="replace_one"
)
FEW_STEPS = {"refit": "noisy_gd", "refit_params": {"n_steps": 3}}
SELECTIONS = ("gaussian", "peeling")


def data():
    X = np.random.default_rng(0).uniform(-1, 1, (80, 12))
    return MemorySource(X, (X[:, 4] > 0).astype(float))


def resolved(kind=TwoStage, objective=OBJECTIVE, budget=BUDGET, **params):
    return planned(kind, objective, budget, **params)


def fitted(solver, noise, *, objective=OBJECTIVE, budget=BUDGET, source=None):
    rows = EntriesClipped(source or data(), objective.feature_bound)
    door = OpenDoor(budget, adjacency=objective.adjacency, noise=noise)
    facts = {"label": "test", "progress": Progress()}
    solution, answers = release(solver, rows, objective, door, **facts)
    return Outcome(solution, answers.event, answers.noise_multiplier)


def paid(noise):
    """The event of what was drawn, whatever was declared."""
    parts = [
        GaussianEvent(draw.noise_multiplier)
        if draw.law == "gaussian"
        else PureEvent(draw.epsilon)
        for draw in noise.draws
    ]
    parts += [BoundedRangeEvent(c.epsilon, len(c.chosen)) for c in noise.choices]
    return ComposedEvent(tuple(parts))


@pytest.mark.parametrize("fit_intercept", [True, False])
@by_adjacency
@pytest.mark.parametrize("selection", SELECTIONS)
def test_what_is_drawn_is_what_is_declared(selection, adjacency, fit_intercept):
    objective = replace(OBJECTIVE, adjacency=adjacency, fit_intercept=fit_intercept)
    solver = resolved(objective=objective, selection=selection, **FEW_STEPS)
    noise = SpyNoise()
    outcome = fitted(solver, noise, objective=objective)
    drawn = [(x.epsilon, len(x.chosen)) for x in noise.choices]
    drawn += [draw.noise_multiplier for draw in noise.draws]
    declared, gaussian = [], []
    for leaf in outcome.event.leaves:
        if isinstance(leaf, BoundedRangeEvent):
            declared.append((leaf.epsilon, leaf.count))
        else:
            gaussian += [leaf.noise_multiplier] * leaf.count
    assert drawn == declared + gaussian
    assert len(declared) == (selection == "peeling")
    worst = solver.sensitivity(objective) * (1 + 1e-9)
    assert all(draw.sensitivity <= worst for draw in noise.draws)
    assert outcome.solution.noise_scale == max(draw.sigma for draw in noise.draws)
    epsilon = epsilon_of(paid(noise), BUDGET.delta)
    assert 0.99 * BUDGET.epsilon <= epsilon <= BUDGET.epsilon * (1 + 1e-9)


def booked(plan, objective, kept):
    """A plan of which some parts only are on the books."""

    def declare(noise_multiplier):
        parts = plan.event(noise_multiplier, objective.adjacency).parts
        return ComposedEvent(tuple(parts[i] for i in kept))

    return replace(plan, declared=declare)


class ForgetsTheSelection(TwoStage):
    """Broken twin: the features are taken as public."""

    def plan(self, objective):
        return booked(super().plan(objective), objective, (0, -1))


class ForgetsTheConstant(TwoStage):
    """Broken twin: where the gradient is taken is no release."""

    def plan(self, objective):
        return booked(super().plan(objective), objective, (1, 2))


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize(
    ("kind", "least"), [(ForgetsTheSelection, 1.2), (ForgetsTheConstant, 1.01)]
)
def test_broken_twins_cost_more_than_the_budget(kind, least, selection):
    solver = resolved(kind, selection=selection, **FEW_STEPS)
    noise = SpyNoise()
    fitted(solver, noise)
    assert epsilon_of(paid(noise), BUDGET.delta) > least * BUDGET.epsilon


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_gaussian_release_is_charged_at_the_constant_s_weights(fit_intercept):
    """At zero a logistic residual is a half; the intercept alone can bring it to 1."""
    objective, noise = replace(OBJECTIVE, fit_intercept=fit_intercept), SpyNoise()
    solver = resolved(objective=objective, selection="gaussian", **FEW_STEPS)
    fitted(solver, noise, objective=objective)
    draw = noise.draws[4 if fit_intercept else 0]
    assert draw.query.shape == (12, 1)
    # 2 * 1/2 * data_norm, and what grids add.
    least = 4.0 * (1 - 1e-9)
    assert least < draw.sensitivity <= (8.0 if fit_intercept else 4.0 * (1 + 5e-6))


SLOW = {"n_steps": 1200, "step_size": 0.2, "momentum": 0.9, "tail": 0.1}
SLOW |= {"residual_clip": math.inf, "intercept_weight": 1.0}


class ForgetsTheUnit(TwoStage):
    """Broken twin: the refit's intercept is the weight of another constant."""

    def run(self, answers, objective, progress):
        solution = super().run(answers, objective, progress)
        ratio = module._of_refit(objective).intercept_value / objective.intercept_value
        solution.weights[-1] /= ratio
        return solution


@pytest.mark.parametrize("storage", [np.asarray, csr_array])
@pytest.mark.parametrize("kind", [TwoStage, ForgetsTheUnit])
def test_without_noise_it_is_least_squares_on_the_right_columns(kind, storage):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.2, 0.2, (80, 12))
    y = 0.5 * X[:, 1] - X[:, 4] + 2 * X[:, 7] + 0.3 + 0.01 * rng.normal(size=80)
    params = {"residual_clip": math.inf, "refit": "noisy_gd", "refit_params": SLOW}
    objective = OBJECTIVE.with_loss(SQUARED)
    solver = resolved(kind, objective, **params)
    source = MemorySource(storage(X), y)
    solution = fitted(solver, NoNoise(), objective=objective, source=source).solution
    coef, intercept = solution.unpack(OBJECTIVE)
    columns = [1, 4, 7]
    assert list(np.flatnonzero(coef[0])) == columns
    design = np.hstack([X[:, columns], np.ones((80, 1))])
    expected = np.linalg.lstsq(design, y)[0]
    assert np.allclose(coef[0, columns], expected[:3], atol=1e-6)
    is_right = np.allclose(intercept, expected[3], atol=1e-6)
    assert is_right == (kind is TwoStage)
    # The refit's rows have at most the norm of three bounded entries.
    assert module._of_refit(OBJECTIVE).data_norm == pytest.approx(math.sqrt(3))


@pytest.mark.parametrize(
    ("loss", "refit"),
    [(SQUARED, "adassp"), (SQUARED, None), (LOGISTIC, "objective_perturbation")],
)
def test_delta_zero_is_pure_in_every_stage(loss, refit):
    objective = OBJECTIVE.with_loss(loss)
    solver = resolved(objective=objective, budget=PURE, refit=refit)
    noise = SpyNoise()
    outcome = fitted(solver, noise, objective=objective, budget=PURE)
    assert outcome.event.pure_epsilon <= PURE.epsilon
    assert outcome.event.mu_squared == 0
    assert {draw.law for draw in noise.draws} == {"spherical"}
    # A determinant is paid for beside the noise of objective_perturbation.
    assert 0.9 < paid(noise).pure_epsilon <= 1.0
    assert solver.selection == "peeling"
    assert "needs another refit" in refusal(TwoStage, objective, PURE, refit="noisy_gd")
    gaussian = refusal(TwoStage, objective, PURE, selection="gaussian")
    assert "Use selection='auto'" in gaussian
    again = resolved(objective=objective, budget=PURE, levels=solver.levels)
    assert again.levels == solver.levels
    with pytest.raises(TypeError, match="three numbers"):
        resolved(levels=3.0)


def test_as_an_estimator_s_solver():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (3000, 40))
    y = X[:, 3] - X[:, 6]
    common = {"data_norm": 6.0, "feature_bound": 1.0, "n_nonzero_coefs": 2}
    regressor = DPSparseLinearRegression(
        20.0, target_bounds=(-2, 2), solver="two_stage", **common
    ).fit(X, y)
    assert list(regressor.get_support(indices=True)) == [3, 6]
    assert np.allclose(regressor.coef_[[3, 6]], [1, -1], atol=0.3)
    # What was left out shortens no row, as it shortened none for the refit.
    far = X[:9].copy()
    far[:, np.setdiff1d(range(40), [3, 6])] = 1e6
    assert np.array_equal(regressor.predict(far), regressor.predict(X[:9]))
    record = json.loads(regressor.privacy_.to_json())
    assert record["solver_params"]["refit"] == "noisy_gd"
    assert len(record["solver_params"]["levels"]) == 3
    classifier = DPSparseLogisticRegression(
        20.0, classes=[0, 1, 2], solver="two_stage", **common
    ).fit(csr_array(X), np.digitize(y, [-0.5, 0.5]))
    assert list(classifier.get_support(indices=True)) == [3, 6]
