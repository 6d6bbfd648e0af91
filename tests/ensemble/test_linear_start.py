"""The linear model that trees continue: what it is, and what is told of it."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from skdp import (
    DPGammaRegressor,
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
    DPLinearRegression,
    DPPoissonRegressor,
    DPQuantileRegressor,
)
from skdp.columns import Range
from skdp.ensemble._linear_start import (
    LinearStart,
    centred,
    features_of,
    shares_or_even,
)
from skdp.exceptions import Refused
from skdp.losses import LogisticLoss, SoftmaxLoss
from skdp.losses._classification import weighted
from skdp.losses._objective import LinearObjective
from skdp.solvers import _centred_descent, _default_rules
from skdp.sums._gradient import ClippedGradient
from skdp.tables._coded import CodeBasis, CodeSource
from skdp.tables._memory import MemorySource
from tests.ensemble.boosted import fitted, quietly, table
from tests.ensemble.coded import MIXED

KINDS = ("two classes", "three classes", "numbers")
FAR = {"epsilon": 20.0}


def regressor(**params):
    known = {"columns": Range(-1, 1), "target_bounds": (-6, 6), "random_state": 0}
    return DPGradientBoostingRegressor(**known | params)


def raw_of(model, X):
    is_regressor = not hasattr(model, "decision_function")
    return model.predict(X) if is_regressor else model.decision_function(X)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("params", [{"n_estimators": 0}, {"n_estimators": 20}])
@pytest.mark.parametrize("max_interaction", [1, 2])
def test_a_model_is_the_sum_of_its_shapes(kind, params, max_interaction):
    model = fitted(kind, max_interaction=max_interaction, **params, **FAR)
    X, _ = table(200, seed=3)
    codes = model.bins_.codes(model.encoder_._cells(X))
    shapes = model.shape_functions_.raw(codes)
    found = raw_of(model, X)
    assert model._model.boosted.curves is not None
    assert np.allclose(found.reshape(len(X), -1), shapes, rtol=0, atol=1e-12)
    assert np.ptp(shapes) > 0


@pytest.mark.parametrize("kind", KINDS)
def test_without_noise_trees_start_at_a_constant(kind):
    one, other = (
        fitted(kind, init=init, epsilon=float("inf"), n_estimators=20)
        for init in ("linear", "constant")
    )
    assert one._model.boosted.curves is None
    # Trees of one column come after a constant, and not after curves.
    X, _ = table(100)
    assert np.array_equal(raw_of(one, X), raw_of(other, X))


@pytest.mark.parametrize("kind", KINDS)
def test_with_next_to_nothing_there_is_a_constant(kind):
    X, _ = table(100)
    for params in ({"epsilon": 0.2}, {"init": "constant", "epsilon": 1.0}):
        model = fitted(kind, n_estimators=None if "init" not in params else 0, **params)
        assert model._model.boosted.curves is None
        assert np.ptp(raw_of(model, X), axis=0).max() == 0


@pytest.mark.parametrize(
    ("loss", "n", "grows"),
    [
        ("squared_error", 150, False),
        ("squared_error", 400, True),
        ("squared_error", 1_500, False),
        ("gamma", 1_000, False),
    ],
)
def test_where_noise_hides_weights_trees_begin_at_a_constant(loss, n, grows):
    """At n mu of 12, 31, 115 and 77; weights need 50, or 100 for amounts."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (n, 3)), rng.uniform(0.5, 3.0, n)
    model = DPGradientBoostingRegressor(
        loss=loss,
        epsilon=0.3,
        delta=1e-6,
        adjacency="zero_out",
        columns=Range(-1, 1),
        target_bounds=(0.1, 5),
        random_state=3,
    )
    quietly(lambda: model.fit(X, y))
    assert (model.privacy_.solver_params["n_estimators"] > 0) == grows
    assert (model._model.boosted.curves is None) == (n < 1_500)


LINEAR = {
    "squared_error": (DPLinearRegression, {}),
    "poisson": (DPPoissonRegressor, {}),
    "gamma": (DPGammaRegressor, {}),
    "quantile": (DPQuantileRegressor, {"quantile": 0.8}),
}


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
@pytest.mark.parametrize("loss", LINEAR)
def test_where_noise_hides_all_the_constant_is_that_of_the_linear_model(
    loss, adjacency
):
    kind, own = LINEAR[loss]
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (200, 3)), rng.uniform(0.5, 3.0, 200)
    known = {"columns": Range(-1, 1), "target_bounds": (0.1, 5), "random_state": 3}
    given = {"epsilon": 0.1, "delta": 1e-6, "adjacency": adjacency, **known, **own}
    models = kind(**given), DPGradientBoostingRegressor(loss=loss, **given)
    found = [quietly(lambda m=m: m.fit(X, y)).predict(X) for m in models]
    assert np.ptp(found[0]) == 0
    assert np.allclose(*found, rtol=1e-12, atol=0)


def test_a_linear_model_needs_its_word():
    params = {"solver": "newton_boosting", "solver_params": {"linear_share": 0.2}}
    with pytest.raises(Refused, match="linear_share=0 unless init='linear'"):
        fitted("two classes", init="constant", **params)


def test_bands_are_about_the_noise_where_there_is_no_signal(monkeypatch):
    """Curves of noise alone, which the gate would refuse, spread as is told."""
    monkeypatch.setattr(_centred_descent, "kept_share", lambda ratio, noise: 1.0)
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (3_000, 3)), rng.uniform(-1, 1, 3_000)
    found, told = [], []
    for seed in range(12):
        model = regressor(epsilon=1.0, n_estimators=0, random_state=seed)
        curves = quietly(lambda m=model: m.fit(X, y))._model.boosted.curves
        tables = np.stack(curves.tables)[..., 0]
        found.append(tables - tables.mean(axis=1, keepdims=True))
        told.append([np.sqrt(np.diag(each)) for each in curves.covariances])
    seen, expected = (np.sqrt(np.mean(np.square(each))) for each in (found, told))
    assert 0.8 < seen / expected < 1.4, seen / expected


def test_noise_alone_passes_the_gate_at_a_ratio_near_1(monkeypatch):
    """With rows that are long and count less; 0.58 if they were taken as clipped."""
    ratios = []

    def refuse(ratio, margin):
        ratios.append(ratio)
        return 0.0

    monkeypatch.setattr(_centred_descent, "kept_share", refuse)
    X = np.random.default_rng(0).uniform(-1, 1, (4_000, 30))
    known = {"columns": Range(-1, 1), "classes": [0, 1], "n_estimators": 0}
    for seed in range(24):
        y = np.random.default_rng(seed).integers(0, 2, len(X))
        model = DPGradientBoostingClassifier(4.0, random_state=seed, **known)
        quietly(lambda m=model, y=y: m.fit(X, y))
    assert 0.66 < np.mean(ratios) < 1.1, np.mean(ratios)


def test_steps_of_many_records_are_preconditioned(monkeypatch):
    """Bands are those of the noise that preconditioned steps make."""
    monkeypatch.setattr(_default_rules, "_MANY_RECORDS", 1_000)
    monkeypatch.setattr(_default_rules, "_MOST_STEPS_OF_MANY", 20)
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (6_000, 3))
    y = np.clip(2 * X[:, 0] + rng.normal(size=6_000), -6, 6)
    found, stated = [], []
    for seed in range(16):
        model = regressor(epsilon=8.0, n_estimators=0, random_state=seed)
        curves = quietly(lambda m=model: m.fit(X, y))._model.boosted.curves
        found.append(np.stack(curves.tables)[..., 0])
        stated.append([np.diag(each) for each in curves.covariances])
    assert model.privacy_.solver_params["linear"]["preconditioning"] > 0
    found = np.array(found) - np.mean(found, axis=-1, keepdims=True)
    # The records are the same in all fits, and their sample is in the stated noise.
    seen, expected = np.var(found, axis=0, ddof=1).mean(), np.mean(stated)
    assert 0.5 < math.sqrt(seen / expected) < 1.2, math.sqrt(seen / expected)


# ---------------------------------------------------------------------------- features


@pytest.mark.parametrize(
    ("loss", "n", "has_hats"),
    [
        (LogisticLoss(), 200, False),
        (LogisticLoss(), 1_000, True),
        (SoftmaxLoss(10), 1_000, False),
        (SoftmaxLoss(10), 6_000, True),
    ],
    ids=str,
)
def test_columns_have_no_hats_where_noise_is_large(loss, n, has_hats):
    found = LinearStart.planned(
        *(loss, n, MIXED, "zero_out"), signal_to_noise=n / 25, share=0.8
    )
    sizes = [part.shape[1] for part in found.features]
    ordered = [j for j, is_ordered in enumerate(MIXED.is_ordered) if is_ordered]
    assert any(sizes[j] > 2 for j in ordered) == has_hats


def test_hats_have_two_intervals_at_least_and_weigh_more_where_curves_are_fine():
    for n_intervals in (4, 8, 16, 32):
        levels = [2**k for k in range(1, n_intervals.bit_length())]
        hats = features_of(MIXED, n_intervals)[0][:, 1:]
        assert hats.shape[1] == sum(count + 1 for count in levels)
        ends = np.cumsum([count + 1 for count in levels])[:-1]
        # At each place the hats of a level sum to its weight.
        for count, level in zip(levels, np.split(hats, ends, axis=1), strict=True):
            weight = n_intervals**0.25 / math.sqrt(count)
            np.testing.assert_allclose(level.sum(axis=1), weight)


def test_rows_are_centred_and_of_one_length():
    rng = np.random.default_rng(0)
    parts, shares = features_of(MIXED, 16), []
    for size in MIXED.n_bins:
        share = rng.random(size)
        shares.append(share / share.sum())
    basis = centred(parts, tuple(shares))
    squares = 0.0
    for part, share in zip(basis.parts, shares, strict=True):
        assert np.allclose(share @ part, 0, atol=1e-12)
        squares += share @ np.sum(part**2, axis=1)
    # Clipped to (.5 + 2 / columns) of their root mean square.
    assert squares == pytest.approx(1 / (0.5 + 2 / len(parts)) ** 2)
    assert [len(each) for each in shares_or_even(MIXED, {})] == list(MIXED.n_bins)


# ------------------------------------------------- neighbours in one sum of a descent


def gradients_of(rows, weights, objective, basis):
    """Each record's gradient by itself, of codes with a label."""
    asked = ClippedGradient(replace(objective, n_samples=1)).at(weights)
    found = []
    for *codes, label in rows:
        source = MemorySource(np.array([codes], dtype=np.uint8), np.array([label]))
        reader = asked.open(CodeSource(source, basis))
        found.append(asked.total(reader, None).ravel())
    return np.array(found)


@pytest.mark.parametrize("label_weights", [(), (0.025, 1.0), (1.0, 0.6)])
def test_two_records_are_no_farther_apart_than_is_charged(label_weights):
    rng = np.random.default_rng(0)
    loss = weighted(LogisticLoss(), label_weights)
    for size in (0.0, 0.5, 3.0):
        parts = tuple(rng.normal(size=(k, 2)) for k in (3, 4))
        basis = CodeBasis(parts) if size else OPPOSITE
        codes = [range(len(part)) for part in basis.parts]
        rows = list(itertools.product(*codes, (0.0, 1.0)))
        objective = LinearObjective(
            loss=loss,
            n_samples=1,
            n_features=basis.n_features,
            data_norm=1.0,
            product_norm=max(basis.norm, 1.0),
            adjacency="replace_one",
            offset=(float(size),),
        )
        weights = size * rng.normal(size=(basis.n_features + 1, 1))
        bound = ClippedGradient(objective).at(weights).bound()
        each = gradients_of(rows, weights, objective, basis)
        apart = np.linalg.norm(each[:, None] - each[None], axis=2).max()
        assert np.linalg.norm(each, axis=1).max() <= bound.zero_out
        assert apart <= bound.replace_one
        if basis is OPPOSITE:
            assert apart > 0.99 * bound.replace_one
            # Two of one label, where unlike ones are near.
            by_labels = sum(label_weights or (1.0, 1.0)) * bound.zero_out
            assert (apart > 1.1 * by_labels) == (label_weights == (0.025, 1.0))


# Two codes on either side of the mean.
OPPOSITE = CodeBasis((np.array([[1.0], [-1.0]]),))
