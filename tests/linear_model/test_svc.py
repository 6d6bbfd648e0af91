"""DPLinearSVC: its loss against scikit-learn's, labels, outputs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer

from skdp import DPLinearSVC


def scaled(load):
    X, y = load(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


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
