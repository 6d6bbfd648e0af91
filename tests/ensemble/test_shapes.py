"""Shape functions: they add up to the model, and say how noisy they are."""

from __future__ import annotations

from dataclasses import replace

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

from skdp import TableEncoder
from skdp._show import Display
from skdp.ensemble import ShapeFunctions
from skdp.ensemble._shapes import Model, _tables, taken_apart
from tests.ensemble.boosted import (
    NEEDS,
    codes_of,
    decision,
    fitted,
    labels_of,
    quietly,
    table,
    unfitted,
)
from tests.preprocessing.tables import DECLARED

matplotlib.use("Agg")

CASES = [
    (name, given)
    for name in NEEDS
    for given in (
        {"max_interaction": 1},
        {"max_interaction": 2},
        {"interaction_cst": "pairwise"},
        {"interaction_cst": "no_interactions"},
    )
]


def random_codes(model, n=500):
    rng = np.random.default_rng(0)
    n_bins = model.bins_.n_bins
    return rng.integers(0, n_bins, size=(n, len(n_bins))).astype(np.uint8)


def largest_difference(functions, model):
    """Between the sum of shapes and the model, on its table and on any codes."""
    X, _ = table()
    found = np.abs(functions.raw(codes_of(model, X)) - decision(model, X)).max()
    codes, (factor, shift) = random_codes(model), model._units
    raw = factor * model._model.raw(codes) + shift
    return max(found, np.abs(functions.raw(codes) - raw).max())


@pytest.mark.parametrize(("name", "given"), CASES)
def test_shapes_add_up_to_the_model(name, given):
    model = fitted(name, epsilon=50.0, **given)
    functions = model.shape_functions_
    assert largest_difference(functions, model) < 1e-12
    assert len(functions) >= len(model.bins_.columns)
    has_pairs = any(len(shape.columns) == 2 for shape in functions)
    assert has_pairs == (2 in given.values() or "pairwise" in given.values())
    # Broken twin: without one of its curves.
    ages = functions.find("age")
    rest = tuple(shape for shape in functions if shape is not ages)
    twin = ShapeFunctions(functions.bins, functions.intercept, rest)
    assert largest_difference(twin, model) > 1e-6


@pytest.mark.parametrize("name", ["two classes", "numbers"])
def test_shapes_of_monotone_models_add_up(name):
    given = {"max_interaction": 2, "monotonic_cst": {"age": 1, "gain": 1}}
    model = fitted(name, **given)
    assert model._model.tables is not None
    assert largest_difference(model.shape_functions_, model) < 1e-12


def test_shapes_have_mean_0_along_each_of_their_columns():
    functions = fitted("three classes", max_interaction=2).shape_functions_
    for shape in functions:
        for axis in range(len(shape.columns)):
            assert np.abs(shape.values.mean(axis=axis)).max() < 1e-12


@pytest.mark.parametrize("given", [{}, {"max_interaction": None}])
def test_a_model_of_many_columns_a_tree_has_none(given):
    model = fitted("two classes", **given)
    assert not hasattr(model, "shape_functions_")
    with pytest.raises(AttributeError, match="max_interaction=1 or 2"):
        model.effects()


def test_effects_are_the_curves():
    model = fitted("two classes", max_interaction=2)
    effects = model.effects()
    assert list(effects) == list(model.bins_.names)
    ages = effects["age"]
    assert list(ages.columns) == ["from", "to", "effect", "noise"]
    assert len(ages) == 33
    assert ages.iloc[-1][["from", "to"]].isna().all()
    assert list(effects["sex"]["value"]) == ["Female", "Male", "other"]
    assert list(effects["code"]["value"][:3]) == [1, 2, 3]
    assert (ages["noise"] > 0).any()
    several = fitted("three classes", max_interaction=1).effects()["sex"]
    assert list(several.columns[:4]) == ["value", "effect_0", "effect_1", "effect_2"]


def test_tables_of_pairs_are_found_in_any_order():
    functions = fitted(
        "two classes", max_interaction=2, n_estimators=300
    ).shape_functions_
    one, other = functions.table("age", "sex"), functions.table("sex", "age")
    assert np.array_equal(one, other.T)
    assert (one.index.name, one.columns.name) == ("age", "sex")
    assert "age x sex" in functions.names
    with pytest.raises(ValueError, match="that shares a tree"):
        functions.table("age", "wings")


@pytest.mark.parametrize("name", NEEDS)
def test_attributions_add_up_to_the_prediction_of_each_row(name):
    X, _ = table()
    model = fitted(name, max_interaction=2, epsilon=50.0)
    found = model.attributions(X).reshape(len(X), len(X.columns), -1)
    total = model.shape_functions_.intercept + found.sum(axis=1)
    assert np.abs(total - decision(model, X)).max() < 1e-12
    # Of two players: a column and all others, over all codes of the column alike.
    age = list(X.columns).index("age")
    alone = fitted(name, max_interaction=1, epsilon=50.0)
    curve = alone.shape_functions_.find("age").at(codes_of(alone, X))
    seen = alone.attributions(X).reshape(len(X), len(X.columns), -1)[:, age]
    assert np.array_equal(seen, curve)


def test_attributions_are_in_the_order_of_X():
    X, score = table()
    turned = X[X.columns[::-1]].assign(extra=1.0)
    columns = TableEncoder(DECLARED, remainder="drop")
    models = [unfitted("numbers", columns=columns, max_interaction=2) for _ in "ab"]
    one, other = (
        quietly(lambda m=m, t=t: m.fit(t, labels_of("numbers", score))).attributions(t)
        for m, t in zip(models, (X, turned), strict=True)
    )
    assert np.array_equal(one[:, ::-1], other[:, :-1])
    assert (other[:, -1] == 0).all()


# -------------------------------------------------------------------------------- noise


def test_noise_of_shapes_is_that_of_independent_leaves():
    model = fitted("two classes", max_interaction=2, n_estimators=12)
    rng, draws, bins = np.random.default_rng(0), [], model.bins_
    boosted = model._model.boosted
    each = rng.uniform(0.5, 1.0, size=boosted.deviations.shape)
    boosted = replace(boosted, deviations=each, curves=None)
    for _ in range(800):
        values = rng.normal(size=boosted.values.shape) * boosted.deviations
        draws.append(_tables(replace(boosted, values=values), bins)[0])
    _, told = _tables(boosted, bins)
    for key, deviation in told.items():
        seen = np.std([draw[key] for draw in draws], axis=0)
        # Of 800 draws a deviation is off by 12 % less than once in a million.
        assert np.allclose(seen, deviation, rtol=0.15, atol=1e-12), key
        if np.any(deviation > 0):  # the twin of half the noise
            assert not np.allclose(seen, deviation / 2, rtol=0.15)


def test_without_noise_there_is_none():
    functions = fitted(
        "numbers", max_interaction=2, epsilon=float("inf")
    ).shape_functions_
    assert all(np.abs(shape.noise).max() == 0 for shape in functions)


def test_noise_is_in_units_of_the_target():
    model = fitted("numbers", max_interaction=1)
    functions, plain = model.shape_functions_, model._model.shapes
    pairs = zip(functions, plain, strict=True)
    assert all(np.allclose(a.noise, 20 * b.noise) for a, b in pairs)
    assert np.allclose(functions.intercept, 20 * plain.intercept + 10)


def test_taking_apart_keeps_the_sum():
    model = fitted("two classes", max_interaction=2)
    again = taken_apart(
        {shape.columns: shape.values for shape in model.shape_functions_},
        model.bins_,
        1,
    )
    for shape in model.shape_functions_:
        assert np.allclose(again[shape.columns], shape.values, rtol=0, atol=1e-13)
    assert np.abs(again[()]).max() < 1e-13
    assert Model(model.bins_, model._model.boosted).is_additive


# ----------------------------------------------------------------------------- pictures


@pytest.mark.parametrize("name", NEEDS)
def test_shapes_are_drawn(name):
    model = fitted(name, max_interaction=2)
    display = model.plot_shapes()
    assert isinstance(display, Display)
    assert [axis.axison for axis in display.axes_] == [True] * 9
    assert all(axis.has_data() for axis in display.axes_)
    plt.close(display.figure_)
    names = ["age", "gain", "sex", "day", "is_in", "day_month"]
    pair = next(s for s in model.shape_functions_ if len(s.columns) == 2)
    pair_names = [model.bins_.names[j] for j in pair.columns]
    figure, axes = plt.subplots(3, 3)
    display = model.plot_shapes([*names, pair_names], ax=axes)
    assert display.figure_ is figure
    assert [axis.get_xlabel() for axis in axes.ravel()[:2]] == ["age", "gain"]
    assert axes.ravel()[1].get_xscale() == "symlog"
    assert not axes.ravel()[8].axison
    plt.close(figure)


def test_what_cannot_be_drawn_is_refused():
    model = fitted("two classes", max_interaction=1)
    with pytest.raises(ValueError, match="There are"):
        model.plot_shapes(["wings"])
    with pytest.raises(ValueError, match="'output' parameter"):
        model.plot_shapes(output=1)
    figure, axis = plt.subplots()
    with pytest.raises(ValueError, match="one axis for each of 2"):
        model.plot_shapes(["age", "sex"], ax=axis)
    plt.close(figure)
    with pytest.raises(AttributeError, match="max_interaction"):
        fitted("two classes").plot_shapes()
