"""scikit-learn's own meta-estimators: every fit within is on the books, and no more."""

import math

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    RandomizedSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

from skdp import (
    BoundedScaler,
    BudgetLedger,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
)
from skdp.exceptions import SeededNoiseWarning

RNG = np.random.default_rng(3)
X = RNG.uniform(size=(240, 3))
Y = (X[:, 0] + 0.3 * RNG.normal(size=240) > 0.5).astype(int)
Y3 = np.digitize(X[:, 0], [0.4, 0.7])
DELTA = 1e-6
GRID = {"dplogisticregression__C": [0.1, 1.0, 10.0]}


@pytest.fixture
def ledger(tmp_path):
    return BudgetLedger(tmp_path / "study.db", epsilon=1e4, delta=DELTA)


def model(ledger):
    return DPLogisticRegression(delta=DELTA, classes=[0, 1], ledger=ledger)


def svc(ledger):
    return DPLinearSVC(epsilon=0.5, delta=DELTA, classes=[0, 1], ledger=ledger)


def piped(ledger):
    return make_pipeline(BoundedScaler((0, 1)), model(ledger))


def grid(ledger, n_jobs):
    GridSearchCV(piped(ledger), GRID, cv=4, n_jobs=n_jobs).fit(X, Y)


def grid_without_refit(ledger, n_jobs):
    search = GridSearchCV(piped(ledger), GRID, cv=4, n_jobs=n_jobs, refit=False)
    search.fit(X, Y)


def randomized(ledger, n_jobs):
    search = RandomizedSearchCV(
        piped(ledger), GRID, n_iter=2, cv=KFold(3), n_jobs=n_jobs, random_state=0
    )
    search.fit(X, Y)


def scores(ledger, n_jobs):
    cross_val_score(piped(ledger), X, Y, cv=5, n_jobs=n_jobs, error_score="raise")


def regression_scores(ledger, n_jobs):
    regression = DPLinearRegression(delta=DELTA, target_bounds=(0, 1), ledger=ledger)
    cross_validate(regression, X, X[:, 0], cv=3, n_jobs=n_jobs, error_score="raise")


def predictions(ledger, n_jobs):
    predicted = cross_val_predict(piped(ledger), X, Y, cv=4, n_jobs=n_jobs)
    assert predicted.shape == Y.shape


def calibrated_ensemble(ledger, n_jobs):
    cv = CalibratedClassifierCV(piped(ledger), cv=3, ensemble=True, n_jobs=n_jobs)
    assert cv.fit(X, Y).predict_proba(X).shape == (240, 2)


def calibrated_once(ledger, n_jobs):
    cv = CalibratedClassifierCV(svc(ledger), cv=KFold(3), ensemble=False, n_jobs=n_jobs)
    assert cv.fit(X, Y).predict_proba(X).shape == (240, 2)


def stacking(ledger, n_jobs):
    members = [("logistic", piped(ledger)), ("svc", svc(ledger))]
    stack = StackingClassifier(members, RidgeClassifier(), cv=KFold(4), n_jobs=n_jobs)
    assert stack.fit(X, Y).predict(X).shape == Y.shape


def private_stacking(ledger, n_jobs):
    members = [("logistic", piped(ledger)), ("svc", svc(ledger))]
    stack = StackingClassifier(members, model(ledger), cv=3, n_jobs=n_jobs)
    assert stack.fit(X, Y).predict(X).shape == Y.shape


def voting(ledger, n_jobs):
    vote = VotingClassifier([("a", model(ledger)), ("b", svc(ledger))], n_jobs=n_jobs)
    assert vote.fit(X, Y).predict(X).shape == Y.shape


def one_vs_rest(ledger, n_jobs):
    rest = OneVsRestClassifier(piped(ledger), n_jobs=n_jobs).fit(X, Y3)
    assert set(rest.predict(X)) <= {0, 1, 2}


FITS = [
    (grid, 3 * 4 + 1),
    (grid_without_refit, 3 * 4),
    (randomized, 2 * 3 + 1),
    (scores, 5),
    (regression_scores, 3),
    (predictions, 4),
    (calibrated_ensemble, 3),
    (calibrated_once, 3 + 1),
    (stacking, 2 * (1 + 4)),
    (private_stacking, 2 * (1 + 3) + 1),
    (voting, 2),
    (one_vs_rest, 3),
]


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    ("use", "n_fits"), FITS, ids=lambda x: getattr(x, "__name__", x)
)
def test_every_fit_is_charged_once(ledger, use, n_fits, n_jobs):
    use(ledger, n_jobs)
    spends = ledger.spends()
    assert len(spends) == n_fits
    assert all(0 < spend.event.mu_squared < math.inf for spend in spends)
    assert 0 < ledger.spent().epsilon < 1e4


def test_a_fit_that_is_not_on_the_books_would_be_noticed(ledger):
    """Broken twin: one member without the ledger."""
    vote = VotingClassifier([("a", model(ledger)), ("b", svc(None))])
    vote.fit(X, Y)
    assert len(ledger.spends()) != dict(FITS)[voting]


def test_calibrating_a_frozen_model_spends_nothing_more(ledger):
    fitted = model(ledger).fit(X, Y)
    CalibratedClassifierCV(FrozenEstimator(fitted)).fit(X, Y)
    assert len(ledger.spends()) == 1


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_bagging_seeds_its_members_and_is_refused_by_a_ledger(ledger, n_jobs):
    # Rightly: besides, a bootstrap holds some records several times.
    bagging = BaggingClassifier(model(ledger), n_estimators=3, n_jobs=n_jobs)
    with pytest.raises(ValueError, match="meta-estimator"):
        bagging.fit(X, Y)
    assert ledger.spends() == []


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.filterwarnings("ignore::skdp.exceptions.SeededNoiseWarning")
def test_bagging_is_booked_as_what_it_is(tmp_path, n_jobs):
    ledger = BudgetLedger(
        tmp_path / "study.db", epsilon=1.0, delta=DELTA, allow_nonprivate=True
    )
    bagging = BaggingClassifier(model(ledger), n_estimators=3, n_jobs=n_jobs)
    bagging.fit(X, Y)
    assert len(ledger.spends()) == 3
    assert ledger.spent().epsilon == math.inf
    assert not any(member.privacy_.is_private for member in bagging.estimators_)


def test_bagging_without_a_ledger_works_and_warns():
    bagging = BaggingClassifier(model(None), n_estimators=2)
    with pytest.warns(SeededNoiseWarning):
        bagging.fit(X, Y)
    assert bagging.predict(X).shape == Y.shape
    assert not any(member.privacy_.is_private for member in bagging.estimators_)


def rows_that_differ(splitter, place):
    """Most rows of one training fold that change when one record changes its label."""
    other = Y.copy()
    other[place] = 1 - other[place]
    folds = [
        [set(train) for train, _ in splitter.split(X, labels)] for labels in (Y, other)
    ]
    changed = [one ^ two for one, two in zip(*folds, strict=True)]
    return max(len(rows - {place}) for rows in changed)


def test_one_label_moves_other_records_between_stratified_folds():
    """Why the books of a stratified cross-validation are not the whole cost."""
    stratified = max(rows_that_differ(StratifiedKFold(5), i) for i in range(20))
    assert stratified > 0
    assert max(rows_that_differ(KFold(5), i) for i in range(20)) == 0


def test_clones_share_the_books(ledger):
    for _ in range(2):
        clone(piped(ledger)).fit(X, Y)
    assert len(ledger.spends()) == 2
    assert "no raw scores" in repr(ledger)
    assert len(repr(ledger)) < 400
