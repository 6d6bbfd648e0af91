"""`NoiseDominatesWarning`: from public facts, before anything is paid, and once."""

from __future__ import annotations

import math
import warnings
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

import skdp._quiet
import skdp.linear_model._base
from skdp import (
    BudgetLedger,
    DPGammaRegressor,
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
    DPGridSearchCV,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPMatrixFactorization,
    DPMLPClassifier,
    DPMLPRegressor,
    DPPoissonRegressor,
    DPQuantileRegressor,
    DPRobustClassifier,
    DPSparseLinearRegression,
    DPSparseLogisticRegression,
)
from skdp.exceptions import NoiseDominatesWarning
from skdp.model_selection import _candidates
from skdp.privacy.accounting._relations import UNIT_OF
from skdp.privacy.release import _answers

LABELS = {"classes": [0, 1]}
BOUNDED = {"target_bounds": (-1, 1)}
TABLE = {"columns": (-0.5, 0.5)}
FEW = {"feature_bound": 1.0, "data_norm": 3.0, "n_nonzero_coefs": 2}
STARS = {"privacy_unit": "rating_value", "rating_bounds": (1, 5)}
USERS = STARS | {"privacy_unit": "user", "n_users": 40, "item_ids": list(range(10))}
# Of each an epsilon at which 200 rows of 4 columns, or 400 ratings by 40 users of 10
# items, are hopeless, and one at which they are not.
MODELS = {
    "logistic": (DPLogisticRegression, LABELS, 0.01, 3.0),
    "logistic, pure": (DPLogisticRegression, LABELS | {"delta": 0.0}, 0.03, 1.0),
    "zero_out": (DPLogisticRegression, LABELS | {"adjacency": "zero_out"}, 0.01, 2.0),
    "svc": (DPLinearSVC, LABELS, 0.01, 3.0),
    "robust": (DPRobustClassifier, LABELS, 0.01, 3.0),
    "regression": (DPLinearRegression, BOUNDED, 0.03, 3.0),
    "regression, pure": (DPLinearRegression, BOUNDED | {"delta": 0.0}, 0.05, 3.0),
    "counts": (DPPoissonRegressor, {"target_bounds": (0, 1)}, 0.01, 3.0),
    "amounts": (DPGammaRegressor, {"target_bounds": (0.1, 1)}, 0.01, 8.0),
    "quantiles": (DPQuantileRegressor, BOUNDED, 0.01, 3.0),
    "sparse logistic": (DPSparseLogisticRegression, LABELS | FEW, 0.1, 3.0),
    "sparse logistic, k by rule": (DPSparseLogisticRegression, LABELS, 0.1, 3.0),
    "sparse regression": (DPSparseLinearRegression, BOUNDED | FEW, 0.1, 3.0),
    "boosting": (DPGradientBoostingClassifier, LABELS | TABLE, 0.1, 3.0),
    "boosting, regression": (
        DPGradientBoostingRegressor,
        BOUNDED | TABLE,
        0.03,
        3.0,
    ),
    "boosting, amounts": (
        DPGradientBoostingRegressor,
        {"target_bounds": (0.1, 1), "loss": "gamma"} | TABLE,
        0.03,
        3.0,
    ),
    "network": (DPMLPClassifier, LABELS, 0.01, 3.0),
    "network, regression": (DPMLPRegressor, BOUNDED, 0.03, 3.0),
    "ratings": (DPMatrixFactorization, STARS, 0.05, 3.0),
    "users": (DPMatrixFactorization, USERS, 0.1, 30.0),
}
RNG = np.random.default_rng(0)
X, Y = RNG.uniform(-0.5, 0.5, (200, 4)), np.arange(200) % 2
PAIRS = np.array([(user, item) for user in range(40) for item in range(10)])
STARRED = RNG.integers(1, 6, 400).astype(float)


def model(name, epsilon, **changes):
    kind, params, _, _ = MODELS[name]
    return kind(epsilon, **params | changes)


def forecast_of(name, epsilon):
    """By the shape of `data_of`."""
    shape = (40, 10, 400) if is_of_ratings(name) else X.shape
    return model(name, epsilon).forecast(*shape)


def is_of_ratings(name):
    return name in ("ratings", "users")


def fitted(name, epsilon, **changes):
    rows, targets = (PAIRS, STARRED) if is_of_ratings(name) else (X, Y)
    return model(name, epsilon, **changes).fit(rows, targets)


@contextmanager
def shown(action="always"):
    """The warnings of noise that anybody sees."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter(action)
        told = []
        yield told
    told += [str(w.message) for w in found if w.category is NoiseDominatesWarning]


@pytest.mark.parametrize("name", MODELS)
def test_a_hopeless_fit_says_so_and_a_useful_one_does_not(name):
    _, _, hopeless, useful = MODELS[name]
    with shown() as told:
        record = fitted(name, hopeless).privacy_
    assert len(told) == 1
    assert "hardly more than a constant model" in told[0]
    assert "a larger epsilon" in told[0]
    assert ("delta above 0" in told[0]) == name.endswith("pure")
    assert any("hardly more than a constant" in note for note in record.warnings)
    with shown() as told:
        record = fitted(name, useful).privacy_
    assert not told
    assert not any("hardly more" in note for note in record.warnings)


@pytest.mark.parametrize("name", MODELS)
def test_forecast_knows_every_estimator(name):
    _, _, hopeless, useful = MODELS[name]
    bad, good = forecast_of(name, hopeless), forecast_of(name, useful)
    assert bad.noise_dominates
    assert not good.noise_dominates
    assert "constant" in str(bad)
    record = fitted(name, useful).privacy_
    assert (good.solver, good.why_solver) == (record.solver, record.why_solver)
    assert good.noise_multiplier == record.noise_multiplier
    assert good.adjacency == record.adjacency
    if not is_of_ratings(name):
        assert good.solver_params == record.solver_params


@pytest.mark.parametrize("name", MODELS)
def test_an_error_filter_stops_the_fit_before_it_is_paid_for(name, tmp_path):
    relation = forecast_of(name, 1.0).adjacency
    ledger = BudgetLedger(
        tmp_path / "books.db",
        epsilon=10.0,
        delta=1e-3,
        adjacency=relation,
        unit=UNIT_OF[relation],
    )
    unfitted = model(name, MODELS[name][2], ledger=ledger)
    before = dict(vars(unfitted))
    rows, targets = (PAIRS, STARRED) if is_of_ratings(name) else (X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoiseDominatesWarning)
        for _ in range(2):
            with pytest.raises(NoiseDominatesWarning):
                unfitted.fit(rows, targets)
    assert ledger.spent().epsilon == 0
    assert vars(unfitted) == before


def cross_validated():
    cross_val_score(model("logistic", 0.01), X, Y, cv=KFold(5))


def searched():
    GridSearchCV(
        model("logistic", 0.01), {"C": [0.1, 1.0]}, cv=KFold(4), refit=False
    ).fit(X, Y)


@pytest.mark.parametrize("action", ["default", "always"])
@pytest.mark.parametrize("work", [cross_validated, searched])
def test_all_fits_of_a_statement_say_it_once(work, action):
    with shown(action) as told:
        work()
    assert len(told) == 1


def test_twin_that_trusts_pythons_memory_floods(monkeypatch):
    monkeypatch.setattr("skdp._base.warn_once", skdp._quiet.warn)
    with shown("default") as told:
        cross_validated()
    assert len(told) == 5


def search(epsilon, **changes):
    grid = {"C": [0.1, 1.0, 10.0]}
    return DPGridSearchCV(
        DPLogisticRegression(classes=[0, 1]), grid, epsilon=epsilon, **changes
    )


def test_a_private_search_says_it_once_for_all_of_its_fits(tmp_path):
    ledger = BudgetLedger(tmp_path / "books.db", epsilon=10.0, delta=1e-3)
    with shown() as told:
        record = search(0.02).fit(X, Y).privacy_
    assert len(told) == 1
    assert "every fit of this search" in told[0]
    assert any("hardly more than a constant" in note for note in record.warnings)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoiseDominatesWarning)
        with pytest.raises(NoiseDominatesWarning):
            search(0.02, ledger=ledger).fit(X, Y)
    assert ledger.spent().epsilon == 0
    with shown() as told:
        search(30.0).fit(X, Y)
    assert not told


def test_twin_whose_trials_are_not_silent_floods(monkeypatch):
    for module in (_candidates, _answers):
        monkeypatch.setattr(module, "no_warnings", nullcontext)
    monkeypatch.setattr(_candidates, "silence", nullcontext)
    with shown() as told:
        search(0.02).fit(X, Y)
    assert len(told) > 1


def test_no_noise_no_warning():
    with shown() as told:
        fitted("logistic", math.inf)
    assert not told
    with pytest.raises(ValueError, match="'epsilon' parameter must be"):
        forecast_of("logistic", math.inf)
