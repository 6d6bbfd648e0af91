"""Estimators of users with a bug each, which `audit_estimator` must find.

`NoisyUserSums` keeps its promise to users; each of the others makes a mistake that
keeps one to records only, or none. Their promise, of `epsilon` and `delta` under
`adjacency`, is to be handed to `audit_estimator` with the ids of users, as
`tests.planted.records` says of records.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from sklearn.utils.validation import validate_data

from skdp.privacy.accounting._relations import OF_USERS
from skdp.tables._memory import places_of_own
from tests.planted.records import ClassSums, diameter

__all__ = ["MergedIds", "NoisyUserSums", "OneRowMore", "PresentUsers", "RowsAsRecords"]


class NoisyUserSums(ClassSums):
    """Sums over users of the means of their rows: without a bug.

    A row has (x, 1) in the part of its class, and a user the mean over the first
    `most_rows` of the user's rows. Of two users these are no further apart than of two
    rows; one without rows has 0.
    """

    def __init__(
        self,
        epsilon=1.0,
        delta=1e-5,
        data_norm=3.0,
        most_rows=2,
        adjacency="replace_user",
        random_state=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.most_rows = most_rows
        self.adjacency = adjacency
        self.random_state = random_state

    def fit(self, X, y, groups):
        X, y = validate_data(self, X, y, dtype=np.float64)
        ids = pd.Categorical(groups)
        self.n_users_ = self._n_users(ids)
        sums = self._sums(X, y, self._weights(self._codes(ids)))
        noise = self._noise(sums.shape, self._sensitivity(self.data_norm))
        means = (sums + noise) / self.n_users_
        self.coef_, self.intercept_ = means[:, :-1], means[:, -1]
        return self

    def _codes(self, ids):
        return ids.codes.astype(np.int64)

    def _n_users(self, ids):
        return len(ids.categories)

    def _weights(self, codes):
        counts = np.minimum(np.bincount(codes), self.most_rows)[codes]
        return (places_of_own(codes) < self._counted(self.most_rows)) / counts

    def _counted(self, most):
        return most

    def _sensitivity(self, norm):
        if self.adjacency not in OF_USERS:
            raise ValueError(f"The 'adjacency' parameter must be one of {OF_USERS}.")
        is_replaced = self.adjacency == "replace_user"
        return diameter(norm) if is_replaced else math.hypot(norm, 1)


class RowsAsRecords(NoisyUserSums):
    """Bug: every row counts as a record, and noise is for one of them."""

    def _weights(self, codes):
        return np.ones(len(codes))


class OneRowMore(NoisyUserSums):
    """Bug: a row more counts than weights are made for."""

    def _counted(self, most):
        return most + 1


class MergedIds(NoisyUserSums):
    """Bug: whole numbers as ids are rounded to single precision.

    From 2^24 on, two users become one. The first takes the other's place in a mean and
    does not only leave: that is no step of ``adjacency="zero_out_user"``.
    """

    def _codes(self, ids):
        rounded = np.asarray(ids.categories, dtype=np.float32)
        merged = np.unique(rounded, return_inverse=True)[1]
        return merged[ids.codes]


class PresentUsers(NoisyUserSums):
    """Bug: the number of users is that of those with rows."""

    def _n_users(self, ids):
        return len(np.unique(ids.codes))
