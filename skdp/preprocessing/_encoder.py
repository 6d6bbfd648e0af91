"""`TableEncoder`: rows of norm at most 1 from declared columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from scipy.sparse import block_diag, csr_array
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import FloatArray
from skdp._base import DeclaredEstimator
from skdp._checks import check_bool, check_choice, check_count
from skdp.io._table import AppendsToSources, Table
from skdp.preprocessing._blocks import (
    ColumnBlock,
    Curve,
    DatePart,
    Intervals,
    Joined,
    NumberAxis,
    OneOf,
    OrMissing,
    Sign,
    Sparse,
    TimeAxis,
    encoded,
    side_by_side,
    split_at_heaps,
)
from skdp.preprocessing._cells import (
    Cells,
    ColumnTable,
    declared_of,
    matched,
    open_table,
    read_cells,
)
from skdp.privacy.release._record import FREE, StepPrivacy
from skdp.tables._columns import (
    Boolean,
    Categories,
    Columns,
    Dates,
    Declaration,
    Declared,
    Range,
    as_declared,
)

# ----------------------------------------- Encoding: the blocks of all declared columns
# Public.


NUMERIC = ("linear", "bins", "hats")
_Numeric = (
    Literal["hats", "bins", "linear"] | Mapping[str, str] | list[str] | tuple[str, ...]
)
# Rows are shorter than the proof allows by this fraction, for the rounding of entries.
_MARGIN = 2.0**-40
# Share of nonzero entries below which passes over CSR are faster than over dense rows.
_SPARSE_BELOW = 0.2
# Rows whose encoded cells stay in a cache.
_ROWS_AT_ONCE = 1 << 13
# Number of knots, from the numbers of records and of declared columns.
KnotRule = Callable[[int, int], int]
# Intervals of the finest level, below this number of records over sqrt(n_columns).
_INTERVALS = ((600.0, 4), (2_000.0, 8), (7_000.0, 16), (24_000.0, 32), (math.inf, 64))


def default_knots(n_samples: int, n_columns: int) -> int:
    """Knots of ``n_knots="auto"``, from public facts.

    Each of g columns has a share 1/sqrt(g) of a row's norm, so that n records of g
    columns have the signal, over a model's noise, of n/sqrt(g) records of one column.
    """
    size = n_samples / math.sqrt(n_columns)
    return 1 + next(intervals for below, intervals in _INTERVALS if size < below)


@dataclass(frozen=True)
class Encoding:
    """Declared columns, each with its block.

    Parameters
    ----------
    names : tuple of str
    declared : tuple of Declaration
    blocks : tuple of ColumnBlock
    """

    names: tuple[str, ...]
    declared: tuple[Declaration, ...]
    blocks: tuple[ColumnBlock, ...]

    @property
    def scale(self) -> float:
        """Factor of each block, so that rows have norm at most 1."""
        return (1 - _MARGIN) / math.sqrt(len(self.blocks))

    @property
    def slices(self) -> dict[str, slice]:
        ends = np.cumsum([len(block.suffixes) for block in self.blocks]).tolist()
        spans = zip([0, *ends[:-1]], ends, strict=True)
        named = zip(self.names, spans, strict=True)
        return {name: slice(start, end) for name, (start, end) in named}

    @property
    def features(self) -> list[str]:
        """Names of the features."""
        return [
            f"{name}{suffix}"
            for name, block in zip(self.names, self.blocks, strict=True)
            for suffix in block.suffixes
        ]

    @property
    def n_lines(self) -> int:
        """Number of features if all numbers were encoded as lines."""
        return sum(block.n_lines for block in self.blocks)

    def unknown_in(self, table: list[Cells]) -> list[str]:
        """Names of columns with a cell that is not declared."""
        columns = zip(self.names, self.blocks, table, strict=True)
        return [name for name, block, cells in columns if block.has_unknown(cells)]

    def rows(self, table: list[Cells], *, is_sparse: bool | None) -> Any:
        """Rows of norm at most 1, as an array or CSR; None takes the smaller one."""
        return self.rows_of(self.states(table), is_sparse=is_sparse)

    def rows_of(self, states: csr_array, *, is_sparse: bool | None) -> Any:
        """Encoded rows from shares in states."""
        rows = states @ self.basis
        if is_sparse is None:
            is_sparse = self._density < _SPARSE_BELOW
        if not is_sparse:
            return rows.toarray()
        rows.sort_indices()
        return rows

    @cached_property
    def basis(self) -> csr_array:
        """The features of each state: (n_states, n_features), rows of norm 1 at most.

        Rows of all blocks side by side, divided by the root of the number of blocks.
        """
        along = block_diag([csr_array(b.basis) for b in self.blocks], format="csr")
        return csr_array(along * self.scale)

    @property
    def weights(self) -> FloatArray:
        """Divisor of each feature, by which rows have norm at most 1."""
        pairs = [(block.weight, len(block.suffixes)) for block in self.blocks]
        return np.concatenate([np.full(n, w) for w, n in pairs]) / self.scale

    @property
    def parts(self) -> tuple[int, ...]:
        """Number of states of each part; the states of a part exclude each other."""
        return tuple(size for block in self.blocks for size in block.parts)

    @property
    def most_entries(self) -> int:
        """Most nonzero features of a row."""
        ends = np.cumsum(self.parts)[:-1]
        by_part = np.split(np.diff(self.basis.indptr), ends)
        entries = sum(2 * int(counts.max()) for counts in by_part)
        return min(entries, len(self.features))

    @property
    def _density(self) -> float:
        """Largest share of nonzero features in a row."""
        # A cell is in at most two states of a block.
        entries = sum(2 * np.mean(np.count_nonzero(b.basis, 1)) for b in self.blocks)
        return float(entries) / len(self.features)

    def states(self, table: list[Cells]) -> csr_array:
        """Each row's shares in the states of all blocks."""
        n = len(table[0].values)
        none, _ = self._side_by_side([cells.part(slice(0)) for cells in table])
        # No row has more entries; memory that is not written is not taken.
        most = n * none.shape[1]
        shares, states = np.empty(most), np.empty(most, dtype=np.int32)
        starts = np.zeros(n + 1, dtype=np.int64)
        for first in range(0, n, _ROWS_AT_ONCE):
            run = slice(first, min(first + _ROWS_AT_ONCE, n))
            own, weights = self._side_by_side([cells.part(run) for cells in table])
            is_there, at = weights != 0, starts[first]
            ends = at + np.cumsum(np.count_nonzero(is_there, axis=1))
            starts[first + 1 : run.stop + 1] = ends
            shares[at : ends[-1]] = weights[is_there]
            states[at : ends[-1]] = own[is_there]
        rows = shares[: starts[-1]], states[: starts[-1]], starts
        return csr_array(rows, shape=(n, sum(self.parts)))

    def _side_by_side(self, table: list[Cells]) -> Sparse:
        pairs = zip(self.blocks, table, strict=True)
        each = [encoded(block, cells) for block, cells in pairs]
        return side_by_side(self.blocks, each)


def planned(
    names: tuple[str, ...],
    declared: tuple[Declaration, ...],
    numeric: Any,
    n_knots: int,
) -> Encoding:
    """The encoding of declared columns; depends on nothing else.

    Parameters
    ----------
    names : tuple of str
    declared : tuple of Declaration
    numeric : str, mapping or sequence
        How numbers and points in time are encoded; see `TableEncoder`.
    n_knots : int
        Number of knots of the finest level.

    Raises
    ------
    ValueError
        If two features would have the same name.
    """
    ways = ways_of(names, numeric)
    blocks = tuple(
        _block(each, way, n_knots) for each, way in zip(declared, ways, strict=True)
    )
    encoding = Encoding(names, declared, blocks)
    features = encoding.features
    if len(set(features)) < len(features):
        twice = sorted({name for name in features if features.count(name) > 1})
        raise ValueError(
            f"The output features must have different names. Got {twice} more "
            "than once. Rename a column or a category."
        )
    return encoding


def check_knots(value: Any) -> int | None:
    """A number of knots, or None for "auto"."""
    if isinstance(value, str) and value == "auto":
        return None
    remedy = "Use 'auto' for the rule by public facts."
    return check_count("n_knots", value, low=2, high=1025, remedy=remedy)


def ways_of(names: tuple[str, ...], numeric: Any) -> tuple[str, ...]:
    """The encoding of each column's numbers."""
    if isinstance(numeric, str):
        return (check_choice("numeric", numeric, NUMERIC),) * len(names)
    if isinstance(numeric, Mapping) and set(numeric) <= set(names):
        given = [numeric.get(name, "hats") for name in names]
    elif isinstance(numeric, (list, tuple)) and len(numeric) == len(names):
        given = list(numeric)
    else:
        raise ValueError(
            f"The 'numeric' parameter must be one of {list(NUMERIC)}, a mapping from "
            "declared columns to these, or a sequence with one for each of "
            f"{len(names)} columns. Got {numeric!r}. Columns that a mapping leaves out "
            "are encoded as 'hats'."
        )
    return tuple(check_choice("numeric", way, NUMERIC) for way in given)


def _block(declared: Declaration, way: str, n_knots: int) -> ColumnBlock:
    if isinstance(declared, Range):
        block = _numeric(NumberAxis(declared), way, n_knots)
    elif isinstance(declared, Dates):
        block = _dates(declared, way, n_knots)
    else:
        block = OneOf(declared) if isinstance(declared, Categories) else Sign()
    assert isinstance(declared, (Range, Dates, Categories, Boolean))
    return OrMissing(block) if declared.missing else block


def _numeric(axis: NumberAxis | TimeAxis, way: str, n_knots: int) -> ColumnBlock:
    count = n_knots - 1
    declared = axis.declared
    if way == "bins":
        equal = Intervals(axis, count)
        return split_at_heaps(equal, declared) if isinstance(declared, Range) else equal
    heaps = declared.heaps if isinstance(declared, Range) else ()
    if way == "linear":
        return Curve(axis, heaps=heaps)
    # A coarser level's knots are knots of the finer levels, so that the finest has them
    # all.
    levels = [count // halved for halved in (4, 2, 1) if count % halved == 0]
    return Curve(axis, tuple(levels), heaps)


def _dates(declared: Dates, way: str, n_knots: int) -> ColumnBlock:
    time = _numeric(TimeAxis(declared), way, n_knots)
    if not declared.parts:
        return time
    parts = tuple(DatePart(part) for part in declared.parts)
    return Joined((time, *parts), ("time", *declared.parts))


def by_output(name: str, values: FloatArray) -> dict[str, FloatArray]:
    """Columns of a table: one, or one for each output."""
    if values.shape[1] == 1:
        return {name: values[:, 0]}
    return {f"{name}_{k}": values[:, k] for k in range(values.shape[1])}


# ------------------------------------------------------------------------- TableEncoder


_BY_ROWS = replace(
    FREE,
    of_users=(
        "set n_knots to a number: the default follows from the number of rows, which "
        "is private with privacy_unit='user'"
    ),
)


class TableEncoder(AppendsToSources, TransformerMixin, DeclaredEstimator):
    """Encode declared columns of mixed types; rows come out with norm at most 1.

    Each declared column becomes a block of norm at most 1, and rows are divided by the
    root of the number of columns: the default ``data_norm`` of the estimators clips
    nothing. Numbers are clipped to their range, infinite ones too.

    ==============  ==================================================================
    declared        block
    ==============  ==================================================================
    Range           `numeric`, below
    Categories      one feature a category, zeros and ones
    heaps=[...]     `numeric`, and one more feature a heap: 1 where the value is there
    Boolean         one feature, -1 or 1
    Dates           the point in time as `numeric`, and zeros and ones for each part
    missing=True    one more feature: 1 where the value is missing, and then 0
                    everywhere else in the block
    ==============  ==================================================================

    **Privacy.** Costs nothing: columns are declared, and each row is encoded
    separately. `fit` uses the names, types and number of columns and the number of
    rows, and looks at cells only to refuse what the declarations do not allow, before
    anything is spent. This error reveals that a cell is not as declared: to avoid it,
    declare ``missing=True`` and keep ``handle_unknown="ignore"``.

    Parameters
    ----------
    columns : mapping, sequence, or Range
        Declarations of `skdp.columns`: by name for a frame of pandas or polars, by
        position for an array, or one Range for all. Short forms: ``(low, high)`` is a
        Range, a list of strings is Categories. Required; None raises in `fit`.
    numeric : {"hats", "bins", "linear"}, mapping or sequence, default="hats"
        How ranges and points in time are encoded. "linear": the position in [-1, 1].
        "bins": zeros and ones, one feature an interval. "hats": a strong linear part,
        and piecewise linear functions on up to three levels of knots (`n_knots`, and
        half and a quarter of its intervals where these are whole) with weights that
        fall from coarse to fine. A mapping from names overrides "hats" for single
        columns; a sequence has one for each column.
    n_knots : int from 2 to 1025 or "auto", default="auto"
        Ends of bins, or knots of the finest hats, both ends of the range included.
        "auto": 5, 9, 17, 33 or 65, by the numbers of rows and of declared columns; for
        the `columns` of a model, by the number of rows, epsilon and delta.
    remainder : {"refuse", "drop"}, default="refuse"
        Treatment of undeclared columns of a frame.
    handle_unknown : {"ignore", "error"}, default="ignore"
        Undeclared categories become zeros, or raise an error that names the column.
    sparse_output : bool, default=False
        Return CSR.

    Attributes
    ----------
    columns_ : dict, tuple, or Range
        The declarations in full. Public.
    n_knots_ : int
        Public.
    numeric_ : tuple of str
        How each declared column is encoded if it holds numbers or dates. Public.
    blocks_ : dict of str to slice
        The features of each column. Public.
    output_norm_ : float
        1.0: no output row is longer. Public.
    entry_bound_ : float
        No entry is larger: 1 over the root of the number of columns. Public.
    %(n_features_in_, feature_names_in_)s

    See Also
    --------
    skdp.columns.template : Print a mapping to fill in.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import TableEncoder
    >>> from skdp.columns import Range
    >>> X = pd.DataFrame({"age": [17.0, None], "sex": ["Female", "?"]})
    >>> declared = {"age": Range(17, 90, missing=True), "sex": ["Female", "Male"]}
    >>> encoder = TableEncoder(declared, numeric="linear").set_output(
    ...     transform="pandas"
    ... )
    >>> encoder.fit_transform(X).round(3)
         age  age_missing  sex_Female  sex_Male
    0 -0.707        0.000       0.707       0.0
    1  0.000        0.707       0.000       0.0
    """

    def __init__(
        self,
        columns: Columns | None = None,
        *,
        numeric: _Numeric = "hats",
        n_knots: int | Literal["auto"] = "auto",
        remainder: Literal["refuse", "drop"] = "refuse",
        handle_unknown: Literal["ignore", "error"] = "ignore",
        sparse_output: bool = False,
    ) -> None:
        self.columns = columns
        self.numeric = numeric
        self.n_knots = n_knots
        self.remainder = remainder
        self.handle_unknown = handle_unknown
        self.sparse_output = sparse_output

    def fit(self, X: Any, y: Any = None) -> Self:
        """Match the declarations with the columns of X.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_columns)
            Checked against the declarations; nothing else is read.
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If X is not as declared. Nothing was spent.
        """
        return Table.of(X).fitted(self, lambda table: self._fit(table, default_knots))

    def transform(self, X: Any) -> Any:
        """Rows of norm at most 1.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_columns)
            Columns declared by name may come in any order.

        Returns
        -------
        ndarray, or CSR array, of float64 of shape (n_samples, n_encoded_features)
        """
        return self._rows(X, is_sparse=self.sparse_output)

    def output_norm(self, input_norm: float | None = None) -> float:
        """Largest L2 norm of an output row: 1.0.

        Parameters
        ----------
        input_norm : float or None, default=None
            Largest norm of an input row; not used.

        Returns
        -------
        float
            Public.
        """
        return 1.0

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names: the column's, with a suffix for each of its features.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the columns of an array; those of a frame are known.

        Returns
        -------
        ndarray of str objects
        """
        check_is_fitted(self)
        encoding = self._encoding
        if input_features is not None:
            encoding = self._renamed(list(input_features))
        return np.array(encoding.features, dtype=object)

    def effects(self, coef: Any) -> dict[str, pd.DataFrame]:
        """What each column adds to a linear model's decision, as a curve or table.

        Parameters
        ----------
        coef : array-like of shape (n_encoded_features,) or (n_rows, n_encoded_features)
            ``coef_`` of a model fitted on what `transform` returns.

        Returns
        -------
        dict of str to DataFrame
            For each column the effect at its knots (``at``; linear in between, on the
            scale of the logarithm if so declared), in its intervals (``from``, ``to``)
            or for its values (``value``; ``part`` and ``at`` for dates with parts). Of
            a Range with heaps, ``heap`` says whether a row is one. The effect is in
            ``effect``, or in ``effect_0``, ``effect_1`` and so on. A row without a
            value is for missing values. As private as `coef`.
        """
        check_is_fitted(self)
        encoding = self._encoding
        n_features = len(encoding.features)
        weights = np.atleast_2d(np.asarray(coef, dtype=np.float64)).T
        if weights.ndim != 2 or len(weights) != n_features:
            raise ValueError(
                f"The 'coef' argument must have {n_features} weights in each row. Got "
                f"an array of shape {np.shape(coef)}. Pass coef_ of a model fitted on "
                "what transform returns."
            )
        return self._by_column(by_output("effect", encoding.basis @ weights))

    def _by_column(self, numbers: dict[str, FloatArray]) -> dict[str, pd.DataFrame]:
        """Numbers of all states, beside the labels of the states of each column."""
        blocks = self._encoding.blocks
        ends = np.cumsum([sum(block.parts) for block in blocks])[:-1]
        found = pd.DataFrame(numbers)
        tables = {}
        for name, block, at in zip(
            self._names, blocks, np.split(np.arange(len(found)), ends), strict=True
        ):
            own = found.iloc[at].reset_index(drop=True)
            tables[name] = pd.concat([block.labels(), own], axis=1)
        return tables

    def step_privacy(self) -> StepPrivacy:
        """Free; if other steps protect users, only with a declared number of knots."""
        return FREE if isinstance(self.n_knots, Integral) else _BY_ROWS

    def _fit(self, table: Table, knots: KnotRule) -> tuple[Encoding, list[Cells]]:
        """Fit with this rule for ``n_knots="auto"``.

        Returns the encoding and the cells of the table's `sample`.
        """
        declared, n_knots = self._checked()
        sample = self._open(table.sample(declared), declared, reset=True)
        names, each = matched(sample, declared, is_drop=self.remainder == "drop")
        n_knots = n_knots or knots(table.count(sample.n_samples), len(each))
        encoding = planned(names, each, self.numeric, n_knots)
        cells = self._read(sample, encoding, declared)
        self._keep(declared, names, n_knots, encoding)
        return encoding, cells

    def _fit_unseen(
        self, n_samples: int, n_columns: int | None, knots: KnotRule
    ) -> Encoding:
        """Fit to the shape of a table; `n_columns` where one Range is for all."""
        declared, n_knots = self._checked()
        if isinstance(declared, (dict, tuple)):
            n_columns = len(declared)
        remedy = "Pass the number of columns: one declaration is for all of them."
        n_columns = check_count("n_features", n_columns, remedy=remedy)
        names = tuple(f"x{position}" for position in range(n_columns))
        names = tuple(declared) if isinstance(declared, dict) else names
        n_knots = n_knots or knots(n_samples, n_columns)
        each = declared_of(names, declared)
        encoding = planned(names, each, self.numeric, n_knots)
        self._keep(declared, names, n_knots, encoding)
        return encoding

    def _keep(
        self,
        declared: Declared,
        names: tuple[str, ...],
        n_knots: int,
        encoding: Encoding,
    ) -> None:
        self.columns_, self.n_knots_, self._names = declared, n_knots, names
        self.numeric_ = ways_of(names, self.numeric)
        self.blocks_, self.output_norm_ = encoding.slices, 1.0
        self.entry_bound_ = 1 / math.sqrt(len(names))

    def _rows(self, X: Any, *, is_sparse: bool | None) -> Any:
        """Encoded rows as an array or CSR; None takes the smaller form."""
        check_is_fitted(self)
        return self._encoding.rows(self._cells(X), is_sparse=is_sparse)

    def _cells(self, X: Any) -> list[Cells]:
        """Checked cells of the declared columns of a table like the fitted one."""
        check_is_fitted(self)
        table = self._open(X, self.columns_, reset=False)
        matched(table, self.columns_, is_drop=self.remainder == "drop")
        return self._read(table, self._encoding, self.columns_)

    def _open(self, X: Any, declared: Declared, *, reset: bool) -> ColumnTable:
        """X as a checked table."""
        return open_table(self, X, declared, reset=reset)

    @property
    def _encoding(self) -> Encoding:
        """The fitted encoding, from the public facts that are stored."""
        each = declared_of(self._names, self.columns_)
        return planned(self._names, each, self.numeric_, self.n_knots_)

    def _checked(self) -> tuple[Declared, int | None]:
        check_choice("remainder", self.remainder, ("refuse", "drop"))
        check_choice("handle_unknown", self.handle_unknown, ("ignore", "error"))
        check_bool("sparse_output", self.sparse_output)
        return as_declared(self.columns), check_knots(self.n_knots)

    def _read(
        self, table: ColumnTable, encoding: Encoding, declared: Declared
    ) -> list[Cells]:
        """The declared columns' cells, or an error that names a column."""
        # Under one Range for all columns, a frame may follow an array, or the other
        # way.
        names = encoding.names if isinstance(declared, dict) else table.names
        position = {name: i for i, name in enumerate(table.names)}
        cells = [
            read_cells(table.column(position[name]), each, name)
            for name, each in zip(names, encoding.declared, strict=True)
        ]
        if self.handle_unknown == "error" and (bad := encoding.unknown_in(cells)):
            raise ValueError(
                f"The columns {bad} must hold declared categories only. Got others. "
                "Declare them, or use handle_unknown='ignore'."
            )
        return cells

    def _renamed(self, names: list[Any]) -> Encoding:
        """The encoding with the user's names of the columns."""
        known = list(getattr(self, "feature_names_in_", names))
        if names != known:
            raise ValueError("input_features is not equal to feature_names_in_")
        if len(names) != self.n_features_in_:
            raise ValueError(
                "input_features should have length equal to number of features "
                f"({self.n_features_in_}), got {len(names)}"
            )
        if isinstance(self.columns_, dict):
            return self._encoding
        encoding = self._encoding
        return Encoding(tuple(map(str, names)), encoding.declared, encoding.blocks)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        return tags
