"""Sums over the leaves of trees, and the loss reduction by trees."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import UNIT_ROUNDOFF, FloatArray, IntArray
from skdp._row_threads import by_runs, n_threads_for
from skdp.losses._base import LeafLoss, Loss
from skdp.losses._classification import heaviest, heaviest_pair, without_weights
from skdp.privacy.release._plan import Bound
from skdp.sums._adder import ABOVE, BoundedSum, Compiled, only_rows
from skdp.sums._exact import unit_for
from skdp.tables._memory import held
from skdp.tables._source import Block, Source

# ------------------------------------------------------- Sums over the leaves of a tree
# One vector has residuals and curvatures. The tree is drawn without data, and raw
# predictions follow from released values, so a record adds a bounded vector to one
# leaf. Sensitivities are derived in ``docs/proofs/boosting.md``.


# With a larger weight, a record with a smaller residual could have a larger vector
# (Lemma 1).
MOST_CURVATURE = math.sqrt(8.0)
# Sums of terms up to this size are exact in double precision.
MOST_CLIP = 4.0


@dataclass(frozen=True)
class LeafTerms:
    """A record's contribution to its leaf: residuals, and weighted curvatures.

    Parameters
    ----------
    loss : Loss
        A `LeafLoss`. Weights of labels multiply the whole contribution of a record.
    clip : float in (0, 4]
        Norm to which residuals are clipped.
    weight : float in [0, sqrt(8)]
        Weight of the curvatures. These are ``p (1 - p)`` for two classes, the
        probabilities for several, means over `cap` for counts, and 1 for other
        numbers, so that their sum is a count of records.
    cap : float above 0, default=1.0
        The mean of counts from which on the curvature is 1.
    """

    loss: Loss
    clip: float
    weight: float
    cap: float = 1.0

    def __post_init__(self) -> None:
        is_known = isinstance(without_weights(self.loss), LeafLoss) and self.cap > 0
        is_small = 0 < self.clip <= MOST_CLIP and 0 <= self.weight <= MOST_CURVATURE
        if not (is_known and is_small):
            raise ValueError(
                "Terms of leaves must have a loss with a proved bound, a clip above 0 "
                "and up to 4, a weight from 0 to sqrt(8), and a cap above 0. Got "
                f"{self}. Use values in these ranges."
            )

    @property
    def n_outputs(self) -> int:
        """Number of raw predictions of a record."""
        return self.loss.n_outputs

    @property
    def width(self) -> int:
        """Number of entries of a leaf."""
        return 2 * self.n_outputs

    @property
    def _most(self) -> tuple[float, float, float]:
        """Largest norms of residuals and curvatures, and least norm of curvatures.

        They are those of one record of weight 1.
        """
        residual = min(self.clip, self.loss.zero_out_bound(math.inf))
        loss = without_weights(self.loss)
        assert isinstance(loss, LeafLoss)
        least, largest = loss.leaf_curvature(residual, self.cap)
        return residual, self.weight * largest, self.weight * least

    @property
    def _same_leaf(self) -> float:
        """Largest difference of two records in one leaf.

        It is reached by opposite residuals, so by different labels, and by curvatures
        that differ as much as possible.
        """
        residual, largest, least = self._most
        one, other = heaviest(self.loss)
        pair = one + other
        if self.loss.form.is_of_numbers:
            pair = heaviest_pair(self.loss, self.clip)
        if self.n_outputs > 1:  # probabilities have no negative product
            return math.hypot(pair * residual, math.hypot(one, other) * largest)
        return math.hypot(pair * residual, one * largest - least)

    def bound(self) -> Bound:
        """Bound on the sums over the leaves of one tree."""
        residual, curvature, _ = self._most
        one = heaviest(self.loss)[0] * math.hypot(residual, curvature)
        two = max(math.sqrt(2.0) * one, self._same_leaf)
        bound = Bound(zero_out=one * ABOVE, replace_one=two * ABOVE)
        return bound.with_user_bounds()


class Trees(Protocol):
    """Trees drawn without data; `skdp.ensemble` has a class of them."""

    @property
    def feature(self) -> NDArray[np.int32]: ...
    @property
    def cut(self) -> NDArray[np.uint8]: ...
    @property
    def rank(self) -> NDArray[np.uint8]: ...
    @property
    def starts(self) -> NDArray[np.int64]: ...
    @property
    def depth(self) -> int: ...


@dataclass(frozen=True, eq=False)
class LeafSums(BoundedSum):
    """Sums over the leaves of the next tree, after the trees with released values.

    The rows of the source are codes, with labels or targets in the loss's units; rows
    of users have weights. The source may have `offset_of`, which follows from released
    numbers and maps each row separately to n_outputs numbers that are added to its raw
    predictions.

    Parameters
    ----------
    terms : LeafTerms
    trees : Trees
    start : ndarray of shape (n_outputs,)
        Released raw predictions before any tree.
    values : ndarray of shape (n_done, n_leaves, n_outputs)
        Released values of the trees so far.
    n_samples : int
    """

    terms: LeafTerms
    trees: Trees
    start: FloatArray
    values: FloatArray
    n_samples: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (2**self.trees.depth, self.terms.width)

    @property
    def family(self) -> Hashable:
        return (type(self), self.trees, self.terms.n_outputs)

    @property
    def unit(self) -> float:
        """Unit of the whole numbers; all sums are exact in double precision."""
        return unit_for(self.n_samples, MOST_CLIP)

    def row_bound(self) -> Bound:
        return self.terms.bound()

    @property
    def n_rounded(self) -> int:
        # A row adds to one leaf.
        return self.terms.width

    @property
    def arithmetic(self) -> float:
        # See "What rounding adds" on the proof page.
        width = self.terms.width
        return math.sqrt(width) * 4 * (width + 64) * UNIT_ROUNDOFF * 4

    def open(self, source: Source) -> LeafReader:
        return LeafReader(source, self.trees, self.terms.n_outputs)

    def pieces(self, reader: LeafReader, rows: IntArray | None) -> Iterator[Block]:
        yield reader.all_rows(rows)

    def added(self, block: Block) -> Compiled:
        reader: LeafReader = block.X
        raw = reader.raw(self.start, self.values)
        leaves = reader.leaves(len(self.values))
        return Compiled(partial(reader.sums, self.terms, leaves, raw))


class LeafReader:
    """Codes, targets and raw predictions of all records. Private.

    Raw predictions are computed from released values, one tree after another, and kept
    between queries.
    """

    def __init__(self, source: Source, trees: Trees, n_outputs: int) -> None:
        whole = held(source, with_shares=True)
        self._codes = np.ascontiguousarray(whole.X)
        self._y = np.ascontiguousarray(whole.y, dtype=np.float64)
        n = len(self._y)
        self._rows = replace(whole, X=self, y=self._y)
        self._all_there = np.ones(n, dtype=np.bool_)
        offset_of = getattr(source, "offset_of", None)
        self._offset = None if offset_of is None else offset_of(whole.X)
        self._trees = trees
        self._raw = np.zeros((n, n_outputs))
        self._start: FloatArray | None = None
        shape = (len(trees.feature), 2**trees.depth, n_outputs)
        self._values, self._n_done = np.zeros(shape), 0
        self._leaves, self._tree = np.zeros(n, dtype=np.uint16), -1
        self.n_threads = n_threads_for(n)

    def leaves(self, tree: int) -> NDArray[np.uint16]:
        """Leaf of every record in one of the trees."""
        if tree != self._tree:
            find_leaves(self._codes, self._trees, tree, self._leaves, self.n_threads)
            self._tree = tree
        return self._leaves

    def raw(self, start: FloatArray, values: FloatArray) -> FloatArray:
        if not self._continues(start, values):
            self._raw[:] = self._base(start)
            self._start, self._n_done = start.copy(), 0
        for tree in range(self._n_done, len(values)):
            self._values[tree] = values[tree]
            add_values(self.leaves(tree), values[tree], self._raw, self.n_threads)
        self._n_done = len(values)
        return self._raw

    def _base(self, start: FloatArray) -> FloatArray:
        """Raw predictions of every record before any tree."""
        base = np.tile(start, (len(self._y), 1))
        return base if self._offset is None else base + self._offset

    def _continues(self, start: FloatArray, values: FloatArray) -> bool:
        if self._start is None or not np.array_equal(self._start, start):
            return False
        # Compare all numbers: values of earlier trees may have been overwritten.
        done = self._n_done
        return np.array_equal(self._values[:done], values[:done])

    def sums(
        self,
        terms: LeafTerms,
        leaves: NDArray[np.uint16],
        raw: FloatArray,
        counts: NDArray[Any] | None,
        unit: float,
    ) -> IntArray:
        """Sums over the leaves, in whole units; `counts` has the weights of rows."""
        from skdp.sums import _leaves_kernel as kernel

        there = self._all_there if counts is None else counts
        loss = int(terms.loss.form), terms.loss.form_constants
        limits = terms.clip, terms.weight, terms.cap, unit

        def of_run(first: int, last: int) -> IntArray:
            sums = np.zeros((2**self._trees.depth, terms.width), dtype=np.int64)
            records = leaves, raw, self._y, there
            kernel.add_leaf_sums(*loss, *records, *limits, sums, first, last)
            return sums

        return self._added_up(of_run)

    def gains(
        self,
        loss: Loss,
        raw: FloatArray,
        start: FloatArray,
        shares: FloatArray,
        clip: float,
        counts: NDArray[Any] | None,
        unit: float,
    ) -> IntArray:
        """Sums of clipped gains by several factors on the trees; see `ModelGains`."""
        from skdp.sums import _leaves_kernel as kernel

        known = int(loss.form), loss.form_constants
        base = self._base(start)
        there = self._all_there if counts is None else counts

        def of_run(first: int, last: int) -> IntArray:
            sums = np.zeros(len(shares), dtype=np.int64)
            records = raw, base, self._y, there
            limits = shares, clip, unit
            kernel.add_gains(*known, *records, *limits, sums, first, last)
            return sums

        return self._added_up(of_run)

    def all_rows(self, rows: IntArray | None) -> Block:
        """All rows as one block; if rows are chosen, all others are null."""
        return self._rows if rows is None else only_rows(self._rows, rows)

    def _added_up(self, of_run: Callable[[int, int], IntArray]) -> IntArray:
        total = by_runs(of_run, len(self._y), self.n_threads)
        return np.asarray(sum(total[1:], start=total[0]))


def find_leaves(
    codes: Any, trees: Trees, tree: int, leaves: NDArray[np.uint16], n_threads: int
) -> None:
    """Write the leaf of every record in one of the trees."""
    from skdp.sums import _leaves_kernel as kernel

    own = trees.feature[tree], trees.cut[tree], trees.rank[tree]

    def of_run(first: int, last: int) -> None:
        kernel.find_leaves(codes, *own, trees.starts, trees.depth, leaves, first, last)

    by_runs(of_run, len(codes), n_threads)


def add_values(
    leaves: NDArray[np.uint16], values: FloatArray, raw: FloatArray, n_threads: int
) -> None:
    """Add the values of the records' leaves to raw predictions."""
    from skdp.sums import _leaves_kernel as kernel

    def of_run(first: int, last: int) -> None:
        kernel.add_values(leaves, values, raw, first, last)

    by_runs(of_run, len(leaves), n_threads)


# ----------------------------------------- Loss reduction by fractions of boosted trees
# Raw predictions follow from released values, so a record's gains depend on this record
# only; each gain is clipped. Sensitivities are derived in ``docs/proofs/boosting.md``,
# Lemma 4.


# Sums of terms up to this size are exact in double precision.
MOST_GAIN = 64.0


@dataclass(frozen=True, eq=False)
class ModelGains(BoundedSum):
    """Sums of loss reductions by adding all trees' values times a factor.

    The source and the reader are the same as for `LeafSums`.

    Parameters
    ----------
    loss : Loss
        A loss that `LeafTerms` supports.
    trees : Trees
    start : ndarray of float64 of shape (n_outputs,)
        Released raw predictions before any tree.
    values : ndarray of float64 of shape (n_trees, n_leaves, n_outputs)
        Released values of the trees.
    shares : tuple of float
        Factors in (0, 1].
    clip : float in (0, 64]
        A record's gain by a factor is clipped to this multiple of the factor.
    n_samples : int
    """

    loss: Loss
    trees: Trees
    start: FloatArray
    values: FloatArray
    shares: tuple[float, ...]
    clip: float
    n_samples: int

    def __post_init__(self) -> None:
        if not 0 < self.clip <= MOST_GAIN:
            raise ValueError(
                "Gains must be clipped to a number above 0 and up to 64. "
                f"Got {self.clip}. Use a number in this range."
            )

    @property
    def norm(self) -> float:
        """Largest norm of a record's gains together."""
        return self.clip * math.hypot(*self.shares) * ABOVE

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.shares),)

    @property
    def family(self) -> Hashable:
        return (LeafSums, self.trees, len(self.start))

    @property
    def unit(self) -> float:
        """Unit of the whole numbers; all sums are exact in double precision."""
        return unit_for(self.n_samples, MOST_GAIN)

    def row_bound(self) -> Bound:
        return Bound(zero_out=self.norm, replace_one=2 * self.norm)

    @property
    def arithmetic(self) -> float:
        return math.sqrt(len(self.shares)) * self.clip * UNIT_ROUNDOFF

    def open(self, source: Source) -> LeafReader:
        return LeafReader(source, self.trees, len(self.start))

    def pieces(self, reader: LeafReader, rows: IntArray | None) -> Iterator[Block]:
        yield reader.all_rows(rows)

    def added(self, block: Block) -> Compiled:
        reader: LeafReader = block.X
        raw = reader.raw(self.start, self.values)
        limits = np.asarray(self.shares), self.clip
        asked = self.loss, raw, self.start, *limits
        return Compiled(partial(reader.gains, *asked))
