"""Sources as X of estimators: fit, predict and score."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import mean_tweedie_deviance
from sklearn.pipeline import Pipeline

from skdp._arrays import FloatArray, rows_in_places
from skdp._input import check_targets
from skdp._users import refuse_users
from skdp.io._external import TableSource
from skdp.io._external_users import Passed, Rows, SharesOfPasses
from skdp.io._passes import rows_of, rows_of_each, targets_too
from skdp.io._reading import Labels, NumberTargets
from skdp.io._rows import check_kind
from skdp.sums._record_sums import MOST_RECORDS, MOST_USERS, statistic_of_users
from skdp.tables._columns import as_declared
from skdp.tables._source import Facts, Records, Remote

# ----------------------------------------------------------------- Scores over a source
# They are scikit-learn's scores, not private, or statistics for private scores.


def score_of(model: Any, X: TableSource) -> float:
    """Accuracy of a classifier, R² or D² of a regressor, without null records."""
    X.target_kind()
    if is_classifier(model):
        return _accuracy(model, X)
    power = _deviance_power(model)
    return _r2(model, X) if power is None else _d2(model, X, power)


def default_score(model: Any) -> str:
    """Name of the score of `score_of`, for a model or a pipeline that ends with it."""
    if is_classifier(model):
        return "accuracy"
    last = model[-1] if isinstance(model, Pipeline) else model
    return "r2" if _deviance_power(last) is None else "d2"


def _deviance_power(model: Any) -> int | None:
    power: int | None = getattr(model, "_deviance_power", None)
    return power


def _accuracy(model: Any, X: TableSource) -> float:
    labels, right, n = Labels(model.classes_), 0, 0
    for rows, is_present, columns in rows_of(model, X, targets_too(X)):
        y, is_known = labels(columns.column(X.target))
        is_right = (model.predict(rows) == model.classes_[y.astype(int)]) & is_known
        right += int(is_right[is_present].sum())
        n += int(is_present.sum())
    return right / max(n, 1)


def _r2(model: Any, X: TableSource) -> float:
    numbers, shift, sums = NumberTargets(), None, np.zeros(4)
    for rows, is_present, columns in rows_of(model, X, targets_too(X)):
        y, is_known = numbers(columns.column(X.target))
        there = is_present & is_known
        wrong, y = (y - model.predict(rows))[there], y[there]
        shift = y.mean() if shift is None and len(y) else shift
        moved = y - (0.0 if shift is None else shift)
        sums += [len(y), moved.sum(), np.sum(moved**2), np.sum(wrong**2)]
    n, total, squares, wrong_squares = sums
    return float(1 - wrong_squares / (squares - total**2 / max(n, 1)))


def _d2(model: Any, X: TableSource, power: int) -> float:
    """Deviances about the mean are deviances about 1, less n times the mean's deviance.

    In units of the highest mean, which is public: D² has no units, and deviances about
    a 1 that is far from all targets would cancel.
    """
    numbers, sums, unit = NumberTargets(), np.zeros(4), math.exp(model._log_bounds[1])
    for rows, is_present, columns in rows_of(model, X, targets_too(X)):
        y, is_known = numbers(columns.column(X.target))
        there = is_present & is_known
        if not there.any():
            continue
        y, found = y[there] / unit, model.predict(rows)[there] / unit
        n = len(y)
        left = mean_tweedie_deviance(y, found, power=power)
        about_one = mean_tweedie_deviance(y, np.ones(n), power=power)
        sums += [n, y.sum(), n * left, n * about_one]
    count, total, wrong, about_one = sums
    of_mean = mean_tweedie_deviance([total / max(count, 1)], [1.0], power=power)
    return float(1 - wrong / (about_one - count * of_mean))


class SourceScores(Records):
    """Records of a source on which one model, or several, are scored.

    Parameters
    ----------
    X : TableSource
    """

    def __init__(self, X: TableSource) -> None:
        self.X = X
        self.facts = Facts(
            n_samples=X.n_samples, largest_block=min(X.batch_size, X.n_samples)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # On arrival, the number of records is that of the local table.
        return type(self), (self.X,)

    @property
    def remote(self) -> Remote | None:
        """Where records of several owners are scored; None if they are read here."""
        return self.X.remote if self.X.is_shared else None

    def statistic(self, scorer: Any, model: Any) -> FloatArray:
        """The exact statistic of all records but null records. Private.

        `model` is a fitted model, or a tuple of models that are compared.
        """
        total = np.zeros(scorer.size)
        for read in _read(self.X, scorer, model):
            if not read.there.any():
                continue
            # In a block of the same shape: no other row's last bits may depend on
            # whether one is present. The rows that replace absent rows have no weight.
            is_there = read.there
            places = np.where(is_there, np.arange(len(is_there)), np.argmax(is_there))
            some = rows_in_places(read.rows, places)
            total += scorer.statistic(model, some, read.y[places], 1.0 * is_there)
        return total


class SourceUsers(SourceScores):
    """Users of a source, each of whom counts once, with the mean over the user's rows.

    Parameters
    ----------
    X : TableSource
        With `groups`.
    """

    def __init__(self, X: TableSource) -> None:
        super().__init__(X)
        # How many rows there are is private.
        self.facts = replace(self.facts, largest_block=X.batch_size, is_of_users=True)

    def statistic(self, scorer: Any, model: Any) -> FloatArray:
        """The exact statistic on these users. Private."""
        total, users, name = np.zeros(scorer.size), self.X.users, self.X.groups
        assert name is not None  # since there are `users`
        shares = SharesOfPasses(
            users, name, self.X.has_fixed_order, lambda: _passed(self.X, model)
        ).anew()
        for read in _read(self.X, scorer, model):
            rows = Rows(read.columns, read.is_present)
            codes = shares.codes(rows)
            own = shares.of(rows, codes)
            own[~read.there] = 0.0
            places = users.places[codes]
            total += statistic_of_users(scorer, model, read.rows, read.y, own, places)
        return total


@dataclass(frozen=True, eq=False)
class _Read:
    """Some rows in the form of one model, or of several."""

    rows: Any
    y: Any
    is_present: Any
    there: Any  # with a target, too
    columns: Any


def _read(X: TableSource, scorer: Any, model: Any) -> Iterator[_Read]:
    """One pass over rows with their targets."""
    targets = _targets_of(scorer, model)
    for rows, is_present, columns in _passed(X, model):
        y, is_known = targets(columns.column(X.target))
        if isinstance(targets, Labels):
            y = targets.classes[y.astype(int)]
        yield _Read(rows, y, is_present, is_present & is_known, columns)


def _passed(X: TableSource, model: Any) -> Passed:
    """One pass over rows without targets."""
    passed = rows_of_each if isinstance(model, tuple) else rows_of
    also = targets_too(X) if X.groups is None else (*targets_too(X), X.groups)
    return passed(model, X, also)


def scores_of(
    X: TableSource, scorer: Any, model: Any, *, is_private: bool
) -> SourceScores:
    """Records to be scored, or users, or an error before any row is read."""
    if not is_private:
        raise ValueError(
            "The 'epsilon' argument must be finite with a source. Got inf. Use "
            "model.score(source), which is not private."
        )
    most = MOST_RECORDS if X.groups is None else MOST_USERS
    if X.n_samples > most:
        raise ValueError(
            f"The source must have at most {most} records, or users, to be scored. Got "
            f"{X.n_samples}. Score a part of it."
        )
    read = _targets_of(scorer, model)
    check_kind(X, read.kind, "The targets of a score")
    return SourceScores(X) if X.groups is None else SourceUsers(X)


def _targets_of(scorer: Any, model: Any) -> Labels | NumberTargets:
    classes = getattr(scorer, "classes", None)
    if classes is None and isinstance(model, tuple):
        classes = np.concatenate([each.classes_ for each in model])
    elif classes is None and is_classifier(model):
        classes = model.classes_
    return (
        NumberTargets() if classes is None else Labels(np.unique(np.asarray(classes)))
    )


# -------------------------------------------------------- Estimators with a source as X


Model = TypeVar("Model")


def shown(X: Any) -> Any:
    """X, or one row that looks like a source's rows: for code that reads no values."""
    return X.sample_row() if isinstance(X, TableSource) else X


def fit_through(model: Model, X: Any, y: Any, fit: Callable[[], Any]) -> Model:
    """The result of a fit; a source gives the target, and its session stays open.

    Raises
    ------
    ValueError
        If there is a `y` beside a source, or columns are declared in two ways.
    """
    if not isinstance(X, TableSource):
        fit()
        return model
    _fit_source(model, X, y, fit)
    return model


def _fit_source(model: Any, X: TableSource, y: Any, fit: Callable[[], Any]) -> None:
    refuse_targets(y)
    given = model.get_params(deep=False)
    _check_unit(given, X)
    label = type(model).__name__ if given.get("verbose") else ""
    before = dict(vars(model))
    takes_columns = "columns" in given and X.columns is not None
    own = given.get("columns")
    if takes_columns:
        _check_same(own, X)
        model.columns = X.columns if own is None else own
    try:
        X.during(fit, label)
    except BaseException:
        # The result of a rehearsal must not be mistaken for a release.
        vars(model).clear()
        vars(model).update(before)
        raise
    finally:
        if takes_columns:
            model.columns = own
    record = getattr(model, "privacy_", None)
    if record is not None:
        public = dict.fromkeys((*record.assumed_public, *X.assumed_public))
        model.privacy_ = replace(record, assumed_public=tuple(public))


def _check_unit(given: dict[str, Any], X: TableSource) -> None:
    """Refuse a source of users for an estimator that takes rows for records."""
    takes_users = "epsilon" not in given or given.get("privacy_unit") == "user"
    if not takes_users:
        refuse_users(X)


def refuse_targets(y: Any) -> None:
    """Refuse a y beside a source."""
    if y is not None:
        raise ValueError(
            "The y argument must be left out with a source, which has its target. Got "
            "one. Name the column with target= where the source is made."
        )


def _check_same(own: Any, X: TableSource) -> None:
    declared = getattr(own, "columns", own)
    if own is None or as_declared(declared) == as_declared(X.columns):
        return
    raise ValueError(
        "The columns must be declared once. Got two different declarations, of the "
        "source and of the estimator. Leave one of them out."
    )


class TakesSources(ABC):
    """A model whose raw predictions of a source are made block by block."""

    @abstractmethod
    def _raw_rows(self, X: Any) -> FloatArray:
        """Raw predictions of rows in memory, each from its row alone."""

    def _raw(self, X: Any) -> FloatArray:
        """Raw predictions of rows, in memory or of a source."""
        if not isinstance(X, TableSource):
            return self._raw_rows(X)
        _check_ordered(X)
        predicted: FloatArray | None = X.during(lambda: self._raw_blocks(X))
        if predicted is None:
            raise ValueError(
                "The rows must be readable for predictions that are an array. Got "
                "missing or infinite values. Use source.predict_to(model, path, "
                "keys=[...]), which leaves such predictions empty."
            )
        return predicted

    def _raw_blocks(self, X: TableSource) -> FloatArray | None:
        """Raw predictions of all rows; None if some of them cannot be read."""
        parts = []
        for rows, is_present, _ in rows_of(self, X):
            if not is_present.all():
                return None
            parts.append(self._raw_rows(rows))
        return np.concatenate(parts)


class ScoresSources:
    """A classifier or regressor of scikit-learn's whose `score` takes a source."""

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy of a classifier, R² of a regressor; reads raw data, not private.

        Parameters
        ----------
        X : array-like, CSR, data frame or source of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Left out with a source, which has its target.
        sample_weight : array-like of shape (n_samples,) or None, default=None

        Returns
        -------
        float
        """
        if isinstance(X, TableSource):
            refuse_targets(y)
            return float(X.during(lambda: score_of(self, X)))
        # scikit-learn's mixin is the next class.
        return float(super().score(X, y, sample_weight))  # type: ignore[misc]


def _check_ordered(X: TableSource) -> None:
    if not X.is_ordered:
        raise ValueError(
            "The source must have an order for predictions that are an array. Got one "
            "without. Use source.predict_to(model, path, keys=[...]), which writes the "
            "keys beside them, or declare order_by."
        )


class AppendsToSources:
    """A transformer whose `transform` of a source appends itself to the source."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in ("transform", "fit_transform"):
            if hasattr(cls, name):
                setattr(cls, name, _appending(getattr(cls, name), name))


def _appending(method: Any, name: str) -> Any:
    @functools.wraps(method)
    def wrapped(self: Any, X: Any, *args: Any, **named: Any) -> Any:
        if not isinstance(X, TableSource):
            return method(self, X, *args, **named)
        if name == "fit_transform":
            refuse_targets(args[0] if args else named.get("y"))
            self.fit(X)
        return X.appended(self)

    return wrapped


# -------------------------------------------------------------- Targets of a regression


def targets_of(
    model: Any, X: Any, y: Any, then: Callable[[FloatArray], FloatArray]
) -> Any:
    """Finite targets, changed number by number by a public rule.

    Parameters
    ----------
    model : estimator
    X : rows as the model reads them
    y : array-like of shape (n_samples,), or None of a source
        Private.
    then : callable

    Returns
    -------
    ndarray of float64 of shape (n_samples,), or Numbers
        Targets of a source are read with its rows.
    """
    if not hasattr(X, "table"):
        return then(check_targets(model, X, y))
    check_kind(X.table, "number", "The targets of a regression")
    return NumberTargets(then)
