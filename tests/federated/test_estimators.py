"""What owners can and cannot do: every private estimator is tried."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline

import skdp
from skdp import (
    DPPCA,
    BoundedScaler,
    BudgetLedger,
    DPCalibratedClassifier,
    DPCategoricalNB,
    DPConformalClassifier,
    DPConformalRegressor,
    DPDiscreteTimeSurvival,
    DPGammaRegressor,
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
    DPGridSearchCV,
    DPKMeans,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPMatrixFactorization,
    DPMLPClassifier,
    DPMLPRegressor,
    DPPoissonRegressor,
    DPQuantileClipper,
    DPQuantileRegressor,
    DPRandomizedSearchCV,
    DPRobustClassifier,
    DPSimpleImputer,
    DPSparseLinearRegression,
    DPSparseLogisticRegression,
    DPStandardScaler,
    DPTunedThresholdClassifier,
    RowNormClipper,
    TableEncoder,
)
from skdp._base import PrivateEstimator
from skdp.exceptions import Refused
from skdp.privacy import GaussianEvent
from tests.federated.owned import federation, model
from tests.io.places import COLUMNS, FEATURES, numbers

LABELS = {"classes": [0, 1]}
BOUNDS = {"target_bounds": (0, 1)}
SPARSE = {"feature_bound": 1.0}
WIDE = {"bounds": (-2, 2)}
GRID = {"C": [0.1, 1.0]}
LINEAR = DPLogisticRegression(**LABELS)
KNOWN = numbers(50)
# A federation fits a clone, which would forget what a model knows.
OF_TARGETS = FrozenEstimator(LinearRegression().fit(KNOWN[FEATURES], KNOWN["t"]))
OF_LABELS = FrozenEstimator(LogisticRegression().fit(KNOWN[FEATURES], KNOWN["y"]))
# Fitted, each with the target that it takes.
SUPPORTED = [
    (LINEAR, "y"),
    (DPLinearSVC(**LABELS), "y"),
    (DPLinearRegression(**BOUNDS), "t"),
    (DPRobustClassifier(**LABELS), "y"),
    (DPPoissonRegressor(**BOUNDS), "t"),
    (DPGammaRegressor(target_bounds=(0.1, 1)), "t"),
    (DPQuantileRegressor(**BOUNDS), "t"),
    (DPSparseLogisticRegression(**SPARSE, **LABELS), "y"),
    (DPSparseLinearRegression(**SPARSE, **BOUNDS), "t"),
    (DPGradientBoostingClassifier(columns=COLUMNS, n_estimators=3, **LABELS), "y"),
    (DPGradientBoostingRegressor(columns=COLUMNS, n_estimators=3, **BOUNDS), "t"),
    (DPCategoricalNB(columns=COLUMNS, **LABELS), "y"),
    (DPDiscreteTimeSurvival(horizon=1.0, columns=COLUMNS), "t"),
    (DPMLPClassifier(solver="noisy_gd", **LABELS), "y"),
    (DPMLPRegressor(solver="noisy_gd", **BOUNDS), "t"),
    (DPStandardScaler(**WIDE), "y"),
    (DPQuantileClipper(**WIDE), "y"),
    (DPSimpleImputer(**WIDE), "y"),
    (DPPCA(n_components=2), "y"),
    (DPKMeans(n_clusters=2, **WIDE), "y"),
    (make_pipeline(BoundedScaler((-2, 2)), RowNormClipper(), LINEAR), "y"),
    (make_pipeline(TableEncoder(COLUMNS), LINEAR), "y"),
    (DPGridSearchCV(LINEAR, GRID, epsilon=1.0), "y"),
    (
        DPRandomizedSearchCV(LINEAR, GRID, n_iter=2, epsilon=1.0, method="composition"),
        "y",
    ),
    (DPConformalRegressor(OF_TARGETS, **BOUNDS), "t"),
    (DPConformalClassifier(OF_LABELS), "y"),
]
# Refused: what, and a word of its one sentence.
REFUSED = {
    "ratings": (DPMatrixFactorization(), r"missing a required argument"),
    "samples": (
        model(solver="noisy_sgd", solver_params={"batch_size": 50}),
        r"a fit that samples",
    ),
    "choices": (
        DPGridSearchCV(LINEAR, GRID, epsilon=1.0, method="random_stopping"),
        r"pays for fewer",
    ),
    "calibration": (DPCalibratedClassifier(LINEAR), r"pays for fewer"),
    "thresholds": (DPTunedThresholdClassifier(LINEAR), r"pays for fewer"),
    "rows": (
        model(solver="output_perturbation", solver_params=None),
        r"can be done by",
    ),
    "pure": (DPStandardScaler(delta=0.0, **WIDE), r"must be Gaussian"),
    "nothing private": (
        DPLogisticRegression(np.inf, **LABELS),
        r"answer with noise only",
    ),
}


def named(one):
    return type(one).__name__ if not hasattr(one, "steps") else one.steps[0][0]


@pytest.mark.parametrize(("one", "target"), SUPPORTED, ids=lambda x: str(x)[:30])
def test_what_is_said_to_fit_fits(one, target):
    source = federation(target=target)
    source.fit(one)
    assert source.traffic.n_rounds >= 1


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_said_to_be_refused_is_refused_for_nothing(what, tmp_path):
    one, words = REFUSED[what]
    ledger = BudgetLedger(tmp_path / "books.db", epsilon=10.0, delta=1e-3)
    if what != "nothing private":  # refused by a private ledger too
        one.set_params(ledger=ledger)
    with pytest.raises((Refused, TypeError), match=words) as caught:
        one.fit(federation())
    assert str(caught.value).count(". ") <= 4
    assert ledger.spends() == []


def private_names():
    """Everything of skdp that releases something when it is fitted."""
    kinds = ((name, getattr(skdp, name)) for name in skdp.__all__)
    return {
        name
        for name, kind in kinds
        if isinstance(kind, type) and issubclass(kind, PrivateEstimator)
    }


def test_every_private_estimator_is_supported_or_refused_by_name():
    tried = {named(one) for one, _ in SUPPORTED} | {
        named(one) for one, _ in REFUSED.values()
    }
    assert private_names() <= tried


@pytest.mark.filterwarnings("ignore::skdp.exceptions.NoiseDominatesWarning")
def test_a_constant_of_several_owners_has_gaussian_noise():
    """Each owner draws a part of the noise, which pure laws do not allow."""
    fitted = DPLogisticRegression(0.01, **LABELS).fit(federation())
    assert "no weights" in fitted.privacy_.why_solver
    assert isinstance(fitted.privacy_.event, GaussianEvent)
