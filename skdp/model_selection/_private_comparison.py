"""`private_comparison`: which of two classifiers is right more often."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from sklearn.utils.validation import check_is_fitted

from skdp._card import card
from skdp._floats import FloatArray
from skdp._rows import RowsForEach, rows_at
from skdp._validation import check_real
from skdp.model_selection._private_score import ScoreRelease, released_statistic
from skdp.model_selection._scoring import resolve_scoring
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


def private_comparison(
    first: Any,
    second: Any,
    X: Any,
    y: Any = None,
    *,
    groups: Any = None,
    epsilon: float,
    delta: float = 1e-6,
    adjacency: str = "replace_one",
    privacy_unit: str = "record",
    random_state: int | None = None,
    ledger: Any = None,
) -> PrivateComparison:
    """Compare two fitted classifiers on the same records, with noise.

    **Privacy.** (epsilon, delta)-differential privacy for one record of (X, y), under
    `adjacency`, with the number of records public, or for all rows of one user, as in
    `private_score`. Released are two counts in one event: of the records that only the
    one, or only the other, labels right. A record is in one of them at most
    (``docs/proofs/private_score.md``). Of users each counts once in both together, and
    standard errors, which take a record to be in one count, are upper bounds.

    Parameters
    ----------
    first, second : fitted classifiers
        Public, or paid for; see `private_score`.
    X : array-like, CSR or source of shape (n_samples, n_features)
        A row of a source that one of the models cannot read counts for neither.
    y : array-like of shape (n_samples,)
        Left out with a source.
    groups : array-like of shape (n_samples,) or None, default=None
        Ids of users, with ``privacy_unit="user"``; left out with a source.
    epsilon : float in [1e-6, 1e8] or inf
    delta : 0 or float in [1e-50, 1), default=1e-6
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
    privacy_unit : {"record", "user"}, default="record"
        As in `private_score`.
    random_state : int or None, default=None
    ledger : BudgetLedger or None, default=None

    Returns
    -------
    PrivateComparison

    Raises
    ------
    ValueError, TypeError
        For a parameter or input out of range. Nothing was spent.
    BudgetExceeded
        If the ledger's cap does not allow this. Nothing was read or spent.
    """
    release = ScoreRelease(
        epsilon, delta, adjacency, random_state, ledger, privacy_unit
    )
    for each in (first, second):
        check_is_fitted(each)
        resolve_scoring("accuracy", each)
    scoring, both, what = Disagreements(), (first, second), "private_comparison"
    found = released_statistic(release, what, scoring, both, X, y, groups)
    one, other = found.value.tolist()
    return PrivateComparison(
        one, other, found.deviation, found.record.n_samples, found.record
    )
