"""A null record is one of those that a neighbour may have.

Under replace_one a record may be exchanged for one that cannot be read: each bound must
cover what that moves, which is the bound under zero_out.
"""

from __future__ import annotations

import numpy as np
import pytest

from skdp import DPLinearRegression, DPLogisticRegression
from skdp.losses import HuberHingeLoss, LogisticLoss, SoftmaxLoss, SquaredLoss
from skdp.losses._objective import LinearObjective
from skdp.model_selection._scorers import resolve_scoring
from skdp.preprocessing._private import Bisection
from skdp.privacy.release._plan import Bound
from skdp.sums._counts import (
    PRESENCE,
    SQUARES,
    CodeCounts,
    PairSums,
    StateSums,
    even_knots,
)
from skdp.sums._moments import MomentWeights
from tests.gradients import gradient_bound

LOSSES = [
    LogisticLoss(),
    SoftmaxLoss(3),
    SoftmaxLoss(10),
    SquaredLoss(residual_bound=2.0, target_bound=1.0),
    HuberHingeLoss(),
    HuberHingeLoss(n_outputs=3),
]
MODELS = [DPLinearRegression(), DPLogisticRegression()]
RADII = [0.0, 1e-6, 1e-3, 0.1, 1.0, 3.0, 30.0, np.inf]


def covers(bound: Bound) -> bool:
    """Whether an exchange for the null record is within the bound of any exchange."""
    return bound.replace_one >= bound.zero_out


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: repr(loss)[:30])
def test_gradients(loss):
    facts = {"data_norm": 1.0, "adjacency": "replace_one", "loss": loss}
    for fit_intercept in (True, False):
        facts["fit_intercept"] = fit_intercept
        objective = LinearObjective(n_samples=100, n_features=3, **facts)
        for radius in RADII:
            for clip in (0.01, 0.5, np.inf):
                assert covers(gradient_bound(objective, clip, radius))


def test_moments():
    for t in (0.0, 0.1, 0.5, 1.0):
        for k in (0.0, 0.1, 0.7, 1.0, 3.0, 100.0):
            assert covers(MomentWeights(t, k).bound())


def test_counts_and_sums():
    assert covers(CodeCounts((0, 1), ((0, 0, 1), (0, 1, 2, 3))).bound())
    assert covers(StateSums(7, 100, 2, even_knots(4)).bound())
    low, high = np.zeros(3), np.ones(3)
    for kind in (SQUARES, PRESENCE):
        assert covers(PairSums(kind, low, high, 100).bound())
    assert covers(Bisection(low, high, (0.1, 0.9), 5, 100).first.bound())


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("accuracy", {"classes": [0, 1, 2]}),
        ("balanced_accuracy", {"classes": [0, 1, 2]}),
        ("neg_log_loss", {"classes": [0, 1, 2]}),
        ("neg_mean_absolute_error", {"target_bounds": (0, 1)}),
        ("neg_mean_squared_error", {"target_bounds": (0, 1)}),
        ("r2", {"target_bounds": (0, 1)}),
        ("r2", {"target_bounds": (5, 6)}),
    ],
)
def test_scores(name, given):
    scoring = resolve_scoring(name, MODELS["classes" in given], **given)
    for norm in (1, 2):
        one = scoring.sensitivity("replace_one", norm)
        assert one >= scoring.sensitivity("zero_out", norm)


def test_broken_twin_is_found():
    """Residuals all on one side: two of them are closer to another than to nothing."""
    assert not covers(Bound(zero_out=1.0, replace_one=0.5))
