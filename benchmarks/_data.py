"""Data sets of the accuracy tables, prepared by one public protocol."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, load_svmlight_file

_ADULT = (
    "age workclass fnlwgt education education-num marital-status occupation "
    "relationship race sex capital-gain capital-loss hours-per-week native-country "
    "income"
).split()


class MissingData(Exception):
    """The data set is not in the folder SKDP_DATA_HOME (docs/data.md)."""


def load(name: str, rows: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm 1 and integer labels.

    Columns are scaled by their range over the whole file, which the protocol takes
    as public; this is a protocol for comparing methods, not for private work.

    Parameters
    ----------
    name : str
    rows : int or None
        At most so many records, always the same random ones.
    """
    X, y = _LOADERS[name]()
    if rows is not None and rows < len(y):
        kept = np.random.default_rng(8000).choice(len(y), rows, replace=False)
        X, y = X[kept], y[kept]
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.maximum(norms, 1e-12), y


def split(
    X: np.ndarray, y: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A random 80/20 split: X_train, y_train, X_test, y_test."""
    order = np.random.default_rng(9000 + seed).permutation(len(y))
    test = len(y) // 5
    return X[order[test:]], y[order[test:]], X[order[:test]], y[order[:test]]


def data_folder(name: str) -> Path:
    """The folder of a data set in SKDP_DATA_HOME."""
    folder = Path(os.environ.get("SKDP_DATA_HOME") or ".") / name
    if not folder.is_dir():
        raise MissingData(f"no folder {name!r} in SKDP_DATA_HOME (see docs/data.md)")
    return folder


def _adult() -> tuple[np.ndarray, np.ndarray]:
    folder = data_folder("adult")
    parts = [
        pd.read_csv(
            folder / file,
            header=None,
            names=_ADULT,
            skipinitialspace=True,
            skiprows=header,
        )
        for file, header in (("adult.data.gz", 0), ("adult.test.gz", 1))
    ]
    frame = pd.concat(parts)
    y = frame.pop("income").str.startswith(">50K").to_numpy().astype(int)
    frame = frame.drop(columns=["fnlwgt", "education"])
    for heavy in ("capital-gain", "capital-loss"):
        frame[heavy] = np.log1p(frame[heavy])
    numbers = frame.select_dtypes("number").to_numpy(float)
    low, high = numbers.min(axis=0), numbers.max(axis=0)
    labels = pd.get_dummies(frame.select_dtypes(exclude="number")).to_numpy(float)
    return np.hstack([(numbers - low) / (high - low), labels]), y


def _covertype() -> tuple[np.ndarray, np.ndarray]:
    """Whether the cover type is 2, lodgepole pine, which is about every second."""
    with np.load(data_folder("covertype_93k") / "covertype_93k.npz") as file:
        X = np.hstack([file["X_num"], file["X_bin"]]).astype(float)
        y = (file["y"] == 2).astype(int)
    low, high = X.min(axis=0), X.max(axis=0)
    # A kind of soil that does not occur has a column of zeros.
    return (X - low) / np.where(high > low, high - low, 1), y


def _svmlight(name: str, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns of 0 and 1; whether the label is +1. All files are taken together."""
    parts = [
        load_svmlight_file(str(file), n_features=n_features)
        for file in sorted(data_folder(name).glob("*.gz"))
    ]
    X = np.vstack([part.toarray() for part, _ in parts])
    return X, np.concatenate([label > 0 for _, label in parts]).astype(int)


def _kddcup99() -> tuple[np.ndarray, np.ndarray]:
    """Whether a connection is an attack, in the published ten per cent.

    Duration and bytes sent either way have a logarithm taken first.
    """
    file = data_folder("kddcup99") / "kddcup.data_10_percent.gz"
    frame = pd.read_csv(file, header=None)
    y = (frame.pop(41) != "normal.").to_numpy().astype(int)
    for heavy in (0, 4, 5):
        frame[heavy] = np.log1p(frame[heavy])
    numbers = frame.select_dtypes("number").to_numpy(float)
    low, high = numbers.min(axis=0), numbers.max(axis=0)
    labels = pd.get_dummies(frame.select_dtypes(exclude="number")).to_numpy(float)
    # Two columns are the same in every record.
    scaled = (numbers - low) / np.where(high > low, high - low, 1)
    return np.hstack([scaled, labels]), y


def _breast_cancer() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_breast_cancer(return_X_y=True)
    low, high = X.min(axis=0), X.max(axis=0)
    return 2 * (X - low) / (high - low) - 1, y


def _digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


def _mnist() -> tuple[np.ndarray, np.ndarray]:
    folder = data_folder("mnist")

    def read(prefix: str, offset: int) -> np.ndarray:
        raw = gzip.decompress((folder / f"{prefix}-ubyte.gz").read_bytes())
        return np.frombuffer(raw, np.uint8, offset=offset)

    parts = ("train", "t10k")
    X = np.concatenate([read(f"{part}-images-idx3", 16) for part in parts])
    y = np.concatenate([read(f"{part}-labels-idx1", 8) for part in parts])
    return X.reshape(-1, 784).astype(np.float32) / 255, y.astype(int)


_LOADERS: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "a9a": lambda: _svmlight("a9a", 123),
    "adult": _adult,
    "breast_cancer": _breast_cancer,
    "covertype": _covertype,
    "digits": _digits,
    "kddcup99": _kddcup99,
    "mnist": _mnist,
    "w8a": lambda: _svmlight("w8a", 300),
}
