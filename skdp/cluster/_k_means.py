"""k-means from noisy counts and sums of clusters."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.cluster import KMeans
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import FloatArray, IntArray, in_dtype
from skdp._checks import check_count
from skdp._input import check_rows, match_bounds, middle_and_half
from skdp.io._table import AppendsToSources, Table
from skdp.preprocessing._private import PrivateTransformer
from skdp.privacy.accounting._relations import Adjacency, TableUnit
from skdp.privacy.release._answers import Answers
from skdp.sums._adder import ROOT_UNIT
from skdp.sums._counts import SQUARES, PairSums, shrunken_mean
from skdp.sums._moments import ClusterSums

# --------------------------------------------------------- Lloyd's algorithm with noise
# Everything after an answer is post-processing.


# Norm to which rows are clipped, in root mean squares of the distance to the mean. Less
# would move outer centres inwards, and more would add noise.
_RADIUS = 1.75
# Noise deviations of a count below which a cluster is lost: its centre moves beside the
# centre with most records, by about this many deviations of the features.
_LOST, _BESIDE = 3.0, 0.25
# Public draws over which the first centres are spread, for each centre, and their seed.
_DRAWS, _SEED = 200, 0


def first_query(
    pairs: PairSums, n_clusters: int, answers: Answers, rng: Any
) -> tuple[ClusterSums, FloatArray]:
    """Spread centres, from noisy moments; the features' deviations in their units."""
    found, n = answers.ask(pairs), pairs.n_samples
    total, squares = pairs.read(found.value)
    mean = shrunken_mean(total, n, found.deviation)
    least = min(max(found.deviation / n, 1e-12), 1.0)
    variance = np.clip(squares / n - mean**2, least, 1.0)
    radius = _RADIUS * math.sqrt(variance.sum())
    spread = np.sqrt(variance) / radius
    draws = rng.normal(size=(_DRAWS * n_clusters, len(mean))) * spread
    centers = KMeans(n_clusters, n_init=1, random_state=_SEED).fit(draws)
    where = mean, radius, centers.cluster_centers_
    return ClusterSums(n, pairs.low, pairs.high, *where), spread


def lloyd(
    pairs: PairSums, n_clusters: int, n_iter: int, answers: Answers
) -> tuple[ClusterSums, FloatArray]:
    """Steps from spread centres: the query of the last centres, and the last counts."""
    rng = np.random.RandomState(_SEED)
    query, spread = first_query(pairs, n_clusters, answers, rng)
    for steps_left in range(n_iter)[::-1]:
        found = answers.ask(query)
        sums, counts = query.read(found.value)
        is_lost = (counts <= _LOST * found.deviation)[:, None]
        # James and Stein: less of a sum that the noise alone might be.
        noise = query.centers.shape[1] * found.deviation**2
        kept = np.maximum(1 - noise / np.maximum(np.sum(sums**2, axis=1), 1e-12), 0.0)
        kept = (kept / np.maximum(counts, 1e-12))[:, None]
        centers = np.where(is_lost, 0.0, sums * kept)
        if steps_left:
            beside = _BESIDE * spread * rng.normal(size=centers.shape)
            centers = np.where(is_lost, centers[counts.argmax()] + beside, centers)
        centers /= np.maximum(np.linalg.norm(centers, axis=1), 1.0)[:, None]
        query = replace(query, centers=centers)
    return query, np.maximum(counts, 0.0)


# --------------------------------------------------------------------------- DPKMeans


class DPKMeans(AppendsToSources, ClassNamePrefixFeaturesOutMixin, PrivateTransformer):
    """k-means with differential privacy.

    One noisy vector gives the mean and the variance of each feature; the first centres
    are spread evenly over a normal distribution with these moments, by public draws.
    Then each of `n_iter` steps releases the number and the sum of the rows nearest to
    each centre, and moves the centres to the means. A centre without records, as far as
    noise shows, moves beside the centre with most records.

    Distances are in units of the declared `bounds`, so that each feature counts by its
    declared width.

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records public. Released are the moments, and counts
    and sums of each step; see ``docs/proofs/preprocessing.md``. There are no
    ``labels_``, since the label of a record says something about this record alone:
    `predict` finds labels of the rows given to it, which are as private as these rows.

    Parameters
    ----------
    n_clusters : int from 1 to 1000, default=8
    %(epsilon)s
        With inf rows are clipped too, but there is no noise.
    %(bounds)s
    n_iter : int from 1 to 100, default=5
        Number of steps, which share the budget. No step is left out, however little the
        centres move.
    %(delta, adjacency, privacy_unit, random_state, ledger)s

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        In units of the features, within the bounds. Private output.
    cluster_counts_ : ndarray of shape (n_clusters,)
        Number of records nearest to each centre before the last step, at least 0.
        Private output.
    %(privacy_, n_features_in_, feature_names_in_)s

    See Also
    --------
    sklearn.cluster.KMeans : k-means without privacy.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPKMeans
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat([[20.0, 1.0], [70.0, 4.0]], 5000, axis=0)
    >>> X += rng.normal(size=X.shape) * [5.0, 0.5]
    >>> model = DPKMeans(n_clusters=2, epsilon=1.0, bounds=([0, 0], [100, 5])).fit(X)
    >>> bool(abs(np.sort(model.cluster_centers_[:, 0]) - [20, 70]).max() < 3)
    True
    """

    def __init__(
        self,
        *,
        n_clusters: int = 8,
        epsilon: float = 1.0,
        bounds: Any = None,
        n_iter: int = 5,
        delta: float = 1e-6,
        adjacency: Adjacency = "replace_one",
        privacy_unit: TableUnit = "record",
        random_state: int | None = None,
        ledger: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.bounds = bounds
        self.n_iter = n_iter
        self.delta = delta
        self.adjacency = adjacency
        self.privacy_unit = privacy_unit
        self.random_state = random_state
        self.ledger = ledger

    def _fit(self, table: Table) -> None:
        budget = self._check_privacy_params()
        n_clusters = check_count("n_clusters", self.n_clusters, high=1000)
        n_iter = check_count("n_iter", self.n_iter, high=100)
        X = check_rows(self, table.sample(), reset=True, accept_sparse=False)
        names = getattr(self, "feature_names_in_", None)
        low, high = match_bounds(self.bounds, X.shape[1], names)
        source = self._source(table, X, budget)
        pairs = PairSums(SQUARES, low, high, source.n_samples)
        self._last, self.cluster_counts_ = self._release(
            pairs,
            source,
            budget,
            key="noisy_lloyd",
            params={"n_clusters": n_clusters, "n_iter": n_iter},
            times=n_iter + 1,
            read=partial(lloyd, pairs, n_clusters, n_iter),
        )
        self._n_features_out = n_clusters
        middle, half = middle_and_half(low, high)
        units = self._last.mean + self._last.radius * self._last.centers
        self.cluster_centers_ = middle + half * np.clip(units, -1.0, 1.0)

    def predict(self, X: Any) -> IntArray:
        """Index of the centre nearest to each row, which is clipped as in `fit`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of int of shape (n_samples,)
            As private as the rows.
        """
        check_is_fitted(self)
        X = check_rows(self, X, reset=False, accept_sparse=False)
        with np.errstate(all="ignore"):
            return np.asarray(self._last.nearest(self._last.rows(X)))

    def transform(self, X: Any) -> np.ndarray:
        """Distance of each row to each centre, in units of half the bounds.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_clusters), float32 if X is
            As private as the rows.
        """
        check_is_fitted(self)
        X = check_rows(self, X, reset=False, accept_sparse=False)
        last = self._last
        with np.errstate(all="ignore"):
            rows = last.rows(X) * ROOT_UNIT
            each = [np.linalg.norm(rows - center, axis=1) for center in last.centers]
            return in_dtype(last.radius * np.column_stack(each), X.dtype)
