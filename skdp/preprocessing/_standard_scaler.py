"""Standardising by a private mean and variance."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from skdp._bounds import match_bounds, middle_and_half
from skdp._floats import FloatArray
from skdp._input import check_rows
from skdp._rows import clip_rows
from skdp.io._takes import AppendsToSources, fit_through, shown
from skdp.preprocessing._output_norm import BringsToNorm
from skdp.preprocessing._private import PrivateTransformer
from skdp.privacy._answers import Released
from skdp.queries._pair_sums import SQUARES, PairSums, shrunken_mean

# Least variance in units of the bounds, where the noise is smaller than rounding.
_LEAST_VARIANCE = 1e-12


class DPStandardScaler(
    AppendsToSources, BringsToNorm, OneToOneFeatureMixin, PrivateTransformer
):
    r"""Standardise features by a private mean and variance; rows of norm at most 1.

    Values are clipped to declared `bounds`, in `fit` and in `transform`; one release
    with noise gives the mean and the variance of every feature. `transform` subtracts
    the mean, divides by the standard deviation times sqrt(n_features), and scales every
    row longer than 1 down to norm 1: typical rows come out with a norm of about 1, and
    none with more than the default ``data_norm`` of the estimators.

    Where `bounds` are close to the spread of the data, `BoundedScaler` does nearly as
    well and costs nothing (``docs/preprocessing.md``).

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records public. Released are, for all features
    together, the sums of v and of v^2, where v is the value in units of its bounds, in
    [-1, 1]; see ``docs/proofs/preprocessing.md``. What `transform` returns is as
    private as the rows given to it.

    Parameters
    ----------
    epsilon : float in [1e-6, 1e8] or inf, default=1.0
        Privacy loss. inf: mean and variance of scikit-learn's `StandardScaler`, and
        nothing is clipped, in `transform` neither; not private.
    delta : 0 or float in [1e-50, 1), default=1e-6
        Probability with which the guarantee may fail; far below ``1 / n_samples``.
        0 asks for pure epsilon.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What neighbouring data sets are: one record exchanged for any other, or for
        the null record, which contributes nothing.
    privacy_unit : {"record", "user"}, default="record"
        What neighbours differ in: one row, or all rows of one user, whose ids come by
        ``fit(X, groups=ids)``. Then each user counts as one record, with the mean over
        the own rows, and `adjacency` is of users (``docs/users.md``).
    bounds : pair of floats, pair of array-likes, or mapping
        ``(low, high)`` for all features, ``(lows, highs)`` with one entry per feature,
        or ``{column name: (low, high)}``, known without looking at the data. Required;
        None raises in `fit`.
    random_state : int or None, default=None
        None: private noise. An integer makes the fit reproducible and **not private**.
    ledger : BudgetLedger or None, default=None
        Books that every fit is charged to before it reads the data.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features_in_,)
        In units of the features, within the bounds. Private output; where the noise is
        larger than the bounds it is near their middle.
    var_, scale_ : ndarray of shape (n_features_in_,)
        Variance, and the standard deviation that is divided by. Private outputs, not
        below what the noise can tell from 0 and not above what the bounds allow.
    low_, high_ : ndarray of shape (n_features_in_,)
        The declared bounds (-inf and inf with ``epsilon=inf``). Public.
    data_norm_ : float
        Largest norm of a row that comes out: 1.0 (inf with ``epsilon=inf``). Public.
    output_norm_ : float or None
        `data_norm_`, or None if that is inf. Public.
    privacy_ : PrivacyRecord
        Public facts.
    n_features_in_ : int
        Public.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Public; only if X has feature names that are strings.

    See Also
    --------
    BoundedScaler : Scaling by declared bounds, for nothing.
    sklearn.preprocessing.StandardScaler : The transformer without privacy.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPStandardScaler
    >>> X = np.random.default_rng(0).normal(170, 10, size=(5000, 1))
    >>> scaler = DPStandardScaler(epsilon=1.0, bounds=(100, 250)).fit(X)
    >>> bool(165 < scaler.mean_[0] < 175), scaler.privacy_.epsilon
    (True, 1.0)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-6,
        adjacency: str = "replace_one",
        privacy_unit: str = "record",
        bounds: Any = None,
        random_state: int | None = None,
        ledger: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.privacy_unit = privacy_unit
        self.bounds = bounds
        self.random_state = random_state
        self.ledger = ledger

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Release mean and variance privately.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Finite numbers.
        y : ignored
        groups : array-like of shape (n_samples,) or None, default=None
            With ``privacy_unit="user"`` whose each row is: integers or texts, none
            missing. A categorical declares users without rows as well. Left out with
            a source, which names the column of ids.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For a parameter or input out of range. Nothing was spent, and the
            transformer is as it was before.
        BudgetExceeded
            If the ledger's cap does not allow this fit. Nothing was read or spent.
        """
        with self._all_or_nothing():
            return fit_through(self, X, None, lambda: self._fit(X, groups))

    def _fit(self, given: Any, groups: Any) -> Self:
        budget = self._check_privacy_params()
        X = check_rows(self, shown(given), reset=True, accept_sparse=False)
        names = getattr(self, "feature_names_in_", None)
        low, high = match_bounds(self.bounds, X.shape[1], names)
        source = self._source(given, X, groups, budget)
        sums = PairSums(SQUARES, low, high, source.n_samples)
        params = {"square_weight": SQUARES.weight}
        answers = self._commit(sums, source, budget, key="noisy_moments", params=params)
        self.data_norm_ = 1.0 if budget.is_finite else math.inf
        if answers.is_exact:
            self.mean_, self.var_ = _exact(X, self._shares(source))
            self.scale_ = np.sqrt(np.where(self.var_ > 0, self.var_, 1.0))
            low, high = np.full_like(low, -math.inf), np.full_like(high, math.inf)
        else:
            mean, variance = _moments(sums, answers.ask(sums))
            middle, half = middle_and_half(low, high)
            tiny, largest = np.finfo(float).tiny, np.finfo(float).max
            self.mean_ = middle + half * mean
            with np.errstate(all="ignore"):  # of bounds beyond the roots of all doubles
                self.scale_ = np.maximum(half * np.sqrt(variance), tiny)
                self.var_ = np.clip(self.scale_**2, tiny, largest)
        self.low_, self.high_ = low, high
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Standardised rows of norm at most `data_norm_`, up to rounding.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features), float32 if X is
        """
        check_is_fitted(self)
        X = check_rows(self, X, reset=False, accept_sparse=False)
        with np.errstate(all="ignore"):
            # Halved first: bounds may be as far apart as doubles are.
            moved = np.clip(X, self.low_, self.high_) / 2 - self.mean_ / 2
            rows = moved / self.scale_ * (2 / math.sqrt(X.shape[1]))
            if math.isfinite(self.data_norm_):
                rows = clip_rows(rows, self.data_norm_)
            return np.asarray(rows.astype(X.dtype))

    def _planned_norm(self) -> float:
        return 1.0 if self._is_finite() else math.inf


def _exact(X: np.ndarray, shares: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of rows that count with their shares; not private."""
    with np.errstate(all="ignore"):
        X = X.astype(np.float64, copy=False)
        mean = np.average(X, axis=0, weights=shares)
        return mean, np.average((X - mean) ** 2, axis=0, weights=shares)


def _moments(sums: PairSums, released: Released) -> tuple[FloatArray, FloatArray]:
    """Mean and variance in units of the bounds; post-processing only."""
    total, squares = sums.read(released.value)
    n_samples = sums.n_samples
    mean = shrunken_mean(total, n_samples, released.deviation)
    noise = released.deviation / n_samples  # of the mean
    # About a standard deviation of the noise in the variance.
    least = noise / SQUARES.weight + 2 * np.abs(mean) * noise
    least = np.clip(least, _LEAST_VARIANCE, 1.0)
    return mean, np.clip(squares / n_samples - mean**2, least, 1.0)
