"""Attack the student, which is all that knowledge_transfer releases to a user.

The attacker knows both neighbouring data sets, and which feature the student selects,
since public rows decide it here; the weight in the released student is the score. Runs
are seeded; with fresh seeds each bound would exceed the claim with probability below
1e-3 by construction, and far below that for these sizes.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from skdp.audit._result import epsilon_lower_bound
from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.papers._two_stage import KnowledgeTransfer
from skdp.privacy import Budget, calibrate
from skdp.solvers._registry import choose_solver
from skdp.tables._memory import MemorySource
from tests.door import event_of, run
from tests.spies import SpyNoise

# The exact audits of tests/audit/test_replay.py are what `make test` runs.
pytestmark = pytest.mark.slow

BUDGET = Budget(1.0, 0.01)
LOSS = LogisticLoss()


def pair(adjacency):
    X = np.array([[1.0, 0.0], [0.0, 0.0]])
    y = np.array([1.0, 0.0])
    if adjacency == "zero_out":
        present = np.array([False, True])
        return MemorySource(X, y), MemorySource(X, y, present)
    return MemorySource(X, y), MemorySource(X, np.zeros(2))


def audited_epsilon(adjacency, kind=KnowledgeTransfer, runs=2500):
    objective = LinearObjective(
        loss=LOSS,
        n_samples=2,
        n_features=2,
        data_norm=1.0,
        adjacency=adjacency,
        fit_intercept=False,
        n_nonzero=1,
    )
    params = {
        "teacher": "noisy_gd",
        "teacher_params": {"n_steps": 1, "step_size": 1e-3, "momentum": 0.0},
        # In public the second feature is the same everywhere: never selected.
        "public_rows": np.array([[1.0, 0.0], [-1.0, 0.0]]),
    }
    chosen = choose_solver("knowledge_transfer", params, objective, BUDGET).solver
    solver = kind(**{x.name: getattr(chosen, x.name) for x in fields(chosen)})

    multiplier = calibrate(lambda z: event_of(chosen, z, objective), BUDGET)

    def weights(source, seeds):
        runs = (
            run(solver, source, objective, multiplier, SpyNoise(seed)) for seed in seeds
        )
        return np.array([solution.weights[0, 0] for solution in runs])

    inside, outside = pair(adjacency)
    return epsilon_lower_bound(
        weights(inside, range(runs)),
        weights(outside, range(10**6, 10**6 + runs)),
        BUDGET.delta,
    )


class HalfTheNoise(KnowledgeTransfer):
    """Planted bug: the teacher has less noise than what was declared for it."""

    def run(self, answers, objective, progress):
        answers.noise_multiplier *= 0.4
        return super().run(answers, objective, progress)


@pytest.mark.parametrize("adjacency", ["replace_one", pytest.param("zero_out")])
def test_lower_bound_stays_below_the_claim(adjacency):
    assert 0.2 < audited_epsilon(adjacency) <= BUDGET.epsilon


def test_a_planted_bug_is_caught():
    assert audited_epsilon("zero_out", HalfTheNoise, 1000) > BUDGET.epsilon
