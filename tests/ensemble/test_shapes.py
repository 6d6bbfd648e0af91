"""Shape functions: they add up to the model, and say how noisy they are."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

from skdp._show import Display
from skdp.ensemble import DPGradientBoostingRegressor, ShapeFunctions
from skdp.ensemble._linear_start import shares_or_even
from skdp.ensemble._shape_noise import noise_of
from skdp.ensemble._shapes import _leaves, _tables
from tests.ensemble.boosted import (
    codes_of,
    decision,
    fitted,
    labels_of,
    quietly,
    table,
    unfitted,
)

matplotlib.use("Agg")

CASES = [
    (name, given)
    for name, given in (
        ("two classes", {"max_interaction": 1}),
        ("three classes", {"max_interaction": 2}),
        ("numbers", {"interaction_cst": "pairwise"}),
        ("numbers", {"interaction_cst": "no_interactions"}),
        ("numbers", {"max_interaction": 2, "monotonic_cst": {"age": 1, "gain": 1}}),
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
    # Without a trial there are trees.
    named = {"solver": "newton_boosting", "solver_params": {"trial_share": 0.0}}
    model = fitted(name, epsilon=50.0, **given, **named)
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
    assert list(ages.columns) == ["from", "to", "effect", "noise", "share"]
    assert len(ages) == 129
    assert ages.iloc[-1][["from", "to"]].isna().all()
    assert list(effects["sex"]["value"]) == ["Female", "Male", "other"]
    assert list(effects["code"]["value"][:3]) == [1, 2, 3]
    assert (ages["noise"] > 0).any()
    several = fitted("three classes", max_interaction=1).effects()["sex"]
    assert list(several.columns[:4]) == ["value", "effect_0", "effect_1", "effect_2"]


def test_curves_have_mean_0_over_the_records():
    X, score = table(3000)
    has_sex = (X["sex"] != "?").to_numpy()  # no record has another sex
    model = unfitted("two classes", max_interaction=2)
    labels = labels_of("two classes", score[has_sex])
    functions = model.fit(X[has_sex], labels).shape_functions_
    sexes = functions.curve("sex").set_index("value")
    assert sexes.loc["other", "share"] < 0.02
    for shape in functions:
        weights = functions.shares[shape.columns[0]]
        means = np.tensordot(weights, shape.values, 1)
        assert np.abs(means).max() < 1e-12
    # The twin weighs all codes alike, and the empty one pushes the others.
    assert abs(sexes["effect"].mean()) > 1e-3


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


@pytest.mark.parametrize("name", ["three classes", "numbers"])
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


# -------------------------------------------------------------------------------- noise


def test_noise_without_signal_is_that_of_independent_leaves():
    model = fitted("two classes", max_interaction=2, n_estimators=12)
    rng, draws, bins = np.random.default_rng(0), [], model.bins_
    boosted = model._model.boosted
    each = rng.uniform(0.5, 1.0, size=boosted.deviations.shape)
    boosted = replace(boosted, deviations=each, curves=None, signal=np.zeros(1))
    weights, leaves = shares_or_even(bins, boosted.shares), _leaves(boosted.trees, bins)
    for _ in range(200):
        values = rng.normal(size=boosted.values.shape) * boosted.deviations
        noisy = replace(boosted, values=values)
        draws.append(_tables(noisy, leaves, bins, weights))
    for key, deviation in noise_of(boosted, leaves, bins, weights).items():
        seen = np.std([draw[key] for draw in draws], axis=0)
        # Of 200 draws a deviation is off by 25 % less than once in a million.
        assert np.allclose(seen, deviation, rtol=0.3, atol=1e-12), key
        if np.any(deviation > 0):  # the twin of half the noise
            assert not np.allclose(seen, deviation / 2, rtol=0.3)


@pytest.mark.long
def test_stated_noise_is_seen_where_later_trees_correct_earlier_ones():
    """Of independent columns, over fits with the same trees and no signal.

    The mean square of 8 fits is off by a factor beyond 1.6 less than once in a million:
    a curve has more than 30 entries, of about ten directions.
    """
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (4_000, 2)), rng.uniform(-1, 1, 4_000)
    seen, stated, naive = [], [], []
    for seed in range(8):
        model = DPGradientBoostingRegressor(
            8.0,
            columns=[(-1, 1)] * 2,
            target_bounds=(-1, 1),
            init="constant",
            max_interaction=1,
            solver="newton_boosting",
            solver_params={"gains_share": 0.0},
            random_state=seed,
        )
        model = quietly(partial(model.fit, X, y))
        whole = model._model
        alone = replace(whole, boosted=replace(whole.boosted, signal=np.zeros(1)))
        seen.append([shape.values for shape in whole.shapes])
        stated.append([shape.noise for shape in whole.shapes])
        naive.append([shape.noise for shape in alone.shapes])
    seen = np.var(seen, axis=0, ddof=1).mean()
    stated, naive = (np.mean(np.square(each)) for each in (stated, naive))
    assert 1 / 1.6 < seen / stated < 1.6, (seen, stated, naive)
    # The twin adds up noise as if no tree corrected earlier ones.
    assert seen / naive < 1 / 1.6, (seen, stated, naive)


# ----------------------------------------------------------------------------- pictures


def test_shapes_are_drawn():
    model = fitted("three classes", max_interaction=2)
    display = model.plot_effects()
    assert isinstance(display, Display)
    assert [axis.axison for axis in display.axes_[:6]] == [True] * 6
    assert all(axis.axison == axis.has_data() for axis in display.axes_)
    plt.close(display.figure_)
    names = ["age", "gain", "sex", "day", "is_in", "day_month"]
    pair = next(s for s in model.shape_functions_ if len(s.columns) == 2)
    pair_names = [model.bins_.names[j] for j in pair.columns]
    figure, axes = plt.subplots(3, 3)
    display = model.plot_effects([*names, pair_names], ax=axes)
    assert display.figure_ is figure
    assert [axis.get_title() for axis in axes.ravel()[:2]] == ["age", "gain"]
    assert axes.ravel()[1].get_xscale() == "symlog"
    assert not axes.ravel()[8].axison
    plt.close(figure)


def test_a_pair_without_interaction_is_not_drawn():
    model = fitted("two classes", max_interaction=2)
    functions = model.shape_functions_
    (name,) = [
        [model.bins_.names[j] for j in shape.columns]
        for shape in functions
        if len(shape.columns) == 2
    ][:1]
    pictures = model._pictures(0)
    assert any(set(picture.columns) == set(name) for picture in pictures)
    model._model = replace(model._model, boosted=without_pairs(model._model.boosted))
    display = model.plot_effects()
    assert not any(" x " in ax.get_title() for ax in display.axes_)
    display = model.plot_effects([name])
    assert display.ax_.texts[0].get_text() == "no interaction kept"
    assert model._effect_units == ("log-odds of 1",)
    plt.close("all")


def without_pairs(boosted):
    return replace(boosted, values=0 * boosted.values)
