"""Declared preprocessing: reads no data for its parameters, keeps its promises."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, issparse
from sklearn.base import clone

from skdp import BoundedScaler, DeclaredOneHotEncoder, RowNormClipper

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e30])
def test_scaled_rows_have_norm_at_most_one(dtype, scale):
    X = (scale * RNG.normal(size=(200, 7))).astype(dtype)
    out = BoundedScaler(bounds=(-1, 3)).fit_transform(X)
    assert out.dtype == dtype
    assert np.linalg.norm(out.astype(float), axis=1).max() <= 1 + 1e-6


def test_three_ways_to_declare_bounds():
    X = pd.DataFrame({"age": [17.0, 90.0], "hours": [1.0, 99.0]})
    same = [([17, 1], [90, 99]), {"hours": (1, 99), "age": (17, 90)}]
    expected = np.array([[-1, -1], [1, 1]]) / math.sqrt(2)
    for bounds in same:
        assert np.allclose(BoundedScaler(bounds).fit_transform(X), expected)
    shared = BoundedScaler((0, 100)).fit(X)
    assert np.array_equal(shared.low_, [0, 0])


@pytest.mark.parametrize(
    "bounds",
    [
        None,
        (3, 2),
        (0, 1, 2),
        5,
        {"a": (0, 1), "b": 3, "c": (0, 1)},
        {"a": 0, "b": 5, "c": 7},
    ],
)
def test_wrong_bounds_are_refused(bounds):
    with pytest.raises(ValueError, match="bounds"):
        BoundedScaler(bounds).fit(pd.DataFrame(np.zeros((4, 3)), columns=list("abc")))


@pytest.mark.parametrize("bounds", [(16777216, 16777217), (0, 1e39), (0, 1e-46)])
def test_bounds_beyond_single_precision(bounds):
    X = np.array([[bounds[0]], [min(bounds[1], 3e38)]]).astype(np.float32)
    out = BoundedScaler(bounds).fit_transform(X)
    assert np.isfinite(out).all()
    assert np.abs(out).max() <= 1


def test_parameters_do_not_depend_on_values():
    for step in (
        BoundedScaler((-1, 1)),
        RowNormClipper(),
        DeclaredOneHotEncoder([1, 2]),
    ):
        a = vars(step.fit(np.zeros((5, 2))))
        kept = {name: str(value) for name, value in a.items()}
        b = vars(step.fit(1e9 * RNG.normal(size=(9, 2))))
        assert kept == {name: str(value) for name, value in b.items()}


def test_rows_are_transformed_one_by_one():
    """Another record in the table changes nothing for this one."""
    X = RNG.normal(size=(20, 3))
    for step in (BoundedScaler((-1, 1)), RowNormClipper(0.5)):
        whole = step.fit_transform(X)
        assert np.array_equal(whole[3:4], step.transform(X[3:4]))


@pytest.mark.parametrize(
    ("storage", "dtype"), [(np.asarray, np.float32), (csr_array, np.float64)]
)
def test_clipped_rows(storage, dtype):
    X = (10.0 ** RNG.integers(-5, 5, (100, 1)) * RNG.normal(size=(100, 4))).astype(
        dtype
    )
    X[0] = 0
    out = RowNormClipper(data_norm=2.0).fit_transform(storage(X))
    assert issparse(out) == (storage is csr_array)
    assert out.dtype == dtype
    out = out.toarray() if issparse(out) else out
    before, after = (np.linalg.norm(A.astype(float), axis=1) for A in (X, out))
    assert np.allclose(after, np.minimum(before, 2.0), rtol=1e-6)
    assert np.array_equal(out[before <= 2.0], X[before <= 2.0])
    far = np.array([[1e308, 1e308], [5e-324, 0.0], [1e200, -1e-200]])
    far = RowNormClipper().fit_transform(storage(far))
    far = far.toarray() if issparse(far) else far
    assert np.allclose(np.linalg.norm(far, axis=1), [1, 0, 1])


@pytest.mark.parametrize("norm", [0, -1, math.nan, math.inf, "1"])
def test_wrong_norms_are_refused(norm):
    with pytest.raises((TypeError, ValueError), match="data_norm"):
        RowNormClipper(norm).fit(np.zeros((2, 2)))


FRAME = pd.DataFrame(
    {"sex": ["Female", "Male", None, "?"], "work": ["a", "b", "b", math.nan]}
)
CATEGORIES = {"work": ["a", "b"], "sex": ["Female", "Male"]}


def test_encoding_ignores_what_was_not_declared():
    out = DeclaredOneHotEncoder(CATEGORIES).fit_transform(FRAME)
    expected = [[1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 0, 1], [0, 0, 0, 0]]
    assert np.array_equal(out, expected)


def test_encoding_with_a_column_for_other_values():
    encoder = DeclaredOneHotEncoder(CATEGORIES, handle_unknown="other").fit(FRAME)
    out = encoder.transform(FRAME)
    expected = [[1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0], [0, 0, 1, 0, 1, 0]]
    assert np.array_equal(out, [*expected, [0, 0, 1, 0, 0, 1]])
    sparse = encoder.set_params(sparse_output=True).fit_transform(FRAME)
    assert issparse(sparse)
    assert np.array_equal(sparse.toarray(), out)
    assert list(encoder.get_feature_names_out()) == [
        "sex_Female",
        "sex_Male",
        "sex_other",
        "work_a",
        "work_b",
        "work_other",
    ]


@pytest.mark.parametrize(
    "categories", [None, [], [["a"]], {"sex": ["a"]}, ["a", "a"], 3, "ab"]
)
def test_wrong_categories_are_refused(categories):
    with pytest.raises(ValueError, match="categories"):
        DeclaredOneHotEncoder(categories).fit(FRAME)


@pytest.mark.parametrize("other", ["x", None, 2**53 + 1, ["a"]])
def test_one_record_never_changes_how_another_is_encoded(other):
    """Found in review: a type common to the column was looked for."""
    encoder = DeclaredOneHotEncoder([[1, 2, 2**53]])
    rows = np.empty((4, 1), dtype=object)
    rows[:, 0] = [1, 2, 1, 2]
    alone = encoder.fit_transform(rows)
    rows[3, 0] = other
    assert np.array_equal(encoder.transform(rows)[:3], alone[:3])
    frame = pd.DataFrame({"a": rows[:, 0]}, dtype=object)
    assert np.array_equal(clone(encoder).fit_transform(frame)[:3], alone[:3])
    as_list = [[1], [2], [1], [other]]
    if not isinstance(other, list):
        assert np.array_equal(clone(encoder).fit_transform(as_list)[:3], alone[:3])


def test_other_is_taken_where_others_are_collected():
    with pytest.raises(ValueError, match="no entry of 'categories' may be 'other'"):
        DeclaredOneHotEncoder([["other", "b"]], handle_unknown="other").fit([["b"]])


def test_the_norm_of_output_rows_is_there_after_the_fit():
    clipper = RowNormClipper(2.0)
    assert not hasattr(clipper, "output_norm_")
    assert clipper.fit([[1.0]]).output_norm_ == 2.0
