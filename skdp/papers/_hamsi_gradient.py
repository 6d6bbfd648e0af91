"""The objective of HAMSI: gradients, random starts, and partitions of ratings."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._checks import check_count, check_real
from skdp.decomposition._factorize import Draws
from skdp.decomposition._plain import centred
from skdp.decomposition._ratings import (
    Factors,
    IntArray,
    Pattern,
    Ratings,
    Task,
    Threads,
    width,
)

# ------------------------------------ Objective and gradient of ratings, or of a subset


# Parts of a pass. Their number is fixed, since rounding of their sum enters the value.
_N_PARTS = 8
_REGISTER = 32  # bytes


@dataclass(frozen=True)
class _Side:
    """Ratings sorted by one of their ids."""

    starts: NDArray[np.int64]
    others: IntArray
    bounds: list[int]  # of parts with about the same number of ratings

    @classmethod
    def of(cls, ids: IntArray, others: IntArray, n_ids: int) -> _Side:
        starts = np.zeros(n_ids + 1, dtype=np.int64)
        np.cumsum(np.bincount(ids, minlength=n_ids), out=starts[1:])
        # A row also costs as much as a few ratings.
        cost = starts + 4 * np.arange(n_ids + 1)
        shares = np.linspace(0, cost[-1], _N_PARTS + 1)[1:-1]
        inner = np.searchsorted(cost, shares).tolist()
        return cls(starts, np.ascontiguousarray(others), [0, *inner, n_ids])

    @property
    def parts(self) -> list[tuple[int, int, int]]:
        ends = zip(self.bounds[:-1], self.bounds[1:], strict=True)
        return [(j, first, last) for j, (first, last) in enumerate(ends)]


class Objective:
    r"""The objective of a `Task`, or a subset's part of it.

    The objectives of the subsets of a partition add up to the objective of all ratings:
    each is divided by the number of all ratings, and has the penalty of its ratings.

    `mean` is subtracted from the ratings; `pairs` are positions of the subset's pairs,
    None for all.
    """

    def __init__(
        self,
        ratings: Ratings,
        task: Task,
        mean: float,
        pairs: NDArray[Any] | None = None,
    ) -> None:
        pattern, dtype = ratings.pattern, ratings.values.dtype
        order = pattern.by_user.pairs
        if pairs is not None:
            chosen = np.zeros(len(ratings), dtype=bool)
            chosen[pairs] = True
            order = order[chosen[order]]
        users, items = pattern.users[order], pattern.items[order]
        by_item = np.argsort(items, kind="stable")  # keeps each item's users in order
        self._users = _Side.of(users, items, pattern.n_users)
        self._items = _Side.of(items[by_item], users[by_item], pattern.n_items)
        self._places = np.empty(len(order), dtype=np.int32)
        self._places[by_item] = np.arange(len(order), dtype=np.int32)
        self._targets = (ratings.values[order] - mean).astype(dtype)
        self._residuals = np.empty(len(order), dtype=dtype)
        self._task = task
        self._scale = 1.0 / max(len(ratings), 1)
        self._registers = (0,) * (width(task) * dtype.itemsize // _REGISTER)

    def __len__(self) -> int:
        return len(self._targets)

    @property
    def squares(self) -> float:
        """Sum of the squared residuals at the last `value_and_gradient`."""
        return float(np.square(self._residuals, dtype=np.float64).sum())

    def value_and_gradient(
        self, flat: NDArray[Any], gradient: NDArray[Any], threads: Threads
    ) -> float:
        """The value; `gradient` is overwritten.

        The gradient is 0 in constant columns and in the padding. Both arrays are as in
        `Factors`, and the result does not depend on the number of threads.
        """
        from skdp.papers._hamsi_kernel import first_pass, second_pass

        task = self._task
        cut = task.n_users * width(task)
        p, q = (half.reshape(-1, width(task)) for half in (flat[:cut], flat[cut:]))
        g_p = gradient[:cut].reshape(p.shape)
        g_q = gradient[cut:].reshape(q.shape)
        users, items, residuals = self._users, self._items, self._residuals
        k, parts = task.n_components, np.zeros((2, _N_PARTS))

        def first(part: int, start: int, stop: int) -> None:
            parts[0, part] = first_pass(
                self._registers, p, q, g_p, users.starts, users.others, self._targets,
                self._places, residuals, start, stop, self._scale, task.alpha,
                k + 1 if task.biases else -1,
            )  # fmt: skip

        def second(part: int, start: int, stop: int) -> None:
            parts[1, part] = second_pass(
                self._registers, q, p, g_q, items.starts, items.others, residuals,
                start, stop, self._scale, task.alpha, k if task.biases else -1,
            )  # fmt: skip

        threads.each(first, users.parts)
        threads.each(second, items.parts)
        return float(parts.sum()) / 2


# ------------------------------------------------------------------------ Random starts


# Standard deviation of a start's predictions, in units of the ratings' deviation.
_SHARE = 0.5


def check_start_scale(name: str, value: Any) -> float | None:
    """A deviation; None: in proportion to the deviation of the ratings."""
    return None if value is None else check_real(name, value, low=0.0, high=1e6)


def random_start(
    ratings: Ratings,
    task: Task,
    rng: Draws,
    scale: float | None = None,
) -> Factors:
    """Normal factors and no biases.

    `scale` is the standard deviation of the factors. None: the predictions have half
    the deviation of the ratings, in any unit of the ratings.
    """
    factors, k = centred(ratings, task), task.n_components
    if scale is None:
        spread = 0.0
        if len(ratings):
            spread = float(
                np.sqrt(np.square(ratings.values - factors.mean, dtype=float).mean())
            )
        scale = math.sqrt(_SHARE * spread / math.sqrt(max(k, 1)))
    for rows in (factors.users, factors.items):
        rows[:, :k] = scale * rng.normal(size=(len(rows), k))
    return factors


def finite_start(
    objective: Objective, factors: Factors, gradient: NDArray[Any], threads: Threads
) -> float:
    """Make the factors smaller until their objective is a finite number; return it.

    `gradient` is overwritten.
    """
    k = factors.task.n_components
    while True:
        value = objective.value_and_gradient(factors.flat, gradient, threads)
        if math.isfinite(value) and np.isfinite(gradient).all():
            return value
        factors.users[:, :k] *= 0.1
        factors.items[:, :k] *= 0.1


# -------------------------------------------------------- Partitions of rating matrices
# These are the five partitionings in section 3.3 of Kuru (2019). Each takes a pattern
# and a number of subsets, and divides all pairs into disjoint subsets, as a
# `Partition`. A subset has blocks, which determine the pairs that may be processed in
# parallel: pairs of *different* blocks of a stratum share no user and no item, and
# neither do pairs of *one* colour.
#
# References:
# Kuru (2019). Novel gradient-based methods for data distribution and privacy in data
# science. PhD thesis, Sabancı University.


Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Partition:
    """The subset and the block of each pair.

    int32 arrays of shape (n_ratings,). Blocks are intervals of users for strata,
    colours for colourings, and 0 for "hogwild", whose subsets have no structure.
    """

    subsets: IntArray
    blocks: IntArray
    n_subsets: int

    def pairs(self, subset: int) -> NDArray[np.int64]:
        """Positions of the pairs of a subset."""
        return np.flatnonzero(self.subsets == subset)

    @property
    def sizes(self) -> Counts:
        """Pairs of each subset, of shape (n_subsets,)."""
        return np.bincount(self.subsets, minlength=self.n_subsets)

    def block_sizes(self, subset: int) -> Counts:
        """Number of pairs of each nonempty block of a subset, by block number."""
        return np.unique(self.blocks[self.subsets == subset], return_counts=True)[1]


def equal_intervals(n_ids: int, n_intervals: int) -> Counts:
    """Bounds of intervals of ids that are equally long, of shape (n_intervals + 1,)."""
    return -(-n_ids * np.arange(n_intervals + 1) // n_intervals)


def balanced_intervals(counts: Counts, n_intervals: int) -> Counts:
    """Bounds of intervals of ids with about the same number of pairs.

    Greedy: an interval ends as soon as it has its share of the pairs. The thesis says
    "no more than", and its figure 3.4 has "at least".
    """
    until, share = np.cumsum(counts), counts.sum() / n_intervals
    bounds, done = [0], 0
    for _ in range(n_intervals - 1):
        end = int(np.searchsorted(until, done + share)) + 1
        end = min(max(end, bounds[-1]), len(counts))
        bounds.append(end)
        done = int(until[end - 1]) if end else 0
    return np.array([*bounds, len(counts)])


def strata_of(pattern: Pattern, user_bounds: Counts, item_bounds: Counts) -> Partition:
    """Strata of a grid: K subsets of K blocks, which share no user or item interval.

    Subset k has the blocks of user interval b and item interval k - b, modulo K. [1]_

    Bounds are int64, of shape (K + 1,).

    References
    ----------
    .. [1] Gemulla, Nijkamp, Haas and Sismanis (2011). Large-scale matrix factorization
       with distributed stochastic gradient descent. KDD.
    """
    n = len(user_bounds) - 1
    rows = np.searchsorted(user_bounds[1:-1], pattern.users, side="right")
    columns = np.searchsorted(item_bounds[1:-1], pattern.items, side="right")
    subsets = ((rows + columns) % n).astype(np.int32)
    return Partition(subsets, rows.astype(np.int32), n)


def strata(pattern: Pattern, n_subsets: int, rng: Draws | None = None) -> Partition:
    """STRATA: a grid of intervals of equal length."""
    return strata_of(
        pattern,
        equal_intervals(pattern.n_users, n_subsets),
        equal_intervals(pattern.n_items, n_subsets),
    )


def strata_balanced(
    pattern: Pattern, n_subsets: int, rng: Draws | None = None
) -> Partition:
    """STRATA-B: a grid of intervals with about the same number of pairs."""
    return strata_of(
        pattern,
        balanced_intervals(pattern.by_user.counts, n_subsets),
        balanced_intervals(pattern.by_item.counts, n_subsets),
    )


def color(pattern: Pattern, n_subsets: int, rng: Draws | None = None) -> Partition:
    """COLOR: each pair has the first free colour; colours are packed in bins."""
    return _packed(_colors(pattern, seed=0), n_subsets)


def color_balanced(pattern: Pattern, n_subsets: int, rng: Draws) -> Partition:
    """COLOR-B: each pair has a random free colour, or a new one."""
    return _packed(_colors(pattern, seed=int(rng.randint(1, 2**31 - 1))), n_subsets)


def hogwild(pattern: Pattern, n_subsets: int, rng: Draws) -> Partition:
    """HOGWILD: a random split in equal parts."""
    n = len(pattern)
    subsets = (np.arange(n) % n_subsets).astype(np.int32)
    return Partition(rng.permutation(subsets), np.zeros(n, dtype=np.int32), n_subsets)


PARTITIONS: dict[str, Callable[[Pattern, int, Draws], Partition]] = {
    "color": color,
    "color_balanced": color_balanced,
    "hogwild": hogwild,
    "strata": strata,
    "strata_balanced": strata_balanced,
}


def partition(method: str, pattern: Pattern, n_subsets: int, rng: Draws) -> Partition:
    """All pairs in disjoint subsets.

    `method` is a key of `PARTITIONS`; "color_balanced" and "hogwild" draw.
    """
    check_count(
        "n_subsets",
        n_subsets,
        high=max(1, most_subsets(method, pattern)),
        remedy=f"There is no more to divide with partition={method!r}.",
    )
    return PARTITIONS[method](pattern, n_subsets, rng)


def merged(parts: Partition) -> Partition:
    """Half as many subsets, each made of two; blocks keep their numbers."""
    n_subsets = -(-parts.n_subsets // 2)
    return Partition(parts.subsets // np.int32(2), parts.blocks, n_subsets)


def most_subsets(method: str, pattern: Pattern) -> int:
    """Most subsets of a pattern: intervals need ids, other subsets need pairs."""
    if method in ("strata", "strata_balanced"):
        return min(pattern.n_users, pattern.n_items)
    return len(pattern)


def _colors(pattern: Pattern, seed: int) -> IntArray:
    from skdp.papers._hamsi_kernel import colors_of

    order = pattern.by_user
    # An item's pairs need at most as many colours as there are conflicting pairs.
    most = max(int(order.counts.max(initial=0)), 1)
    room = -(-(pattern.by_item.counts + most) // 64)
    starts = np.concatenate([[0], np.cumsum(room)])
    if seed:  # any colour may be drawn
        degree = int(pattern.by_item.counts.max(initial=0)) + most
        starts = np.arange(pattern.n_items + 1) * -(-degree // 64)
    in_order = colors_of(order.starts, order.others, starts, seed)
    colors = np.empty(len(pattern), dtype=np.int32)
    colors[order.pairs] = in_order
    return colors


def _packed(colors: IntArray, n_subsets: int) -> Partition:
    """Each colour in turn goes to the first bin that has less than its share."""
    sizes = np.bincount(colors)
    share, filled = len(colors) / n_subsets, np.zeros(n_subsets)
    bins = np.empty(len(sizes), dtype=np.int32)
    for number, size in enumerate(sizes):
        bins[number] = np.flatnonzero(filled < share)[0]
        filled[bins[number]] += size
    return Partition(bins[colors], colors, n_subsets)
