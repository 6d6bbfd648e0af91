"""Solvers on centred rows, on pairs of tables that come near to both their bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy.sparse import csr_array

from skdp.audit._replay import marked, replayed, verdict
from skdp.data import MemorySource
from skdp.objectives import LinearObjective
from skdp.privacy import Budget, calibrate
from skdp.solvers import SOLVERS, Progress
from skdp.solvers._preconditioned import Preconditioned, States
from tests.audit.linear import LOSSES, PARAMS
from tests.door import planned

BUDGET = Budget(1.0, 1e-6)
COLUMNS, N = 3, 6000
INNER = ("noisy_gd", "nesterov", "heavy_ball", "multistage")
SHARE = 0.3


def truth_values(rows):
    """States of columns of truth values, in which a record is wholly."""
    rows = np.asarray(rows)
    states = rows + 2 * np.arange(rows.shape[1])
    indptr = np.arange(len(rows) + 1) * rows.shape[1]
    shape = (len(rows), 2 * rows.shape[1])
    return csr_array((np.ones(rows.size), states.ravel(), indptr), shape=shape)


def states(columns=COLUMNS):
    """Columns of truth values: -1 or 1 each, over the root of their number."""
    basis = np.kron(np.eye(columns), [[-1.0], [1.0]]) / math.sqrt(columns)
    weights = np.full(columns, 1 / math.sqrt(2))
    return States((2,) * columns, csr_array(basis), weights)


def pair(loss, adjacency, change="opposite", n_alike=1):
    """Two tables; what is exchanged is the last of the records, or its label.

    They are balanced but for the last `n_alike`.
    """
    rng = np.random.default_rng(0)
    half = rng.integers(0, 2, size=(N // 2, COLUMNS))
    rows = np.vstack([half, 1 - half, np.ones((n_alike, COLUMNS), dtype=int)])
    top, low = (1.0, 0.0)
    if hasattr(loss, "target_bound"):
        top, low = loss.target_bound, -loss.target_bound
    y = np.resize([top, low], len(rows))
    there = np.ones(len(rows), dtype=bool)
    others, labels, left = rows.copy(), y.copy(), there.copy()
    if adjacency == "zero_out":
        left[-1] = False
    elif change == "opposite":
        others[-1] = 1 - rows[-1]
    else:
        y[-1], labels[-1] = top, low
    tables = (rows, y, there), (others, labels, left)
    return tuple(MemorySource(truth_values(x), t, p) for x, t, p in tables)


@dataclass(frozen=True)
class Case:
    """A solver on centred rows, on one loss, under one adjacency."""

    inner: str
    loss_name: str
    adjacency: str
    kind: type[Preconditioned] = Preconditioned
    fit_intercept: bool = True
    change: str = "opposite"
    clip: float = 0.5
    share: float = SHARE
    n_alike: int = 1
    n_intervals: int = 0

    @cached_property
    def objective(self):
        return LinearObjective(
            loss=LOSSES[self.loss_name],
            n_samples=N + self.n_alike,
            n_features=COLUMNS,
            data_norm=1.0,
            adjacency=self.adjacency,
            alpha=0.0,
            fit_intercept=self.fit_intercept,
        )

    @cached_property
    def pair(self):
        return pair(self.objective.loss, self.adjacency, self.change, self.n_alike)

    @cached_property
    def solver(self):
        params = PARAMS[self.inner]
        inner = planned(SOLVERS[self.inner], self.objective, BUDGET, **params)
        facts = {
            "inner": inner,
            "states": states(),
            "share": self.share,
            "n_intervals": self.n_intervals,
            "power": 0.5,
            "clip": self.clip,
        }
        return self.kind.planned(facts, self.objective, BUDGET)

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
    arrays = [solution.weights, centring.centre, centring.scale, centring.norm]
    if solution.targets is not None:
        arrays += [solution.targets.middle, solution.targets.half]
    return tuple(np.asarray(a).tobytes() for a in arrays), solution.noise_scale
