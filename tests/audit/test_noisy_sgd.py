"""Attack noisy_sgd with everything it may publish, and with planted bugs.

The attacker knows both neighbouring data sets and sees every released gradient sum, but
not the samples, so the optimal score is the log-likelihood ratio of mixtures. Runs are
seeded: a pass stays a pass. With fresh seeds each bound would exceed the claim with
probability below 1e-3 by construction (99.9 % confidence), and far below that for these
sizes.
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
from tests import door
from tests.spies import SpyNoise

# A large delta keeps the sample small: the distinguishing events are not rare.
BUDGET = Budget(1.0, 0.05)
RUNS = 1000
LOSS = LogisticLoss()
STEPS, BATCH, N = 2, 3, 4
# Of the four records only the first speaks; the others are null in both data sets.
X = np.zeros((N, 2))
X[0, 0] = 1.0
Y = np.ones(N)


class HalfTheNoise(SpyNoise):
    """The planted bug that every audit must catch."""

    def __init__(self, seed):
        super().__init__(seed=seed, shrink=0.5)


class QuietOnEmptySums(SpyNoise):
    """The planted bug of skipping the noise if nobody was drawn."""

    def gaussian(self, query, **scale):
        released = super().gaussian(query, **scale)
        if not query.any():
            released = query
            self.draws[-1].released = query
        return released


class DividedByTheDrawn(SpyNoise):
    """The planted bug of an average over the records drawn: a secret divisor."""

    def __init__(self, seed, present):
        super().__init__(seed=seed)
        self._present = present

    def poisson_sample(self, n, rate):
        rows = super().poisson_sample(n, rate)
        self._drawn = max(1, int(np.sum(self._present[rows])))
        return rows

    def gaussian(self, query, **scale):
        released = super().gaussian(query, **scale) * (BATCH / self._drawn)
        self.draws[-1].released = released
        return released


def make_problem(adjacency, data_norm=1.0, n_features=2):
    return LinearObjective(
        loss=LOSS,
        n_samples=N,
        n_features=n_features,
        data_norm=data_norm,
        adjacency=adjacency,
        fit_intercept=False,
    )


def pair(adjacency, data_norm=1.0):
    first = np.arange(N) == 0
    nobody = np.zeros(N, dtype=bool)
    ours = MemorySource(data_norm * X, Y, first)
    if adjacency == "zero_out":
        return ours, MemorySource(data_norm * X, Y, nobody)
    return ours, MemorySource(data_norm * X, 1 - Y, first)


def releases(objective, source, kind, seeds):
    """All released sums, (n_runs, n_steps, n_features), and their sigmas."""
    # Small steps keep the weights at zero for all that a release can tell.
    params = {
        "n_steps": STEPS,
        "batch_size": BATCH,
        "step_size": 1e-9 / objective.data_norm**2,
        "momentum": 0.0,
    }
    solver = choose_solver("noisy_sgd", params, objective, BUDGET).solver
    z = calibrate(lambda z: door.event_of(solver, z, objective), BUDGET)
    released, sigmas = [], []
    for seed in seeds:
        noise = kind(seed=seed)
        door.run(solver, source, objective, z, noise)
        released.append([draw.released[:, 0] for draw in noise.draws])
        sigmas.append([draw.sigma for draw in noise.draws])
    return np.array(released), np.array(sigmas)


def mixture(released, gradient, sigma):
    """Log-density, up to a constant, of releases when this record may be drawn."""
    rate = BATCH / N
    absent, drawn = (
        -np.sum((released - mean) ** 2, axis=2) / (2 * sigma**2)
        for mean in (0.0, gradient)
    )
    return np.logaddexp(np.log(1 - rate) + absent, np.log(rate) + drawn)


def scores(adjacency, data_norm, truth, kind, seeds):
    """Log-likelihood ratios of everything released when `truth` was the data."""
    objective = make_problem(adjacency, data_norm)
    sources = pair(adjacency, data_norm)
    zero = np.zeros((2, 1))
    sums = [GradientSum(source, objective)(zero)[:, 0] for source in sources]
    released, sigmas = releases(objective, sources[truth], kind, seeds)
    ratios = mixture(released, sums[0], sigmas) - mixture(released, sums[1], sigmas)
    # No noise at all: nobody was there.
    ratios = np.where(released.any(axis=2), ratios, -1e6)
    return ratios.sum(axis=1)


def audited_epsilon(adjacency, data_norm=1.0, kind=SpyNoise, runs=None):
    runs = runs or RUNS
    inside = scores(adjacency, data_norm, 0, kind, range(runs))
    outside = scores(adjacency, data_norm, 1, kind, range(10**6, 10**6 + runs))
    both = [
        epsilon_lower_bound(inside, outside, BUDGET.delta),
        epsilon_lower_bound(-outside, -inside, BUDGET.delta),
    ]
    return max(both)


CELLS = [
    pytest.param(data_norm, adjacency, marks=() if usual else pytest.mark.slow)
    for data_norm, adjacency, usual in (
        (1.0, "zero_out", True),
        (12.0, "replace_one", False),
        (12.0, "zero_out", False),
        (0.1, "replace_one", False),
    )
]


@pytest.mark.parametrize(("data_norm", "adjacency"), CELLS)
def test_lower_bound_stays_below_the_claim_and_half_the_noise_is_caught(
    data_norm, adjacency
):
    bound = audited_epsilon(adjacency, data_norm)
    assert 0.1 < bound <= BUDGET.epsilon
    assert audited_epsilon(adjacency, data_norm, HalfTheNoise) > BUDGET.epsilon


@pytest.mark.slow
def test_silence_on_empty_samples_is_caught():
    assert audited_epsilon("zero_out", kind=QuietOnEmptySums, runs=300) > 1.5


@pytest.mark.slow
def test_a_secret_divisor_is_caught():
    """Records without any gradient: the scale of the noise alone tells of them.

    The audit of the mechanism as it is finds nothing, since all it releases is noise.
    """
    objective = make_problem("zero_out", n_features=30)
    rows = np.zeros((N, 30))
    two, one = np.arange(N) < 2, np.arange(N) == 1

    def spreads(present, bug, seeds):
        def kind(seed):
            return DividedByTheDrawn(seed, present) if bug else SpyNoise(seed)

        source = MemorySource(rows, Y, present)
        released, sigmas = releases(objective, source, kind, seeds)
        return -np.min(np.mean((released / sigmas[:, :, None]) ** 2, axis=2), axis=1)

    def bound(bug):
        # More scores below, where half the spread is, than above.
        inside = spreads(two, bug, range(400))
        outside = spreads(one, bug, range(10**6, 10**6 + 400))
        return epsilon_lower_bound(-outside, -inside, BUDGET.delta), (
            epsilon_lower_bound(inside, outside, BUDGET.delta)
        )

    assert max(bound(bug=False)) < 0.3
    assert max(bound(bug=True)) > 1.5
