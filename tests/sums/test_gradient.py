"""What the gradient query is charged for, beside what it asks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skdp.losses import LogisticLoss, SoftmaxLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy.release._plan import EVERYONE, Line, Plan, Poisson
from skdp.sums._gradient import ClippedGradient
from skdp.tables._memory import MemorySource
from tests import door
from tests.gradients import query_sensitivity
from tests.spies import SpyNoise

N, SHARE = 50, 0.05
OBJECTIVE = LinearObjective(
    loss=LogisticLoss(), n_samples=N, n_features=1, data_norm=1.0, adjacency="zero_out"
)


def half_a_unit(objective):
    """Of the grid of residuals in every output, the largest residual being 1."""
    k = objective.loss.n_outputs
    worst = objective.loss.zero_out_bound(math.inf)
    return worst * math.sqrt(k) / 2 * 2.0**-18


def charged(weights, sample, objective):
    """Sensitivity that the noise of one query was drawn for."""
    spy = SpyNoise()
    source = MemorySource(np.ones((N, 1)), np.zeros(N))
    plan = Plan((Line(sample=sample),))
    answers = door.answers_for(plan, source, 1.0, objective.adjacency, spy)
    answers.ask(ClippedGradient(objective, intercept_weight=SHARE).at(weights))
    return spy.draws[0].sensitivity


@pytest.mark.parametrize("sample", [EVERYONE, Poisson(0.1)], ids=["all", "sampled"])
def test_the_weights_count_as_the_query_sees_them(sample):
    """The intercept's divided by its share, whichever rows stand beside a record's."""
    norm = math.hypot(0.75, 0.75 / SHARE)
    wanted = query_sensitivity(OBJECTIVE, math.inf, norm, SHARE)
    wanted += math.hypot(1, SHARE) * half_a_unit(OBJECTIVE)
    found = charged(np.full((2, 1), 0.75), sample, OBJECTIVE)
    assert found == pytest.approx(wanted, rel=1e-10, abs=0)
    assert found > wanted
    forgotten = query_sensitivity(OBJECTIVE, math.inf, 0.75 * math.sqrt(2), SHARE)
    assert found > 1.05 * forgotten


def test_one_record_s_gradient_stays_within_what_is_charged():
    """At W = (0.758, 0.758), where it is 1.1 times what W itself would be charged."""
    W = np.full((2, 1), 0.758)
    residual = 1 / (1 + math.exp(-W.sum()))
    gradient = residual * math.hypot(1.0, SHARE)
    assert gradient <= charged(W, EVERYONE, OBJECTIVE)


def test_rounding_of_several_outputs_goes_with_their_root():
    objective = OBJECTIVE.with_loss(SoftmaxLoss(3))
    W = np.array([[4.0, 0.0, 0.0], [0.0, 0.1875, 0.0]])  # of norm 4, seen by the query
    spectral = query_sensitivity(objective, math.inf, 4.0, SHARE)
    wanted = spectral + math.hypot(1, SHARE) * half_a_unit(objective)
    found = charged(W, EVERYONE, objective)
    assert found == pytest.approx(wanted, rel=1e-9, abs=0)
    assert found > wanted
