"""Solvers, losses and problems that the contract tests take the product of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skdp.data import MemorySource
from skdp.losses import HuberHingeLoss, LogisticLoss, SoftmaxLoss, SquaredLoss
from skdp.privacy import Budget, BudgetLedger
from skdp.privacy._noise import NoiseSource
from skdp.solvers import SOLVERS, Problem, Progress, choose_solver, solve

LOSSES = {
    "logistic": LogisticLoss(),
    "softmax": SoftmaxLoss(3),
    "squared": SquaredLoss(residual_bound=2.0, target_bound=1.0),
    "huber_hinge": HuberHingeLoss(),
    "huber_hinge_rest": HuberHingeLoss(n_outputs=3),
}
ADJACENCIES = ("replace_one", "zero_out")
# The smallest honest parameters of each solver: few steps, public constants.
SOLVER_PARAMS = {
    "adassp": {},
    "heavy_ball": {"n_steps": 4},
    "multistage": {"n_steps": 4},
    "nesterov": {"n_steps": 4},
    "noisy_gd": {"n_steps": 4, "step_size": 0.5},
    "objective_perturbation": {},
    "output_perturbation": {},
}
# Parameters with which a solver without noise reaches the optimum of the problem.
TO_THE_END = {
    "adassp": {"ridge": 0.0},
    "heavy_ball": {"n_steps": 200, "residual_clip": np.inf},
    "multistage": {"n_steps": 200, "residual_clip": np.inf},
    "nesterov": {"n_steps": 200, "residual_clip": np.inf},
    "noisy_gd": {
        "n_steps": 1000,
        "step_size": 0.5,
        "momentum": 0.9,
        "residual_clip": np.inf,
        "tail": 0.1,
    },
    "objective_perturbation": {},
    "output_perturbation": {},
}
BUDGET = Budget(1.0, 1e-6)
PURE = Budget(1.0, 0.0)


@dataclass(frozen=True)
class Case:
    """One solver on one loss under one adjacency."""

    key: str
    loss_name: str
    adjacency: str
    data_norm: float = 1.0
    fit_intercept: bool = True
    n_samples: int = 40
    n_features: int = 3
    alpha: float = 0.0

    @property
    def loss(self):
        return LOSSES[self.loss_name]

    @property
    def problem(self):
        return Problem(
            n_samples=self.n_samples,
            n_features=self.n_features,
            data_norm=self.data_norm,
            adjacency=self.adjacency,
            alpha=self.alpha,
            fit_intercept=self.fit_intercept,
        )

    @property
    def solver(self):
        return self.solver_with(SOLVER_PARAMS[self.key])

    def solver_with(self, params, budget=BUDGET):
        """The case's solver with other parameters."""
        chosen = choose_solver(self.key, params, self.loss, self.problem, budget)
        return chosen.solver

    def data(self, seed=0):
        """Rows (some longer than data_norm) and targets that suit the loss."""
        rng = np.random.default_rng(seed)
        X = self.data_norm * rng.normal(size=(self.n_samples, self.n_features))
        y = rng.integers(0, max(2, self.loss.n_outputs), self.n_samples)
        return X, y.astype(float)

    def source(self, seed=0):
        return MemorySource(*self.data(seed))


def accepts(case, budget=BUDGET):
    """Whether the case's solver can do the case at all."""
    solver = SOLVERS[case.key](**SOLVER_PARAMS[case.key])
    return not solver.refusal(case.loss, case.problem, budget)


ALL_CASES = [
    Case(key, loss, adjacency)
    for key in SOLVERS
    for loss in LOSSES
    for adjacency in ADJACENCIES
]
CASES = [case for case in ALL_CASES if accepts(case)]
PURE_CASES = [case for case in ALL_CASES if accepts(case, PURE)]


def case_id(case):
    return f"{case.key}-{case.loss_name}-{case.adjacency}"


def make_ledger(folder, **changes):
    """A ledger in a new file of `folder`."""
    values = {"epsilon": 10.0, "delta": 1e-6} | changes
    return BudgetLedger(folder / "ledger.db", **values)


def run_case(case, *, source=None, noise=None, ledger=None, solver=None, budget=BUDGET):
    """Send one case through the only door."""
    return solve(
        solver or case.solver,
        source if source is not None else case.source(),
        case.loss,
        case.problem,
        budget,
        ledger=ledger,
        noise=noise or NoiseSource(),
        label="test",
        progress=Progress(),
    )
