"""Attack multistage with the likelihoods of all it releases, and with planted bugs.

Runs are seeded: a pass stays a pass. With fresh seeds each bound would exceed the claim
with probability below 1e-3 by construction (99.9 % confidence), and far below that for
these sizes.
"""

from __future__ import annotations

import pytest

from tests.papers.audit.accelerated import BUDGET, PURE, audited_epsilon

# The exact audits of tests/audit/test_replay.py are what `make test` runs.
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("adjacency", "data_norm", "budget"),
    [
        pytest.param("replace_one", 1.0, PURE),
        pytest.param("zero_out", 12.0, BUDGET),
    ],
)
def test_lower_bound_stays_below_the_claim_and_half_the_noise_is_caught(
    adjacency, data_norm, budget
):
    params = {"data_norm": data_norm, "n_steps": 3, "first_stage": 1}
    found = audited_epsilon("multistage", adjacency, budget, **params)
    assert 0.25 < found <= budget.epsilon  # close enough to mean something
    twin = audited_epsilon("multistage", adjacency, budget, shrink=0.5, **params)
    assert twin > budget.epsilon
