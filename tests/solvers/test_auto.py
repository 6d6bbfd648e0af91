"""solver="auto": public facts only, a reason for each choice, no budget it dies of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skdp import BudgetLedger, DPLogisticRegression
from skdp.losses import LogisticLoss, SoftmaxLoss, SquaredLoss
from skdp.objectives import LinearObjective
from skdp.privacy import Budget, calibrate
from skdp.privacy._accounting import fits
from skdp.solvers import choose_solver
from skdp.solvers._auto import auto_candidates
from tests import door
from tests.problems import ADJACENCIES, LOSSES

LOSS = LogisticLoss()
OBJECTIVE = LinearObjective(
    loss=LOSS, n_samples=2000, n_features=5, data_norm=1.0, adjacency="zero_out"
)
BUDGET = Budget(1.0, 1e-6)
every_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES)
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def chosen(objective=OBJECTIVE, budget=BUDGET):
    return choose_solver("auto", None, objective, budget)


def test_choice_is_a_function_of_public_facts():
    assert chosen() == chosen()
    assert chosen(replace(OBJECTIVE)) == chosen()


@every_adjacency
@every_loss
def test_delta_zero_gives_a_pure_solver(loss, adjacency):
    objective = replace(OBJECTIVE, loss=loss, adjacency=adjacency)
    candidate = chosen(objective, Budget(1.0, 0.0))
    is_regression = isinstance(loss, SquaredLoss)
    expected = "adassp" if is_regression else "objective_perturbation"
    assert candidate.solver.key == expected
    assert candidate.solver.law == "spherical"
    assert "delta=0" in candidate.reason


def test_too_little_regularisation_for_a_tilt_gives_the_next_candidate():
    objective = replace(OBJECTIVE, alpha=1e-4 / 2000)
    candidate = chosen(objective, budget=Budget(1.0, 0.0))
    assert candidate.solver.key == "output_perturbation"
    assert candidate.reason == "delta=0, and objective_perturbation refuses"


def test_much_noise_gives_noisy_descent_and_little_noise_one_minimisation():
    sizes = (2000, 7000, 10**6)
    keys = [chosen(replace(OBJECTIVE, n_samples=n)).solver.named for n in sizes]
    assert keys == ["nesterov", "noisy_gd", "objective_perturbation"]
    many = replace(OBJECTIVE, n_samples=10**6)
    assert chosen(many).solver.named == "objective_perturbation"
    # With several outputs residual clipping pays for longer.
    some = replace(OBJECTIVE, n_samples=100_000)
    keys = [chosen(some.with_loss(x)).solver.named for x in (LOSS, SoftmaxLoss(3))]
    assert keys == ["objective_perturbation", "noisy_gd"]


def test_every_candidate_has_a_reason_and_the_named_one_says_so():
    for budget in (BUDGET, Budget(1.0, 0.0), Budget(1e6, 1e-6)):
        for candidate in auto_candidates(OBJECTIVE, budget):
            assert candidate.reason
    named = choose_solver("noisy_gd", None, OBJECTIVE, BUDGET)
    assert named.reason == "named by the user"
    assert choose_solver("auto", None, OBJECTIVE, Budget(np.inf, 0.0)) is None


def test_the_reason_is_on_the_record():
    X, y = np.eye(400, 3), np.arange(400) % 2
    model = DPLogisticRegression(classes=[0, 1], delta=0.0, epsilon=1.0).fit(X, y)
    assert model.privacy_.why_solver == "delta=0: the most accurate pure solver"


EXTREMES = [
    Budget(epsilon, delta)
    for epsilon in (1e-6, 1e-3, 1.0, 1e3, 1e8)
    for delta in (0.0, 1e-50, 1e-6, 0.5)
]


@every_adjacency
@every_loss
def test_no_budget_is_too_extreme(loss, adjacency):
    for n in (1, 1000, 10**9):
        objective = replace(OBJECTIVE, loss=loss, adjacency=adjacency, n_samples=n)
        for budget in EXTREMES:
            candidate = chosen(objective, budget)
            solver = candidate.solver
            assert candidate.reason
            assert solver.sensitivity(objective) > 0
            # Its event exists at any multiplier that calibration may try first.
            assert door.event_of(solver, 1.0, objective).leaves


@every_adjacency
@pytest.mark.parametrize(
    "budget", [Budget(1e-6, 0.0), Budget(1e-6, 1e-6), Budget(1e8, 0.5)], ids=repr
)
def test_extreme_budgets_are_met(budget, adjacency):
    for loss in (LOSS, SoftmaxLoss(3)):
        objective = replace(OBJECTIVE, loss=loss, adjacency=adjacency)
        solver = chosen(objective, budget).solver
        z = calibrate(lambda z, s=solver, x=objective: door.event_of(s, z, x), budget)
        assert fits(door.event_of(solver, z, objective), budget)


def test_with_a_ledger_many_fits_cost_what_gaussian_noise_costs(tmp_path):
    """Objective perturbation would cost a ledger more than it costs alone."""
    objective, budget = replace(OBJECTIVE, n_samples=60_000), Budget(3.0, 1e-6)
    alone = chosen(objective, budget)
    assert alone.solver.key == "objective_perturbation"
    booked = choose_solver("auto", None, objective, budget, has_ledger=True)
    assert booked.solver.named == "noisy_gd"
    assert "ledger" in booked.reason

    def spent(solver):
        ledger = BudgetLedger(
            tmp_path / f"{solver.named}.db",
            epsilon=100.0,
            delta=1e-5,
            adjacency=objective.adjacency,
        )
        z = calibrate(lambda z: door.event_of(solver, z, objective), budget)
        event = door.event_of(solver, z, objective)
        for _ in range(4):
            ledger.commit(
                event, adjacency=objective.adjacency, budget=budget, label="fit"
            )
        return ledger.spent().epsilon

    assert spent(booked.solver) < 2 * 3.0 < 4 * 3.0 <= spent(alone.solver) * 1.001


def test_an_estimator_says_whether_it_has_a_ledger(tmp_path):
    X, y = np.eye(4000, 3), np.arange(4000) % 2
    ledger = BudgetLedger(tmp_path / "books.db", epsilon=1e3, delta=1e-6)
    model = DPLogisticRegression(90.0, classes=[0, 1])
    assert "ledger" not in model.fit(X, y).privacy_.why_solver
    model.set_params(ledger=ledger).fit(X, y)
    assert "ledger" in model.privacy_.why_solver
    assert model.privacy_.solver == "noisy_gd"
