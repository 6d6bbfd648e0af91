"""The rows of a linear model: an array of numbers, or a table of declared columns."""

from __future__ import annotations

import math
from collections.abc import Sized
from dataclasses import dataclass
from functools import partial
from typing import Any

from scipy.sparse import issparse
from sklearn.base import clone

from skdp._base import PUBLIC_OF_DECLARED, PUBLIC_OF_TABLES, of_users
from skdp._checks import check_count
from skdp._export import Step, step
from skdp._fit import PlannedFit
from skdp._input import check_rows
from skdp._quiet import warn_once
from skdp._users import UsersToFit
from skdp.exceptions import UndeclaredRowsWarning
from skdp.io._table import Table, has_declared_norm
from skdp.pipeline._walk import leaf_in_pipeline
from skdp.preprocessing._cells import Cells
from skdp.preprocessing._encoder import Encoding, KnotRule, TableEncoder
from skdp.preprocessing._exported import features
from skdp.privacy.accounting._calibrate import Budget
from skdp.solvers._centred_rows import States
from skdp.solvers._default_rules import curve_intervals, signal_to_noise_of
from skdp.tables._centred import bytes_of_cells
from skdp.tables._source import NO_ROOM, STORED_BYTES, Source, bytes_to_keep, room_for

# In tables with more columns, numbers are encoded as lines instead of curves.
_MOST_CURVES = 100
# So few passes over a source are no surprise.
_FEW_PASSES = 20
# The default of `data_norm`; any other was chosen for the rows.
_DEFAULT_NORM = 1.0


def knots_within(
    budget: Budget, adjacency: str, users: UsersToFit | None = None, n_parts: int = 1
) -> KnotRule:
    """The number of knots that the noise of a budget allows; public facts only.

    With users, the number of users is used instead of the number of rows. `n_parts` is
    the number of parts of a stream, each as large as this table.
    """

    def knots(n_samples: int, n_columns: int) -> int:
        n_units = n_samples if users is None else users.n_users
        signal_to_noise = signal_to_noise_of(n_units * n_parts, budget, adjacency)
        return 1 + curve_intervals(signal_to_noise, n_columns)

    return knots


def knots_for(
    model: Any, budget: Budget, users: UsersToFit | None = None, n_parts: int = 1
) -> KnotRule:
    """The number of knots of the model that is continued, or `knots_within`."""
    given: Any = getattr(model, "init", None)
    encoder = getattr(given, "encoder_", None)
    if encoder is None or given._is_constant():
        return knots_within(budget, model.adjacency, users, n_parts)
    n_knots: int = encoder.n_knots_
    return lambda n_samples, n_columns: n_knots


@dataclass(frozen=True, eq=False)
class LinearRows:
    """The rows of a fit in the form that solvers take.

    Parameters
    ----------
    X : ndarray, CSR or StreamRows
        Rows of numbers, or encoded rows of a declared table, of norm at most 1. For
        rows that will be centred, their weights for the declared states. Private.
    n_features : int
        Number of features of the model.
    states : States or None, default=None
        The declared states of rows that will be centred.
    """

    X: Any
    n_features: int
    states: States | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows; for a source, the number of records or users."""
        return int(self.X.shape[0])


def rows_of_numbers(model: Any, table: Table, *, reset: bool) -> LinearRows:
    """Checked rows; `reset` as in `check_rows`."""
    sample = check_rows(model, table.sample(), reset=reset, accept_sparse=True)
    return LinearRows(table.rows(sample), sample.shape[1])


def rows_of_columns(
    table: Table,
    encoder: TableEncoder,
    encoding: Encoding,
    cells: list[Cells],
    *,
    is_centred: bool = False,
) -> LinearRows:
    """Encoded rows of a declared table; `cells` are those of the table's sample."""
    rows = table.rows(
        _encoded(encoding, cells, is_centred),
        partial(_encoded_frame, encoder, encoding, is_centred),
        columns=encoder.columns_,
        refuses_unknown=encoder.handle_unknown == "error",
        row_bytes=(
            bytes_of_cells(encoding.parts)
            if is_centred
            else encoding.most_entries * STORED_BYTES
        ),
    )
    states = states_of(encoding) if is_centred else None
    return LinearRows(rows, encoding.basis.shape[1], states)


def _encoded(encoding: Encoding, cells: list[Cells], is_centred: bool) -> Any:
    states = encoding.states(cells)
    return states if is_centred else encoding.rows_of(states, is_sparse=None)


def _encoded_frame(
    encoder: TableEncoder, encoding: Encoding, is_centred: bool, frame: Any
) -> Any:
    return _encoded(encoding, encoder._cells(frame), is_centred)


def encoder_of(
    columns: Any, budget: Budget | None = None, *, has_lines: bool = False
) -> TableEncoder:
    """The unfitted encoder for the `columns` parameter.

    Numbers are encoded as curves, or as lines if `has_lines`, if there are many columns
    or if delta is 0. With delta = 0 noise grows with the number of features, and curves
    were less accurate on eight tables for all epsilons up to 30.
    """
    if isinstance(columns, TableEncoder):
        encoder: TableEncoder = clone(columns)
        return encoder
    several = isinstance(columns, Sized) and len(columns) > _MOST_CURVES
    is_pure = budget is not None and budget.is_finite and budget.delta == 0
    is_linear = has_lines or several or is_pure
    return TableEncoder(columns, numeric="linear" if is_linear else "hats")


def encoded_unseen(
    columns: Any,
    n_samples: int,
    n_features: int | None,
    knots: KnotRule,
    budget: Budget,
    *,
    has_lines: bool = False,
) -> tuple[TableEncoder, Encoding]:
    """The fitted encoder and the encoding of a table of which only the shape is known.

    `n_features` is the number of columns, for one declaration of all columns.
    """
    encoder = encoder_of(columns, budget, has_lines=has_lines)
    n_samples = check_count("n_samples", n_samples)
    return encoder, encoder._fit_unseen(n_samples, n_features, knots)


def states_of(encoding: Encoding) -> States:
    """The declared states in the form that the default solver takes."""
    return States(encoding.parts, encoding.basis, encoding.weights)


def public_facts(columns: Any, users: UsersToFit | None = None) -> tuple[str, ...]:
    """The facts that a guarantee for the rows takes as public."""
    facts = PUBLIC_OF_TABLES if columns is None else PUBLIC_OF_DECLARED
    return facts if users is None else of_users(facts)


def _warn_of_undeclared_rows(model: Any, table: Table, budget: Budget) -> None:
    """Say once that nothing declares how long rows are; public facts only.

    The type of X, the model's parameters and the steps before the model are public.
    Nothing is said of sparse rows, which are mostly hashed texts, nor of a `data_norm`
    that is not the default.
    """
    X = table.sample()
    is_default = budget.is_finite and model.data_norm == _DEFAULT_NORM
    place = leaf_in_pipeline(model)
    is_known = has_declared_norm(table.X) or (place and place.input_norm is not None)
    if not is_default or is_known or issparse(X):
        return
    if place is None and hasattr(X, "columns"):
        warn_once(
            "The table should have declared columns. Got columns=None: each row is "
            f"taken as numbers in one unit, and clipped to data_norm={_DEFAULT_NORM:g}."
            " Pass columns=; skdp.columns.template(X) makes a draft from the names and "
            "types of the columns.",
            UndeclaredRowsWarning,
        )
        return
    name = type(model).__name__
    where = "before" if place else "in the parameters of"
    # The step that is missing is often one that learns from the rows, without privacy.
    ask = (
        " Ask privacy_report(pipeline) whether a step before it reads the data: no "
        "ledger counts a StandardScaler."
        if place
        else ""
    )
    warn_once(
        f"The length of rows should be declared. Got no declaration {where} {name}, "
        f"which clips rows to the default data_norm={_DEFAULT_NORM:g}. Pass "
        "columns=(low, high), a range for all columns, or put BoundedScaler before "
        f"{name}; put RowNormClipper there if clipping is meant or rows are no longer."
        + ask,
        UndeclaredRowsWarning,
    )


def warn_of_rereading(source: Source, planned: PlannedFit[Any, Any]) -> None:
    """Say that a source is read and encoded anew in many passes; public facts only.

    Whether rows of users are kept is private, and nothing is said of it.
    """
    facts, shape = source.facts, (planned.problem.n_samples, planned.problem.n_features)
    if facts.is_of_users or facts.holds_rows or room_for(source, *shape) != NO_ROOM:
        return
    plan = planned.solver.plan(planned.problem)
    if plan is not None and plan.n_passes <= _FEW_PASSES:
        return
    many = "each pass reads" if plan is None else f"{plan.n_passes} passes read"
    most = bytes_to_keep(source, *shape) / facts.n_partitions
    warn_once(
        "A source should have room for its rows, in memory or in a temporary file. Got "
        f"memory={facts.memory} and {facts.disk} bytes on the disk, so that {many} and "
        f"encode the table anew. Make the source with memory={math.ceil(most)} or more "
        "if the machine has so many bytes, with disk=None if twice as many are free "
        "for temporary files, or choose a solver of few passes. After ten seconds the "
        "fit prints how long the passes take.",
        UserWarning,
    )


def rows_to_fit(
    model: Any,
    table: Table,
    budget: Budget,
    users: UsersToFit | None = None,
    n_parts: int = 1,
    *,
    is_centred: bool = False,
    has_lines: bool = False,
) -> LinearRows:
    """Checked rows of numbers, or encoded rows of a declared table.

    `is_centred` says whether the model will centre them, and `has_lines` whether
    declared numbers are lines. The function sets the model's
    ``n_features_in_`` and ``feature_names_in_``, and ``encoder_`` if columns are
    declared. These attributes do not depend on cells.
    """
    if model.columns is None:
        vars(model).pop("encoder_", None)
        rows = rows_of_numbers(model, table, reset=True)
        _warn_of_undeclared_rows(model, table, budget)
        return rows
    encoder = encoder_of(model.columns, budget, has_lines=has_lines)
    knots = knots_for(model, budget, users, n_parts)
    encoding, cells = encoder._fit(table, knots)
    vars(model).pop("feature_names_in_", None)
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(encoder, name):
            setattr(model, name, getattr(encoder, name))
    model.encoder_ = encoder
    return rows_of_columns(table, encoder, encoding, cells, is_centred=is_centred)


def rows_to_predict(model: Any, X: Any) -> Any:
    """Checked rows in the form in which the model was fitted."""
    encoder = getattr(model, "encoder_", None)
    if encoder is None:
        return check_rows(model, X, reset=False, accept_sparse=True)
    return encoder._rows(X, is_sparse=None)


def step_to_predict(model: Any) -> Step:
    """`rows_to_predict` as a step of an exported model."""
    encoder = getattr(model, "encoder_", None)
    if encoder is not None:
        return step("table", columns=features(encoder))
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        names = [f"x{i}" for i in range(model.n_features_in_)]
    return step("numbers", names=list(map(str, names)))
