"""Sums over records of a few bounded numbers each, and of models' scores."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from skdp._arrays import FloatArray, IntArray, row_norms, rows_repeated
from skdp._users import number_of
from skdp.losses._base import Loss
from skdp.privacy.accounting._relations import Adjacency, table_relation
from skdp.privacy.release._plan import Bound
from skdp.sums._adder import ABOVE, BoundedSum, Compiled, Form, kernel_weights
from skdp.sums._exact import on_grid, unit_for
from skdp.sums._gradient_sum import compiles, is_row_major
from skdp.sums._grid_rows import (
    LONGEST,
    MOST_SQUARES,
    SHORTENED,
    grid_rows,
    gridded,
    scale_of,
    squares_of,
)
from skdp.tables._memory import places_of_own
from skdp.tables._source import Block

# ----------------------------- Sums of one bounded number, of probabilities, or of rows
# Every number is clipped to a public interval and rounded to a multiple of a public
# power of two, so that sums are exact in any order. Sensitivities are derived in
# ``docs/proofs/default.md``, Lemma 4.


# Smallest denominator of a ratio.
_LEAST_VARIANCE = 1e-100


def _squares(rows: FloatArray) -> FloatArray:
    """Squared length of each row; the order of addition is the same in any layout."""
    squares = rows[:, 0] ** 2
    for output in range(1, rows.shape[1]):
        squares = squares + rows[:, output] ** 2
    return np.asarray(squares)


@dataclass(frozen=True, eq=False)
class RecordSum(BoundedSum):
    """Sum of one or a few numbers per record, in an interval that contains 0.

    Parameters
    ----------
    n_samples : int
    """

    n_samples: int

    @property
    @abstractmethod
    def interval(self) -> tuple[float, float]:
        """The interval to which a record's number is clipped; public."""

    @abstractmethod
    def numbers(self, block: Block) -> FloatArray:
        """The numbers of each row of a block, before the clip. Private.

        The shape is (n_rows,) or (n_rows, n_numbers). The numbers of a row depend on
        this row only.
        """

    @property
    def shape(self) -> tuple[int, ...]:
        return (1,)

    @property
    def _largest(self) -> float:
        low, high = self.interval
        return max(-low, high)

    def row_bound(self) -> Bound:
        low, high = self.interval
        return Bound(zero_out=self._largest * ABOVE, replace_one=(high - low) * ABOVE)

    @property
    def unit(self) -> float:
        """Unit of the whole numbers that are summed."""
        largest = 2.0 ** math.ceil(math.log2(self._largest))
        return largest * unit_for(self.n_samples)

    def added(self, block: Block) -> FloatArray:
        low, high = self.interval
        return np.clip(np.nan_to_num(self.numbers(block)), low, high)


@dataclass(frozen=True, eq=False)
class TargetSum(RecordSum):
    """Sum of the targets minus a middle.

    Parameters
    ----------
    middle : float
        Released or public.
    half : float in (0, inf)
        Clip of the differences; released or public.
    norm : {1, 2}, default=2
        Norm of the bound, which is the same in both for one number.
    """

    middle: float
    half: float
    norm: int = 2

    @property
    def interval(self) -> tuple[float, float]:
        return -self.half, self.half

    def row_bound(self) -> Bound:
        return replace(super().row_bound(), norm=self.norm)

    def numbers(self, block: Block) -> FloatArray:
        return np.asarray(block.y - self.middle, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class PredictionSum(RecordSum):
    """Sum of the products of centred rows with released weights of one output.

    Parameters
    ----------
    coef : ndarray of float64 of shape (n_features, 1)
        Released.
    clip : float in (0, inf)
    """

    coef: FloatArray
    clip: float

    @property
    def interval(self) -> tuple[float, float]:
        return -self.clip, self.clip

    def numbers(self, block: Block) -> FloatArray:
        return np.asarray(gridded(block.X, 1.0).raw(on_grid(self.coef))[:, 0])


@dataclass(frozen=True, eq=False)
class ProbabilitySum(RecordSum):
    """Sum of the probability of the second of two labels, or of each of several.

    Parameters
    ----------
    loss : LogisticLoss or SoftmaxLoss
    coef : ndarray of float64 of shape (n_features, n_outputs)
        Released.
    constant : ndarray of float64 of shape (n_outputs,)
        Added to predictions; released.
    clip : float in (0, 1]
        Released; 1 for several labels.
    """

    loss: Loss
    coef: FloatArray
    constant: FloatArray
    clip: float

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.loss.n_outputs,)

    @property
    def interval(self) -> tuple[float, float]:
        return 0.0, self.clip

    def row_bound(self) -> Bound:
        if self.loss.n_outputs == 1:
            return super().row_bound()
        # Probabilities of a record add up to 1, so their norm is at most 1, and two
        # records are at most as far apart as two labels.
        return Bound(zero_out=ABOVE, replace_one=math.sqrt(2) * ABOVE)

    def numbers(self, block: Block) -> FloatArray:
        raw = gridded(block.X, 1.0).raw(on_grid(self.coef)) + self.constant
        # The residuals that records would have with the first label.
        found = self.loss.residual(np.zeros(len(raw)), raw)
        if self.loss.n_outputs == 1:
            return np.asarray(found[:, 0])
        found[:, 0] += 1
        return np.asarray(found)


@dataclass(frozen=True, eq=False)
class ErrorSum(RecordSum):
    """Sum of the norms of residuals at released weights.

    Parameters
    ----------
    loss : Loss
    coef : ndarray of float64 of shape (n_features, n_outputs)
        Released.
    offset : ndarray of float64 of shape (n_outputs,)
        Added to predictions; released.
    clip : float in (0, inf)
        Clip of the norms; public or released.
    norm : float in (0, inf), default=1.0
        Clip of the rows.
    """

    loss: Loss
    coef: FloatArray
    offset: FloatArray
    clip: float
    norm: float = 1.0

    @property
    def interval(self) -> tuple[float, float]:
        return 0.0, self.clip

    def numbers(self, block: Block) -> FloatArray:
        raw = gridded(block.X, self.norm).raw(on_grid(self.coef)) + self.offset
        return np.asarray(np.sqrt(_squares(self.loss.residual(block.y, raw))))


@dataclass(frozen=True, eq=False)
class NoiseRatio(RecordSum):
    """Sum of squared predictions over the variance that noise alone would cause.

    Parameters
    ----------
    coef : ndarray of float64 of shape (n_features, n_outputs)
        Released. If outputs are centred, they add up to 0 in each prediction.
    variance : ndarray of float64 of shape (n_states,) or (1,)
        Variance of a prediction in each state if the weights are noise; with one
        number, the variance for rows of norm 1 in any direction. Released or public.
    most : float in (0, inf)
        Clip of a record's ratio.
    """

    coef: FloatArray
    variance: FloatArray
    most: float

    @property
    def interval(self) -> tuple[float, float]:
        return 0.0, self.most

    def numbers(self, block: Block) -> FloatArray:
        rows = gridded(block.X, 1.0)
        squares = _squares(rows.raw(on_grid(self.coef)))
        if len(self.variance) == 1:
            variance = self.variance[0] * np.minimum(row_norms(block.X), 1.0) ** 2
        else:
            variance = rows.variance_of(self.variance)
        return np.asarray(squares / np.maximum(variance, _LEAST_VARIANCE))


@dataclass(frozen=True, eq=False)
class RowSum(BoundedSum):
    """Sums of rows, clipped to a norm and divided by it, and of their squared norms.

    Parameters
    ----------
    n_samples, n_features : int
    data_norm : float in (0, inf)
    """

    n_samples: int
    n_features: int
    data_norm: float
    # Weight of squared norms: a larger one would increase the bound of all numbers.
    weight: ClassVar[float] = 0.5
    # Rows are whole numbers of 1 / LONGEST.
    unit: ClassVar[float] = 1.0
    rounding: ClassVar[Any] = np.trunc

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_features + 1,)

    @property
    def scale(self) -> FloatArray:
        return np.append(np.ones(self.n_features), self.weight) / LONGEST

    def row_bound(self) -> Bound:
        # A row of norm 1; two opposite rows.
        one = math.hypot(1.0, self.weight) * ABOVE
        return Bound(zero_out=one, replace_one=2 * one)

    def added(self, block: Block) -> Form | tuple[Form, ...]:
        sums = self._compiled(block)
        if sums is not None:
            return Compiled(lambda *_: sums)
        entries = grid_rows(block.X, self.data_norm)
        return entries, np.minimum(squares_of(entries) / LONGEST, LONGEST)

    def _compiled(self, block: Block) -> FloatArray | None:
        """The same sums by compiled code; None if it is not for these rows."""
        is_wanted = compiles(self.n_samples * self.n_features)
        is_plain = kernel_weights(block) is None and is_row_major(block.X)
        if not (is_wanted and is_plain):
            return None
        from skdp.sums._gradient_kernel import add_rows

        total, scale = np.zeros(self.n_features + 1), scale_of(self.data_norm)
        limits = LONGEST, SHORTENED, MOST_SQUARES
        return total if add_rows(block.X, scale, *limits, total) else None

    @classmethod
    def read(cls, released: FloatArray) -> tuple[FloatArray, float]:
        """Sums of rows, and of their squared norms; this is post-processing."""
        return released[:-1], float(released[-1]) / cls.weight


# --------------------------------------------------------------------- Scores of models
# The score of a model is a sum of one bounded vector for each record. A record changes
# the statistics of all models that are scored on it, so the norms of the changes add up
# in L1, and their squares in L2; a choice among models needs each model's bound
# separately. Proofs: ``docs/proofs/scores.md``.


# A record's contribution is rounded to this grid. Sums of up to MOST_RECORDS numbers
# of the grid in [-1, 1] are exact.
QUANTUM = 2.0**-26
MOST_RECORDS = 2**27
# With users, one bit is reserved for the rounding of each of their rows.
MOST_USERS = 2**26


class Scorer(Protocol):
    """The methods of a `PrivateScoring` that sums need."""

    @property
    def size(self) -> int:
        """Number of entries of a statistic."""
        ...

    @property
    def n_nonzero(self) -> int:
        """Largest number of nonzero entries of a record's vector."""
        ...

    def sensitivity(self, adjacency: Adjacency, norm: int) -> float:
        """Largest change of a statistic by one record."""
        ...


class Scored(Protocol):
    """Records that compute models' statistics."""

    def statistic(self, scorer: Any, model: Any) -> FloatArray:
        """The exact statistic of one model. Private."""
        ...


@dataclass(frozen=True, eq=False)
class Scores(BoundedSum):
    """Statistics of some models on the same records, as one vector.

    `models` are fitted models that are public or paid for, or keys by which the records
    know such models. `norm` is the norm of the bounds: inf for choices, with statistics
    of one number.
    """

    scorer: Scorer
    models: tuple[Any, ...]
    norm: float
    unit: ClassVar[float] = QUANTUM
    is_gridded: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.models) * self.scorer.size,)

    def row_bound(self) -> Bound:
        return Bound(
            zero_out=self._moved("zero_out"),
            replace_one=self._moved("replace_one"),
            rating_value=self._moved(table_relation("rating_value")),
            norm=self.norm,
        )

    def _moved(self, adjacency: Adjacency) -> float:
        several = float(len(self.models) ** (1 / self.norm))
        norm = 1 if math.isinf(self.norm) else int(self.norm)
        return self.scorer.sensitivity(adjacency, norm) * several

    @property
    def n_rounded(self) -> int:
        return len(self.models) * self.scorer.n_nonzero

    def pieces(self, reader: Scored, rows: IntArray | None) -> Iterator[Block]:
        # Models predict all rows at once; the reader knows the weights.
        yield Block(reader, np.empty(0))

    def added(self, block: Block) -> Compiled:
        def sums(weights: None, per_unit: float) -> FloatArray:
            exact = [block.X.statistic(self.scorer, model) for model in self.models]
            return np.concatenate(exact) * per_unit

        return Compiled(sums)


# -------------------------------------------------------------- Scores on rows of users
# Each user counts once, with the mean over the user's rows. A prediction must not
# depend on the rows of other users, on their number or on their order, but it may round
# differently at another position or in an array of another length. So an estimator
# always gets arrays of one length, and a user's id determines the position of the
# user's rows.


# Number of rows in one call of a scorer. With fewer rows there are more calls; with
# more rows there are more unused positions.
ROWS_AT_ONCE = 1024


def places_of_users(ids: Iterable[Any]) -> IntArray:
    """Position of the rows of each user, which depends only on the user's id.

    Parameters
    ----------
    ids : iterable of int, str or bytes
    """
    return np.array([number_of(own) % ROWS_AT_ONCE for own in ids], dtype=np.int64)


def statistic_of_users(
    scorer: Any,
    model: Any,
    X: Any,
    y: np.ndarray,
    shares: FloatArray,
    places: IntArray,
) -> FloatArray:
    """The exact statistic of a fitted model on rows of users. Private.

    Parameters
    ----------
    scorer : PrivateScoring
    model : fitted estimator, or tuple of them that are compared
    X : array-like, CSR, data frame or RowsForEach of n_rows rows
    y : ndarray of shape (n_rows,)
    shares : ndarray of float64 of shape (n_rows,)
        Weight of each row; rows of weight 0 are left out.
    places : ndarray of int of shape (n_rows,)
        Positions of the rows' users, from `places_of_users`.
    """
    total, counted = np.zeros(scorer.size), np.flatnonzero(shares)
    for turn in _in_turn(places[counted]):
        rows = counted[turn]
        # An empty position repeats another row, with weight 0.
        asked, weights = np.full(ROWS_AT_ONCE, rows[0]), np.zeros(ROWS_AT_ONCE)
        asked[places[rows]], weights[places[rows]] = rows, shares[rows]
        total += scorer.statistic(model, rows_repeated(X, asked), y[asked], weights)
    return total


def _in_turn(places: IntArray) -> Iterator[IntArray]:
    """Runs of rows at different positions; as many as the most rows at one position."""
    turns = places_of_own(places)
    ends = np.cumsum(np.bincount(turns))
    if len(ends):
        yield from np.split(np.argsort(turns, kind="stable"), ends[:-1])
