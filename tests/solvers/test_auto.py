"""solver="auto": public facts only, a reason for each choice, no budget it dies of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skdp.losses import LogisticLoss, SquaredLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget
from skdp.solvers._registry import choose_solver
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


@every_adjacency
@every_loss
@pytest.mark.parametrize("n_features", [6, 7])
def test_delta_zero_gives_a_pure_solver(loss, adjacency, n_features):
    facts = {"loss": loss, "adjacency": adjacency, "n_features": n_features}
    objective = replace(OBJECTIVE, **facts)
    candidate = chosen(objective, Budget(1.0, 0.0))
    is_regression = isinstance(loss, SquaredLoss)
    # Of few features; of more one minimisation is better.
    has_moments = is_regression and n_features == 6
    expected = "adassp" if has_moments else "objective_perturbation"
    assert candidate.solver.named == expected
    assert candidate.solver.params["law"] == "spherical"
    assert "delta=0" in candidate.reason


def test_too_little_regularisation_for_a_tilt_gives_the_next_candidate():
    objective = replace(OBJECTIVE, alpha=1e-4 / 2000)
    candidate = chosen(objective, budget=Budget(1.0, 0.0))
    assert candidate.solver.named == "output_perturbation"
    # Without an intercept there is no constant to go out from.
    candidate = chosen(replace(objective, fit_intercept=False), Budget(1.0, 0.0))
    assert candidate.solver.key == "output_perturbation"
    assert candidate.reason == "delta=0, and objective_perturbation refuses"


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
