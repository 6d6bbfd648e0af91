"""Solvers on pairs of tables that differ in all rows of one user."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from skdp._fit import Progress
from skdp.audit._exact import marked, replayed, verdict
from skdp.losses._objective import LinearObjective
from skdp.privacy import calibrate
from skdp.solvers._registry import SOLVERS
from skdp.tables._memory import UserSource, equal_shares
from skdp.tables._views import EntriesClipped
from tests.audit.linear import ALL_LOSSES, BUDGETS, PARAMS
from tests.door import planned
from tests.solvers.neighbours import random_targets

N_USERS, D, NORM = 5, 2, 2.0
RELATIONS = ("replace_user", "zero_out_user")
# What of records each is of users.
OF_RECORDS = {"replace_user": "replace_one", "zero_out_user": "zero_out"}
TAKES_USERS = tuple(key for key, kind in SOLVERS.items() if kind.takes_users)


@dataclass(frozen=True)
class Cell:
    """One solver on one loss under one relation of users, within one budget."""

    key: str
    loss_name: str
    relation: str
    law: str = "gaussian"
    is_long: bool = False
    n_users: int = N_USERS
    user_clip: float | None = None

    @cached_property
    def objective(self):
        return LinearObjective(
            loss=ALL_LOSSES[self.loss_name],
            n_samples=self.n_users,
            n_features=D,
            data_norm=NORM,
            adjacency=self.relation,
        )

    @cached_property
    def solver(self):
        params = {} if self.is_long else PARAMS[self.key]
        if self.user_clip is not None:
            params = {**params, "user_clip": self.user_clip}
        return planned(SOLVERS[self.key], self.objective, BUDGETS[self.law], **params)

    @cached_property
    def plan(self):
        return self.solver.plan(self.objective)

    @cached_property
    def multiplier(self):
        declare = partial(self.plan.event, relation=self.relation)
        return calibrate(declare, BUDGETS[self.law])

    def run(self, source, noise):
        answers = marked(self.plan, source, self.multiplier, self.relation, noise)
        return self.solver.run(answers, self.objective, Progress())

    def found(self, pair, seed=0, **bugs):
        """What a transcript tells apart, over what is charged."""
        first, second, results = replayed(self.run, pair, seed, **bugs)
        one, other = results
        assert one.weights.tobytes() == other.weights.tobytes()
        event = self.plan.event(self.multiplier, self.relation)
        return verdict(first, second, event)


def table(users, shares=equal_shares):
    """Users, each a list of rows with targets, as a source; empty lists are null."""
    rows = [(u, x, y) for u, own in enumerate(users) for x, y in own]
    codes = np.array([u for u, _, _ in rows], dtype=np.int64)
    X = np.array([x for _, x, _ in rows], dtype=float).reshape(-1, D)
    y = np.array([y for _, _, y in rows], dtype=float)
    return UserSource(X, y, shares(codes, len(users)), len(users), codes)


def in_one_direction(loss, relation, n_rows=3, instead=2):
    """A user whose rows are all the worst one, and the opposite, or nothing.

    All others are nobody, so that noise leads the weights.
    """
    row, (low, high) = np.array([1.0, -1.0]) * NORM, labels(loss)
    first = [(row, low)] * n_rows
    # The same side of the intercept, so that rows and labels add up.
    second = [(row, high)] * instead if relation == "replace_user" else []
    nobody = [[] for _ in range(N_USERS - 1)]
    return [*nobody, first], [*nobody, second]


def as_users(source, seed=0, shares=equal_shares):
    """A table whose records are users of up to four rows each, all of them alike."""
    if isinstance(source, EntriesClipped):
        users = as_users(source._source, seed, shares)
        return EntriesClipped(users, source._bound)
    block = source.whole()
    n_users = len(block.y)
    n_rows = np.random.default_rng(seed).integers(1, 5, n_users)
    n_rows[-1] = 4
    if block.present is not None:
        n_rows[~block.present] = 0
    codes = np.repeat(np.arange(n_users), n_rows)
    own = shares(codes, n_users)
    return UserSource(block.X[codes], block.y[codes], own, n_users, codes)


def labels(loss):
    """Two targets as far apart as can be."""
    if hasattr(loss, "target_bound"):
        return -loss.target_bound, loss.target_bound
    return 0.0, 1.0


def at_random(loss, relation, rng, most_rows=6, n_users=N_USERS):
    """Users with any rows, the last of whom has any others, or none."""

    def user():
        size = int(rng.integers(0, most_rows + 1))
        X = rng.normal(size=(size, D)) * NORM * rng.choice([0.1, 1.0, 10.0])
        return list(zip(X, random_targets(loss, rng, size), strict=True))

    users = [[*user(), (np.ones(D), labels(loss)[0])] for _ in range(n_users)]
    other = user() if relation == "replace_user" else []
    return users, [*users[:-1], other]
