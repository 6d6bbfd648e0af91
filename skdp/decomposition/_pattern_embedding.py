"""Users and items as points, from who rated what alone: public with a public pattern.

Who rates what says much about how it is liked. Where the pattern is public, so are
these points, and a rating can be explained by them with few private numbers.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from skdp._floats import FloatArray
from skdp.decomposition._factorizer import Draws
from skdp.decomposition._ratings import Pattern

# Of the subspace iteration: more columns than are kept, and passes.
_EXTRA, _PASSES = 8, 6


def pattern_embedding(
    pattern: Pattern, k: int, rng: Draws
) -> tuple[FloatArray, FloatArray]:
    """Leading singular vectors of the 0-1 matrix of pairs, as unit rows.

    Rows are ``U S`` and ``V S`` of the truncated decomposition, brought to norm 1:
    what kind of user, not how active a one. Ids without a rating are zeros.

    Columns of the `k` beyond the smaller number of ids are zeros; `rng` is for the
    start of the iteration.

    Returns
    -------
    users, items : ndarrays of shape (n_users, k) and (n_items, k)
    """
    pairs = incidence(pattern)
    columns = min(k + _EXTRA, *pairs.shape)
    right = rng.standard_normal((pairs.shape[1], columns))
    for _ in range(_PASSES):
        left = np.linalg.qr(pairs @ right)[0]
        right = np.linalg.qr(pairs.T @ left)[0]
    left, values, turn = np.linalg.svd(pairs @ right, full_matrices=False)
    users, items = np.zeros((pairs.shape[0], k)), np.zeros((pairs.shape[1], k))
    kept = min(k, columns)
    users[:, :kept] = (left * values)[:, :kept]
    items[:, :kept] = (right @ turn.T * values)[:, :kept]
    return unit_rows(users), unit_rows(items)


def incidence(pattern: Pattern) -> csr_matrix:
    """The matrix with 1 where a user rated an item."""
    return values_of(pattern, np.ones(len(pattern)))


def values_of(pattern: Pattern, values: FloatArray) -> csr_matrix:
    """The sparse matrix of numbers given pair by pair."""
    order = pattern.by_user
    shape = (pattern.n_users, pattern.n_items)
    return csr_matrix((values[order.pairs], order.others, order.starts), shape=shape)


def unit_rows(rows: FloatArray, least: float = 1e-12) -> FloatArray:
    """Rows brought to norm 1; those shorter than `least` of the longest, shorter."""
    norms = np.linalg.norm(rows, axis=1)
    floor = max(least * norms.max(initial=0.0), 1e-300)
    return np.asarray(rows / np.maximum(norms, floor)[:, None])
