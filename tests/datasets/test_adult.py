"""Where `load_adult` looks, what it refuses, and what it declares."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import socket
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from skdp import BoundedScaler, DeclaredOneHotEncoder
from skdp.datasets import ADULT_BOUNDS, ADULT_CATEGORIES, _adult, load_adult
from skdp.exceptions import StandInDataWarning

HOME = os.environ.get("SKDP_DATA_HOME", "")
needs_adult = pytest.mark.skipif(
    not (HOME and (Path(HOME) / "adult").is_dir()),
    reason="SKDP_DATA_HOME has no folder adult (docs/notebook/data.md)",
)

ROW = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, "
    "White, Male, 2174, 0, 40, United-States, <=50K"
)
RICH = (
    "52, ?, 209642, HS-grad, 9, Married-civ-spouse, ?, Husband, "
    "White, Male, 0, 1887, 45, ?, >50K"
)
FORGED = {
    "adult.data": f"{ROW}\n{RICH}\n\n",
    "adult.test": f"|1x3 Cross validator\n{RICH}.\n{ROW}.\n\n",
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A tiny folder in the published layout, with other records."""
    (tmp_path / "adult").mkdir()
    for name, text in FORGED.items():
        (tmp_path / "adult" / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    monkeypatch.setenv("SKDP_DATA_HOME", str(tmp_path))
    return tmp_path


def accept_forged(monkeypatch):
    for name, text in FORGED.items():
        digest = hashlib.sha256(text.encode()).hexdigest()
        monkeypatch.setitem(_adult._SHA256, name, digest)
    monkeypatch.setattr(_adult, "_POSITIVES", (1, 1))


def in_openml_form(frame):
    """Categories and NaN, as `fetch_openml` returns them."""
    strings = frame.select_dtypes(exclude="number").columns
    known = frame[strings].replace("?", np.nan).astype("category")
    label = frame["class"].str.rstrip(".").astype("category")
    return frame.assign(**known).assign(**{"class": label})


def raw_file(path):
    with gzip.open(path, "rt") as file:
        return pd.read_csv(
            file,
            names=_adult._FILE_COLUMNS,
            skipinitialspace=True,
            na_filter=False,
            comment="|",
        )


def assert_same(a, b):
    for part in ("X_train", "X_test"):
        pd.testing.assert_frame_equal(getattr(a, part), getattr(b, part))
    for part in ("y_train", "y_test"):
        np.testing.assert_array_equal(getattr(a, part), getattr(b, part))


def test_folder_comes_first(home, monkeypatch):
    accept_forged(monkeypatch)
    data = load_adult()
    assert data.name == "adult"
    assert "SKDP_DATA_HOME" in data.source
    assert set(data.X_train) == set(ADULT_BOUNDS) | set(ADULT_CATEGORIES)
    assert data.y_train.tolist() == [0, 1]
    assert data.y_test.tolist() == [1, 0]
    assert data.X_test["occupation"].tolist() == ["?", "Adm-clerical"]
    assert data.X_test["capital-loss"].tolist() == [1887.0, 0.0]


@pytest.mark.parametrize("name", ["adult.data", "adult.test"])
def test_one_wrong_checksum_is_refused(home, monkeypatch, name):
    accept_forged(monkeypatch)
    path = home / "adult" / f"{name}.gz"
    other = FORGED[name].replace("39", "40").encode()
    path.write_bytes(gzip.compress(other))
    got = hashlib.sha256(other).hexdigest()
    with pytest.raises(ValueError, match=f"{name} as published") as error:
        load_adult()
    for part in (
        _adult._SHA256[name],
        f"Got {got}",
        "docs/notebook/data.md",
        str(path),
    ):
        assert part in str(error.value)
    for content in (b"no gzip", gzip.compress(b"39, State-gov")[:-12], b""):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="as published"):
            load_adult()
    path.unlink()
    with pytest.raises(FileNotFoundError, match=name):
        load_adult()


def test_openml_gives_the_same_as_the_folder(home, monkeypatch):
    accept_forged(monkeypatch)
    expected = load_adult()
    parts = [raw_file(home / "adult" / f"{name}.gz") for name in sorted(FORGED)[::-1]]
    frame = in_openml_form(pd.concat(parts, ignore_index=True))
    assert frame["workclass"].isna().sum() == 2

    def fetch(name, *, version, **options):
        assert (name, version) == ("adult", 2)
        return SimpleNamespace(frame=frame)

    monkeypatch.setattr(_adult, "fetch_openml", fetch)
    monkeypatch.setattr(_adult, "_N_TEST", 2)
    monkeypatch.delenv("SKDP_DATA_HOME")
    data = load_adult()
    assert data.name == "adult"
    assert "OpenML" in data.source
    assert_same(data, expected)


def refuse(*args, **kwargs):
    raise OSError("no network")


def another_split(home, monkeypatch):
    frame = in_openml_form(raw_file(home / "adult" / "adult.data.gz"))
    found = SimpleNamespace(frame=frame)
    monkeypatch.setattr(_adult, "fetch_openml", lambda *a, **k: found)
    monkeypatch.delenv("SKDP_DATA_HOME")
    return "class counts"


def no_network(home, monkeypatch):
    # Patched below fetch_openml, so that it checks the options that we give it.
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(home))
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.delenv("SKDP_DATA_HOME")
    return "SKDP_DATA_HOME is not set.*no network"


def no_folder(home, monkeypatch):
    monkeypatch.setattr(_adult, "fetch_openml", refuse)
    monkeypatch.setenv("SKDP_DATA_HOME", str(home / "adult"))
    return "SKDP_DATA_HOME has no folder adult"


def hangs(home, monkeypatch):
    monkeypatch.setattr(_adult, "fetch_openml", lambda *a, **k: Event().wait(1))
    monkeypatch.setattr(_adult, "_FETCH_SECONDS", 0.05)
    monkeypatch.delenv("SKDP_DATA_HOME")
    return "TimeoutError"


@pytest.mark.parametrize("way", [another_split, no_network, no_folder, hangs])
def test_digits_stand_in_and_say_so(way, home, monkeypatch):
    reason = way(home, monkeypatch)
    with pytest.warns(StandInDataWarning, match="NOT Adult.*Set SKDP_DATA") as told:
        data = load_adult()
    assert [warning.filename for warning in told] == [__file__]
    assert data.name == "digits"
    assert data.source.startswith("NOT Adult")
    assert re.search(reason, data.source, re.DOTALL)
    assert data.X_train.shape == (1438, 64)
    assert set(data.y_train) == set(data.y_test) == {0, 1}


def test_schema_covers_the_columns():
    left_out = {"fnlwgt", "education", "class"}
    assert {*ADULT_BOUNDS, *ADULT_CATEGORIES} == {*_adult._FILE_COLUMNS} - left_out
    assert not set(ADULT_BOUNDS) & set(ADULT_CATEGORIES)
    assert all(low < high for low, high in ADULT_BOUNDS.values())
    sizes = [len(ADULT_CATEGORIES[name]) for name in ADULT_CATEGORIES]
    assert sizes == [8, 7, 14, 6, 5, 2, 41]  # counted in adult.names
    for values in ADULT_CATEGORIES.values():
        assert len(set(values)) == len(values)
        assert "?" not in values


@needs_adult
def test_real_adult():
    data = load_adult()
    assert data.name == "adult"
    assert data.X_train.shape == (32561, 12)
    assert data.X_test.shape == (16281, 12)
    assert (data.y_train.sum(), data.y_test.sum()) == (7841, 3846)
    numbers, strings = list(ADULT_BOUNDS), list(ADULT_CATEGORIES)
    assert (data.X_train[numbers].dtypes == np.float64).all()
    scaled = BoundedScaler(ADULT_BOUNDS).fit_transform(data.X_train[numbers])
    assert np.linalg.norm(scaled, axis=1).max() <= 1
    # Every value but "?" is declared; otherwise spelling would have gone astray.
    encoder = DeclaredOneHotEncoder(ADULT_CATEGORIES)
    ones = encoder.fit_transform(data.X_train[strings]).sum()
    assert ones == (data.X_train[strings] != "?").to_numpy().sum()
