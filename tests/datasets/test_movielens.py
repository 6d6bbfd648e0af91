"""Ratings of films, as they are and as they are made up."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
from pathlib import Path

import numpy as np
import pytest

from skdp.datasets import _movielens, load_movielens

SIZES = {"100k": (80_000, 20_000), "1m": (900_000, 100_203)}
HOME = os.environ.get("SKDP_DATA_HOME", "")


@pytest.mark.parametrize("size", SIZES)
def test_official_splits(size):
    if not (HOME and (Path(HOME) / f"movielens_{size}").is_dir()):
        pytest.skip("MovieLens is not in SKDP_DATA_HOME")
    data = load_movielens(size)
    assert (len(data.y_train), len(data.y_test)) == SIZES[size]
    assert set(np.unique(data.y_train)) == {1, 2, 3, 4, 5}
    assert set(np.unique(data.X_train[:, 1])) <= set(data.titles)


def test_synthetic_ratings_stand_in(monkeypatch, tmp_path):
    monkeypatch.setenv("SKDP_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(_movielens, "_RATINGS", 9_000)
    data, again = load_movielens(), load_movielens()
    assert "Synthetic" in data.source
    pairs = np.concatenate([data.X_train, data.X_test])
    assert len(np.unique(pairs, axis=0)) == len(pairs) == 9_000
    assert set(np.unique(data.y_train)) == {1, 2, 3, 4, 5}
    np.testing.assert_array_equal(again.y_train, data.y_train)
    with pytest.raises(ValueError, match="'size'"):
        load_movielens("20m")


def forge(folder, size):
    """Other ratings in the published layout."""
    folder = folder / f"movielens_{size}"
    folder.mkdir()
    array = io.BytesIO()
    np.savez(array, train=[[1, 2, 3]], test=[[2, 1, 4]])
    content = {
        "100k": {
            "u.data.gz": b"1\t2\t3\t9\n2\t1\t4\t9\n1\t1\t5\t9\n",
            "u1.test.gz": b"2\t1\t4\t9\n1\t1\t5\t9\n",
            "u.item": b"1|Heat\n2|Amelie \xe9\n",
        },
        "1m": {"ml1m.npz": array.getvalue(), "movies.dat": b"1::Heat\n2::Brazil\n"},
    }[size]
    for name, inside in content.items():
        packed = gzip.compress(inside) if name.endswith(".gz") else inside
        (folder / name).write_bytes(packed)
    return content


@pytest.mark.parametrize("size", SIZES)
def test_only_published_files_are_read(size, tmp_path, monkeypatch):
    monkeypatch.setenv("SKDP_DATA_HOME", str(tmp_path))
    content = forge(tmp_path, size)
    published = dict(_movielens._SHA256)
    for name, inside in content.items():
        digest = hashlib.sha256(inside).hexdigest()
        monkeypatch.setitem(_movielens._SHA256, name, digest)
    # Broken twin: with the digests of other files they are taken.
    data = load_movielens(size)
    assert data.X_train.tolist() == [[1, 2]]
    assert data.y_test[0] == 4
    assert data.titles[1] == "Heat"
    for name in content:
        with monkeypatch.context() as patch:
            patch.setitem(_movielens._SHA256, name, published[name])
            with pytest.raises(ValueError, match="as published"):
                load_movielens(size)


@pytest.mark.parametrize("size", SIZES)
def test_the_folder_it_is_started_in_is_not_searched(size, tmp_path, monkeypatch):
    forge(tmp_path, size)
    monkeypatch.setattr(_movielens, "_RATINGS", 90)
    monkeypatch.chdir(tmp_path)
    for home in (None, ""):
        monkeypatch.delenv("SKDP_DATA_HOME", raising=False)
        if home is not None:
            monkeypatch.setenv("SKDP_DATA_HOME", home)
        assert "Synthetic" in load_movielens(size).source
    # Broken twin: named, it is searched.
    monkeypatch.setenv("SKDP_DATA_HOME", ".")
    with pytest.raises(ValueError, match="as published"):
        load_movielens(size)
