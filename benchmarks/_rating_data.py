"""Ratings for the benchmarks of factorisers: official files, or generated ones."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd

from benchmarks._data import data_folder
from skdp.decomposition._ratings import Pattern, Ratings

# Users, items and ratings of the official sets.
_SHAPES = {
    "100k": (943, 1682, 100_000),
    "1m": (6040, 3706, 1_000_209),
    "10m": (69_878, 10_677, 10_000_054),
    "20m": (138_493, 26_744, 20_000_263),
}
NAMES = [*_SHAPES, *(f"{name}-like" for name in _SHAPES)]
_RANK = 10


def ratings(name: str, share: float = 1.0) -> Ratings:
    """All ratings of a set, in single precision.

    Parameters
    ----------
    name : str
        One of `NAMES`. The official files are ``movielens_10m/ratings.dat`` and
        ``movielens_20m/ratings.csv``; sets whose name ends in "-like" are generated,
        with the number of users, items and ratings of the official ones.
    share : float, default=1.0
        Of the users and ratings that are generated.
    """
    if name.endswith("-like"):
        n_users, n_items, n_ratings = _SHAPES[name[:-5]]
        return _generated(int(share * n_users), n_items, int(share * n_ratings))
    table = _official(name)
    codes = [np.unique(table[:, j], return_inverse=True) for j in (0, 1)]
    (users, user), (items, item) = codes
    pattern = Pattern(
        user.astype(np.int32), item.astype(np.int32), len(users), len(items)
    )
    return Ratings(pattern, table[:, 2].astype(np.float32))


def _official(name: str) -> np.ndarray:
    folder = data_folder(f"movielens_{name}")
    if name == "100k":
        with gzip.open(folder / "u.data.gz") as file:
            return np.loadtxt(file)[:, :3]
    if name == "1m":
        with np.load(folder / "ml1m.npz") as file:
            return np.concatenate([file["train"], file["test"]]).astype(float)
    if name == "10m":
        frame = pd.read_csv(folder / "ratings.dat", sep=":", header=None, engine="c")
        return frame[[0, 2, 4]].to_numpy(float)  # fields are two colons apart
    return pd.read_csv(folder / "ratings.csv").to_numpy(float)[:, :3]


def _generated(n_users: int, n_items: int, n_ratings: int) -> Ratings:
    """Log-normal activity of users, popularity of items by Zipf and Mandelbrot.

    On MovieLens 1M the spread of activity and the share of the most popular tenth of
    films are within a tenth of the official ones.
    """
    rng = np.random.default_rng(0)
    n_ratings = min(n_ratings, n_users * n_items // 4)
    activity = np.exp(1.2 * rng.normal(size=n_users)) + 0.12
    popularity = (np.arange(n_items) + 0.08 * n_items) ** -1.6
    rng.shuffle(popularity)
    keys: np.ndarray = np.empty(0, dtype=np.int64)
    while len(keys) < n_ratings:
        n = int(1.5 * (n_ratings - len(keys))) + 100
        user = rng.choice(n_users, n, p=activity / activity.sum())
        item = rng.choice(n_items, n, p=popularity / popularity.sum())
        keys = np.unique(np.concatenate([keys, user * np.int64(n_items) + item]))
    user, item = np.divmod(rng.permutation(keys)[:n_ratings], n_items)
    p, q = (rng.normal(size=(n, _RANK)) for n in (n_users, n_items))
    values = 3.5 + 0.5 * rng.normal(size=n_items)[item]
    values += 0.2 * np.einsum("ij,ij->i", p[user], q[item])
    values += 0.8 * rng.normal(size=n_ratings)
    values = np.clip(np.rint(2 * values) / 2, 0.5, 5)
    pattern = Pattern(user.astype(np.int32), item.astype(np.int32), n_users, n_items)
    return Ratings(pattern, values.astype(np.float32))
