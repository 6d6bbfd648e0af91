"""Directions and groups: they hold everywhere, or are refused in words."""

from __future__ import annotations

import numpy as np
import pytest

from skdp.columns import Boolean, Categories, Dates, Range
from skdp.ensemble._shapes import directions_of, groups_of
from skdp.ensemble._trees import bins_of
from tests.ensemble.boosted import (
    fitted,
    labels_of,
    table,
    unfitted,
)
from tests.preprocessing.tables import DECLARED

NAMES = ("age", "member", "job", "when")
BINS = bins_of(
    NAMES,
    (
        Range(0, 1, missing=True),
        Boolean(),
        Categories(["a", "b"]),
        Dates("2020-01-01", "2021-01-01", parts=["month"]),
    ),
)


def directions(given, names=NAMES):
    return directions_of(given, BINS, NAMES, names)


def groups(given, constrained=()):
    return groups_of(given, BINS, NAMES, NAMES, constrained)


# --------------------------------------------------------------------------- directions


def worst_fall(model, name, direction, n_rows=300):
    """The largest step in the wrong direction, over rows and all values in order."""
    X, _ = table(n_rows, seed=5)
    j = list(DECLARED).index(name)
    edges = np.asarray(model.bins_.columns[j].edges, dtype=float)
    asked = (
        "predict" if not hasattr(model, "decision_function") else "decision_function"
    )
    found = [getattr(model, asked)(X.assign(**{name: at})) for at in edges]
    return float(np.max(-direction * np.diff(found, axis=0)))


@pytest.mark.parametrize(
    ("name", "cst", "max_interaction"),
    [
        ("two classes", {"age": 1, "gain": 1}, "mix"),
        ("two classes", {"age": -1}, 2),
        ("numbers", {"age": 1, "gain": -1}, None),
    ],
)
def test_directions_hold_on_a_grid(name, cst, max_interaction):
    params = {"max_interaction": max_interaction, "n_estimators": 60}
    model = fitted(name, monotonic_cst=cst, **params)
    for column, direction in cst.items():
        assert worst_fall(model, column, direction) <= 0


def test_broken_twin_without_them_is_found():
    params = {"max_interaction": 2, "n_estimators": 60}
    # Of a linear model it rises all the way, and falls the other.
    assert worst_fall(fitted("two classes", **params), "age", -1) > 0
    params["init"] = "constant"
    assert worst_fall(fitted("two classes", **params), "age", 1) > 0


def test_directions_are_of_columns_of_codes():
    assert directions(None) == {}
    assert directions({"age": 1, "member": -1, "job": 0}) == {0: 1, 1: -1}
    assert directions(np.array([0, 1, 0, 0])) == {1: 1}
    assert directions([0, 1], names=("extra", "member")) == {1: 1}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"job": 1}, "columns with an order"),
        ({"when": 1}, "columns with an order"),
        ({"wings": 1}, "declared columns"),
        ([1, 0], "for the 4 columns of X"),
        ({"age": 2}, "-1, 0 or 1"),
        ({"age": True}, "-1, 0 or 1"),
        ("age", "a mapping"),
        (1, "a mapping"),
        ({"age": [1]}, "-1, 0 or 1"),
    ],
)
def test_directions_that_are_none_are_refused(given, text):
    with pytest.raises(ValueError, match=text):
        directions(given)


def test_neither_several_classes_nor_stages_have_a_direction():
    X, score = table()
    model = unfitted("three classes", monotonic_cst={"age": 1})
    with pytest.raises(ValueError, match="more than two classes"):
        model.fit(X, labels_of("three classes", score))
    model = fitted("two classes", monotonic_cst={"age": 1})
    with pytest.raises(ValueError, match="Stages must be those of a model without"):
        model.staged_predict(X)


# ------------------------------------------------------------------------------- groups


def test_groups_are_of_columns_of_codes():
    assert groups(None) is None
    assert groups("no_interactions") == ((0,), (1,), (2,), (3,), (4,))
    assert len(groups("pairwise")) == 10
    assert groups([["age", "job"], ["member"]]) == ((0, 2), (1,), (3, 4))
    assert groups([(0, 2), (1, 3)]) == ((0, 2), (1, 3, 4))


def test_a_column_with_a_direction_shares_a_tree_with_one_other():
    for given in (None, "pairwise", [["age", "member", "job"]]):
        found = groups(given, [0])
        assert all(len(group) <= 2 for group in found if 0 in group)
        assert {j for group in found for j in group} == set(range(5))


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        (
            [["age", "gain"], ["sex", "code", "is_in", "day"]],
            {(0, 1), (2, 3, 4, 5, 6, 7)},
        ),
        ("no_interactions", {(0,), (1,), (2,), (3,), (4,), (5, 6, 7)}),
    ],
)
def test_trees_keep_to_their_groups(given, allowed):
    model = fitted("two classes", interaction_cst=given)
    for key in model._model.boosted.trees.columns:
        assert any(set(key) <= set(group) for group in allowed)
    free = fitted("two classes")._model.boosted.trees.columns
    assert not all(any(set(key) <= set(g) for g in allowed) for key in free)


@pytest.mark.parametrize(
    "given", ["all", [["wings"]], [[9]], ["age"], [[0.5]], 3, [[None]]]
)
def test_groups_that_are_none_are_refused(given):
    with pytest.raises(ValueError, match="'interaction_cst' parameter must be"):
        groups(given)
