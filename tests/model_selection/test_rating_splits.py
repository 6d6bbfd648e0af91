"""Splitters for ratings."""

from __future__ import annotations

import numpy as np
import pytest

from skdp.model_selection import RatingKFold, UserKFold
from tests.decomposition.ratings import N_USERS, low_rank_ratings

X, _ = low_rank_ratings()


@pytest.mark.parametrize("kind", [RatingKFold, UserKFold])
def test_every_row_is_scored_once(kind):
    tests = []
    for train, test in kind(4, random_state=0).split(X):
        assert sorted([*train, *test]) == list(range(len(X)))
        tests.extend(test)
    assert sorted(tests) == list(range(len(X)))
    assert kind(4).get_n_splits() == 4


def test_rating_folds_leave_every_user_something():
    pairs = np.concatenate([X, [[99, 1], [99, 2], [98, 5]]])
    for train, test in RatingKFold(5, random_state=1).split(pairs):
        several = [u for u in set(pairs[test, 0]) if (pairs[:, 0] == u).sum() > 1]
        assert set(several) <= set(pairs[train, 0])
        counts = np.bincount(X[:, 0]) // 5
        assert (np.bincount(pairs[test, 0])[:N_USERS] >= counts).all()


def test_user_folds_share_no_user():
    for train, test in UserKFold(5, random_state=1).split(X):
        assert not set(X[train, 0]) & set(X[test, 0])


def test_a_users_fold_depends_on_nobody_else():
    def folds(pairs):
        splits = enumerate(UserKFold(5, random_state=1).split(pairs))
        return {u: k for k, (_, test) in splits for u in pairs[test, 0]}

    whole = folds(X)
    for user in (0, N_USERS // 2):
        fewer = folds(X[X[:, 0] != user])
        assert fewer == {u: k for u, k in whole.items() if u != user}
    # Broken twin: folds that are drawn by the users' order move others.
    order = np.random.RandomState(1).permutation(N_USERS)
    by_order = {u: order[place] % 5 for place, u in enumerate(range(N_USERS))}
    later = {u: order[place] % 5 for place, u in enumerate(range(1, N_USERS))}
    assert later != {u: by_order[u] for u in later}
    sizes = np.bincount(list(whole.values()), minlength=5)
    assert sizes.min() > 0


def test_splits_do_not_depend_on_ratings_and_repeat():
    first = [test.tolist() for _, test in RatingKFold(3, random_state=2).split(X)]
    again = [
        test.tolist()
        for _, test in RatingKFold(3, random_state=2).split(X, np.zeros(len(X)))
    ]
    assert first == again
    other = [test.tolist() for _, test in RatingKFold(3, random_state=3).split(X)]
    assert first != other


def test_bad_numbers_of_splits():
    with pytest.raises(ValueError, match="'n_splits'"):
        list(RatingKFold(1).split(X))
