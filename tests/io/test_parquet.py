"""Which files a ParquetSource reads, and in which order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from skdp.io import ParquetSource
from tests.io.places import FEATURES, N, numbers, read, write

FACTS = {"target": "y", "n_samples": N}


def keys(source):
    def one_pass():
        parts = [part["key"] for _, _, part in source.rows(source.reading(), ("key",))]
        return np.concatenate(parts)

    return source.during(one_pass)


def test_a_file_a_folder_a_pattern_and_a_list(tmp_path):
    folder = write(numbers(), tmp_path / "t", 3)
    files = sorted(folder.iterdir())
    for given in (folder, str(folder), str(folder / "*.parquet"), files):
        source = ParquetSource(given, **FACTS, features=FEATURES)
        assert np.array_equal(keys(source), np.arange(N))
    turned = ParquetSource(files[::-1], **FACTS, features=FEATURES)
    assert keys(turned)[0] == 2 * N // 3
    one = ParquetSource(files[0], target="y", n_samples=N // 3)
    assert one.shape[0] == N // 3


def test_folders_of_partitions_are_columns(tmp_path):
    frame = numbers()
    for year in (2020, 2021):
        part = frame[frame["key"] % 2 == year - 2020]
        write(part, tmp_path / f"year={year}", 2)
    source = ParquetSource(tmp_path, **FACTS, features=["a", "year"])
    rows, present, others = read(source)
    assert present.all()
    assert np.array_equal(rows[:, 1].astype(float), 2020 + others["key"] % 2)
    assert source.dtypes["year"] == "int64"


def test_only_what_is_needed_is_read(tmp_path, monkeypatch):
    write(numbers(), tmp_path / "t")
    source, asked = ParquetSource(tmp_path / "t", **FACTS, features=["b"]), []
    kind, scan = type(source), type(source)._scan
    monkeypatch.setattr(
        kind, "_scan", lambda self, names: asked.append(names) or scan(self, names)
    )
    read(source, also=("key",))
    assert asked == [("b", "key")]


def test_files_must_be_alike(tmp_path):
    folder = write(numbers(), tmp_path / "t", 2)
    other = numbers().rename(columns={"c": "d"}).iloc[:10]
    parquet.write_table(pa.Table.from_pandas(other), folder / "other.parquet")
    with pytest.raises(ValueError, match="same columns of the same types"):
        ParquetSource(folder, **FACTS)


def test_what_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "text.parquet").write_text("no table, but 4242.4242")
    for given in (
        tmp_path / "text.parquet",
        tmp_path / "absent.parquet",
        tmp_path / "x*",
    ):
        with pytest.raises(ValueError, match="'files' argument") as caught:
            ParquetSource(given, **FACTS)
        assert "4242" not in str(caught.value)
        assert caught.value.__context__ is None
    folder = write(numbers(), tmp_path / "t", 2)
    first = folder / "000.parquet"
    with pytest.raises(ValueError, match="each of them once"):
        ParquetSource([first, folder], **FACTS)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"target": "z"}, "'target' argument must name a column"),
        ({"features": ["a", "z"]}, "'features' argument"),
        ({"features": ["a", "a"]}, "'features' argument"),
        ({"features": []}, "'features' argument"),
        ({"features": ["a", "y"]}, "must not be a feature"),
        ({"n_samples": 0}, "'n_samples'"),
        ({"batch_size": 0}, "'batch_size'"),
        ({"memory": -1}, "'memory'.* 0 keeps nothing"),
    ],
)
def test_arguments_are_checked(given, words, tmp_path):
    folder = write(numbers(), tmp_path / "t")
    with pytest.raises(ValueError, match=words):
        ParquetSource(folder, **(FACTS | given))
