"""STORM of Cutkosky and Orabona (2019): recursive momentum without noise.

Not private: what `srm` repeats with noise, on fresh batches, nothing clipped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit


@dataclass(frozen=True, kw_only=True)
class Storm:
    """Recursive momentum on a logistic regression with a constant.

    Parameters
    ----------
    n_steps, batch_size : int
    step_size : float
    refresh : float in (0, 1]
        Share of the fresh gradient; 1 is plain descent on batches.
    """

    n_steps: int
    batch_size: int
    step_size: float
    refresh: float

    def run(self, X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
        """The mean of the last half of the iterates; not private."""
        rng = np.random.default_rng(seed)
        rows = np.hstack([X, np.ones((len(X), 1))])
        weights = before = momentum = np.zeros(rows.shape[1])
        tail = []
        for t in range(self.n_steps):
            batch = rng.choice(len(y), min(self.batch_size, len(y)), replace=False)
            here = gradient(rows[batch], y[batch], weights)
            if t:
                moved = here - gradient(rows[batch], y[batch], before)
                kept = (1 - self.refresh) * (momentum + moved)
                here = kept + self.refresh * here
            momentum, before = here, weights
            weights = weights - self.step_size * momentum
            tail.append(weights)
        return np.asarray(np.mean(tail[self.n_steps // 2 :], axis=0))


def gradient(rows: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Of the mean logistic loss."""
    residual = expit(rows @ weights) - y
    return np.asarray(rows.T @ residual / len(y))
