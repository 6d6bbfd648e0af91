"""scikit-learn's own checks on every public class, with and without a ledger."""

from __future__ import annotations

import atexit
import itertools
import math
import shutil
import tempfile
from pathlib import Path
from unittest import SkipTest

import pytest
import sklearn
from sklearn.utils.estimator_checks import estimator_checks_generator

from skdp import (
    DPPCA,
    BoundedScaler,
    DeclaredOneHotEncoder,
    DPCalibratedClassifier,
    DPCategoricalNB,
    DPConformalRegressor,
    DPGammaRegressor,
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
    DPGridSearchCV,
    DPKMeans,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
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
from skdp.columns import Range
from skdp.privacy import BudgetLedger
from tests.model_selection.toys import KnowsNothing
from tests.wide import part_of

_FOLDER = Path(tempfile.mkdtemp(prefix="skdp-checks-"))
_NUMBERS = itertools.count()
# Not with the module's last test: a worker may leave a module and come back to it.
atexit.register(shutil.rmtree, _FOLDER, ignore_errors=True)


def ledger():
    # The checks set random_state, so only a ledger that allows it can take part. Each
    # has a file of its own: the longer the books, the longer it takes to read them.
    return BudgetLedger(
        _FOLDER / f"{next(_NUMBERS)}.db",
        epsilon=1e6,
        delta=1e-6,
        allow_nonprivate=True,
    )


GRID = {"C": [0.01, 1.0]}
BOOSTED = {"columns": Range(-10, 10, missing=True), "n_estimators": 20}
QUICK = DPLogisticRegression(solver="noisy_gd", solver_params={"n_steps": 4})
REGRESSION = DPLinearRegression(
    target_bounds=(-3, 3), solver="noisy_gd", solver_params={"n_steps": 4}
)
# The smallest honest parameters of each class, at the default epsilon and at inf.
INSTANCES = {
    "logistic": DPLogisticRegression(),
    "logistic-inf": DPLogisticRegression(epsilon=math.inf),
    "logistic-ledger": DPLogisticRegression(ledger=ledger()),
    "logistic-columns": DPLogisticRegression(columns=Range(-10, 10, missing=True)),
    "svc": DPLinearSVC(),
    "robust": DPRobustClassifier(),
    "robust-sigmoid": DPRobustClassifier(loss="sigmoid", delta=0),
    "regression": DPLinearRegression(target_bounds=(-3, 3)),
    "regression-inf": DPLinearRegression(epsilon=math.inf, target_bounds=(-3, 3)),
    "regression-pure": DPLinearRegression(delta=0, target_bounds=(-3, 3)),
    "counts": DPPoissonRegressor(target_bounds=(0, 10)),
    "amounts": DPGammaRegressor(target_bounds=(0.1, 10)),
    "quantiles": DPQuantileRegressor(target_bounds=(-3, 3)),
    "sparse-regression": DPSparseLinearRegression(target_bounds=(-3, 3)),
    "sparse-logistic": DPSparseLogisticRegression(),
    "sparse-logistic-inf": DPSparseLogisticRegression(epsilon=math.inf),
    "boosting": DPGradientBoostingClassifier(**BOOSTED),
    "boosting-regression": DPGradientBoostingRegressor(
        **BOOSTED, target_bounds=(-3, 3)
    ),
    "boosting-regression-inf": DPGradientBoostingRegressor(
        epsilon=math.inf, **BOOSTED, target_bounds=(-3, 3)
    ),
    "boosting-amounts": DPGradientBoostingRegressor(
        **BOOSTED, loss="gamma", target_bounds=(0.1, 10)
    ),
    "naive-bayes": DPCategoricalNB(columns=Range(-10, 10, missing=True)),
    "naive-bayes-inf": DPCategoricalNB(
        epsilon=math.inf, columns=Range(-10, 10, missing=True)
    ),
    "network": DPMLPClassifier(),
    # Rows of the check of weights are that long; far ones of a label that weighs
    # nothing are where the network has learned nothing.
    "network-inf": DPMLPClassifier(epsilon=math.inf, data_norm=50.0),
    "network-columns": DPMLPClassifier(columns=Range(-10, 10, missing=True)),
    "network-regression": DPMLPRegressor(target_bounds=(-3, 3)),
    "network-adam": DPMLPClassifier(solver="noisy_adam"),
    "search": DPGridSearchCV(QUICK, GRID),
    "search-random-stopping": DPGridSearchCV(QUICK, GRID, method="random_stopping"),
    "search-disjoint-splits": DPGridSearchCV(QUICK, GRID, method="disjoint_splits"),
    "search-regression": DPGridSearchCV(REGRESSION, {"alpha": [0.1, 1.0]}),
    "calibrated": DPCalibratedClassifier(QUICK),
    "calibrated-isotonic": DPCalibratedClassifier(QUICK, method="isotonic"),
    "threshold": DPTunedThresholdClassifier(QUICK),
    "conformal": DPConformalRegressor(KnowsNothing(), target_bounds=(-3, 3)),
    "conformal-inf": DPConformalRegressor(
        KnowsNothing(), epsilon=math.inf, target_bounds=(-3, 3)
    ),
    "randomized-search": DPRandomizedSearchCV(QUICK, GRID, n_iter=2),
    "bounded-scaler": BoundedScaler(bounds=(-10, 10)),
    "row-norm-clipper": RowNormClipper(),
    "one-hot-encoder": DeclaredOneHotEncoder(categories=[0, 1, 2]),
    "table-encoder": TableEncoder(Range(-10, 10, missing=True)),
    "imputer-constant": DPSimpleImputer(strategy="constant", fill_value=0.0),
}
# Private transformers with what each of them needs.
TRANSFORMERS = {
    "scaler": (DPStandardScaler, {"bounds": (-10, 10)}),
    "clipper": (DPQuantileClipper, {"bounds": (-100, 100)}),
    "imputer": (DPSimpleImputer, {"bounds": (-10, 10)}),
    "pca": (DPPCA, {}),
    "k-means": (DPKMeans, {"bounds": (-10, 10)}),
}
for _name_of, (_kind, _needs) in TRANSFORMERS.items():
    INSTANCES |= {
        _name_of: _kind(**_needs),
        f"{_name_of}-inf": _kind(epsilon=math.inf, **_needs),
        f"{_name_of}-ledger": _kind(ledger=ledger(), **_needs),
    }
# Checks that may fail, by instance, each with its reason.
EXPECTED_FAILURES: dict[str, dict[str, str]] = {name: {} for name in INSTANCES}
EXPECTED_FAILURES["threshold"] = {
    "check_classifiers_train": "labels are by the threshold, not by 1/2, as "
    "scikit-learn says of its own"
}
# Checks that may skip themselves: this one asks for another setting of the process.
MAY_SKIP = {"check_array_api_input"}
# How many checks must at least run for an instance, whatever the release.
FEWEST = 44


def _name(check):
    """Name of a check and, if it has variants, of the variant."""
    variant = "-".join(f"{k}={v}" for k, v in getattr(check, "keywords", {}).items())
    return getattr(check, "func", check).__name__ + (f"[{variant}]" if variant else "")


def run_checks(checks):
    """Run all checks of an instance; names of those that ran and of those skipped.

    All failures are raised together, each with the name of its check.
    """
    ran, skipped, failures = [], [], []
    for estimator, check in checks:
        try:
            check(estimator)
            ran.append(_name(check))
        except SkipTest:
            skipped.append(_name(check))
        except Exception as error:
            error.add_note(f"in {_name(check)}")
            failures.append(error)
    if failures:
        raise ExceptionGroup("scikit-learn's checks", failures)
    return ran, skipped


def on_axes(label):
    """Each class, and of all of them without noise, with a ledger, with columns."""
    params = INSTANCES[label].get_params(deep=False)
    return (
        type(INSTANCES[label]),
        params.get("epsilon") == math.inf,
        params.get("ledger") is not None,
        params.get("columns") is not None,
    )


# One item an instance: most of its checks take less time than pytest does over an item.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("label", part_of(INSTANCES, on_axes, str))
def test_sklearn_checks(label):
    expected = EXPECTED_FAILURES[label]
    assert not expected or isinstance(INSTANCES[label], DPTunedThresholdClassifier)
    checks = [
        (estimator, check)
        for estimator, check in estimator_checks_generator(INSTANCES[label])
        if _name(check).partition("[")[0] not in expected
    ]
    ran, skipped = run_checks(checks)
    assert {name.partition("[")[0] for name in skipped} <= MAY_SKIP
    assert len(ran) + len(skipped) >= FEWEST


class Forgetful(DPLogisticRegression):
    """A twin that breaks three promises: sets what it was not told, and forgets."""

    def fit(self, X, y):
        super().fit(X, y)
        self.C = 2.0
        return None


@pytest.mark.filterwarnings("ignore")
def test_broken_twin_fails_by_the_names_of_its_checks():
    with pytest.raises(ExceptionGroup) as caught:
        run_checks(estimator_checks_generator(Forgetful()))
    names = {note for error in caught.value.exceptions for note in error.__notes__}
    assert {
        "in check_estimators_fit_returns_self",
        "in check_estimators_overwrite_params",
    } <= names
    # Checks after a failure run too.
    assert len(names) > 2


@pytest.mark.parametrize("label", INSTANCES)
def test_enough_checks_run_and_none_is_switched_off(label):
    estimator = INSTANCES[label]
    checks = list(estimator_checks_generator(estimator))
    assert len(checks) >= FEWEST, sklearn.__version__
    assert len(EXPECTED_FAILURES[label]) <= 2
    tags = estimator.__sklearn_tags__()
    assert not tags._skip_test
    assert not tags.no_validation
    assert not tags.non_deterministic
    assert tags.input_tags.two_d_array
    if getattr(estimator, "epsilon", 1.0) == math.inf and label != "conformal-inf":
        own = tags.classifier_tags or tags.regressor_tags
        assert own is None or not own.poor_score


def test_every_public_estimator_is_checked():
    import skdp

    public = {
        name
        for name in skdp.__all__
        if isinstance(getattr(skdp, name), type) and hasattr(getattr(skdp, name), "fit")
    }
    # Its `fit` is given an estimator, and it is none.
    public.remove("Federation")
    checked = {type(estimator).__name__ for estimator in INSTANCES.values()}
    # Its rows are pairs of ids: tests/contract/test_pair_checks.py.
    public.remove("DPMatrixFactorization")
    # Its y has two columns: tests/linear_model/test_survival.py.
    public.remove("DPDiscreteTimeSurvival")
    # The labels are those of a fitted model: tests/model_selection/test_conformal.py.
    public.remove("DPConformalClassifier")
    assert public == checked
