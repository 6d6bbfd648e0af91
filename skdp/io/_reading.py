"""How cells of a batch are read: which of them make their row a null record.

The result is a table without surprises, for the code that reads tables in memory: a row
that could not be read holds stand-ins, and is marked as not present.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.columns import Categories
from skdp.io import _arrow


@dataclass(frozen=True)
class Rule:
    """Which cells of one column are allowed; public.

    Parameters
    ----------
    declared : Declaration or None
    stand_in : Any
        Put in the place of others.
    allows_missing, allows_infinity : bool
    refuses_unknown : bool, default=False
        Whether a category that is not declared makes a row a null record.
    """

    declared: Any
    stand_in: Any
    allows_missing: bool
    allows_infinity: bool
    refuses_unknown: bool = False

    def cleaned(self, array: Any) -> tuple[Any, NDArray[np.bool_]]:
        """The column of a data frame, and which cells were as allowed."""
        column, is_missing = _arrow.cells(array, self.declared)
        is_fine = np.ones(len(array), dtype=bool)
        if not self.allows_missing:
            is_fine &= ~is_missing
        if isinstance(column, np.ndarray) and column.dtype.kind == "f":
            if not self.allows_infinity:
                is_fine &= ~np.isinf(column)
        elif self.refuses_unknown and isinstance(self.declared, Categories):
            is_fine &= is_missing | column.isin(list(self.declared.values))
        return self._filled(column, is_fine), is_fine

    def _filled(self, column: Any, is_fine: NDArray[np.bool_]) -> Any:
        if isinstance(column, pd.Categorical):
            if self.stand_in not in column.categories:
                column = column.add_categories([self.stand_in])
            return column if is_fine.all() else _at(column, ~is_fine, self.stand_in)
        if is_fine.all():
            return column
        is_date = isinstance(column, np.ndarray) and column.dtype.kind == "M"
        # Not every unit of dates reaches every declared one; all of them have a zero.
        value = np.zeros((), column.dtype) if is_date else self.stand_in
        return _at(column, ~is_fine, value)


def _at(column: Any, places: NDArray[np.bool_], value: Any) -> Any:
    changed = column.copy()
    changed[places] = value
    return changed


@dataclass(frozen=True)
class Reading:
    """How an estimator wants the columns of a source; public.

    Parameters
    ----------
    names : tuple of str
        Columns that are read.
    rules : mapping of str to Rule
    is_single : bool
        Whether all are numbers in single precision.
    is_numeric : bool
        Whether all are numbers that are not declared.
    """

    names: tuple[str, ...]
    rules: Mapping[str, Rule]
    is_single: bool
    is_numeric: bool

    def cleaned(self, batch: Any) -> tuple[pd.DataFrame, NDArray[np.bool_]]:
        """A batch as a table without surprises, and which rows are present."""
        if self.is_numeric:
            return self._numbers(batch)
        is_present = np.ones(batch.num_rows, dtype=bool)
        columns = {}
        for name in self.names:
            columns[name], is_fine = self.rules[name].cleaned(batch.column(name))
            is_present &= is_fine
        return pd.DataFrame(columns), is_present

    def _numbers(self, batch: Any) -> tuple[pd.DataFrame, NDArray[np.bool_]]:
        dtype = np.float32 if self.is_single else np.float64
        rows = np.empty((batch.num_rows, len(self.names)), dtype=dtype)
        for i, name in enumerate(self.names):
            rows[:, i] = _arrow.numbers(batch.column(name))
        is_finite: Any = np.isfinite(rows)
        is_present: NDArray[np.bool_] = np.ones(len(rows), dtype=bool)
        if not is_finite.all():
            is_present = is_finite.all(axis=1)
            rows[~is_present] = 0.0
        return pd.DataFrame(rows, columns=list(self.names), copy=False), is_present


def reading_of(
    schema: Any,
    names: tuple[str, ...],
    declared: Any = None,
    *,
    refuses_unknown: bool = False,
    allows_missing: bool = False,
) -> Reading:
    """How columns are read by what is declared of them; numbers if nothing is.

    Parameters
    ----------
    schema : Schema of Arrow
    names : tuple of str
        Columns of the source that are features.
    declared : dict, tuple, Range or None
        In full form.
    refuses_unknown : bool
        Whether categories that are not declared make a row a null record.
    allows_missing : bool
        Whether the reader takes missing values in what is not declared.
    """
    if isinstance(declared, dict):
        names = tuple(name for name in names if name in declared)
    each = {name: declared_at(declared, i, name) for i, name in enumerate(names)}
    rules = {
        name: _rule(schema.field(name).type, one, refuses_unknown, allows_missing)
        for name, one in each.items()
    }
    types = [schema.field(name).type for name in names]
    is_numeric = declared is None and not allows_missing
    return Reading(names, rules, all(map(_arrow.is_single, types)), is_numeric)


def declared_at(declared: Any, place: int, name: str) -> Any:
    """What is declared of one column."""
    if isinstance(declared, dict):
        return declared.get(name)
    return declared[place] if isinstance(declared, tuple) else declared


def _rule(
    dtype: Any, declared: Any, refuses_unknown: bool, allows_missing: bool
) -> Rule:
    value = _arrow.stand_in(dtype, declared).iloc[0]
    if declared is None:
        return Rule(None, value, allows_missing, allows_infinity=False)
    is_optional = bool(getattr(declared, "missing", False))
    return Rule(declared, value, is_optional, True, refuses_unknown)
