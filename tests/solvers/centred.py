"""The descent on centred rows, on pairs of tables that come near to all its bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from scipy.sparse import csr_array

from skdp._fit import Progress
from skdp.audit._exact import marked, replayed, verdict
from skdp.losses import (
    CauchyLoss,
    GammaLoss,
    LogisticLoss,
    PoissonLoss,
    SoftmaxLoss,
    SquaredLoss,
)
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget, calibrate
from skdp.solvers._centred_descent import CentredDescent
from skdp.solvers._centred_rows import CentredNumbers, CentredStates, Numbers, States
from skdp.solvers._default_rules import Shares
from skdp.solvers._target_base import (
    target_range,
)
from skdp.tables._centred import Centring
from skdp.tables._memory import MemorySource

BUDGET = Budget(1.0, 1e-6)
COLUMNS, N = 3, 6000
LOSSES = {
    "logistic": LogisticLoss(),
    "softmax": SoftmaxLoss(3),
    "squared": SquaredLoss(2.0, target_bound=1.0),
    "cauchy": CauchyLoss(),
    "poisson": PoissonLoss(0.7),
    "gamma": GammaLoss(1.5),
}
SHARES = {
    "logistic": Shares(states=0.2, targets=0.2, gate=0.2, bias=0.1, errors=0.1),
    "softmax": Shares(states=0.2, targets=0.2, gate=0.2, bias=0.1, errors=0.1),
    "squared": Shares(
        states=0.2, targets=0.1, mean=0.1, gate=0.1, bias=0.1, errors=0.2
    ),
    "cauchy": Shares(states=0.2, targets=0.2, gate=0.2),
    "poisson": Shares(states=0.2, targets=0.1, mean=0.1, gate=0.2),
    "gamma": Shares(states=0.2, targets=0.2, gate=0.2),
}


def truth_values(rows):
    """States of columns of truth values, in which a record is wholly."""
    rows = np.asarray(rows)
    states = rows + 2 * np.arange(rows.shape[1])
    indptr = np.arange(len(rows) + 1) * rows.shape[1]
    shape = (len(rows), 2 * rows.shape[1])
    return csr_array((np.ones(rows.size), states.ravel(), indptr), shape=shape)


class ShortRows(CentredStates):
    """Rows are clipped to half of what the rules say, so that all are at the bound."""

    @property
    def centring(self):
        honest = super().centring
        return Centring(honest.centre, honest.scale, honest.norm / 2)


class ShortStates(States):
    """Declared columns whose rows are clipped so."""

    def centred(self, released, n_samples):
        honest = super().centred(released, n_samples)
        return ShortRows(self, honest.margins)


def states(columns=COLUMNS):
    """Columns of truth values: -1 or 1 each, over the root of their number."""
    basis = np.kron(np.eye(columns), [[-1.0], [1.0]]) / math.sqrt(columns)
    weights = np.full(columns, 1 / math.sqrt(2))
    return ShortStates((2,) * columns, csr_array(basis), weights)


class ShortCentre(CentredNumbers):
    """The same of rows of numbers."""

    @property
    def norm(self):
        return super().norm / 2


class ShortNumbers(Numbers):
    """Rows of numbers that are clipped so."""

    def centred(self, released, n_samples):
        honest = super().centred(released, n_samples)
        return ShortCentre(self, honest.mean, honest.squares)


def numbers(rows):
    """Rows of -1 and 1 over the root of their number: of norm 1."""
    return (2.0 * np.asarray(rows) - 1) / math.sqrt(COLUMNS)


# How rows are given, and what is public of them.
ROWS = {
    "declared": (truth_values, states),
    "dense": (numbers, lambda: ShortNumbers(COLUMNS, 1.0)),
    "sparse": (
        lambda rows: csr_array(numbers(rows)),
        lambda: ShortNumbers(COLUMNS, 1.0),
    ),
}


def pair(loss, adjacency, change="opposite", given=truth_values):
    """Two tables; what is exchanged is the last of the records, or its label.

    Labels are those of the majority of the columns, but for the last record's, which is
    on the wrong side of a row that is as long as any.
    """
    rng = np.random.default_rng(0)
    half = rng.integers(0, 2, size=(N // 2, COLUMNS))
    rows = np.vstack([half, 1 - half, np.ones((1, COLUMNS), dtype=int)])
    top, low = (1.0, 0.0)
    if loss.form.is_of_numbers:
        low, top = target_range(loss)
    y = np.where(rows.sum(axis=1) * 2 > COLUMNS, top, low)
    y[-1] = low
    there = np.ones(len(rows), dtype=bool)
    others, labels, left = rows.copy(), y.copy(), there.copy()
    if adjacency == "zero_out":
        left[-1] = False
    else:
        labels[-1] = top
        if change == "opposite":
            others[-1] = 1 - rows[-1]
    tables = (rows, y, there), (others, labels, left)
    return tuple(MemorySource(given(x), t, p) for x, t, p in tables)


@dataclass(frozen=True)
class Case:
    """The solver on one loss, under one adjacency."""

    loss_name: str
    adjacency: str
    kind: type[CentredDescent] = CentredDescent
    change: str = "opposite"
    rows: str = "declared"

    @cached_property
    def objective(self):
        return LinearObjective(
            loss=LOSSES[self.loss_name],
            n_samples=N + 1,
            n_features=COLUMNS,
            data_norm=1.0,
            adjacency=self.adjacency,
        )

    @cached_property
    def pair(self):
        given, _ = ROWS[self.rows]
        return pair(self.objective.loss, self.adjacency, self.change, given)

    @cached_property
    def solver(self):
        solver = self.kind.planned(
            {"rows": ROWS[self.rows][1]()}, self.objective, BUDGET
        )
        return replace(solver, shares=SHARES[self.loss_name])

    @cached_property
    def plan(self):
        return self.solver.plan(self.objective)

    @cached_property
    def multiplier(self):
        declare = partial(self.plan.event, relation=self.adjacency)
        return calibrate(declare, BUDGET)

    @property
    def event(self):
        return self.plan.event(self.multiplier, self.adjacency)

    def run(self, source, noise):
        answers = marked(self.plan, source, self.multiplier, self.adjacency, noise)
        return self.solver.run(answers, self.objective, Progress())

    def found(self, seed=0, **bugs):
        """What a transcript tells apart, over what is charged."""
        first, second, results = replayed(self.run, self.pair, seed, **bugs)
        one, other = (bytes_of(result) for result in results)
        assert one == other, "what is made of the same releases is not the same"
        return verdict(first, second, self.event)


def bytes_of(solution):
    """Everything that a solution tells."""
    centring = solution.centring
    arrays = [solution.weights, solution.constant, centring.centre, centring.norm]
    return tuple(np.asarray(a).tobytes() for a in arrays), solution.noise_scale
