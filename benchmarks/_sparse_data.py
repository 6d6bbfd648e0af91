"""Text tasks with many features: fixed training and test parts, rows kept CSR.

Whatever turns counts into features is declared, or comes from texts that are in
neither part: the words and idf of the IMDB reviews are those of its 50,000 unlabelled
reviews.
"""

from __future__ import annotations

import bz2
import io
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.datasets import load_svmlight_files

from benchmarks._data import MissingData, data_folder
from skdp.datasets._reviews import COUNTS, FOLDER, counts, published_idf, weighted

_FEATURE_SEED = 8100
_ROW_SEED = 8200


class Parts(NamedTuple):
    """A training and a test part; X is CSR of float32."""

    X_train: csr_matrix
    y_train: np.ndarray
    X_test: csr_matrix
    y_test: np.ndarray


def imdb(target: str, form: str) -> Parts:
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
    return Parts(rows[0], y_train, rows[1], y_test)


def reuters() -> Parts:
    """7,770 + 3,299 newswires, 8,315 weighted words; 1 if it is about money-fx."""
    return svmlight(
        "reuters_moneyfx",
        ("reuters.trn.bz2", "reuters.tst.bz2"),
        n_features=8315,
        labels=True,
    )


def svmlight(
    folder: str, files: tuple[str, str], *, n_features: int, labels: bool
) -> Parts:
    """A training and a test file in svmlight form, packed by bzip2 or plain.

    Parameters
    ----------
    folder : str
        In SKDP_DATA_HOME.
    files : pair of str
    n_features : int
        Declared, not counted in the files: the largest index used is private.
    labels : bool
        Whether targets are labels, of which the positive ones become 1, others 0.
    """
    streams = [_opened(_file(folder, name)) for name in files]
    loaded = load_svmlight_files(streams, n_features=n_features, dtype=np.float32)
    X_train, y_train, X_test, y_test = loaded
    if labels:
        y_train, y_test = (y_train > 0).astype(float), (y_test > 0).astype(float)
    y_train, y_test = np.asarray(y_train, float), np.asarray(y_test, float)
    return Parts(_short(X_train), y_train, _short(X_test), y_test)


def sampled(
    data: Parts,
    *,
    n_features: int | None = None,
    n_train: int | None = None,
    n_test: int | None = None,
) -> Parts:
    """Random features and rows, the same ones for the same numbers asked."""
    if n_features is not None:
        rng = np.random.default_rng(_FEATURE_SEED)
        kept = np.sort(rng.choice(data.X_train.shape[1], n_features, replace=False))
        data = data._replace(X_train=data.X_train[:, kept], X_test=data.X_test[:, kept])
    if n_train is not None:
        rows = _some(data.X_train.shape[0], n_train)
        data = data._replace(X_train=data.X_train[rows], y_train=data.y_train[rows])
    if n_test is not None:
        rows = _some(data.X_test.shape[0], n_test)
        data = data._replace(X_test=data.X_test[rows], y_test=data.y_test[rows])
    return data


def _short(X: csr_matrix) -> csr_matrix:
    """With indices of 32 bits, which is all that some of scikit-learn takes."""
    parts = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
    return csr_matrix(parts, shape=X.shape)


def _some(available: int, wanted: int) -> np.ndarray:
    rng = np.random.default_rng(_ROW_SEED)
    return np.sort(rng.choice(available, min(wanted, available), replace=False))


def _file(folder: str, name: str) -> Path:
    path = data_folder(folder) / name
    if not path.is_file():
        raise MissingData(
            f"no file {folder}/{name} in SKDP_DATA_HOME (see docs/data.md)"
        )
    return path


def _opened(path: Path) -> io.BytesIO:
    raw = path.read_bytes()
    return io.BytesIO(bz2.decompress(raw) if path.suffix == ".bz2" else raw)


def e2006(n_features: int) -> Parts:
    """16,087 + 3,308 annual reports (tf-idf); the logarithm of the volatility."""
    files = ("E2006.train.bz2", "E2006.test.bz2")
    return svmlight("e2006_tfidf", files, n_features=n_features, labels=False)


def rcv1(n_features: int) -> Parts:
    """20,242 + 677,399 newswires (tf-idf); labels as published."""
    files = ("rcv1_train.binary.bz2", "rcv1_test.binary.bz2")
    return svmlight("rcv1", files, n_features=n_features, labels=True)


PUBLISHED: dict[str, Callable[[int], Parts]] = {"e2006": e2006, "rcv1": rcv1}
