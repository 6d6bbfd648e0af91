"""scikit-learn's own meta-estimators: every fit within is on the books, and no more."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    StratifiedKFold,
    cross_validate,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

from skdp import BoundedScaler, BudgetLedger, DPLinearSVC, DPLogisticRegression
from skdp.exceptions import SeededNoiseWarning

RNG = np.random.default_rng(3)
X = RNG.uniform(size=(240, 3))
Y = (X[:, 0] + 0.3 * RNG.normal(size=240) > 0.5).astype(int)
Y3 = np.digitize(X[:, 0], [0.4, 0.7])
GRID = {"dplogisticregression__C": [0.1, 1.0, 10.0]}
STEPS = {"solver": "noisy_gd", "solver_params": {"n_steps": 2}}


@pytest.fixture
def ledger(tmp_path):
    return BudgetLedger(tmp_path / "study.db", epsilon=1e4, delta=1e-6)


def model(ledger):
    return DPLogisticRegression(classes=[0, 1], ledger=ledger, **STEPS)


def svc(ledger):
    return DPLinearSVC(epsilon=0.5, classes=[0, 1], ledger=ledger, **STEPS)


def piped(ledger):
    return make_pipeline(BoundedScaler((0, 1)), model(ledger))


def members(ledger):
    return [("logistic", piped(ledger)), ("svc", svc(ledger))]


# What is fitted, and how many private fits that takes.
FITS = {
    "grid": (lambda b: GridSearchCV(piped(b), GRID, cv=4).fit(X, Y), 3 * 4 + 1),
    "scores of workers": (
        lambda b: cross_validate(piped(b), X, Y, cv=3, n_jobs=2, error_score="raise"),
        3,
    ),
    "calibrated": (lambda b: CalibratedClassifierCV(piped(b), cv=3).fit(X, Y), 3),
    "calibrated once": (
        lambda b: CalibratedClassifierCV(svc(b), cv=KFold(3), ensemble=False).fit(X, Y),
        3 + 1,
    ),
    "stacking": (
        lambda b: StackingClassifier(members(b), RidgeClassifier(), cv=4).fit(X, Y),
        2 * (1 + 4),
    ),
    "voting": (lambda b: VotingClassifier(members(b)).fit(X, Y), 2),
    "one against the rest": (lambda b: OneVsRestClassifier(piped(b)).fit(X, Y3), 3),
}


@pytest.mark.long
@pytest.mark.parametrize("name", FITS)
def test_every_fit_is_charged_once(ledger, name):
    use, n_fits = FITS[name]
    use(ledger)
    spends = ledger.spends()
    assert len(spends) == n_fits
    assert all(0 < spend.event.mu_squared < math.inf for spend in spends)
    assert 0 < ledger.spent().epsilon < 1e4


def test_a_fit_that_is_not_in_the_ledger_would_be_noticed(ledger):
    """Broken twin: one member without the ledger."""
    VotingClassifier([("a", model(ledger)), ("b", svc(None))]).fit(X, Y)
    assert len(ledger.spends()) != FITS["voting"][1]


def test_calibrating_a_frozen_model_spends_nothing_more(ledger):
    fitted = model(ledger).fit(X, Y)
    CalibratedClassifierCV(FrozenEstimator(fitted)).fit(X, Y)
    assert len(ledger.spends()) == 1


def test_bagging_seeds_its_members_and_is_charged_as_what_it_is(ledger, tmp_path):
    # Rightly refused: besides, a bootstrap holds some records several times.
    with pytest.raises(ValueError, match="meta-estimator"):
        BaggingClassifier(model(ledger), n_estimators=2).fit(X, Y)
    assert ledger.spends() == []
    allowing = BudgetLedger(
        tmp_path / "other.db", epsilon=1.0, delta=1e-6, allow_nonprivate=True
    )
    bagging = BaggingClassifier(model(allowing), n_estimators=2)
    with pytest.warns(SeededNoiseWarning):
        bagging.fit(X, Y)
    assert len(allowing.spends()) == 2
    assert allowing.spent().epsilon == math.inf
    assert not any(member.privacy_.is_private for member in bagging.estimators_)


def test_one_label_moves_other_records_between_stratified_folds():
    """Why the books of a stratified cross-validation are not the whole cost."""

    def n_moved(splitter, place):
        other = Y.copy()
        other[place] = 1 - other[place]
        folds = [
            [set(train) for train, _ in splitter.split(X, labels)]
            for labels in (Y, other)
        ]
        return max(len((a ^ b) - {place}) for a, b in zip(*folds, strict=True))

    assert max(n_moved(StratifiedKFold(5), i) for i in range(20)) > 0
    assert max(n_moved(KFold(5), i) for i in range(20)) == 0
