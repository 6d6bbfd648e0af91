"""Which features, privately: what one record can do to a feature's score.

A feature's score is the norm of its row of the gradient sum, or of that row's distance
from a public place. Proofs: ``docs/proofs/peeling.md``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._floats import UNIT_ROUNDOFF, FloatArray
from skdp._rows import clip_entries, clip_rows
from skdp.data import Block, Source
from skdp.objectives import LinearObjective
from skdp.privacy._noise import NoiseSource
from skdp.queries._gradient_sum import GradientSum, RowClip, rounding_slack
from skdp.solvers._boxed import boxed

# Public places are kept this near, in units of the largest gradient sum: far from
# overflow, and farther than any selection can tell apart.
_FARTHEST = 1e12


def favours_selection(objective: LinearObjective) -> bool:
    """Whether selecting features and then releasing their values takes less noise.

    Noise in all values grows with the norm of a row, D2; a private selection with its
    largest entry, DInf, and with the number s of features selected. Selection is better
    if ``(D2 / DInf)^2 >= s max(2, log d)`` (``docs/solvers/peeling.md``).
    """
    assert objective.n_nonzero is not None, "the number of features is given"
    wanted = objective.n_nonzero * max(2.0, math.log(objective.n_features))
    return objective.full_entries >= wanted


def prediction_bound(objective: LinearObjective, weights: FloatArray) -> float:
    """Bound on the norm of any clipped row's raw prediction at released weights."""
    d = objective.n_features
    rows = np.sqrt(np.einsum("ij,ij->i", weights, weights))
    of_entries = objective.entry_bound * float(rows[:d].sum())
    of_rows = objective.data_norm * float(np.linalg.norm(weights[:d], 2))
    constant = objective.intercept_value * float(rows[d:].sum())
    return (min(of_entries, of_rows) + constant) * (1 + 1e-12)


def feature_sensitivity(
    objective: LinearObjective,
    residual_clip: float = math.inf,
    prediction: float = math.inf,
    entry_clip: float = math.inf,
) -> float:
    """By how much one record can change any one feature's score, but for rounding.

    Parameters
    ----------
    objective : LinearObjective
    residual_clip : float in (0, inf], default=inf
        Norm to which every record's residual is clipped.
    prediction : float in [0, inf], default=inf
        Bound on the norm of raw predictions at the released weights.
    entry_clip : float in (0, inf], default=inf
        Magnitude to which entries are clipped in scores.

    Returns
    -------
    float
        Under ``objective.adjacency``; both cases are derived separately on the proof
        page, Lemma 1.
    """
    one_record = min(objective.loss.zero_out_bound(prediction), residual_clip)
    two_records = 2 * one_record
    residual = {"zero_out": one_record, "replace_one": two_records}[objective.adjacency]
    return min(objective.entry_bound, entry_clip) * residual


class _ScoreSum(GradientSum):
    """Sums of gradients whose rows are clipped once more, but not for predictions."""

    def __init__(
        self,
        source: Source,
        objective: LinearObjective,
        residual_clip: float,
        entry_clip: float,
    ) -> None:
        super().__init__(source, objective, residual_clip)
        self._entry_clip = entry_clip
        self._is_compiled = self._is_compiled and entry_clip >= objective.entry_bound

    def _add_gradients(
        self, total: FloatArray, X: Any, clip: RowClip, raw: FloatArray, block: Block
    ) -> None:
        if self._entry_clip < self._objective.entry_bound:
            # Of the clipped rows: of the rows as they are, those far beyond
            # `data_norm` would have next to no part in a score.
            clipped = clip_rows(X, self._objective.data_norm)
            X, clip = clip_entries(clipped, self._entry_clip), RowClip()
        super()._add_gradients(total, X, clip, raw, block)


class FeatureSelection:
    """Selects features by the gradient at released weights; each call is one top-k.

    Parameters
    ----------
    source : Source
        Private.
    objective : LinearObjective
        Its adjacency is the one that the sensitivity is taken under.
    noise : NoiseSource
    residual_clip : float in (0, inf], default=inf
        Norm to which every record's residual is clipped.
    entry_clip : float in (0, inf], default=inf
        Magnitude to which entries are clipped in scores, not in predictions.
    """

    def __init__(
        self,
        source: Source,
        objective: LinearObjective,
        noise: NoiseSource,
        *,
        residual_clip: float = math.inf,
        entry_clip: float = math.inf,
    ) -> None:
        self._objective, self._noise = objective, noise
        self._clip, self._largest_block = residual_clip, source.largest_block
        self._entry_bound = min(objective.entry_bound, entry_clip)
        self._sum = _ScoreSum(source, objective, residual_clip, entry_clip)

    def __call__(
        self,
        weights: FloatArray,
        k: int,
        *,
        epsilon: float,
        place: FloatArray | None = None,
        among: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int64]:
        """Indices of `k` features of nearly the largest scores, in rising order.

        Parameters
        ----------
        weights : ndarray of float64 of shape (n_columns, n_outputs)
            Released.
        k : int
            How many to select.
        epsilon : float in (0, inf)
            Of each of the `k` selections of the declared `BoundedRangeEvent`.
        place : ndarray of float64 of shape (n_features, n_outputs) or None
            Public: a score is the norm of ``place - gradient sum``. None: 0.
        among : ndarray of int64 or None
            The candidates, public. None: all features.
        """
        d, worst = (
            self._objective.n_features,
            self._objective.loss.zero_out_bound(math.inf),
        )
        largest = self._objective.n_samples * self._entry_bound * worst
        if among is None:
            among = np.arange(d)
        difference = -self._sum(weights)[among]
        farthest = 0.0
        if place is not None:
            public = boxed(place[among], _FARTHEST * largest)
            farthest = float(np.linalg.norm(public, axis=1).max())
            difference += public
        scores = np.linalg.norm(difference, axis=1)
        prediction = prediction_bound(self._objective, weights)
        sensitivity = feature_sensitivity(
            self._objective, self._clip, prediction, self._entry_bound
        )
        sensitivity += self._rounding(weights, farthest + largest)
        chosen = self._noise.top_k(scores, k, sensitivity=sensitivity, epsilon=epsilon)
        return np.sort(among[chosen])

    def _rounding(self, weights: FloatArray, largest: float) -> float:
        """Bound on what floating point adds to a score's sensitivity; Lemma 2."""
        objective, length = self._objective, float(np.linalg.norm(weights))
        of_sums = rounding_slack(objective, self._largest_block, length)
        of_norms = 2 * (self._objective.loss.n_outputs + 8) * UNIT_ROUNDOFF * largest
        return of_sums * (self._entry_bound / objective.row_norm) + of_norms
