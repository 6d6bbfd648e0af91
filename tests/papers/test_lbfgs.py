"""L-BFGS only ever goes down; optimum, starts and threads: `test_hamsi`."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from skdp.papers._hamsi import LBFGS
from tests.decomposition.matrices import objective_of, ratings_of, task_of
from tests.decomposition.small import fits


def values(ratings, task, **settings):
    found = fits(LBFGS(**settings), ratings, task)
    return [objective_of(ratings, factors) for factors in found]


def test_no_step_goes_up():
    ratings = ratings_of(60, 40, 0.4)
    found = values(ratings, task_of(ratings, alpha=0.3), n_steps=60)
    assert len(found) > 20
    pairs = itertools.pairwise(found)
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in pairs)
    assert found[-1] < 0.9 * found[5]


@pytest.mark.parametrize("biases", [True, False])
def test_it_leaves_the_saddle_at_the_origin(biases):
    ratings = ratings_of(60, 40, 0.4)
    task = task_of(ratings, n_components=2, alpha=0.0, biases=biases)
    found = values(ratings, task, n_steps=60, start_scale=1e-4)
    assert found[-1] < 0.1 * found[0]


def test_it_ends_where_nothing_is_left_to_gain():
    ratings = ratings_of(12, 9, 0.8)
    found = values(ratings, task_of(ratings, 1, alpha=1.0), n_steps=2000)
    assert len(found) < 2000
    assert np.isfinite(found[-1])
