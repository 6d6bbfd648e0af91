"""The rows of a linear model: numbers as they are given, or a declared table."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import clone

from skdp._base import PUBLIC_OF_DECLARED, PUBLIC_OF_TABLES, of_users
from skdp._checks import check_count
from skdp._input import check_rows
from skdp._users import UsersToFit
from skdp.io._external import TableSource
from skdp.io._rows import StreamRows
from skdp.io._takes import shown
from skdp.preprocessing._encoder import Encoding, KnotRule, TableEncoder
from skdp.privacy.accounting._calibrate import Budget
from skdp.solvers._centred_rows import States
from skdp.solvers._default_rules import curve_intervals, signal_to_noise_of

# Tables with more columns of numbers have lines in place of curves.
_MOST_CURVES = 100
# Of curves on centred rows. 16 intervals are as good, and 64 are nowhere better.
_INTERVALS = 32


def centred_knots(n_samples: int, n_columns: int) -> int:
    """Knots of centred rows: for any n, coarse hats have most of a row's norm."""
    return 1 + _INTERVALS


def knots_within(
    budget: Budget, adjacency: str, users: UsersToFit | None = None, n_parts: int = 1
) -> KnotRule:
    """The number of knots that the noise of a budget allows; public facts only.

    With users their number counts, and the number of rows does not. `n_parts` is how
    many tables like the one at hand there are.
    """

    def knots(n_samples: int, n_columns: int) -> int:
        n_units = n_samples if users is None else users.n_users
        signal_to_noise = signal_to_noise_of(n_units * n_parts, budget, adjacency)
        return 1 + curve_intervals(signal_to_noise, n_columns)

    return knots


@dataclass(frozen=True, eq=False)
class DeclaredRows:
    """Records of a declared table, to be encoded.

    Parameters
    ----------
    encoding : Encoding
        Public.
    states : CSR of shape (n_samples, n_states)
        Private.
    """

    encoding: Encoding
    states: csr_array
    dtype: ClassVar[Any] = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of records and of encoded features."""
        return self.states.shape[0], self.encoding.basis.shape[1]

    def __len__(self) -> int:
        return int(self.states.shape[0])

    def encoded(self) -> Any:
        """Rows of norm at most 1, as an array or CSR."""
        return self.encoding.rows_of(self.states, is_sparse=None)


@dataclass(frozen=True, eq=False)
class DeclaredStream:
    """Records of a declared table that have not been read, to be encoded.

    Parameters
    ----------
    encoding : Encoding
        Public.
    encoder : TableEncoder
        Fitted; public.
    table : TableSource
    """

    encoding: Encoding
    encoder: TableEncoder
    table: TableSource
    dtype: ClassVar[Any] = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of records, as declared, and of encoded features."""
        return self.table.n_samples, self.encoding.basis.shape[1]

    def __len__(self) -> int:
        return self.table.n_samples

    @property
    def states(self) -> StreamRows:
        """Each record's weights of states, computed when the record is read."""
        n_states = sum(self.encoding.parts)
        return self._rows(n_states, self._states, self.encoding.most_states)

    def encoded(self) -> StreamRows:
        """Rows of norm at most 1, when they are read."""
        return self._rows(self.shape[1], self._encoded, self.encoding.most_entries)

    def labels(self, classes: np.ndarray) -> Any:
        """How labels are read; an error before anything is read."""
        return self.encoded().labels(classes)

    def _rows(self, n_features: int, encode: Any, most_entries: int) -> StreamRows:
        row = encode(self.table.sample_row(self.encoder.columns_))
        reading = self.table.reading(
            self.encoder.columns_,
            refuses_unknown=self.encoder.handle_unknown == "error",
        )
        return StreamRows(
            self.table,
            reading,
            encode,
            n_features,
            self.dtype,
            issparse(row),
            row,
            most_entries=most_entries,
        )

    def _states(self, frame: Any) -> csr_array:
        return self.encoding.states(self.encoder._cells(frame))

    def _encoded(self, frame: Any) -> Any:
        return self.encoding.rows(self.encoder._cells(frame), is_sparse=None)


def encoder_of(columns: Any, budget: Budget | None = None) -> TableEncoder:
    """The unfitted encoder that the `columns` parameter stands for.

    Numbers are encoded as curves or as lines: with a `budget` of delta = 0, whose noise
    grows with the number of features, curves lost on eight tables at any epsilon up to
    30.
    """
    if isinstance(columns, TableEncoder):
        encoder: TableEncoder = clone(columns)
        return encoder
    several = isinstance(columns, Sized) and len(columns) > _MOST_CURVES
    is_pure = budget is not None and budget.is_finite and budget.delta == 0
    return TableEncoder(columns, numeric="linear" if several or is_pure else "hats")


def encoded_unseen(
    columns: Any,
    n_samples: int,
    n_features: int | None,
    knots: KnotRule,
    budget: Budget,
) -> tuple[TableEncoder, Encoding]:
    """The fitted encoder of a table that is not at hand, and its encoding.

    `n_features` is the number of columns if one declaration holds for all of them.
    """
    encoder = encoder_of(columns, budget)
    n_samples = check_count("n_samples", n_samples)
    return encoder, encoder._fit_unseen(n_samples, n_features, knots)


def states_of(encoding: Encoding) -> States:
    """The declared states, as the default solver takes them."""
    return States(encoding.parts, encoding.basis, encoding.weights)


def public_facts(columns: Any, users: UsersToFit | None = None) -> tuple[str, ...]:
    """What a guarantee about the rows takes as public."""
    facts = PUBLIC_OF_TABLES if columns is None else PUBLIC_OF_DECLARED
    return facts if users is None else of_users(facts)


def rows_to_fit(
    model: Any,
    X: Any,
    budget: Budget,
    users: UsersToFit | None = None,
    n_parts: int = 1,
    *,
    is_centred: bool = False,
) -> Any:
    """Checked rows of numbers, of a declared table encoded ones.

    `is_centred` says whether the model will centre them.

    Sets the model's ``n_features_in_`` and ``feature_names_in_``, and ``encoder_`` if
    its columns are declared; nothing of them depends on cells.

    Returns
    -------
    ndarray, CSR, DeclaredRows, StreamRows or DeclaredStream, (n_samples, n_features)
    """
    if model.columns is None:
        vars(model).pop("encoder_", None)
        rows = check_rows(model, shown(X), reset=True, accept_sparse=True)
        return to_read(X, rows) if isinstance(X, TableSource) else rows
    encoder = encoder_of(model.columns, budget)
    knots: KnotRule = centred_knots
    if not is_centred:
        knots = knots_within(budget, model.adjacency, users, n_parts)
    encoding, cells = encoder._fit(X, knots)
    vars(model).pop("feature_names_in_", None)
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(encoder, name):
            setattr(model, name, getattr(encoder, name))
    model.encoder_ = encoder
    if isinstance(X, TableSource):
        return DeclaredStream(encoding, encoder, X)
    return DeclaredRows(encoding, encoding.states(cells))


def to_read(X: TableSource, rows: Any) -> StreamRows:
    """Rows of a source that are read like the rows that were checked."""
    return StreamRows(
        X,
        X.reading(),
        lambda found: found,
        rows.shape[1],
        rows.dtype,
        issparse(rows),
        is_as_read=True,
    )


def rows_to_predict(model: Any, X: Any) -> Any:
    """Checked rows in the form in which the model was fitted."""
    encoder = getattr(model, "encoder_", None)
    if encoder is None:
        return check_rows(model, X, reset=False, accept_sparse=True)
    return encoder._rows(X, is_sparse=None)
