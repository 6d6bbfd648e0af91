"""`forecast`: the solver that a fit would use, and noise against scale."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skdp import (
    DPLinearRegression,
    DPLogisticRegression,
    DPSparseLogisticRegression,
    forecast,
)
from skdp.losses import HuberHingeLoss, LogisticLoss, SoftmaxLoss, SquaredLoss
from skdp.privacy import Budget, GaussianEvent, epsilon_of

LOSSES = [LogisticLoss(), SoftmaxLoss(3), SquaredLoss(2.0, 1.0), HuberHingeLoss()]


@pytest.mark.parametrize(("n", "delta"), [(80, 1e-6), (80, 0.0), (60_000, 1e-6)])
def test_the_solver_is_the_one_that_a_fit_uses(n, delta):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 3)), np.arange(n) % 2
    told = forecast(n, 3, 2.0, delta=delta)
    record = DPLogisticRegression(2.0, delta=delta, classes=[0, 1]).fit(X, y).privacy_
    assert (told.solver, told.why_solver) == (record.solver, record.why_solver)
    assert told.noise_multiplier == record.noise_multiplier
    assert told.solver_params == record.solver_params


def test_the_solver_of_a_regression_is_the_one_that_a_fit_uses():
    X, y = np.eye(40, 3), np.linspace(0, 1, 40)
    told = forecast(40, 3, loss=SquaredLoss(2.0, 1.0))
    record = DPLinearRegression(target_bounds=(0, 1)).fit(X, y).privacy_
    assert (told.solver, told.solver_params) == (record.solver, record.solver_params)


@pytest.mark.parametrize("columns", [(-1, 1), {"a": (-1, 1), "b": (0, 1)}])
def test_sparse_models_of_declared_columns_are_forecast_before_they_are_fitted(columns):
    X = pd.DataFrame(np.zeros((40, 2)), columns=["a", "b"])
    model = DPSparseLogisticRegression(
        columns=columns, classes=[0, 1], n_nonzero_coefs=1
    )
    told = model.forecast(40, 2)
    if isinstance(columns, dict):
        fitted = clone(model).fit(X, np.arange(40) % 2)
        assert told.coefficient_noise == fitted.forecast(40, 2).coefficient_noise
    assert math.isfinite(told.noise_to_signal)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_noise_falls_with_records_and_not_with_units(loss, delta):
    def ratio(n=1000, **changes):
        return forecast(n, 5, loss=loss, delta=delta, **changes).noise_to_signal

    assert ratio(4000) == pytest.approx(ratio() / 4)
    assert ratio(data_norm=100.0) == pytest.approx(ratio())
    assert ratio(epsilon=0.1) > 5 * ratio()
    assert ratio(adjacency="zero_out") == pytest.approx(ratio() / 2)


def test_noise_is_that_of_one_estimate_with_the_whole_budget():
    """One coefficient, x = 1 or -1, the logistic loss linearised at 0."""
    n, rng = 500, np.random.default_rng(1)
    told = forecast(n, 1, fit_intercept=False)
    mu = 1 / _multiplier(Budget(1.0, 1e-6))
    estimates = rng.normal(size=100_000) * (2 / mu) / (n / 4)
    # The standard error of the deviation is 0.2 %; the margin is ten of them.
    assert told.coefficient_noise == pytest.approx(np.std(estimates), rel=0.02)


def _multiplier(budget):
    low, high = 0.1, 100.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        enough = epsilon_of(GaussianEvent(middle), budget.delta) <= budget.epsilon
        low, high = (low, middle) if enough else (middle, high)
    return high


def test_the_number_of_records_it_names_is_the_one_with_little_noise():
    told = forecast(500, 30)
    enough = told.records_for_little_noise
    assert forecast(enough, 30).noise_to_signal <= 0.3
    assert forecast(enough - 100, 30).noise_to_signal > 0.3


@pytest.mark.parametrize(
    ("n", "words"), [(100, "constant"), (3000, "useful"), (10**5, "close to")]
)
def test_it_says_what_to_expect(n, words):
    text = str(forecast(n, 30))
    assert words in text
    assert text.startswith("(1, 1e-06) under replace_one: ")
    assert "records on" in text


@pytest.mark.parametrize(
    ("changes", "pattern"),
    [
        ({"epsilon": math.inf}, "'epsilon' parameter must be"),
        ({"epsilon": -1}, "'epsilon' parameter must be"),
        ({"delta": 1.0}, "'delta' parameter must be"),
        ({"data_norm": math.inf}, "'data_norm' parameter must be"),
        ({"n_samples": 0}, "'n_samples' parameter must be"),
        ({"solver": "adassp"}, "needs.*squared loss|squared"),
        ({"solver": "noisy_gd", "delta": 0}, "cannot do delta=0"),
    ],
)
def test_bad_input_is_refused(changes, pattern):
    facts = {"n_samples": 100, "n_features": 3} | changes
    with pytest.raises(ValueError, match=pattern):
        forecast(**facts)


@pytest.mark.parametrize(
    ("n_samples", "verdict", "color"),
    [
        (50_000, "Expect a model close to", "#1a7f37"),
        (1000, "Expect a model that is worse", "#1a7f37"),
        (50, "Expect hardly more than a constant", "#b42318"),
    ],
)
def test_html_says_in_few_digits_what_the_print_says(n_samples, verdict, color):
    told = forecast(n_samples, 30)
    text = told._repr_html_()
    for words in (
        verdict,
        color,
        told.solver,
        f"{told.noise_to_signal:.2g} times its scale",
        f"{told.records_for_little_noise:,} records on",
    ):
        assert words in text
    assert verdict.lower() in str(told).lower()
    assert repr(told.noise_to_signal) not in text
