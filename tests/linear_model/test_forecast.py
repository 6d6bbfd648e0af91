"""`forecast`: the solver that a fit would use, and noise against scale."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skdp import (
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPMLPClassifier,
    DPSparseLogisticRegression,
    forecast,
)
from skdp.exceptions import Refused
from skdp.linear_model import (
    DPGammaRegressor,
    DPPoissonRegressor,
    DPQuantileRegressor,
    DPRobustClassifier,
    DPSparseLinearRegression,
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


TWO, NUMBERS = {"classes": [0, 1]}, {"target_bounds": (0.1, 3.0)}
MODELS = {
    "logistic": DPLogisticRegression(**TWO),
    "four labels": DPLogisticRegression(classes=[0, 1, 2, 3]),
    "weighted": DPLogisticRegression(class_weight={0: 1.0, 1: 9.0}, **TWO),
    "penalised": DPLogisticRegression(C=1.0, **TWO),
    "no intercept": DPLogisticRegression(fit_intercept=False, **TWO),
    "named": DPLogisticRegression(solver="objective_perturbation", **TWO),
    "svc": DPLinearSVC(**TWO),
    "robust": DPRobustClassifier(**TWO),
    "squares": DPLinearRegression(**NUMBERS),
    "poisson": DPPoissonRegressor(**NUMBERS),
    "gamma": DPGammaRegressor(**NUMBERS),
    "quantile": DPQuantileRegressor(**NUMBERS),
    "sparse": DPSparseLogisticRegression(**TWO),
    "sparse squares": DPSparseLinearRegression(**NUMBERS),
}
DECLARED = {"a": (-1, 1), "b": (-1, 1), "c": ["x", "y", "z"]}
FACTS = [
    (60, 0.3, "zero_out", "user"),
    (900, 0.3, "replace_one", "record"),
    (900, 3.0, "zero_out", "record"),
    (4000, 3.0, "replace_one", "user"),
]


def _record_of(model, X, y, groups):
    return model.fit(X, y, groups=groups).privacy_


@pytest.mark.filterwarnings("ignore::skdp.exceptions.NoiseDominatesWarning")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("columns", [None, (-1, 1), DECLARED], ids=str)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_every_model_is_fitted_with_what_was_forecast(name, columns, delta):
    rng = np.random.default_rng(0)
    found = set()
    for n, epsilon, adjacency, unit in FACTS:
        X = pd.DataFrame(rng.uniform(-1, 1, (n, 3)), columns=list("abc"))
        if columns == DECLARED:
            X["c"] = np.array(list("xyz"))[np.arange(n) % 3]
        is_user = unit == "user"
        model = clone(MODELS[name]).set_params(
            epsilon=epsilon,
            delta=delta,
            adjacency=adjacency,
            privacy_unit=unit,
            columns=columns,
        )
        y = np.arange(n) % len(getattr(model, "classes", None) or (0, 1, 2))
        groups = np.arange(n) // 2 if is_user else None
        told = _facts(partial(model.forecast, n // 2 if is_user else n, 3))
        X = X.to_numpy() if columns is None else X
        done = _facts(partial(_record_of, model, X, y, groups))
        assert told == done
        found.add(done is not None and done[0])
    assert found - {False}, "some fit is not refused"


def _facts(make):
    """What a forecast or a record says of the solver; None of a refusal."""
    try:
        made = make()
    except Refused:
        return None
    return made.solver, made.why_solver, made.solver_params, made.noise_multiplier


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
        (1000, "Expect a useful model", "#1a7f37"),
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


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_declared_columns_say_how_many_there_are(delta):
    told = forecast(3000, columns=DECLARED, delta=delta)
    model = DPLogisticRegression(delta=delta, columns=DECLARED, classes=[0, 1])
    assert told == model.forecast(3000) == model.forecast(3000, 3)
    every = model.set_params(columns=(-1, 1))
    assert every.forecast(3000, 3) == forecast(3000, 3, columns=(-1, 1), delta=delta)
    for ask in (every.forecast, DPLogisticRegression().forecast, forecast):
        with pytest.raises(TypeError, match=r"'n_features'.*Got None. Pass the number"):
            ask(3000)
    with pytest.raises(ValueError, match=r"'data_norm'.*Got 2.0"):
        forecast(3000, columns=DECLARED, data_norm=2.0)


def test_more_score_takes_more_epsilon_and_more_records_take_less():
    told = forecast(10_000, 14)
    epsilons = [told.epsilon_for(score) for score in (0.3, 0.5, 0.75, 0.9, 0.99)]
    assert epsilons == sorted(set(epsilons))
    assert forecast(40_000, 14).epsilon_for(0.9) < epsilons[3] / 3
    assert forecast(10_000, 14, adjacency="zero_out").epsilon_for(0.9) < epsilons[3]
    assert forecast(10_000, 14, delta=1e-4).epsilon_for(0.9) < epsilons[3]
    several = forecast(10_000, 14, loss=SoftmaxLoss(10))
    assert several.epsilon_for(0.9) > epsilons[3]


@pytest.mark.parametrize("score", [0.01, 0.5, 0.9])
@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
def test_a_score_is_reached_at_the_ratio_of_the_formula(score, adjacency):
    # Asked at any epsilon, also where noise dominates.
    few, many = (
        forecast(2000, 14, epsilon, adjacency=adjacency).epsilon_for(score)
        for epsilon in (1e-3, 10.0)
    )
    assert few == pytest.approx(many, rel=1e-5)
    assert type(few) is float
    params = forecast(2000, 14, few, adjacency=adjacency).solver_params
    formula = max(140 * score / (1 - score), 50)
    assert params["signal_to_noise"] == pytest.approx(formula, rel=2e-3)


def test_an_epsilon_for_a_score_is_one_that_estimators_take_or_inf():
    assert forecast(1, 1).epsilon_for(1 - 1e-9) == math.inf
    least = forecast(10**12, 1).epsilon_for(0.1)
    assert least == 1e-6
    DPLogisticRegression(least).forecast(10**12, 1)


@pytest.mark.parametrize(
    ("score", "kind"),
    [(0, ValueError), (1, ValueError), (math.nan, ValueError), ("0.9", TypeError)],
)
def test_a_score_is_a_share(score, kind):
    with pytest.raises(kind, match=r"'score' .* in \(0, 1\)\. Got .*Use a fraction"):
        forecast(1000, 3).epsilon_for(score)


@pytest.mark.parametrize(
    "told",
    [
        forecast(1000, 3, delta=0.0),
        forecast(1000, 3, solver="noisy_gd"),
        forecast(1000, 3, fit_intercept=False),
        MODELS["sparse"].forecast(1000, 3),
        DPMLPClassifier(0.01, classes=[0, 1]).forecast(100, 3),  # a constant
    ],
    ids=lambda told: told.solver,
)
def test_scores_are_those_of_the_default_of_linear_models(told):
    with pytest.raises(ValueError, match=r"Got solver=.*Use solver='auto'"):
        told.epsilon_for(0.5)
