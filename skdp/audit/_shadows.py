"""Shadow models: what a model would have looked like with and without a record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import is_classifier

from skdp._floats import FloatArray
from skdp.audit._leaning import margins
from skdp.audit._parameters import fitted, fresh
from skdp.audit._replay import NullRecord
from skdp.audit._tables import taken

# With fewer fits than this on either side, a record's own variance is worse than that
# of all ([1]_ of `membership_inference`, section VI.B).
_OWN_VARIANCE = 32
# Least variance, of the largest and of the statistic's square: a model that repeats its
# records has none.
_LEAST_VARIANCE, _LEAST_SQUARE = 1e-6, 1e-18


def statistic(model: Any, X: Any, y: Any) -> FloatArray:
    """What the attack looks at: margins of a classifier, residuals of others.

    Both are near to Gaussian over fits.

    Returns
    -------
    ndarray of shape (n_rows,)
    """
    if is_classifier(model):
        return margins(model, X, y)
    residuals = np.asarray(y, dtype=np.float64) - np.asarray(model.predict(X))
    return np.asarray(residuals, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Shadows:
    """Statistics of the pool's records in shadow models.

    Parameters
    ----------
    seen : ndarray of shape (n_shadows, n_records)
    is_in : ndarray of bool of the same shape
        Whether the model was fitted to the record.
    """

    seen: FloatArray
    is_in: np.ndarray

    def log_ratio(self, seen: FloatArray) -> FloatArray:
        """Log-likelihood ratio of having been fitted to, of each record.

        Parameters
        ----------
        seen : ndarray of shape (n_records,)
            The attacked model's.
        """
        sides = [_moments(self.seen, side) for side in (self.is_in, ~self.is_in)]
        largest = max(variance.max() for _, variance in sides)
        scale = max(np.abs(self.seen).max(), np.abs(seen).max())
        floor = max(_LEAST_VARIANCE * largest, _LEAST_SQUARE * scale**2, 1e-300)
        near, far = (_log_density(seen, *side, floor) for side in sides)
        return near - far


def _moments(seen: FloatArray, side: np.ndarray) -> tuple[FloatArray, FloatArray]:
    counts = side.sum(axis=0)
    means = np.where(side, seen, 0.0).sum(axis=0) / counts
    squares = np.where(side, (seen - means) ** 2, 0.0).sum(axis=0) / counts
    if counts.min() < _OWN_VARIANCE:
        squares = np.full_like(squares, squares.mean())
    return means, squares


def _log_density(
    seen: FloatArray, means: FloatArray, variances: FloatArray, floor: float
) -> FloatArray:
    variances = np.maximum(variances, floor)
    return -0.5 * ((seen - means) ** 2 / variances + np.log(variances))


Fit = Callable[[Any, Any, Any], Any]


def fitted_shadows(
    model: Any, X: Any, y: Any, n_shadows: int, draws: Any, n_jobs: int | None
) -> Shadows:
    """Fit clones to random halves of the pool, in pairs: one half, and the other one.

    Every record is in just half of them.
    """
    n = len(y)
    halves = [draws.permutation(n) for _ in range(n_shadows // 2)]
    places = [np.sort(p) for half in halves for p in (half[: n // 2], half[n // 2 :])]
    fits = [delayed(_seen)(_shadow(model, draws), X, y, chosen) for chosen in places]
    is_in = np.zeros((len(places), n), dtype=bool)
    for row, chosen in zip(is_in, places, strict=True):
        row[chosen] = True
    return Shadows(np.array(Parallel(n_jobs=n_jobs)(fits)), is_in)


def _seen(shadow: Any, X: Any, y: Any, chosen: Any) -> FloatArray:
    rows, labels = taken(X, chosen), taken(y, chosen)
    return statistic(fitted(shadow, rows, labels, NullRecord()), X, y)


def _shadow(model: Any, draws: Any) -> Any:
    """A clone on nobody's books, with a seed of its own where the model has one."""
    shadow = fresh(model)
    changed: dict[str, Any] = {}
    for name, value in shadow.get_params().items():
        kind = name.rpartition("__")[2]
        if kind == "ledger" and value is not None:
            changed[name] = None
        if kind == "random_state" and value is not None:
            changed[name] = int(draws.randint(2**31))
    return shadow.set_params(**changed)
