"""What estimators do with a source as X."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from skdp._users import refuse_users
from skdp.columns import as_declared
from skdp.io._passes import rows_of
from skdp.io._scores import score_of
from skdp.io._table_source import TableSource

Model = TypeVar("Model")
_BY_ROW = ("predict", "predict_proba", "predict_log_proba", "decision_function")


def shown(X: Any) -> Any:
    """X, or one row that looks like those of a source: for what reads no values."""
    return X.stand_in() if isinstance(X, TableSource) else X


def fit_through(model: Model, X: Any, y: Any, fit: Callable[[], Any]) -> Model:
    """The result of a fit; of a source the target is its own, and its session is held.

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
        # What a rehearsal left must not be taken for a release.
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


class TakesSources:
    """A model whose predictions for a source are made block by block.

    Methods that predict row by row, and `score`, take a source as X.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in _BY_ROW:
            if name in vars(cls):
                setattr(cls, name, _by_blocks(vars(cls)[name]))
        if "fit" in vars(cls):
            setattr(cls, "fit", _with_targets(vars(cls)["fit"]))  # noqa: B010 - mypy knows no fit
        if hasattr(cls, "score"):
            setattr(cls, "score", _scored(cls.score))  # noqa: B010 - mypy knows no score


def _with_targets(fit: Any) -> Any:
    @functools.wraps(fit)
    def method(self: Any, *args: Any, **named: Any) -> Any:
        given = [*args[:1], *([named["X"]] if "X" in named else [])]
        is_alone = len(args) < 2 and "y" not in named
        if given and is_alone and not isinstance(given[0], TableSource):
            name = type(self).__name__
            raise TypeError(f"{name}.fit(): missing a required argument: 'y'.")
        return fit(self, *args, **named)

    return method


def _by_blocks(predict: Any) -> Any:
    @functools.wraps(predict)
    def method(self: Any, X: Any) -> Any:
        if not isinstance(X, TableSource):
            return predict(self, X)
        _check_ordered(X)
        predicted = X.during(lambda: _predicted(self, X, predict))
        if predicted is None:
            raise ValueError(
                "The rows must be readable for predictions that are an array. Got "
                "missing or infinite values. Use source.predict_to(model, path, "
                "keys=[...]), which leaves such predictions empty."
            )
        return predicted

    return method


def _check_ordered(X: TableSource) -> None:
    if not X.is_ordered:
        raise ValueError(
            "The source must have an order for predictions that are an array. Got one "
            "without. Use source.predict_to(model, path, keys=[...]), which writes the "
            "keys beside them, or declare order_by."
        )


def _predicted(model: Any, X: TableSource, predict: Any) -> Any:
    """Predictions of all rows; None if some of them cannot be read."""
    parts = []
    for rows, is_present, _ in rows_of(model, X):
        if not is_present.all():
            return None
        parts.append(predict(model, rows))
    return np.concatenate(parts)


def _scored(score: Any) -> Any:
    @functools.wraps(score)
    def method(self: Any, X: Any, *args: Any, **named: Any) -> Any:
        if not isinstance(X, TableSource):
            return score(self, X, *args, **named)
        refuse_targets(args[0] if args else named.get("y"))
        return X.during(lambda: score_of(self, X))

    return method


class AppendsToSources:
    """A transformer whose `transform` of a source is the source with it appended."""

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
