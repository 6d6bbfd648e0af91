"""Counts and quantiles: what is predicted, shapes on the scale of logs, refusals."""

from __future__ import annotations

import json
import math
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import mean_pinball_loss, mean_poisson_deviance

from skdp import BudgetLedger, DPGradientBoostingRegressor
from skdp.columns import Range
from skdp.ensemble._releases import Spread, target_sums
from skdp.privacy import epsilon_of
from skdp.sums._histogram import ReleasedHistogram
from tests.ensemble.boosted import codes_of, quietly
from tests.ensemble.coded import source_of

COUNTS = {"loss": "poisson", "target_bounds": (0, 40)}
HIGH = {"loss": "quantile", "quantile": 0.8, "target_bounds": (-10, 10)}
LOSSES = {"poisson": COUNTS, "quantile": HIGH}
every_loss = pytest.mark.parametrize("loss", LOSSES)


def records(loss, n=4000, seed=0):
    """A curve and a step, and columns that do not matter."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (n, 3))
    score = np.sin(6 * X[:, 0]) + (X[:, 1] > 0.5)
    if loss == "poisson":
        return X, rng.poisson(2 * np.exp(score)), 2 * np.exp(score)
    # The 0.8-quantile of a normal deviation of 1.
    return X, score + rng.normal(0, 1, n), score + 0.8416


def fitted(loss, n=4000, seed=0, **params):
    X, y, _ = records(loss, n)
    given = {"epsilon": 5.0, "columns": (0, 1), "n_estimators": 100} | LOSSES[loss]
    given |= {"random_state": seed} | params
    return quietly(lambda: DPGradientBoostingRegressor(**given).fit(X, y))


def lost(loss, y, predicted):
    if loss == "poisson":
        return mean_poisson_deviance(y, predicted)
    return mean_pinball_loss(y, predicted, alpha=0.8)


@every_loss
@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_its_loss_is_lower_than_that_of_a_constant(loss, epsilon):
    model = fitted(loss, 20_000, epsilon=epsilon, n_estimators=None)
    X, y, truth = records(loss, seed=1)
    constant = y.mean() if loss == "poisson" else np.quantile(y, 0.8)
    worst, best = lost(loss, y, np.full(len(y), constant)), lost(loss, y, truth)
    found = lost(loss, y, model.predict(X))
    assert found < best + 0.4 * (worst - best)


def test_counts_have_their_mean_and_quantiles_their_share():
    X, _, rate = records("poisson", seed=1)
    found = fitted("poisson", 20_000, epsilon=2.0).predict(X)
    assert found.mean() == pytest.approx(rate.mean(), rel=0.07)
    X, y, _ = records("quantile", seed=1)
    found = fitted("quantile", 20_000, epsilon=2.0).predict(X)
    assert np.mean(y < found) == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.95])
def test_every_quantile_is_its_own(level):
    model = fitted("quantile", 20_000, epsilon=2.0, quantile=level)
    X, y, _ = records("quantile", seed=1)
    assert np.mean(y < model.predict(X)) == pytest.approx(level, abs=0.04)


@pytest.mark.parametrize("seed", range(3))
@every_loss
def test_targets_that_are_noise_are_a_constant_or_nearly(loss, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (5000, 3))
    y = rng.poisson(1.0, 5000) if loss == "poisson" else rng.normal(0, 1, 5000)
    given = {"epsilon": 0.5, "columns": (0, 1), "random_state": seed} | LOSSES[loss]
    model = quietly(lambda: DPGradientBoostingRegressor(**given).fit(X, y))
    best = lost(loss, y, np.full(5000, y.mean() if loss == "poisson" else 0.8416))
    assert lost(loss, y, model.predict(X)) < 1.1 * best


# ---------------------------------------------------------------------- what is shown


def test_effects_of_counts_add_up_to_logarithms():
    model, (X, _, _) = fitted("poisson", max_interaction=2), records("poisson")
    shapes = model.shape_functions_
    raw = shapes.raw(codes_of(model, X))[:, 0]
    assert np.allclose(np.exp(raw), model.predict(X), rtol=1e-10)
    parts = model.attributions(X).sum(axis=1) + shapes.intercept[0]
    assert np.allclose(np.exp(parts), model.predict(X), rtol=1e-10)
    assert model.predict(X).max() <= 40


def test_effects_of_quantiles_add_up_to_predictions():
    model, (X, _, _) = fitted("quantile", max_interaction=2), records("quantile")
    raw = model.shape_functions_.raw(codes_of(model, X))[:, 0]
    assert np.allclose(raw, model.predict(X), rtol=0, atol=1e-10)


def test_means_are_no_higher_than_the_bounds():
    X, y, _ = records("poisson")
    model = DPGradientBoostingRegressor(
        20.0, columns=(0, 1), loss="poisson", target_bounds=(0, 3), random_state=0
    )
    found = quietly(lambda: model.fit(X, y)).predict(X)
    assert 0 < found.min() < found.max() <= 3


def test_counts_that_start_above_0():
    X, y, rate = records("poisson", 20_000)
    low, high = (
        fitted("poisson", 20_000),
        DPGradientBoostingRegressor(
            5.0, columns=(0, 1), loss="poisson", target_bounds=(5, 45), random_state=0
        ),
    )
    found = quietly(lambda: high.fit(X, y + 5)).predict(X)
    assert np.corrcoef(found, rate)[0, 1] > 0.9
    assert found.mean() == pytest.approx(low.predict(X).mean() + 5, rel=0.1)


@every_loss
def test_stages_copies_and_json_are_those_of_the_model(loss):
    X, _, _ = records(loss, 40)
    model = fitted(loss, n_estimators=10)
    *_, last = model.staged_predict(X)
    assert np.array_equal(last, model.predict(X))
    stored = pickle.loads(pickle.dumps(model))
    assert np.array_equal(stored.predict(X), model.predict(X))
    assert repr(clone(model)) == repr(model)
    told = json.loads(model.to_json())
    assert told["link"] == ("log" if loss == "poisson" else "identity")


@every_loss
def test_directions_hold(loss):
    model = fitted(loss, monotonic_cst=[1, 0, 0], max_interaction=2)
    rows = np.full((200, 3), 0.3)
    rows[:, 0] = np.linspace(0, 1, 200)
    assert np.all(np.diff(model.predict(rows)) >= 0)


@every_loss
def test_the_event_is_the_budget(loss):
    model = fitted(loss, 400, random_state=None, epsilon=0.7)
    assert epsilon_of(model.privacy_.event, 1e-6) == pytest.approx(0.7, rel=1e-6)
    told = model.forecast(400)
    assert told.noise_multiplier == model.privacy_.noise_multiplier
    assert told.solver_params == model.privacy_.solver_params


def test_a_quantile_of_the_histogram_is_where_quantiles_start():
    y = np.random.default_rng(0).normal(0.1, 0.2, 20_000)
    query = target_sums(len(y))
    exact = query.total(source_of(np.zeros((len(y), 1), dtype=np.uint8), y), None)
    targets = ReleasedHistogram(exact / len(y), 0.0)
    spread = Spread.of(targets, None)
    for level in (0.1, 0.5, 0.9):
        found = Spread.of(targets, level)
        assert found.middle == pytest.approx(np.quantile(y, level), abs=0.02)
        assert found.unit == spread.unit


# ---------------------------------------------------------------------------- refusals


BAD = [
    ({"loss": "absolute_error"}, "'loss' parameter must be one of"),
    ({"loss": None}, "'loss' parameter must be one of"),
    ({"loss": "quantile"}, "'quantile' parameter must be a number"),
    ({"loss": "quantile", "quantile": 1.0}, "'quantile' parameter must be"),
    ({"loss": "quantile", "quantile": "half"}, "'quantile' parameter must be"),
    ({"loss": "squared_error", "quantile": 0.5}, "and None else. Got 0.5"),
    ({"loss": "poisson", "target_bounds": (-1, 5)}, "of at least 0"),
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
