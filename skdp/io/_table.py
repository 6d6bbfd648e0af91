"""`Table`: what an estimator was given, in memory or in a source."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar, cast
from weakref import WeakValueDictionary

import numpy as np
from scipy.sparse import issparse

from skdp._arrays import FloatArray, count_rows
from skdp._input import (
    check_targets,
    declared_alone,
    encode_labels,
    refuse_several_targets,
)
from skdp._users import (
    HOW_TO_PASS,
    RemoteUsers,
    Users,
    UsersToFit,
    check_named,
    refuse_exact,
    refuse_ids,
    refuse_users,
)
from skdp.io._external import TableSource
from skdp.io._passes import rows_of
from skdp.io._reading import Labels, NumberTargets
from skdp.io._rows import PresentOnly, StreamRows, check_kind
from skdp.io._scores import score_of
from skdp.privacy.accounting._calibrate import Budget
from skdp.tables._columns import as_declared
from skdp.tables._memory import MemorySource
from skdp.tables._source import Source

# -------------------------------------------------------------------- Table: two places


Model = TypeVar("Model")
Result = TypeVar("Result")
# Changes each target by itself, by a public rule.
Scaling = Callable[[FloatArray], FloatArray]


def scaling(
    low: float, high: float, middle: float, scale: float, most: float = math.inf
) -> Scaling:
    """Targets clipped to [low, high], as ``(y - middle) / scale`` within `most`.

    Equal arguments give scalings that are pickled to the same bytes.
    """
    return functools.partial(_scaled, low, high, middle, scale, most)


def _scaled(
    low: float, high: float, middle: float, scale: float, most: float, y: FloatArray
) -> FloatArray:
    units = (np.clip(y, low, high) - middle) / scale
    return np.asarray(np.clip(units, -most, most))


@dataclass(frozen=True, eq=False)
class Table:
    """Rows in memory, with their targets and the ids of their users. Private.

    `SourceTable` is a table that is read where it lies.

    Parameters
    ----------
    X : array-like, CSR, data frame or source
    y : array-like of shape (n_rows,), or None
    groups : array-like of shape (n_rows,), or None

    Attributes
    ----------
    holds_rows : bool
        Whether the rows are in memory; public.
    columns : dict, tuple, Range or None
        Declarations of the columns that came with the rows; public.
    assumed_public : tuple of str
        What a guarantee takes as public beside a table's facts.
    is_shared : bool
        Whether several owners have the records; public.
    """

    X: Any
    y: Any = None
    groups: Any = None

    holds_rows: ClassVar[bool] = True

    @staticmethod
    def of(X: Any, y: Any = None, groups: Any = None) -> Table:
        """The table for the arguments of `fit`; no other code asks what X is."""
        kind = SourceTable if isinstance(X, TableSource) else Table
        return kind(X, y, groups)

    @property
    def columns(self) -> Any:
        return None

    @property
    def assumed_public(self) -> tuple[str, ...]:
        return ()

    @property
    def is_shared(self) -> bool:
        return False

    def count(self, n_shown: int) -> int:
        """Number of records of the table; its `sample` has `n_shown` rows."""
        return n_shown

    def sample(self, declared: Any = None) -> Any:
        """Rows for checks before a commit: all in memory, or a row of a source's form.

        Parameters
        ----------
        declared : dict, tuple, Range or None
            An estimator's declarations of the columns.
        """
        return self.X

    # ------------------------------------------------------------------------- for fits

    def during(self, call: Callable[[], Result], label: str = "") -> Result:
        """The result of a call that reads the table; a source is open meanwhile."""
        return call()

    def keep_cells(self) -> None:
        """Keep the cells of a source that is open, for several fits to it."""

    def keep_rows(self) -> None:
        """Keep encoded rows too, for fits whose number and kind are public."""

    def fitted(self, model: Model, fit: Callable[[Table], Any]) -> Model:
        """The model after a fit to this table.

        Raises
        ------
        ValueError
            If there is a `y` beside a source, or columns are declared in two ways.
        """
        fit(self)
        return model

    def refuse_targets(self) -> None:
        """Refuse a y beside a source."""

    def users(
        self, model: Any, budget: Budget, how: str = HOW_TO_PASS
    ) -> UsersToFit | None:
        """The users of the rows; None if the model's unit is a record.

        Parameters
        ----------
        model : estimator
            Its `privacy_unit` says whether there must be ids.
        budget : Budget
        how : str
            How to pass ids, for a user who has passed none.

        Raises
        ------
        ValueError, TypeError
            If there are ids but the unit is not "user", if the unit is "user" but there
            are no ids, or if `groups` are not ids.
        """
        if model.privacy_unit != "user":
            refuse_ids(self.groups)
            return None
        if self.groups is None:
            raise ValueError(
                "The groups argument must have the ids of users with "
                f"privacy_unit='user'. Got None. {how}"
            )
        return Users.of(self.groups, count_rows(self.X))

    def users_of_release(
        self, model: Any, budget: Budget, how: str = HOW_TO_PASS
    ) -> UsersToFit | None:
        """As `users`, for releases that can protect users only with noise."""
        refuse_exact(model, budget)
        return self.users(model, budget, how)

    def rows(
        self,
        sample: Any,
        encode: Callable[[Any], Any] | None = None,
        *,
        columns: Any = None,
        refuses_unknown: bool = False,
        allows_missing: bool = False,
        row_bytes: float = math.inf,
    ) -> Any:
        """The rows as solvers take them.

        Parameters
        ----------
        sample : ndarray or CSR
            The checked and encoded `sample`.
        encode : callable or None
            Encodes each row by itself; None: rows are taken as they are.
        columns : dict, tuple, Range or None, default=None
            Declarations of the columns.
        refuses_unknown, allows_missing
            As in `Reading`.
        row_bytes : float, default=inf
            As in `Facts`.

        Returns
        -------
        ndarray, CSR or StreamRows of shape (n_samples, n_features)
        """
        return sample

    def labels(self, model: Any, rows: Any) -> tuple[Any, Any]:
        """The public labels, sorted, and the index of each record's label."""
        return encode_labels(model, rows, self.y)

    def numbers(self, model: Any, rows: Any, scaled: Scaling) -> Any:
        """Finite targets, each `scaled`. Private."""
        refuse_several_targets(self.y, "MultiOutputRegressor")
        return scaled(check_targets(model, rows, self.y))

    def source(
        self, rows: Any, y: Any, users: UsersToFit | None, *, is_private: bool = True
    ) -> Source:
        """Rows with their targets for a solver; without targets if `y` is None."""
        y = np.zeros(rows.shape[0]) if y is None else y
        if users is None:
            return MemorySource(rows, y)
        return cast(Users, users).source(rows, y)

    # ---------------------------------------------------------------- for fitted models

    def raw(self, model: TakesSources) -> FloatArray:
        """Raw predictions of the rows."""
        return model._raw_rows(self.X)

    def score(self, model: ScoresSources, sample_weight: Any) -> float:
        """The model's scikit-learn score; not private."""
        return model._score_rows(self.X, self.y, sample_weight)


class SourceTable(Table):
    """A table that is a source, which is read where it lies."""

    holds_rows = False
    X: TableSource

    @property
    def columns(self) -> Any:
        return self.X.columns

    @property
    def assumed_public(self) -> tuple[str, ...]:
        return self.X.assumed_public

    @property
    def is_shared(self) -> bool:
        return self.X.is_shared

    def count(self, n_shown: int) -> int:
        return self.X.n_samples

    def sample(self, declared: Any = None) -> Any:
        return self.X.sample_row(declared)

    def during(self, call: Callable[[], Result], label: str = "") -> Result:
        return cast(Result, self.X.during(call, label))

    def keep_cells(self) -> None:
        self.X.keep_cells()

    def keep_rows(self) -> None:
        self.X.keep_rows()

    def fitted(self, model: Model, fit: Callable[[Table], Any]) -> Model:
        self._fitted(model, fit)
        return model

    def _fitted(self, model: Any, fit: Callable[[Table], Any]) -> None:
        X = self.X
        self.refuse_targets()
        given = model.get_params(deep=False)
        takes_users = "epsilon" not in given or given.get("privacy_unit") == "user"
        if not takes_users:
            refuse_users(X)
        verbose = given.get("verbose", False)
        label = type(model).__name__ if verbose or verbose is None else ""
        before = dict(vars(model))
        takes_columns = "columns" in given and X.columns is not None
        own = given.get("columns")
        if takes_columns:
            _check_same(own, X)
            model.columns = X.columns if own is None else own
        try:
            X.during(lambda: fit(self), label, is_asked=verbose is not None)
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

    def refuse_targets(self) -> None:
        if self.y is not None:
            raise ValueError(
                "The y argument must be left out with a source, which has its target. "
                "Got one. Name the column with target= where the source is made."
            )

    def users(
        self, model: Any, budget: Budget, how: str = HOW_TO_PASS
    ) -> UsersToFit | None:
        if model.privacy_unit != "user":
            refuse_ids(self.groups)
            refuse_users(self.X)
            return None
        check_named(self.X, self.groups)
        if not budget.is_finite:
            raise ValueError(
                "The 'epsilon' parameter must be finite with a source of users. Got "
                "inf. Read the table into memory for a fit without privacy."
            )
        return RemoteUsers(self.X.n_samples)

    def rows(
        self,
        sample: Any,
        encode: Callable[[Any], Any] | None = None,
        *,
        columns: Any = None,
        refuses_unknown: bool = False,
        allows_missing: bool = False,
        row_bytes: float = math.inf,
    ) -> Any:
        reading = self.X.reading(
            columns, refuses_unknown=refuses_unknown, allows_missing=allows_missing
        )
        return StreamRows(
            self.X,
            reading,
            encode or _as_read,
            sample.shape[1],
            sample.dtype,
            issparse(sample),
            sample,
            is_as_read=encode is None,
            row_bytes=row_bytes,
        )

    def labels(self, model: Any, rows: Any) -> tuple[Any, Any]:
        labels = Labels(declared_alone(model))
        check_kind(self.X, labels.kind, "The labels in 'classes'")
        return labels.classes, labels

    def numbers(self, model: Any, rows: Any, scaled: Scaling) -> Any:
        check_kind(self.X, "number", "The targets of a regression")
        return NumberTargets(scaled)

    def source(
        self, rows: Any, y: Any, users: UsersToFit | None, *, is_private: bool = True
    ) -> Source:
        source = rows.with_targets(y)
        # Without privacy there are no users of a source.
        return source if is_private else PresentOnly(source)

    def raw(self, model: TakesSources) -> FloatArray:
        if not self.X.is_ordered:
            raise ValueError(
                "The source must have an order if predictions are to be an array. Got "
                "one without. Use source.predict_to(model, path, keys=[...]), which "
                "writes the keys beside the predictions, or declare order_by."
            )
        predicted = self.during(lambda: self._raw_blocks(model))
        if predicted is None:
            raise ValueError(
                "The rows must be readable if predictions are to be an array. Got "
                "missing or infinite values. Use source.predict_to(model, path, "
                "keys=[...]), which leaves these predictions empty."
            )
        return predicted

    def _raw_blocks(self, model: TakesSources) -> FloatArray | None:
        """Raw predictions of all rows; None if some of them cannot be read."""
        parts = []
        for rows, is_present, _ in rows_of(model, self.X):
            if not is_present.all():
                return None
            parts.append(model._raw_rows(rows))
        return np.concatenate(parts)

    def score(self, model: ScoresSources, sample_weight: Any) -> float:
        self.refuse_targets()
        return self.during(lambda: float(score_of(model, self.X)))


def _as_read(rows: Any) -> Any:
    return rows


def _check_same(own: Any, X: TableSource) -> None:
    declared = getattr(own, "columns", own)
    if own is None or as_declared(declared) == as_declared(X.columns):
        return
    raise ValueError(
        "The columns must be declared once. Got two different declarations, of the "
        "source and of the estimator. Leave one of them out."
    )


# ------------------------------------------------------- Fitted models that take tables


class TakesSources(ABC):
    """A model whose raw predictions of a source are made block by block."""

    @abstractmethod
    def _raw_rows(self, X: Any) -> FloatArray:
        """Raw predictions of rows in memory, each from its row alone."""

    def _raw(self, X: Any) -> FloatArray:
        """Raw predictions of rows, in memory or of a source."""
        return Table.of(X).raw(self)


class ScoresSources:
    """A scikit-learn classifier or regressor whose `score` accepts a source."""

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
        return Table.of(X, y).score(self, sample_weight)

    def _score_rows(self, X: Any, y: Any, sample_weight: Any) -> float:
        # scikit-learn's mixin is the next class.
        return float(super().score(X, y, sample_weight))  # type: ignore[misc]


# ---------------------------------------------------- Transformers as steps of a source


class AppendsToSources:
    """A transformer whose `transform` of a source appends itself to the source.

    It must come first in the bases. It is a hook since scikit-learn's `set_output` is
    one: that wraps what a class defines, and would make a data frame of the source.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in ("transform", "fit_transform"):
            if hasattr(cls, name):
                setattr(cls, name, _appending(getattr(cls, name), name))


# Tables as they came out of a step that declares the norm of their rows.
_OF_DECLARED_NORM: WeakValueDictionary[int, Any] = WeakValueDictionary()


def has_declared_norm(X: Any) -> bool:
    """Whether X itself, not a part or a copy, came out of a step with a known norm."""
    return _OF_DECLARED_NORM.get(id(X)) is X


def _remembered(X: Any, step: Any) -> Any:
    if hasattr(step, "output_norm") and step.output_norm(None) is not None:
        _OF_DECLARED_NORM[id(X)] = X
    return X


def _appending(method: Any, name: str) -> Any:
    @functools.wraps(method)
    def wrapped(self: Any, X: Any, *args: Any, **named: Any) -> Any:
        y = args[0] if args else named.get("y")
        table = Table.of(X, y if name == "fit_transform" else None)
        if table.holds_rows:
            return _remembered(method(self, X, *args, **named), self)
        if name == "fit_transform":
            table.refuse_targets()
            self.fit(X)
        return _remembered(X.appended(self), self)

    return wrapped
