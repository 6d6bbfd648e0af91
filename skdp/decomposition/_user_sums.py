"""Sums of users' contributions, each clipped as a whole: counts, and sums for rows.

Residuals are in units of half the width of the rating bounds, so that they lie in
[-1, 1] after clipping. Sensitivities are those of ``docs/proofs/ratings.md``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import UNIT_ROUNDOFF, FloatArray, IntArray
from skdp.decomposition._ratings import Factors, Ratings, RatingSource, kept_ratings
from skdp.decomposition._recommender import solve_users
from skdp.decomposition._user_sums_kernel import add_counts, add_pairs, add_sums
from skdp.privacy.release._plan import Bound, Layout
from skdp.sums._adder import BoundedSum, Compiled
from skdp.sums._exact import total_rounding, unit_for
from skdp.tables._source import Block

# Weight of a user's mean beside the counts: it adds four per cent to their noise.
_MEAN_WEIGHT = 0.2
# Prior deviation of the mean from the middle, in units of half the bounds' width.
_MEAN_DEVIATION = 0.4
# Size of an entry of a user's row, in units of half the bounds' width, and the norm to
# which the row, with its constant 1, is clipped.
_ENTRY, _ROW_NORM = 0.184, 2.5
# Norm of the second moments of a user's row, over that of the contribution to the sums.
_MOMENT_SHARE = 0.316
# Number of items whose pairs are released: pairs of less popular items are only noise.
_MOST_PAIRED = 300


def rounding_slack(size: int, norm: float, unit: float) -> float:
    """Bound on what rounding adds to the sensitivity of a sum over users.

    Each contribution has norm at most `norm`, up to the rounding of its `size` numbers,
    and its computation does not depend on other users. Each number is then rounded to
    units, and units add up exactly.
    """
    return 4 * (size + 64) * UNIT_ROUNDOFF * norm + math.sqrt(size) * unit


@dataclass(frozen=True)
class KeptRatings:
    """The ratings of users that are read, and their units.

    `bounds` are the bounds of the ratings. At most `max_ratings` of each user are kept
    (None: all), by keys from the public `seed`.
    """

    bounds: tuple[float, float]
    max_ratings: int | None
    seed: int

    @property
    def middle(self) -> float:
        low, high = self.bounds
        return (low + high) / 2

    @property
    def half(self) -> float:
        low, high = self.bounds
        return (high - low) / 2

    def read(self, source: RatingSource) -> Ratings:
        """The ratings that are used. Private."""
        return kept_ratings(source.ratings, self.max_ratings, self.seed)


@dataclass(frozen=True)
class UserQuery(ABC):
    """A sum over users of contributions that are clipped as a whole."""

    n_users: int
    n_items: int
    # Factor on each total.
    scale: ClassVar[float] = 1.0

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of the answer."""

    @property
    @abstractmethod
    def exact(self) -> float:
        """Bound on the change that one user can make, in exact arithmetic."""

    @property
    @abstractmethod
    def rounding(self) -> float:
        """Bound on what rounding adds to `exact`."""

    @property
    def most(self) -> float:
        """Bound on every number that a user adds."""
        return 1.0

    @property
    def unit(self) -> float:
        """Unit of the summed whole numbers; all sums are exact in double precision."""
        return 2.0 ** math.ceil(math.log2(self.most)) * unit_for(self.n_users)

    @property
    def sensitivity(self) -> float:
        """Bound on the change that one user can make, rounding included."""
        return self.exact + self.rounding


@dataclass(frozen=True, eq=False)
class _Asked(BoundedSum):
    """A query over users, and the ratings that it reads."""

    kind: UserQuery
    kept: KeptRatings

    @property
    def shape(self) -> tuple[int, ...]:
        return self.kind.shape

    @property
    def family(self) -> KeptRatings:
        return self.kept

    @property
    def unit(self) -> float:
        return self.kind.unit

    @property
    def scale(self) -> float:
        return self.kind.scale

    def row_bound(self) -> Bound:
        # A row of the adder is a user here, with all ratings.
        return Bound(user=self.kind.exact)

    def slack(self, layout: Layout) -> float:
        return self.kind.rounding

    def open(self, source: RatingSource) -> Ratings:
        return self.kept.read(source)

    def pieces(self, reader: Ratings, rows: IntArray | None) -> Iterator[Block]:
        yield Block(reader, reader.values)


@dataclass(frozen=True, eq=False)
class UserCounts(_Asked):
    kind: CountQuery

    def added(self, block: Block) -> Compiled:
        middle, half = self.kept.middle, self.kept.half
        return Compiled(lambda *_: self.kind.whole(block.X, middle, half))


@dataclass(frozen=True, eq=False)
class SumsAt(_Asked):
    """`RowQuery` or `PairQuery` at released rows of items.

    Each user's row is computed where the user's ratings are, and stays there. `factors`
    are as released so far. `of_items`, the weights of items or the paired items, are
    public.
    """

    kind: RowQuery | PairQuery
    factors: Factors
    of_items: NDArray[Any]

    def added(self, block: Block) -> Compiled:
        own = solve_users(self.factors, block.X)
        asked = self.factors, own, self.of_items, self.kept.half
        return Compiled(lambda *_: self.kind.whole(block.X, *asked))


@dataclass(frozen=True)
class CountQuery(UserQuery):
    """Weighted counts of the items and the sum of the users' means.

    A user with n kept ratings counts ``1 / sqrt(n)`` at each rated item.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_items + 1,)

    @property
    def exact(self) -> float:
        """Joint bound of counts, which are not negative, and of a mean in [-1, 1]."""
        return math.sqrt(2 + (2 * _MEAN_WEIGHT) ** 2)

    @property
    def rounding(self) -> float:
        return rounding_slack(self.n_items + 1, 1 + _MEAN_WEIGHT, self.unit)

    def asked(self, kept: KeptRatings) -> UserCounts:
        return UserCounts(self, kept)

    def whole(self, kept: Ratings, middle: float, half: float) -> IntArray:
        """The sums in whole units. Private."""
        order = kept.pattern.by_user
        result = np.zeros(self.n_items + 1, dtype=np.int64)
        values = np.clip((kept.values - middle) / half, -1.0, 1.0)
        add_counts(
            order.starts, order.others, values, _MEAN_WEIGHT, 1 / self.unit, result
        )
        return result

    def read(self, released: FloatArray, sigma: float) -> tuple[FloatArray, float]:
        """Counts, and the mean of the users' means, shrunk according to its noise.

        With few users the mean is mostly noise, and the middle of the bounds is a
        better guess.
        """
        size = _MEAN_WEIGHT * self.n_users
        # The posterior mean of a normal mean, with public variances.
        share = _MEAN_DEVIATION**2 / (_MEAN_DEVIATION**2 + (sigma / size) ** 2)
        mean = share * float(released[-1]) / size
        return released[:-1], min(max(mean, -1.0), 1.0)


@dataclass(frozen=True)
class RowQuery(UserQuery):
    """Sums of weighted residuals times users' rows, with second moments of the rows.

    A row has a constant 1 and `n_factors` factors; a user's contribution to the sums is
    clipped to the norm `clip`.
    """

    n_factors: int
    clip: float

    @property
    def shape(self) -> tuple[int, ...]:
        return (self._size,)

    @property
    def _size(self) -> int:
        return (1 + self.n_factors) * (self.n_items + 1 + self.n_factors)

    @property
    def _row_norm(self) -> float:
        return _ROW_NORM if self.n_factors else 1.0

    @property
    def most(self) -> float:
        return self.clip

    @property
    def _moment_weight(self) -> float:
        return _MOMENT_SHARE * self.clip / self._row_norm**2

    @property
    def exact(self) -> float:
        """Joint bound of sums of either sign and of moments, which are not negative."""
        moments = _MOMENT_SHARE * self.clip
        return math.sqrt((2 * self.clip) ** 2 + 2 * moments**2)

    @property
    def rounding(self) -> float:
        norm = self.clip + _MOMENT_SHARE * self.clip
        return rounding_slack(self._size, norm, self.unit)

    def at(self, kept: KeptRatings, factors: Factors, weights: FloatArray) -> SumsAt:
        """The query at released rows and public weights of items."""
        return SumsAt(self, kept, factors, weights)

    def whole(
        self,
        kept: Ratings,
        factors: Factors,
        rows: FloatArray,
        weights: FloatArray,
        half: float,
    ) -> IntArray:
        """The sums in whole units. Private.

        `factors` are as released so far, `rows` of shape (n_users, width) are the
        users' private rows, and `weights` of shape (n_items,) are public; `half` is the
        unit of the residuals.
        """
        order = kept.pattern.by_user
        n_columns = 1 + self.n_factors
        sums = np.zeros((self.n_items, n_columns), dtype=np.int64)
        moments = np.zeros((n_columns, n_columns), dtype=np.int64)
        # Scratch for the longest user: compiled loops allocate nothing.
        errors = np.empty(max(1, int(order.counts.max(initial=0))))
        add_sums(
            order.starts, order.others, kept.values, rows, factors.items,
            factors.mean, half, weights, 1 / (_ENTRY * half), self._row_norm,
            self.clip, self._moment_weight, 1 / self.unit, errors, sums, moments,
        )  # fmt: skip
        return np.concatenate([sums.ravel(), moments.ravel()])

    def read(self, released: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Sums of shape (n_items, 1 + n_factors), and mean second moments."""
        n_columns = 1 + self.n_factors
        sums = released[: -(n_columns**2)].reshape(-1, n_columns)
        moments = released[-(n_columns**2) :].reshape(n_columns, n_columns)
        symmetric = (moments + moments.T) / (2 * self._moment_weight * self.n_users)
        return sums, symmetric

    @staticmethod
    def entries(steps: FloatArray) -> FloatArray:
        """Entries of items' rows from steps in units of the residuals."""
        return steps / _ENTRY

    @staticmethod
    def steps(entries: FloatArray) -> FloatArray:
        """The inverse of `entries`."""
        return entries * _ENTRY


@dataclass(frozen=True)
class PairQuery(UserQuery):
    """Sums over users of products of their residuals, for pairs of popular items.

    A user's residuals of these items are scaled to norm 1.
    """

    # Each entry stands for two positions.
    scale: ClassVar[float] = math.sqrt(2)

    @property
    def n_paired(self) -> int:
        return min(self.n_items, _MOST_PAIRED)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_paired * (self.n_paired - 1) // 2,)

    @property
    def exact(self) -> float:
        """Bound for matrices ``x x'`` without their diagonals, ``|x| = 1``."""
        return math.sqrt(2)

    @property
    def rounding(self) -> float:
        # Each entry stands for two positions, and the totals are multiplied once.
        own = rounding_slack(self.shape[0], 1.0, math.sqrt(2) * self.unit)
        return own + total_rounding(self.n_users, 1.0)

    def at(
        self, kept: KeptRatings, factors: Factors, chosen: NDArray[np.intp]
    ) -> SumsAt:
        """The query at released rows, for the chosen items."""
        return SumsAt(self, kept, factors, chosen)

    def whole(
        self,
        kept: Ratings,
        factors: Factors,
        rows: FloatArray,
        chosen: NDArray[np.intp],
        half: float,
    ) -> IntArray:
        """The entries below the diagonal, in whole units. Private.

        Parameters as in `RowQuery.whole`, with the `chosen` items, public and in
        increasing order.
        """
        order = kept.pattern.by_user
        places = np.full(self.n_items, -1)
        places[chosen] = np.arange(len(chosen))
        sums = np.zeros((len(chosen), len(chosen)), dtype=np.int64)
        errors, own = np.empty(len(chosen)), np.empty(len(chosen), dtype=np.int64)
        add_pairs(
            order.starts, order.others, kept.values, rows, factors.items,
            factors.mean, half, places, 1 / self.unit, errors, own, sums,
        )  # fmt: skip
        return np.asarray(sums[np.tril_indices(len(chosen), -1)])

    def read(self, released: FloatArray) -> FloatArray:
        """The symmetric matrix, its diagonal zero."""
        matrix = np.zeros((self.n_paired, self.n_paired))
        matrix[np.tril_indices(self.n_paired, -1)] = released / math.sqrt(2)
        return matrix + matrix.T
