"""Principal components from noisy second moments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import FloatArray, clip_rows, in_dtype, row_products
from skdp._checks import check_bool, check_count, check_data_norm
from skdp._input import check_rows
from skdp.io._table import AppendsToSources, Table
from skdp.preprocessing._declared import BringsToNorm
from skdp.preprocessing._private import PrivateTransformer
from skdp.privacy.accounting._relations import Adjacency, TableUnit
from skdp.privacy.release._answers import Released
from skdp.sums._moments import MomentSums, MomentWeights

_MOST_FEATURES = 3000  # about 4.5 million numbers in the query
_MEAN_WEIGHT = 0.5  # as adassp's intercept_weight: the share of the means


class DPPCA(
    AppendsToSources, BringsToNorm, ClassNamePrefixFeaturesOutMixin, PrivateTransformer
):
    r"""Principal component analysis with differential privacy.

    Rows are clipped to `data_norm`, in `fit` and in `transform`. One release with noise
    gives the second moments and the mean; their eigenvectors are the components.
    `transform` centres, projects, and scales rows longer than `data_norm` down to it,
    so that they suit the same `data_norm` in the next step.

    The norm of the noise matrix is about sqrt(n_features) times the noise of one entry.
    A direction is not found if n_samples times its variance is smaller.

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records public. Released is one joint vector of the
    second moments and, with `center`, the sum of the rows; see
    ``docs/proofs/preprocessing.md``. What `transform` returns is as private as the rows
    given to it.

    All parameters are given by name: ``DPPCA(2)`` would mean two components to users of
    scikit-learn's `PCA`, and epsilon 2 to users of skdp.

    Parameters
    ----------
    %(epsilon)s
        With inf rows are not clipped, and the components are those of scikit-learn's
        `PCA` up to their signs.
    %(delta, adjacency, privacy_unit)s
    n_components : int or None, default=None
        Number of components, at most the number of features. None: all.
    %(data_norm)s
    center : bool, default=True
        Whether the mean is estimated and subtracted.
    %(random_state, ledger)s

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        Orthonormal rows by decreasing variance; the largest entry of each is positive.
        Private output.
    explained_variance_ : ndarray of shape (n_components_,)
        Variances along the components, not below 0, in squared units of the features.
        Private output.
    mean_ : ndarray of shape (n_features_in_,)
        Private output (zeros without `center`, public).
    n_components_ : int
        Public.
    data_norm_ : float
        Largest norm of an output row: `data_norm` (inf with ``epsilon=inf``).
        Public.
    %(output_norm_, privacy_, n_features_in_, feature_names_in_)s

    See Also
    --------
    sklearn.decomposition.PCA : The transformer without privacy.

    References
    ----------
    .. [1] Dwork, Talwar, Thakurta and Zhang (2014). Analyze Gauss: optimal bounds for
       privacy-preserving principal component analysis. STOC.

    Deviations: exact calibration, the mean in the same release, both adjacencies.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdp import BoundedScaler, DPPCA
    >>> X, _ = load_digits(return_X_y=True)
    >>> steps = make_pipeline(BoundedScaler((0, 16)), DPPCA(n_components=5))
    >>> steps.fit_transform(X).shape
    (1797, 5)
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        adjacency: Adjacency = "replace_one",
        privacy_unit: TableUnit = "record",
        n_components: int | None = None,
        data_norm: float = 1.0,
        center: bool = True,
        random_state: int | None = None,
        ledger: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.privacy_unit = privacy_unit
        self.n_components = n_components
        self.data_norm = data_norm
        self.center = center
        self.random_state = random_state
        self.ledger = ledger

    def _fit(self, table: Table) -> None:
        budget = self._check_privacy_params()
        norm = check_data_norm(self.data_norm)
        check_bool("center", self.center)
        X = check_rows(self, table.sample(), reset=True, accept_sparse=False)
        n_components = _checked_components(self.n_components, X.shape[1])
        source = self._source(table, X, budget)
        weights = MomentWeights(_MEAN_WEIGHT if self.center else 0.0, 0.0)
        sums = MomentSums(weights, source.n_samples, X.shape[1], norm)
        released = self._release(
            sums,
            source,
            budget,
            key="noisy_moments",
            params={"mean_weight": weights.intercept},
            data_norm=norm,
        )
        if released is None:
            mean, covariance = _exact(X, self.center, self._shares(source))
        else:
            mean, covariance = _centred(sums, released)
        unit = 1.0 if released is None else norm
        variances, components = _principal(covariance, n_components)
        self.components_ = in_dtype(components, X.dtype)
        self.explained_variance_ = in_dtype(unit**2 * variances, X.dtype)
        self.mean_ = in_dtype(unit * mean, X.dtype)
        self.n_components_ = n_components
        self.data_norm_ = norm if budget.is_finite else math.inf

    def transform(self, X: Any) -> np.ndarray:
        """Coordinates along the components; rows of norm at most `data_norm_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components_), float32 if X is
        """
        check_is_fitted(self)
        X = check_rows(self, X, reset=False, accept_sparse=False)
        with np.errstate(all="ignore"):
            rows, is_clipped = X.astype(np.float64), math.isfinite(self.data_norm_)
            if is_clipped:
                rows = clip_rows(rows, self.data_norm_)
            rows = row_products(rows - self.mean_, self.components_)
            if is_clipped:
                rows = clip_rows(rows, self.data_norm_)
            return in_dtype(rows, X.dtype)

    def _planned_norm(self) -> float:
        return check_data_norm(self.data_norm) if self._is_finite() else math.inf

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Rows whose coordinates along the components are those of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components_)

        Returns
        -------
        ndarray of shape (n_samples, n_features_in_)
        """
        check_is_fitted(self)
        return np.asarray(np.asarray(X) @ self.components_ + self.mean_)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_


def _checked_components(n_components: Any, n_features: int) -> int:
    if n_features > _MOST_FEATURES:
        raise ValueError(
            f"DPPCA releases a number for every pair of features and takes at most "
            f"{_MOST_FEATURES} features. Got {n_features}. Leave features out."
        )
    if n_components is None:
        return n_features
    remedy = "Use at most as many components as features."
    return check_count("n_components", n_components, high=n_features, remedy=remedy)


def _exact(
    X: np.ndarray, center: bool, shares: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of rows with weights; not private."""
    n = len(X) if shares is None else shares.sum()
    with np.errstate(all="ignore"):
        X = X.astype(np.float64, copy=False)
        mean = np.average(X, axis=0, weights=shares) if center else np.zeros(X.shape[1])
        X = X - mean
        counted = X if shares is None else X * shares[:, None]
        return mean, np.nan_to_num(counted.T @ X / max(1, n - center))


def _centred(sums: MomentSums, released: Released) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance in units of the norm; post-processing only."""
    moments, has_mean = sums.read(released.value), sums.weights.intercept > 0
    n, sigma = sums.n_samples, released.deviation
    mean = moments.rows / n
    if has_mean:
        # James and Stein: subtract the squared length that the noise alone would have.
        noise = len(mean) * (sigma / (math.sqrt(2) * sums.weights.intercept * n)) ** 2
        length = float(mean @ mean)
        mean = mean * max(0.0, 1 - noise / length if length > 0 else 0.0)
        mean = mean / max(1.0, float(np.linalg.norm(mean)))
    centred = moments.rows_rows - n * np.outer(mean, mean)
    return mean, centred / max(1, n - has_mean)


def _principal(
    covariance: FloatArray, n_components: int
) -> tuple[FloatArray, FloatArray]:
    """Largest eigenvalues, not below 0, and their eigenvectors as rows."""
    values, vectors = np.linalg.eigh(covariance)
    components = vectors.T[::-1][:n_components]
    largest = np.argmax(np.abs(components), axis=1)
    signs = np.sign(components[np.arange(n_components), largest])
    return np.maximum(values[::-1][:n_components], 0.0), components * signs[:, None]
