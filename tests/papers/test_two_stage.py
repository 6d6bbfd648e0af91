"""two_stage: every stage is declared, and what is drawn costs what was declared."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array

from skdp import DPSparseLinearRegression, DPSparseLogisticRegression
from skdp._fit import Progress, release
from skdp.losses import LogisticLoss, SoftmaxLoss, SquaredLoss
from skdp.losses._objective import LinearObjective
from skdp.papers import _two_stage as module
from skdp.papers._two_stage import TwoStage
from skdp.privacy import Budget, GaussianEvent, epsilon_of
from skdp.privacy.accounting._events import BoundedRangeEvent, ComposedEvent, PureEvent
from skdp.privacy.accounting._gaussian import gaussian_mu
from skdp.privacy.release._plan import Line, Plan
from skdp.solvers._base import Solution
from skdp.solvers._registry import named_solver
from skdp.sums._gradient import ClippedGradient
from skdp.tables._memory import MemorySource
from skdp.tables._views import EntriesClipped
from tests.door import OpenDoor, event_of, planned, refusal, run
from tests.gradients import query_sensitivity
from tests.problems import Outcome
from tests.solvers.deaf import DeafNoise
from tests.solvers.neighbours import random_targets
from tests.spies import NoNoise, SpyNoise

LOGISTIC, SQUARED = LogisticLoss(), SquaredLoss(2.0, target_bound=1.0)
OBJECTIVE = LinearObjective(
    loss=LOGISTIC,
    n_samples=80,
    n_features=12,
    data_norm=4.0,
    feature_bound=1.0,
    adjacency="replace_one",
    n_nonzero=3,
)
BUDGET, PURE = Budget(1.0, 1e-6), Budget(1.0, 0.0)
FEW_STEPS = {"refit": "noisy_gd", "refit_params": {"n_steps": 3}}
ADJACENCIES = ("replace_one", "zero_out")
SELECTIONS = ("gaussian", "peeling")


def data(seed=0, present=None):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (80, 12))
    return MemorySource(X, (X[:, 4] > 0).astype(float), present)


def resolved(kind=TwoStage, objective=OBJECTIVE, budget=BUDGET, **params):
    return planned(kind, objective, budget, **params)


def fitted(solver, noise, *, objective=OBJECTIVE, budget=BUDGET, source=None):
    solution, answers = release(
        solver,
        EntriesClipped(source or data(), objective.feature_bound),
        objective,
        OpenDoor(budget, adjacency=objective.adjacency, noise=noise),
        label="test",
        progress=Progress(),
    )
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
@pytest.mark.parametrize("adjacency", ADJACENCIES)
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


# Refits whose draws are the leaves of their events one by one; those of random batches
# and of disjoint buckets have tests of their own.
REFITS = ("bolt_on", "heavy_ball", "multistage", "nesterov", "output_perturbation")


def multipliers_declared(event):
    """Of all leaves with noise of their own, as often as they are drawn."""
    return [
        1 / leaf.epsilon if isinstance(leaf, PureEvent) else leaf.noise_multiplier
        for leaf in event.leaves
        if not isinstance(leaf, BoundedRangeEvent)
        for _ in range(leaf.count)
    ]


def with_the_refit_at(solver, level, objective):
    """The plan with the refit at another level than what is on the books."""
    right = TwoStage.plan(solver, objective)
    moved = replace(solver, levels=solver.levels._replace(refit=level))
    declare = partial(right.event, relation=objective.adjacency)
    return replace(TwoStage.plan(moved, objective), declared=declare)


class RefitsAtAnotherLevel(TwoStage):
    """Broken twin: the refit's noise is not what its level says."""

    def plan(self, objective):
        return with_the_refit_at(self, 1.0, objective)


@pytest.mark.parametrize("kind", [TwoStage, RefitsAtAnotherLevel])
@pytest.mark.parametrize("budget", [BUDGET, PURE], ids=["gaussian", "pure"])
@pytest.mark.parametrize("refit", REFITS)
def test_every_refit_draws_what_is_declared_for_its_columns(refit, budget, kind):
    solver = resolved(kind, budget=budget, refit=refit)
    noise = SpyNoise()
    event = fitted(solver, noise, budget=budget).event
    drawn = [draw.noise_multiplier for draw in noise.draws]
    declared = multipliers_declared(event)
    is_as_declared = drawn == pytest.approx(declared, rel=1e-12)
    assert is_as_declared == (kind is TwoStage)
    (leaf,) = (x for x in event.leaves if isinstance(x, BoundedRangeEvent))
    assert [(c.epsilon, len(c.chosen)) for c in noise.choices] == [
        (leaf.epsilon, leaf.count)
    ]
    laws = {draw.law for draw in noise.draws}
    assert laws == {"spherical" if budget is PURE else "gaussian"}


class NotGaussianIsPure(TwoStage):
    """The twin: a refit that is not Gaussian once got a pure constant model."""

    def _constant_model(self, objective):
        found = super()._constant_model(objective)
        is_gaussian = self.refit.adds_in_squares(self.refit.params)
        return found if is_gaussian else replace(found, law="spherical")


def test_the_constant_model_beside_a_delta_is_gaussian():
    """Also if the refit is objective perturbation, whose cost is no Gaussian's."""
    refit = {"refit": "objective_perturbation"}
    event = event_of(resolved(**refit), 5.0, OBJECTIVE)
    assert not any(isinstance(leaf, PureEvent) for leaf in event.leaves)
    assert not refusal(TwoStage, OBJECTIVE, BUDGET, **refit)
    twin = refusal(NotGaussianIsPure, OBJECTIVE, BUDGET, **refit)
    assert "law='spherical' beside a delta" in twin


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


class RefitsWithTheWholeBudget(TwoStage):
    """Broken twin: the refit is calibrated as if it came alone."""

    def plan(self, objective):
        return with_the_refit_at(self, math.sqrt(self.refit.n_steps), objective)


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize(
    ("kind", "least"),
    [
        (ForgetsTheSelection, 1.2),
        (ForgetsTheConstant, 1.01),
        (RefitsWithTheWholeBudget, 1.2),
    ],
)
def test_broken_twins_cost_more_than_the_budget(kind, least, selection):
    solver = resolved(kind, selection=selection, **FEW_STEPS)
    noise = SpyNoise()
    fitted(solver, noise)
    assert epsilon_of(paid(noise), BUDGET.delta) > least * BUDGET.epsilon


def test_stages_cost_their_shares():
    solver = resolved(selection="gaussian", selection_share=0.4, **FEW_STEPS)
    event = event_of(solver, 1.0, OBJECTIVE)
    constant, selection, refit = (x.mu_squared for x in event.parts)
    assert constant == pytest.approx(0.05)
    assert selection == pytest.approx(0.95 * 0.4)
    assert refit == pytest.approx(0.95 * 0.6, rel=1e-4)
    # Then the multiplier of the whole is that of one release for the whole budget.
    multiplier = fitted(solver, SpyNoise()).noise_multiplier
    assert multiplier == pytest.approx(1 / gaussian_mu(1.0, 1e-6), rel=1e-3)
    peeled = resolved(selection="peeling", selection_share=0.4, **FEW_STEPS)
    (leaf,) = event_of(peeled, 1.0, OBJECTIVE).parts[1].leaves
    assert leaf.count * leaf.epsilon**2 / 4 == pytest.approx(0.95 * 0.4)
    # Given levels are kept, and rules for the other stages too.
    again = resolved(levels=solver.levels, selection="gaussian", **FEW_STEPS)
    assert again.levels == solver.levels


def test_auto_selection_follows_the_rule():
    spread = replace(OBJECTIVE, data_norm=100.0)
    assert resolved(objective=spread).selection == "peeling"
    assert resolved(objective=replace(OBJECTIVE, data_norm=1.0)).selection == "gaussian"
    tight = replace(OBJECTIVE, data_norm=1.0)
    assert resolved(objective=tight, budget=PURE).selection == "peeling"


def changes_of_features(objective, offset, seed=0):
    """Changes of one record's part of the gradient; the intercept predicts `offset`."""
    rng = np.random.default_rng(seed)
    norm, count, k = objective.data_norm, 2000, objective.loss.n_outputs
    raw = np.zeros((count, k))
    raw[:, 0] = offset
    parts, direction = [], rng.normal(size=(1, objective.n_features))
    for sign in (np.ones((count, 1)), rng.choice([-1.0, 1.0], (count, 1))):
        X = norm * sign * direction / np.linalg.norm(direction)
        residual = objective.loss.residual(
            random_targets(objective.loss, rng, count), raw
        )
        parts.append(X[:, :, None] * residual[:, None, :])
    change = parts[0]
    if objective.adjacency == "replace_one":
        change = parts[0] - parts[1]
    return np.sqrt((change**2).sum(axis=(1, 2)))


def of_gradient(objective, prediction):
    """What is charged for the features' rows, without clipped residuals."""
    bound = ClippedGradient(objective).bound(prediction, "features")
    return bound.under(objective.adjacency)


@pytest.mark.parametrize("offset", [0.0, 1.0, -5.0])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("loss", [LOGISTIC, SoftmaxLoss(3), SQUARED])
def test_no_pair_of_neighbours_exceeds_the_sensitivity(loss, adjacency, offset):
    objective = replace(OBJECTIVE, loss=loss, adjacency=adjacency)
    claimed = of_gradient(objective, abs(offset))
    found = changes_of_features(objective, offset).max()
    assert 0.7 * claimed < found <= claimed * (1 + 1e-12)
    if adjacency == "replace_one":  # the broken twin takes the other relation's
        other = replace(objective, adjacency="zero_out")
        assert found > of_gradient(other, abs(offset))


def test_broken_twin_an_offset_that_turns_with_the_row_is_exceeded():
    """A row's own prediction turns with the row; the intercept's does not."""
    free = replace(OBJECTIVE, fit_intercept=False)
    twin = query_sensitivity(free, math.inf, 5.0 / free.data_norm)
    assert changes_of_features(OBJECTIVE, 5.0).max() > 1.1 * twin


def test_the_gaussian_release_is_charged_at_the_constant_s_weights():
    """At zero a logistic residual is a half; the intercept alone can bring it to 1."""
    free = replace(OBJECTIVE, fit_intercept=False)
    noise = SpyNoise()
    fitted(
        resolved(objective=free, selection="gaussian", **FEW_STEPS),
        noise,
        objective=free,
    )
    # 2 * 1/2 * data_norm, and what grids add.
    assert noise.draws[0].sensitivity == pytest.approx(4.0, rel=5e-6)
    noise = SpyNoise()
    fitted(resolved(selection="gaussian", **FEW_STEPS), noise)
    assert noise.draws[4].query.shape == (12, 1)
    assert 4.0 < noise.draws[4].sensitivity <= 8.0


SLOW = {"n_steps": 3000, "step_size": 0.2, "momentum": 0.9, "tail": 0.1}
SLOW |= {"residual_clip": math.inf, "intercept_weight": 1.0}


def linear_data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.2, 0.2, (80, 12))
    y = 0.5 * X[:, 1] - X[:, 4] + 2 * X[:, 7] + 0.3 + 0.01 * rng.normal(size=80)
    return X, y


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
    X, y = linear_data()
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


def test_an_offset_does_not_decide_the_selection(monkeypatch):
    rng = np.random.default_rng(0)
    X = 0.05 * rng.normal(size=(80, 12))
    X[:, 6:] += 0.3  # these move with nothing, but are not 0 on average
    y = 0.8 + 2 * X[:, 0] - 2 * X[:, 1] + 2 * X[:, 2]
    objective = OBJECTIVE.with_loss(SQUARED)
    solver = resolved(TwoStage, objective, **FEW_STEPS)

    def support():
        solution = fitted(
            solver,
            NoNoise(),
            objective=objective,
            source=MemorySource(X, y),
        ).solution
        return list(np.flatnonzero(solution.unpack(OBJECTIVE)[0][0]))

    assert support() == [0, 1, 2]

    class AtZero:
        """Broken twin: no constant model."""

        def plan(self, _):
            return Plan((Line(),))

        def run(self, *_):
            return Solution(np.zeros((1, 1)), 0.0)

    monkeypatch.setattr(TwoStage, "_constant_model", lambda *_: AtZero())
    assert min(support()) >= 6


class SelectsWithoutNoise(TwoStage):
    """Broken twin: the columns are those of the largest gradient itself."""

    def _selected(self, answers, objective, weights):
        answers._noise = NoNoise()
        return super()._selected(answers, objective, weights)


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("kind", [TwoStage, SelectsWithoutNoise])
def test_nothing_but_the_noisy_releases_reaches_the_weights(kind, selection):
    solver = resolved(kind, selection=selection, **FEW_STEPS)
    rng = np.random.default_rng(9)
    other = MemorySource(rng.uniform(-1, 1, (80, 12)), np.ones(80))
    released = [
        run(solver, source, OBJECTIVE, 2.0, DeafNoise()).weights
        for source in (data(), other)
    ]
    assert np.array_equal(*released) == (kind is TwoStage)


@pytest.mark.parametrize("selection", SELECTIONS)
def test_a_null_record_leaves_no_trace_in_any_stage(selection):
    objective = replace(OBJECTIVE, adjacency="zero_out")
    solver = resolved(objective=objective, selection=selection, **FEW_STEPS)
    present = np.arange(80) != 5
    sources = [data(present=present), data(present=present)]
    sources[1].whole().X[5], sources[1].whole().y[5] = 0.9, 1.0
    seen = []
    for source in sources:
        noise = SpyNoise(seed=1)
        fitted(solver, noise, objective=objective, source=source)
        seen.append([x.query for x in noise.draws] + [x.scores for x in noise.choices])
    assert all(np.array_equal(a, b) for a, b in zip(*seen, strict=True))


@pytest.mark.parametrize("value", [1e308, -1e200, 5e-324])
def test_extreme_entries_stay_finite(value):
    X, y = data().whole().X.copy(), data().whole().y
    X[3] = value
    for storage in (np.asarray, csr_array):
        source = MemorySource(storage(X), y)
        outcome = fitted(resolved(**FEW_STEPS), SpyNoise(), source=source)
        assert np.isfinite(outcome.solution.weights).all()


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


def test_refusals():
    gaussian = refusal(TwoStage, OBJECTIVE, PURE, selection="gaussian")
    assert "Use selection='auto'" in gaussian
    refit = refusal(TwoStage, OBJECTIVE, PURE, refit="noisy_gd")
    assert "needs another refit" in refit
    assert not refusal(TwoStage, OBJECTIVE, PURE)
    dense = replace(OBJECTIVE, n_nonzero=None)
    assert "number of features" in refusal(TwoStage, dense, BUDGET)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"selection": "lasso"}, "selection"),
        ({"selection_share": 1.0}, "selection_share"),
        ({"refit": "iht"}, "Use it as the solver"),
        ({"refit": "ols"}, "Without noise"),
        ({"refit_params": {"n_steps": 2}}, "Name the solver"),
        ({"refit": "noisy_gd", "refit_params": {"sigma": 2}}, "must be among"),
        ({"refit": "noisy_gd", "refit_params": (3,)}, "None or a mapping"),
        ({"levels": 3.0}, "three numbers"),
        ({"levels": (1.0, 0.0, 1.0)}, "levels"),
    ],
)
def test_wrong_parameters_are_named(params, message):
    with pytest.raises((TypeError, ValueError), match=message):
        named_solver("two_stage", params)


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
