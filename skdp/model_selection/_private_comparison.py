"""Which of two classifiers is right more often: what `private_evaluation` counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from skdp._card import card
from skdp._floats import FloatArray
from skdp._rows import RowsForEach, rows_at
from skdp._validation import check_real
from skdp.model_selection._scoring_base import PrivateScoring, PublicFacts, column
from skdp.privacy._adjacency import Adjacency
from skdp.privacy._record import PrivacyRecord


@dataclass(frozen=True)
class Disagreements(PrivateScoring):
    """Records that only the first of two classifiers labels right, or only the second.

    A record for which one of them raises counts for neither.
    """

    name = "disagreements"
    task = "classification"
    is_single = False
    _worst = 0.0

    @classmethod
    def of(cls, facts: PublicFacts) -> Self:
        return cls()

    @property
    def size(self) -> int:
        return 2

    @property
    def n_nonzero(self) -> int:
        return 1

    @property
    def lowest(self) -> float:
        return -1.0

    def sensitivity(self, adjacency: Adjacency, norm: int) -> float:
        return {
            ("replace_one", 1): 2.0,
            ("replace_one", 2): math.sqrt(2) * (1 + 1e-12),
            ("zero_out", 1): 1.0,
            ("zero_out", 2): 1.0,
        }[adjacency, norm]

    def score(self, statistic: FloatArray, n_samples: int) -> float:
        first, second = statistic
        return float(np.clip((first - second) / n_samples, -1.0, 1.0))

    def _quality(self, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
        # Of a source models may take the same rows in different forms.
        tables = X.tables if isinstance(X, RowsForEach) else [X] * len(estimator)
        first, second = (
            _is_right(each, table, y)
            for each, table in zip(estimator, tables, strict=True)
        )
        return first.astype(np.float64) - second.astype(np.float64)

    def _spread(self, quality: FloatArray, y: NDArray[Any]) -> FloatArray:
        return np.column_stack([quality > 0, quality < 0]).astype(np.float64)


def _is_right(model: Any, X: Any, y: NDArray[Any]) -> NDArray[np.bool_]:
    """Which records a model labels right, from a copy that it may change."""
    predicted = column(model.predict(rows_at(X, np.arange(len(y)))), len(y))
    return np.broadcast_to(predicted == y, y.shape)


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
        """Of the noise and of the records' being a sample, together."""
        differ = max(self.first_only + self.second_only, 0.0)
        sampled = max(differ - self.n_samples * self.difference**2, 0.0)
        return math.sqrt(sampled + 2 * self.error**2) / self.n_samples

    def confidence_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Of the difference in the population, by the normal law.

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
        """Of both being right as often: McNemar's test, with the noise counted."""
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
