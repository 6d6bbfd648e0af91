"""Attacks on fitted models, one for each kind of release without a transcript.

Exact audits are in `test_replay`; these look at nothing but models.
"""

from __future__ import annotations

import numpy as np
import pytest

from skdp import DPLogisticRegression
from skdp.audit import audit_estimator
from skdp.privacy.noise._noise import NoiseSource

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4))
X /= np.linalg.norm(X, axis=1, keepdims=True)
Y = (X[:, 0] > 0).astype(int)
LABELS = {"classes": [0, 1], "delta": 1e-5}
MODELS = {
    "a hidden path": DPLogisticRegression(
        1.0, **LABELS, C=1.0, solver="noisy_gd", solver_params={"release": "last"}
    ),
    "a minimiser": DPLogisticRegression(1.0, **LABELS, solver="objective_perturbation"),
}


HONEST = NoiseSource.gaussian


def with_less_noise(self, query, *, noise_multiplier, **facts):
    return HONEST(self, query, noise_multiplier=noise_multiplier / 10, **facts)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_passes_and_a_tenth_of_its_noise_does_not(name, monkeypatch):
    assert audit_estimator(MODELS[name], X, Y).passed
    monkeypatch.setattr(NoiseSource, "gaussian", with_less_noise)
    assert not audit_estimator(MODELS[name], X, Y).passed
