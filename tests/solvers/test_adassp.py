"""adassp: its sums, its sensitivity under both adjacencies, its post-processing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array

from skdp.losses import SquaredLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget
from skdp.solvers._adassp import AdaSSP
from skdp.sums._moments import _LARGEST as LARGEST
from skdp.sums._moments import MomentSums, MomentWeights, whole_rows
from skdp.tables._memory import MemorySource
from tests import door

LOSS = SquaredLoss(2.0, target_bound=1.0)
BUDGET = Budget(1.0, 1e-6)
OBJECTIVE = LinearObjective(
    loss=LOSS, n_samples=300, n_features=4, data_norm=1.0, adjacency="zero_out"
)
ADJACENCIES = ("replace_one", "zero_out")
by_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES)
WEIGHTS = [(0.0, 1.0), (0.0, 0.2), (0.0, 3.0), (0.5, 1.0), (1.0, 1.0), (0.3, 2.5)]
WEIGHTS += [(1.0, 0.1)]
by_weights = pytest.mark.parametrize(("t", "k"), WEIGHTS)


def contribution(x, y, t, k, data_norm=1.0, target_bound=1.0, h=0.0):
    """The definition, for one record."""
    u = x / max(data_norm, np.linalg.norm(x))
    v = float(np.clip(y, -target_bound, target_bound)) / target_bound
    above = np.triu_indices(len(u), 1)
    outer = np.outer(u, u)
    parts = [np.diag(outer), math.sqrt(2) * outer[above], k * u * v]
    if t > 0:
        parts += [math.sqrt(2) * t * u, [k * t * v]]
    if h > 0:
        parts += [[h * v**2]]
    return np.concatenate(parts)


def sums_of(objective, t, k):
    return MomentSums(
        MomentWeights(t, k),
        n_samples=objective.n_samples,
        n_features=objective.n_features,
        data_norm=objective.data_norm,
        target_bound=objective.loss.target_bound,
    )


def test_more_rows_than_a_product_holds_add_up_exactly():
    """Against integers of any size; a block of twice as many rows would round."""
    n = 5000
    X, y = np.full((n, 2), 0.7071), np.full(n, 0.3)
    X[::2, 1] = 0.123
    objective = replace(OBJECTIVE, n_samples=n, n_features=2)
    source = MemorySource(X, y)
    source.facts = replace(source.facts, largest_block=n)
    query = sums_of(objective, 0.5, 1.0)
    q = whole_rows(X, 1.0).astype(int).astype(object)
    exact = np.dot(q.T, q)
    (sums,) = query.whole_sums(source, None)
    upper = np.array([exact[0, 0], exact[1, 1], exact[0, 1]])
    assert np.array_equal(sums.value()[:3], upper.astype(float))
    # Broken twin: one product of all rows; whole numbers beyond 2^53 are lost.
    odd = np.full((n, 1), LARGEST - 1)
    assert int((odd.T @ odd)[0, 0]) != n * int(LARGEST - 1) ** 2


ENTRIES = [0.0, 5e-324, 1e-9, 0.1, 0.5, 1 / math.sqrt(2), 1.0, 3.0, 1e4, 1e155, 1.7e308]


@pytest.mark.parametrize("bound", [1.0, 0.3, 1e-305, 1e300])
def test_no_row_is_longer_than_the_bound_in_whole_numbers(bound):
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        signs = rng.choice([-1, 1], size=(4000, 5)) * min(bound, 1.0)
        rows = signs * rng.choice(ENTRIES, size=(4000, 5))
        rows[:500] = rng.normal(size=(500, 5))
        dense, sparse = whole_rows(rows, bound), whole_rows(csr_array(rows), bound)
    assert np.array_equal(dense, sparse.toarray())
    squares = [sum(int(entry) ** 2 for entry in row) for row in dense]
    assert 0.999 * 4**21 < max(squares) <= 4**21
    if bound == 1.0:
        assert len(find_long(rows)) > 100  # broken twin: rounding alone


def find_long(rows):
    """Unit rows that are too long in whole numbers, if these are merely the nearest."""
    rows = rows[:500] / np.linalg.norm(rows[:500], axis=1)[:, None]
    nearest = np.rint(rows * LARGEST).astype(int)
    return [q for q in nearest if sum(int(entry) ** 2 for entry in q) > 4**21]


def farthest(adjacency, t, k, seed=0, d=3, h=0.0):
    """Largest difference found by climbing from random and adversarial records."""
    rng = np.random.default_rng(seed)
    largest = 0.0
    for start in range(24):
        x, z = rng.normal(size=(2, d)) * rng.choice([0.3, 1.0, 3.0])
        if start % 3 == 1:
            z = -x + 0.1 * z
        if start % 3 == 2:
            z = rng.normal() * np.linalg.norm(x) * np.eye(d)[0]
        ya, yb = rng.choice([-1.0, 1.0], 2)

        def negative(p, ya=ya, yb=yb):
            difference = contribution(p[:d], ya * np.cos(p[-2]), t, k, h=h)
            if adjacency == "replace_one":
                other = contribution(p[d : 2 * d], yb * np.cos(p[-1]), t, k, h=h)
                difference = difference - other
            return -float(np.linalg.norm(difference))

        point = np.concatenate([x, z, rng.uniform(-1, 1, 2)])
        found = minimize(negative, point, method="BFGS", options={"maxiter": 200})
        largest = max(largest, -found.fun)
    return largest


@by_adjacency
@by_weights
def test_search_never_exceeds_the_sensitivity_and_attains_it(adjacency, t, k):
    stated = MomentWeights(t, k).bound().under(adjacency)
    found = farthest(adjacency, t, k)
    assert 0.999 * stated <= found <= stated


@by_adjacency
@pytest.mark.parametrize("h", [0.5, 3.0])
def test_search_with_squares_of_targets_never_exceeds_the_sensitivity(adjacency, h):
    stated = MomentWeights(0.5, 1.0, h).bound().under(adjacency)
    found = farthest(adjacency, 0.5, 1.0, h=h)
    least = 0.999 if adjacency == "zero_out" else 0.8
    assert least * stated <= found <= stated
    # The broken twin leaves them out, which replace_one shows if they weigh much.
    twin = MomentWeights(0.5, 1.0).bound().under(adjacency)
    assert found > 1.01 * twin or (adjacency, h) == ("replace_one", 0.5)


TWINS = {
    "half of replace_one": ("zero_out", lambda w: w.bound().under("replace_one") / 2),
    "zero_out for both": ("replace_one", lambda w: w.bound().under("zero_out")),
    "no intercept": ("zero_out", lambda w: math.sqrt(1 + w.target**2)),
    "angle forgotten": (
        "replace_one",
        lambda w: math.sqrt(2 + 2 * (2 * w.intercept**2 + w.target**2)),
    ),
}


@pytest.mark.parametrize("twin", TWINS)
def test_broken_sensitivities_are_found_out(twin):
    adjacency, stated = TWINS[twin]
    assert farthest(adjacency, 0.5, 1.0) > 1.01 * stated(MomentWeights(0.5, 1.0))


def test_refusals_have_reasons():
    for facts, reason in (
        ({"loss": SquaredLoss(2.0)}, "bound on the targets"),
        ({"n_features": 4000}, "noisy_gd"),
    ):
        refused = door.refusal(AdaSSP, replace(OBJECTIVE, **facts), BUDGET)
        assert reason in refused
