"""Both private factorisers on neighbours that differ in one value, or in one user."""

from __future__ import annotations

from functools import cached_property, partial

import numpy as np

from skdp._fit import Progress
from skdp.audit._exact import marked, replayed, verdict
from skdp.decomposition._ratings import Pattern, Ratings, RatingSource, Task
from skdp.decomposition._registry import PRIVATE_FORMS
from skdp.privacy import Budget, calibrate
from tests.decomposition.small import planned

LOW, HIGH = BOUNDS = (1.0, 5.0)
N_USERS, N_ITEMS = 8, 6
# Large, so that what was released before does not drown what is asked next.
BUDGET = Budget(20.0, 1e-6)
# No vectors: then every row that is multiplied with a residual has norm 1.
PARAMS = {
    "rating_value": [
        {"n_embedding": 0, "rank": 0, "n_rounds": 1},
        {"n_embedding": 2, "rank": 1},
    ],
    "user": [{"n_rounds": 3, "n_directions": 1}, {"n_rounds": 1, "n_directions": 0}],
}


class Case:
    """One private form with some parameters."""

    def __init__(self, form, params):
        self.unit, self.kind, self.params = form[1], PRIVATE_FORMS[form], params
        self.budget = BUDGET

    @cached_property
    def task(self):
        return Task(
            n_users=N_USERS,
            n_items=N_ITEMS,
            n_components=2,
            alpha=0.0,
            biases=True,
            unit=self.unit,
            rating_bounds=BOUNDS,
            pattern=_everything().pattern if self.unit == "rating_value" else None,
        )

    @cached_property
    def solver(self):
        return planned(self.kind, self.task, self.budget, **self.params)

    @cached_property
    def plan(self):
        return self.solver.plan(self.task)

    @cached_property
    def multiplier(self):
        return calibrate(partial(self.plan.event, relation=self.unit), self.budget)

    def run(self, ratings, noise):
        n_units = len(ratings) if self.unit == "rating_value" else N_USERS
        source = RatingSource(ratings, n_units)
        answers = marked(self.plan, source, self.multiplier, self.unit, noise)
        return self.solver.run(answers, self.task, Progress())

    def bounds(self, pair, seeds, **bugs):
        """Smallest and largest found over charged."""
        event, found = self.plan.event(self.multiplier, self.unit), []
        for seed in seeds:
            first, second, (one, other) = replayed(self.run, pair, seed, **bugs)
            assert np.array_equal(one.flat, other.flat)
            found.append(verdict(first, second, event))
        return min(x.total for x in found), max(x.largest for x in found)


def _everything(own=None):
    """Everybody rates everything, low and high in turn; one user as given."""
    users, items = np.divmod(np.arange(N_USERS * N_ITEMS), N_ITEMS)
    values = np.where((users + items) % 2, HIGH, LOW)
    if own is not None:
        stays = users > 0
        users, items, values = users[stays], items[stays], values[stays]
        users = np.append(users, np.zeros(len(own), dtype=int))
        items, values = np.append(items, list(own)), np.append(values, [*own.values()])
    pattern = Pattern(users.astype(np.int32), items.astype(np.int32), N_USERS, N_ITEMS)
    return Ratings(pattern, values.astype(float))


def _strangers():
    """What may take the place of a user's ratings."""
    yield {}
    yield {0: HIGH}
    yield {N_ITEMS - 1: LOW}
    yield dict.fromkeys(range(N_ITEMS), HIGH)
    yield {i: HIGH if i % 2 else LOW for i in range(N_ITEMS)}
    yield {i: LOW if i % 2 else HIGH for i in range(N_ITEMS)}


def pairs(unit):
    """Neighbours."""
    if unit == "rating_value":
        whole = _everything()
        for at in (0, 1, len(whole) - 1):
            values = whole.values.copy()
            values[at] = LOW + HIGH - values[at]
            yield whole, Ratings(whole.pattern, values)
        return
    strangers = [_everything(own) for own in _strangers()]
    for j, one in enumerate(strangers):
        for other in strangers[:j]:
            yield one, other


def candidates(form):
    """Audits of one form."""
    cases = [Case(form, params) for params in PARAMS[form[1]]]
    return [partial(case.bounds, pair) for case in cases for pair in pairs(form[1])]
