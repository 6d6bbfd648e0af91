"""The table of a boosted model: declared columns, read and binned."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from skdp._input import check_rows
from skdp.columns._given import Declared
from skdp.ensemble._bins import DEFAULT_INTERVALS, MOST_BINS, Bins, bins_of
from skdp.io._rows import StreamRows
from skdp.io._table_source import TableSource
from skdp.preprocessing._table_columns import Table
from skdp.preprocessing._table_encoder import TableEncoder
from skdp.preprocessing._table_plan import check_knots


class TableReader(TableEncoder):
    """Reads declared columns of a table; CSR too, where they are declared by position.

    A bin holds what an entry is, so that one that is not stored is a zero as any other.
    """

    def _open(self, X: Any, declared: Declared, *, reset: bool) -> Table:
        if not issparse(X) or isinstance(declared, dict):
            return super()._open(X, declared, reset=reset)
        rows = check_rows(self, X, reset=reset, accept_sparse=True, allow_nan=True)
        columns = rows.tocsc()
        names = tuple(f"x{i}" for i in range(rows.shape[1]))
        return Table(names, rows.shape[0], lambda i: columns[:, [i]].toarray().ravel())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def reader_of(columns: Any) -> TableReader:
    """The unfitted reader that the `columns` parameter stands for.

    Raises
    ------
    ValueError
        If there are no declarations, or an encoder asks for what trees cannot do.
    """
    if columns is None:
        raise ValueError(
            "The 'columns' parameter must declare the columns of X, which trees are "
            "drawn from without looking at the data. Got None. Pass a mapping such as "
            "columns={'age': (17, 90), 'sex': ['Female', 'Male']}, or one Range for "
            "an array; skdp.columns.template(frame) prints one to fill in."
        )
    if not isinstance(columns, TableEncoder):
        return TableReader(columns, numeric="bins")
    reader = TableReader(**columns.get_params(deep=False))
    if not isinstance(reader.numeric, str) or reader.numeric not in ("bins", "hats"):
        raise ValueError(
            "The 'numeric' parameter of a TableEncoder in 'columns' must be 'bins' "
            f"for trees, which cut ranges into intervals. Got {reader.numeric!r}. "
            "Leave it out."
        )
    knots = check_knots(reader.n_knots)
    if knots is not None and knots - 1 > MOST_BINS:
        raise ValueError(
            "The 'n_knots' parameter of a TableEncoder in 'columns' must be at most "
            f"{MOST_BINS + 1} for trees. Got {knots}. Leave it out."
        )
    reader.numeric = "bins"
    return reader


def read_to_fit(model: Any, X: Any) -> Any:
    """Codes of a table as declared, or an error before anything is spent.

    Sets the model's ``n_features_in_`` and ``feature_names_in_``, ``encoder_`` and
    ``bins_``; nothing of them depends on cells.

    Returns
    -------
    ndarray of uint8, or StreamRows of them, of shape (n_samples, n_columns)
        Private.
    """
    reader = reader_of(model.columns)
    encoding, cells = reader._fit(X, lambda n, d: DEFAULT_INTERVALS + 1)
    vars(model).pop("feature_names_in_", None)
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(reader, name):
            setattr(model, name, getattr(reader, name))
    model.encoder_ = reader
    bins = bins_of(
        encoding.names,
        encoding.declared,
        intervals=reader.n_knots_ - 1,
        has_other=reader.handle_unknown == "ignore",
    )
    model.bins_ = bins
    if isinstance(X, TableSource):
        return _to_read(X, reader, bins)
    return bins.codes(cells)


def _to_read(X: TableSource, reader: TableReader, bins: Bins) -> StreamRows:
    """Codes of a source's records, when these are read."""
    reading = X.reading(
        reader.columns_, refuses_unknown=reader.handle_unknown == "error"
    )

    def codes(frame: Any) -> NDArray[np.uint8]:
        return bins.codes(reader._cells(frame))

    row = codes(X.stand_in(reader.columns_))
    return StreamRows(X, reading, codes, len(bins.columns), row.dtype, shown=row)


def read_to_predict(model: Any, X: Any) -> NDArray[np.uint8]:
    """Codes of a table like the fitted one, or an error that names a column."""
    bins: Bins = model.bins_
    return bins.codes(model.encoder_._cells(X))
