"""Solvers, losses and problems that the contract tests take the product of."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from skdp._fit import Progress, release
from skdp.losses import (
    CauchyLoss,
    HuberHingeLoss,
    LogisticLoss,
    SigmoidLoss,
    SoftmaxLoss,
    SquaredLoss,
)
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget, BudgetLedger, Event
from skdp.solvers import SOLVERS
from skdp.solvers._base import Solution
from skdp.solvers._registry import choose_solver
from skdp.tables._memory import MemorySource
from tests.door import OpenDoor, refusal

LOSSES = {
    "logistic": LogisticLoss(),
    "softmax": SoftmaxLoss(3),
    "squared": SquaredLoss(residual_bound=2.0, target_bound=1.0),
    "huber_hinge": HuberHingeLoss(),
    "huber_hinge_rest": HuberHingeLoss(n_outputs=3),
}
# Most solvers are for convex losses; these are for those that say they take others.
ALL_LOSSES = LOSSES | {
    "sigmoid": SigmoidLoss(),
    "cauchy_rest": CauchyLoss(n_outputs=3),
}
ADJACENCIES = ("replace_one", "zero_out")
# The smallest honest parameters of each solver: few steps, public constants.
SOLVER_PARAMS = {
    "adassp": {},
    "bolt_on": {"n_passes": 2, "batch_size": 7},
    "diff_gd": {"n_steps": 4, "step_size": 0.5},
    "frank_wolfe": {"n_steps": 4},
    "ftrl": {"n_parts": 4, "steps_per_part": 2, "step_size": 0.5},
    "graduated_gd": {"n_steps": 4, "step_size": 0.5},
    "heavy_ball": {"n_steps": 4},
    "iht": {"n_steps": 2},
    "knowledge_transfer": {
        "teacher": "noisy_gd",
        "teacher_params": {"n_steps": 4, "step_size": 0.5},
    },
    "laplacian_smoothing": {"n_steps": 4, "batch_size": 10, "step_size": 0.5},
    "line_search_gd": {"n_steps": 4},
    "multistage": {"n_steps": 4},
    "nesterov": {"n_steps": 4},
    "noisy_gd": {"n_steps": 4, "step_size": 0.5},
    "noisy_newton": {"n_steps": 3},
    "noisy_sgd": {"n_steps": 4, "batch_size": 10, "step_size": 0.5},
    "objective_perturbation": {},
    "online": {"bucket_size": 10, "step_size": 0.5},
    "output_perturbation": {},
    "peeling": {"n_steps": 4},
    "srm": {"n_steps": 4, "batch_size": 10, "step_size": 0.5},
    "tree_momentum": {"n_leaves": 3, "n_epochs": 2},
    "two_stage": {
        "refit": "noisy_gd",
        "refit_params": {"n_steps": 4, "step_size": 0.5},
    },
}
# Parameters with which a solver without noise reaches the optimum of the problem.
LONG_RUN = {"step_size": 0.5, "momentum": 0.9, "residual_clip": np.inf, "tail": 0.1}
TO_THE_END = {
    "adassp": {"ridge": 0.0},
    "bolt_on": {"n_passes": 200, "batch_size": 10**6, "step_size": 0.5},
    "frank_wolfe": {
        "n_steps": 2000,
        "l1_radius": 3.0,
        "residual_clip": np.inf,
        "residual_steps": 2**20,
    },
    "diff_gd": {"n_steps": 400, "step_size": 0.5, "tail": 0.1},
    "line_search_gd": {
        "n_steps": 600,
        "n_lengths": 40,
        "gain_clip": 3.0,
        "residual_clip": np.inf,
        "tail": 0.01,
    },
    "ftrl": LONG_RUN | {"n_parts": 10, "steps_per_part": 60},
    "graduated_gd": LONG_RUN | {"n_steps": 600},
    "heavy_ball": {"n_steps": 200, "residual_clip": np.inf},
    "iht": {
        "n_steps": 200,
        "step_size": 0.5,
        "residual_clip": np.inf,
        "threshold": 0.0,
    },
    "knowledge_transfer": {
        "teacher": "noisy_gd",
        "teacher_params": LONG_RUN | {"n_steps": 600},
    },
    "laplacian_smoothing": LONG_RUN | {"n_steps": 600, "batch_size": 2**31},
    "multistage": {"n_steps": 200, "residual_clip": np.inf},
    "nesterov": {"n_steps": 200, "residual_clip": np.inf},
    "noisy_gd": LONG_RUN | {"n_steps": 600},
    "noisy_newton": {"n_steps": 20, "moment_steps": 0, "lift": 0.0},
    "noisy_sgd": LONG_RUN | {"n_steps": 600, "batch_size": 2**31},
    "objective_perturbation": {},
    "online": LONG_RUN | {"bucket_size": 40},
    "output_perturbation": {},
    "peeling": {
        "n_steps": 200,
        "step_size": 0.5,
        "residual_clip": np.inf,
        "clip_decay": 1.0,
        "shortening": np.inf,
    },
    "srm": {
        "n_steps": 400,
        "batch_size": 2**31,
        "step_size": 0.5,
        "residual_clip": np.inf,
        "change_clip": np.inf,
        "tail": 0.1,
    },
    "tree_momentum": {"n_leaves": 4, "n_epochs": 500, "step_length": 2e-3, "tail": 0.1},
    "two_stage": {"refit": "noisy_gd", "refit_params": LONG_RUN | {"n_steps": 600}},
}
# Other modes that are put through the contract beside the usual one.
LAST = {"release": "last", "step_size": 0.15}
# A solver that reads every record once gets each of them that often, once in every
# bucket: the same objective, the same optimum.
COPIES = {"ftrl": 10, "online": 500, "tree_momentum": 4}
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
    copies: int = 1
    mode: str = ""
    selects: bool = True  # whether a sparse solver may use fewer features than all

    @property
    def loss(self):
        return ALL_LOSSES[self.loss_name]

    @property
    def objective(self):
        return LinearObjective(
            loss=self.loss,
            n_samples=self.n_samples,
            n_features=self.n_features,
            data_norm=self.data_norm,
            adjacency=self.adjacency,
            alpha=self.alpha,
            fit_intercept=self.fit_intercept,
            n_nonzero=self.n_nonzero,
        )

    @property
    def n_nonzero(self):
        """Of a sparse solver: two features, or all of them."""
        if not SOLVERS[self.key].is_sparse:
            return None
        return min(2, self.n_features) if self.selects else self.n_features

    @property
    def solver(self):
        return self.solver_with(self.params)

    @property
    def params(self):
        """The smallest honest parameters of the case's solver in its mode."""
        return SOLVER_PARAMS[self.key] | (LAST if self.mode == "last" else {})

    @property
    def params_to_the_end(self):
        """With these the solver reaches the optimum of `to_the_end`."""
        if self.mode == "last":
            return LAST | {"n_steps": 1000}
        return TO_THE_END[self.key]

    def solver_with(self, params, budget=BUDGET):
        """The case's solver with other parameters."""
        chosen = choose_solver(self.key, params, self.objective, budget)
        return chosen.solver

    def data(self, seed=0):
        """Rows (some longer than data_norm) and targets that suit the loss."""
        rng = np.random.default_rng(seed)
        n = self.n_samples // self.copies
        X = self.data_norm * rng.normal(size=(n, self.n_features))
        y = rng.integers(0, max(2, self.loss.n_outputs), n)
        return np.tile(X, (self.copies, 1)), np.tile(y.astype(float), self.copies)

    def source(self, seed=0):
        return MemorySource(*self.data(seed))

    @property
    def to_the_end(self):
        """The case as a strongly convex problem that its solver can bring to an end."""
        copies = COPIES.get(self.key, 1)
        n_samples = copies * self.n_samples
        return replace(
            self, alpha=0.4, n_samples=n_samples, copies=copies, selects=False
        )


def accepts(case, budget=BUDGET):
    """Whether the case's solver can do the case at all."""
    return not refusal(SOLVERS[case.key], case.objective, budget, **case.params)


ALL_CASES = [
    Case(key, loss, adjacency)
    for key in SOLVERS
    for loss in ALL_LOSSES
    for adjacency in ADJACENCIES
]
CASES = [case for case in ALL_CASES if accepts(case)]
CASES += [
    replace(case, mode="last", alpha=0.4)
    for case in CASES
    if case.key == "noisy_gd" and case.loss.is_convex
]
# One loss for each solver, mode and adjacency.
ONE_LOSS = list(
    {(case.key, case.mode, case.adjacency): case for case in reversed(CASES)}.values()
)[::-1]
PURE_CASES = [case for case in ALL_CASES if accepts(case, PURE)]


def case_id(case):
    mode = f"-{case.mode}" if case.mode else ""
    return f"{case.key}-{case.loss_name}-{case.adjacency}{mode}"


def make_ledger(folder, **changes):
    """A ledger in a new file of `folder`."""
    values = {"epsilon": 10.0, "delta": 1e-6} | changes
    return BudgetLedger(folder / "ledger.db", **values)


@dataclass(frozen=True)
class Outcome:
    """What came out of a door, and what it cost."""

    solution: Solution
    event: Event
    noise_multiplier: float


def run_case(case, *, source=None, noise=None, ledger=None, solver=None, budget=BUDGET):
    """Send one case through the only door."""
    solution, answers = release(
        solver or case.solver,
        source if source is not None else case.source(),
        case.objective,
        OpenDoor(budget, adjacency=case.adjacency, ledger=ledger, noise=noise),
        label="test",
        progress=Progress(),
    )
    return Outcome(solution, answers.event, answers.noise_multiplier)
