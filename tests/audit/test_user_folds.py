"""Fits on folds of users cost what they are charged; on folds of rows they do not.

Two neighbouring data sets are split in the same way. The first query of each fit reads
the training part alone, so its change over its sensitivity is what the split adds: 1 at
most is what a ledger counts. Nothing here is random but the data, whose seed is fixed.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, KFold, cross_val_score

from skdp import BudgetLedger, DPMatrixFactorization
from skdp.decomposition._user_sums import UserCounts
from skdp.model_selection import RatingKFold, UserKFold

N_USERS, N_ITEMS = 150, 60
_RNG = np.random.default_rng(0)
USERS = [
    {int(i): float(_RNG.integers(1, 6)) for i in _RNG.permutation(N_ITEMS)[:n_ratings]}
    for n_ratings in _RNG.integers(4, 13, N_USERS)
]


def first_queries(users, cv, monkeypatch, folder):
    """Of every fit of a cross-validation, and their sensitivity."""
    seen = []
    asked = UserCounts.total

    def total(self, *args):
        seen.append((asked(self, *args), self.kind.sensitivity))
        return seen[-1][0]

    X = [(u, i) for u, own in enumerate(users) for i in own]
    y = [r for own in users for r in own.values()]
    ledger = BudgetLedger(
        folder / "books.db", epsilon=100, delta=1e-4, adjacency="user", unit="user"
    )
    model = DPMatrixFactorization(
        privacy_unit="user",
        rating_bounds=(1, 5),
        n_users=N_USERS,
        item_ids=range(N_ITEMS),
        ledger=ledger,
    )
    groups = [pair[0] for pair in X] if isinstance(cv, GroupKFold) else None
    with monkeypatch.context() as patch:
        patch.setattr(UserCounts, "total", total)
        cross_val_score(model, X, y, cv=cv, groups=groups, error_score="raise")
    return seen


def changes(cv, monkeypatch, folder, who=0):
    """Of each fit, if all but one of a user's ratings are gone, and if all are."""
    base = first_queries(USERS, cv, monkeypatch, folder)
    worst = np.zeros(len(base))
    for instead in ({3: 1.0}, {}):
        others = [*USERS[:who], instead, *USERS[who + 1 :]]
        neighbour = first_queries(others, cv, monkeypatch, folder)
        found = [
            np.linalg.norm(one - other) / sensitivity
            for (one, sensitivity), (other, _) in zip(base, neighbour, strict=True)
        ]
        worst = np.maximum(worst, found)
    return worst


@pytest.mark.parametrize("who", [0, N_USERS - 1])
def test_fits_on_folds_of_users_cost_what_they_are_charged(who, monkeypatch, tmp_path):
    found = changes(UserKFold(5, random_state=0), monkeypatch, tmp_path, who)
    assert found.max() <= 1
    assert (found == 0).sum() == 1  # he is in one test part


@pytest.mark.parametrize(
    ("cv", "least"),
    [
        (5, 1.1),
        (KFold(5, shuffle=True, random_state=0), 3),
        (GroupKFold(5), 2),
        (RatingKFold(5, random_state=0), 3),
    ],
)
def test_folds_that_depend_on_the_data_are_caught(cv, least, monkeypatch, tmp_path):
    found = changes(cv, monkeypatch, tmp_path)
    assert math.sqrt(np.mean(found**2)) > least
