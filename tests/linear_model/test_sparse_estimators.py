"""DPSparseLinearRegression and DPSparseLogisticRegression as their users meet them."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from skdp import (
    DPSparseLinearRegression,
    DPSparseLogisticRegression,
    TableEncoder,
)
from skdp.columns import Range
from skdp.linear_model._sparse import default_n_nonzero
from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget

TRUE = [7, 90]


def design(n=5000, d=120):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n, d))
    signal = 2 * X[:, 7] - X[:, 90]
    return X, signal + 0.1 * rng.normal(size=n)


def regression(**params):
    given = {"data_norm": 7.0, "feature_bound": 1.0, "target_bounds": (-3, 3)}
    return DPSparseLinearRegression(**given | {"solver": "iht"} | params)


def classifier(**params):
    given = {"data_norm": 7.0, "feature_bound": 1.0, "classes": [0, 1]}
    return DPSparseLogisticRegression(**given | {"solver": "iht"} | params)


def both():
    """Each estimator with rows and targets that suit it."""
    X, y = design()
    return [(regression, X, y), (classifier, X, (y > 0).astype(int))]


each = pytest.mark.parametrize(("make", "X", "y"), both(), ids=["linear", "logistic"])


@each
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_the_features_that_matter_are_found(make, X, y, adjacency):
    # The weaker one stands out by some forty deviations of the noise.
    model = make(epsilon=4.0, n_nonzero_coefs=2, adjacency=adjacency).fit(X, y)
    assert model.get_support(indices=True).tolist() == TRUE
    mask = model.get_support()
    assert mask.dtype == bool
    assert np.flatnonzero(mask).tolist() == TRUE
    assert model.privacy_.solver == "iht"
    told = "at most 2 of 120 are nonzero; entries clipped to 1"
    assert told in " ".join(repr(model.privacy_).split())
    assert model.privacy_.is_private
    assert model.score(X, y) > 0.9
    assert model.n_features_in_ == 120


@each
def test_entries_beyond_the_bound_count_as_the_bound(make, X, y):
    wild = X.copy()
    wild[:50] *= 1e200
    models = [
        make(random_state=0, feature_bound=0.3).fit(rows, y)
        for rows in (X, np.clip(X, -0.3, 0.3))
    ]
    assert np.array_equal(models[0].coef_, models[1].coef_)
    model = make(random_state=0, feature_bound=0.3).fit(wild, y)
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize(
    ("changes", "solver"),
    [
        ({}, "auto"),
        ({"n_nonzero_coefs": None}, "auto"),
        ({"n_nonzero_coefs": 25}, "iht"),
        ({"feature_bound": None}, "iht"),
        ({"feature_bound": 5.0}, "iht"),
        ({"solver": "two_stage"}, "two_stage"),
        ({"delta": 0.0}, "auto"),
    ],
)
def test_which_solver_is_one_of_several(changes, solver):
    facts = {"solver": "auto", "n_nonzero_coefs": 2} | changes
    model = regression(**facts)
    model._use_composable_noise()
    assert model.solver == solver
    if solver == "auto":
        model.solver_params = {"law": "gaussian"}  # which selections do not have
    if solver != "two_stage":  # selections do not add up in squares
        assert model.step_privacy().adds_in_squares == (solver == "iht")


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_infinite_epsilon_is_the_optimum_if_all_features_may_be_used(fit_intercept):
    X = design()[0][:500, :10]
    y = 3 * X[:, 7] + X[:, 1] + 0.5
    ours = regression(
        epsilon=math.inf, n_nonzero_coefs=10, fit_intercept=fit_intercept
    ).fit(X, y)
    theirs = LinearRegression(fit_intercept=fit_intercept).fit(X, y)
    assert np.allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=1e-4)
    assert not ours.privacy_.is_private
    labels = (y + np.random.default_rng(0).normal(size=500) > 0).astype(int)
    ours = classifier(
        epsilon=math.inf, n_nonzero_coefs=10, fit_intercept=fit_intercept
    ).fit(X, labels)
    theirs = LogisticRegression(
        C=np.inf, fit_intercept=fit_intercept, tol=1e-10, max_iter=1000
    ).fit(X, labels)
    assert np.allclose(ours.coef_, theirs.coef_, atol=1e-3)
    assert np.allclose(ours.intercept_, theirs.intercept_, atol=1e-3)


def facts(n, d, **changes):
    return LinearObjective(
        loss=LogisticLoss(),
        n_samples=n,
        n_features=d,
        adjacency="replace_one",
        **{"data_norm": 1.0} | changes,
    )


def test_the_default_number_of_features_follows_from_public_facts():
    synthetic = facts(1000, 1000, data_norm=20.0, feature_bound=2.0)
    # The thesis's design, of which ten features matter.
    assert 10 <= default_n_nonzero(synthetic, Budget(2.0, 0.01)) <= 30
    loose = facts(1000, 1000, data_norm=20.0)
    assert default_n_nonzero(loose, Budget(2.0, 0.01)) > 100
    numbers = [
        default_n_nonzero(facts(25_000, 26_460), Budget(epsilon, 1e-9))
        for epsilon in (0.1, 0.5, 1.0, 4.0)
    ]
    assert numbers == sorted(numbers)
    assert 1000 < numbers[2] < 2000
    assert default_n_nonzero(facts(1, 10), Budget(1e-6, 1e-6)) == 1
    assert default_n_nonzero(facts(10**9, 10), Budget(1.0, 0.0)) == 10
    assert default_n_nonzero(facts(100, 10), Budget(math.inf, 1e-6)) == 10


@pytest.mark.parametrize("kind", [dict, tuple, Range])
def test_a_forecast_with_columns_knows_the_bound_of_entries_as_fit_does(kind):
    every = Range(-1, 1)
    columns = {dict: dict.fromkeys("abcd", every), tuple: (every,) * 4, Range: every}
    model = DPSparseLogisticRegression(2.0, columns=columns[kind], classes=[0, 1])
    model.set_params(columns=TableEncoder(columns[kind], numeric="linear"))
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(-1, 1, (5000, 4)), columns=list("abcd"))
    before = model.forecast(5000, 4)
    y = (X["a"] > 0).astype(int)
    model.fit(X if kind is dict else X.to_numpy(), y)
    after = model.forecast(5000, model.privacy_.n_features)
    assert model.privacy_.n_features == 4
    assert str(before) == str(after)
    assert before.solver == model.privacy_.solver
