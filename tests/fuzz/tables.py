"""Neighbouring tables of every declared type, filled with hostile values.

A table is drawn as an Arrow table, whose types are public and the same on both sides.
It then lies in memory, in a Parquet file or in DuckDB.
"""

from __future__ import annotations

import dataclasses
import decimal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet
from scipy.sparse import csr_array
from sklearn.base import clone

from skdp.columns import Boolean, Categories, Dates, Range
from skdp.io import ParquetSource, SqlSource

LAST, FIRST = 2**63 - 1, -(2**63)
IDS = "person"
TARGET = "y"
TARGET_BOUNDS = (0.0, 5.0)


@dataclass(frozen=True)
class Kind:
    """Columns of one Arrow type."""

    type: pa.DataType
    usual: tuple[Any, ...]
    hostile: tuple[Any, ...]
    declared: tuple[Any, ...]


_NUMBERS = (
    Range(0, 1),
    Range(0, 1, missing=True),
    Range(0, 100, log=True, missing=True),
    Range(1e-300, 1e300, log=True),
    Range(-1e308, 1e308, missing=True),
)
_CODES = (*_NUMBERS[:3], Categories([0, 1]), Categories([0, 1], missing=True))
_TEXTS = (Categories(["a", "b"]), Categories(["a", "b"], missing=True))
_DAYS = ("2019-01-01", "2021-01-01")
_ALL_PARTS = ("month", "weekday", "day", "hour")
_DATES = (
    Dates(*_DAYS),
    Dates(*_DAYS, parts=["day"]),
    Dates(*_DAYS, parts=_ALL_PARTS, missing=True),
    Dates("0001-01-01", "9999-12-31", parts=["day", "hour"], missing=True),
)
_FLOATS = (None, np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, -0.0, 1e39)
_WORDS = (None, "", "A", "a ", "a\0", "é", "e\u0301", "x" * 20_000)
# Ends of the counts, days around the ends of a unit, and the first day of the calendar.
_COUNTS = (None, LAST, FIRST, FIRST + 1, FIRST + 43_200, 2**62, -(2**62))


def _points(unit: str, in_a_second: int) -> Kind:
    usual = (1_577_836_800 * in_a_second, 1_590_000_000 * in_a_second)
    return Kind(pa.timestamp(unit), usual, _COUNTS, _DATES)


_D = decimal.Decimal
KINDS = {
    "float64": Kind(pa.float64(), (0.5, 0.25), _FLOATS, _NUMBERS),
    "float32": Kind(
        pa.float32(), (0.5, 0.25), (*_FLOATS[:4], 3e38, 1e-45, -0.0), _NUMBERS
    ),
    "int8": Kind(pa.int8(), (0, 1), (None, 127, -128), _CODES),
    "int64": Kind(pa.int64(), (0, 1), (None, LAST, FIRST, 2**53 + 1), _CODES),
    "uint64": Kind(pa.uint64(), (0, 1), (None, 2**64 - 1, 2**63), _CODES),
    "decimal": Kind(
        pa.decimal128(38, 10),
        (_D("0.5"), _D("0.25")),
        (None, _D("9" * 28), _D("-" + "9" * 28), _D("1e-10")),
        _NUMBERS,
    ),
    "decimal256": Kind(
        pa.decimal256(76, 10),
        (_D("0.5"), _D("0.25")),
        (None, _D("9" * 66), _D("-" + "9" * 66)),
        _NUMBERS,
    ),
    "boolean": Kind(
        pa.bool_(), (True, False), (None,), (Boolean(), Boolean(missing=True))
    ),
    "text": Kind(pa.string(), ("a", "b"), (*_WORDS, b"\xff\xfe"), _TEXTS),
    "large text": Kind(pa.large_string(), ("a", "b"), _WORDS, _TEXTS),
    "dictionary": Kind(
        pa.dictionary(pa.int32(), pa.string()), ("a", "b"), _WORDS, _TEXTS
    ),
    "days": Kind(
        pa.date32(),
        (18_262, 18_300),
        (None, 2**31 - 1, -(2**31), -719_163, 2_932_897),
        _DATES,
    ),
    "seconds": _points("s", 1),
    "milliseconds": _points("ms", 10**3),
    "microseconds": _points("us", 10**6),
    "nanoseconds": _points("ns", 10**9),
    # Of which nothing can be declared: it is refused before anything is spent.
    "list": Kind(pa.list_(pa.int64()), ([0], [1]), (None, []), (Range(0, 1),)),
}
NUMERIC = ("float64", "float32", "int8", "int64", "uint64", "decimal", "boolean")
_FORMS = ("pandas", "Arrow", "polars", "objects")
WITH_HOLES = "array with holes"
_FORMS_OF_NUMBERS = ("array", "single", "sparse")
_OFTEN = ("boolean", "text", "milliseconds", "nanoseconds")
PLACES = ("memory", "memory", "Parquet", "Parquet", "DuckDB")


def array_of(values: list[Any], dtype: pa.DataType) -> pa.Array:
    """Values as an Arrow array; dates are counts, and bytes are texts as stored."""
    if pa.types.is_temporal(dtype):
        width = pa.int32() if dtype == pa.date32() else pa.int64()
        return pa.array(values, width).view(dtype)
    if pa.types.is_dictionary(dtype):
        return pa.array(values, dtype.value_type).dictionary_encode()
    if dtype == pa.string():
        stored = [v.encode() if isinstance(v, str) else v for v in values]
        return pa.array(stored, pa.binary()).cast(pa.string(), safe=False)
    return pa.array(values, dtype)


@dataclass(frozen=True)
class Shape:
    """What is public of a drawn table."""

    place: str
    form: str
    unit: str
    adjacency: str
    is_class: bool
    kinds: dict[str, str]
    columns: dict[str, Any] | None
    n: int
    batch_size: int

    def __str__(self) -> str:
        where = self.form if self.place == "memory" else f"batches of {self.batch_size}"
        columns = self.kinds if self.columns is None else self.columns
        return (
            f"{self.place} ({where}), {self.n} {self.unit}s, {self.adjacency}, "
            f"{columns}"
        )


@dataclass
class Data:
    """One side of a pair as estimators take it."""

    shape: Shape
    table: pa.Table
    absent: int | None = None
    X: Any = None
    y: Any = None
    groups: Any = None
    _connection: Any = field(default=None, repr=False)

    @property
    def is_source(self) -> bool:
        return self.shape.place != "memory"

    def placed(self, path: Any) -> None:
        """Put the table where it shall lie."""
        if not self.is_source:
            self._put_in_memory()
            return
        groups = IDS if self.shape.unit == "user" else None
        n, batch_size = self.shape.n, self.shape.batch_size
        if self.shape.place == "Parquet":
            table = _without_seconds(self.table)
            parquet.write_table(table, path, row_group_size=max(1, n // 2))
            self.X = ParquetSource(
                path, target=TARGET, n_samples=n, groups=groups, batch_size=batch_size
            )
            return
        self._connection = duckdb.connect(config={"threads": 1})
        self._connection.register("given", self.table)
        self._connection.execute("CREATE TABLE records AS SELECT * FROM given")
        self._connection.unregister("given")
        self.X = SqlSource(
            self._connection,
            "records",
            target=TARGET,
            n_samples=n,
            groups=groups,
            batch_size=batch_size,
        )

    def _put_in_memory(self) -> None:
        self.y = self.table[TARGET].to_numpy()
        if self.shape.unit == "user":
            names = [f"u{i}" for i in range(self.shape.n)]
            self.groups = pd.Categorical(self.table[IDS].to_pylist(), categories=names)
        rows = self.table.select(list(self.shape.kinds))
        self.X = in_memory(rows, self.shape.form)

    def fit(self, model: Any) -> Any:
        """A clone, fitted."""
        model = clone(model)
        if self.is_source:
            return model.fit(self.X)
        if self.groups is not None:
            return model.fit(self.X, self.y, groups=self.groups)
        return model.fit(self.X, self.y)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def _without_seconds(table: pa.Table) -> pa.Table:
    """Parquet has no seconds: they become milliseconds, and far ones wrap around."""
    fields = [
        field.with_type(pa.timestamp("ms"))
        if field.type == pa.timestamp("s")
        else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields), safe=False)


def in_memory(rows: pa.Table, form: str) -> Any:
    """A table as pandas, polars, NumPy or SciPy hold it."""
    if form == "polars":
        import polars

        return polars.from_arrow(rows)
    if form in (*_FORMS_OF_NUMBERS, WITH_HOLES):
        columns = [_floats(rows[name]) for name in rows.column_names]
        made = np.column_stack(columns)
        if form == "sparse":
            return csr_array(made)
        with np.errstate(all="ignore"):
            return made.astype(np.float32) if form == "single" else made
    if form != "Arrow":
        try:
            frame = rows.to_pandas()
            return frame.astype(object) if form == "objects" else frame
        except (pa.ArrowInvalid, ValueError, OverflowError):
            pass  # dates of Arrow that Python's calendar does not have
    return rows.to_pandas(types_mapper=pd.ArrowDtype)


def _floats(column: pa.ChunkedArray) -> np.ndarray:
    missing = (np.nan if cell is None else float(cell) for cell in column.to_pylist())
    return np.fromiter(missing, dtype=float, count=len(column))


class Pair:
    """Two neighbouring tables, drawn."""

    def __init__(self, rng: Any, shape: Shape) -> None:
        self._rng, self.shape = rng, shape
        share = 0.15
        if shape.unit == "record":
            rows = [[self._row(share)] for _ in range(shape.n)]
        else:
            sizes = rng.integers(1, 4, size=shape.n)
            rows = [[self._row(share) for _ in range(size)] for size in sizes]
        at = shape.n - 1 if rng.random() < 0.6 else int(rng.integers(shape.n))
        if rng.random() < 0.5:
            rows[at] = [self._row(0.7) for _ in rows[at]]
        other = list(rows)
        other[at] = self._replacement(at)
        absent = None
        if shape.adjacency == "zero_out" and shape.unit == "record":
            if shape.place == "memory":
                other, absent = rows, at
            else:  # a record without a target is null
                other[at] = [{**other[at][0], TARGET: None}]
        self.at = at
        self.usual = self._table([[self._row(0.0)] for _ in range(6)])
        self.sides = [
            Data(shape, self._table(rows)),
            Data(shape, self._table(other), absent),
        ]

    def place(self, folder: Path) -> None:
        """Put both tables where they shall lie, in the same types, which are public.

        What DuckDB cannot hold lies in files, and dates that Python does not have in
        columns of Arrow.
        """
        paths = [folder / f"{number}.parquet" for number in range(2)]
        try:
            self._put(paths)
        except duckdb.Error:
            self._put(paths, place="Parquet")
        one, other = (getattr(side.X, "dtypes", None) for side in self.sides)
        if isinstance(one, pd.Series) and not one.equals(other):
            self._put(paths, form="Arrow")

    def _put(self, paths: list[Path], **changes: str) -> None:
        self.shape = dataclasses.replace(self.shape, **changes)
        for side, path in zip(self.sides, paths, strict=True):
            side.shape = self.shape
            side.placed(path)

    def _replacement(self, at: int) -> list[dict[str, Any]]:
        if self.shape.unit == "record":
            return [self._row(0.8)]
        if self.shape.adjacency == "zero_out" or self._rng.random() < 0.25:
            return []
        if self.shape.batch_size > 100 and self._rng.random() < 0.15:
            return [self._row(0.5)] * 1025  # more than a user may have
        return [self._row(0.6) for _ in range(self._rng.integers(1, 6))]

    def _row(self, share: float) -> dict[str, Any]:
        """A record of which a share of the cells is hostile."""
        row = {}
        for name, of in self.shape.kinds.items():
            kind = KINDS[of]
            values = kind.usual
            if self._rng.random() < share:
                values = self._hostile(name, kind)
                if None in values and self._rng.random() < 0.3:
                    values = (None,)  # which is more often the cause than any other
            row[name] = values[self._rng.integers(len(values))]
        row[TARGET] = self._target(self._rng.random() < share)
        return row

    def _hostile(self, name: str, kind: Kind) -> tuple[Any, ...]:
        """In memory a missing cell that is not declared is refused, so few are."""
        if self.shape.place != "memory":
            return kind.hostile
        declared = None if self.shape.columns is None else self.shape.columns[name]
        allows = getattr(declared, "missing", self.shape.form == WITH_HOLES)
        values = kind.hostile
        if not allows:
            values = tuple(v for v in values if not _is_missing(v))
        if declared is None:
            largest = 1e38 if self.shape.form == "single" else np.finfo(float).max
            values = tuple(v for v in values if v is None or abs(v) <= largest)
        return tuple(v for v in values if not isinstance(v, bytes)) or kind.usual

    def _target(self, is_hostile: bool) -> Any:
        in_memory = self.shape.place == "memory"
        if self.shape.is_class:
            odd = () if in_memory else (None, 7, -1, LAST)
            values: tuple[Any, ...] = odd if is_hostile and odd else (0, 1)
        else:
            odd = (1e308, -1e308, 5e-324, -0.0, 5.0)
            odd = odd if in_memory else (*odd, None, np.nan, np.inf)
            values = odd if is_hostile else (0.5, 2.5, 4.0)
        return values[self._rng.integers(len(values))]

    def _table(self, users: list[list[dict[str, Any]]]) -> pa.Table:
        rows = [row for user in users for row in user]
        made = {
            name: array_of([row[name] for row in rows], KINDS[of].type)
            for name, of in self.shape.kinds.items()
        }
        dtype = pa.int64() if self.shape.is_class else pa.float64()
        made[TARGET] = pa.array([row[TARGET] for row in rows], dtype)
        if self.shape.unit == "user":
            ids = [f"u{i}" for i, user in enumerate(users) for _ in user]
            made[IDS] = pa.array(ids, pa.string())
        return pa.table(made)


def _is_missing(value: Any) -> bool:
    return value is None or value is FIRST or value != value


def draw_shape(
    rng: Any, *, has_columns: bool, place: str, unit: str, more: tuple[str, ...]
) -> Shape:
    """What is public of a table, at random."""
    names = [name for name in KINDS if name != "list"] if has_columns else NUMERIC
    form = str(rng.choice(_FORMS if has_columns else (*_FORMS_OF_NUMBERS, *more)))
    if place == "memory" and form in ("pandas", "objects"):
        # Decimals are objects there, which are refused.
        names = [name for name in names if not name.startswith("decimal")]
    if place == "DuckDB" or (place == "memory" and form == "polars"):
        names = [name for name in names if name != "decimal256"]  # which they have not
    if has_columns and rng.random() < 0.02:
        names = ["list"]
    names = [*names, *(n for n in names if n in _OFTEN)]
    n_columns = int(rng.integers(1, 4))
    kinds = {f"c{i}": str(rng.choice(names)) for i in range(n_columns)}
    columns = None
    if has_columns:
        columns = {
            name: KINDS[of].declared[rng.integers(len(KINDS[of].declared))]
            for name, of in kinds.items()
        }
    n = int(rng.integers(6, 13))
    return Shape(
        place=place,
        form=form,
        unit=unit,
        adjacency=str(rng.choice(["replace_one", "zero_out"])),
        is_class=bool(rng.integers(2)),
        kinds=kinds,
        columns=columns,
        n=n,
        # The last batch has one row in most tables of records.
        batch_size=int(rng.choice([1, 1, n - 1, n - 1, 3, 1 << 14])),
    )
