"""Attack both stages of two_stage together, and find half the noise in either.

The attacker knows both neighbouring data sets and sees which feature was selected and
every released query of the refit: the log-likelihood ratio of all of it is the optimal
score. Seeded runs; with fresh seeds each bound would exceed the claim with probability
below 1e-3 by construction, and far below that for these sizes.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax

from skdp.audit._result import epsilon_lower_bound
from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget, calibrate
from skdp.solvers._registry import choose_solver
from skdp.sums._floating import GradientSum
from skdp.tables._memory import MemorySource
from tests.door import event_of, run
from tests.spies import SpyNoise

# The exact audits of tests/audit/test_replay.py are what `make test` runs.
pytestmark = pytest.mark.slow

BUDGET = Budget(1.0, 0.01)
LOSS = LogisticLoss()


def pair(adjacency):
    """The first record decides which feature leads, and by how much."""
    X = np.array([[1.0, -1.0], [1.0, 1.0]])
    if adjacency == "zero_out":
        present = np.array([False, True])
        return MemorySource(X, np.ones(2)), MemorySource(X, np.ones(2), present)
    return MemorySource(X, np.ones(2)), MemorySource(X * [[-1], [1]], np.ones(2))


class TooLittleNoise(SpyNoise):
    """Planted bug: less noise in one of the stages."""

    def __init__(self, seed, stage):
        super().__init__(seed=seed)
        self.stage = stage

    def top_k(self, *args, **facts):
        self.shrink = 0.3 if self.stage == "selection" else 1.0
        return super().top_k(*args, **facts)

    def gaussian(self, *args, **facts):
        self.shrink = 0.3 if self.stage == "refit" else 1.0
        return super().gaussian(*args, **facts)


class Suspect:
    """A data set, and how likely it makes what a run released."""

    def __init__(self, source, objective):
        self.gradient = GradientSum(source, objective)(np.zeros((2, 1)))[:, 0]

    def log_likelihood(self, noise):
        """Up to what both suspects share: the refit's query is at zero weights too."""
        (choice,), (draw,) = noise.choices, noise.draws
        (column,) = choice.chosen
        exponents = np.abs(self.gradient) * choice.epsilon / (2 * choice.sensitivity)
        distance = (draw.released - self.gradient[column]).item()
        return log_softmax(exponents)[column] - distance**2 / (2 * draw.sigma**2)


def audited_epsilon(adjacency, share, stage="", runs=1500):
    objective = LinearObjective(
        loss=LOSS,
        n_samples=2,
        n_features=2,
        data_norm=np.sqrt(2) * (1 + 1e-9),
        feature_bound=1.0,
        adjacency=adjacency,
        fit_intercept=False,
        n_nonzero=1,
    )
    params = {
        "selection": "peeling",
        "selection_share": share,
        "refit": "noisy_gd",
        "refit_params": {"n_steps": 1, "step_size": 1e-3, "momentum": 0.0},
    }
    solver = choose_solver("two_stage", params, objective, BUDGET).solver
    multiplier = calibrate(lambda z: event_of(solver, z, objective), BUDGET)
    sources = pair(adjacency)
    suspects = [Suspect(source, objective) for source in sources]

    def ratios(truth, seeds):
        found = []
        for seed in seeds:
            noise = TooLittleNoise(seed, stage)
            run(solver, truth, objective, multiplier, noise)
            first, second = (x.log_likelihood(noise) for x in suspects)
            found.append(first - second)
        return np.array(found)

    inside = ratios(sources[0], range(runs))
    outside = ratios(sources[1], range(10**6, 10**6 + runs))
    return epsilon_lower_bound(inside, outside, BUDGET.delta)


@pytest.mark.parametrize("adjacency", [pytest.param("replace_one"), "zero_out"])
def test_lower_bound_stays_below_the_claim(adjacency):
    assert 0.1 < audited_epsilon(adjacency, 0.2) <= BUDGET.epsilon


@pytest.mark.parametrize(("stage", "share"), [("selection", 0.9), ("refit", 0.1)])
def test_too_little_noise_in_either_stage_is_caught(stage, share):
    assert audited_epsilon("replace_one", share, stage, 700) > BUDGET.epsilon
