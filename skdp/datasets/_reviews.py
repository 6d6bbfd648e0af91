"""Film reviews as counts of words, for models with many features."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state

from skdp.datasets._published import data_folder, published

FOLDER, COUNTS, WORDS = "imdb_reviews", "imdb_bow.npz", "vocab.txt"
_SHA256 = {
    COUNTS: "2ce24ae2d1da6cf9d87b44fcec20a7277905e82565519e0996440776d56de28e",
    WORDS: "6103247ffbadf77de12de27827a1d0f814764361b6be3711ed6830363673e36e",
}

# Synthetic table: training and test documents, words, words that matter, and words in a
# document.
_TRAIN, _TEST, _WORDS, _TELLING, _LENGTH = 20_000, 5_000, 5_000, 24, 60


@dataclass(frozen=True)
class Reviews:
    """Reviews that are good (1) or bad (0).

    Attributes
    ----------
    name, source : str
    X_train, X_test : CSR of float32 of shape (n, n_words)
        Weights of the words (tf-idf) in rows of norm 1, each row by itself. The idf
        comes from texts that are in neither part.
    y_train, y_test : ndarray of int of shape (n,)
    words : list of str
        Words of the columns; public.
    """

    name: str
    source: str
    X_train: csr_matrix
    y_train: np.ndarray
    X_test: csr_matrix
    y_test: np.ndarray
    words: list[str]


def load_reviews() -> Reviews:
    """Load IMDB reviews (Maas et al., 2011), or a simulated table.

    The reviews are looked for in the folder ``imdb_reviews`` of SKDP_DATA_HOME; nothing
    is downloaded.

    Raises
    ------
    ValueError
        If a file in the folder is not the published one.
    """
    folder = data_folder(FOLDER)
    if folder is None:
        return _synthetic()
    content = {name: published(folder / name, _SHA256[name]) for name in _SHA256}
    with np.load(io.BytesIO(content[COUNTS])) as file:
        arrays = dict(file)
    idf = published_idf(arrays)
    return Reviews(
        name="IMDB reviews",
        source=f"IMDB reviews from {folder}",
        X_train=weighted(counts(arrays, "train"), idf),
        y_train=arrays["train_y"].astype(int),
        X_test=weighted(counts(arrays, "test"), idf),
        y_test=arrays["test_y"].astype(int),
        words=content[WORDS].decode("utf-8").split(),
    )


def counts(arrays: Mapping[str, np.ndarray], part: str) -> csr_matrix:
    """How often each word is in each review of the "train" or the "test" part."""
    values = arrays[f"{part}_counts"].astype(np.float32)
    indices = arrays[f"{part}_indices"].astype(np.int32)
    shape = (len(arrays[f"{part}_y"]), len(arrays["df_unsup"]))
    X = csr_matrix((values, indices, arrays[f"{part}_indptr"]), shape=shape)
    X.sort_indices()
    return X


def published_idf(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Inverse document frequencies in the unlabelled reviews, which are public here."""
    ratio = (1 + arrays["n_unsup"]) / (1 + arrays["df_unsup"])
    return np.asarray(np.log(ratio) + 1)


def weighted(counts: csr_matrix, idf: np.ndarray) -> csr_matrix:
    """``log(1 + count) * idf`` in rows of norm 1; each row by itself."""
    X = counts.copy()
    X.data = (np.log1p(X.data) * idf[X.indices]).astype(np.float32)
    return normalize(X, copy=False)


def _synthetic() -> Reviews:
    """Documents of words by Zipf's law, a few of which reveal the label."""
    rng = check_random_state(0)
    n = _TRAIN + _TEST
    frequency = 1 / np.arange(10, 10 + _WORDS)
    frequency /= frequency.sum()
    drawn = rng.choice(_WORDS, (n, _LENGTH), p=frequency)
    rows = np.repeat(np.arange(n), _LENGTH)
    shape = (n, _WORDS)
    X = csr_matrix((np.ones(rows.size, np.float32), (rows, drawn.ravel())), shape=shape)
    X.sum_duplicates()
    weights = np.zeros(_WORDS)
    # Good and bad words alternate, so that they are about equally frequent.
    telling = np.sort(rng.choice(200, _TELLING, replace=False))
    weights[telling] = np.where(np.arange(_TELLING) % 2, 2.5, -2.5)
    good = 1 / (1 + np.exp(-(X.minimum(1) @ weights)))
    y = (rng.uniform(size=n) < good).astype(int)
    words = [f"word{number}" for number in range(_WORDS)]
    for number, column in enumerate(telling):
        words[column] = f"{'good' if number % 2 else 'bad'}{number // 2}"
    X = weighted(X, -np.log(frequency * _LENGTH))
    return Reviews(
        name="synthetic documents",
        source="Synthetic documents: the IMDB reviews are not in SKDP_DATA_HOME.",
        X_train=X[:_TRAIN],
        y_train=y[:_TRAIN],
        X_test=X[_TRAIN:],
        y_test=y[_TRAIN:],
        words=words,
    )
