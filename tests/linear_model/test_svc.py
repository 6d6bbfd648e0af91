"""DPLinearSVC: its loss against scikit-learn's, labels, outputs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.svm import LinearSVC

from skdp import DPLinearSVC
from skdp._fit import Progress
from skdp.losses import HuberHingeLoss
from skdp.losses._objective import LinearObjective
from skdp.solvers._exact import exact_minimum
from skdp.tables._memory import MemorySource


def scaled(load):
    X, y = load(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def squared_hinge(X, y, C):
    """scikit-learn without an intercept, converged."""
    model = LinearSVC(C=C, fit_intercept=False, dual=False, tol=1e-12, max_iter=10**6)
    return model.fit(X, y)


@pytest.mark.parametrize("load", [load_breast_cancer, load_iris])
@pytest.mark.parametrize("C", [0.0001, 0.001])
def test_a_wide_corner_is_scikit_learns_squared_hinge(load, C):
    """While all margins stay above 1 - h: raw / (1 + h) has the squared hinge."""
    X, y = scaled(load)
    h, k = 50.0, 3 if load is load_iris else 1
    loss = HuberHingeLoss(h=h, n_outputs=k)
    objective = LinearObjective(
        loss=loss,
        n_samples=len(X),
        n_features=X.shape[1],
        data_norm=math.inf,
        adjacency="zero_out",
        alpha=1 / (4 * h * C * len(X)),
        fit_intercept=False,
    )
    source = MemorySource(X, y.astype(float))
    found = exact_minimum(source, objective, Progress()).weights
    # (1 + h)^2 / (4 h) times the squared hinge of raw / (1 + h), penalty (1 + h)^2.
    theirs = squared_hinge(X, y, C)
    assert np.abs(loss.residual(y, X @ found)).max() < 1  # the quadratic part
    assert np.abs(found.T / (1 + h) - theirs.coef_).max() < 1e-4


@pytest.mark.parametrize("several", [False, True])
def test_infinite_epsilon_is_the_optimum_of_the_stated_objective(several):
    X, y = scaled(load_breast_cancer)
    if several:
        y = y + (X[:, 0] > 1)
    model = DPLinearSVC(math.inf, C=0.1, data_norm=3.0).fit(X, y)
    assert not model.privacy_.is_private
    augmented = np.column_stack([X, np.ones(len(X))])

    def objective(w, s):
        z = s * (augmented @ w)
        corner = (1.5 - z) ** 2 / 2
        hinge = np.where(z > 1.5, 0, np.where(z < 0.5, 1 - z, corner))
        slope = np.where(z > 1.5, 0, np.where(z < 0.5, -1, z - 1.5))
        return 0.1 * hinge.sum() + w @ w / 2, 0.1 * augmented.T @ (s * slope) + w

    for k, label in enumerate(model.classes_[1:] if not several else model.classes_):
        s = np.where(y == label, 1.0, -1.0)
        other = minimize(
            objective,
            np.zeros(31),
            args=(s,),
            jac=True,
            method="BFGS",
            options={"gtol": 1e-7},
        ).x
        assert np.abs(model.coef_[k] - other[:-1]).max() < 1e-4
        assert abs(model.intercept_[k] - other[-1]) < 1e-4
