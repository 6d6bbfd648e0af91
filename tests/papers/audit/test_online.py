"""Attack online through one bucket and through all that is released after it.

The attacker knows both neighbouring data sets and sees every released gradient sum.
Runs are seeded: a pass stays a pass. With fresh seeds each bound would exceed the claim
with probability below 1e-3 by construction (99.9 % confidence), and far below that for
these sizes.
"""

from __future__ import annotations

import numpy as np
import pytest

from skdp.audit._result import epsilon_lower_bound
from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget, calibrate
from skdp.solvers._registry import choose_solver
from skdp.sums._floating import GradientSum
from skdp.tables._memory import MemorySource
from skdp.tables._views import buckets
from tests import door
from tests.spies import SpyNoise

# The exact audits of tests/audit/test_replay.py are what `make test` runs.
pytestmark = pytest.mark.slow

# A large delta keeps the sample small: the distinguishing events are not rare.
BUDGET, PURE = Budget(1.0, 0.05), Budget(1.0, 0.0)
RUNS = 1000
LOSS = LogisticLoss()
N, SIZE = 5, 2  # buckets of two, two and one


class HalfTheNoise(SpyNoise):
    """The planted bug that every audit must catch."""

    def __init__(self, seed):
        super().__init__(seed=seed, shrink=0.5)


class ShortBucketsAveraged(SpyNoise):
    """The planted bug of dividing the last bucket's sum by its own size."""

    def _scaled(self, query):
        return query * (SIZE if len(self.draws) % 3 == 2 else 1)

    def gaussian(self, query, **scale):
        return super().gaussian(self._scaled(query), **scale)

    def spherical(self, query, **scale):
        return super().spherical(self._scaled(query), **scale)


def pair(adjacency, data_norm, position):
    """Two data sets that differ at one position by the full sensitivity."""
    X = np.zeros((N, 2))
    X[:, 1] = data_norm
    X[position] = [data_norm, 0.0]
    y = np.array([1.0, 0.0, 1.0, 0.0, 1.0])
    if adjacency == "zero_out":
        present = np.arange(N) != position
        return MemorySource(X, y), MemorySource(X, y, present)
    other = y.copy()
    other[position] = 1 - y[position]
    return MemorySource(X, y), MemorySource(X, other)


def likelihood(noise, means):
    """Log-density of a run's releases, up to a constant."""
    total = 0.0
    for draw, mean in zip(noise.draws, means, strict=True):
        distance = np.sqrt(np.sum((draw.released - mean) ** 2))
        spherical = draw.law == "spherical"
        total -= (
            distance / draw.sigma if spherical else (distance / draw.sigma) ** 2 / 2
        )
    return total


def scores(truth, sources, solver, objective, budget, kind, seeds):
    """Log-likelihood ratios of everything released when `truth` was the data."""
    z = calibrate(lambda z: door.event_of(solver, z, objective), budget)
    zero = np.zeros((2, 1))
    means = [
        [GradientSum(bucket, objective)(zero) for bucket in buckets(source, SIZE)]
        for source in sources
    ]
    if kind is ShortBucketsAveraged:
        for of_source in means:
            of_source[2] = of_source[2] * SIZE
    result = []
    for seed in seeds:
        noise = kind(seed=seed)
        door.run(solver, truth, objective, z, noise)
        result.append(likelihood(noise, means[0]) - likelihood(noise, means[1]))
    return np.array(result)


def audited_epsilon(adjacency, data_norm, position, kind=SpyNoise, budget=BUDGET):
    objective = LinearObjective(
        loss=LOSS,
        n_samples=N,
        n_features=2,
        data_norm=data_norm,
        adjacency=adjacency,
        fit_intercept=False,
    )
    # Small steps keep the weights at zero for all that a release can tell.
    params = {
        "bucket_size": SIZE,
        "step_size": 1e-9 / data_norm**2,
        "momentum": 0.0,
    }
    solver = choose_solver("online", params, objective, budget).solver
    sources = pair(adjacency, data_norm, position)
    inside, outside = (
        scores(truth, sources, solver, objective, budget, kind, seeds)
        for truth, seeds in zip(
            sources, (range(RUNS), range(10**6, 10**6 + RUNS)), strict=True
        )
    )
    return epsilon_lower_bound(inside, outside, budget.delta)


CELLS = [
    ("replace_one", 1.0, 0, BUDGET),
    ("zero_out", 12.0, 4, PURE),
    ("zero_out", 1.0, 2, BUDGET),
    ("replace_one", 12.0, 4, PURE),
]


@pytest.mark.parametrize(("adjacency", "data_norm", "position", "budget"), CELLS)
def test_lower_bound_stays_below_the_claim_and_half_the_noise_is_caught(
    adjacency, data_norm, position, budget
):
    bound = audited_epsilon(adjacency, data_norm, position, budget=budget)
    assert 0.1 < bound <= budget.epsilon
    twin = audited_epsilon(adjacency, data_norm, position, HalfTheNoise, budget)
    assert twin > budget.epsilon


def test_an_average_over_a_short_bucket_is_caught():
    twin = audited_epsilon("replace_one", 1.0, 4, ShortBucketsAveraged)
    assert twin > BUDGET.epsilon
