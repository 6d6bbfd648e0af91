"""All tables of the benchmarks: how they are loaded, prepared and split.

`rows` have norm 1 and labels, `numbers` have norm 1 and a target in [-1, 1]; in both,
columns are scaled by their range over the whole file, which the protocol takes as
public: this is a protocol for comparing methods, not for private work. `declared`
tables come as they are, with columns that were declared from documentation. `texts`
have many features in CSR rows.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix
from scipy.special import expit
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_svmlight_file,
    load_svmlight_files,
)

from benchmarks._runner import MissingData
from skdp import columns
from skdp.columns import Boolean
from skdp.datasets import Dataset, load_adult
from skdp.datasets._reviews import COUNTS, FOLDER, counts, published_idf, weighted

ADULT = (
    "age workclass fnlwgt education education-num marital-status occupation "
    "relationship race sex capital-gain capital-loss hours-per-week native-country "
    "income"
).split()


def rows(name: str, most: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm 1 and integer labels.

    Parameters
    ----------
    name : str
    most : int or None
        At most so many records, always the same random ones.
    """
    X, y = ROWS[name]()
    if most is not None and most < len(y):
        kept = np.random.default_rng(8000).choice(len(y), most, replace=False)
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
        raise MissingData(
            f"no folder {name!r} in SKDP_DATA_HOME (see docs/notebook/data.md)"
        )
    return folder


def read_adult(**how: Any) -> pd.DataFrame:
    """Both published parts, with `how` pandas reads them."""
    how = {"header": None, "names": ADULT, "skipinitialspace": True, **how}
    return pd.concat(
        pd.read_csv(data_folder("adult") / file, skiprows=skipped, **how)
        for file, skipped in (("adult.data.gz", 0), ("adult.test.gz", 1))
    )


def read_kddcup99(**how: Any) -> pd.DataFrame:
    """The published ten per cent; the label is last."""
    file = data_folder("kddcup99") / "kddcup.data_10_percent.gz"
    return pd.read_csv(file, header=None, **how)


def coded(frame: pd.DataFrame) -> np.ndarray:
    """Numbers by their range over the file, words as columns of 0 and 1."""
    numbers = frame.select_dtypes("number").to_numpy(float)
    low, high = numbers.min(axis=0), numbers.max(axis=0)
    # Some columns are the same in every record.
    scaled = (numbers - low) / np.where(high > low, high - low, 1)
    words = pd.get_dummies(frame.select_dtypes(exclude="number")).to_numpy(float)
    return np.hstack([scaled, words])


def _adult() -> tuple[np.ndarray, np.ndarray]:
    frame = read_adult()
    y = frame.pop("income").str.startswith(">50K").to_numpy().astype(int)
    frame = frame.drop(columns=["fnlwgt", "education"])
    for heavy in ("capital-gain", "capital-loss"):
        frame[heavy] = np.log1p(frame[heavy])
    return coded(frame), y


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
    frame = read_kddcup99()
    y = (frame.pop(41) != "normal.").to_numpy().astype(int)
    for heavy in (0, 4, 5):
        frame[heavy] = np.log1p(frame[heavy])
    return coded(frame), y


def _breast_cancer() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_breast_cancer(return_X_y=True)
    low, high = X.min(axis=0), X.max(axis=0)
    return 2 * (X - low) / (high - low) - 1, y


def _digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


def mnist_images(part: str) -> tuple[np.ndarray, np.ndarray]:
    """Shades from 0 to 1, and labels, of "train" or "t10k"."""
    folder = data_folder("mnist")

    def read(kind: str, offset: int) -> np.ndarray:
        packed = (folder / f"{part}-{kind}-ubyte.gz").read_bytes()
        return np.frombuffer(gzip.decompress(packed), np.uint8, offset=offset)

    X = read("images-idx3", 16).reshape(-1, 784).astype(np.float32) / 255
    return X, read("labels-idx1", 8).astype(int)


def _mnist() -> tuple[np.ndarray, np.ndarray]:
    parts = [mnist_images(part) for part in ("train", "t10k")]
    X, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return X, y


ROWS: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "a9a": lambda: _svmlight("a9a", 123),
    "adult": _adult,
    "breast_cancer": _breast_cancer,
    "covertype": _covertype,
    "digits": _digits,
    "kddcup99": _kddcup99,
    "mnist": _mnist,
    "w8a": lambda: _svmlight("w8a", 300),
}


def _read_numbers(file: str, delimiter: str | None = None) -> np.ndarray:
    """A file of numbers packed by gzip, by its path in SKDP_DATA_HOME."""
    path = Path(os.environ.get("SKDP_DATA_HOME") or ".") / file
    if not path.is_file():
        raise MissingData(
            f"no file {file!r} in SKDP_DATA_HOME (see docs/notebook/data.md)"
        )
    with gzip.open(path, "rt") as lines:
        return np.loadtxt(lines, delimiter=delimiter)


DECLARATIONS = Path(__file__).parent / "configs" / "declared"
_TEST_SEED, _KDD_SEED, _GENERATOR_SEED = 0, 0, 8300
_KDD_ROWS, _SPLIT_SEED = 60_000, 9100


@dataclass(frozen=True)
class Declared:
    """What is known of a table without its records.

    Parameters
    ----------
    columns : dict or Declaration
        As `skdp.columns.from_json` returns it.
    classes : list or None
        Labels that may occur; None if the target is a number.
    target_bounds : tuple of two floats or None
        In units of the target; None if it is a label.
    notes : dict
        The source of each declaration, by column; that of all under "table", that of
        the target under "target".
    """

    columns: Any
    classes: list[int] | None
    target_bounds: tuple[float, float] | None
    notes: dict[str, str]

    @property
    def names(self) -> list[str]:
        """Names of declared columns; none if one declaration serves all."""
        return list(self.columns) if isinstance(self.columns, dict) else []


@dataclass(frozen=True, eq=False)
class Table:
    """Records, targets and which records are the test part.

    Parameters
    ----------
    X : DataFrame or ndarray
    y : ndarray of shape (n_samples,)
    is_test : ndarray of bool of shape (n_samples,)
    """

    X: Any
    y: np.ndarray
    is_test: np.ndarray


def declared(name: str) -> Declared:
    """The declarations of a table."""
    text = (DECLARATIONS / f"{name}.json").read_text(encoding="utf-8")
    stored = json.loads(text)
    ends = stored.get("target_bounds")
    bounds = None if ends is None else (float(ends[0]), float(ends[1]))
    known = columns.from_json(text)
    return Declared(known, stored.get("classes"), bounds, stored["notes"])


@lru_cache(maxsize=2)
def table(name: str) -> Table:
    """All records of a table; Adult has its official test part, others a random fifth.

    Raises
    ------
    MissingData
        If the data set is not in SKDP_DATA_HOME.
    """
    return DECLARED[name]()


class Parts(NamedTuple):
    """Records to train on and records to judge by."""

    X_train: Any
    y_train: np.ndarray
    X: Any
    y: np.ndarray


def parts(
    name: str, seed: int, part: str = "settle", n_train: int | None = None
) -> Parts:
    """A split of a declared table.

    Parameters
    ----------
    name : str
    seed : int
        Of the validation part and of which records are kept.
    part : {"settle", "report"}
        What to judge by: a fifth of the training part, or the test part. A constant is
        settled without the test part.
    n_train : int or None
        At most so many records to train on.
    """
    whole = table(name)
    rng = np.random.default_rng(_SPLIT_SEED + seed)
    order = rng.permutation(np.flatnonzero(~whole.is_test))
    judged = np.flatnonzero(whole.is_test)
    if part == "settle":
        fifth = len(order) // 5
        judged, order = order[:fifth], order[fifth:]
    kept = order[: n_train or None]
    X_train, X = taken(whole.X, kept), taken(whole.X, judged)
    return Parts(X_train, whole.y[kept], X, whole.y[judged])


def taken(X: Any, places: np.ndarray) -> Any:
    """Rows of a frame or an array by position."""
    if isinstance(X, pd.DataFrame):
        return X.iloc[places].reset_index(drop=True)
    return X[places]


def adult() -> Dataset:
    """Adult with its official test part; no other data stand in."""
    data_folder("adult")
    return load_adult()


def _randomly_split(X: Any, y: Any) -> Table:
    is_test = np.zeros(len(X), dtype=bool)
    order = np.random.default_rng(_TEST_SEED).permutation(len(X))
    is_test[order[: len(X) // 5]] = True
    return Table(X, np.asarray(y), is_test)


def _declared_adult() -> Table:
    data = adult()
    is_test = np.repeat([False, True], [len(data.X_train), len(data.X_test)])
    X = pd.concat([data.X_train, data.X_test], ignore_index=True)
    return Table(X, np.concatenate([data.y_train, data.y_test]), is_test)


def _declared_covertype_types() -> Table:
    """Columns of 0 and 1 put together again, as two lists of categories."""
    with np.load(data_folder("covertype_93k") / "covertype_93k.npz") as file:
        numbers, bits, y = file["X_num"], file["X_bin"], file["y"]
    *names, area, soil = declared("covertype_types").names
    X = pd.DataFrame(numbers, columns=names)
    X[area], X[soil] = bits[:, :4].argmax(axis=1) + 1, bits[:, 4:].argmax(axis=1) + 1
    return _randomly_split(X, y.astype(int))


def _declared_covertype() -> Table:
    """Lodgepole pine or not."""
    types = _declared_covertype_types()
    return replace(types, y=(types.y == 2).astype(int))


def _declared_kddcup99() -> Table:
    """A random part of the published ten per cent; attack or not."""
    known = declared("kddcup99")
    frame = read_kddcup99(names=[*known.names, "label"])
    rng = np.random.default_rng(_KDD_SEED)
    frame = frame.iloc[rng.choice(len(frame), _KDD_ROWS, replace=False)]
    frame = frame.reset_index(drop=True)
    y = (frame.pop("label") != "normal.").astype(int)
    for name, each in known.columns.items():
        if isinstance(each, Boolean):
            frame[name] = frame[name] != 0
    return _randomly_split(frame, y)


def _declared_last_column(name: str, values: np.ndarray) -> Table:
    X = pd.DataFrame(values[:, :-1], columns=declared(name).names)
    return _randomly_split(X, values[:, -1])


def _wine_quality_white() -> Table:
    values = _read_numbers("wine_quality/winequality-white.csv.gz", ",")
    return _declared_last_column("wine_quality_white", values)


def _declared_breast_cancer() -> Table:
    return _randomly_split(*load_breast_cancer(return_X_y=True, as_frame=True))


def _declared_digits() -> Table:
    return _randomly_split(*load_digits(return_X_y=True))


def _declared_digits_odd() -> Table:
    X, digit = load_digits(return_X_y=True)
    return _randomly_split(X, digit % 2)


def _rare(n: int = 9_000, seed: int = _GENERATOR_SEED) -> Table:
    """About 2 % positive, heavy tails, many small regions."""
    rng = np.random.default_rng(seed)
    amounts, scores = rng.lognormal(5, 1.5, (n, 4)), rng.standard_normal((n, 8))
    region = np.minimum(rng.geometric(0.2, n) - 1, 19)
    kind = rng.choice(3, n, p=[0.7, 0.25, 0.05])
    raw = 0.9 * scores[:, 0] - 0.6 * scores[:, 1] + 0.3 * scores[:, 2] ** 2
    raw += 0.5 * (np.log1p(amounts[:, 0]) - 5) + 0.8 * (region > 9) + 0.9 * (kind == 2)
    y = rng.random(n) < expit(raw - 5.1)
    X = np.hstack([amounts, scores])
    frame = pd.DataFrame(X, columns=declared("rare").names[:12])
    frame["region"], frame["kind"] = (
        [f"r{i}" for i in region],
        np.array(list("abc"))[kind],
    )
    return _randomly_split(frame, y.astype(int))


def _noisy(n: int = 21_000, seed: int = _GENERATOR_SEED) -> Table:
    """A weak signal of a few columns, half of it curved."""
    rng = np.random.default_rng(seed)
    X, group = rng.standard_normal((n, 10)), rng.choice(30, n)
    raw = 0.25 * X[:, 0] - 0.2 * X[:, 1] + 0.15 * (X[:, 2] ** 2 - 1)
    raw += 0.2 * np.sin(2 * X[:, 3]) + 0.2 * rng.standard_normal(30)[group]
    frame = pd.DataFrame(X, columns=declared("noisy").names[:10])
    frame["group"] = [f"g{i}" for i in group]
    return _randomly_split(frame, (rng.random(n) < expit(raw)).astype(int))


def _three_of_26(n: int = 12_000, seed: int = _GENERATOR_SEED) -> Table:
    """A slope, a kink and a step; 23 columns do not matter."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 26))
    y = 1.2 * X[:, 3] + np.abs(X[:, 11]) - 0.5 + 0.4 * np.sign(X[:, 20] - 0.3)
    y += 0.7 * rng.standard_normal(n)
    frame = pd.DataFrame(X, columns=declared("three_of_26").names)
    return _randomly_split(frame, np.clip(y, -5, 5))


DECLARED: dict[str, Callable[[], Table]] = {
    "adult": _declared_adult,
    "breast_cancer": _declared_breast_cancer,
    "ccpp": lambda: _declared_last_column("ccpp", _read_numbers("ccpp/ccpp.txt.gz")),
    "covertype": _declared_covertype,
    "covertype_types": _declared_covertype_types,
    "digits": _declared_digits,
    "digits_odd": _declared_digits_odd,
    "kddcup99": _declared_kddcup99,
    "noisy": _noisy,
    "protein_casp": lambda: _declared_last_column(
        "protein_casp", _read_numbers("protein_casp/casp.txt.gz")
    ),
    "rare": _rare,
    "three_of_26": _three_of_26,
    "wine_quality_white": _wine_quality_white,
}


# Generated tables, of any number of rows.
GENERATED: dict[str, Callable[[int, int], Table]] = {
    "noisy": _noisy,
    "rare": _rare,
    "three_of_26": _three_of_26,
}


class Texts(NamedTuple):
    """A training and a test part; X is CSR of float32."""

    X_train: csr_matrix
    y_train: np.ndarray
    X_test: csr_matrix
    y_test: np.ndarray


def imdb(target: str, form: str) -> Texts:
    """25,000 + 25,000 film reviews, 26,460 words.

    Parameters
    ----------
    target : {"sentiment", "stars"}
        0 or 1, or 1 to 10 stars (5 and 6 do not occur).
    form : {"counts", "tfidf"}
        ``log(1 + count) * idf`` in rows of norm 1 is "tfidf".
    """
    with np.load(_file(FOLDER, COUNTS)) as file:
        arrays = dict(file)
    column = "y" if target == "sentiment" else "rating"
    rows = [counts(arrays, part) for part in ("train", "test")]
    if form == "tfidf":
        rows = [weighted(part, published_idf(arrays)) for part in rows]
    y_train, y_test = (
        arrays[f"{part}_{column}"].astype(float) for part in ("train", "test")
    )
    return Texts(rows[0], y_train, rows[1], y_test)


def reuters() -> Texts:
    """7,770 + 3,299 newswires, 8,315 weighted words; 1 if it is about money-fx."""
    streams = [
        io.BytesIO(bz2.decompress(_file("reuters_moneyfx", name).read_bytes()))
        for name in ("reuters.trn.bz2", "reuters.tst.bz2")
    ]
    # The width is declared: the largest index used is private.
    X, y, X_test, y_test = load_svmlight_files(
        streams, n_features=8315, dtype=np.float32
    )
    return Texts(_short(X), _signs(y), _short(X_test), _signs(y_test))


def _signs(y: np.ndarray) -> np.ndarray:
    return (y > 0).astype(float)


def _short(X: csr_matrix) -> csr_matrix:
    """With indices of 32 bits, which is all that some of scikit-learn takes."""
    parts = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
    return csr_matrix(parts, shape=X.shape)


def _file(folder: str, name: str) -> Path:
    path = data_folder(folder) / name
    if not path.is_file():
        raise MissingData(
            f"no file {folder}/{name} in SKDP_DATA_HOME (see docs/notebook/data.md)"
        )
    return path
