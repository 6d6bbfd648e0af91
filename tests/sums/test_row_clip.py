"""Rows in products with weights: clipped, and each on its own to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from skdp.sums import _grid_rows as row_clip

_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(50, 300))
COEF = _RNG.normal(size=(300, 2))
# The first row is huge in both; in the second many others are.
FEW, MANY = X * np.ones((50, 1)), X * np.where(np.arange(50) % 2, 1.0, 1e200)[:, None]
FEW[0] = MANY[0]


def first_rows(n_outputs, store):
    coef = COEF[:, :n_outputs]
    return [
        row_clip.clipped_products(store(rows), coef, 1.0)[0] for rows in (FEW, MANY)
    ]


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("store", [np.asarray, np.asfortranarray, csr_array])
def test_huge_row_is_rounded_alike_whatever_others_are_huge(n_outputs, store):
    few, many = first_rows(n_outputs, store)
    assert np.array_equal(few, many)
    expected = X[0] / np.linalg.norm(X[0]) @ COEF[:, :n_outputs]
    assert np.allclose(few, expected, rtol=1e-12)


def test_broken_twin_whose_rounding_knows_how_many_are_huge_is_found(monkeypatch):
    def all_at_once(rows, coef):
        return rows @ coef * (1 + len(rows) * 2.0**-50)

    monkeypatch.setattr(row_clip, "_one_by_one", all_at_once)
    few, many = first_rows(2, np.asarray)
    assert not np.array_equal(few, many)


def test_dtype_is_that_of_the_product_and_overflow_is_none():
    single = X.astype(np.float32) * np.float32(1e37)
    found = row_clip.clipped_products(single, COEF.astype(np.float32), 1.0)
    assert found.dtype == np.float32
    expected = X / np.linalg.norm(X, axis=1)[:, None] @ COEF
    assert np.allclose(found, expected, atol=1e-5)
    assert row_clip.clipped_products(X.astype(np.float32), COEF, 1.0).dtype == float
