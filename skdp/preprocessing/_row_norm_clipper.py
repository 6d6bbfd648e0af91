"""Clipping rows to a declared norm."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skdp._base import DeclaredEstimator
from skdp._input import check_rows
from skdp._rows import clip_rows
from skdp._validation import check_data_norm
from skdp.io._takes import AppendsToSources, shown
from skdp.preprocessing._output_norm import StatesOutputNorm


class RowNormClipper(
    AppendsToSources,
    StatesOutputNorm,
    OneToOneFeatureMixin,
    TransformerMixin,
    DeclaredEstimator,
):
    """Scale every row down to a declared L2 norm; shorter rows stay as they are.

    The estimators clip on their own. This step shows the clipped rows to what comes
    between, and joins columns of several transformers into rows of a known norm.

    **Privacy.** Costs nothing: each row is transformed on its own by a declared rule.
    The null record stays null.

    Parameters
    ----------
    data_norm : float in [1e-100, 1e100], default=1.0
        Largest norm of a row that comes out, in units of the features.

    Attributes
    ----------
    output_norm_ : float
        `data_norm`: no row that comes out is longer. Public.
    n_features_in_ : int
        Public.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Public; only if X has feature names that are strings.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import RowNormClipper
    >>> RowNormClipper(data_norm=1.0).fit_transform(np.array([[3.0, 4.0], [0.3, 0.4]]))
    array([[0.6, 0.8],
           [0.3, 0.4]])
    """

    def __init__(self, data_norm: float = 1.0) -> None:
        self.data_norm = data_norm

    def fit(self, X: Any, y: Any = None) -> Self:
        """Note the columns of X; reads no values.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self
        """
        check_data_norm(self.data_norm)
        check_rows(self, shown(X), reset=True, accept_sparse=True)
        return self

    def transform(self, X: Any) -> Any:
        """Rows of norm at most `data_norm`, up to rounding; CSR stays CSR.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)

        Returns
        -------
        ndarray or CSR of shape (n_samples, n_features), float32 if X is
        """
        check_is_fitted(self, "n_features_in_")
        X = check_rows(self, X, reset=False, accept_sparse=True)
        with np.errstate(all="ignore"):
            clipped = clip_rows(X, float(self.data_norm))
            return clipped.astype(X.dtype, copy=False)

    def output_norm(self, input_norm: float | None = None) -> float:
        """Largest L2 norm of a row that comes out: `data_norm`, or what comes in.

        Parameters
        ----------
        input_norm : float or None, default=None
            Of the rows that come in; None if unknown.

        Returns
        -------
        float
            Public.
        """
        norm = check_data_norm(self.data_norm)
        return norm if input_norm is None else min(norm, input_norm)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
