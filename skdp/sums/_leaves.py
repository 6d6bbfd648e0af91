"""Sums over the leaves of trees, and the loss reduction by trees."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import blake2b
from typing import Any

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


@dataclass(frozen=True, eq=False)
class Tree:
    """A complete binary tree drawn without data: node i leads to 2 i + 1 and 2 i + 2.

    Parameters
    ----------
    feature : ndarray of int32 of shape (2**depth - 1,)
        Column that a node cuts.
    cut : ndarray of uint8 of shape (2**depth - 1,)
        A record goes right if the rank of its code is at least this.
    rank : ndarray of uint8 of shape (sum of n_bins,)
        Rank of each code of each column, one column after another.
    starts : ndarray of int64 of shape (n_columns + 1,)
        Index of the first rank of each column.
    depth : int
    """

    feature: NDArray[np.int32]
    cut: NDArray[np.uint8]
    rank: NDArray[np.uint8]
    starts: NDArray[np.int64]
    depth: int

    @cached_property
    def digest(self) -> bytes:
        return _digest(self.feature, self.cut, self.rank, self.starts)


@dataclass(frozen=True, eq=False)
class GrownTrees:
    """Trees with released values, added to a start one after another; it never changes.

    Each tree that is added makes a new object.

    Parameters
    ----------
    start : ndarray of float64 of shape (n_outputs,)
        Released raw predictions before any tree.
    trees : tuple of Tree
    values : tuple of ndarray of float64 of shape (n_leaves, n_outputs)
        Released.
    digests : tuple of bytes
        Digests of the start and the first trees with their values, for no tree, one
        tree, and so on. A reader compares one of them instead of all values.
    """

    start: FloatArray
    trees: tuple[Tree, ...]
    values: tuple[FloatArray, ...]
    digests: tuple[bytes, ...]

    @classmethod
    def of(
        cls, start: FloatArray, trees: Iterable[Tree] = (), values: Any = ()
    ) -> GrownTrees:
        """A start, and the trees that have values."""
        start = np.array(start, dtype=np.float64)
        grown = cls(start, (), (), (_digest(start),))
        for tree, own in zip(trees, values, strict=False):
            grown = grown.plus(tree, own)
        return grown

    def plus(self, tree: Tree, values: FloatArray) -> GrownTrees:
        """One tree more; the values are copied, since a caller may overwrite them."""
        values = np.array(values, dtype=np.float64)
        digest = _digest(self.digests[-1], tree.digest, values)
        return GrownTrees(
            self.start,
            (*self.trees, tree),
            (*self.values, values),
            (*self.digests, digest),
        )

    def __len__(self) -> int:
        return len(self.trees)


def _digest(*parts: Any) -> bytes:
    """Digest of bytes and arrays of known types, with their lengths."""
    found = blake2b(digest_size=16)
    for part in parts:
        content = part if isinstance(part, bytes) else part.tobytes()
        found.update(len(content).to_bytes(8, "little") + content)
    return found.digest()


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
    tree : Tree
    grown : GrownTrees
        The trees before it.
    n_samples : int
    """

    terms: LeafTerms
    tree: Tree
    grown: GrownTrees
    n_samples: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (2**self.tree.depth, self.terms.width)

    @property
    def family(self) -> Hashable:
        # A reader adds the trees of any query.
        return (type(self), self.terms.n_outputs)

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
        return LeafReader(source, self.terms.n_outputs)

    def pieces(self, reader: LeafReader, rows: IntArray | None) -> Iterator[Block]:
        yield reader.all_rows(rows)

    def added(self, block: Block) -> Compiled:
        reader: LeafReader = block.X
        raw, leaves = reader.raw(self.grown), reader.leaves(self.tree)
        return Compiled(partial(reader.sums, self.terms, self.tree.depth, leaves, raw))


class LeafReader:
    """Codes, targets and raw predictions of all records. Private.

    Raw predictions are computed from released values, one tree after another, and kept
    between queries.
    """

    def __init__(self, source: Source, n_outputs: int) -> None:
        whole = held(source, with_shares=True)
        self._codes = np.ascontiguousarray(whole.X)
        self._y = np.ascontiguousarray(whole.y, dtype=np.float64)
        n = len(self._y)
        self._rows = replace(whole, X=self, y=self._y)
        self._all_there = np.ones(n, dtype=np.bool_)
        offset_of = getattr(source, "offset_of", None)
        self._offset = None if offset_of is None else offset_of(whole.X)
        self._raw = np.zeros((n, n_outputs))
        # Number and digest of the trees in the raw predictions, and digest of the tree
        # whose leaves are known.
        self._n_done, self._done = 0, b""
        self._leaves, self._leaves_of = np.zeros(n, dtype=np.uint16), b""
        self.n_threads = n_threads_for(n)

    def leaves(self, tree: Tree) -> NDArray[np.uint16]:
        """Leaf of every record in a tree."""
        if tree.digest != self._leaves_of:
            find_leaves(self._codes, tree, self._leaves, self.n_threads)
            self._leaves_of = tree.digest
        return self._leaves

    def raw(self, grown: GrownTrees) -> FloatArray:
        """Raw predictions of every record."""
        if not self._continues(grown):
            self._raw[:] = self._base(grown.start)
            self._n_done = 0
        self._done = b""  # until all trees are added
        for k in range(self._n_done, len(grown)):
            leaves = self.leaves(grown.trees[k])
            add_values(leaves, grown.values[k], self._raw, self.n_threads)
        self._n_done, self._done = len(grown), grown.digests[-1]
        return self._raw

    def _base(self, start: FloatArray) -> FloatArray:
        """Raw predictions of every record before any tree."""
        base = np.tile(start, (len(self._y), 1))
        return base if self._offset is None else base + self._offset

    def _continues(self, grown: GrownTrees) -> bool:
        """Whether the raw predictions have the first of these trees, and no others."""
        done = self._n_done
        return done <= len(grown) and grown.digests[done] == self._done

    def sums(
        self,
        terms: LeafTerms,
        depth: int,
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
            sums = np.zeros((2**depth, terms.width), dtype=np.int64)
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
    codes: Any, tree: Tree, leaves: NDArray[np.uint16], n_threads: int
) -> None:
    """Write the leaf of every record in a tree."""
    from skdp.sums import _leaves_kernel as kernel

    own = tree.feature, tree.cut, tree.rank, tree.starts, tree.depth

    def of_run(first: int, last: int) -> None:
        kernel.find_leaves(codes, *own, leaves, first, last)

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
    grown : GrownTrees
    shares : tuple of float
        Factors in (0, 1].
    clip : float in (0, 64]
        A record's gain by a factor is clipped to this multiple of the factor.
    n_samples : int
    """

    loss: Loss
    grown: GrownTrees
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
        return (LeafSums, len(self.grown.start))

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
        return LeafReader(source, len(self.grown.start))

    def pieces(self, reader: LeafReader, rows: IntArray | None) -> Iterator[Block]:
        yield reader.all_rows(rows)

    def added(self, block: Block) -> Compiled:
        reader: LeafReader = block.X
        raw = reader.raw(self.grown)
        limits = np.asarray(self.shares), self.clip
        asked = self.loss, raw, self.grown.start, *limits
        return Compiled(partial(reader.gains, *asked))
