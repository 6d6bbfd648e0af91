"""Conformal intervals and sets around a fitted model, from one released histogram.

Derived in ``docs/proofs/scores.md``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin, is_classifier, is_regressor
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp._arrays import FloatArray, IntArray, count_rows
from skdp._checks import check_real, check_target_bounds
from skdp._fit import fit
from skdp._quiet import warn_once
from skdp.exceptions import NoiseDominatesWarning
from skdp.io._passes import shown_to
from skdp.io._table import Table
from skdp.model_selection._scorer_sums import (
    CURVE,
    NamedScoring,
    Params,
    label_codes,
    log_odds_grid,
)
from skdp.model_selection._scorers import _clipped, last_step
from skdp.model_selection._scores import (
    HOW_TO_PASS_USERS,
    ScoreRelease,
    ScoreStatistic,
    _accepted,
    _settled,
    _why_gaussian,
    count_of,
)
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._relations import Adjacency, TableUnit, table_relation
from skdp.privacy.noise._laws import deviation_once

# Numbers of intervals of residuals, and the number of records of a group times epsilon
# from which each is used. The threshold is known up to one interval, but the sum over
# more intervals has more noise. Settled on the width and the spread of the coverage of
# normal residuals (``python -m benchmarks conformal --set intervals=NUMBER``): half or
# twice the number costs up to a tenth of the width, at n * epsilon = 150 a third. With
# 16 intervals the mean coverage is 1.6 % too high at n = 500 and epsilon = 0.3.
_INTERVALS = {32: 0.0, 64: 1_000.0, 128: 4_000.0}
# The first interval of residuals ends near this share of the bound.
_FINEST = 2.0**-10
# Bound on the mean excess of the noise in a count over any level that it exceeds, in
# standard deviations: exact for Gaussian noise; sqrt(1/2) for Laplace noise.
_EXCESS = math.sqrt(2 / math.pi)
# A group has a threshold if the number of records above it is at least so many standard
# deviations of the noise that comes from the group's size, which is private.
_SURELY = 2.0

Score = Callable[[Params, Any, Any, NDArray[Any]], FloatArray]


# ------------------------------------------------ Cells of records: groups and scores


def _residual(params: Params, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
    """Absolute residuals in units of the largest one; NaN without a prediction."""
    predicted, target = _clipped(params, estimator, X, y)
    return np.asarray(np.abs(predicted - target) / params["residual_bound"])


def _doubt(params: Params, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
    """One minus the probability of the label; 1 for a label that is not known."""
    proba = np.asarray(estimator.predict_proba(X), dtype=np.float64)
    label = label_codes(y, tuple(estimator.classes_))
    if proba.shape != (len(y), len(estimator.classes_)):
        raise ValueError
    return np.where(label < 0, 1.0, 1 - proba[np.arange(len(y)), label])


def _cell(
    score: Score, params: Params, estimator: Any, X: Any, y: NDArray[Any]
) -> IntArray:
    """Cell of each record: groups in order, largest scores first; -1 for none."""
    last = len(params["thresholds"]) - 1
    found = score(params, estimator, X, y)
    # A score at a threshold is not above it; NaN is above all.
    below = np.searchsorted(params["thresholds"][:-1], found, side="left")
    group = _group(params["split_by"], X)
    return np.where(group < 0, -1, group * (last + 1) + last - below)


def _as_cell(params: Params, quality: FloatArray, y: NDArray[Any]) -> IntArray:
    return quality.astype(np.int64)


def _group(split_by: Mapping[Any, tuple[Any, ...]], X: Any) -> IntArray:
    """Number of each row's group; -1 for a value that is not declared."""
    found = np.zeros(count_rows(X), dtype=np.int64)
    for name, values in split_by.items():
        cells = X[name] if hasattr(X, "iloc") else _array(X)[:, name]
        code = label_codes(np.asarray(cells), values)
        is_one = (found >= 0) & (code >= 0)
        found = np.where(is_one, found * len(values) + code, -1)
    return found


def _array(X: Any) -> np.ndarray:
    """Rows that are no frame; one cell of a list does not decide the type of others."""
    return np.asarray(X, dtype=getattr(X, "dtype", object))


def _checked_split(split_by: Any, X: Any) -> dict[Any, tuple[Any, ...]]:
    """The values of each column that divides the records, or an error."""
    if split_by is None:
        return {}
    try:
        found = {name: tuple(dict.fromkeys(split_by[name])) for name in split_by}
        known = X.columns if hasattr(X, "iloc") else range(_array(X).shape[1])
        is_right = all(name in known and found[name] for name in found)
    except (TypeError, ValueError, IndexError):
        found, is_right = {}, False
    if not (is_right and found):
        raise ValueError(
            "The 'split_by' parameter must be None, or a mapping of columns of X to "
            "their values, as {'region': ['north', 'south']}. Columns of an array have "
            f"numbers, of a data frame names. Got {split_by!r}."
        )
    return found


# ------------------------------------------------------ How many intervals are left out


def most_missed(level: float, n_samples: Any, deviation: float) -> Any:
    """Largest noisy number of records above a threshold; below 0, there is none.

    Parameters
    ----------
    level : float in (0, 1)
        Least mean coverage.
    n_samples : float or ndarray
    deviation : float
        Standard deviation of the noise in one count.
    """
    return (1 - level) * (n_samples + 1) - 1 - _EXCESS * deviation


def intervals_left_out(counts: FloatArray, most: float, coin: float) -> int:
    """Number of intervals of the largest scores whose noisy sum is at most `most`.

    Of the two numbers next to the place where the sums first exceed `most`, one is
    drawn, so that the mean of the noisy sum is `most`.

    Parameters
    ----------
    counts : ndarray of shape (n_intervals,)
        From the largest scores. Released.
    most : float
    coin : float in [0, 1)
        A uniform draw. Public.
    """
    sums = np.append(0.0, np.cumsum(counts))
    above = np.flatnonzero(sums > most)
    first = int(above[0]) if above.size else len(sums)
    if not 0 < first < len(sums):
        return min(first, len(counts))
    share = (most - sums[first - 1]) / (sums[first] - sums[first - 1])
    return first if coin < share else first - 1


class ConformalPredictor(ScoreRelease):
    """A fitted model with a released histogram of its scores on held-out records."""

    estimator: Any
    confidence_level: float
    split_by: Any

    # Name of the scores, their task, the method of the model, and the scores.
    _kind: ClassVar[tuple[str, str, str, Score]]

    @abstractmethod
    def _facts(self, n_samples: float) -> tuple[tuple[float, ...], dict[str, Any]]:
        """Ends of intervals for so many records, rising to 1, and other facts."""

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Release the histogram of the scores of held-out records.

        Parameters
        ----------
        X : array-like, CSR, data frame or source of shape (n_samples, n_features)
            Records to which `estimator` was not fitted.
        y : array-like of shape (n_samples,)
            Labels, or finite targets. Left out with a source, which has its target.
        %(groups)s

        Returns
        -------
        self

        Raises
        ------
        %(ValueError, BudgetExceeded)s
        """
        with self._all_or_nothing():
            return Table.of(X, y, groups).fitted(self, self._fit_table)

    def _fit_table(self, table: Table) -> None:
        budget = self._check_privacy_params()
        _check_level(self.confidence_level)
        check_is_fitted(self.estimator)
        users = table.users_of_release(self, budget, HOW_TO_PASS_USERS)
        shown = table.X if table.holds_rows else shown_to(self.estimator, table.X)
        split_by = _checked_split(self.split_by, shown)
        n_groups = math.prod(map(len, split_by.values()))
        self._check_kind()
        ends, facts = self._facts(count_of(table, users) / n_groups)
        scoring = self._scoring(ends, n_groups, facts | {"split_by": split_by})
        gaussian = _why_gaussian(table, has_ledger=self.ledger is not None)
        solver, why = _settled(
            ScoreStatistic, self.estimator, scoring, budget, self.adjacency, gaussian
        )
        scored = _accepted(self.estimator, scoring, table, users, budget)
        validate_data(self, shown, reset=True, skip_check_array=True)
        planned, budget = self._planned(solver, why, scored, type(self).__name__)
        warned = self._warned_of_noise(solver, budget, scored.n_samples)
        door = self._door(budget)
        self._coin = door.public_seed() / 2**32
        released = fit(self, planned, scored, door, notes=warned)
        self._params, self._n_samples = scoring.params, scored.n_samples
        self._deviation = released.deviation
        self.thresholds_ = np.array(ends)
        shape = *map(len, split_by.values()), len(ends)
        self.counts_ = released.value.reshape(shape)
        self.quantile_ = self._quantile(self.confidence_level)

    def _check_kind(self) -> None:
        _, task, method, _ = self._kind
        is_kind = is_regressor if task == "regression" else is_classifier
        if not (is_kind(self.estimator) and hasattr(self.estimator, method)):
            raise ValueError(
                f"The 'estimator' parameter must be a fitted model of {task} with "
                f"{method}. Got {type(last_step(self.estimator)).__name__}. Pass "
                "another model."
            )

    def _scoring(
        self, ends: tuple[float, ...], n_groups: int, facts: dict[str, Any]
    ) -> NamedScoring:
        """A count of records by group and score."""
        name, task, method, score = self._kind
        # The largest score; the group of a record on which the model raises is unknown.
        worst = -1.0 if facts["split_by"] else 0.0
        return NamedScoring(
            name=name,
            per_record=partial(_cell, score, facts | {"thresholds": ends}),
            lowest=0.0,
            highest=1.0,
            task=task,
            response_method=method,
            # Without the ends, which privacy records would show.
            params=facts | {"n_intervals": len(ends)},
            added=replace(CURVE, spread=_as_cell, worst=worst),
            size=n_groups * len(ends),
            of_sums=None,
        )

    def _warned_of_noise(
        self, solver: ScoreStatistic[Any], budget: Budget, n_samples: int
    ) -> tuple[str, ...]:
        """Warn if public facts alone say that every region will have everything."""
        law, scoring = solver.law, solver.scoring
        if law is None:
            return ()
        moved = scoring.sensitivity(table_relation(self.adjacency), law.norm)
        deviation = moved * deviation_once(law, budget, scoring.size)
        if most_missed(self.confidence_level, n_samples, deviation) >= 0:
            return ()
        least = (1 + _EXCESS * deviation) / (1 - self.confidence_level)
        hidden = "noise hides all scores: every interval is the whole declared range, "
        hidden += "or every set has all labels"
        remedy = f"Use {math.ceil(least)} records or more, or a larger epsilon."
        warn_once(f"At this budget {hidden}. {remedy}", NoiseDominatesWarning)
        return (hidden,)

    def _quantile(self, level: float) -> FloatArray:
        """Largest score within a region, for each group; inf if all are within."""
        counts = self.counts_.reshape(-1, len(self.thresholds_))
        n_samples, least = np.full(len(counts), float(self._n_samples)), 0.0
        if self._params["split_by"]:
            n_samples = counts.sum(axis=1)
            of_size = self._deviation * math.sqrt(counts.shape[1])
            least = _SURELY * (1 - level) * of_size
        most = most_missed(level, n_samples, self._deviation)
        left_out = [
            intervals_left_out(own, above if above >= least else -1.0, self._coin)
            for own, above in zip(counts, most.tolist(), strict=True)
        ]
        # If no interval is left out, every score is within.
        ends = np.array([np.inf, *self.thresholds_[-2::-1], 0.0])
        found = np.reshape(ends[left_out], self.counts_.shape[:-1])
        return np.asarray(found * self._params.get("residual_bound", 1.0))

    def _quantile_of_rows(self, X: Any, level: float | None) -> FloatArray:
        """The quantile of each row's group; inf for a group that is not declared."""
        level = self.confidence_level if level is None else level
        _check_level(level)
        split_by = self._params["split_by"]
        if split_by and not Table.of(X).holds_rows:
            raise TypeError(
                "The X argument must be a table in memory with 'split_by'. Got a "
                "source. Pass rows of the source as a data frame."
            )
        quantiles = np.append(self._quantile(level).ravel(), np.inf)
        return quantiles[_group(split_by, X)] if split_by else quantiles[0]

    def _predicted(self, X: Any, method: str) -> Any:
        check_is_fitted(self, "counts_")
        found = getattr(self.estimator, method)(X)  # whose errors say more
        if Table.of(X).holds_rows:
            validate_data(self, X, reset=False, skip_check_array=True)
        return found

    def predict(self, X: Any) -> np.ndarray:
        """The predictions of `estimator`.

        Parameters
        ----------
        X : array-like, CSR, data frame or source of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return np.asarray(self._predicted(X, "predict"))

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.estimator)


def _check_level(level: Any) -> None:
    check_real(
        "confidence_level", level, low=0.0, high=1.0, low_open=True, high_open=True
    )


class DPConformalRegressor(RegressorMixin, ConformalPredictor):
    """Prediction intervals around any fitted regressor, from one private histogram.

    `fit` counts the absolute residuals of held-out records in intervals, with noise
    (split conformal prediction). A new target lies in its interval with a mean
    probability of at least `confidence_level`, over the held-out records, the noise
    and the new record, whatever the distribution of the records and whatever the model
    (``docs/proofs/scores.md``).

    **Privacy.** (epsilon, delta)-differential privacy for one held-out record of (X,
    y), under `adjacency`, with the number of records public, or for all rows of one
    user, with the number of users public. `estimator` counts as public, as in
    `private_score`: fit it privately, or to public records. A record on which it raises
    counts as the largest residual, or in no group.

    Parameters
    ----------
    estimator : fitted regressor
        Its prediction for a row must follow from that row alone. Within
        `sklearn.base.clone` wrap it in `sklearn.frozen.FrozenEstimator`.
    confidence_level : float in (0, 1), default=0.95
        Least mean coverage.
    %(epsilon, delta, adjacency, privacy_unit)s
    target_bounds : pair of floats or None, default=None
        Lowest and highest target, known without looking at the data; targets,
        predictions and intervals are clipped to them. None: the estimator's.
    residual_bound : float or None, default=None
        Residuals are clipped to this number, known without looking at the data, in
        units of the target. Smaller ones than the default make the intervals of few
        records narrower, if few residuals are clipped. None: the width of the bounds.
    split_by : mapping or None, default=None
        Columns of X and their declared values, for example
        ``{"region": ["north", "south"]}``: each combination is a group with its own
        intervals, whose coverage holds for the group. Needs data frames, arrays, or a
        source whose columns `estimator` reads by their names.
    %(random_state, ledger)s

    Attributes
    ----------
    quantile_ : ndarray of shape (), or with one axis for each column of `split_by`
        Half the width of the intervals, in units of the target; inf if noise hides it
        and the interval is the whole range. Private output.
    counts_ : ndarray of shape (..., n_intervals)
        Noisy numbers of records by residual, of each group, from the largest. Private
        output.
    thresholds_ : ndarray of shape (n_intervals,)
        Largest residuals of the intervals, rising, in units of `residual_bound`.
        Public.
    %(privacy_, n_features_in_, feature_names_in_)s

    See Also
    --------
    DPConformalClassifier : Sets of labels.
    DPQuantileRegressor : Quantiles that differ from row to row.

    Notes
    -----
    The threshold is one of two neighbouring ends of intervals, which is drawn, so that
    the coverage does not depend on how wide intervals are.

    References
    ----------
    Papadopoulos, Proedrou, Vovk and Gammerman (2002), Inductive confidence machines for
    regression; for groups Vovk, Lindsay, Nouretdinov and Gammerman (2003), Mondrian
    confidence machine.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from skdp import DPConformalRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 8, (9000, 1))
    >>> y = X[:, 0] + rng.normal(0, 1, 9000)
    >>> model = LinearRegression().fit(X[:1000], y[:1000])
    >>> found = DPConformalRegressor(model, epsilon=1.0, target_bounds=(-5, 15))
    >>> ends = found.fit(X[1000:5000], y[1000:5000]).predict_interval(X[5000:])
    >>> held = (ends[:, 0] <= y[5000:]) & (y[5000:] <= ends[:, 1])
    >>> bool(0.9 < held.mean() < 0.99)
    True
    """

    _kind = "absolute_residual", "regression", "predict", _residual
    __sklearn_tags__ = ConformalPredictor.__sklearn_tags__

    def __init__(
        self,
        estimator: Any,
        *,
        confidence_level: float = 0.95,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        adjacency: Adjacency = "replace_one",
        privacy_unit: TableUnit = "record",
        target_bounds: Any = None,
        residual_bound: float | None = None,
        split_by: Mapping[Any, Any] | None = None,
        random_state: int | None = None,
        ledger: Any = None,
    ) -> None:
        super().__init__(epsilon, delta, adjacency, random_state, ledger, privacy_unit)
        self.estimator = estimator
        self.confidence_level = confidence_level
        self.target_bounds = target_bounds
        self.residual_bound = residual_bound
        self.split_by = split_by

    def _facts(self, n_samples: float) -> tuple[tuple[float, ...], dict[str, Any]]:
        bounds = self.target_bounds
        if bounds is None:
            bounds = getattr(last_step(self.estimator), "target_bounds", None)
        low, high = check_target_bounds(bounds)
        most = high - low
        if self.residual_bound is not None:
            most = check_real(
                "residual_bound", self.residual_bound, low=0, high=most, low_open=True
            )
        size = n_samples * self.epsilon if n_samples else 0.0
        n = max(n for n, least in _INTERVALS.items() if size >= least)
        ends = _FINEST ** (1 - np.arange(1, n + 1) / n)
        facts = {"low": low, "high": high, "residual_bound": most}
        return tuple(ends.tolist()), facts

    def predict_interval(
        self, X: Any, confidence_level: float | None = None
    ) -> FloatArray:
        """Lower and upper ends of the intervals. Post-processing.

        Parameters
        ----------
        X : array-like, CSR, data frame or source of shape (n_samples, n_features)
        confidence_level : float in (0, 1) or None, default=None
            Another level, which costs nothing. None: the parameter.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Within `target_bounds`. The bounds themselves for a row without a finite
            prediction, or of a group that is not declared.
        """
        middle = self.predict(X).astype(np.float64).ravel()
        low, high = self._params["low"], self._params["high"]
        half = self._quantile_of_rows(X, confidence_level)
        half = np.where(np.isfinite(middle), half, np.inf)
        middle = np.clip(np.nan_to_num(middle), low, high)
        return np.clip(np.column_stack([middle - half, middle + half]), low, high)


class DPConformalClassifier(ClassifierMixin, ConformalPredictor):
    """Sets of labels around any fitted classifier, from one private histogram.

    `fit` counts one minus the probability of the label, of held-out records, in
    intervals, with noise. The set of a new record has every label whose probability is
    at least a threshold. It contains the true label with a mean probability of at least
    `confidence_level`, over the held-out records, the noise and the new record,
    whatever the distribution of the records and whatever the model
    (``docs/proofs/scores.md``). Sets may be empty.

    **Privacy.** As for `DPConformalRegressor`. A label that `estimator` does not know
    counts as one of probability 0.

    Parameters
    ----------
    estimator : fitted classifier
        Has `predict_proba`. Its prediction for a row must follow from that row alone.
        Within `sklearn.base.clone` wrap it in `sklearn.frozen.FrozenEstimator`.
    confidence_level : float in (0, 1), default=0.95
        Least mean coverage.
    %(epsilon, delta, adjacency, privacy_unit)s
    split_by : mapping or None, default=None
        As in `DPConformalRegressor`.
    %(random_state, ledger)s

    Attributes
    ----------
    quantile_ : ndarray of shape (), or with one axis for each column of `split_by`
        One minus the least probability of a label in a set; inf if noise hides it and
        sets have all labels. Private output.
    counts_ : ndarray of shape (..., n_intervals)
        Noisy numbers of records by one minus the probability of the label, of each
        group, from the largest. Private output.
    thresholds_ : ndarray of shape (n_intervals,)
        Upper ends of the intervals, rising to 1. Public.
    classes_ : ndarray of shape (n_classes,)
        The labels of `estimator`. Public.
    %(privacy_, n_features_in_, feature_names_in_)s

    See Also
    --------
    DPConformalRegressor : Intervals.
    DPCalibratedClassifier : Calibrated probabilities.

    References
    ----------
    Sadinle, Lei and Wasserman (2019), Least ambiguous set-valued classifiers with
    bounded error levels.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skdp import DPConformalClassifier
    >>> X, y = make_classification(9000, 5, random_state=0)
    >>> model = LogisticRegression().fit(X[:1000], y[:1000])
    >>> found = DPConformalClassifier(model).fit(X[1000:5000], y[1000:5000])
    >>> sets = found.predict_set(X[5000:])
    >>> bool(0.9 < sets[range(4000), y[5000:]].mean() < 0.99)
    True
    """

    _kind = "label_doubt", "classification", "predict_proba", _doubt
    __sklearn_tags__ = ConformalPredictor.__sklearn_tags__

    def __init__(
        self,
        estimator: Any,
        *,
        confidence_level: float = 0.95,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        adjacency: Adjacency = "replace_one",
        privacy_unit: TableUnit = "record",
        split_by: Mapping[Any, Any] | None = None,
        random_state: int | None = None,
        ledger: Any = None,
    ) -> None:
        super().__init__(epsilon, delta, adjacency, random_state, ledger, privacy_unit)
        self.estimator = estimator
        self.confidence_level = confidence_level
        self.split_by = split_by

    @property
    def classes_(self) -> np.ndarray:
        return np.asarray(self.estimator.classes_)

    def _facts(self, n_samples: float) -> tuple[tuple[float, ...], dict[str, Any]]:
        return log_odds_grid(n_samples, self.epsilon)[1:], {}

    def predict_set(
        self, X: Any, confidence_level: float | None = None
    ) -> NDArray[np.bool_]:
        """Which labels are in the set of each row. Post-processing.

        Parameters
        ----------
        X : array-like, CSR, data frame or source of shape (n_samples, n_features)
        confidence_level : float in (0, 1) or None, default=None
            Another level, which costs nothing. None: the parameter.

        Returns
        -------
        ndarray of bool of shape (n_samples, n_classes)
            Columns in the order of `classes_`. All True for a row of a group that is
            not declared; a label without a probability is in the set.
        """
        doubt = 1 - np.asarray(self._predicted(X, "predict_proba"), dtype=np.float64)
        most = self._quantile_of_rows(X, confidence_level)
        return ~(doubt > np.reshape(most, (-1, 1)))
