"""`TrainingSource`: a table of PostgreSQL in which `bolt_on` trains."""

from __future__ import annotations

from typing import Any

import numpy as np

from skdp._floats import FloatArray
from skdp.io import SqlSource
from skdp.io._arrow import kind_of
from skdp.io._engine import quoted
from skdp.io._reading import Reading
from skdp.io._rows import StreamSource
from skdp.io._session import refused
from skdp.io._sql import UNREADABLE
from skdp.io._targets import Labels, Numbers, Targets
from skdp.io.engines._postgres import ENCODINGS, PostgreSQL
from skdp.papers._plain_descent import PlainDescent
from skdp.papers._postgres_descent import (
    CAN_TRAIN,
    MOST_FEATURES,
    DescentText,
    is_within,
    records_of,
)


class TrainingSource(SqlSource):
    """Records in PostgreSQL; `bolt_on` goes through them within the server.

    An `SqlSource` in all else. The descent of a model of one output is an aggregate of
    functions that end with the reading: five to seven times slower than reading the
    rows, and the user must be allowed to make temporary functions. Models of several
    outputs or features that are no numbers are read all the same.

    Raises
    ------
    ValueError
        For another database, a standby, or a user who may make no functions, and as
        `SqlSource` does.
    """

    def _check_engine(self) -> None:
        super()._check_engine()
        engine = self._engine
        if not isinstance(engine, PostgreSQL) or not refused(
            lambda: engine.row(CAN_TRAIN)[0], UNREADABLE
        ):
            raise ValueError(
                "A TrainingSource must be of PostgreSQL, no standby, and of a user who "
                "may make temporary functions in PL/pgSQL. Got another. Use SqlSource, "
                "or ask for GRANT TEMPORARY on the database."
            )

    def descended(
        self, asked: PlainDescent, reading: Reading, targets: Targets
    ) -> FloatArray | None:
        """Averaged weights, private; None where rows must be read instead."""
        plain = self._plain_cells(reading, targets)
        if plain is None or not is_within(asked):
            return None
        cells, y = plain
        own = quoted(str(self._id))
        # All rows keep their places.
        target = f"CASE WHEN {self._is_record()} THEN {y} END"
        records = records_of(own, cells, target, self._relation)
        engine = self._postgres
        (session,) = self._reads

        def ask() -> tuple[int, FloatArray]:
            found = aggregated(engine, DescentText(asked, records))
            return self._count(), found

        found: FloatArray = session.answered(ask)
        return found

    @property
    def _postgres(self) -> PostgreSQL:
        assert isinstance(self._engine, PostgreSQL)  # else it was refused
        return self._engine

    def _plain_cells(
        self, reading: Reading, targets: Targets
    ) -> tuple[list[str], str] | None:
        """Features and target as SQL expressions of numbers; None if some are none."""
        is_all = self._places is None and not self._steps
        if self.target is None or not is_all or not reading.is_numeric:
            return None
        y = target_text(targets, self._number(self.target))
        if y is None or len(reading.names) > MOST_FEATURES:
            return None
        # Labels in other characters are in no row; rows are read, and nothing is said.
        (encoding,) = self._postgres.row("SELECT current_setting('server_encoding')")
        if not _can_write(y, ENCODINGS[encoding]):
            return None
        return [self._number(name) for name in reading.names], y

    def _number(self, name: str) -> str:
        """What is read of a column as a number; engines make no doubles of booleans."""
        cell = self._cells[name]
        is_boolean = kind_of(cell.dtype) == "boolean"
        return f"CAST({cell.text} AS INTEGER)" if is_boolean else cell.text


def descended(source: Any, asked: PlainDescent) -> FloatArray | None:
    """Averaged weights of shape (n_columns,), private, of a source that trains.

    None of any other source.
    """
    if not isinstance(source, StreamSource) or source.targets is None:
        return None
    rows = source.rows
    if source.is_of_users or not rows.is_as_read:
        return None
    if not isinstance(rows.table, TrainingSource):
        return None
    return rows.table.descended(asked, rows.reading, source.targets)


def aggregated(engine: PostgreSQL, text: DescentText) -> FloatArray:
    """Averaged weights, by an aggregate that ends with a connection of its own.

    The transaction of the readings must not write, and functions are written: they are
    made in another one, of the same snapshot, which is rolled back.
    """
    other = engine._joined("READ WRITE")
    try:
        for statement in text.statements:
            other._run(statement)
        (found,) = other.row(text.call)
    finally:
        other.leave()
    return np.array(found, dtype=np.float64)


def target_text(targets: Targets, cell: str) -> str | None:
    """Targets as an SQL expression, NULL for null records; None if there is none."""
    if isinstance(targets, Labels):
        return _label_text(targets, cell)
    is_plain = isinstance(targets, Numbers) and targets.then is None
    return cell if is_plain else None


def _label_text(labels: Labels, cell: str) -> str:
    is_text = labels.kind == "string"
    cases = " ".join(
        f"WHEN {_text(label) if is_text else _number(label)} THEN {code}"
        for code, label in enumerate(labels.classes)
    )
    dtype = "VARCHAR" if is_text else "DOUBLE PRECISION"
    return f"CASE CAST({cell} AS {dtype}) {cases} END"


def _text(label: Any) -> str:
    return "'" + str(label).replace("'", "''") + "'"


def _number(label: Any) -> str:
    return f"CAST('{float(label)!r}' AS DOUBLE PRECISION)"


def _can_write(text: str, encoding: str) -> bool:
    """Whether a query may hold a text."""
    try:
        return b"\0" not in text.encode(encoding)
    except UnicodeEncodeError:
        return False
