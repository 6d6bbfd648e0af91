"""`forecast`: the solver that a fit would use, and noise against scale."""

from __future__ import annotations

from functools import partial
from itertools import cycle, product

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skdp import (
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
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

LOSSES = [LogisticLoss(), SoftmaxLoss(3), SquaredLoss(2.0, 1.0), HuberHingeLoss()]


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
@pytest.mark.parametrize(
    ("name", "columns", "delta"),
    [
        (name, *facts)
        for name, facts in zip(
            MODELS,
            cycle(product((None, (-1, 1), DECLARED), (0.0, 1e-6))),
        )
    ],
)
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


@pytest.mark.parametrize(
    ("loss", "delta"), list(zip(LOSSES, (0.0, 1e-6) * 2, strict=True))
)
def test_noise_falls_with_records_and_not_with_units(loss, delta):
    def ratio(n=1000, **changes):
        return forecast(n, 5, loss=loss, delta=delta, **changes).noise_to_signal

    assert ratio(4000) == pytest.approx(ratio() / 4)
    assert ratio(data_norm=100.0) == pytest.approx(ratio())
    assert ratio(epsilon=0.1) > 5 * ratio()
    assert ratio(adjacency="zero_out") == pytest.approx(ratio() / 2)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_declared_columns_say_how_many_there_are(delta):
    told = forecast(3000, columns=DECLARED, delta=delta)
    model = DPLogisticRegression(delta=delta, columns=DECLARED, classes=[0, 1])
    before = dict(vars(model))
    assert told == model.forecast(3000) == model.forecast(3000, 3)
    assert vars(model) == before
    every = model.set_params(columns=(-1, 1))
    assert every.forecast(3000, 3) == forecast(3000, 3, columns=(-1, 1), delta=delta)
    for ask in (every.forecast, DPLogisticRegression().forecast, forecast):
        with pytest.raises(TypeError, match=r"'n_features'.*Got None. Pass the number"):
            ask(3000)
    with pytest.raises(ValueError, match=r"'data_norm'.*Got 2.0"):
        forecast(3000, columns=DECLARED, data_norm=2.0)


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


def test_an_epsilon_for_a_score_is_of_the_default_alone():
    for told in (forecast(1000, 3, delta=0.0), forecast(1000, 3, solver="noisy_gd")):
        with pytest.raises(ValueError, match=r"Got solver=.*Use DPLogisticRegression"):
            told.epsilon_for(0.5)


@pytest.mark.parametrize("n_samples", [30, 160, 700])
def test_the_records_that_a_warning_asks_for_are_enough(n_samples):
    told = forecast(n_samples, 14, 0.3)
    if told.noise_dominates:
        asked = int(told._where_it_ends().split(" ")[0].replace(",", ""))
        assert asked > n_samples
        assert not forecast(asked, 14, 0.3).noise_dominates
    else:
        assert n_samples > 160
