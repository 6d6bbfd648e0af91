"""Counts and quantiles: what is predicted, shapes on the scale of logs, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from skdp import BudgetLedger, DPGradientBoostingRegressor
from skdp.columns import Range
from tests.ensemble.boosted import codes_of, quietly

COUNTS = {"loss": "poisson", "target_bounds": (0, 40)}
AMOUNTS = {"loss": "gamma", "target_bounds": (0.1, 100)}
HIGH = {"loss": "quantile", "quantile": 0.8, "target_bounds": (-10, 10)}
LOSSES = {"poisson": COUNTS, "gamma": AMOUNTS, "quantile": HIGH}


def records(loss, n=4000, seed=0):
    """A curve and a step, and columns that do not matter."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (n, 3))
    score = np.sin(6 * X[:, 0]) + (X[:, 1] > 0.5)
    if loss == "poisson":
        return X, rng.poisson(2 * np.exp(score)), 2 * np.exp(score)
    if loss == "gamma":
        return X, rng.gamma(3.0, 2 * np.exp(score) / 3), 2 * np.exp(score)
    # The 0.8-quantile of a normal deviation of 1.
    return X, score + rng.normal(0, 1, n), score + 0.8416


def fitted(loss, n=4000, seed=0, **params):
    X, y, _ = records(loss, n)
    given = {"epsilon": 5.0, "columns": (0, 1), "n_estimators": 100} | LOSSES[loss]
    given |= {"random_state": seed} | params
    return quietly(lambda: DPGradientBoostingRegressor(**given).fit(X, y))


# ---------------------------------------------------------------------- what is shown


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_effects_of_means_add_up_to_logarithms(loss):
    model, (X, _, _) = fitted(loss, max_interaction=2), records(loss)
    shapes = model.shape_functions_
    raw = shapes.raw(codes_of(model, X))[:, 0]
    assert np.allclose(np.exp(raw), model.predict(X), rtol=1e-10)
    parts = model.attributions(X).sum(axis=1) + shapes.intercept[0]
    assert np.allclose(np.exp(parts), model.predict(X), rtol=1e-10)
    low, high = LOSSES[loss]["target_bounds"]
    assert low <= model.predict(X).min() < model.predict(X).max() <= high


def test_means_are_no_higher_than_the_bounds():
    X, y, _ = records("poisson")
    model = DPGradientBoostingRegressor(
        20.0, columns=(0, 1), loss="poisson", target_bounds=(0, 3), random_state=0
    )
    found = quietly(lambda: model.fit(X, y)).predict(X)
    assert 0 < found.min() < found.max() <= 3 * (1 + 1e-12)


# ---------------------------------------------------------------------------- refusals


BAD = [
    ({"loss": "absolute_error"}, "'loss' parameter must be one of"),
    ({"loss": None}, "'loss' parameter must be one of"),
    ({"loss": "quantile"}, "'quantile' parameter must be a number"),
    ({"loss": "quantile", "quantile": 1.0}, "'quantile' parameter must be"),
    ({"loss": "quantile", "quantile": "half"}, "'quantile' parameter must be"),
    ({"loss": "squared_error", "quantile": 0.5}, "and None else. Got 0.5"),
    ({"loss": "poisson", "target_bounds": (-1, 5)}, "at least 0 for a model"),
    ({"loss": "poisson", "target_bounds": (5, 5.01)}, "at least 2 % apart"),
    ({"loss": "gamma", "target_bounds": (0, 5)}, "above 0 and at most 1e6 times"),
    (
        {
            "loss": "quantile",
            "quantile": 0.5,
            "solver": "newton_boosting",
            "solver_params": {"residual_clip": 0.5},
        },
        "residual_clip must be None for quantiles",
    ),
]


@pytest.mark.parametrize(("params", "text"), BAD)
def test_bad_losses_are_refused_in_words_for_free(params, text, tmp_path):
    books = BudgetLedger(tmp_path / "books.db", epsilon=50.0, delta=1e-5)
    given = {"columns": Range(0, 1), "target_bounds": (0, 5), "ledger": books}
    model = DPGradientBoostingRegressor(**given | params)
    before = dict(vars(model))
    X, y, _ = records("poisson", 60)
    with pytest.raises((ValueError, TypeError), match=text):
        model.fit(X, y)
    with pytest.raises((ValueError, TypeError), match=text):
        model.forecast(1000, 3)
    assert vars(model) == before
    assert not books.spends()
