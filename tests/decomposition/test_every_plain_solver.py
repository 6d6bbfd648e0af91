"""What every factoriser without privacy keeps: threads, units, precision, odd ends."""

from __future__ import annotations

import numpy as np
import pytest

from skdp.decomposition._plain import FACTORIZERS
from skdp.decomposition._ratings import Ratings
from tests.decomposition.small import (
    fits,
    planned,
    ratings_of,
    root_mean_square,
    some_ratings,
    task_of,
)

every_solver = pytest.mark.parametrize("key", FACTORIZERS)
# They only read their pattern's size, which rules are made of.
SUBSETS = {"hamsi": {"n_subsets": 2}}


def fitted(key, ratings, n_steps=5, n_jobs=1, **facts):
    task = task_of(ratings, **facts)
    params = {"n_steps": n_steps} | SUBSETS.get(key, {})
    if task.n_users == 1:
        params.pop("n_subsets", None)
    return fits(planned(FACTORIZERS[key], task, **params), ratings, task, n_jobs)


@every_solver
@pytest.mark.parametrize("k", [1, 8])
def test_more_threads_change_nothing(key, k):
    ratings = some_ratings(n_users=700, n_items=300, n=4000, dtype=np.float32)
    one, two = (fitted(key, ratings, 3, n_jobs=n, k=k)[-1] for n in (1, 2))
    assert np.array_equal(one.flat, two.flat)
    assert one.flat.dtype == np.float32


@every_solver
def test_single_precision_agrees_with_double(key):
    ratings = some_ratings(n=700)
    single = Ratings(ratings.pattern, ratings.values.astype(np.float32))
    expected, found = (fitted(key, each)[-1] for each in (ratings, single))
    assert found.flat.dtype == np.float32
    np.testing.assert_allclose(found.flat, expected.flat, atol=2e-3)


@pytest.mark.parametrize("key", ["hamsi", "lbfgs", "sgd", "vb"])
@pytest.mark.parametrize("scale", [2.0**-30, 2.0**30])
def test_the_unit_of_ratings_does_not_matter(key, scale):
    ratings = some_ratings(n=700)
    scaled = Ratings(ratings.pattern, ratings.values * scale)
    facts = {"alpha": 0.0, "biases": key in ("sgd", "vb")}
    one, other = (fitted(key, each, **facts)[-1] for each in (ratings, scaled))
    found, wanted = root_mean_square(scaled, other), root_mean_square(ratings, one)
    assert found == pytest.approx(wanted * scale)


@every_solver
@pytest.mark.parametrize(
    ("dtype", "alpha", "k", "biases"),
    [
        (np.float32, 0.0, 0, True),
        (np.float32, 1e30, 2, True),
        (np.float64, 1e-12, 60, False),
        (np.float64, 1e30, 0, True),
    ],
)
def test_extremes_stay_finite(key, dtype, alpha, k, biases):
    ratings = some_ratings(dtype=dtype)
    facts = {"alpha": alpha, "k": k, "biases": biases}
    for found in fitted(key, ratings, **facts):
        assert np.isfinite(found.flat).all()
        assert np.isfinite(found.mean)


@every_solver
@pytest.mark.parametrize("n", [0, 1, 4])
def test_one_user_of_few_ratings(key, n):
    ids = np.arange(n)
    ratings = ratings_of(0 * ids, ids, 1.0 + ids, n_users=1, n_items=5)
    assert np.isfinite(fitted(key, ratings, k=2)[-1].flat).all()


@pytest.mark.parametrize("key", ["als", "sgd"])
def test_rows_without_ratings_are_zero(key):
    last = fitted(key, some_ratings())[-1]
    assert last.users[-1].tolist() == [0, 0, 0, 0, 1, 0, 0, 0]
    assert last.items[-1].tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
