"""The references are calibrated to what they claim, and they learn."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks._data import load, split
from benchmarks._references import (
    SENSITIVITY,
    NoisyGradientDescent,
    ObjectivePerturbation,
    extended,
    gaussian_noise,
    perturbation_noise,
)
from skdp.privacy import Budget, GaussianEvent, calibrate


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 6.5e-10), (1.0, 5e-6), (8.0, 1e-3)]
)
def test_gaussian_noise_agrees_with_the_library(epsilon, delta):
    expected = calibrate(lambda z: GaussianEvent(z, 1), Budget(epsilon, delta))
    assert gaussian_noise(epsilon, delta) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
@pytest.mark.parametrize(
    ("epsilon", "delta", "curvature"), [(1, 0.01, 0.1), (4, 0.1, 9)]
)
def test_perturbation_noise_has_the_stated_divergence(
    adjacency, epsilon, delta, curvature
):
    rng = np.random.default_rng(0)
    size = 10**6
    length = (
        np.abs(rng.standard_normal(size))
        if adjacency == "zero_out"
        else rng.rayleigh(size=size)
    )
    k = SENSITIVITY[adjacency] / perturbation_noise(
        epsilon, delta, adjacency, curvature
    )
    loss = np.log1p(curvature) + k * k / 2 + k * length
    excess = np.maximum(0, -np.expm1(epsilon - loss))
    assert excess.mean() == pytest.approx(delta, rel=0.03)


def test_too_weak_a_regularisation_is_refused():
    X, y = load("breast_cancer")
    for delta in (0.0, 1e-6):
        model = ObjectivePerturbation(0.1, delta=delta, regularisation=0.1)
        with pytest.raises(ValueError, match="too weak"):
            model.fit(X, y)


def test_extended_rows_keep_their_norm():
    X, _ = load("digits")
    assert np.linalg.norm(extended(X), axis=1).max() <= 1 + 1e-12


@pytest.mark.parametrize(
    ("data", "model"),
    [
        ("breast_cancer", NoisyGradientDescent(8.0, random_state=0)),
        ("digits", NoisyGradientDescent(8.0, step_size=4.0, random_state=0)),
        (
            "breast_cancer",
            ObjectivePerturbation(8.0, regularisation=1.0, random_state=0),
        ),
        (
            "breast_cancer",
            ObjectivePerturbation(8.0, delta=0, regularisation=1.0, random_state=0),
        ),
    ],
)
def test_references_learn(data, model):
    X_train, y_train, X_test, y_test = split(*load(data), 0)
    model.fit(X_train, y_train)
    assert model.score(X_test, y_test) > 0.85
    assert model.predict_proba(X_test).sum(axis=1) == pytest.approx(1.0)
