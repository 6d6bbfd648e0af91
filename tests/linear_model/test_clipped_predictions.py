"""What `fit` clips, `predict` clips: rows, each by itself, and as `fit` did."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.sparse import csr_array

from skdp import (
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPSparseLinearRegression,
    DPSparseLogisticRegression,
)
from skdp._arrays import clip_entries, clip_rows, columns_at
from skdp.sums._grid_rows import RowClip

_RNG = np.random.default_rng(0)
D = 12
X = _RNG.normal(size=(400, D)) * _RNG.uniform(0.05, 2, 400)[:, None]
Y = (X[:, 0] > 0).astype(int)
T = np.clip(X[:, 0], -1, 1)
NORM = 1.5
TWO, THREE, TARGETS = (
    {"classes": [0, 1]},
    {"classes": [0, 1, 2]},
    {"target_bounds": (-1, 1)},
)
FEW = {"n_nonzero_coefs": 3, "feature_bound": 0.5}


def sparse(solver, kind=DPSparseLogisticRegression, **params):
    params = params or (TWO if kind is DPSparseLogisticRegression else TARGETS)
    return kind(data_norm=NORM, solver=solver, **FEW, **params)


MODELS = {
    "binary": DPLogisticRegression(data_norm=NORM, **TWO),
    "three": DPLogisticRegression(data_norm=NORM, **THREE),
    "objective": DPLogisticRegression(
        data_norm=NORM, solver="objective_perturbation", **TWO
    ),
    "svc": DPLinearSVC(data_norm=NORM, **TWO),
    "regression": DPLinearRegression(data_norm=NORM, **TARGETS),
    "adassp": DPLinearRegression(data_norm=NORM, solver="adassp", **TARGETS),
    "iht": sparse("iht"),
    "peeling": sparse("peeling"),
    "sparse_regression": sparse("iht", DPSparseLinearRegression),
}
# Rows as they come: of centred ones tests/solvers/test_rows_of_numbers.py tells.
for _name in ("binary", "three", "svc", "regression"):
    MODELS[_name].set_params(solver="noisy_gd")
# Little noise, and the same in every run: a twin that does not clip is told apart by
# weights that are there.
for _model in MODELS.values():
    _model.set_params(epsilon=8.0, random_state=0)
KINDS = {
    "double": lambda rows: rows,
    "single": lambda rows: rows.astype(np.float32),
    "columns": np.asfortranarray,
    "csr": csr_array,
    "csr single": lambda rows: csr_array(rows.astype(np.float32)),
}


def raw(model, rows):
    """Raw predictions as a table of rows and outputs."""
    values = getattr(model, "decision_function", model.predict)(rows)
    return values.reshape(rows.shape[0], -1)


def linear_form(model, rows):
    values = rows @ np.atleast_2d(model.coef_).T + model.intercept_
    return np.asarray(values)


def clipped_as_in_fit(model, rows):
    """Rows, entries first, and of all features unless the solver selects before."""
    coef = np.atleast_2d(model.coef_)
    if model.privacy_.solver in ("peeling", "two_stage"):
        rows = rows * (coef != 0).any(axis=0)
    if model.privacy_.feature_bound is not None:
        rows = clip_entries(rows, model.feature_bound)
    return clip_rows(rows, NORM)


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    model = MODELS[request.param]
    targets = T if hasattr(model, "target_bounds") else Y + (X[:, 1] > 0) * Y
    if getattr(model, "classes", None) == [0, 1]:
        targets = Y
    return model.fit(X, targets)


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_those_of_the_clipped_rows(model, kind):
    stored, tolerance = KINDS[kind](X), 2e-5 if "single" in kind else 1e-12
    expected = linear_form(model, clipped_as_in_fit(model, X))
    scale = np.abs(expected).max()
    assert np.allclose(raw(model, stored), expected, rtol=0, atol=tolerance * scale)
    # Broken twin: without the clip it is another model.
    assert not np.allclose(linear_form(model, X), expected, rtol=0, atol=0.01 * scale)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_within_the_norm_have_the_linear_form_bit_for_bit(model, kind):
    stored = KINDS[kind](X * (0.4 / np.linalg.norm(X, axis=1)[:, None]))
    if getattr(model.privacy_, "solver", None) in ("peeling", "two_stage"):
        columns = model.get_support(indices=True)
        expected = columns_at(stored, columns) @ np.atleast_2d(model.coef_).T[columns]
        expected = np.asarray(expected) + model.intercept_
    else:
        expected = linear_form(model, stored)
    assert np.array_equal(raw(model, stored), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_huge_rows_are_clipped_and_no_others_notice(model, kind):
    most = 3e38 if "single" in kind else 1e308
    rows = KINDS[kind](np.where(np.arange(400)[:, None] % 3, X, X * (most / 10)))
    expected = raw(model, KINDS[kind](X))
    found = raw(model, rows)
    assert np.isfinite(found).all()
    same = np.arange(400) % 3 > 0
    assert np.array_equal(found[same], expected[same])
    shortened = clipped_as_in_fit(model, X * 1e6)
    tolerance = 2e-5 if "single" in kind else 1e-12
    expected = linear_form(model, shortened)[~same]
    scale = np.abs(expected).max()
    assert np.allclose(found[~same], expected, rtol=0, atol=tolerance * scale)


def with_others(rows, seed):
    """Rows of which all but each fourth are replaced by others of any length."""
    rng = np.random.default_rng(seed)
    lengths = 10.0 ** rng.uniform(-200, 200, len(rows))
    others = rng.normal(size=rows.shape) * lengths[:, None]
    return np.where(np.arange(len(rows))[:, None] % 4, others, rows)


def row_depends_on_others(model, kind):
    long = X * np.where(np.arange(400) % 8, 1.0, 1e150)[:, None]
    found = [raw(model, KINDS[kind](with_others(long, seed)))[::4] for seed in range(3)]
    return not all(np.array_equal(found[0], other) for other in found[1:])


@pytest.mark.parametrize("kind", ["double", "columns", "csr"])
def test_prediction_depends_on_its_row_alone_bit_for_bit(model, kind):
    assert not row_depends_on_others(model, kind)


def test_broken_twin_that_scales_all_rows_alike_is_found(monkeypatch):
    model = MODELS["binary"].fit(X, Y)
    of = RowClip.of

    def all_alike(rows, *args):
        clip = of(rows, *args)
        clip.factor[:] = clip.factor.mean()
        return clip

    monkeypatch.setattr(RowClip, "of", all_alike)
    assert row_depends_on_others(model, "double")


def test_norm_is_that_of_the_fit(model):
    expected, params = raw(model, X), model.get_params()
    changed = {"data_norm": 100.0}
    if "feature_bound" in params:
        changed["feature_bound"] = 50.0
    model.set_params(**changed)
    found = raw(model, X)
    model.set_params(**{name: params[name] for name in changed})
    assert np.array_equal(found, expected)
    assert model.privacy_.data_norm == NORM


def test_infinite_epsilon_clips_nothing():
    models = (
        DPLogisticRegression(math.inf, **TWO).fit(X, Y),
        DPSparseLogisticRegression(math.inf, feature_bound=0.1, **TWO).fit(X, Y),
    )
    for model in models:
        assert np.array_equal(raw(model, 100 * X), linear_form(model, 100 * X))
