"""Fits that continue a released model: what they add to it, refuse and state.

Exact audits of such fits, with broken twins, are in tests/audit/test_replay.py, and the
same bits from every source in tests/io/test_same_bits.py.
"""

from __future__ import annotations

import hashlib
import pickle
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone

from skdp import (
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPMLPClassifier,
    DPMLPRegressor,
    DPSparseLogisticRegression,
)
from skdp.columns import Range
from skdp.ensemble import _boosting
from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import BudgetLedger
from skdp.solvers import _centred_descent
from skdp.solvers._centred_descent import share_of
from skdp.solvers._centred_rows import NoiseOfRun
from skdp.solvers._default_rules import Pace
from skdp.solvers._target_base import Base

WITHIN, N = {"columns": Range(-1, 1)}, 1500
LABELS, BOUNDS = {"classes": [0, 1]}, {"target_bounds": (0, 1)}
FEW = {"solver": "noisy_gd", "solver_params": {"n_steps": 20}}
AUTO = {"solver": "auto", "solver_params": None}
MODELS = {
    "numbers": DPLogisticRegression(8.0, **LABELS),
    "columns": DPLogisticRegression(8.0, **LABELS, **WITHIN),
    "three labels": DPLogisticRegression(8.0, classes=[0, 1, 2], **WITHIN),
    "svc": DPLinearSVC(8.0, **LABELS, **WITHIN),
    "squares": DPLinearRegression(8.0, **BOUNDS, **WITHIN),
    "trees": DPGradientBoostingClassifier(8.0, **LABELS, **WITHIN, n_estimators=20),
    "trees of numbers": DPGradientBoostingRegressor(
        8.0, **BOUNDS, **WITHIN, n_estimators=20
    ),
    "network": DPMLPClassifier(8.0, **LABELS, **WITHIN, **FEW),
    "network of numbers": DPMLPRegressor(8.0, **BOUNDS, **FEW),
}
# Trees that a user asks for are grown with any budget.
BY_RULE = {"trees": {"n_estimators": None}, "trees of numbers": {"n_estimators": None}}
LINEAR = ("numbers", "columns", "three labels", "svc", "squares")
FACTS = LinearObjective(
    loss=LogisticLoss(),
    n_samples=10_000,
    n_features=6,
    data_norm=1.0,
    adjacency="zero_out",
)
every_model = pytest.mark.parametrize("name", MODELS)


def table(n=N, seed=0):
    """Rows within [-1, 1], and labels or targets that follow from them."""
    X = np.random.default_rng(seed).uniform(-1, 1, (n, 3))
    return X, (X[:, 0] + 0.5 * X[:, 1] > 0).astype(int)


def quiet(model, n=N, seed=0, **params):
    """A seeded fit to a table of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = clone(model).set_params(**{"random_state": seed, **params})
        return model.fit(*table(n, seed))


@cache
def first(name, **params):
    return quiet(MODELS[name], **params)


def raw(model):
    return model._raw(table(200, seed=9)[0])


@pytest.mark.parametrize("n_parts", [1, 2, 5, 40])
def test_parts_of_equal_noise_have_equal_weight_in_the_end(n_parts):
    """Shares 1, 1/2, 1/3 ... make the mean of what all parts learned."""
    weights, information = [], 0.0
    for _ in range(n_parts):
        share = share_of(30.0, information)
        weights = [(1 - share) * weight for weight in weights] + [share]
        information += 30.0**2
    assert np.allclose(weights, 1 / n_parts)
    # The weight of a part is its part of the sum of 1 / variance.
    assert share_of(40.0, 30.0**2) == pytest.approx(0.64)


@every_model
def test_a_fit_goes_on_from_the_model_and_a_weak_one_leaves_it(name):
    given, anew = first(name), quiet(MODELS[name], seed=1)
    near = quiet(MODELS[name], seed=1, init=given)
    own = BY_RULE.get(name, {})
    weak = quiet(MODELS[name], 60, seed=1, init=given, epsilon=0.1, **own)
    scale = np.std(raw(given))
    apart = [np.std(raw(each) - raw(given)) for each in (weak, near, anew)]
    assert apart[0] < 0.1 * scale
    assert 0 < apart[1]
    # A second fit of the whole budget, by itself, is noisier than the sum of both.
    assert np.ptp(raw(near)) > 0.3 * np.ptp(raw(given))


@pytest.mark.parametrize("name", LINEAR)
def test_the_gate_moves_between_the_given_weights_and_what_is_learned(
    name, monkeypatch
):
    given, found = first(name), {}
    for kept in (0.0, 0.5, 1.0):
        monkeypatch.setattr(_centred_descent, "kept_share", lambda *_, k=kept: k)
        model = quiet(MODELS[name], seed=1, init=given)
        found[kept] = model._released.weights
        past = given._released.information
        own = model.privacy_.solver_params["signal_to_noise"]
        assert model._released.information == pytest.approx(past + (kept * own) ** 2)
    assert np.array_equal(found[0.0], given._released.weights)
    assert np.allclose(found[0.5], (found[0.0] + found[1.0]) / 2)
    share = model.privacy_.solver_params["learned_share"]
    assert share == share_of(own, past)
    assert not np.allclose(found[1.0], found[0.0])


@pytest.mark.parametrize("name", LINEAR)
def test_what_is_learned_counts_with_its_share(name, monkeypatch):
    monkeypatch.setattr(_centred_descent, "kept_share", lambda *_: 1.0)
    given, found, start = first(name), {}, _centred_descent.Start
    for share in (0.5, 1.0):
        # The share that sets the pace stays the same.

        def changed(*facts, share=share):
            return replace(start(*facts), share=share)

        monkeypatch.setattr(_centred_descent, "Start", changed)
        found[share] = quiet(MODELS[name], seed=1, init=given)._released.weights
    mean = (given._released.weights + found[1.0]) / 2
    assert np.allclose(found[0.5], mean)
    assert not np.allclose(found[0.5], found[1.0])


@pytest.mark.parametrize("name", ["trees", "trees of numbers"])
def test_new_trees_follow_those_of_the_model(name, monkeypatch):
    monkeypatch.setattr(_boosting, "helps", lambda gain: True)
    monkeypatch.setattr(_boosting, "best_share", lambda gains: 1.0)
    one = quiet(MODELS[name])
    two = quiet(MODELS[name], seed=1, init=one)
    first_trees, both = one._model.boosted, two._model.boosted
    assert (len(first_trees.trees), len(both.trees)) == (20, 40)
    assert np.array_equal(both.values[:20], first_trees.values)
    assert first_trees.curves is not None
    assert both.curves is not None


def test_three_parts_in_turn_are_better_than_the_first_alone():
    X, y = table(4000, seed=99)
    losses = []
    for seed in range(4):
        model = None
        for part in range(3):
            # Each part has its records and its noise.
            model = quiet(
                MODELS["columns"], 700, seed=10 * seed + part, init=model, epsilon=0.8
            )
            losses.append(-np.mean(model.predict_log_proba(X)[np.arange(len(y)), y]))
    first_alone, _, third = np.reshape(losses, (4, 3)).mean(axis=0)
    assert third < 0.95 * first_alone


def test_noise_in_mixed_weights_is_what_two_runs_of_noise_make():
    """Against simulated runs in directions of three curvatures."""
    paces = [Pace.of(FACTS, ratio) for ratio in (300.0, 500.0)]
    base = Base((0.0,), (0.0,), 1.0, 1.0, 0.5, (0.25,), (0.0,))
    spread, rng = np.array([1e-6, 0.1, 1.0]), np.random.default_rng(0)
    expected, start = None, np.zeros((20_000, 3))
    for pace, deviation, share in zip(paces, (2e-3, 1e-3), (1.0, 0.3), strict=True):
        deviations = np.full(pace.n_steps, deviation)
        expected = NoiseOfRun(
            [pace] * pace.n_steps, deviations, base, 10**9, given=expected, share=share
        )
        weights, velocity, total = start, 0.0, 0.0
        for t in range(pace.n_steps):
            gradient = 0.25 * spread * weights + deviation * rng.normal(
                size=weights.shape
            )
            velocity = pace.momentum * velocity - pace.step_size * gradient
            weights = weights + velocity
            total = total + (t >= pace.n_steps - pace.n_steps // 2) * weights
        start = start + share * (total / (pace.n_steps // 2) - start)
    found = np.var(start, axis=0)
    # The standard error of a variance of 20,000 is 1 %.
    assert found == pytest.approx(expected.of_noise(spread)[:, 0], rel=0.04)


# ------------------------------------------------------------------------- what is said


@every_model
def test_the_statement_names_the_model_and_its_guarantee(name):
    given = first(name)
    model = quiet(MODELS[name], seed=1, init=given)
    (said,) = [fact for fact in model.privacy_.assumed_public if "'init'" in fact]
    assert given.privacy_.statement() in said
    assert hashlib.sha256(given.to_json().encode()).hexdigest() in said
    assert not any("'init'" in fact for fact in given.privacy_.assumed_public)


def test_a_ledger_pays_for_the_fit_and_not_for_the_model(tmp_path):
    facts = {"epsilon": 5.0, "delta": 1e-5, "allow_nonprivate": True}
    model, books = MODELS["columns"], []
    for number, init in enumerate((None, first("columns"))):
        books.append(BudgetLedger(tmp_path / f"{number}.db", **facts))
        quiet(model, epsilon=1.0, init=init, ledger=books[-1])
    assert [len(book.spends()) for book in books] == [1, 1]


def test_the_forecast_counts_what_the_model_knows():
    given = first("columns")
    anew = clone(MODELS["columns"]).set_params(epsilon=0.5)
    told = anew.forecast(300, 3), clone(anew).set_params(init=given).forecast(300, 3)
    assert told[0].noise_to_signal > 5 * told[1].noise_to_signal
    assert told[0].noise_multiplier == pytest.approx(told[1].noise_multiplier, rel=1)


@every_model
def test_copies_continue_the_same_model(name):
    given = first(name)
    model = clone(MODELS[name]).set_params(init=given, random_state=3)
    assert clone(model).init is given
    fitted = quiet(model, seed=3)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(raw(again), raw(fitted))
    assert np.array_equal(raw(quiet(again, seed=3)), raw(fitted))


# -------------------------------------------------------------------- what is refused

OTHER = {"columns": Range(-1, 2)}
REFUSED = {
    "another class": ("columns", lambda: first("svc"), {}, "a fitted DPLogistic"),
    "unfitted": ("columns", lambda: MODELS["columns"], {}, "unfitted"),
    "no model": ("columns", lambda: 3, {}, "object of int"),
    "no noise": ("columns", lambda: first("columns"), {"epsilon": np.inf}, "finite"),
    "a range": ("columns", lambda: first("columns"), OTHER, "encoded columns"),
    "no columns": ("columns", lambda: first("numbers"), {}, "encoded columns"),
    "a category": ("three labels", lambda: first("columns"), {}, "other classes"),
    "bounds": (
        "squares",
        lambda: first("squares"),
        {"target_bounds": (0, 2)},
        "bounds",
    ),
    "weights": (
        "columns",
        lambda: first("columns"),
        {"class_weight": {0: 2}},
        "weight",
    ),
    "a solver": ("columns", lambda: first("columns"), {"solver": "noisy_gd"}, "solver"),
    "no delta": ("numbers", lambda: first("numbers"), {"delta": 0.0}, "delta above 0"),
    "trees alone": (
        "trees",
        lambda: first("trees", init="constant"),
        {},
        "linear model before its trees",
    ),
    "units": ("network", lambda: first("network"), {"hidden_layer_sizes": 3}, "hidden"),
    "a word": ("trees", lambda: "warm", {}, "'init'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_continued_is_refused_and_spends_nothing(case, tmp_path):
    name, given, params, match = REFUSED[case]
    facts = {"epsilon": 50.0, "delta": 1e-3, "allow_nonprivate": True}
    ledger = BudgetLedger(tmp_path / "books.db", **facts)
    model = clone(MODELS[name]).set_params(ledger=ledger, **{"init": given(), **params})
    before = dict(vars(model))
    with pytest.raises((ValueError, TypeError), match=match):
        model.fit(*table())
    assert ledger.spends() == []
    assert vars(model) == before


@every_model
def test_a_constant_leaves_the_fit_as_it_is(name):
    constant = quiet(MODELS[name], epsilon=0.01, n=200, **AUTO)
    again = quiet(MODELS[name], seed=1, init=constant, **AUTO)
    assert np.ptp(raw(constant), axis=0).max() == 0
    assert np.array_equal(raw(again), raw(quiet(MODELS[name], seed=1, **AUTO)))


def test_rows_of_another_width_are_refused():
    X, y = table()
    with pytest.raises(ValueError, match="number of features"):
        clone(MODELS["numbers"]).set_params(init=first("numbers")).fit(X[:, :2], y)


def test_sparse_models_have_no_such_parameter():
    with pytest.raises(TypeError, match="init"):
        DPSparseLogisticRegression(init=None)
