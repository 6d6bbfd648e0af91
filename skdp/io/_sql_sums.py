"""Gradient sums as SQL: integers on the public grids, the same bits as in memory.

The reference is `ExactGradientSum`; every step has its rounding from the one there.
Columns are made doubles first, since engines multiply singles in single precision.
No function of an engine is used that is not rounded correctly: + - * / floor trunc sqrt
abs, and comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from skdp.losses._base import Form
from skdp.losses._plain import COEFFICIENTS, FARTHEST, SHRINK, SQUARINGS
from skdp.queries._plain_gradient import PlainGradient
from skdp.queries._row_grid import LONGEST, MOST_SQUARES, SHORTENED

# From which on a query text is longer than an engine should be given.
MOST_FEATURES = 200


@dataclass(frozen=True)
class GradientText:
    """The text of one gradient sum over what a query gives.

    Parameters
    ----------
    asked : PlainGradient
    records : str
        A query with the columns ``x0``, ``x1``, ... and ``y``; rows in which one is
        missing or not finite are null records.
    """

    asked: PlainGradient
    records: str

    @property
    def sums(self) -> str:
        """A query of one row: the residuals' sum and the products' sums."""
        products = ", ".join(f"SUM(CAST({g} * e AS BIGINT))" for g in self._names("g"))
        return f"SELECT SUM(CAST(e AS BIGINT)), {products} FROM ({self._units()})"

    @property
    def count_far(self) -> str:
        """A query of the number of far records, which are in no sum."""
        return f"SELECT COUNT(*) FROM ({self._squared()}) WHERE {_IS_FAR}"

    @property
    def far(self) -> str:
        """A query of the far records, with the columns of `records`."""
        own = ", ".join([*self._names("x"), "y"])
        return f"SELECT {own} FROM ({self._squared()}) WHERE {_IS_FAR}"

    def _names(self, letter: str) -> list[str]:
        return [f"{letter}{j}" for j in range(len(self.asked.weights))]

    def _squared(self) -> str:
        """Finite records with their integers and the sum of the integers' squares."""
        scale, xs = _of(self.asked.scale), self._names("x")
        is_real = " AND ".join(f"isfinite({x})" for x in [*xs, "y"])
        units = ", ".join(
            f"floor({x} * {scale} + {_of(0.5)}) AS {q}"
            for x, q in zip(xs, self._names("q"), strict=True)
        )
        squares = " + ".join(f"{q} * {q}" for q in self._names("q"))
        found = f"SELECT *, {units} FROM ({self.records}) WHERE {is_real}"
        return f"SELECT *, {squares} AS s FROM ({found})"

    def _gridded(self) -> str:
        """Rows that are not far on their grid."""
        # Integers times 1 are what they were.
        factor = (
            f"CASE WHEN s > {_of(LONGEST**2)} THEN {_of(SHORTENED)} / sqrt(s) "
            f"ELSE {_of(1.0)} END"
        )
        near = f"SELECT *, {factor} AS f FROM ({self._squared()}) WHERE NOT {_IS_FAR}"
        rows = ", ".join(
            f"trunc({q} * f) AS {g}"
            for q, g in zip(self._names("q"), self._names("g"), strict=True)
        )
        return f"SELECT y, {rows} FROM ({near})"

    def _predicted(self) -> str:
        asked = self.asked
        products = " + ".join(
            f"{g} * {_of(weight)}"
            for g, weight in zip(self._names("g"), asked.weights, strict=True)
        )
        raw = f"({products} + {_of(asked.constant)}) * {_of(asked.unit)}"
        raw = f"{raw} + {_of(asked.offset)}" if asked.offset else raw
        return f"SELECT {self._kept()}, y, {raw} AS raw FROM ({self._gridded()})"

    def _kept(self) -> str:
        return ", ".join(self._names("g"))

    def _units(self) -> str:
        """Rows, and their residuals as integers."""
        records, residual = self._residual()
        if math.isfinite(self.asked.limit):
            residual = _clipped(residual, -self.asked.limit, self.asked.limit)
        units = f"floor(({residual}) * {_of(self.asked.fineness)} + {_of(0.5)})"
        return f"SELECT {self._kept()}, {units} AS e FROM ({records})"

    def _residual(self) -> tuple[str, str]:
        """Records, and the residual as an expression of their columns."""
        first, second = self.asked.form_constants
        records = self._predicted()
        if self.asked.form == Form.SIGMOID:
            up = f"CASE WHEN raw >= {_of(0.0)} THEN {_of(1.0)} ELSE p END"
            return self._with_exponential(records), f"{up} / ({_of(1.0)} + p) - y"
        if self.asked.form == Form.ERROR:
            error = f"raw - {_clipped('y', -second, second)}"
            return records, _clipped(error, -first, first)
        if self.asked.form == Form.STEP:
            records, whole = self._with_exponential(records), f"({_of(1.0)} + p)"
            return _signed(records), f"-sign * (p / ({whole} * {whole}))"
        if self.asked.form == Form.CAUCHY:
            records = f"SELECT *, raw - sign AS error FROM ({_signed(records)})"
            records = f"SELECT *, error / {_of(first)} AS share FROM ({records})"
            return records, f"error / ({_of(1.0)} + share * share)"
        slope = f"({_of(1.0 + first)} - sign * raw) / {_of(2.0 * first)}"
        return _signed(records), f"-sign * {_clipped(slope, 0.0, 1.0)}"

    def _with_exponential(self, records: str) -> str:
        """Records with ``p = exp(-|raw|)``; each step by itself, written once."""
        kept = f"{self._kept()}, y, raw"
        u = f"least(abs(raw), {_of(FARTHEST)}) * {_of(SHRINK)}"
        records = f"SELECT {kept}, {u} AS u FROM ({records})"
        power = f"{_of(COEFFICIENTS[0])} * u + {_of(COEFFICIENTS[1])}"
        for coefficient in COEFFICIENTS[2:]:
            power = f"({power}) * u + {_of(coefficient)}"
        records = f"SELECT {kept}, {power} AS p FROM ({records})"
        for _ in range(SQUARINGS):
            records = f"SELECT {kept}, p * p AS p FROM ({records})"
        return records


def _signed(records: str) -> str:
    """Records with the sign of their label."""
    sign = f"CASE WHEN y > {_of(0.5)} THEN {_of(1.0)} ELSE {_of(-1.0)} END"
    return f"SELECT *, {sign} AS sign FROM ({records})"


def records_of(cells: Sequence[str], target: str, relation: str, where: str) -> str:
    """A query of the columns ``x0``, ``x1``, ... and ``y``, all doubles."""
    shown = [f"CAST({cell} AS DOUBLE) AS x{j}" for j, cell in enumerate(cells)]
    shown.append(f"CAST({target} AS DOUBLE) AS y")
    return f"SELECT {', '.join(shown)} FROM {relation} WHERE {where}"


def _clipped(text: str, low: float, high: float) -> str:
    return f"least(greatest({text}, {_of(low)}), {_of(high)})"


def _of(number: float) -> str:
    """A double, to the last bit: a literal alone would be a decimal number."""
    return f"CAST('{float(number)!r}' AS DOUBLE)"


_IS_FAR = f"(s >= {_of(MOST_SQUARES)})"
