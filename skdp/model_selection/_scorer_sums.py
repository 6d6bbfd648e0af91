"""Sums of bounded scores over records, and histograms of predictions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.metrics import get_scorer, mean_pinball_loss
from sklearn.utils import check_random_state

from skdp._arrays import FloatArray, IntArray, RowsForEach, rows_at, rows_in_places
from skdp._checks import check_choice, check_real
from skdp._quiet import no_warnings, silence
from skdp.privacy.accounting._relations import Adjacency
from skdp.sums._histogram import consistent
from skdp.sums._record_sums import QUANTUM

# ---------------------------------------- PrivateScoring: exact sums of bounded vectors
# A score follows from a *statistic*: a sum over the records of one bounded vector each.
# Every scorer states how far one record can move the statistic, in L1 and in L2, under
# both adjacencies; ``docs/proofs/scores.md`` derives the numbers. Whatever an
# estimator returns or raises for one record, this record's vector stays within its
# bounds and the other vectors do not change.


# Rows of one call of an estimator. Longer tables are divided into blocks, all of this
# length, so that a row for which it raises costs a search of one block.
ROWS_ASKED = 4096


# Pairs of opposite pseudo-noise from which the error of a score is computed. Up to this
# length of the statistic the root mean square change of a linear score is exact; beyond
# it, it is off by about 6 %.
_N_PAIRS = 128
_SEED = 0
# Users add and subtract so many errors, for 95 %.
_ERRORS = 1.96

PerRecord = Callable[[Any, Any, NDArray[Any]], Any]
Params = Mapping[str, Any]
OfSums = Callable[[Params, FloatArray, int], float]
Possible = Callable[[Params, FloatArray, int], FloatArray]
WholeError = Callable[[Params, FloatArray, float], float]
RESPONSE_METHODS = ("predict", "predict_proba", "decision_function")


@dataclass(frozen=True, eq=False, kw_only=True)
class Addend:
    """What one record adds to a statistic, and how far it can move the statistic.

    Parameters
    ----------
    moved : mapping of (adjacency, norm) to float
        How far one record can move the statistic.
    spread : callable
        From the params of a score, the quality of each prediction, and y: the records'
        vectors, of shape (n_samples, size). If `is_counted`, the index of the entry to
        which each record adds 1, and -1 for none.
    worst : float
        Quality of a record for which the estimator raises.
    is_counted : bool, default=False
    ranks_by_n : bool, default=False
        Whether the order of two models follows from the number of records, too.
    """

    moved: Mapping[tuple[Adjacency, int], float]
    spread: Callable[[Params, FloatArray, NDArray[Any]], NDArray[Any]]
    worst: float
    is_counted: bool = False
    ranks_by_n: bool = False


def _as_column(params: Params, quality: FloatArray, y: NDArray[Any]) -> FloatArray:
    return quality[:, None]


# One number of [0, 1], or of [-1, 0].
GAIN = Addend(
    moved={
        ("replace_one", 1): 1.0,
        ("replace_one", 2): 1.0,
        ("zero_out", 1): 1.0,
        ("zero_out", 2): 1.0,
    },
    spread=_as_column,
    worst=0.0,
)
LOSS = replace(GAIN, worst=-1.0)


def _mean_of(highest: float) -> Addend:
    return LOSS if highest <= 0 else GAIN


@dataclass(frozen=True, eq=False)
class PrivateScoring:
    """A user-defined score: the mean over the records of one bounded number each.

    Greater must be better. The range decides how far one record can move the mean, and
    so the noise: a narrow range costs little.

    Parameters
    ----------
    name : str
        Name in privacy records and ledgers.
    per_record : callable
        ``per_record(estimator, X, y)`` is the score of each row, an array of shape
        (n_samples,). The score of a row must follow from that row, its label or target
        and the estimator alone. A row on which the function fails, or returns NaN,
        counts as `lowest`.
    lowest, highest : float
        The range of the scores of records, known without looking at the data: other
        scores are clipped to it. A null record, and a user without rows, counts as
        `highest` if that is at most 0, and as `lowest` otherwise.
    task : {"classification", "regression"}
        "classification" if y has labels of any kind, "regression" for finite numbers.
    response_method : {"predict", "predict_proba", "decision_function"}, \
            default="predict"
        The method that an estimator must have.

    Attributes
    ----------
    params : mapping of str
        Public facts that privacy records show: the range.

    See Also
    --------
    resolve_scoring : Scorers by scikit-learn's names.

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
    added: Addend = field(init=False, repr=False)
    # Length of the statistic.
    size: int = field(init=False, repr=False, default=1)

    assumed_public: ClassVar[tuple[str, ...]] = (
        "the score of a record, which follows from that record and the model alone",
    )

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
        object.__setattr__(self, "added", _mean_of(self.highest))

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Version 1.0.0 stored no `added`.
        self.__dict__.update({"added": _mean_of(state["highest"])} | state)

    @property
    def is_single(self) -> bool:
        """Whether the statistic is one number, and the score a rising function of it.

        Then selection mechanisms may compare statistics.
        """
        return self.size == 1

    @property
    def n_nonzero(self) -> int:
        """Largest number of nonzero entries in a record's vector."""
        return 1 if self.added.is_counted else self.size

    def sensitivity(self, adjacency: Adjacency, norm: int) -> float:
        """How far one record can move the statistic: L1 for norm 1, L2 for norm 2."""
        return self.added.moved[adjacency, norm]

    def score(self, statistic: FloatArray, n_samples: int) -> float:
        """The score of an exact or released statistic, in [lowest, highest].

        Parameters
        ----------
        statistic : ndarray of shape (size,)
        n_samples : int
            Public.
        """
        worst = self.added.worst
        mean = np.clip(statistic[0] / n_samples, worst, worst + 1.0)
        found = self._of_null + (self.highest - self.lowest) * float(mean)
        return float(np.clip(found, self.lowest, self.highest))

    def error(self, statistic: FloatArray, deviation: float, n_samples: int) -> float:
        """Standard error of the `score` of a released statistic.

        Public for a mean over the records; otherwise post-processing of the release.

        Parameters
        ----------
        statistic : ndarray of shape (size,)
        deviation : float
            Standard deviation of the noise in each entry. Public.
        n_samples : int
            Public.
        """
        return (self.highest - self.lowest) / n_samples * deviation

    @property
    def _of_null(self) -> float:
        """The score of a record whose vector is 0."""
        return self.highest if self.highest <= 0 else self.lowest

    def contributions(
        self, estimator: Any, X: Any, y: Any, shares: FloatArray | None = None
    ) -> FloatArray:
        """The vector that each row adds to the statistic. Private; raises for no row.

        Parameters
        ----------
        estimator : fitted estimator
            Its prediction for a row must follow from that row alone.
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels of any kind, or numbers.
        shares : ndarray of shape (n_samples,) or None, default=None
            Weights of rows in [0, 1]; None: each row counts as a record.

        Returns
        -------
        ndarray of shape (n_samples, size)
            Multiples of `QUANTUM` in [-1, 1].
        """
        y = np.asarray(y)
        with no_warnings():
            added = self._spread(estimator, X, y, shares)
            if self.added.is_counted:
                added = 1.0 * (added[:, None] == np.arange(self.size))
            added = on_grid(added)
            return added if shares is None else on_grid(added * shares[:, None])

    def statistic(
        self, estimator: Any, X: Any, y: Any, shares: FloatArray | None = None
    ) -> FloatArray:
        """The sum of `contributions`, of shape (size,). Private.

        Exact, in any order, for up to `MOST_RECORDS` records.
        """
        if not self.added.is_counted:
            added = self.contributions(estimator, X, y, shares)
            return np.asarray(added.sum(axis=0))
        with no_warnings():
            place = self._spread(estimator, X, np.asarray(y), shares)
        is_there = place >= 0
        weights = None if shares is None else on_grid(shares)[is_there]
        counts = np.bincount(place[is_there], weights, minlength=self.size)
        return counts.astype(np.float64)

    def of_raw_data(self, estimator: Any, X: Any, y: Any) -> float:
        """The mean without bounds: **not** private."""
        return float(np.mean(self.per_record(estimator, X, np.asarray(y))))

    def _quality(self, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
        """One bounded number for each record: the quality of its prediction."""
        values = column(self.per_record(estimator, X, y), len(y)).astype(np.float64)
        inside = (values - self._of_null) / (self.highest - self.lowest)
        worst = self.added.worst
        found = np.clip(inside, worst, worst + 1.0)
        return np.where(np.isnan(found), worst, found)

    def _spread(
        self, estimator: Any, X: Any, y: NDArray[Any], shares: FloatArray | None
    ) -> NDArray[Any]:
        added = self.added
        quality = row_by_row(self._quality, added.worst, estimator, X, y, shares)
        return added.spread(self.params, quality, y)


@dataclass(frozen=True, eq=False, kw_only=True)
class NamedScoring(PrivateScoring):
    """A score of scikit-learn, whose `per_record` gives bounded numbers in their unit.

    The range follows from checked facts; rounding may make it a single point.

    Parameters
    ----------
    params : mapping of str
        Labels, bounds and settings. Public.
    added : Addend
    size : int
        Length of the statistic.
    of_sums : callable or None
        The score, from params, an exact or released statistic, and the number of
        records. None: a score in proportion to the mean.
    possible : callable or None, default=None
        A statistic that records can have, of the same score, from the arguments of
        `of_sums`. None: the statistic itself.
    whole_error : callable or None, default=None
        The error of the score, from params, a released statistic, and the root mean
        square change by noise. None: noise is all that separates the score from the
        exact one.
    """

    params: Params
    added: Addend = field(repr=False)
    size: int = field(repr=False)
    of_sums: OfSums | None = field(repr=False)
    possible: Possible | None = field(repr=False, default=None)
    whole_error: WholeError | None = field(repr=False, default=None)

    assumed_public = ()

    def __post_init__(self) -> None:
        pass

    def score(self, statistic: FloatArray, n_samples: int) -> float:
        if self.of_sums is None:
            return super().score(statistic, n_samples)
        return self.of_sums(self.params, statistic, n_samples)

    def error(self, statistic: FloatArray, deviation: float, n_samples: int) -> float:
        if self.of_sums is None:
            return super().error(statistic, deviation, n_samples)
        score, center = self.score(statistic, n_samples), statistic
        if self.possible is not None:
            # Where the score is at an end, noise around an impossible statistic, such
            # as a negative count, would not move it.
            center = self.possible(self.params, statistic, n_samples)
        # Noise once more, which is public: its deviation is, and it has a fixed seed.
        away = [
            self.score(center + deviation * noise, n_samples) - score
            for noise in _pseudo_noise(self.size)
        ]
        error = math.sqrt(np.mean(np.square(away)))
        if self.whole_error is not None:
            error = self.whole_error(self.params, statistic, error)
        else:
            # A ratio has a skewed law: 1.96 errors reach over the middle 95 %.
            low, high = np.quantile(away, (0.025, 0.975))
            error = max(error, -low / _ERRORS, high / _ERRORS)
        return float(min(error, self.highest - self.lowest))

    def _quality(self, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
        return np.asarray(self.per_record(estimator, X, y))

    def of_raw_data(self, estimator: Any, X: Any, y: Any) -> float:
        """scikit-learn's score, without bounds: **not** private."""
        if "quantile" in self.params:
            predicted, alpha = estimator.predict(X), self.params["quantile"]
            return -float(mean_pinball_loss(y, predicted, alpha=alpha))
        return float(get_scorer(self.name)(estimator, X, y))


@cache
def _pseudo_noise(size: int) -> FloatArray:
    """Public vectors of unit variance, half of them the negatives of the others."""
    draws = check_random_state(_SEED).standard_normal((_N_PAIRS, size))
    if size <= _N_PAIRS:
        # Exactly uncorrelated, so that the error of a linear score is exact.
        draws = math.sqrt(_N_PAIRS) * np.linalg.qr(draws).Q
    return np.concatenate([draws, -draws])


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
    """The quality of each record; `worst` for records for which the estimator raises.

    A record with weight 0 may have any number. The estimator gets `ROWS_ASKED` records
    at a time, or all if there are fewer, and never another number of records. It is
    called at most twice for each record, and once for each block if it raises for none.
    """
    if not hasattr(X, "shape"):
        X = np.asarray(X)
    counts = np.ones(len(y), dtype=bool) if shares is None else shares > 0
    found, size = np.full(len(y), worst), min(len(y), ROWS_ASKED)
    for start in range(0, len(y), max(size, 1)):
        # The last block is as long as the others, and repeats some records of the one
        # before.
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
    """The quality of the records of one block that count.

    Halving finds the records for which the estimator raises. A half is repeated until
    it fills an array of the public shape: a predictor that refuses other shapes would
    fail every record because of one. The others are predicted again, with another
    record in the failed positions: each of the others keeps its position, and with it
    every digit of its prediction.
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
    """The rows for which the estimator raises."""
    if at(rows) is not None:
        return rows[:0]
    if rows.size <= 1:
        return rows
    half = rows.size // 2
    return np.concatenate([_failing(at, rows[:half]), _failing(at, rows[half:])])


# ----------------------------------------- Scores from a histogram: ranks and confusion
# A record is in one cell: of its label and the interval of its predicted probability,
# or of its label and the predicted label. Derived in ``docs/proofs/scores.md``.


# Numbers of intervals, and the number of records times epsilon from which each is
# used. With twice the intervals, noise is 1.4 times as large and ties cost a quarter.
# Settled on synthetic tables of 5,000 to 20,000 records with 1 to 50 % positives, at
# epsilon 0.3 to 4: a rare label loses by more intervals, a frequent one gains.
N_INTERVALS = 24
_INTERVALS = {N_INTERVALS: 0.0, 48: 40_000.0, 96: 400_000.0}


def log_odds_grid(n_samples: float = 0, epsilon: float = 1.0) -> tuple[float, ...]:
    """Ends of intervals of probabilities, from public facts; 24 or more intervals.

    In log-odds, 24 intervals are 0.3 wide in the middle and 1.3 at -6.7 and 6.7: a rare
    label needs narrow intervals of small probabilities, but has few records, so that
    its noise exceeds the ties of wider ones.
    """
    size = n_samples * epsilon if n_samples else 0.0  # no records, for any epsilon
    n = max(n for n, least in _INTERVALS.items() if size >= least)
    odds = 1.5 * np.sinh(4.8 / n * np.arange(1 - n // 2, n // 2))
    # Few digits, since privacy records show them.
    return 0.0, *expit(odds).round(6).tolist(), 1.0


LOG_ODDS = log_odds_grid()
_MOST_INTERVALS = 1000
# The cell of a record without a prediction, because an estimator has none or raises.
_FAILED = -1.0


def cell_counts(params: Params, statistic: FloatArray, n_samples: int) -> FloatArray:
    """The nearest counts that are at least 0 and add up to at most n_samples.

    Returns
    -------
    ndarray of shape (n_classes, n_cells)
    """
    cells = np.reshape(statistic, (len(params["classes"]), -1))
    counts = np.maximum(cells, 0.0)
    if counts.sum() > n_samples:
        counts = consistent(cells, n_samples)
    return counts


def of_cells(
    of_counts: Callable[[FloatArray], float],
    params: Params,
    statistic: FloatArray,
    n_samples: int,
) -> float:
    """The score of counts of labels by cell."""
    return of_counts(cell_counts(params, statistic, n_samples))


def possible_cells(params: Params, statistic: FloatArray, n_samples: int) -> FloatArray:
    """`cell_counts` as a statistic."""
    return cell_counts(params, statistic, n_samples).ravel()


def not_negative(params: Params, statistic: FloatArray, n_samples: int) -> FloatArray:
    """Counts of at least 0."""
    return np.maximum(statistic, 0.0)


def of_recalls(params: Params, statistic: FloatArray, n_samples: int) -> float:
    """The mean recall of counts of right, and of wrong, predictions by label.

    A total that noise lifts above the number of records stays: a recall is a ratio of
    two counts.
    """
    return mean_recall(np.maximum(np.reshape(statistic, (2, -1)), 0.0).T)


def _cell(
    params: Params, quality: FloatArray, y: NDArray[Any], n_cells: int, failed: Any
) -> IntArray:
    """Place of a record's label and of its cell within it; -1 for another label.

    `failed` has the worst cell of each label, for records without a prediction.
    """
    label = label_codes(y, params["classes"])
    cell = np.where(quality < 0, np.array(failed)[label], quality.astype(np.int64))
    return np.where(label < 0, -1, label * n_cells + cell)


def _by_interval(params: Params, quality: FloatArray, y: NDArray[Any]) -> IntArray:
    n = len(params["thresholds"]) - 1
    return _cell(params, quality, y, n, (n - 1, 0))


def _by_label(params: Params, quality: FloatArray, y: NDArray[Any]) -> IntArray:
    # The next label is as wrong as any other.
    n = len(params["classes"])
    return _cell(params, quality, y, n, np.roll(np.arange(n), -1))


def _by_right_or_wrong(
    params: Params, quality: FloatArray, y: NDArray[Any]
) -> IntArray:
    # All counts of right predictions come before the counts of wrong ones.
    label = label_codes(y, params["classes"])
    return np.where(label < 0, -1, label + len(params["classes"]) * (quality != 1))


# A record adds 1 to at most one count.
_ONE_COUNT: dict[tuple[Adjacency, int], float] = {
    ("replace_one", 1): 2.0,
    ("replace_one", 2): math.sqrt(2) * (1 + 1e-12),
    ("zero_out", 1): 1.0,
    ("zero_out", 2): 1.0,
}
CURVE = Addend(moved=_ONE_COUNT, spread=_by_interval, worst=_FAILED, is_counted=True)
CONFUSION = replace(CURVE, spread=_by_label)
RECALLS = replace(CURVE, spread=_by_right_or_wrong)


def interval_of(params: Params, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
    """Index of the interval of the predicted probability of the positive label."""
    proba = np.asarray(estimator.predict_proba(X), dtype=np.float64)
    known = list(estimator.classes_)
    if proba.shape != (len(y), len(known)):
        raise ValueError
    positive = proba[:, known.index(params["classes"][1])]
    # A probability at a threshold is above it.
    cell = np.searchsorted(params["thresholds"][1:-1], positive, side="right")
    return np.where(np.isnan(positive), _FAILED, cell)


def label_of(params: Params, estimator: Any, X: Any, y: NDArray[Any]) -> IntArray:
    """Index of the predicted label."""
    return label_codes(column(estimator.predict(X), len(y)), params["classes"])


def is_right(params: Params, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
    """1 where the predicted label is the true one, else 0."""
    predicted = column(estimator.predict(X), len(y))
    return np.broadcast_to(predicted == y, y.shape).astype(np.float64)


# ---------------------------- Disagreements: which of two classifiers labels more right


def _apart(estimators: Any, X: Any, y: NDArray[Any]) -> FloatArray:
    """1 where only the first of two models is right, -1 where only the second is."""
    # The models may take the rows of a source in different forms; from a table each
    # model has a copy that it may change.
    tables = X.tables if isinstance(X, RowsForEach) else [X] * len(estimators)
    first, second = (
        is_right({}, each, rows_at(table, np.arange(len(y))), y)
        for each, table in zip(estimators, tables, strict=True)
    )
    return first - second


def _by_winner(params: Params, quality: FloatArray, y: NDArray[Any]) -> IntArray:
    return np.select([quality > 0, quality < 0], [0, 1], -1)


def _difference(params: Params, statistic: FloatArray, n_samples: int) -> float:
    first, second = statistic
    return float(np.clip((first - second) / n_samples, -1.0, 1.0))


# Records that only the first of two classifiers labels right, and only the second. One
# for which a classifier raises counts for neither.
DISAGREEMENTS = NamedScoring(
    name="disagreements",
    per_record=_apart,
    lowest=-1.0,
    highest=1.0,
    task="classification",
    params={},
    added=replace(CURVE, spread=_by_winner, worst=0.0),
    size=2,
    of_sums=_difference,
)


# ------------------------------------------------------- Labels, and scores from counts


def checked_thresholds(thresholds: Any) -> tuple[float, ...]:
    """Ends of intervals as floats that rise from 0 to 1, or an error."""
    try:
        found = tuple(float(end) for end in thresholds)
    except (TypeError, ValueError):
        found = ()
    is_rising = bool(np.all(np.diff(found) > 0))
    is_whole = len(found) > 2 and (found[0], found[-1]) == (0.0, 1.0)
    if not (is_whole and is_rising and len(found) <= _MOST_INTERVALS + 1):
        raise ValueError(
            "The 'thresholds' must be numbers that rise from 0 to 1, 3 to "
            f"{_MOST_INTERVALS + 1} of them. Got {thresholds!r}. Use for example "
            "numpy.linspace(0, 1, 21), chosen without looking at the data."
        )
    return found


def label_codes(y: NDArray[Any], classes: tuple[Any, ...]) -> IntArray:
    """Index of each record's label among the classes, -1 if it is none of them.

    The first match counts: different labels may be equal in the precision of `y`.
    """
    if y.dtype == object:  # whose comparison may raise, for one record
        code_of = {label: code for code, label in enumerate(classes)}
        return np.array([_code(code_of, label) for label in y], dtype=np.int64)
    found = np.column_stack([np.broadcast_to(y == label, y.shape) for label in classes])
    return np.where(found.any(axis=1), found.argmax(axis=1), -1)


def _code(code_of: dict[Any, int], label: Any) -> int:
    try:
        return code_of.get(label, -1)
    except Exception:
        return -1


def mean_recall(counts: FloatArray) -> float:
    """Mean over the labels of the share of their records that are predicted right.

    Labels with less than half a record are left out, as scikit-learn leaves out those
    that do not occur.

    Parameters
    ----------
    counts : ndarray of shape (n_labels, 2)
        Records of each label that are predicted right, and wrong.
    """
    right, wrong = counts.T
    occurs = right + wrong >= 0.5
    if not occurs.any():
        return 0.0
    return float(np.mean(right[occurs] / (right + wrong)[occurs]))


def accuracy_of(confusion: FloatArray) -> float:
    """Share of the records on the diagonal."""
    return float(np.trace(confusion) / max(confusion.sum(), 1.0))


def balanced_accuracy_of(confusion: FloatArray) -> float:
    """Mean over all labels of the share of their records on the diagonal."""
    true = np.maximum(confusion.sum(axis=1), 0.5)
    return float(np.mean(np.diag(confusion) / true))


def f1_of_positive(confusion: FloatArray) -> float:
    """F1 score of the second of two labels."""
    return float(f_scores(confusion)[1])


def f1_macro(confusion: FloatArray) -> float:
    """Mean over the labels of the F1 score of each against the others.

    Labels with less than half a record, true or predicted, are left out, as
    scikit-learn leaves out those that do not occur.
    """
    occurs = confusion.sum(axis=0) + confusion.sum(axis=1) >= 0.5
    return float(f_scores(confusion)[occurs].mean()) if occurs.any() else 0.0


def f_scores(confusion: FloatArray, beta: float = 1.0) -> FloatArray:
    """F score of each label against the others; 0 where there is nothing.

    Parameters
    ----------
    confusion : ndarray of shape (n_labels, n_labels)
        True labels by predicted ones.
    beta : float, default=1.0
        Weight of recall over that of precision.
    """
    right, true = np.diag(confusion), confusion.sum(axis=1)
    predicted = confusion.sum(axis=0)
    below = beta**2 * true + predicted
    out = np.zeros_like(right)
    found = np.divide((1 + beta**2) * right, below, out=out, where=below >= 0.5)
    return np.asarray(found)


def roc_auc(counts: FloatArray) -> float:
    """Area under the ROC curve of counts of two labels by rising score.

    Within an interval records are ordered as the intervals beside it suggest. 1/2 where
    a label has less than half a record.
    """
    negative, positive = counts
    if min(negative.sum(), positive.sum()) < 0.5:
        return 0.5
    below = np.cumsum(negative) - negative / 2
    area = positive @ below + _ordered_within(counts)
    return float(np.clip(area / (positive.sum() * negative.sum()), 0.0, 1.0))


def _ordered_within(counts: FloatArray) -> float:
    """Pairs within the intervals that are in order, beyond one half of them.

    Derived in ``docs/proofs/scores.md``, for smooth densities of the labels.
    """
    negative, positive = counts
    first, second = (
        negative[:-by] @ positive[by:] - negative[by:] @ positive[:-by] for by in (1, 2)
    )
    return float(7 * first - second) / 60


def error_of_roc_auc(params: Params, statistic: FloatArray, noise: float) -> float:
    """The error of `roc_auc` by noise and by the order of records within intervals.

    `noise` is the root mean square change of the area by noise of the same size.
    """
    cells = np.reshape(statistic, (2, -1))
    counts = np.maximum(cells, 0.0)
    negative, positive = counts
    if min(cells.sum(axis=1)) < 0.5:
        return 1.0
    # Counts of at least 0 have records that are noise alone, which pull the area
    # towards that of positive records spread evenly over the intervals. A change of
    # the truth shows by this factor.
    shown = float(np.prod(cells.sum(axis=1) / counts.sum(axis=1)))
    even = np.ones_like(positive)
    pull = (1 / shown - 1) * (roc_auc(counts) - roc_auc(np.stack([negative, even])))
    # The variance of Mann and Whitney's statistic of records in a random order.
    in_any_order = positive * negative @ (positive + negative + 1) / 12
    # Of a model with a few predictions the records of an interval are tied: the
    # interval of 1.96 errors just holds an area without the correction.
    tied = in_any_order + (_ordered_within(counts) / 2) ** 2
    pairs = positive.sum() * negative.sum()
    return math.hypot(noise / shown, pull, math.sqrt(tied) / pairs)


def average_precision(counts: FloatArray) -> float:
    """Area under precision over recall, with labels spread evenly in each interval.

    0 where the positive label has less than half a record.
    """
    negative, positive = counts[:, ::-1]
    total = float(positive.sum())
    if total < 0.5:
        return 0.0
    true, called, area = 0.0, 0.0, 0.0
    for hits, false in zip(positive.tolist(), negative.tolist(), strict=True):
        area += _precision_area(true, called, hits, hits + false)
        true, called = true + hits, called + hits + false
    return float(np.clip(area / total, 0.0, 1.0))


def _precision_area(true: float, called: float, hits: float, more: float) -> float:
    """Integral of (true + hits t) / (called + more t) over t in [0, 1], times hits."""
    if hits <= 0:
        return 0.0
    slope = hits / more
    if called <= 0:
        return hits * slope
    return hits * (slope + (true - slope * called) / more * math.log1p(more / called))
