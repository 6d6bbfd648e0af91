"""Scores over a source: as scikit-learn has them, not private; and to be released."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import mean_tweedie_deviance
from sklearn.pipeline import Pipeline

from skdp._floats import FloatArray
from skdp._rows import rows_in_places
from skdp.data._source import Elsewhere
from skdp.io._passes import rows_of, rows_of_each, targets_too
from skdp.io._rows import check_kind
from skdp.io._table_source import TableSource
from skdp.io._targets import Labels, Numbers
from skdp.io._users import Passed, Rows, SharesOfPasses
from skdp.queries._scores import MOST_RECORDS, MOST_USERS
from skdp.queries._user_scores import statistic_of_users


def score_of(model: Any, X: TableSource) -> float:
    """Accuracy of a classifier, R² or D² of a regressor, without null records."""
    X.target_kind()
    if is_classifier(model):
        return _accuracy(model, X)
    power = _deviance_power(model)
    return _r2(model, X) if power is None else _d2(model, X, power)


def default_score(model: Any) -> str:
    """What `score_of` the model, or of a pipeline that ends with it, is called."""
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
    numbers, shift, sums = Numbers(), None, np.zeros(4)
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
    """Deviances about the mean are those about 1, less the mean's own, n times.

    In units of the highest mean, which is public: D² has no units, and deviances about
    a 1 that is far from all targets would cancel to nothing.
    """
    numbers, sums, unit = Numbers(), np.zeros(4), math.exp(model._log_bounds[1])
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


class SourceScores:
    """Records of a source, for what asks what a model is worth on them, or several.

    Parameters
    ----------
    X : TableSource
    """

    is_of_users = False

    def __init__(self, X: TableSource) -> None:
        self.X, self.n_samples = X, X.n_samples
        self.largest_block = min(X.batch_size, X.n_samples)

    def __reduce__(self) -> tuple[Any, ...]:
        # The number of records is that of the table where it arrives.
        return type(self), (self.X,)

    @property
    def elsewhere(self) -> Elsewhere | None:
        """Where records of several owners are scored; None if they come here."""
        return self.X.elsewhere if self.X.is_shared else None

    def statistic(self, scorer: Any, model: Any) -> FloatArray:
        """The exact statistic on what is no null record. Private.

        Of a fitted model, or of a tuple of them that are compared.
        """
        total = np.zeros(scorer.size)
        for read in _read(self.X, scorer, model):
            if not read.there.any():
                continue
            # In a block of the same shape: no other row's last bits may depend on
            # whether one is there. What stands in its place counts nothing.
            is_there = read.there
            places = np.where(is_there, np.arange(len(is_there)), np.argmax(is_there))
            some = rows_in_places(read.rows, places)
            total += scorer.statistic(model, some, read.y[places], 1.0 * is_there)
        return total


class SourceUsers(SourceScores):
    """Users of a source, each of whom counts once: the mean over the own rows.

    Parameters
    ----------
    X : TableSource
        With `groups`.
    """

    is_of_users = True

    def __init__(self, X: TableSource) -> None:
        super().__init__(X)
        self.largest_block = X.batch_size  # how many rows there are is private

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
    """Some rows as a model takes them, or several models."""

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
    """The same without targets."""
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


def _targets_of(scorer: Any, model: Any) -> Labels | Numbers:
    classes = getattr(scorer, "classes", None)
    if classes is None and isinstance(model, tuple):
        classes = np.concatenate([each.classes_ for each in model])
    elif classes is None and is_classifier(model):
        classes = model.classes_
    return Numbers() if classes is None else Labels(np.unique(np.asarray(classes)))
