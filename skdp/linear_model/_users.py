"""Models that can protect all rows of a user."""

from __future__ import annotations

from typing import Any, Self

from skdp.io._takes import fit_through
from skdp.linear_model._base import DPEstimator


class ProtectsUsers(DPEstimator):
    """A model with the parameter `privacy_unit`, whose `fit` takes ids.

    To stand before a class that has `_fit`.
    """

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Fit the model privately.

        Parameters
        ----------
        X : array-like, CSR, data frame or source of shape (n_samples, n_features)
            Finite numbers. float32 stays float32; CSR stays CSR. With `columns` a table
            of what is declared. A source of `skdp.io` is read where it lies.
        y : array-like of shape (n_samples,)
            Labels of a classifier, finite targets of a regressor. Left out with a
            source, which has its target; then `classes` of a classifier must be
            declared.
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
            For a parameter or input out of range, for ids without
            ``privacy_unit="user"``, and the other way round. Nothing was spent, and the
            estimator is as it was before.
        BudgetExceeded
            If the ledger's cap does not allow this fit. Nothing was read or spent.
        """
        with self._all_or_nothing():
            return fit_through(self, X, y, lambda: self._fit(X, y, groups=groups))
