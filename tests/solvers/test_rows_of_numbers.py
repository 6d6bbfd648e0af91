"""The default for rows of numbers of which nothing is declared but a norm.

Exact audits are in tests/audit/test_centred_descent.py.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix, issparse, random_array
from sklearn.metrics import log_loss

from skdp import (
    DPGammaRegressor,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPPoissonRegressor,
    DPQuantileRegressor,
    forecast,
)
from skdp.exceptions import Refused
from skdp.privacy import Budget
from skdp.privacy.release._answers import Released
from skdp.privacy.release._plan import Layout
from skdp.solvers import SOLVERS
from skdp.solvers._centred_rows import Numbers
from skdp.solvers._registry import choose_solver
from skdp.sums._record_sums import RowSum
from skdp.tables._memory import MemorySource
from skdp.tables._views import CentredDense
from tests.solvers.test_centred_descent import of

D = 5
MODELS = {
    "logistic": (DPLogisticRegression, {"classes": [0, 1]}),
    "softmax": (DPLogisticRegression, {"classes": [0, 1, 2]}),
    "svc": (DPLinearSVC, {"classes": [0, 1]}),
    "regression": (DPLinearRegression, {"target_bounds": (-1, 2)}),
    "quantile": (DPQuantileRegressor, {"target_bounds": (-1, 2)}),
    "counts": (DPPoissonRegressor, {"target_bounds": (0, 2)}),
    "amounts": (DPGammaRegressor, {"target_bounds": (0.5, 2)}),
}
every_model = pytest.mark.parametrize("name", MODELS)
every_adjacency = pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])


def table(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, D)) / math.sqrt(D)
    raw = 4 * X @ np.resize([2.0, -2.0], D)
    return X, (raw + rng.logistic(size=n) > 0).astype(int)


def unfitted(name, epsilon=1.0, **params):
    kind, needs = MODELS[name]
    return kind(epsilon, **needs | {"random_state": 0} | params)


def fit(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


def raw(model, X):
    if hasattr(model, "decision_function"):
        return model.decision_function(X)
    return model._raw(X)


# ------------------------------------------------------------------------------ models


@every_model
def test_sparse_and_dense_rows_give_nearly_the_same(name):
    X, y = table()
    dense, sparse = fit(unfitted(name), X, y), fit(unfitted(name), csr_array(X), y)
    assert dense.privacy_.solver == "centred_descent"
    # Sparse rows are on a grid of 2^-20, dense ones of 2^-22.
    assert np.allclose(raw(dense, X), raw(sparse, X), atol=2e-3)


@every_model
def test_predictions_follow_from_the_fitted_attributes(name):
    X, y = table()
    X = 3 * X  # some rows are longer than the norm
    model = fit(unfitted(name), X, y)
    rows = X / np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None]
    moved = (rows - model.center_) * model.scale_
    length = np.linalg.norm(moved, axis=1)
    factor = np.minimum(model.row_norm_ / length, 1.0)[:, None]
    shown = model.center_ + factor * (rows - model.center_)
    by_hand = shown @ np.atleast_2d(model.coef_).T + model.intercept_
    found = raw(model, X).reshape(by_hand.shape)
    assert np.allclose(found, by_hand, atol=1e-9)


@every_model
def test_units_of_the_features_change_nothing(name):
    X, y = table()
    model = fit(unfitted(name), X, y)
    large = fit(unfitted(name, data_norm=1024.0), 1024 * X, y)
    assert np.allclose(raw(model, X), raw(large, 1024 * X), rtol=1e-9, atol=1e-9)


@every_adjacency
def test_labels_at_random_leave_the_base_rate(adjacency):
    X, y = table(2000)
    losses = []
    for seed in range(12):
        drawn = np.random.default_rng(seed).permutation(y)
        model = unfitted("logistic", 0.5, random_state=seed, adjacency=adjacency)
        losses.append(log_loss(drawn, fit(model, X, drawn).predict_proba(X)))
    constant = log_loss(y, np.full(len(y), y.mean()))
    assert np.mean(losses) < constant + 0.005


def test_more_features_than_records_are_learned_where_rows_have_a_direction():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1500)
    X = random_array((1500, 4000), density=0.01, rng=rng, format="csr")
    X = csr_array(X + csr_array(np.outer(y, np.r_[np.ones(40), np.zeros(3960)])))
    model = fit(unfitted("logistic", 2.0, data_norm=8.0), X, y)
    assert model.score(X, y) > 0.9


def test_a_regression_in_a_corner_of_its_bounds_learns():
    X, _ = table(8000)
    target = 90 + 4 * X @ np.resize([2.0, -2.0], D)
    model = unfitted("regression", target_bounds=(-100, 100))
    assert fit(model, X, target).score(X, target) > 0.9


@pytest.mark.parametrize("kind", [np.asarray, csr_array], ids=["dense", "sparse"])
def test_a_prediction_is_of_its_row_alone(kind):
    X, y = table()
    model = fit(unfitted("logistic", 8.0), kind(X), y)
    together = raw(model, kind(X[:200]))
    for row in range(0, 200, 7):
        alone = raw(model, kind(X[[row]]))
        assert alone[0] == pytest.approx(together[row], rel=1e-13)


def test_a_named_solver_does_not_centre():
    X, y = table()
    model = fit(unfitted("logistic"), X, y)
    assert hasattr(model, "center_")
    fit(model.set_params(solver="noisy_gd"), X, y)
    assert not hasattr(model, "center_")


def test_the_forecast_names_what_a_fit_takes():
    X, y = table()
    model = fit(unfitted("logistic"), X, y)
    told = unfitted("logistic").forecast(len(X), D)
    assert told.solver == model.privacy_.solver == "centred_descent"
    assert told.solver_params == model.privacy_.solver_params
    assert forecast(len(X), D).solver == "centred_descent"
    assert forecast(len(X), D, fit_intercept=False).solver == "nesterov"


@pytest.mark.parametrize(
    ("facts", "budget"),
    [
        ({"fit_intercept": False}, Budget(1.0, 1e-6)),
        ({"n_nonzero": 2}, Budget(1.0, 1e-6)),
        ({}, Budget(1.0, 0.0)),
    ],
)
def test_rows_stay_as_they_are_where_they_cannot_be_centred(facts, budget):
    from skdp.losses import LogisticLoss

    asked = of(LogisticLoss(), **facts)
    solver = choose_solver("auto", None, asked, budget).solver
    assert solver.key != "centred_descent"
    if budget.delta > 0:
        assert solver.adds_in_squares({})


# ------------------------------------------------------------------------ sums of rows


def rows_near_all_bounds(rng, n, d):
    rows = rng.normal(size=(n, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * rng.choice([0.0, 1e-3, 0.5, 1.0, 1.0, 7.0, 1e200], size=(n, 1))


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("norm", [1.0, 3e-5, 1e10])
def test_no_exchange_of_rows_moves_their_sum_by_more(norm, is_sparse):
    rng = np.random.default_rng(0)
    bound = RowSum(50, 4, norm).bound()
    largest = {"zero_out": 0.0, "replace_one": 0.0}
    with np.errstate(over="ignore"):
        rows = norm * rows_near_all_bounds(rng, 400, 4)
        rows[::2] = -rows[1::2]
        for a, b in zip(rows[::2], rows[1::2], strict=True):
            sums = []
            for row, there in ((a, True), (b, True), (a, False)):
                X = row[None] if not is_sparse else csr_array(row[None])
                source = MemorySource(X, np.zeros(1), np.array([there]))
                query = RowSum(50, 4, norm)
                sums.append(query.total(query.open(source), None))
            pairs = {"replace_one": sums[1], "zero_out": sums[2]}
            for relation, other in pairs.items():
                moved = np.linalg.norm(sums[0] - other)
                assert moved <= bound.under(relation)
                largest[relation] = max(largest[relation], moved)
    assert largest["zero_out"] > 0.999 * bound.zero_out
    assert largest["replace_one"] > 0.89 * bound.replace_one
    assert RowSum(50, 4, norm).slack(Layout(1)) == 0


def test_sums_of_rows_are_the_same_in_any_blocks():
    rng = np.random.default_rng(0)
    X, y = rows_near_all_bounds(rng, 3000, 4)[:, :4], np.zeros(3000)
    X = np.where(np.isfinite(X), X, 0.0)
    query = RowSum(3000, 4, 1.0)
    source = MemorySource(X, y)
    parts = [
        query.whole_sums(MemorySource(X[a:b], y[a:b]), None)
        for a, b in ((0, 7), (7, 1900), (1900, 3000))
    ]
    for part in parts[1:]:
        parts[0][0].include(part[0])
    assert np.array_equal(query.from_whole(source, parts[0]), query.total(source, None))


def test_what_is_read_of_a_sum_of_rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.4, 0.4, size=(5000, 3))
    query = RowSum(5000, 3, 2.0)
    exact = query.total(MemorySource(X, np.zeros(5000)), None)
    mean, squares = RowSum.read(exact / 5000)
    assert mean == pytest.approx(X.mean(axis=0) / 2, abs=1e-5)
    assert squares == pytest.approx(np.mean(np.sum(X**2, axis=1)) / 4, abs=1e-5)


def test_sparse_rows_stay_sparse():
    X, y = table(50)
    for kind in (csr_array, csr_matrix):
        found = Numbers(D, 1.0).centred(Released(np.zeros(D + 1), 0.0, 0.0), 50)
        view = found.view(MemorySource(kind(X), y.astype(float)))
        assert issparse(next(view.blocks()).X.X.states)


def test_a_mean_that_is_noise_is_not_believed():
    sums = np.r_[np.full(100, 10.0), 500.0]
    found = Numbers(100, 1.0).centred(Released(sums, 10.0, 10.0), 1000)
    assert not found.mean.any()
    found = Numbers(100, 1.0).centred(Released(sums, 0.0, 0.0), 1000)
    assert np.allclose(found.mean, 0.01)


@pytest.mark.parametrize("released", [1e300, -1e12, 0.0, 1e-300])
def test_any_sum_of_rows_makes_rows(released):
    """A draw could bring it anywhere: nothing may fail after the commit."""
    X, y = table(50)
    answer = Released(np.full(D + 1, released), 1e-3, 1e-3)
    with np.errstate(all="ignore"):  # as `solve` does
        found = Numbers(D, 1.0).centred(answer, 50)
        assert np.isfinite(found.mean).all()
        assert 0 < found.norm < 2
        for rows in (X, csr_array(X)):
            (block,) = found.view(MemorySource(rows, y.astype(float))).blocks()
            made = block.X.entries if rows is X else block.X.made()
            assert np.isfinite(made).all()
            assert np.isfinite(block.X.norms).all()


def test_centred_rows_are_within_their_norm_each_by_itself():
    rng = np.random.default_rng(0)
    X = rows_near_all_bounds(rng, 500, 6)
    X = np.where(np.isfinite(X), X, 0.0)
    centre = rng.normal(size=6) / 4
    view = CentredDense(MemorySource(X, np.zeros(500)), 1.0, centre, 0.3)
    (block,) = view.blocks()
    assert np.linalg.norm(block.X, axis=1).max() <= 1 + 1e-12
    for row in (0, 17, 499):
        alone = CentredDense(MemorySource(X[[row]], np.zeros(1)), 1.0, centre, 0.3)
        assert np.array_equal(next(alone.blocks()).X[0], block.X[row])


def test_the_solver_is_no_key_that_users_name():
    assert "centred_descent" not in SOLVERS
    with pytest.raises((ValueError, Refused)):
        fit(unfitted("logistic", solver="centred_descent"), *table(100))
