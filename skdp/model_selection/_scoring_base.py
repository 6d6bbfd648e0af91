"""Scores for private release: a bounded vector for each record, summed exactly.

A score follows from a *statistic*: a sum over the records of one bounded vector each.
Every scorer states how far one record can move the statistic, in L1 and in L2, under
both adjacencies; ``docs/proofs/private_score.md`` derives the numbers. Whatever an
estimator returns or raises for one record, that record's vector stays within its
bounds and the others keep theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import get_scorer, mean_pinball_loss

from skdp._floats import FloatArray
from skdp._quiet import no_warnings, silence
from skdp._rows import rows_at, rows_in_places
from skdp._validation import check_choice, check_real
from skdp.privacy._adjacency import Adjacency
from skdp.queries._scores import QUANTUM

# What an estimator is asked about at once: of longer tables one block after the other,
# all of one length, so that a row for which it raises costs a search of one block.
ROWS_ASKED = 4096


PerRecord = Callable[[Any, Any, NDArray[Any]], Any]
Params = Mapping[str, Any]
RESPONSE_METHODS = ("predict", "predict_proba", "decision_function")


@dataclass(frozen=True, eq=False)
class PrivateScoring:
    """A score of your own: the mean over the records of one bounded number each.

    Greater must be better. What one record can change follows from the range, and the
    noise from that, so that a narrow range costs little.

    Parameters
    ----------
    name : str
        What privacy records and ledgers call it.
    per_record : callable
        ``per_record(estimator, X, y)`` is the score of each row, an array of shape
        (n_samples,). The score of a row must follow from that row, its label or target
        and the estimator alone. A row for which the function raises, or gives NaN,
        counts as `lowest`.
    lowest, highest : float
        The range of the scores of records, known without looking at the data: scores
        beyond are clipped to it. A null record, and a user without rows, counts as
        `highest` if that is at most 0, and as `lowest` otherwise.
    task : {"classification", "regression"}
        Whether y is labels of any kind or finite numbers.
    response_method : {"predict", "predict_proba", "decision_function"}, \
            default="predict"
        Which method an estimator must have.

    Attributes
    ----------
    params : mapping of str
        Public facts that privacy records show: the range.

    See Also
    --------
    resolve_scoring : The scores that have names.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from skdp import private_score
    >>> from skdp.model_selection import PrivateScoring
    >>> def is_near(model, X, y):
    ...     return np.abs(model.predict(X) - y) < 10
    >>> near = PrivateScoring("near", is_near, 0.0, 1.0, task="regression")
    >>> X = np.arange(4000.0)[:, None]
    >>> model = LinearRegression().fit(X, X[:, 0])
    >>> score = private_score(model, X, X[:, 0], scoring=near, epsilon=1.0)
    >>> score.scoring, round(float(score), 1)
    ('near', 1.0)
    """

    name: str
    per_record: PerRecord = field(repr=False)
    lowest: float
    highest: float
    task: str
    response_method: str = "predict"
    params: Params = field(init=False)

    assumed_public: ClassVar[tuple[str, ...]] = (
        "the score of a record, which follows from that record and the model alone",
    )
    # Whether the statistic is one number of which the score is a rising function, so
    # that selection mechanisms may compare statistics.
    is_single: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not callable(self.per_record):
            raise TypeError(
                "The 'per_record' parameter must be a function of an estimator, X and "
                f"y. Got {type(self.per_record).__name__}."
            )
        for end in ("lowest", "highest"):
            number = check_real(end, getattr(self, end), low=-1e100, high=1e100)
            object.__setattr__(self, end, number)
        if self.lowest >= self.highest:
            raise ValueError(
                "The 'lowest' parameter must be below 'highest'. Got "
                f"{self.lowest!r} and {self.highest!r}."
            )
        check_choice("task", self.task, ("classification", "regression"))
        check_choice("response_method", self.response_method, RESPONSE_METHODS)
        ends = {"lowest": self.lowest, "highest": self.highest}
        object.__setattr__(self, "params", ends)

    @property
    def size(self) -> int:
        """Numbers in the statistic."""
        return 1

    @property
    def n_nonzero(self) -> int:
        """Numbers of a record's vector that are not 0, at most."""
        return self.size

    @property
    def _worst(self) -> float:
        """Quality of a record for which the estimator raises."""
        return -1.0 if self.highest <= 0 else 0.0

    def sensitivity(self, adjacency: Adjacency, norm: int) -> float:
        """How far one record can move the statistic: L1 for norm 1, L2 for norm 2."""
        return {"replace_one": 1.0, "zero_out": 1.0}[adjacency]

    def score(self, statistic: FloatArray, n_samples: int) -> float:
        """The score of an exact or released statistic, in [lowest, highest].

        Parameters
        ----------
        statistic : ndarray of shape (size,)
        n_samples : int
            Public.
        """
        mean = np.clip(statistic[0] / n_samples, self._worst, self._worst + 1.0)
        found = self._of_null + (self.highest - self.lowest) * float(mean)
        return float(np.clip(found, self.lowest, self.highest))

    @property
    def _of_null(self) -> float:
        """The score of a record that adds 0."""
        return self.highest if self.highest <= 0 else self.lowest

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
        """The mean without bounds: **not** private."""
        return float(np.mean(self.per_record(estimator, X, np.asarray(y))))

    def _quality(self, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
        """One bounded number for each record: how good its prediction is."""
        values = column(self.per_record(estimator, X, y), len(y)).astype(np.float64)
        inside = (values - self._of_null) / (self.highest - self.lowest)
        found = np.clip(inside, self._worst, self._worst + 1.0)
        return np.where(np.isnan(found), self._worst, found)

    def _spread(self, quality: FloatArray, y: NDArray[Any]) -> FloatArray:
        """The records' vectors, of shape (n_samples, size)."""
        return quality[:, None]


@dataclass(frozen=True, eq=False)
class NamedScoring(PrivateScoring):
    """A score of scikit-learn, whose `per_record` gives bounded numbers in their unit.

    The range follows from checked facts; by rounding alone it may have no width.
    """

    params: Params = field(default_factory=dict)

    assumed_public = ()

    def __post_init__(self) -> None:
        pass

    def _quality(self, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
        return np.asarray(self.per_record(estimator, X, y))

    def of_raw_data(self, estimator: Any, X: Any, y: Any) -> float:
        """scikit-learn's score, without bounds: **not** private."""
        if "quantile" in self.params:
            predicted, alpha = estimator.predict(X), self.params["quantile"]
            return -float(mean_pinball_loss(y, predicted, alpha=alpha))
        return float(get_scorer(self.name)(estimator, X, y))


def on_grid(values: FloatArray) -> FloatArray:
    """The nearest multiples of `QUANTUM`."""
    return np.asarray(np.rint(values / QUANTUM) * QUANTUM)


def column(values: Any, n_samples: int) -> NDArray[Any]:
    """One number or label for each record, or an error."""
    array: NDArray[Any] = np.asarray(values)
    if array.size != n_samples:
        raise ValueError
    return array.ravel()


def row_by_row(
    quality: PerRecord,
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
                    return np.asarray(quality(estimator, some, y[rows][places]))
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
