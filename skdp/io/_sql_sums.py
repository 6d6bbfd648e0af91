"""Gradient sums as SQL: integers on the public grids, the same bits as in memory.

The reference is `ExactGradientSum`; every step has its rounding from the one there.
Columns are made doubles first, since engines multiply singles in single precision.
No function of an engine is used that is not rounded correctly: + - * / floor trunc sqrt
abs, and comparisons. Nothing is computed that may overflow or vanish, which some
engines take for an error: records with long doubles are far, and are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from skdp.io._engine import Dialect
from skdp.losses._base import Form
from skdp.losses._plain import COEFFICIENTS, FARTHEST, SHRINK, SQUARINGS
from skdp.queries._plain_gradient import PlainGradient
from skdp.queries._row_grid import LONGEST, MOST_SQUARES, SHORTENED

# From which on a query text is longer than an engine should be given.
MOST_FEATURES = 200
# Entries beyond it, in units of the grid, make their record far.
_LONGEST_ENTRY = 2.0**27
# Rows whose squares add up to `MOST_SQUARES` are shortened by this: such rows are far.
_LEAST_FACTOR = SHORTENED / math.sqrt(MOST_SQUARES)
# Squarings of the exponential in one expression: half of them in each of two.
_AT_ONCE = SQUARINGS // 2


# Residuals of which it is shown that no record makes a step of theirs overflow.
PUSHED = (Form.SIGMOID, Form.HINGE, Form.ERROR)


def can_be_pushed(asked: PlainGradient) -> bool:
    """Whether no record can make a product or a quotient overflow or vanish.

    By public numbers: with these bounds all that is computed of a near record is 0 or
    between 2^-1000 and 2^1000.
    """
    if asked.form not in PUSHED:
        return False
    weights = np.abs([*asked.weights, asked.constant])
    least = np.min(weights[weights > 0], initial=1.0)
    first = asked.form_constants[0] if asked.form != Form.SIGMOID else 1.0
    return bool(
        1 <= asked.scale <= 2.0**200
        and least >= 2.0**-460
        and max(np.max(weights), abs(asked.offset)) <= 2.0**400
        and 1 <= asked.fineness <= 2.0**400
        and 2.0**-100 <= first <= 2.0**100
    )


@dataclass(frozen=True)
class GradientText:
    """The text of one gradient sum over what a query gives.

    Parameters
    ----------
    asked : PlainGradient
        As `can_be_pushed` says.
    records : str
        A query with the columns ``x0``, ``x1``, ... and ``y``, doubles; rows in which
        one is missing or not finite are null records.
    wide : sequence of int
        Places of the columns whose squares might be no double; of the others, whole
        numbers and numbers in single precision, they always are.
    dialect : Dialect
        How the engine writes what not all write alike.
    """

    asked: PlainGradient
    records: str
    wide: Sequence[int]
    dialect: Dialect

    @property
    def sums(self) -> str:
        """A query of one row: the residuals' sum and the products' sums."""
        parts = ["e", *(f"{g} * e" for g in self._names("g"))]
        totals = ", ".join(self.dialect.total.format(part) for part in parts)
        return f"SELECT {totals} FROM ({self._units()}) AS r"

    @property
    def count_far(self) -> str:
        """A query of the number of far records, which are in no sum."""
        real = f"SELECT COUNT(*) FROM ({self.records}) AS r WHERE {self._is_real()}"
        near = f"SELECT COUNT(*) FROM ({self._measured()}) AS r WHERE f > {_LEAST}"
        return f"SELECT ({real}) - ({near})"

    @property
    def far(self) -> str:
        """A query of the far records, with the columns of `records`."""
        return f"SELECT * FROM ({self.records}) AS r WHERE {self._is_far()}"

    def _names(self, letter: str) -> list[str]:
        return [f"{letter}{j}" for j in range(len(self.asked.weights))]

    def _kept(self) -> str:
        return ", ".join(self._names("g"))

    def _then(self, shown: str, records: str) -> str:
        """A query of expressions of the columns of another."""
        return f"SELECT {shown} FROM ({records}) AS r{self.dialect.fence}"

    # -------------------------------------------------------------------- which records

    def _is_short(self) -> str:
        """Whether no entry is long that might be too long to be squared."""
        most = _of(_LONGEST_ENTRY / self.asked.scale)
        own = [f"abs(x{j}) < {most}" for j in self.wide]
        return " AND ".join([*own, f"abs(y) < {_of(math.inf)}"])

    def _is_far(self) -> str:
        units = [self._unit(x) for x in self._names("x")]
        # The order of a CASE is kept, that of AND is not.
        near = f"CASE WHEN {self._is_short()} THEN {_factor(units)} > {_LEAST} END"
        return f"{self._is_real()} AND NOT COALESCE({near}, FALSE)"

    def _is_real(self) -> str:
        """Whether a row is a record; not true of numbers that are missing."""
        numbers = [*self._names("x"), "y"]
        return " AND ".join(f"abs({x}) < {_of(math.inf)}" for x in numbers)

    # -------------------------------------------------------------------- rows on grids

    def _unit(self, x: str) -> str:
        return self.dialect.floor.format(f"{x} * {_of(self.asked.scale)} + {_of(0.5)}")

    def _measured(self) -> str:
        """Records that are not too long to be squared, and what shortens their rows."""
        xs, qs = self._names("x"), self._names("q")
        units = ", ".join(
            f"{self._unit(x)} AS {q}" for x, q in zip(xs, qs, strict=True)
        )
        found = f"SELECT y, {units} FROM ({self.records}) AS r"
        found = f"{found} WHERE {self._is_short()}{self.dialect.fence}"
        return self._then(f"*, {_factor(qs)} AS f", found)

    def _gridded(self) -> str:
        """Near records on their grid."""
        trunc = self.dialect.trunc
        rows = ", ".join(
            f"{trunc.format(f'{q} * f')} AS {g}"
            for q, g in zip(self._names("q"), self._names("g"), strict=True)
        )
        found = f"SELECT y, {rows} FROM ({self._measured()}) AS r"
        return f"{found} WHERE f > {_LEAST}{self.dialect.fence}"

    def _raw(self) -> str:
        """The raw prediction, of the columns of `_gridded`."""
        asked = self.asked
        products = " + ".join(
            f"{g} * {_of(weight)}"
            for g, weight in zip(self._names("g"), asked.weights, strict=True)
        )
        raw = f"({products} + {_of(asked.constant)}) * {_of(asked.unit)}"
        return f"{raw} + {_of(asked.offset)}" if asked.offset else raw

    # ------------------------------------------------------------------------ residuals

    def _units(self) -> str:
        """Rows, and their residuals as integers."""
        records, residual = self._residual()
        if math.isfinite(self.asked.limit):
            residual = _clipped(residual, -self.asked.limit, self.asked.limit)
        if self._weights:
            residual = f"({residual}) * {label_weight('y', self._weights, _of)}"
        units = f"({residual}) * {_of(self.asked.fineness)} + {_of(0.5)}"
        shown = f"{self._kept()}, {self.dialect.floor.format(units)} AS e"
        return self._then(shown, records)

    @property
    def _weights(self) -> tuple[float, ...]:
        """Of the labels 0 and 1, if they have any."""
        return self.asked.form_constants[2:]

    def _residual(self) -> tuple[str, str]:
        """Records, and the residual as an expression of their columns."""
        first, second = self.asked.form_constants[:2]
        if self.asked.form == Form.SIGMOID:
            p = _squared("p", SQUARINGS - _AT_ONCE)
            up = f"CASE WHEN u <= {_of(0.0)} THEN {_of(1.0)} ELSE {p} END"
            return self._with_exponential(), f"{up} / ({_of(1.0)} + {p}) - y"
        if self.asked.form == Form.HINGE:
            sign = f"CASE WHEN y > {_of(0.5)} THEN {_of(1.0)} ELSE {_of(-1.0)} END"
            kept = f"{self._kept()}, y" if self._weights else self._kept()
            shown = f"{kept}, {self._raw()} AS raw, {sign} AS sign"
            slope = f"({_of(1.0 + first)} - sign * raw) / {_of(2.0 * first)}"
            slope = f"-sign * {_clipped(slope, 0.0, 1.0)}"
            return self._then(shown, self._gridded()), slope
        error = f"{self._raw()} - {_clipped('y', -second, second)}"
        return self._gridded(), _clipped(error, -first, first)

    def _with_exponential(self) -> str:
        """Records with u, the raw prediction times `SHRINK`, and the root p.

        The exponential is the eighth power of p. Horner's rule at minus the absolute
        value of u rounds as at its absolute value with every other sign changed.
        """
        kept = f"{self._kept()}, y"
        u = f"{_clipped(self._raw(), -FARTHEST, FARTHEST)} * {_of(SHRINK)}"
        records = self._then(f"{kept}, {u} AS u", self._gridded())
        power = _of(COEFFICIENTS[0])
        for coefficient in COEFFICIENTS[1:]:
            power = f"{_of(coefficient)} - ({power}) * abs(u)"
        records = self._then(f"{kept}, u, {power} AS p", records)
        return self._then(f"{kept}, u, {_squared('p', _AT_ONCE)} AS p", records)


def records_of(
    cells: Sequence[str], target: str, relation: str, where: str, also: str = ""
) -> str:
    """A query of the columns ``x0``, ``x1``, ... and ``y``, all doubles."""
    shown = [
        f"CAST({cell} AS DOUBLE PRECISION) AS x{j}" for j, cell in enumerate(cells)
    ]
    shown.append(f"CAST({target} AS DOUBLE PRECISION) AS y")
    return f"SELECT {also}{', '.join(shown)} FROM {relation} WHERE {where}"


def label_weight(
    y: str, weights: Sequence[float], number: Callable[[float], str]
) -> str:
    """What a record of label 0 or 1 counts, as an expression of its label."""
    none, one = map(number, weights)
    return f"(CASE WHEN {y} > {number(0.5)} THEN {one} ELSE {none} END)"


def _factor(units: Sequence[str]) -> str:
    """What shortens a row: 1 if its squares add up to at most `LONGEST` squared.

    Written so that the squares occur once. Exactly that many give the one quotient
    below 1 that is not meant. Squares that are missing or no number are taken for far
    too many: least and greatest pass over NULL, and NaN is the largest number.
    """
    squares = " + ".join(f"{q} * {q}" for q in units)
    squares = f"greatest(least({squares}, {_of(1e300)}), {_of(1.0)})"
    meant = f"NULLIF({_of(SHORTENED)} / sqrt({squares}), {_of(SHORTENED / LONGEST)})"
    return f"least(COALESCE({meant}, {_of(1.0)}), {_of(1.0)})"


def _squared(text: str, times: int) -> str:
    """A number squared again and again."""
    for _ in range(times):
        text = f"({text} * {text})"
    return text


def _clipped(text: str, low: float, high: float) -> str:
    return f"least(greatest({text}, {_of(low)}), {_of(high)})"


def _of(number: float) -> str:
    """A double, to the last bit: a literal alone would be a decimal number."""
    return f"CAST('{float(number)!r}' AS DOUBLE PRECISION)"


_LEAST = _of(_LEAST_FACTOR)
