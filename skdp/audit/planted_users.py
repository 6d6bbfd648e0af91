"""Estimators of users with a bug each, to see an audit find it. Never for private data.

`NoisyUserSums` keeps its promise to users; each of the others makes a mistake that
keeps one to records only, or none. Their promise, of `epsilon` and `delta` under
`adjacency`, is to be handed to `audit_estimator` with the ids of users, as
`skdp.audit.planted` says of records.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.utils.validation import validate_data

from skdp._floats import FloatArray, IntArray
from skdp.audit.planted import ClassSums, diameter
from skdp.data._users import places_of_own
from skdp.privacy._adjacency import OF_USERS

__all__ = ["MergedIds", "NoisyUserSums", "OneRowMore", "PresentUsers", "RowsAsRecords"]


class NoisyUserSums(ClassSums):
    """Sums over users of the means of their rows: without a planted bug.

    A row has (x, 1) in the part of its class, and a user the mean over the own rows
    that count. Of two users these are no further apart than of two rows; one without
    rows has 0.

    Parameters
    ----------
    epsilon : float, default=1.0
    delta : float, default=1e-5
    data_norm : float, default=3.0
        Rows are clipped to it.
    most_rows : int, default=2
        Of a user, the first so many rows count.
    adjacency : {"replace_user", "zero_out_user"}, default="replace_user"
    random_state : int or None, default=None
        An integer makes the noise reproducible.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_features)
        Private output, if there were no bug. Means over all users.
    intercept_ : ndarray of shape (n_classes,)
        Private output, if there were no bug. Shares of the classes.
    n_users_ : int
        Public, if there were no bug: as the ids declare.
    classes_ : ndarray of shape (n_classes,)
        Taken to be public.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        data_norm: float = 3.0,
        most_rows: int = 2,
        adjacency: str = "replace_user",
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.most_rows = most_rows
        self.adjacency = adjacency
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any) -> Self:
        """Add up the means of users in each class.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
        groups : array-like of shape (n_rows,)
            Ids; a categorical declares users without rows.

        Returns
        -------
        Self
        """
        X, y = validate_data(self, X, y, dtype=np.float64)
        ids = pd.Categorical(groups)
        codes = self._codes(ids)
        self.n_users_ = self._n_users(ids)
        sums = self._sums(X, y, self._shares(codes))
        noise = self._noise(sums.shape, self._sensitivity(float(self.data_norm)))
        means = (sums + noise) / self.n_users_
        self.coef_, self.intercept_ = means[:, :-1], means[:, -1]
        return self

    def _codes(self, ids: pd.Categorical) -> IntArray:
        codes: IntArray = ids.codes.astype(np.int64)
        return codes

    def _n_users(self, ids: pd.Categorical) -> int:
        return len(ids.categories)

    def _shares(self, codes: IntArray) -> FloatArray:
        most = int(self.most_rows)
        counts = np.minimum(np.bincount(codes), most)[codes]
        shares: FloatArray = (places_of_own(codes) < self._counted(most)) / counts
        return shares

    def _counted(self, most: int) -> int:
        return most

    def _sensitivity(self, norm: float) -> float:
        if self.adjacency not in OF_USERS:
            raise ValueError(f"The 'adjacency' parameter must be one of {OF_USERS}.")
        is_replaced = self.adjacency == "replace_user"
        return diameter(norm) if is_replaced else math.hypot(norm, 1)


class RowsAsRecords(NoisyUserSums):
    """Bug: every row counts as a record, and noise is for one of them."""

    def _shares(self, codes: IntArray) -> FloatArray:
        return np.ones(len(codes))


class OneRowMore(NoisyUserSums):
    """Bug: a row more counts than shares are made for."""

    def _counted(self, most: int) -> int:
        return most + 1


class MergedIds(NoisyUserSums):
    """Bug: whole numbers as ids are rounded to single precision.

    From 2^24 on, two users become one. The first takes the other's place in a mean and
    does not only leave the own: that is no step of ``adjacency="zero_out_user"``.
    """

    def _codes(self, ids: pd.Categorical) -> IntArray:
        rounded = np.asarray(ids.categories, dtype=np.float32)
        merged = np.unique(rounded, return_inverse=True)[1]
        codes: IntArray = merged[ids.codes]
        return codes


class PresentUsers(NoisyUserSums):
    """Bug: the number of users is that of those with rows."""

    def _n_users(self, ids: pd.Categorical) -> int:
        return len(np.unique(ids.codes))
