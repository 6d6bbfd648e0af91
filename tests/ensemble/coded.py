"""Coded columns, records of them, and trees made by hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skdp.ensemble._trees import RandomTrees, TreeDraws
from skdp.tables._memory import MemorySource, WithOffset


@dataclass(frozen=True)
class Columns:
    """Facts of columns, as `TreeDraws` needs them."""

    n_bins: tuple[int, ...]
    is_ordered: tuple[bool, ...]
    missing: tuple[int | None, ...]

    @property
    def heaps(self):
        return ((),) * len(self.n_bins)


MIXED = Columns((32, 5, 2, 33), (True, False, False, True), (None, None, None, 32))
ONE = Columns((2,), (False,), (None,))


def draw_trees(columns, *, n_trees, weights=None, **facts):
    return TreeDraws(columns, **facts).draw(n_trees, weights)


def codes_of(columns, n, seed=0):
    rng = np.random.default_rng(seed)
    each = [rng.integers(bins, size=n) for bins in columns.n_bins]
    return np.stack(each, axis=1).astype(np.uint8)


def targets_of(loss, codes, n_outputs=1, seed=0):
    """Targets that follow from the codes, with noise."""
    rng = np.random.default_rng(seed + 1)
    score = codes[:, 0] / 16 - 1 + (codes[:, 1] == 1) + rng.normal(0, 0.5, len(codes))
    if loss in ("squared", "quantile"):
        return np.clip(score / 2, -1, 1)
    if loss == "poisson":
        return np.clip(score / 4 + 0.5, 0, 1)
    if loss == "gamma":
        return np.exp(np.clip(score + 1.5, 0, 3))
    return np.clip(np.floor(score + n_outputs / 2), 0, max(n_outputs, 2) - 1)


def source_of(codes, y, present=None, offset=None):
    source = MemorySource(codes, np.asarray(y, dtype=float), present)
    return source if offset is None else WithOffset(source, lambda codes: offset)


def a_leaf_for_each_code():
    """One tree of 256 leaves, cut in the middle of what is left."""
    cut, ends = np.zeros(255, dtype=np.uint8), {0: (0, 256)}
    for node in range(255):
        low, high = ends[node]
        middle = (low + high) // 2
        cut[node] = middle
        ends[2 * node + 1], ends[2 * node + 2] = (low, middle), (middle, high)
    rank = np.arange(255, dtype=np.uint8)[None]
    feature = np.zeros((1, 255), dtype=np.int32)
    return RandomTrees(feature, cut[None], rank, np.array([0, 255]), 8)
