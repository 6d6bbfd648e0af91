"""L-BFGS only ever goes down; optimum and starts: `test_hamsi`."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from skdp.papers._hamsi import LBFGS
from tests.decomposition.small import fits, objective, some_ratings, task_of


@pytest.mark.parametrize("biases", [True, False])
def test_no_step_goes_up_and_it_leaves_the_saddle_at_the_origin(biases):
    ratings = some_ratings(60, 40, 900)
    task = task_of(ratings, k=2, alpha=0.0, biases=biases)
    plan = LBFGS(n_steps=60, start_scale=1e-4)
    found = [objective(ratings, each) for each in fits(plan, ratings, task)]
    pairs = itertools.pairwise(found)
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in pairs)
    assert found[-1] < 0.2 * found[0]


def test_it_ends_where_nothing_is_left_to_gain():
    ratings = some_ratings(12, 9, 60)
    found = fits(LBFGS(n_steps=2000), ratings, task_of(ratings, 1, alpha=1.0))
    assert len(found) < 2000
    assert np.isfinite(found[-1].flat).all()
