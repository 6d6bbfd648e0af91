"""Stochastic gradient descent."""

from __future__ import annotations

import numpy as np
import pytest

from skdp.decomposition._plain import ALS, SGD, _Blocks
from tests.decomposition.small import fits, objective, some_ratings, task_of


@pytest.mark.parametrize("biases", [True, False])
def test_the_objective_approaches_that_of_least_squares(biases):
    ratings = some_ratings(n=700)
    task = task_of(ratings, k=3, biases=biases)
    best = objective(ratings, fits(ALS(n_steps=300), ratings, task)[-1])
    start, *_, last = fits(SGD(n_steps=1000, step_size=0.3), ratings, task)
    assert objective(ratings, last) < best + 0.02 * (objective(ratings, start) - best)


def test_blocks_of_a_stratum_do_not_touch_and_hold_every_rating_once():
    n, ratings = 5, some_ratings(n=700)
    blocks = _Blocks(ratings.pattern, n, np.random.RandomState(0))
    assert sorted(blocks.order) == list(range(len(ratings)))
    seen = []
    for shift in range(n):
        users, items = [], []
        for b in range(n):
            span = range(*blocks.span(b, (b + shift) % n))
            seen += span
            users.append({blocks.users[j] for j in span})
            items.append({blocks.items[j] for j in span})
        for ids in users, items:
            assert sum(map(len, ids)) == len(set.union(*ids))
    assert sorted(seen) == list(range(len(ratings)))
