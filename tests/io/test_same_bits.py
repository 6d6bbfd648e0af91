"""Seeded fits are equal bit for bit wherever a table lies."""

from __future__ import annotations

import functools
from itertools import product

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skdp import (
    DPPCA,
    BoundedScaler,
    DPGammaRegressor,
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPMLPClassifier,
    DPMLPRegressor,
    DPPoissonRegressor,
    DPQuantileClipper,
    DPQuantileRegressor,
    DPSimpleImputer,
    DPSparseLogisticRegression,
    DPStandardScaler,
    TableEncoder,
    private_evaluation,
    private_score,
)
from skdp.neural_network import Convolution
from skdp.sums import _gradient_sum
from tests.io.places import COLUMNS, FEATURES, LAYOUTS, in_files, kept, numbers
from tests.wide import covering

SEED = {"random_state": 0}
COMPARED = {"epsilon": 1.0, **SEED}
LABELS = {"classes": [0, 1], **SEED}
BOUNDS = {"target_bounds": (0, 1), **SEED}
GD = {"solver": "noisy_gd", "solver_params": {"n_steps": 8}}
IMAGES = {"image_shape": (1, 3), "convolutions": [Convolution(2, 3, padding=1)]}
MODELS = {
    "noisy_gd": (DPLogisticRegression(1.0, **GD, **LABELS), "y"),
    "three labels": (DPLogisticRegression(1.0, classes=[0, 1, 2], **GD, **SEED), "y"),
    "nesterov": (DPLogisticRegression(1.0, solver="nesterov", **LABELS), "y"),
    "svc": (DPLinearSVC(1.0, **GD, **LABELS), "y"),
    "declared": (DPLogisticRegression(1.0, columns=COLUMNS, **LABELS), "y"),
    "centred": (DPLogisticRegression(20.0, columns=COLUMNS, **LABELS), "y"),
    "centred, three labels": (
        DPLogisticRegression(20.0, columns=COLUMNS, classes=[0, 1, 2], **SEED),
        "y",
    ),
    "centred regression": (DPLinearRegression(20.0, columns=COLUMNS, **BOUNDS), "t"),
    "centred counts": (DPPoissonRegressor(20.0, columns=COLUMNS, **BOUNDS), "t"),
    "centred, no noise": (DPLogisticRegression(np.inf, columns=COLUMNS, **LABELS), "y"),
    "one-hot": (
        DPLogisticRegression(
            1.0,
            columns=TableEncoder(COLUMNS, numeric="bins"),
            **GD,
            **LABELS,
        ),
        "y",
    ),
    "regression": (DPLinearRegression(1.0, **GD, **BOUNDS), "t"),
    "counts": (DPPoissonRegressor(1.0, **GD, **BOUNDS), "t"),
    "amounts": (DPGammaRegressor(1.0, target_bounds=(0.1, 1), **GD, **SEED), "t"),
    "quantile model": (DPQuantileRegressor(1.0, **GD, **BOUNDS), "t"),
    "moments": (DPLinearRegression(1.0, solver="adassp", **BOUNDS), "t"),
    "declared regression": (DPLinearRegression(1.0, columns=COLUMNS, **BOUNDS), "t"),
    "sparse": (DPSparseLogisticRegression(1.0, **LABELS), "y"),
    "boosting": (DPGradientBoostingClassifier(1.0, columns=COLUMNS, **LABELS), "y"),
    "network": (DPMLPClassifier(1.0, **GD, **LABELS), "y"),
    "images": (DPMLPClassifier(1.0, **IMAGES, **GD, **LABELS), "y"),
    "declared network": (DPMLPClassifier(1.0, columns=COLUMNS, **GD, **LABELS), "y"),
    "network of numbers": (DPMLPRegressor(1.0, **GD, **BOUNDS), "t"),
    "boosted regression": (
        DPGradientBoostingRegressor(1.0, columns=COLUMNS, **BOUNDS),
        "t",
    ),
    "scaled": (
        make_pipeline(
            BoundedScaler((-2, 2)), DPLogisticRegression(1.0, **GD, **LABELS)
        ),
        "y",
    ),
    "standard": (
        make_pipeline(
            DPStandardScaler(bounds=(-2, 2), **SEED),
            DPLogisticRegression(1.0, **GD, **LABELS),
        ),
        "y",
    ),
    "quantiles": (
        make_pipeline(
            DPQuantileClipper(bounds=(-2, 2), **SEED),
            DPLogisticRegression(1.0, **GD, **LABELS),
        ),
        "y",
    ),
    "imputed": (
        make_pipeline(
            DPSimpleImputer(bounds=(-2, 2), **SEED),
            DPLogisticRegression(1.0, **GD, **LABELS),
        ),
        "y",
    ),
    "components": (
        make_pipeline(
            DPPCA(n_components=2, **SEED), DPLogisticRegression(1.0, **GD, **LABELS)
        ),
        "y",
    ),
}


def shuffled(frame, path, **facts):
    """Row groups in another order."""
    groups = np.array_split(np.arange(len(frame)), 9)
    order = np.concatenate([groups[i] for i in np.random.default_rng(0).permutation(9)])
    return in_files(frame.iloc[order], path / "shuffled", n_files=3, **facts)


PLACES = {**LAYOUTS, "shuffled": shuffled}


def released(model):
    """All numbers that a fit released."""
    last = model[-1] if hasattr(model, "steps") else model
    found = [getattr(last, "coef_", None), getattr(last, "intercept_", None)]
    if not hasattr(last, "coef_"):
        found = [last._raw(numbers()[FEATURES])]
    return [np.asarray(part) for part in found]


@functools.cache
def in_memory(name):
    frame, (model, target) = numbers(), MODELS[name]
    return released(clone(model).fit(frame[FEATURES], frame[target]))


@pytest.fixture(scope="module")
def source_in(tmp_path_factory):
    """Sources of one table, by layout and target."""
    folders = {target: tmp_path_factory.mktemp(target) for target in ("y", "t")}
    with kept() as once:
        yield lambda layout, target: once(
            PLACES[layout], numbers(), folders[target], target=target
        )


def engine_of(layout):
    """Which code reads there; its other layouts differ in what is read at once."""
    if layout in ("database", "two threads"):
        return "DuckDB"
    if layout in ("PostgreSQL", "parallel workers", "two readers"):
        return "PostgreSQL"
    return layout if layout == "workers" else "files"


@pytest.mark.parametrize(
    ("name", "layout"),
    covering(
        product(MODELS, PLACES),
        lambda cell: (cell[1], (cell[0], engine_of(cell[1]))),
    ),
)
def test_fits_are_equal_bit_for_bit(name, layout, source_in):
    model, target = MODELS[name]
    there = clone(model).fit(source_in(layout, target))
    for one, other in zip(in_memory(name), released(there), strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("name", ["noisy_gd", "counts", "scaled"])
@pytest.mark.parametrize("layout", ["one file", "database", "PostgreSQL"])
def test_rows_that_are_read_at_every_pass_have_the_same_bits(
    layout, name, source_in, monkeypatch
):
    monkeypatch.setattr(_gradient_sum, "_MOST_KEPT", 0)
    model, target = MODELS[name]
    source, readings = source_in(layout, target), []
    scan = source._scan
    monkeypatch.setattr(source, "_scan", lambda *n: readings.append(n) or scan(*n))
    there = clone(model).fit(source)
    assert len(readings) == GD["solver_params"]["n_steps"]
    for one, other in zip(in_memory(name), released(there), strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("layout", PLACES)
def test_scores_are_equal_bit_for_bit(layout, source_in):
    frame = numbers()
    model = DPLogisticRegression(1.0, **LABELS).fit(frame[FEATURES], frame["y"])
    source = source_in(layout, "y")
    for scoring in ("accuracy", "neg_log_loss"):
        given = {"epsilon": 1.0, "scoring": scoring, **SEED}
        one = private_score(model, frame[FEATURES], frame["y"], **given)
        assert one.value == private_score(model, source, **given).value
    other = DPLogisticRegression(0.1, **LABELS).fit(frame[FEATURES], frame["y"])
    here = private_evaluation((model, other), frame[FEATURES], frame["y"], **COMPARED)
    there = private_evaluation((model, other), source, **COMPARED)
    assert (here.first_only, here.second_only) == (there.first_only, there.second_only)
