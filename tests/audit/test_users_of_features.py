"""Exact audits of moments and of selected features, of users; broken twins.

Pairs of records, of which each is made a user of rows that are all alike: then what is
told of users is what is told of records. And pairs of users with any rows.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from skdp import DPSparseLogisticRegression
from skdp.papers._frank_wolfe import VertexPath
from skdp.sums import _moments
from skdp.sums._adder import whole_roots
from skdp.sums._moments import MomentSums, MomentWeights
from skdp.tables._memory import UserSource, equal_shares
from skdp.tables._views import EntriesClipped
from tests.audit import linear
from tests.audit.linear_pairs import N, pairs
from tests.audit.test_users import (
    OF_FEATURES,
    ROUNDING,
    as_records,
    by_place,
    of_two_ids,
    one_row_too_many,
)
from tests.audit.users import OF_RECORDS, RELATIONS, as_users, at_random, table

CASES = [
    *[(key, "logistic", "gaussian") for key in OF_FEATURES],
    *[(key, "squared", "gaussian") for key in (*OF_FEATURES, "adassp")],
    *[(key, "softmax", "gaussian") for key in ("iht", "peeling", "two_stage")],
    *[(key, "squared", "pure") for key in ("adassp", "frank_wolfe", "peeling")],
]
every_relation = pytest.mark.parametrize("relation", RELATIONS)
every_case = pytest.mark.parametrize(("key", "loss", "law"), CASES)


def cells(key, loss, law, relation):
    """One solver of records and of users, who are asked with as many steps."""
    of_records = linear.Cell(key, loss, OF_RECORDS[relation], law)
    return of_records, linear.Cell(key, loss, relation, law)


def told(cell, pair, **facts):
    """Smallest and largest found over charged, of users whose rows are alike."""
    return cell.bounds(tuple(as_users(own, **facts) for own in pair), (0,))


@every_relation
@every_case
def test_users_are_told_apart_as_records_are_and_by_no_more(key, loss, law, relation):
    of_records, of_users = cells(key, loss, law, relation)
    designs = pairs(of_records.objective)
    found = np.max([told(of_users, pair) for pair in designs], axis=0)
    records = np.max([of_records.bounds(pair, (0,)) for pair in designs], axis=0)
    assert found[1] <= 1 + ROUNDING
    assert np.all(found >= 0.998 * records)
    # Of one answer at least all that is charged is told.
    assert records[1] > 0.98


@every_relation
@every_case
def test_no_users_rows_tell_more(key, loss, law, relation):
    _, cell = cells(key, loss, law, relation)
    cell = replace(cell, is_long=True)
    rng = np.random.default_rng(0)
    bound = cell.objective.feature_bound
    for _ in range(12):
        users = at_random(cell.objective.loss, relation, rng, n_users=N)
        pair = tuple(EntriesClipped(table(own), bound) for own in users)
        assert cell.bounds(pair, (0,))[1] <= 1 + ROUNDING


@every_relation
@pytest.mark.parametrize("shares", [as_records, by_place, of_two_ids, one_row_too_many])
@pytest.mark.parametrize("key", [*OF_FEATURES, "adassp"])
def test_twins_whose_shares_are_too_large_are_found(key, shares, relation):
    of_records, of_users = cells(key, "squared", "gaussian", relation)
    designs = pairs(of_records.objective)
    assert max(told(of_users, pair, shares=shares)[1] for pair in designs) > 1.2


@pytest.mark.filterwarnings("ignore")
def test_what_reads_within_the_walls_says_that_rows_count_with_shares(monkeypatch):
    model = DPSparseLogisticRegression(
        classes=[0, 1], privacy_unit="user", solver="frank_wolfe", random_state=0
    )
    X, y, ids = np.eye(4), np.array([0, 1, 0, 1]), np.array([0, 0, 1, 2])
    model.fit(X, y, groups=ids)
    monkeypatch.setattr(VertexPath, "takes_shares", False)
    with pytest.raises(TypeError, match="weight to protect users"):
        model.fit(X, y, groups=ids)


# --------------------------------------------------------------------- moments in whole

LARGEST = int(_moments._LARGEST)
SUMS = MomentSums(MomentWeights(0.5, 1.0, 0.5), 3, 2, 1.0, 1.0)


def users_of(n_rows, seed=0):
    """Three users; the first has so many rows."""
    rng = np.random.default_rng(seed)
    codes = np.repeat([0, 1, 2], [n_rows, 3, 1])
    X = rng.normal(size=(len(codes), 2)) * rng.choice([0.3, 1.0, 5.0])
    return X, rng.uniform(-1.5, 1.5, len(codes)), codes


def source_of(X, y, codes):
    return UserSource(X, y, equal_shares(codes, 3), 3)


@pytest.mark.parametrize("n_rows", [1, 2, 3, 5, 7, 64, 999, 1024, 1500])
def test_squares_of_a_users_roots_never_add_up_to_more_than_one(n_rows):
    shares = equal_shares(np.zeros(n_rows, dtype=int), 1)
    source = UserSource(np.zeros((n_rows, 1)), shares, shares, 1)
    blocks = [whole_roots(block.present) for block in source.blocks()]
    roots = [int(root) for root in np.concatenate(blocks)]
    assert (1 - 2.0**-14) * LARGEST**2 < sum(x**2 for x in roots) <= LARGEST**2
    assert roots[0] == math.isqrt(LARGEST**2 // min(n_rows, 1024))


def test_twin_whose_roots_are_the_nearest_adds_up_to_more():
    over = [k * round(LARGEST / math.sqrt(k)) ** 2 > LARGEST**2 for k in range(2, 99)]
    assert 20 < sum(over) < 80


@pytest.mark.parametrize("n_rows", [1, 2, 7, 700])
def test_moments_are_means_in_any_order_and_storage(n_rows):
    X, y, codes = users_of(n_rows)
    found = SUMS.total(source_of(X, y, codes), None)
    order = np.random.default_rng(1).permutation(len(y))
    for stored in (X[order], csr_array(X[order]), np.asfortranarray(X[order])):
        source = source_of(stored, y[order], codes[order])
        for size in (1, 7, 5000):
            source.facts = replace(source.facts, largest_block=size)
            assert np.array_equal(SUMS.total(source, None), found)
    expected = np.zeros(SUMS.shape)
    for u in range(3):
        own = [
            MomentSums(SUMS.weights, 1, 2, 1.0, 1.0).total(
                source_of(X[[i]], y[[i]], np.array([0])), None
            )
            for i in np.flatnonzero(codes == u)
        ]
        expected += np.mean(own, axis=0)
    assert np.allclose(found, expected, rtol=0, atol=1e-3 * (n_rows > 100) + 2e-5)


@every_relation
def test_no_user_adds_more_to_moments_than_the_bound(relation):
    """Of rows that are alike, where the largest are, and of rows that are not."""
    bound, rng, far = SUMS.bound().under(relation), np.random.default_rng(0), 0.0

    def added(n_rows, spread):
        angles = rng.uniform(0, 2 * np.pi) + spread * rng.normal(size=n_rows)
        X = 9 * np.column_stack([np.cos(angles), np.sin(angles)])
        y = rng.choice([-9.0, 9.0]) * np.where(rng.random(n_rows) < spread, -1, 1)
        return SUMS.total(source_of(X, y, np.zeros(n_rows, dtype=int)), None)

    for _ in range(200):
        sizes = rng.integers(1, 9, 2)
        one, other = (added(size, rng.choice([0.0, 0.5])) for size in sizes)
        moved = one if relation == "zero_out_user" else one - other
        far = max(far, float(np.linalg.norm(moved)))
        assert far <= bound
    assert far > 0.95 * bound
