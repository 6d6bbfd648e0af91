"""Ratings of films, as they are and as they are made up."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from skdp.datasets import load_movielens

SIZES = {"100k": (80_000, 20_000), "1m": (900_000, 100_203)}


@pytest.mark.parametrize("size", SIZES)
def test_official_splits(size):
    folder = Path(os.environ.get("SKDP_DATA_HOME") or ".") / f"movielens_{size}"
    if not folder.is_dir():
        pytest.skip("MovieLens is not in SKDP_DATA_HOME")
    data = load_movielens(size)
    assert (len(data.y_train), len(data.y_test)) == SIZES[size]
    assert set(np.unique(data.y_train)) == {1, 2, 3, 4, 5}
    assert set(np.unique(data.X_train[:, 1])) <= set(data.titles)


def test_synthetic_ratings_stand_in(monkeypatch, tmp_path):
    monkeypatch.setenv("SKDP_DATA_HOME", str(tmp_path))
    data = load_movielens()
    assert "Synthetic" in data.source
    pairs = np.concatenate([data.X_train, data.X_test])
    assert len(np.unique(pairs, axis=0)) == len(pairs) == 90_000
    assert set(np.unique(data.y_train)) == {1, 2, 3, 4, 5}
    again = load_movielens()
    np.testing.assert_array_equal(again.y_train, data.y_train)


def test_only_known_sizes():
    with pytest.raises(ValueError, match="'size'"):
        load_movielens("20m")
