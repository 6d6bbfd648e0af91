"""DPRobustClassifier: its losses, what it refuses, and wrong labels."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skdp import DPLinearSVC, DPLogisticRegression, DPRobustClassifier
from skdp.columns import Range
from skdp.exceptions import Refused
from skdp.losses import CauchyLoss, SigmoidLoss
from skdp.solvers import SOLVERS

LABELS = {"classes": [0, 1], "delta": 1e-6, "random_state": 0}
CONVEX = sorted(
    key
    for key, kind in SOLVERS.items()
    if not kind.takes_nonconvex and not kind.is_sparse
)


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


@pytest.mark.parametrize("loss", ["sigmoid", "cauchy"])
def test_uneven_labels_of_a_declared_table_are_no_constant(loss):
    """Centred rows would take noisy_gd, which ends there for a sigmoid."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (20_000, 4))
    y = (X[:, 0] + 0.7 * X[:, 1] > 0.65).astype(int)
    model = DPRobustClassifier(1.0, loss=loss, columns=[Range(-1, 1)] * 4, **LABELS)
    assert model.fit(X, y).privacy_.solver == "centred_descent"
    assert 0.2 < y.mean() < 0.25
    assert np.mean(model.predict(X) == y) > 1 - y.mean() + 0.05


def test_residuals_need_less_noise_than_those_of_convex_losses():
    """The largest residual is a quarter of the hinge's and of the logistic loss's."""
    found = {
        name: model.fit(*table()[:2]).privacy_.sensitivity
        for name, model in {
            "logistic": DPLogisticRegression(solver="noisy_gd", **LABELS),
            "svc": DPLinearSVC(solver="noisy_gd", **LABELS),
            "sigmoid": DPRobustClassifier(loss="sigmoid", solver="noisy_gd", **LABELS),
            "cauchy": DPRobustClassifier(loss="cauchy", solver="noisy_gd", **LABELS),
        }.items()
    }
    # Their intercept weights differ a little.
    assert found["sigmoid"] < 0.28 * min(found["logistic"], found["svc"])
    assert found["cauchy"] < 0.56 * min(found["logistic"], found["svc"])


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


@pytest.mark.parametrize("key", CONVEX)
def test_solvers_for_convex_losses_refuse_and_say_what_does(key):
    X, y, _ = table(200)
    model = DPRobustClassifier(solver=key, C=1.0, **LABELS)
    with pytest.raises(Refused, match=r"graduated_gd"):
        model.fit(X, y)


def test_the_last_iterate_alone_needs_convexity():
    """Its bound is one of contractions, which steps of this loss are not."""
    X, y, _ = table(200)
    model = DPRobustClassifier(
        solver="noisy_gd", solver_params={"release": "last"}, C=1.0, **LABELS
    )
    with pytest.raises(Refused, match=r"convex loss. Use release='path'"):
        model.fit(X, y)


@pytest.mark.parametrize("loss", [SigmoidLoss(), CauchyLoss()], ids=repr)
def test_steps_of_these_losses_are_no_contractions(loss):
    """Why convex-only solvers refuse: two runs may move apart on one record."""
    y, raw = np.array([1.0]), np.array([[-2.0]])
    assert loss.curvature(y, raw)[0, 0] < -0.05
    step = 1 / loss.smoothness
    apart = [
        float(r - step * loss.residual(y, np.array([[r]]))[0, 0]) for r in (-2.1, -1.9)
    ]
    assert abs(apart[0] - apart[1]) > 0.21


@pytest.mark.parametrize("loss", ["hinge", None, 3])
def test_other_losses_are_refused(loss):
    X, y, _ = table(200)
    with pytest.raises((ValueError, TypeError), match=r"'loss' parameter"):
        DPRobustClassifier(loss=loss, **LABELS).fit(X, y)
