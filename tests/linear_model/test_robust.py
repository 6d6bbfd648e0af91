"""DPRobustClassifier: its losses, what it refuses, and wrong labels."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skdp import DPLogisticRegression, DPRobustClassifier
from skdp.exceptions import Refused

LABELS = {"classes": [0, 1], "delta": 1e-6, "random_state": 0}


def table(n=4000, wrong=0.0, seed=0):
    """Unit rows of five columns; some labels wrong, far on the other side."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    X /= np.linalg.norm(X, axis=1)[:, None]
    truth = (X[:, 0] + 0.5 * X[:, 1] > 0).astype(int)
    y = truth.copy()
    flipped = (X[:, 0] > 0.5) & (rng.random(n) < wrong)
    y[flipped] = 0
    return X, y, truth


@pytest.mark.parametrize("loss", ["sigmoid", "cauchy"])
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_it_learns_and_says_how(loss, delta):
    X, y, truth = table()
    model = DPRobustClassifier(4.0, loss=loss, **{**LABELS, "delta": delta})
    model.fit(X, y)
    assert model.privacy_.solver == ("online" if delta == 0 else "centred_descent")
    assert np.mean(model.predict(X) == truth) > 0.9


def test_wrong_labels_move_it_less_than_a_logistic_model():
    """Without noise, by the accuracy on right labels; 45 % wrong on a far side."""
    X, y, truth = table(wrong=0.45)
    right = {
        kind: np.mean(
            kind(math.inf, C=1.0, classes=[0, 1]).fit(X, y).predict(X) == truth
        )
        for kind in (DPRobustClassifier, DPLogisticRegression)
    }
    assert right[DPRobustClassifier] > right[DPLogisticRegression] + 0.02


def test_the_last_iterate_alone_needs_convexity():
    """Its bound is one of contractions, which steps of this loss are not."""
    X, y, _ = table(200)
    model = DPRobustClassifier(
        solver="noisy_gd", solver_params={"release": "last"}, C=1.0, **LABELS
    )
    with pytest.raises(Refused, match=r"convex loss. Use release='path'"):
        model.fit(X, y)
