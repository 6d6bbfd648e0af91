"""What shows in a release, and in nobody's hands, is stated as public."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

from skdp import (
    DPPCA,
    DPGridSearchCV,
    DPKMeans,
    DPLinearRegression,
    DPLogisticRegression,
    DPMLPClassifier,
    DPPoissonRegressor,
    DPQuantileClipper,
    DPSimpleImputer,
    DPStandardScaler,
    private_score,
)
from skdp.neural_network import Convolution

_RNG = np.random.default_rng(0)
X = _RNG.uniform(-0.3, 0.3, (300, 3))
Y = (X[:, 0] > 0).astype(int)
FACT = "storage type of X"
QUICK = DPLogisticRegression(
    classes=[0, 1], solver="noisy_gd", solver_params={"n_steps": 2}
)
MODELS = {
    "logistic": QUICK,
    "regression": DPLinearRegression(target_bounds=(-1, 1)),
    "counts": DPPoissonRegressor(target_bounds=(0, 1)),
    "network": DPMLPClassifier(classes=[0, 1], hidden_layer_sizes=3),
    "images": DPMLPClassifier(
        classes=[0, 1], convolutions=[Convolution(2, 1)], image_shape=(1, 3)
    ),
    "scaler": DPStandardScaler(bounds=(-1, 1)),
    "clipper": DPQuantileClipper(bounds=(-1, 1)),
    "imputer": DPSimpleImputer(bounds=(-1, 1)),
    "pca": DPPCA(n_components=2),
    "clusters": DPKMeans(n_clusters=2, bounds=(-1, 1)),
    "search": DPGridSearchCV(QUICK, {"C": [0.1, 1.0]}, epsilon=1.0),
}


def released(model):
    """Dtypes of the fitted attributes."""
    model = getattr(model, "best_estimator_", model)
    names = [name for name in vars(model) if name.endswith("_")]
    return {name: getattr(getattr(model, name), "dtype", None) for name in names}


def shows_unstated(one, other):
    """Whether the releases tell apart what a record takes to be private."""
    differ = released(one) != released(other)
    stated = any(FACT in fact for fact in one.privacy_.assumed_public)
    return differ and not stated


@pytest.mark.parametrize("name", MODELS)
def test_storage_that_shows_is_stated(name):
    model = MODELS[name]
    single, double = (
        clone(model).fit(X.astype(kind), Y) for kind in (np.float32, np.float64)
    )
    assert not shows_unstated(single, double)
    assert any(FACT in fact for fact in single.privacy_.assumed_public)
    if name in ("logistic", "regression", "pca", "search"):
        # Broken twin: the same release with the record as it was.
        single.privacy_ = replace(
            single.privacy_,
            assumed_public=("number of records", "number and names of features"),
        )
        assert shows_unstated(single, double)


def test_scores_and_sparse_tables_state_it():
    model = clone(QUICK).fit(csr_array(X), Y)
    score = private_score(model, X, Y, epsilon=1.0)
    for record in (model.privacy_, score.privacy):
        assert any(FACT in fact for fact in record.assumed_public)
