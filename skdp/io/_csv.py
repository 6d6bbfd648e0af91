"""CSV files, read cell by cell by the declarations of their columns.

Nothing is inferred from the cells, and no cell causes an error: the value of a cell
follows from its text and the declaration alone, and messages quote no cell. Quotation
marks decide which lines are one record (RFC 4180). A file with a quotation mark that
stays open, or closes within a cell, is refused, since other records could become part
of one cell.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd

from skdp.tables._columns import Categories, Declaration

_TRUTHS = {"true": True, "1": True, "false": False, "0": False}


def read_csv(
    path: str | Path, columns: Mapping[str, Declaration]
) -> tuple[pd.DataFrame, dict[str, Declaration]]:
    """The declared columns of a file with a header, and what may be in them.

    Parameters
    ----------
    path : str or Path
        Path of a UTF-8 file with commas; bytes that are not UTF-8 are replaced.
    columns : mapping from str to Declaration

    Returns
    -------
    frame : DataFrame of shape (n_samples, n_columns)
        Cells as objects, private. A cell that is empty, absent, or not as its column
        is declared is missing; a text that is not a declared category stays. Blank
        lines are not records.
    declared : dict
        The declarations with ``missing=True``: in a file of texts any cell may be
        missing.

    Raises
    ------
    ValueError
        If a declared column is not in the header, or occurs twice, or if a quoted cell
        does not end where a cell must end.
    """
    with _opened(path) as rows:
        header = next(rows, [])
        places = [_place(name, header) for name in columns]
        texts = [[row[at] if at < len(row) else "" for at in places] for row in rows]
    frame = pd.DataFrame(index=range(len(texts)))
    for i, (name, declared) in enumerate(columns.items()):
        read = _reader(declared)
        cells = [read(row[i]) for row in texts]
        frame[name] = pd.Series(cells, dtype=object)
    return frame, {
        name: replace(declared, missing=True)  # type: ignore[call-arg]
        for name, declared in columns.items()
    }


def read_header(path: str | Path) -> list[str]:
    """The names of columns in the first line of a file, which must be a header.

    Raises ValueError if a quoted name does not end where it must.
    """
    with _opened(path) as rows:
        return next(rows, [])


@contextmanager
def _opened(path: str | Path) -> Iterator[Iterator[list[str]]]:
    """The header and the records of a file, without blank lines."""
    with (
        _cells_of_any_length(),
        open(path, newline="", encoding="utf-8-sig", errors="replace") as file,
    ):
        yield filter(None, _records(file))


def _records(file: Iterable[str]) -> Iterator[list[str]]:
    """Cells of each record of a file with valid quotation marks."""
    try:
        yield from csv.reader(file, strict=True)
    except csv.Error:
        raise ValueError(
            "A quoted cell of a CSV file must end with a quotation mark, and a comma "
            "or the end of its line after it. Got one that does not. Write the file "
            "with a CSV writer, or as Parquet. Nothing was spent."
        ) from None


@contextmanager
def _cells_of_any_length() -> Iterator[None]:
    """Lift the limit on the length of a cell, which would raise an error."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _place(name: str, header: list[str]) -> int:
    if header.count(name) != 1:
        raise ValueError(
            f"The header of a CSV file must have each declared column once. Got "
            f"{header.count(name)} columns named {name!r}. Declare columns by the "
            "names in the header."
        )
    return header.index(name)


def _reader(declared: Declaration) -> Callable[[str], Any]:
    """The function that converts a text to a cell; None for a missing cell."""
    if isinstance(declared, Categories):
        listed = declared.values
        if declared.kind == "string":
            return lambda text: text if text or text in listed else None
        return lambda text: _tried(_whole, text)
    parse = _PARSERS[declared.kind]
    return lambda text: _tried(parse, text)


def _tried(parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text.strip())
    except ValueError:
        return None


def _truth(text: str) -> bool | None:
    return _TRUTHS.get(text.lower())


def _whole(text: str) -> int | None:
    """An integer, even if it is written as a float."""
    try:
        return int(text)
    except ValueError:
        number = float(text)
        return int(number) if number.is_integer() else None


def _point_in_time(text: str) -> datetime | None:
    point = datetime.fromisoformat(text)
    return point if point.tzinfo is None else None


_PARSERS: dict[str, Callable[[str], Any]] = {
    "number": float,
    "boolean": _truth,
    "date": _point_in_time,
}
