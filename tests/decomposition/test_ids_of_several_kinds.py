"""Nobody's id decides how the ids of others are read."""

import datetime
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from skdp import DPMatrixFactorization
from skdp.decomposition import _ratings
from skdp.decomposition._ratings import declared_ids, found_ids

LARGE = 2**53  # as doubles it and the next integer are one
AS_DOUBLES = [float(x) for x in (LARGE, LARGE + 1, 0.5)]


@pytest.mark.parametrize(
    "column",
    [
        AS_DOUBLES,
        [*AS_DOUBLES, "ann"],
        -np.array(AS_DOUBLES),
        np.array(AS_DOUBLES, dtype=complex),
        np.array([2**24 + 1, 0.5], dtype=np.float32),
        pd.concat([pd.Series([2**60 + 1, 2**60 + 2]), pd.Series([12.0])]),
        [float("inf")],
    ],
)
def test_floats_that_may_be_rounded_integers_are_refused(column):
    with pytest.raises(ValueError, match=r"so large .* 2\*\*53") as error:
        found_ids(column, "users")
    assert error.value.__context__ is None
    found_ids(np.array([2**24, 0.5]), "users")


def test_ids_read_as_doubles_are_caught(monkeypatch):
    monkeypatch.setattr(_ratings, "_may_be_rounded", lambda values: False)
    ids, _ = found_ids(AS_DOUBLES, "users")
    assert len(ids) == 2


HALF = chr(0xD800) + "x"  # half a character, as JSON may have it
SECONDS, DAYS = np.timedelta64(5, "s"), np.timedelta64(5, "D")
ONES = [
    [HALF, repr(HALF), "x"],
    [SECONDS, DAYS],
    [np.datetime64("2020", "Y"), np.datetime64("2020-01-01", "ns"), "2020"],
    [1, 1.0, True, Fraction(1), np.int8(1), np.bool_(True), "1", b"1"],
    [LARGE, LARGE + 1, 2**60, 2**60 + 1, 2**70, 0.1, np.float32(0.1)],
    [(1, 2), (1.0, 2.0), ("1", 2), frozenset([1, 2])],
    ["nan", "None", "", "\x00", "\x00\x00"],
]
OTHERS = [
    7, 0.5, 1j, True, "ann", HALF, b"ann", (1, 2), None.__class__, 5, SECONDS,
    np.datetime64("2020-01-01"), pd.Timestamp(0), datetime.date(2020, 1, 1),
]  # fmt: skip


def moved(ones):
    """Other ids that change which of these are the same."""

    def alike(column):
        codes = found_ids(column, "users")[1]
        return (codes[:, None] == codes)[-len(ones) :, -len(ones) :].tolist()

    alone = alike(ones)
    return [other for other in OTHERS if alike([other, *ones]) != alone]


@pytest.mark.parametrize("ones", ONES)
def test_which_ids_are_the_same_depends_on_nobody_else(ones):
    assert moved(ones) == []


def by_pandas(column):
    codes, values = pd.factorize(column)
    return np.asarray(values), codes


def test_ids_told_apart_by_what_is_inferred_of_all_are_caught(monkeypatch):
    monkeypatch.setattr(_ratings, "_distinct", by_pandas)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len(moved(ONES[0])) > 5


@pytest.mark.parametrize("last", [3, 3.0])
def test_an_id_of_another_kind_does_not_move_items(last):
    catalogue = declared_ids("item_ids", [LARGE, LARGE + 1, 3], "items")
    assert catalogue.codes([LARGE, LARGE + 1, last]).tolist() == [0, 1, 2]
    flags = declared_ids("item_ids", [False, True], "items")
    assert flags.codes([0, 1, last]).tolist() == [0, 1, -1]
    assert flags.codes([0, 1, 0.5]).tolist() == [0, 1, -1]


def test_unordered_ids_are_found_without_a_word():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ids, _ = found_ids([(1, 2.0), "ann", (3,)], "users")
    assert len(ids) == 3
    with pytest.raises(TypeError) as error:
        found_ids(["ann", [1]], "users")
    assert error.value.__context__ is None


def test_models_of_any_ids():
    pairs = [[1, "x"], ["b", "x"], [1, "y"], ["b", "y"]]
    model = DPMatrixFactorization(np.inf, random_state=0).fit(pairs, [1, 2, 3, 4.0])
    for pair, found in zip(pairs, model.predict(pairs), strict=True):
        assert model.predict([pair]) == found
    facts = {"privacy_unit": "user", "n_users": 9, "item_ids": ["x", "y"]}
    model = DPMatrixFactorization(rating_bounds=(1, 5), **facts)
    first, _, third, _ = model.fit(pairs, [1.0, 2, 3, 4]).predict(pairs)
    # A model without users knows no user.
    assert model.predict([["c", "x"], [7.5, "y"]]).tolist() == [first, third]
