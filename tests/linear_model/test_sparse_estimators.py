"""DPSparseLinearRegression and DPSparseLogisticRegression as their users meet them."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from skdp import (
    DPGridSearchCV,
    DPLinearRegression,
    DPSparseLinearRegression,
    DPSparseLogisticRegression,
    TableEncoder,
)
from skdp.columns import Range
from skdp.linear_model._sparse import default_n_nonzero
from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget
from tests.problems import make_ledger

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
    assert model.privacy_.is_private
    assert model.score(X, y) > 0.9
    assert model.n_features_in_ == 120


@each
def test_the_record_says_what_was_clipped_and_how_many_features_may_be_nonzero(
    make, X, y
):
    model = make().fit(X, y)
    record = model.privacy_
    assert model.n_nonzero_coefs_ == record.n_nonzero_coefs
    assert record.feature_bound == 1.0
    assert f"at most {model.n_nonzero_coefs_} of 120" in repr(record)
    assert "entries clipped to 1" in repr(record)
    assert '"n_nonzero_coefs": ' in record.to_json()
    # A bound above the rows' norm is none: their norm bounds entries too.
    given = make(n_nonzero_coefs=3, feature_bound=None).fit(X, y)
    assert given.n_nonzero_coefs_ == 3
    assert given.privacy_.feature_bound == 7.0
    free = make(epsilon=math.inf, n_nonzero_coefs=3).fit(X[:200], y[:200]).privacy_
    assert free.feature_bound == math.inf
    assert "clipped" not in dict(free._rows())["features"]
    assert not hasattr(make(), "n_nonzero_coefs_")


@each
def test_data_norm_nine_and_epsilon_one_do_not_diverge(make, X, y):
    """Found in a first version, whose intercept took the features' steps."""
    for bound in (None, 1.0):
        model = make(data_norm=9.0, feature_bound=bound, random_state=0).fit(X, y)
        assert model.score(X, y) > 0.7
        assert abs(np.ravel(model.intercept_)[0]) < 1


@each
def test_csr_equals_dense_with_seeded_noise(make, X, y):
    rng = np.random.default_rng(1)
    X = np.where(rng.random(X.shape) < 0.2, X, 0.0)
    models = [
        make(random_state=0, feature_bound=0.5).fit(rows, y)
        for rows in (X, csr_array(X))
    ]
    assert np.allclose(models[0].coef_, models[1].coef_, rtol=1e-6, atol=1e-9)
    assert np.allclose(models[0].intercept_, models[1].intercept_, rtol=1e-6)
    assert np.allclose(models[0].predict(X), models[1].predict(csr_array(X)))


@each
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dtype_of_the_rows_is_kept(make, X, y, dtype):
    for rows in (X.astype(dtype), csr_array(X.astype(dtype))):
        model = make().fit(rows, y)
        assert model.coef_.dtype == dtype


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


@each
def test_select_from_model_and_pipelines(make, X, y):
    seeded = make(epsilon=4.0, n_nonzero_coefs=2, random_state=0)
    chooser = SelectFromModel(seeded, threshold=1e-10)
    assert chooser.fit(X, y).get_support(indices=True).tolist() == TRUE
    chain = make_pipeline(MaxAbsScaler(), clone(seeded))
    assert chain.fit(X, y).score(X, y) > 0.9


@each
def test_searches_over_the_number_of_features(make, X, y):
    grid = {"n_nonzero_coefs": [2, 40]}
    search = GridSearchCV(make(epsilon=4.0, delta=1e-7), grid, cv=2).fit(X, y)
    assert search.best_estimator_.get_support().sum() <= 40


def test_private_search_over_the_number_of_features():
    make, X, y = both()[1]
    grid = {"n_nonzero_coefs": [2, 40]}
    search = DPGridSearchCV(make(), grid, epsilon=6.0, delta=1e-6, random_state=0).fit(
        X, y
    )
    assert set(search.cv_results_["param_n_nonzero_coefs"]) == {2, 40}
    assert search.score(X, y) > 0.8


def test_as_one_of_several_fits_auto_still_selects_where_selections_are_better():
    """Found in a search whose "auto" was `iht` on dense rows: R2 0.2 and not 0.99."""
    X, y = design(n=3000, d=400)
    model = DPSparseLinearRegression(
        data_norm=12.0, feature_bound=1.0, target_bounds=(-3, 3), n_nonzero_coefs=2
    )
    search = DPGridSearchCV(
        model, {"alpha": [0.0, 1e-3]}, epsilon=4.0, delta=1e-7, random_state=0
    ).fit(X, y)
    assert search.best_estimator_.privacy_.solver == "peeling"
    assert search.score(X, y) > 0.9


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


def test_infinite_epsilon_finds_the_support_of_a_noiseless_design():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 400))
    chosen = np.sort(rng.choice(400, 6, replace=False))
    y = X[:, chosen] @ rng.choice([-1.0, 1.0], 6)
    model = regression(epsilon=math.inf, n_nonzero_coefs=6).fit(X, y)
    assert model.get_support(indices=True).tolist() == chosen.tolist()
    assert np.allclose(np.abs(model.coef_[chosen]), 1.0, atol=1e-4)


def test_several_classes_share_their_features():
    X, _ = design()
    y = np.argmax(X[:, [7, 40, 90]], axis=1)
    model = classifier(
        epsilon=8.0, n_nonzero_coefs=3, classes=[0, 1, 2], random_state=0
    ).fit(X, y)
    assert model.coef_.shape == (3, 120)
    assert model.get_support(indices=True).tolist() == [7, 40, 90]
    assert model.score(X, y) > 0.8


def test_clones_never_share_noise():
    make, X, y = both()[0]
    model = make().fit(X, y)
    assert not np.array_equal(model.coef_, clone(model).fit(X, y).coef_)


@each
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_nonzero_coefs": 0}, "n_nonzero_coefs"),
        ({"n_nonzero_coefs": 121}, "n_nonzero_coefs.*no more features"),
        ({"n_nonzero_coefs": 2.5}, "n_nonzero_coefs"),
        ({"feature_bound": 0.0}, "feature_bound"),
        ({"feature_bound": math.nan}, "feature_bound"),
        ({"alpha": -1.0}, "alpha"),
        ({"delta": 0.0}, "cannot do delta=0"),
        ({"solver": "noisy_gd"}, "gives every feature a weight"),
        ({"solver_params": {"n_steps": 0}}, "n_steps"),
        ({"solver_params": {"max_iter": 5}}, "max_iter"),
    ],
)
def test_bad_parameters_are_refused_and_spend_nothing(
    make, X, y, params, message, tmp_path
):
    ledger = make_ledger(tmp_path)
    model = make(ledger=ledger, **params)
    before = dict(vars(model))
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(X, y)
    assert vars(model) == before
    assert ledger.spends() == []


@each
def test_bad_data_are_refused_and_spend_nothing(make, X, y, tmp_path):
    ledger = make_ledger(tmp_path)
    holes = X.copy()
    holes[3, 3] = math.nan
    for rows, targets in ((holes, y), (csr_array(holes), y), (X, y[:-1]), (X[0], y)):
        with pytest.raises(ValueError):  # noqa: PT011 - messages differ
            make(ledger=ledger).fit(rows, targets)
    assert ledger.spends() == []
    assert make(ledger=ledger).fit(X, y).privacy_.event == ledger.spends()[0].event


def test_a_dense_estimator_refuses_a_solver_that_selects():
    with pytest.raises(ValueError, match="needs a number of features"):
        DPLinearRegression(solver="iht", target_bounds=(-3, 3)).fit(*design(100))


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
