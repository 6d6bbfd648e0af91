"""What scorers for private release share: bounded vectors, summed exactly.

A score follows from a *statistic*: a sum over the records of one bounded vector each.
Every scorer states how far one record can move the statistic, in L1 and in L2, under
both adjacencies; ``docs/proofs/private_score.md`` derives the numbers. Whatever an
estimator returns or raises for one record, that record's vector stays within its
bounds and the others keep theirs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import get_scorer

from skdp._floats import FloatArray
from skdp._quiet import no_warnings, silence
from skdp._rows import rows_at, rows_in_places
from skdp.privacy._adjacency import Adjacency
from skdp.queries._scores import QUANTUM

# What an estimator is asked about at once: of longer tables one block after the other,
# all of one length, so that a row for which it raises costs a search of one block.
ROWS_ASKED = 4096


@dataclass(frozen=True)
class PublicFacts:
    """What a scorer may know without looking at data.

    Labels, or the lowest and the highest target, and which quantile is predicted.
    """

    classes: tuple[Any, ...] | None = None
    target_bounds: tuple[float, float] | None = None
    quantile: float | None = None


@dataclass(frozen=True)
class PrivateScoring(ABC):
    """A score that is computed from a sum of bounded vectors.

    Subclasses are frozen dataclasses of public facts.

    Attributes
    ----------
    name : str
        scikit-learn's.
    task : {"classification", "regression"}
    method : str
        What is asked of the estimator.
    is_single : bool
        Whether the statistic is one number of which the score is a multiple, greater
        is better, so that selection mechanisms may compare statistics.
    """

    name: ClassVar[str]
    task: ClassVar[str]
    method: ClassVar[str] = "predict"
    is_single: ClassVar[bool]
    # Quality of a record for which the estimator raises.
    _worst: ClassVar[float]

    @classmethod
    @abstractmethod
    def of(cls, facts: PublicFacts) -> Self:
        """The scorer for these facts, or a ValueError that says what is missing."""

    @property
    def size(self) -> int:
        """Numbers in the statistic."""
        return 1

    @property
    def n_nonzero(self) -> int:
        """Numbers of a record's vector that are not 0, at most."""
        return self.size

    @property
    @abstractmethod
    def lowest(self) -> float:
        """The public minimum of the score."""

    @property
    def highest(self) -> float:
        """The public maximum of the score."""
        return 1.0

    @abstractmethod
    def sensitivity(self, adjacency: Adjacency, norm: int) -> float:
        """How far one record can move the statistic: L1 for norm 1, L2 for norm 2."""

    @abstractmethod
    def score(self, statistic: FloatArray, n_samples: int) -> float:
        """The score of an exact or released statistic, in [lowest, highest].

        Parameters
        ----------
        statistic : ndarray of shape (size,)
        n_samples : int
            Public.
        """

    def contributions(
        self, estimator: Any, X: Any, y: Any, shares: FloatArray | None = None
    ) -> FloatArray:
        """What each row adds to the statistic. Private; raises for no row.

        Parameters
        ----------
        estimator : fitted estimator
            Its prediction for a row must follow from that row alone.
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels of any kind, or numbers.
        shares : ndarray of shape (n_samples,) or None, default=None
            In [0, 1], with which rows count; None: each as a record.

        Returns
        -------
        ndarray of shape (n_samples, size)
            Multiples of `QUANTUM` in [-1, 1].
        """
        y = np.asarray(y)
        with no_warnings():
            quality = row_by_row(self._quality, self._worst, estimator, X, y, shares)
            added = on_grid(self._spread(quality, y))
            return added if shares is None else on_grid(added * shares[:, None])

    def statistic(
        self, estimator: Any, X: Any, y: Any, shares: FloatArray | None = None
    ) -> FloatArray:
        """The sum of `contributions`, of shape (size,). Private.

        Exact, in any order, for up to `MOST_RECORDS` records.
        """
        added = self.contributions(estimator, X, y, shares)
        return np.asarray(added.sum(axis=0))

    def of_raw_data(self, estimator: Any, X: Any, y: Any) -> float:
        """scikit-learn's score, without bounds: **not** private."""
        return float(get_scorer(self.name)(estimator, X, y))

    @abstractmethod
    def _quality(self, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
        """One bounded number for each record: how good its prediction is."""

    def _spread(self, quality: FloatArray, y: NDArray[Any]) -> FloatArray:
        """The records' vectors, of shape (n_samples, size)."""
        return quality[:, None]


class MeanLoss(PrivateScoring):
    """Minus a mean of losses; the statistic is minus their sum, the largest being 1."""

    is_single = True
    _worst = -1.0

    @property
    def highest(self) -> float:
        return 0.0

    def sensitivity(self, adjacency: Adjacency, norm: int) -> float:
        return {"replace_one": 1.0, "zero_out": 1.0}[adjacency]

    def score(self, statistic: FloatArray, n_samples: int) -> float:
        return -self.lowest * float(np.clip(statistic[0] / n_samples, -1.0, 0.0))


def on_grid(values: FloatArray) -> FloatArray:
    """The nearest multiples of `QUANTUM`."""
    return np.asarray(np.rint(values / QUANTUM) * QUANTUM)


def column(values: Any, n_samples: int) -> NDArray[Any]:
    """One number or label for each record, or an error."""
    array: NDArray[Any] = np.asarray(values)
    if array.size != n_samples:
        raise ValueError
    return array.ravel()


Quality = Callable[[Any, Any, NDArray[Any]], FloatArray]


def row_by_row(
    quality: Quality,
    worst: float,
    estimator: Any,
    X: Any,
    y: NDArray[Any],
    shares: FloatArray | None = None,
) -> FloatArray:
    """The quality of each record; `worst` for those for which the estimator raises.

    Of those that have a share of 0 it is any number. The estimator is asked about
    `ROWS_ASKED` records at a time, or all if they are fewer, and never about another
    number of them: at most twice for each record, and once for each block of them if it
    raises for none.
    """
    if not hasattr(X, "shape"):
        X = np.asarray(X)
    counts = np.ones(len(y), dtype=bool) if shares is None else shares > 0
    found, size = np.full(len(y), worst), min(len(y), ROWS_ASKED)
    for start in range(0, len(y), max(size, 1)):
        # The last block is as long as the others, and has some records of another.
        start = min(start, len(y) - size)
        rows = slice(start, start + size)

        def ask(places: NDArray[np.int64], rows: slice = rows) -> FloatArray | None:
            try:
                some = rows_in_places(rows_at(X, rows), places)
                with silence():
                    return quality(estimator, some, y[rows][places])
            except KeyboardInterrupt:
                raise
            except BaseException:  # models raise more than exceptions
                return None

        found[rows] = _of_block(ask, worst, counts[rows])
    return found


def _of_block(
    ask: Callable[[NDArray[np.int64]], FloatArray | None],
    worst: float,
    counts: NDArray[np.bool_],
) -> FloatArray:
    """The quality of the records of one block, as far as they count.

    Those for which the estimator raises are found by halving, a half repeated until it
    fills an array of the public shape: a predictor that refuses other shapes would fail
    every record for the sake of one. The rest is predicted again with another record in
    their places: each of the others keeps its place, and with it every digit of its
    prediction.
    """
    rows = np.arange(len(counts))
    found = ask(rows)  # a copy of all rows, in the layout of the one below
    if found is not None:
        return found
    asked = rows[counts]
    failing = _failing(lambda some: ask(np.resize(some, rows.size)), asked)
    good = np.setdiff1d(asked, failing)
    if good.size:
        found = ask(np.where(np.isin(rows, good), rows, good[:1]))
    if found is None:
        return np.full(rows.size, worst)
    found[failing] = worst
    return found


def _failing(
    at: Callable[[NDArray[np.int64]], FloatArray | None], rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The rows of which nothing can be made."""
    if at(rows) is not None:
        return rows[:0]
    if rows.size <= 1:
        return rows
    half = rows.size // 2
    return np.concatenate([_failing(at, rows[:half]), _failing(at, rows[half:])])
