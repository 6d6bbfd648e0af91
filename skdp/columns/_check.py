"""Comparison of cells with their declarations, for those who keep the data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from skdp._show import card
from skdp.preprocessing._cells import (
    TYPES,
    WORDS,
    Cells,
    clipped_dates,
    declared_of,
    found_cells,
    is_frame,
    of_one_type,
    plain_values,
)
from skdp.tables._columns import (
    Categories,
    Dates,
    Declaration,
    Range,
    as_declared,
)

_NOT_PRIVATE = (
    "NOT PRIVATE: computed from the cells, for those who keep the data. Do not "
    "publish it. Correct cells and the code book by it; do not choose ranges, "
    "categories or columns by what it shows."
)
# Unknown or unused values that are shown for one column.
_SHOWN = 5
# A Range with at most this many distinct whole numbers may be a list of codes.
_FEW_CODES = 10


class _Problem(NamedTuple):
    """One way in which a column differs from its declaration. Not private.

    `cells` is 0 if the problem is not one of single cells; `share` is the fraction of
    the column's cells.
    """

    column: str
    problem: str
    cells: int
    share: float
    detail: str


@dataclass(frozen=True, repr=False)
class Check:
    """Result of `check`. **Not private**, and not for publication.

    It is true if there is a problem. `str` of it has a line for each problem.
    """

    _problems: tuple[_Problem, ...]

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each problem; not private.

        Returns
        -------
        DataFrame of shape (n_problems, 5)
            With the columns "column", "problem", "cells", "share" and "detail".
        """
        return pd.DataFrame(self._problems, columns=_Problem._fields)

    def __bool__(self) -> bool:
        """Whether there is a problem."""
        return bool(self._problems)

    def __repr__(self) -> str:
        lines = [f"{name}: {text}" for name, text in self._rows()]
        return "\n".join([_NOT_PRIVATE, *(lines or ["All cells are as declared."])])

    def _rows(self) -> list[tuple[str, str]]:
        return [
            (
                each.column,
                each.problem
                + (f" in {each.cells:,} cells ({each.share:.2%})" if each.cells else "")
                + (f": {each.detail}" if each.detail else ""),
            )
            for each in self._problems
        ]

    def _repr_html_(self) -> str:
        rows = self._rows() or [("result", "All cells are as declared.")]
        return card(_NOT_PRIVATE, rows, is_good=False)


def check(frame: Any, columns: Any) -> Check:
    """Compare every cell of a table with the declarations; the result is not private.

    It finds typos in a code book and cells that are not as declared, before the table
    becomes the private table. It is for those who keep the data: the result quotes
    cells and counts them, no ledger is charged, and no guarantee covers what follows
    from it. The private way is `describe`, whose counts of "other" are the cells
    outside of the declared categories.

    Parameters
    ----------
    frame : DataFrame of pandas or polars
        Of a source, read a part into a frame.
    columns : mapping, sequence, or one declaration
        As in `columns=` of an estimator.

    Returns
    -------
    Check
        It prints a line for each problem: columns that are absent or not declared;
        cells of another kind; missing cells that are not declared; values outside the
        categories or the range; categories that never occur; ranges that hold a few
        whole numbers, which may be codes. **Not private.**

    Raises
    ------
    TypeError
        If `frame` is not a data frame.
    ValueError
        If the declarations are not valid.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import columns
    >>> frame = pd.DataFrame({"age": [39.0, 150.0], "sex": ["male", "Female"]})
    >>> found = columns.check(frame, {"age": (17, 90), "sex": ["Female", "Male"]})
    >>> print(found.to_frame()[["column", "problem", "cells"]])
      column             problem  cells
    0    age     above the range      1
    1    sex    not a category      1
    2    sex  category not found      0
    """
    if not is_frame(frame):
        raise TypeError(
            "The 'frame' argument must be a DataFrame of pandas or polars. Got an "
            f"instance of {type(frame).__name__}. Make one of an array with "
            "pandas.DataFrame(X)."
        )
    declared = as_declared(columns)
    names = [str(name) for name in frame.columns]
    if isinstance(declared, tuple) and len(declared) != len(names):
        raise ValueError(
            "A sequence of declarations must have one for each column. Got "
            f"{len(declared)} for {len(names)} columns."
        )
    wanted = tuple(declared) if isinstance(declared, dict) else tuple(names)
    problems = list(_names(names, wanted))
    for name, each in zip(wanted, declared_of(wanted, declared), strict=True):
        if name in names:
            column = frame[frame.columns[names.index(name)]]
            problems += _in_column(name, column, each)
    return Check(tuple(problems))


def _names(names: list[str], wanted: tuple[str, ...]) -> Iterator[_Problem]:
    extra = [name for name in names if name not in wanted]
    for name in wanted:
        if name not in names:
            near = _near(name, extra).removeprefix(", ")
            yield _Problem(name, "column not found", 0, 0.0, near)
    for name in extra:
        yield _Problem(name, "column not declared", 0, 0.0, "")


def _in_column(name: str, column: Any, declared: Declaration) -> Iterator[_Problem]:
    cells = found_cells(column)
    n = max(len(cells.is_missing), 1)

    def problem(text: str, where: np.ndarray, detail: str = "") -> _Problem:
        count = int(np.count_nonzero(where))
        return _Problem(name, text, count, count / n, detail)

    if cells.kind == "object" and not cells.is_missing.all():
        cells = of_one_type(cells, declared.kind)
    present = ~cells.is_missing
    if cells.is_missing.any() and not getattr(declared, "missing", False):
        yield problem("missing", cells.is_missing, "declare missing=True")
    if not present.any():
        return
    if cells.kind != declared.kind:
        detail = f"{WORDS[cells.kind]}, declared as {WORDS[declared.kind]}"
        is_other = present
        if cells.kind == "object":
            is_right = [isinstance(cell, TYPES[declared.kind]) for cell in cells.values]
            is_other = present & ~np.array(is_right)
        yield problem("another kind", is_other, detail)
        return
    values = plain_values(cells, declared)[present]
    if isinstance(declared, Range | Dates):
        low, high = _ends(declared)
        values = _points(cells, present) if isinstance(declared, Dates) else values
        for side, is_out in (("below", values < low), ("above", values > high)):
            if is_out.any():
                yield problem(f"{side} the range", is_out, _most(values[is_out]))
        if isinstance(declared, Range):
            different = np.unique(values)
            are_whole = bool(np.all(different == np.round(different)))
            if are_whole and 2 < len(different) <= _FEW_CODES < len(values):
                detail = f"{len(different)} whole numbers: perhaps codes (Categories)"
                yield _Problem(name, "few values", 0, 0.0, detail)
    if isinstance(declared, Categories):
        yield from _in_categories(name, values, declared, n)


def _in_categories(
    name: str, values: np.ndarray, declared: Categories, n: int
) -> Iterator[_Problem]:
    counts = pd.Series(values).value_counts()
    unknown = counts[[value not in declared.values for value in counts.index]]
    if len(unknown):
        quoted = [
            f"{value!r} ({count:,} cells){_near(value, declared.values)}"
            for value, count in unknown.head(_SHOWN).items()
        ]
        quoted += ["..."] if len(unknown) > _SHOWN else []
        total = int(unknown.sum())
        yield _Problem(name, "not a category", total, total / n, ", ".join(quoted))
    unused = [value for value in declared.values if value not in counts.index]
    if unused:
        quoted = [repr(value) for value in unused[:_SHOWN]]
        quoted += ["..."] if len(unused) > _SHOWN else []
        yield _Problem(name, "category not found", 0, 0.0, ", ".join(quoted))


def _near(value: Any, known: Any) -> str:
    """The known name or category that a value looks like, in words."""
    if not isinstance(value, str):
        return ""
    by_shape = {str(each).strip().casefold(): each for each in known}
    found = get_close_matches(value.strip().casefold(), list(by_shape), n=1)
    return f", perhaps {by_shape[found[0]]!r}" if found else ""


def _ends(declared: Range | Dates) -> tuple[Any, Any]:
    if isinstance(declared, Range):
        return declared.low, declared.high
    return np.datetime64(declared.first, "us"), np.datetime64(declared.last, "us")


def _points(cells: Cells, present: np.ndarray) -> np.ndarray:
    """Points in time in microseconds, within the calendar."""
    calendar = np.array(["0001-01-01", "9999-12-31"], "datetime64[us]")
    if cells.values.dtype.kind == "M":
        return clipped_dates(cells.values[present], calendar)
    return np.array([np.datetime64(cell, "us") for cell in cells.values[present]])


def _most(values: np.ndarray) -> str:
    """The values at both ends."""
    low, high = values.min(), values.max()
    if values.dtype.kind == "M":
        low, high = low.astype("datetime64[m]"), high.astype("datetime64[m]")
    return str(low) if low == high else f"from {low} to {high}"
