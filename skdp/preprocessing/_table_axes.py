"""Axes: a declared interval moved to [-1, 1], and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skdp._bounds import middle_and_half, to_unit
from skdp._floats import FloatArray
from skdp.columns import Dates, Range

_SECOND = np.timedelta64(1, "s")
_EPOCH = np.datetime64(0, "s")


@dataclass(frozen=True)
class NumberAxis:
    """The interval of a `Range`."""

    declared: Range

    def to_unit(self, values: np.ndarray) -> FloatArray:
        """Numbers, clipped, as positions in [-1, 1]; the last step clips."""
        low, high = self._ends()
        with np.errstate(all="ignore"):
            values = values.astype(np.float64)
        if not self.declared.log:
            return to_unit(values, low, high)
        log = np.log if self.declared.low > 0 else np.log1p
        start, end = log(low), log(high)
        shares = (log(np.clip(values, low, high)) - start) / (end - start)
        return np.asarray(np.clip(2 * shares - 1, -1.0, 1.0))

    def at(self, positions: FloatArray) -> np.ndarray:
        """Numbers at positions in [-1, 1]."""
        low, high = self._ends()
        if not self.declared.log:
            middle, half = middle_and_half(low, high)
            found = middle + positions * half
        else:
            log, exp = (
                (np.log, np.exp) if self.declared.low > 0 else (np.log1p, np.expm1)
            )
            start, end = log(low), log(high)
            found = exp(start + (positions + 1) / 2 * (end - start))
        return np.asarray(np.clip(found, low, high))

    def _ends(self) -> tuple[FloatArray, FloatArray]:
        return np.asarray(float(self.declared.low)), np.asarray(
            float(self.declared.high)
        )


@dataclass(frozen=True)
class TimeAxis:
    """The interval of `Dates`."""

    declared: Dates

    def to_unit(self, values: np.ndarray) -> FloatArray:
        """Dates, clipped, as positions in [-1, 1]."""
        return self._seconds_axis().to_unit(seconds(values))

    def at(self, positions: FloatArray) -> np.ndarray:
        """Dates at positions in [-1, 1], to the second."""
        found = self._seconds_axis().at(positions)
        return np.asarray(_EPOCH + np.round(found) * _SECOND)

    def _seconds_axis(self) -> NumberAxis:
        ends = np.array([self.declared.first, self.declared.last], "datetime64[us]")
        low, high = seconds(ends)
        return NumberAxis(Range(float(low), float(high)))


def seconds(dates: np.ndarray) -> FloatArray:
    """Seconds since 1970 of dates in any unit; NaT as 0."""
    if np.datetime_data(dates.dtype)[0] in ("Y", "M", "generic"):
        dates = dates.astype("datetime64[D]")
    unit, count = np.datetime_data(dates.dtype)
    counts = dates.astype(np.int64).astype(np.float64)
    length = float(np.ones((), f"timedelta64[{count}{unit}]") / _SECOND)
    return np.where(np.isnat(dates), 0.0, counts * length)
