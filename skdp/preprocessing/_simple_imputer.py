"""Filling missing values with private means, or with declared constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from skdp._bounds import match_bounds, middle_and_half
from skdp._floats import FloatArray
from skdp._input import check_rows, in_column_order
from skdp._output import in_dtype
from skdp._validation import check_choice
from skdp.io._takes import AppendsToSources, fit_through, shown
from skdp.preprocessing._private import PrivateTransformer
from skdp.privacy._step import FREE, StepPrivacy
from skdp.queries._pair_sums import PRESENCE, PairSums, shrunken_mean


class DPSimpleImputer(AppendsToSources, OneToOneFeatureMixin, PrivateTransformer):
    """Replace NaN by a private mean of each feature, or by a declared constant.

    Which entries are missing is private: no column is dropped or added for it, and a
    feature with hardly any value present is filled with the middle of its bounds.
    Values that are present come out as they are; `bounds` clip only what the mean is
    taken of, so put a step that clips after this one.

    **Privacy.** ``strategy="mean"``: (epsilon, delta)-differential privacy for one
    record, under `adjacency`, with the number of records public. Released are, for all
    features together, the sum of the values present (clipped to `bounds`) and their
    number; see ``docs/proofs/preprocessing.md``. ``strategy="constant"`` reads no
    values and costs nothing; epsilon, delta and `ledger` are then not used, and the
    null record stays null. What `transform` returns is as private as the rows given to
    it.

    Parameters
    ----------
    epsilon : float in [1e-6, 1e8] or inf, default=1.0
        Privacy loss. inf: the mean of scikit-learn's `SimpleImputer`, values not
        clipped to `bounds`; not private.
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
    strategy : {"mean", "constant"}, default="mean"
    fill_value : float, array-like of shape (n_features,), or mapping, default=None
        With ``strategy="constant"``: one finite number for all features, one for each,
        or ``{column name: number}``. None raises in `fit`.
    bounds : pair of floats, pair of array-likes, or mapping
        ``(low, high)`` for all features, ``(lows, highs)`` with one entry per feature,
        or ``{column name: (low, high)}``, known without looking at the data. Required
        by ``strategy="mean"``; None raises in `fit`.
    random_state : int or None, default=None
        None: private noise. An integer makes the fit reproducible and **not private**.
    ledger : BudgetLedger or None, default=None
        Books that every fit with a mean is charged to before it reads the data.

    Attributes
    ----------
    statistics_ : ndarray of shape (n_features_in_,)
        What is filled in, in units of the features, within the bounds. Private output
        (public with ``strategy="constant"``).
    privacy_ : PrivacyRecord
        Public facts. Not there with ``strategy="constant"``.
    n_features_in_ : int
        Public.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Public; only if X has feature names that are strings.

    See Also
    --------
    sklearn.impute.SimpleImputer : The transformer without privacy.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPSimpleImputer
    >>> X = np.array([[17.0, np.nan], [90.0, 40.0]])
    >>> imputer = DPSimpleImputer(strategy="constant", fill_value=[40, 38])
    >>> imputer.fit_transform(X)
    array([[17., 38.],
           [90., 40.]])
    """

    _allows_missing: ClassVar[bool] = True

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-6,
        adjacency: str = "replace_one",
        privacy_unit: str = "record",
        strategy: str = "mean",
        fill_value: Any = None,
        bounds: Any = None,
        random_state: int | None = None,
        ledger: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.privacy_unit = privacy_unit
        self.strategy = strategy
        self.fill_value = fill_value
        self.bounds = bounds
        self.random_state = random_state
        self.ledger = ledger

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Release the means privately, or match the constants with the columns of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Finite numbers, or NaN where a value is missing.
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
        check_choice("strategy", self.strategy, ("mean", "constant"))
        budget = None
        if self.strategy == "mean":
            budget = self._check_privacy_params()
        X = check_rows(
            self, shown(given), reset=True, accept_sparse=False, allow_nan=True
        )
        names = getattr(self, "feature_names_in_", None)
        if budget is None:
            self.__dict__.pop("privacy_", None)
            self.statistics_ = _match_constants(self.fill_value, X.shape[1], names)
            return self
        low, high = match_bounds(self.bounds, X.shape[1], names)
        middle, half = middle_and_half(low, high)
        source = self._source(given, X, groups, budget)
        sums = PairSums(PRESENCE, low, high, source.n_samples)
        params = {"count_weight": PRESENCE.weight}
        answers = self._commit(sums, source, budget, key="noisy_moments", params=params)
        if answers.is_exact:
            self.statistics_ = _exact(X, middle, self._shares(source))
            return self
        released = answers.ask(sums)
        mean = shrunken_mean(*sums.read(released.value), released.deviation)
        self.statistics_ = middle + half * mean
        return self

    def transform(self, X: Any) -> np.ndarray:
        """X with NaN filled in.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Finite numbers, or NaN where a value is missing.

        Returns
        -------
        ndarray of shape (n_samples, n_features), float32 if X is
        """
        check_is_fitted(self)
        X = check_rows(self, X, reset=False, accept_sparse=False, allow_nan=True)
        return np.where(np.isnan(X), in_dtype(self.statistics_, X.dtype), X)

    def step_privacy(self) -> StepPrivacy:
        """What this object costs, planned or spent; never fits anything."""
        return FREE if self.strategy == "constant" else super().step_privacy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _match_constants(fill_value: Any, n_features: int, names: Any) -> FloatArray:
    """The declared constant of each column."""
    declared = fill_value
    if isinstance(fill_value, Mapping):
        declared = in_column_order("fill_value", fill_value, names)
    try:
        values = np.asarray(declared, dtype=np.float64)
        values = np.broadcast_to(values, (n_features,)).copy()
        is_valid = bool(np.isfinite(values).all())
    except (TypeError, ValueError):
        is_valid = False
    if not is_valid:
        raise ValueError(
            f"The 'fill_value' parameter must be a finite number, {n_features} of them "
            f"or a mapping from column names to them. Got {fill_value!r}. Declare what "
            "to fill in, or use strategy='mean'."
        )
    return values


def _exact(X: np.ndarray, empty: FloatArray, shares: FloatArray | None) -> FloatArray:
    """Means of what is present, `empty` where nothing is; not private."""
    counted = np.ones(len(X)) if shares is None else shares
    with np.errstate(all="ignore"):
        is_present = ~np.isnan(X)
        total = counted @ np.where(is_present, X, 0.0).astype(np.float64)
        count = counted @ is_present
        found = np.divide(total, count, out=np.zeros_like(total), where=count > 0)
        return np.where(count > 0, found, empty)
