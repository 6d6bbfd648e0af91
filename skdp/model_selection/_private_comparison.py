"""Which of two classifiers is right more often: what `private_evaluation` counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from skdp._card import card
from skdp._floats import FloatArray, IntArray
from skdp._rows import RowsForEach, rows_at
from skdp._validation import check_real
from skdp.model_selection._histogram_scoring import CountScoring, is_right
from skdp.model_selection._scoring_base import PerRecord
from skdp.privacy._record import PrivacyRecord


def _apart(estimators: Any, X: Any, y: NDArray[Any]) -> FloatArray:
    """1 where only the first of two models is right, -1 where only the second is."""
    # Of a source models may take the same rows in different forms; of a table each
    # has a copy that it may change.
    tables = X.tables if isinstance(X, RowsForEach) else [X] * len(estimators)
    first, second = (
        is_right(each, rows_at(table, np.arange(len(y))), y)
        for each, table in zip(estimators, tables, strict=True)
    )
    return first - second


@dataclass(frozen=True, eq=False)
class Disagreements(CountScoring):
    """Records that only the first of two classifiers labels right, or only the second.

    A record for which one of them raises counts for neither.
    """

    name: str = "disagreements"
    per_record: PerRecord = _apart
    lowest: float = -1.0
    highest: float = 1.0
    task: str = "classification"

    @property
    def size(self) -> int:
        return 2

    def score(self, statistic: FloatArray, n_samples: int) -> float:
        first, second = statistic
        return float(np.clip((first - second) / n_samples, -1.0, 1.0))

    def _places(self, quality: FloatArray, y: NDArray[Any]) -> IntArray:
        return np.select([quality > 0, quality < 0], [0, 1], -1)


@dataclass(frozen=True)
class PrivateComparison:
    """A released comparison of two classifiers on the same records.

    Of users each counts once in both counts together, and standard errors, which take a
    record to be in one count, are upper bounds.

    Parameters
    ----------
    first_only, second_only : float
        Records that only one of them labels right. Private outputs.
    error : float
        Standard deviation of the noise in each. Public.
    n_samples : int
        Public.
    privacy_ : PrivacyRecord
    """

    first_only: float
    second_only: float
    error: float
    n_samples: int
    privacy_: PrivacyRecord

    @property
    def difference(self) -> float:
        """Accuracy of the first less that of the second."""
        apart = (self.first_only - self.second_only) / self.n_samples
        return float(np.clip(apart, -1.0, 1.0))

    @property
    def standard_error(self) -> float:
        """Standard error of the noise and of the sample, together."""
        differ = max(self.first_only + self.second_only, 0.0)
        sampled = max(differ - self.n_samples * self.difference**2, 0.0)
        return math.sqrt(sampled + 2 * self.error**2) / self.n_samples

    def confidence_interval(self, level: float = 0.95) -> tuple[float, float]:
        """The interval of the difference in the population, by the normal law.

        Parameters
        ----------
        level : float in (0, 1), default=0.95
        """
        level = check_real(
            "level", level, low=0.0, high=1.0, low_open=True, high_open=True
        )
        wide = float(ndtri((1 + level) / 2)) * self.standard_error
        return self.difference - wide, self.difference + wide

    @property
    def p_value(self) -> float:
        """McNemar's test of whether both are right as often, with the noise counted."""
        differ = max(self.first_only + self.second_only, 0.0)
        deviation = math.sqrt(differ + 2 * self.error**2)
        if deviation == 0:
            return 1.0
        return float(2 * ndtr(-abs(self.first_only - self.second_only) / deviation))

    def _headline(self) -> str:
        low, high = self.confidence_interval()
        return (
            f"accuracy of the first less that of the second: {self.difference:+.4f} "
            f"(95 % from {low:+.4f} to {high:+.4f}, p = {self.p_value:.2g})"
        )

    def __repr__(self) -> str:
        return f"{self._headline()}\n{self.privacy_!r}"

    def _repr_html_(self) -> str:
        return card(self._headline(), below=[self.privacy_._repr_html_()])
