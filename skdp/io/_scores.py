"""Scores over a source: scikit-learn's, and statistics for private scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import mean_tweedie_deviance
from sklearn.pipeline import Pipeline

from skdp._arrays import FloatArray, rows_in_places
from skdp.io._external import TableSource
from skdp.io._external_users import Passed, Rows, SharesOfPasses
from skdp.io._passes import (
    alike,
    rows_of,
    rows_of_alike,
    rows_of_each,
    targets_too,
)
from skdp.io._reading import Labels, NumberTargets
from skdp.io._rows import check_kind
from skdp.sums._record_sums import MOST_RECORDS, MOST_USERS, statistic_of_users
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

    Users of a source with `groups` count once each, with the mean over their rows.

    Parameters
    ----------
    X : TableSource
    """

    def __init__(self, X: TableSource) -> None:
        self.X = X
        is_of_users = X.groups is not None
        self.facts = Facts(
            n_samples=X.n_samples,
            # How many rows users have is private.
            largest_block=X.batch_size
            if is_of_users
            else min(X.batch_size, X.n_samples),
            is_of_users=is_of_users,
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
        return self._in_one_pass(scorer, [model])[0]

    def statistics(self, scorer: Any, models: Sequence[Any]) -> list[FloatArray]:
        """The exact statistics of fitted models of the same labels. Private.

        Models that read the cells alike share one pass.
        """
        found: dict[int, FloatArray] = {}
        for group in alike(models, self.X):
            of_group = self._in_one_pass(scorer, [models[place] for place in group])
            found.update(zip(group, of_group, strict=True))
        return [found[place] for place in range(len(models))]

    def _in_one_pass(self, scorer: Any, models: Sequence[Any]) -> list[FloatArray]:
        if self.X.groups is not None:
            return self._of_users(scorer, models)
        totals = [np.zeros(scorer.size) for _ in models]
        for read in _read(self.X, scorer, models):
            if not read.there.any():
                continue
            # In a block of the same shape: no other row's last bits may depend on
            # whether one is present. The rows that replace absent rows have no weight.
            is_there = read.there
            places = np.where(is_there, np.arange(len(is_there)), np.argmax(is_there))
            for total, model, shown in zip(totals, models, read.shown, strict=True):
                some = rows_in_places(shown(read.rows), places)
                total += scorer.statistic(model, some, read.y[places], 1.0 * is_there)
        return totals

    def _of_users(self, scorer: Any, models: Sequence[Any]) -> list[FloatArray]:
        totals = [np.zeros(scorer.size) for _ in models]
        users, name = self.X.users, self.X.groups
        assert name is not None  # since there are `users`
        shares = SharesOfPasses(
            users, name, self.X.has_fixed_order, lambda: _passed(self.X, models)[0]
        ).anew()
        for read in _read(self.X, scorer, models):
            rows = Rows(read.columns, read.is_present)
            codes = shares.codes(rows)
            own = shares.of(rows, codes)
            own[~read.there] = 0.0
            places = users.places[codes]
            for total, model, shown in zip(totals, models, read.shown, strict=True):
                some = shown(read.rows)
                total += statistic_of_users(scorer, model, some, read.y, own, places)
        return totals


# Maps rows of a pass to the form of a model.
Shown = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class _Read:
    """Some rows as they were read, and the forms in which models take them."""

    rows: Any
    shown: Sequence[Shown]
    y: Any
    is_present: Any
    there: Any  # with a target, too
    columns: Any


def _read(X: TableSource, scorer: Any, models: Sequence[Any]) -> Iterator[_Read]:
    """One pass over rows with their targets, for models that are alike."""
    targets = _targets_of(scorer, models[0])
    passed, shown = _passed(X, models)
    for rows, is_present, columns in passed:
        y, is_known = targets(columns.column(X.target))
        if isinstance(targets, Labels):
            y = targets.classes[y.astype(int)]
        yield _Read(rows, shown, y, is_present, is_present & is_known, columns)


def _passed(X: TableSource, models: Sequence[Any]) -> tuple[Passed, Sequence[Shown]]:
    """One pass over rows without targets."""
    also = targets_too(X) if X.groups is None else (*targets_too(X), X.groups)
    if isinstance(models[0], tuple):
        return rows_of_each(models[0], X, also), [_for_each]
    return rows_of_alike(models, X, also)


def _for_each(rows: Any) -> Any:
    return rows


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
    return SourceScores(X)


def _targets_of(scorer: Any, model: Any) -> Labels | NumberTargets:
    classes = getattr(scorer, "classes", None)
    if classes is None and isinstance(model, tuple):
        classes = np.concatenate([each.classes_ for each in model])
    elif classes is None and is_classifier(model):
        classes = model.classes_
    return (
        NumberTargets() if classes is None else Labels(np.unique(np.asarray(classes)))
    )
