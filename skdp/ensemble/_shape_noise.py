"""Noise in the curves and tables of boosted trees; post-processing.

Each tree of one or two columns adds fresh noise, and it corrects noise of the trees and
of the linear model before it, which it sees in its sums: the leaf of a record responds
to the mean noise of its records by its deviation times their curvature over the noise.
A curve's noise meets such corrections over and over, a table's hardly ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp.ensemble._boosting import BoostedTrees
from skdp.ensemble._trees import Bins, Pool

# Share of a column's variance that other columns do not explain, for the correction of
# noise by later trees, where no linear model estimates it. With 0.5 the deviation over
# refits was .98 to 1.23 times the stated noise in a median entry (covertype and
# protein_casp, init="constant", epsilon 0.1 to 4).
_ALONE = 0.5
# Least share of a code in the correction of noise; others would divide by 0.
_LEAST_SHARE = 1e-9


def noise_of(
    boosted: BoostedTrees,
    leaves: Mapping[Pool, Any],
    bins: Bins,
    weights: Sequence[FloatArray],
) -> dict[Pool, FloatArray]:
    """Deviation of the noise in each entry of curves and tables.

    The noise of a table is that of its leaves, added up. Noise in a curve is corrected
    by later trees, for they see it in their sums.

    Parameters
    ----------
    leaves : mapping
        As in `tables_of`.
    """
    used, n_outputs = boosted.trees.columns, len(boosted.start)
    shape = [(n_outputs, n, n) for n in bins.n_bins]
    fresh, pulled = [np.zeros(s) for s in shape], [np.zeros(s) for s in shape]
    noise: dict[Pool, FloatArray] = {}
    for key in filter(None, leaves):
        own = [t for t, columns in enumerate(used) if columns == key]
        sizes, shares = [bins.n_bins[j] for j in key], [weights[j] for j in key]
        if len(key) == 2:
            noise[key] = np.zeros((*sizes, n_outputs))
        for deviations, cells in zip(boosted.deviations[own], leaves[key], strict=True):
            each = _leaf_shares(cells.reshape(sizes), shares, len(deviations))
            for j, part in zip(key, each, strict=True):
                part = part - weights[j] @ part
                noisy = part * deviations.T[:, None]
                fresh[j] += noisy @ noisy.transpose(0, 2, 1)
                pulled[j] += noisy @ part.T
            if len(key) == 2:
                first, second = each
                first = first - shares[0] @ first
                squares = deviations**2
                noise[key] += _variance(cells.reshape(sizes), first, second, squares)
    for j, of_codes in enumerate(weights):
        noise[(j,)] = _corrected(boosted, j, fresh[j], pulled[j], of_codes)
    return {key: np.sqrt(np.maximum(table, 0.0)) for key, table in noise.items()}


def _leaf_shares(
    cells: NDArray[np.int64], weights: Sequence[FloatArray], n_leaves: int
) -> list[FloatArray]:
    """Share of each leaf at each code of each column: (n_codes, n_leaves) each."""
    if cells.ndim == 1:
        return [_shares(cells[:, None], np.ones(1), n_leaves)]
    both = zip((cells, cells.T), weights[::-1], strict=True)
    return [_shares(own, other, n_leaves) for own, other in both]


def _variance(
    cells: NDArray[np.int64], first: FloatArray, second: FloatArray, squares: FloatArray
) -> FloatArray:
    """Variance that one tree of two columns adds to the entries of their table.

    An entry is the value of its leaf, less sums of leaf values times the shares of its
    codes in the leaves.
    """
    found = np.empty((*cells.shape, squares.shape[1]))
    rows, columns = np.indices(cells.shape)
    own = first[rows, cells] + second[columns, cells]
    for k, square in enumerate(squares.T):
        cross = 2 * (first * square) @ second.T
        margins = (first**2 @ square)[:, None] + (second**2 @ square)[None, :]
        found[..., k] = cross + margins + (1 - 2 * own) * square[cells]
    return found


def _corrected(
    boosted: BoostedTrees,
    column: int,
    fresh: FloatArray,
    pulled: FloatArray,
    weights: FloatArray,
) -> FloatArray:
    """Variance of the noise in a column's curve: (n_codes, n_outputs).

    Noise ``e`` of the curve follows ``de = -F e ds + dB`` from the first tree, at 0,
    to the last, at 1, as if many small trees of the same kind were in turn. ``F`` is
    the correction by all trees, and ``dB`` adds what is fresh. In the directions of
    ``F`` the end is an integral of exponentials.

    Parameters
    ----------
    column : int
    fresh : ndarray of float64 of shape (n_outputs, n_codes, n_codes)
        Covariance of the noise of all leaves.
    pulled : ndarray of float64 of shape (n_outputs, n_codes, n_codes)
        Response to noise in each code, for a share and a signal of 1.
    weights : ndarray of float64 of shape (n_codes,)
        Shares of the codes.
    """
    kept = 1.0 if boosted.shrinkage is None else boosted.shrinkage
    signal = np.zeros(len(fresh)) if boosted.signal is None else boosted.signal
    before, alone = np.zeros(fresh.shape[1:]), _ALONE
    if boosted.curves is not None:
        before = boosted.curves.covariances[column]
        alone = float(boosted.curves.alone[column])
    root = np.sqrt(np.maximum(weights, _LEAST_SHARE))
    found = np.empty((len(root), len(fresh)))
    # `pulled` is of trees that were shrunk, but they corrected noise before that.
    for k, each in enumerate(alone * signal / (kept or 1.0)):
        rates, turned = np.linalg.eigh(each * root[:, None] * pulled[k] * root)
        rates = np.maximum(rates, 0.0)
        to, back = turned.T * root, turned / root[:, None]
        left = 1 - kept + kept * np.exp(-rates)
        both = np.maximum(rates[:, None] + rates, 1e-12)
        end = to @ before @ to.T * np.outer(left, left)
        end += to @ fresh[k] @ to.T * (-np.expm1(-both) / both)
        found[:, k] = np.sum((back @ end) * back, axis=1)
    return found


def _shares(cells: NDArray[np.int64], weights: FloatArray, n_leaves: int) -> FloatArray:
    """The weight of each leaf in each row of cells: (n_rows, n_leaves)."""
    offsets = cells + n_leaves * np.arange(len(cells))[:, None]
    spread = np.broadcast_to(weights, cells.shape).ravel()
    size = n_leaves * len(cells)
    found = np.bincount(offsets.ravel(), weights=spread, minlength=size)
    return np.asarray(found.reshape(len(cells), n_leaves), dtype=np.float64)
