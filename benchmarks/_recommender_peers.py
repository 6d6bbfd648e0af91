"""Other libraries' factorisations, where installed, on one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skdp.decomposition._ratings import Ratings

Predict = Callable[[np.ndarray, np.ndarray], np.ndarray]
# Fits, and then makes what predicts pairs of codes; the second part is not timed.
Fit = Callable[[Ratings], Callable[[], Predict]]


def _libmf(k: int, penalty: float, n_passes: int) -> Fit:
    from libmf import mf

    model = mf.MF(
        k=k, nr_threads=1, nr_iters=n_passes, lambda_p1=0.0, lambda_q1=0.0,
        lambda_p2=penalty, lambda_q2=penalty, eta=0.1, quiet=True,
    )  # fmt: skip

    def fit(ratings: Ratings) -> Callable[[], Predict]:
        pattern = ratings.pattern
        table = np.column_stack([pattern.users, pattern.items, ratings.values])
        order = np.random.default_rng(0).permutation(len(table))
        model.fit(table[order].astype(np.float32))
        return predictor

    def predictor() -> Predict:
        # Not the binding's own predict, which returns other numbers than the factors.
        found = model.model
        p = np.ctypeslib.as_array(found.P, (found.m, found.k))
        q = np.ctypeslib.as_array(found.Q, (found.n, found.k))

        def predict(users: np.ndarray, items: np.ndarray) -> np.ndarray:
            values = np.full(len(users), float(found.b))
            known = (users < len(p)) & (items < len(q))
            values[known] = np.sum(p[users[known]] * q[items[known]], axis=1)
            return np.where(np.isnan(values), found.b, values)  # ids never seen

        return predict

    return fit


def _cmfrec(k: int, penalty: float, n_passes: int) -> Fit:
    from cmfrec import CMF
    from scipy.sparse import coo_matrix

    model = CMF(
        k=k, lambda_=penalty, method="als", niter=n_passes, nthreads=1,
        use_float=True, verbose=False, scale_lam=True,
    )  # fmt: skip

    def fit(ratings: Ratings) -> Callable[[], Predict]:
        pattern = ratings.pattern
        shape = pattern.n_users, pattern.n_items
        places = pattern.users, pattern.items
        model.fit(coo_matrix((ratings.values.astype(np.float32), places), shape))
        return lambda: model.predict

    return fit


def _surprise(k: int, penalty: float, n_passes: int) -> Fit:
    import pandas as pd
    import surprise

    model = surprise.SVD(
        n_factors=k, n_epochs=n_passes, reg_all=penalty, lr_all=0.007, random_state=0
    )

    def fit(ratings: Ratings) -> Callable[[], Predict]:
        pattern = ratings.pattern
        table = pd.DataFrame(
            {"u": pattern.users, "i": pattern.items, "r": ratings.values}
        )
        reader = surprise.Reader(rating_scale=(1, 5))
        data = surprise.Dataset.load_from_df(table, reader).build_full_trainset()
        model.fit(data)

        def predict(users: np.ndarray, items: np.ndarray) -> np.ndarray:
            pairs = zip(users.tolist(), items.tolist(), strict=True)
            return np.array([model.predict(u, i).est for u, i in pairs])

        return lambda: predict

    return fit


_PEERS: dict[str, Callable[..., Fit]] = {
    "libmf": _libmf,
    "cmfrec": _cmfrec,
    "surprise": _surprise,
}


def peer(method: str, params: dict[str, Any]) -> Fit | None:
    """What fits the peer; None if it is not installed."""
    try:
        return _PEERS[method](**params)
    except ImportError:
        return None
