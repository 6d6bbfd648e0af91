"""Scaling by declared bounds."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skdp._base import DeclaredEstimator
from skdp._bounds import match_bounds, to_unit
from skdp._input import check_rows
from skdp.io._takes import AppendsToSources, shown
from skdp.preprocessing._output_norm import StatesOutputNorm


class BoundedScaler(
    AppendsToSources,
    StatesOutputNorm,
    OneToOneFeatureMixin,
    TransformerMixin,
    DeclaredEstimator,
):
    """Clip to declared bounds, centre, and scale rows to norm at most 1.

    Each feature is clipped to its bounds, moved so that their middle is 0, and
    divided by half their width times sqrt(n_features): every row comes out with L2
    norm at most 1, the default ``data_norm`` of the estimators. A feature that is
    mostly at one of its bounds spends norm on saying so; a logarithm before, or other
    bounds, may serve it better.

    **Privacy.** Costs nothing: the parameters are declared, and each row is transformed
    on its own. `fit` uses the number and the names of the columns and nothing else. The
    null record stays null. Bounds taken from the data (their minimum and maximum, say)
    would be a leak that no later noise repairs; use what is known of the quantity.

    Parameters
    ----------
    bounds : pair of floats, pair of array-likes, or mapping
        ``(low, high)`` for all features, ``(lows, highs)`` with one entry per feature,
        or ``{column name: (low, high)}`` for every column of a data frame. Finite,
        with low < high, in units of the features. Required; None raises in `fit`.

    Attributes
    ----------
    low_, high_ : ndarray of shape (n_features_in_,)
        The declared bounds. Public.
    output_norm_ : float
        1.0: no row that comes out is longer. Public.
    n_features_in_ : int
        Public.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Public; only if X has feature names that are strings.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import BoundedScaler
    >>> X = np.array([[17.0, 1.0], [90.0, 99.0], [200.0, 50.0]])
    >>> scaler = BoundedScaler(bounds=([17, 1], [90, 99])).fit(X)
    >>> scaler.transform(X).round(3)
    array([[-0.707, -0.707],
           [ 0.707,  0.707],
           [ 0.707,  0.   ]])
    """

    def __init__(self, bounds: Any = None) -> None:
        self.bounds = bounds

    def fit(self, X: Any, y: Any = None) -> Self:
        """Match the bounds with the columns of X; reads no values.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Checked for shape, kind and finiteness.
        y : ignored

        Returns
        -------
        self
        """
        X = check_rows(self, shown(X), reset=True, accept_sparse=False)
        names = getattr(self, "feature_names_in_", None)
        self.low_, self.high_ = match_bounds(self.bounds, X.shape[1], names)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Rows of norm at most 1, up to rounding.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features), float32 if X is
        """
        check_is_fitted(self)
        X = check_rows(self, X, reset=False, accept_sparse=False)
        scaled = to_unit(X, self.low_, self.high_) / math.sqrt(X.shape[1])
        return scaled.astype(X.dtype)

    def output_norm(self, input_norm: float | None = None) -> float:
        """Largest L2 norm of a row that comes out: 1.0.

        Parameters
        ----------
        input_norm : float or None, default=None
            Of the rows that come in; not used.

        Returns
        -------
        float
            Public.
        """
        return 1.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
