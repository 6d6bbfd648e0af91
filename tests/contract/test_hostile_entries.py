"""Entries that raise what they like are refused in words that are not theirs."""

from __future__ import annotations

import warnings
from contextlib import nullcontext

import numpy as np
import pytest

from skdp import (
    DeclaredOneHotEncoder,
    DPGradientBoostingClassifier,
    DPLinearRegression,
    DPLogisticRegression,
    DPMatrixFactorization,
    DPPoissonRegressor,
    DPStandardScaler,
    TableEncoder,
    describe,
    propose_ranges,
)
from skdp._base import PrivateEstimator
from skdp.columns import Range
from skdp.decomposition._ratings import found_ids

SECRET = "ann has 3 cats"


class Hostile:
    """An entry whose conversion, hash and comparison raise an error of its own."""

    def __init__(self, error, hashable=False):
        self.error, self.hashable = error, hashable

    def __float__(self):
        raise self.error(SECRET)

    def __hash__(self):
        if self.hashable:
            return 0
        raise self.error(SECRET)

    def __eq__(self, other):
        raise self.error(SECRET)

    def __lt__(self, other):
        raise self.error(SECRET)


def column(entry, n=20):
    table = np.zeros((n, 1), dtype=object)
    table[:, 0] = np.linspace(0, 1, n)
    table[3, 0] = entry
    return table


def scaler(entry):
    DPStandardScaler(bounds=(0, 1)).fit(column(entry))


def target(entry):
    y = column(entry)[:, 0]
    DPLinearRegression(target_bounds=(0, 1)).fit(np.ones((20, 1)), y)


def labels(entry):
    y = column(entry)[:, 0]
    DPLogisticRegression(classes=[0, 1]).fit(np.ones((20, 1)), y)


def ids(entry):
    X = [(entry, 0), (entry, 1), ("ann", 0), (3, 1)]
    model = DPMatrixFactorization(privacy_unit="rating_value", rating_bounds=(1, 5))
    model.fit(X, [1.0, 2.0, 3.0, 4.0])


ERRORS = [KeyError, ValueError, LookupError, OSError, StopIteration]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("fit", [scaler, target, labels, ids])
def test_the_words_of_an_entry_are_not_passed_on(fit, error):
    with pytest.raises((TypeError, ValueError)) as caught:
        fit(Hostile(error))
    assert SECRET not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("error", ERRORS)
def test_ids_that_cannot_be_compared_are_refused_in_words_of_skdp(error):
    with pytest.raises((TypeError, ValueError)) as caught:
        found_ids([Hostile(error, hashable=True) for _ in range(3)], "users")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("error", ERRORS)
def test_a_category_that_cannot_be_looked_up_is_unknown(error):
    encoder = DeclaredOneHotEncoder([["a", "b"]]).fit(column("a").astype(str))
    X = np.array([["a"], ["b"]], dtype=object)
    X[1, 0] = Hostile(error)
    assert encoder.transform(X).tolist() == [[1, 0], [0, 0]]


# --------------------------------------------------- numbers that NumPy may complain of

EXTREME = np.resize([1e308, -1e308, 5e-324, -5e-324, 1e-300, 0.0, 1.0, -0.0], (40, 3))
WIDE = [Range(-1e308, 1e308), Range(1e-300, 1e300, log=True), (-2, 2)]
LABELS = np.arange(40) % 2
COMPLAINTS = {
    "linear": lambda: DPLogisticRegression(classes=[0, 1]).fit(EXTREME, LABELS),
    "columns": lambda: DPLogisticRegression(classes=[0, 1], columns=WIDE).fit(
        EXTREME, LABELS
    ),
    "poisson": lambda: DPPoissonRegressor(target_bounds=(0, 9)).fit(
        EXTREME, np.abs(EXTREME[:, 0])
    ),
    "boosted": lambda: DPGradientBoostingClassifier(
        classes=[0, 1], columns=WIDE, n_estimators=2
    ).fit(EXTREME, LABELS),
    "encoder": lambda: TableEncoder(WIDE).fit_transform(EXTREME),
    "scaler": lambda: DPStandardScaler(bounds=(-1, 1)).fit(EXTREME),
    "describe": lambda: describe(EXTREME, WIDE, epsilon=1.0),
    "propose_ranges": lambda: propose_ranges(EXTREME),
}


@pytest.mark.parametrize("name", COMPLAINTS)
def test_numpys_settings_of_the_user_raise_and_warn_of_no_entry(name):
    with warnings.catch_warnings(record=True) as told, np.errstate(all="raise"):
        warnings.simplefilter("always")
        COMPLAINTS[name]()
    assert not [w for w in told if issubclass(w.category, RuntimeWarning)]


def test_broken_twin_with_the_users_settings_is_found(monkeypatch):
    monkeypatch.setattr(PrivateEstimator, "_all_or_nothing", lambda self: nullcontext())
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        COMPLAINTS["poisson"]()
