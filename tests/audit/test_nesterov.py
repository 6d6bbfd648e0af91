"""Attack nesterov with the likelihoods of all it releases, and with planted bugs.

Runs are seeded: a pass stays a pass. With fresh seeds each bound would exceed the claim
with probability below 1e-3 by construction (99.9 % confidence), and far below that for
these sizes.
"""

from __future__ import annotations

import pytest

from skdp.privacy.release._plan import Batch
from tests.audit.accelerated import BUDGET, PURE, audited_epsilon

# The exact audits of test_replay.py are what `make test` runs.
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("adjacency", "data_norm", "budget"),
    [
        pytest.param("replace_one", 12.0, BUDGET),
        pytest.param("zero_out", 1.0, PURE),
        pytest.param("zero_out", 100.0, BUDGET),
        pytest.param("replace_one", 0.1, PURE),
    ],
)
def test_lower_bound_stays_below_the_claim_and_half_the_noise_is_caught(
    adjacency, data_norm, budget
):
    params = {"data_norm": data_norm}
    found = audited_epsilon("nesterov", adjacency, budget, **params)
    assert 0.25 < found <= budget.epsilon  # close enough to mean something
    twin = audited_epsilon("nesterov", adjacency, budget, shrink=0.5, **params)
    assert twin > budget.epsilon


def test_batches_with_the_sensitivity_of_a_missing_record_are_caught(monkeypatch):
    """Under zero_out too another record takes the place in the batch."""

    def audited():
        return audited_epsilon(
            "nesterov", "zero_out", PURE, n_steps=1, batch_size=1, runs=8000
        )

    assert 0.25 < audited() <= PURE.epsilon
    halved = lambda self, relation: relation  # noqa: E731 - the planted bug
    monkeypatch.setattr(Batch, "covering", halved)
    assert audited() > PURE.epsilon


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_batches_and_half_the_noise(adjacency):
    params = {"n_steps": 1, "batch_size": 1, "runs": 8000}
    assert audited_epsilon("nesterov", adjacency, PURE, **params) <= PURE.epsilon
    twin = audited_epsilon("nesterov", adjacency, PURE, shrink=0.5, **params)
    assert twin > PURE.epsilon
