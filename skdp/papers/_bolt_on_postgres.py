"""Bolt-on SGD inside PostgreSQL: a source that trains, and its SQL functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp._arrays import FloatArray
from skdp.io._engine import quoted
from skdp.io._reading import Labels, NumberTargets, Reading, Targets, kind_of
from skdp.io._rows import StreamSource
from skdp.io._session import refused
from skdp.io._sql import UNREADABLE, SqlSource
from skdp.io.engines._postgres import ENCODINGS, PostgreSQL
from skdp.losses._base import LossId

# ------------------------------------------------- Permuted descent as plain arithmetic
# For sources that train where their records are stored.


@dataclass(frozen=True, eq=False)
class PlainDescent:
    """Public numbers of a descent of one output over all records.

    Pass j processes the records in the order of a permutation of their ids by
    ``keys[j]``. After every `batch_size` records, and at the end of a pass, an update
    ``weights = (1 - step * alpha) * weights - step / batch_size * gradient`` follows.
    It is projected to `radius` and enters the average with its share.

    Parameters
    ----------
    steps, shares : ndarray of shape (n_passes, updates_per_pass)
    keys : tuple of str of length n_passes
        Hexadecimal.
    batch_size, n_samples, n_features : int
    alpha : float
    radius : float in (0, inf]
    data_norm : float
        Rows are clipped to this norm, and `intercept` is appended.
    intercept : float or None
        None: rows have no intercept column.
    form : LossId
    form_constants : tuple of float
    """

    steps: FloatArray
    shares: FloatArray
    keys: tuple[str, ...]
    batch_size: int
    n_samples: int
    n_features: int
    alpha: float
    radius: float
    data_norm: float
    intercept: float | None
    form: LossId
    form_constants: tuple[float, ...]

    @property
    def n_columns(self) -> int:
        """Number of weights, the intercept's included."""
        return self.n_features + (self.intercept is not None)


# --------------------------------------- Permuted descent as an aggregate of PostgreSQL
# The aggregate has three parts: initialise, transition, terminate. The reference is
# `skdp.papers._bolt_on.State`. Nothing may raise, for any records, but PostgreSQL
# raises where a double overflows or becomes zero. So numbers are rounded to a grid so
# fine that no result depends on it (proof page, "In the database"), large numbers are
# divided first, and exponents are bounded.
#
# An aggregate that is not parallel has one state; it cannot merge two states, and rows
# come in the order that its call names.


# With more features the text is longer than an engine should be given.
MOST_FEATURES = 200
# Losses for which no record can make a step of the residual overflow.
_FORMS = (LossId.SIGMOID, LossId.HINGE, LossId.ERROR)
# Names in a connection's temporary schema, which ends with the connection.
_STEP, _PASS, _ALL = "pg_temp.skdp_step", "pg_temp.skdp_pass", "pg_temp.skdp_descent"
# Adding and subtracting this power of two leaves multiples of 2^-453.
_GRID = -400
# Larger powers of two are divided before they are squared.
_FAR = 300
# The largest argument of an exponential: e^-300 times a grid's unit is not zero.
_FARTHEST = 300.0
# Public numbers are in this range, so that no product of grid numbers is zero.
_LEAST, _MOST = 2.0**-30, 2.0**30
_MOST_ROWS = 2**31 - 1  # positions are integers
_MOST_UPDATES = 2**20  # their steps are in the text
# The least fraction of a row's largest number that is kept in large rows.
_KEPT = -200


def is_within(asked: PlainDescent) -> bool:
    """Whether the public numbers are in range and not too many, and the loss known."""
    numbers = [asked.data_norm, *np.ravel(asked.steps) / asked.batch_size]
    numbers += [*asked.form_constants, asked.alpha, asked.radius, asked.intercept or 0]
    size = np.abs(np.array(numbers, dtype=float))
    size = size[(size > 0) & np.isfinite(size)]
    is_moderate = bool(size.min() >= _LEAST and size.max() <= _MOST)
    is_short = asked.steps.size <= _MOST_UPDATES
    if asked.form not in _FORMS:
        return False
    return is_moderate and is_short and asked.n_samples <= _MOST_ROWS


# Whether a connection may create the functions; follows from no record.
CAN_TRAIN = (
    "SELECT has_database_privilege(current_database(), 'TEMPORARY') "
    "AND EXISTS (SELECT FROM pg_catalog.pg_language WHERE lanname = 'plpgsql' "
    "AND has_language_privilege(oid, 'USAGE')) AND NOT pg_is_in_recovery()"
)


@dataclass(frozen=True)
class DescentText:
    """The texts of one descent; all numbers in them are public.

    Parameters
    ----------
    asked : PlainDescent
    records : str
        A query with the columns ``id``, ``x0``, ``x1``, ..., ``y``, all doubles but the
        first; rows in which one is missing or not finite are null records.
    """

    asked: PlainDescent
    records: str

    @property
    def statements(self) -> Iterator[str]:
        """Statements that create the aggregate and the function that calls it."""
        yield self._step()
        yield (
            f"CREATE AGGREGATE {_PASS}(double precision[], double precision[], "
            "double precision, double precision, double precision, boolean) "
            f"(SFUNC = {_STEP}, STYPE = double precision[], PARALLEL = UNSAFE)"
        )
        yield self._passes()

    @property
    def call(self) -> str:
        """A query of one row and column: the averaged weights."""
        return f"SELECT {_ALL}({_array(self.asked.steps)}, {_array(self.asked.shares)})"

    def _step(self) -> str:
        """The transition: the state holds weights, a batch's gradient, the average."""
        lines = "\n".join([*self._record(), *self._update()])
        return f"""CREATE FUNCTION {_STEP}(
    s double precision[], start double precision[], x double precision[],
    y double precision, step double precision, share double precision, ends boolean
) RETURNS double precision[] LANGUAGE plpgsql PARALLEL UNSAFE AS $$
DECLARE
    raw double precision; e double precision; t double precision;
    size double precision;
BEGIN
    IF s IS NULL THEN s := start; END IF;
{lines}
    RETURN s;
END $$"""

    def _record(self) -> Iterator[str]:
        """A record's gradient, added to the gradient of its batch."""
        asked, c = self.asked, self.asked.n_columns
        row = [f"x[{j}]" for j in range(1, asked.n_features + 1)]
        if asked.intercept is not None:
            row.append(_of(asked.intercept))
        yield "IF x IS NOT NULL THEN"
        terms = [f"{entry} * s[{j}]" for j, entry in enumerate(row, 1)]
        yield f"raw := {_gridded(' + '.join(terms))};"
        yield from self._residual()
        added = [
            _gridded(f"s[{c + j}] + e * {entry}") for j, entry in enumerate(row, 1)
        ]
        yield f"s[{c + 1}:{2 * c}] := ARRAY[{', '.join(added)}];"
        yield "END IF;"

    def _residual(self) -> Iterator[str]:
        first, second, *weights = self.asked.form_constants
        if self.asked.form == LossId.SIGMOID:
            yield f"t := exp(-least(abs(raw), {_of(_FARTHEST)}));"
            yield "e := (CASE WHEN raw >= 0 THEN 1 ELSE t END) / (1 + t) - y;"
        elif self.asked.form == LossId.HINGE:
            yield "t := CASE WHEN y > 0.5 THEN 1 ELSE -1 END;"
            slope = f"({_of(1 + first)} - t * raw) / {_of(2 * first)}"
            yield f"e := -t * {_clipped(slope, 0.0, 1.0)};"
        else:
            target = _gridded(_clipped("y", -second, second))
            yield f"e := {_clipped(f'raw - ({target})', -first, first)};"
        if weights:
            yield f"e := e * {_label_weight('y', weights)};"

    def _update(self) -> Iterator[str]:
        """At the end of a batch: a projected step, and its share of the average."""
        asked, c = self.asked, self.asked.n_columns
        columns = range(1, c + 1)
        yield "IF ends THEN"
        yield f"size := 1 - step * {_of(asked.alpha)};"
        yield f"t := step / {_of(asked.batch_size)};"
        moved = [_gridded(f"size * s[{j}] - t * s[{c + j}]") for j in columns]
        yield f"s[1:{2 * c}] := ARRAY[{', '.join([*moved, *[_of(0.0)] * c])}];"
        if np.isfinite(asked.radius):
            squares = " + ".join(f"s[{j}] * s[{j}]" for j in columns)
            radius = _of(asked.radius)
            yield f"size := {squares};"
            yield f"IF size > {radius} * {radius} THEN"
            yield f"t := {radius} / sqrt(size);"
            yield from (f"s[{j}] := {_gridded(f's[{j}] * t')};" for j in columns)
            yield "END IF;"
        yield "IF share > 0 THEN"
        yield from (
            f"s[{2 * c + j}] := s[{2 * c + j}] + share * s[{j}];" for j in columns
        )
        yield "END IF;"
        yield "END IF;"

    def _passes(self) -> str:
        """The controller: pass after pass over one state, which no other code sees."""
        asked, c = self.asked, self.asked.n_columns
        per_pass, size = asked.steps.shape[1], asked.batch_size
        keys = ", ".join(f"'{key}'" for key in asked.keys)
        return f"""CREATE FUNCTION {_ALL}(
    steps double precision[], shares double precision[]
) RETURNS double precision[] LANGUAGE plpgsql PARALLEL UNSAFE AS $$
#variable_conflict use_column
DECLARE
    s double precision[] := array_fill(0::double precision, ARRAY[{3 * c}]);
    keys text[] := ARRAY[{keys}];
BEGIN
    FOR j IN 1..{len(asked.keys)} LOOP
        SELECT {_PASS}(
            CASE WHEN place = 0 THEN s END, x, y,
            steps[(j - 1) * {per_pass} + place / {size} + 1],
            shares[(j - 1) * {per_pass} + place / {size} + 1],
            (place + 1) % {size} = 0 OR place + 1 = {asked.n_samples}
            ORDER BY place
        ) INTO s FROM ({self._ordered()}) AS ordered;
    END LOOP;
    RETURN s[{2 * c + 1}:{3 * c}];
END $$"""

    def _ordered(self) -> str:
        """Clipped rows and their positions in the order of pass j."""
        row = ", ".join(_gridded(f"{x} * factor") for x in self._names)
        return (
            f"SELECT CASE WHEN is_real THEN ARRAY[{row}] END AS x, y, (row_number() "
            'OVER (ORDER BY md5(keys[j] || CAST(id AS text)) COLLATE "C", id) - 1'
            f")::integer AS place FROM ({self._factors()} OFFSET 0) AS factors"
        )

    @property
    def _names(self) -> list[str]:
        return [f"x{j}" for j in range(self.asked.n_features)]

    # An OFFSET keeps levels apart, which the planner would otherwise merge.

    def _factors(self) -> str:
        """Factor that clips each row to the norm."""
        norm = _of(self.asked.data_norm)
        squares = " + ".join(f"{x} * {x}" for x in self._names)
        is_long = f"size > {norm} * {norm} OR largest >= {_power(_FAR)}"
        # Nested, since null records have no norm to divide by.
        factor = (
            f"CASE WHEN NOT is_real THEN {_of(1.0)} WHEN {is_long} THEN {norm} / "
            f"sqrt(size) ELSE {_of(1.0)} END"
        )
        sized = f"SELECT *, {squares} AS size FROM ({self._near()} OFFSET 0) AS near"
        return f"SELECT *, {factor} AS factor FROM ({sized} OFFSET 0) AS sized"

    def _near(self) -> str:
        """Rows whose squares neither overflow nor vanish; null records are zeros."""
        rows = ", ".join(
            f"CASE WHEN NOT is_real THEN {_of(0.0)} "
            f"WHEN largest < {_power(_FAR)} THEN {_gridded(x)} "
            # Large rows are scaled to a largest number of 1, and then clipped.
            f"ELSE (({x} + largest * {_power(_KEPT)}) - largest * {_power(_KEPT)}) "
            f"/ largest END AS {x}"
            for x in self._names
        )
        # In PostgreSQL NaN is larger than all numbers.
        is_real = " AND ".join(
            f"abs({x}) < 'Infinity'::double precision" for x in [*self._names, "y"]
        )
        largest = ", ".join(f"abs({x})" for x in self._names)
        found = (
            f"SELECT *, COALESCE({is_real}, FALSE) AS is_real, "
            f"greatest({largest}) AS largest FROM ({self.records}) AS records"
        )
        return (
            f"SELECT id, y, is_real, largest, {rows} FROM ({found} OFFSET 0) AS found"
        )


def records_of(own_id: str, cells: Sequence[str], target: str, relation: str) -> str:
    """A query with the columns ``id``, ``x0``, ``x1``, ... and ``y``, as above."""
    named = {f"x{j}": cell for j, cell in enumerate(cells)} | {"y": target}
    shown = [
        f"CAST({cell} AS DOUBLE PRECISION) AS {name}" for name, cell in named.items()
    ]
    return f"SELECT {own_id} AS id, {', '.join(shown)} FROM {relation}"


def _label_weight(y: str, weights: Sequence[float]) -> str:
    """Weight of a record with label 0 or 1, as an expression of its label."""
    none, one = map(_of, weights)
    return f"(CASE WHEN {y} > {_of(0.5)} THEN {one} ELSE {none} END)"


def _gridded(text: str) -> str:
    """A number without its part below the grid."""
    return f"(({text}) + {_power(_GRID)}) - {_power(_GRID)}"


def _array(numbers: FloatArray) -> str:
    texts = ",".join(map(repr, numbers.ravel().tolist()))
    return f"CAST('{{{texts}}}' AS double precision[])"


def _clipped(text: str, low: float, high: float) -> str:
    return f"least(greatest({text}, {_of(low)}), {_of(high)})"


def _power(exponent: int) -> str:
    return _of(2.0**exponent)


def _of(number: float) -> str:
    """A double, to the last bit."""
    return f"'{float(number)!r}'::double precision"


# --------------------------- TrainingSource: a PostgreSQL table in which bolt_on trains


class TrainingSource(SqlSource):
    """Records in PostgreSQL; `bolt_on` processes them within the server.

    In all other respects this is an `SqlSource`. The descent of a model of one output
    is an aggregate of functions that end with the reading: five to seven times slower
    than reading the rows, and the user must be allowed to make temporary functions. For
    models of several outputs, or features that are not numbers, the rows are read.

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
        """Averaged weights, private; None if rows must be read instead."""
        plain = self._plain_cells(reading, targets)
        if plain is None or not is_within(asked):
            return None
        cells, y = plain
        own = quoted(str(self._id))
        # All rows keep their positions.
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
        assert isinstance(self._engine, PostgreSQL)  # otherwise it was refused
        return self._engine

    def _plain_cells(
        self, reading: Reading, targets: Targets
    ) -> tuple[list[str], str] | None:
        """Features and target as SQL expressions of numbers; None if impossible."""
        is_all = self._places is None and not self._steps
        if self.target is None or not is_all or not reading.is_numeric:
            return None
        y = target_text(targets, self._number(self.target))
        if y is None or len(reading.names) > MOST_FEATURES:
            return None
        # No row has labels in other characters; then rows are read, without a message.
        (encoding,) = self._postgres.row("SELECT current_setting('server_encoding')")
        if not _can_write(y, ENCODINGS[encoding]):
            return None
        return [self._number(name) for name in reading.names], y

    def _number(self, name: str) -> str:
        """A column as a number, in SQL; engines do not cast booleans to doubles."""
        cell = self._cells[name]
        is_boolean = kind_of(cell.dtype) == "boolean"
        return f"CAST({cell.text} AS INTEGER)" if is_boolean else cell.text


def descended(source: Any, asked: PlainDescent) -> FloatArray | None:
    """Averaged weights of shape (n_columns,), private, of a source that trains.

    None for any other source.
    """
    if not isinstance(source, StreamSource) or source.targets is None:
        return None
    rows = source.rows
    if source.facts.is_of_users or not rows.is_as_read:
        return None
    if not isinstance(rows.table, TrainingSource):
        return None
    return rows.table.descended(asked, rows.reading, source.targets)


def aggregated(engine: PostgreSQL, text: DescentText) -> FloatArray:
    """Averaged weights, by an aggregate that ends with a separate connection.

    The transaction of the readings must not write, but creating functions writes. So
    they are created in another transaction of the same snapshot, which is rolled back.
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
    """Targets as an SQL expression, NULL for null records; None if impossible."""
    if isinstance(targets, Labels):
        return _label_text(targets, cell)
    is_plain = isinstance(targets, NumberTargets) and targets.then is None
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
    """Whether a query can contain a text."""
    try:
        return b"\0" not in text.encode(encoding)
    except UnicodeEncodeError:
        return False
