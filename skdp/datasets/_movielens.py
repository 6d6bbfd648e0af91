"""Ratings of films, for matrix factorisation."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.utils import check_random_state

from skdp._checks import check_choice
from skdp.datasets._published import data_folder, published

# Checksums of the text inside the .gz files, which may be compressed anew
# (docs/notebook/data.md).
_SHA256 = {
    "u.data.gz": "06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490",
    "u1.test.gz": "18c6014a4b2c7324f250a63f8904a7b16b2b19f911129e346141507b0cbac950",
    "u.item": "553841ebc7de3a0fd0d6b62a204ea30c1e651aacfb2814c7a6584ac52f2c5701",
    "ml1m.npz": "3fc53e92ac36a390ac7bebb52ede6f3af5072a7603809666fd03e2996deb700f",
    "movies.dat": "0140fc2356357c1a851d0f52e893a1e4d3696df632c4141cea8d5bc3d621f0b9",
}

# Synthetic ratings: numbers of users, items and ratings, and rank of the tastes.
_USERS, _ITEMS, _RATINGS, _RANK = 900, 1200, 90_000, 6


@dataclass(frozen=True)
class FilmRatings:
    """Ratings of 1 to 5 stars: pairs of ids, split into two parts.

    Attributes
    ----------
    name, source : str
    X_train, X_test : ndarray of int64 of shape (n_ratings, 2)
        Ids of users and of films.
    y_train, y_test : ndarray of float64 of shape (n_ratings,)
    titles : dict
        Titles of films by id; public.
    """

    name: str
    source: str
    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    titles: dict[int, str]


def load_movielens(size: str = "100k") -> FilmRatings:
    """Load MovieLens ratings (Harper and Konstan, 2015), or simulated ratings.

    The files are looked for in the folders ``movielens_100k`` and ``movielens_1m`` of
    SKDP_DATA_HOME; nothing is downloaded.

    Parameters
    ----------
    size : {"100k", "1m"}, default="100k"
        The first with its official split u1; the second with a random tenth to test.

    Raises
    ------
    ValueError
        If a file in the folder is not the published one.
    """
    check_choice("size", size, ["100k", "1m"])
    folder = data_folder(f"movielens_{size}")
    if folder is None:
        return _synthetic()
    return _small(folder) if size == "100k" else _large(folder)


def _small(folder: Path) -> FilmRatings:
    whole, test = (_table(folder / name) for name in ("u.data.gz", "u1.test.gz"))
    places = [table[:, 0] * 10**6 + table[:, 1] for table in (whole, test)]
    train = whole[~np.isin(*places)]
    titles = _titles(folder / "u.item", "|", "latin-1")
    return _parts("MovieLens 100K", folder, train, test, titles)


def _large(folder: Path) -> FilmRatings:
    with np.load(io.BytesIO(_checked(folder / "ml1m.npz"))) as file:
        train, test = (file[part].astype(np.int64) for part in ("train", "test"))
    titles = _titles(folder / "movies.dat", "::", "latin-1")
    return _parts("MovieLens 1M", folder, train, test, titles)


def _parts(
    name: str, folder: Path, train: np.ndarray, test: np.ndarray, titles: dict[int, str]
) -> FilmRatings:
    return FilmRatings(
        name=name,
        source=f"{name} from {folder}",
        X_train=train[:, :2],
        y_train=train[:, 2].astype(float),
        X_test=test[:, :2],
        y_test=test[:, 2].astype(float),
        titles=titles,
    )


def _table(path: Path) -> np.ndarray:
    return np.loadtxt(io.BytesIO(_checked(path)), dtype=np.int64)


def _titles(path: Path, separator: str, encoding: str) -> dict[int, str]:
    if not path.is_file():
        return {}
    lines = _checked(path).decode(encoding).splitlines()
    rows = [line.split(separator) for line in lines]
    return {int(row[0]): row[1] for row in rows}


def _checked(path: Path) -> bytes:
    return published(path, _SHA256[path.name])


def _synthetic() -> FilmRatings:
    """Ratings by tastes of low rank; popular films are rated more, and better."""
    rng = check_random_state(0)
    popularity = 1 / np.arange(20, 20 + _ITEMS)
    places: set[tuple[int, int]] = set()
    while len(places) < _RATINGS:
        users = rng.randint(_USERS, size=_RATINGS)
        items = rng.choice(_ITEMS, _RATINGS, p=popularity / popularity.sum())
        places |= set(zip(users.tolist(), items.tolist(), strict=True))
    X = np.array(sorted(places))[rng.permutation(len(places))[:_RATINGS]]
    users, items = X.T
    taste = rng.normal(size=(_USERS, _RANK)) / _RANK
    kind = rng.normal(size=(_ITEMS, _RANK))
    quality = 0.4 * rng.normal(size=_ITEMS) - 0.15 * np.log(np.arange(20, 20 + _ITEMS))
    mood = 0.4 * rng.normal(size=_USERS)
    y = 4.4 + quality[items] + mood[users] + np.sum(taste[users] * kind[items], axis=1)
    y = np.clip(np.rint(y + 0.8 * rng.normal(size=_RATINGS)), 1, 5)
    part = _RATINGS * 4 // 5
    return FilmRatings(
        name="synthetic ratings",
        source="Synthetic ratings: MovieLens is not in SKDP_DATA_HOME.",
        X_train=X[:part],
        y_train=y[:part],
        X_test=X[part:],
        y_test=y[part:],
        titles={},
    )
