"""Every solver on pairs of tables, of records and of users, by its plan."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial

from skdp._fit import Progress
from skdp.audit._exact import marked, replayed, verdict
from skdp.losses import (
    CauchyLoss,
    GammaLoss,
    HuberHingeLoss,
    LogisticLoss,
    PoissonLoss,
    QuantileLoss,
    SigmoidLoss,
    SoftmaxLoss,
    SquaredLoss,
)
from skdp.losses._classification import WeightedLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget, calibrate
from skdp.solvers import SOLVERS
from tests.audit.linear_pairs import D, N, pairs
from tests.audit.users import OF_RECORDS, TAKES_USERS, as_users
from tests.door import planned, refusal

LOSSES = {
    "logistic": LogisticLoss(),
    "softmax": SoftmaxLoss(3),
    "squared": SquaredLoss(residual_bound=1.0, target_bound=1.0),
    "hinge": HuberHingeLoss(h=0.5),
}
ALL_LOSSES = LOSSES | {"sigmoid": SigmoidLoss(), "cauchy": CauchyLoss()}
ALL_LOSSES["weighted"] = WeightedLoss(LogisticLoss(), (0.2, 1.0))
ALL_LOSSES |= {
    "poisson": PoissonLoss(math.log(2)),
    "quantile": QuantileLoss(0.9),
    "gamma": GammaLoss(2.0),
}
BUDGETS = {"gaussian": Budget(1.0, 1e-6), "pure": Budget(1.0, 0.0)}
# Few, short steps: the weights stay where a pair is the worst.
DESCENT = {"n_steps": 3, "step_size": 1e-6}
PARAMS = {
    "adassp": {},
    "bolt_on": {"n_passes": 2, "batch_size": 4, "step_size": 1e-3},
    "diff_gd": DESCENT,
    "frank_wolfe": {"n_steps": 2, "l1_radius": 1e-3},
    "ftrl": {"n_parts": 3, "steps_per_part": 2, "step_size": 1e-6},
    "graduated_gd": DESCENT,
    "heavy_ball": {**DESCENT, "strong_convexity": 0.1},
    "iht": {"n_steps": 2, "step_size": 1e-6},
    "knowledge_transfer": {"teacher": "noisy_gd", "teacher_params": DESCENT},
    "laplacian_smoothing": DESCENT,
    "line_search_gd": {"n_steps": 3, "longest_step": 1e-6, "gain_clip": 0.01},
    "multistage": {**DESCENT, "strong_convexity": 0.1},
    "nesterov": {**DESCENT, "strong_convexity": 0.1},
    "noisy_gd": DESCENT,
    "noisy_newton": {"n_steps": 1, "moment_steps": 0},
    "online": {"bucket_size": 2, "step_size": 1e-6},
    "output_perturbation": {"strength": 50.0},
    "peeling": {"n_steps": 3, "step_size": 1e-6, "shortening": math.inf},
    "srm": DESCENT,
    "tree_momentum": {"n_leaves": 3, "n_epochs": 2, "step_length": 1e-6},
    "two_stage": {"refit": "noisy_gd", "refit_params": DESCENT},
}
# At delta = 0 another solver has to fit the columns selected.
PURE_PARAMS = {
    "knowledge_transfer": {
        "teacher": "online",
        "teacher_params": {"bucket_size": 2, "step_size": 1e-6},
    },
    "two_stage": {
        "refit": "online",
        "refit_params": {"bucket_size": 2, "step_size": 1e-6},
    },
}
# Solvers whose steps are left to the rule as well, so that the weights go somewhere.
LONG_LOSSES = ("logistic", "squared")
# Of which the first record is in most of what is released.
FIRST = ("ftrl", "tree_momentum")
SHORT = ("diff_gd", "heavy_ball", "multistage", "nesterov", "noisy_gd", "noisy_newton")
SHORT += ("online", "srm")


@dataclass(frozen=True)
class Cell:
    """One solver on one loss under one adjacency, within one budget.

    `is_long` leaves steps to the solver's rule, so that the weights go somewhere.
    """

    key: str
    loss_name: str
    adjacency: str
    law: str
    is_long: bool = False

    @property
    def budget(self):
        return BUDGETS[self.law]

    @cached_property
    def objective(self):
        is_sparse = SOLVERS[self.key].is_sparse
        return LinearObjective(
            loss=ALL_LOSSES[self.loss_name],
            n_samples=N,
            n_features=D,
            data_norm=2.0,
            feature_bound=1.5 if is_sparse else math.inf,
            adjacency=self.adjacency,
            fit_intercept=True,
            n_nonzero=1 if is_sparse else None,
        )

    @property
    def of_records(self):
        """The objective under the relation of records."""
        relation = OF_RECORDS.get(self.adjacency, self.adjacency)
        return replace(self.objective, adjacency=relation)

    @property
    def params(self):
        given = PARAMS[self.key]
        if self.law == "pure":
            given = PURE_PARAMS.get(self.key, given)
        return {} if self.is_long and self.key in SHORT else given

    @property
    def is_possible(self):
        kind = SOLVERS[self.key]
        return not refusal(kind, self.objective, self.budget, **self.params)

    @cached_property
    def solver(self):
        kind = SOLVERS[self.key]
        return planned(kind, self.objective, self.budget, **self.params)

    @cached_property
    def plan(self):
        return self.solver.plan(self.objective)

    @cached_property
    def multiplier(self):
        declare = partial(self.plan.event, relation=self.adjacency)
        return calibrate(declare, self.budget)

    @property
    def event(self):
        return self.plan.event(self.multiplier, self.adjacency)

    def run(self, source, noise):
        answers = marked(self.plan, source, self.multiplier, self.adjacency, noise)
        return self.solver.run(answers, self.objective, Progress())

    def bounds(self, pair, seeds, **bugs):
        """Smallest and largest found over charged, of some transcripts on a pair."""
        low, high = math.inf, 0.0
        for seed in seeds:
            first, second, results = replayed(self.run, pair, seed, **bugs)
            one, other = results
            # What is made of the same releases is the same.
            assert one.weights.tobytes() == other.weights.tobytes()
            assert one.noise_scale == other.noise_scale
            found = verdict(first, second, self.event)
            low, high = min(low, found.total), max(high, found.largest)
        return low, high


def candidates(key, relation, law):
    """Audits of one solver: every loss that it takes, every pair.

    Users are records of rows that are all alike: what is told of them is the same.
    """
    # `ftrl` takes users of streams alone.
    if relation in OF_RECORDS and (key not in TAKES_USERS or key == "ftrl"):
        return []
    cells = [Cell(key, loss, relation, law) for loss in ALL_LOSSES]
    if key in SHORT:
        cells += [Cell(key, loss, relation, law, is_long=True) for loss in LONG_LOSSES]
    return [
        partial(_bounds, cell, pair)
        for cell in cells
        if cell.is_possible
        for pair in pairs(cell.of_records, is_first=key in FIRST)
    ]


def _bounds(cell, pair, seeds, **bugs):
    if cell.adjacency in OF_RECORDS:
        pair = tuple(as_users(source) for source in pair)
    return cell.bounds(pair, seeds, **bugs)
