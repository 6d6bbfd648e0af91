"""`RandomTrees`: complete binary trees, drawn from public randomness.

A tree cuts each column in an order of its codes: their own, with missing values at a
random end, or a random one for categories. What is still possible at a node is then an
interval of ranks in every column, and a node cuts within its intervals, so that no leaf
is empty by construction. Cuts are even in the shares that codes have, which are all
alike or were released.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from skdp._floats import FloatArray

# A generator of scikit-learn's kind, for draws on which no privacy rests.
Draws = Any
Pool = tuple[int, ...]

# Above all ranks: where nothing is left to cut all records go left.
_NO_CUT = 255
# Cuts of a single column are on top of each other in many trees: a few are enough.
_ONE_COLUMN_DEPTH = 4
MIX: tuple[int | None, ...] = (1, 2, None)


class CodedColumns(Protocol):
    """Public facts of columns whose values are codes.

    `n_bins` is the number of codes of each, at most 255; `is_ordered` whether they are
    in order, but for the code `missing`, which is None where nothing can be missing.
    """

    @property
    def n_bins(self) -> tuple[int, ...]: ...
    @property
    def is_ordered(self) -> tuple[bool, ...]: ...
    @property
    def missing(self) -> tuple[int | None, ...]: ...


@dataclass(frozen=True, eq=False)
class RandomTrees:
    """Trees of one depth in heap order: node i leads to 2 i + 1 and to 2 i + 2.

    Parameters
    ----------
    feature : ndarray of int32 of shape (n_trees, 2**depth - 1)
        Column that a node cuts.
    cut : ndarray of uint8 of shape (n_trees, 2**depth - 1)
        A record goes right if the rank of its code is at least this.
    rank : ndarray of uint8 of shape (n_trees, sum of n_bins)
        Of each code of each column, one column after the other.
    starts : ndarray of int64 of shape (n_columns + 1,)
        Where the ranks of a column start.
    depth : int
    """

    feature: NDArray[np.int32]
    cut: NDArray[np.uint8]
    rank: NDArray[np.uint8]
    starts: NDArray[np.int64]
    depth: int

    def __len__(self) -> int:
        return len(self.feature)

    @property
    def n_leaves(self) -> int:
        """Of each tree, those that cannot be reached among them."""
        return int(2**self.depth)

    def goes_right(self, tree: int, node: int) -> NDArray[np.bool_]:
        """Whether a record goes right at a node, by its code in the node's column."""
        first, last = self.starts[self.feature[tree, node] :][:2]
        return np.asarray(self.rank[tree, first:last] >= self.cut[tree, node])

    def is_reached(self, tree: int) -> NDArray[np.bool_]:
        """Whether cuts lead to a leaf: where nothing is left to cut all go left."""
        reached, cut = np.ones(1, dtype=bool), self.cut[tree] < _NO_CUT
        for _ in range(self.depth):
            first = len(reached) - 1
            right = reached & cut[first : first + len(reached)]
            reached = np.column_stack([reached, right]).ravel()
        return reached

    @cached_property
    def columns(self) -> tuple[Pool, ...]:
        """The columns that each tree cuts, in rising order."""
        return tuple(
            tuple(np.unique(feature[cut < _NO_CUT]).tolist())
            for feature, cut in zip(self.feature, self.cut, strict=True)
        )


def uncut(columns: CodedColumns) -> RandomTrees:
    """One tree of a single leaf."""
    none = np.zeros((1, 0))
    rank = np.zeros((1, sum(columns.n_bins)), dtype=np.uint8)
    feature, cut = none.astype(np.int32), none.astype(np.uint8)
    return RandomTrees(feature, cut, rank, _starts(columns), 0)


def draw_trees(
    columns: CodedColumns,
    *,
    n_trees: int,
    max_depth: int,
    seed: int,
    interactions: Sequence[int | None] = MIX,
    groups: Sequence[Sequence[int]] | None = None,
    shares: FloatArray | None = None,
) -> RandomTrees:
    """Draw trees from a public seed.

    Parameters
    ----------
    columns : CodedColumns
    n_trees : int of at least 1
    max_depth : int in [1, 16]
        Trees of one column are of depth 4 at most.
    seed : int
        Public.
    interactions : sequence of int or None
        How many columns a tree may cut, in turn; None: all of them.
    groups : sequence of sequences of int or None, default=None
        The columns of a tree are all of one group; None: one group of all.
    shares : ndarray of shape (sum of n_bins,) or None, default=None
        Released or public, above 0; of each code in its column. None: all alike.
    """
    # NumPy never changes what this generator draws from a seed.
    rng = check_random_state(seed)
    allowed = _groups(columns, groups)
    starts = _starts(columns)
    shares = np.ones(starts[-1]) if shares is None else shares
    pools = _pools(n_trees, interactions, allowed, rng)
    # Asked of the columns once: their bins count each time.
    facts = list(zip(columns.n_bins, columns.is_ordered, columns.missing, strict=True))
    n_nodes = 2**max_depth - 1
    feature = np.zeros((n_trees, n_nodes), dtype=np.int32)
    cut = np.full((n_trees, n_nodes), _NO_CUT, dtype=np.uint8)
    rank = np.empty((n_trees, starts[-1]), dtype=np.uint8)
    for t, pool in enumerate(pools):
        rank[t] = np.concatenate([_ranks(*each, rng) for each in facts])
        depth = min(max_depth, _ONE_COLUMN_DEPTH) if len(pool) == 1 else max_depth
        ladders = [
            _ladder(rank[t, starts[j] : starts[j + 1]], shares[starts[j] :])
            for j in pool
        ]
        features, cuts = _cuts(pool, ladders, depth, rng)
        feature[t, : len(features)], cut[t, : len(cuts)] = features, cuts
    return RandomTrees(feature, cut, rank, starts, max_depth)


def _n(columns: CodedColumns) -> int:
    return len(columns.n_bins)


def _starts(columns: CodedColumns) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(columns.n_bins)]).astype(np.int64)


def _groups(
    columns: CodedColumns, groups: Sequence[Sequence[int]] | None
) -> tuple[Pool, ...]:
    whole = [range(_n(columns))] if groups is None else groups
    return tuple(tuple(sorted(set(group))) for group in whole if len(group))


def _pools(
    n_trees: int,
    interactions: Sequence[int | None],
    groups: tuple[Pool, ...],
    rng: Draws,
) -> Iterator[Pool]:
    """Columns that each tree may cut: of a group of its first column, which goes round.

    Round once for each entry of `interactions`, so that every column has its turn.
    """
    columns = sorted({column for group in groups for column in group})
    for t in range(n_trees):
        turn, place = divmod(t, len(interactions))
        size, first = interactions[place], columns[turn % len(columns)]
        around = [group for group in groups if first in group]
        group = around[int(rng.randint(len(around)))]
        if size is None or size >= len(group):
            yield group
            continue
        others = [column for column in group if column != first]
        chosen = rng.choice(len(others), size - 1, replace=False)
        yield (first, *(others[i] for i in chosen))


def _ranks(
    n_bins: int, is_ordered: bool, missing: int | None, rng: Draws
) -> NDArray[np.uint8]:
    """Of each code of a column, in the order in which a tree cuts it."""
    if not is_ordered:
        return np.asarray(rng.permutation(n_bins).astype(np.uint8))
    ranks = np.arange(n_bins, dtype=np.uint8)
    if missing is None:
        return ranks
    order = ranks.tolist()
    order.remove(missing)
    order.insert(0 if rng.random_sample() < 0.5 else len(order), missing)
    ranks[order] = np.arange(n_bins)
    return ranks


def _ladder(ranks: NDArray[np.uint8], shares: FloatArray) -> FloatArray:
    """Shares of all codes below each rank, from 0 to 1."""
    ordered = np.empty(len(ranks))
    ordered[ranks] = shares[: len(ranks)]
    below = np.concatenate([[0.0], np.cumsum(ordered)])
    return np.asarray(below / below[-1])


def _cuts(
    pool: Pool, ladders: Sequence[FloatArray], depth: int, rng: Draws
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Columns and cuts of a tree, level by level, each within the box of its node."""
    steps = [len(ladder) for ladder in ladders]
    offsets = np.cumsum([0, *steps[:-1]])
    # Rungs of all columns in one rising row: column j is in [2 j, 2 j + 1].
    rungs = np.concatenate([2 * j + ladder for j, ladder in enumerate(ladders)])
    low = np.zeros((1, len(pool)), dtype=np.int64)
    high = np.array([steps], dtype=np.int64) - 1
    of_pool, features, cuts = np.array(pool, dtype=np.int32), [], []
    for _ in range(depth):
        nodes = np.arange(len(low))
        is_open = high - low >= 2
        n_open = is_open.sum(axis=1)
        nth = np.floor(rng.random_sample(len(low)) * n_open)
        chosen = np.argmax(is_open.cumsum(axis=1) > nth[:, None], axis=1)
        first, last = low[nodes, chosen], high[nodes, chosen]
        ends = rungs[offsets[chosen] + first], rungs[offsets[chosen] + last]
        place = ends[0] + rng.random_sample(len(low)) * (ends[1] - ends[0])
        # The rung above or below, by a coin.
        rung = np.searchsorted(rungs, place) - (rng.random_sample(len(low)) < 0.5)
        inside = np.clip(rung - offsets[chosen], first + 1, last - 1)
        cut = np.where(n_open > 0, inside, _NO_CUT).astype(np.int64)
        features.append(of_pool[chosen])
        cuts.append(cut.astype(np.uint8))
        low, high = np.repeat(low, 2, axis=0), np.repeat(high, 2, axis=0)
        high[0::2][nodes, chosen] = np.minimum(cut, last)
        low[1::2][nodes, chosen] = np.minimum(cut, last)
    return np.concatenate(features), np.concatenate(cuts)
