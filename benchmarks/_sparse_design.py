"""Synthetic designs with few relevant features, made anew for every run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One data set and the weights behind it.

    Parameters
    ----------
    X : ndarray of float32 of shape (n, d)
    y : ndarray of shape (n,)
        Targets, or labels 0 and 1.
    weights : ndarray of shape (d,)
    """

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Design:
    """Facts that are public, and `sample`.

    Wang (2021): `kind` "rows" is section 2.6.1, entries of U(-2, 2) in rows shortened
    to norm 2 s; "entries" is section 3.4.1, entries of U(-1, 1). In both the weights
    are U(-1, 1) and the noise of the targets has variance 0.1. "signs" has entries of
    1 and -1, weights of either sign and magnitude 0.1 to 0.3, noise of deviation 0.2.

    Labels are 1 with probability ``1 / (1 + exp(-x @ w))``; the thesis prints the
    other sign.

    Parameters
    ----------
    n, d, s : int
    kind : {"rows", "entries", "signs"}
    labels : bool, default=False
        Whether y are labels.
    """

    n: int
    d: int
    s: int
    kind: str
    labels: bool = False

    noise: ClassVar[dict[str, float]] = {
        "rows": math.sqrt(0.1),
        "entries": math.sqrt(0.1),
        "signs": 0.2,
    }

    @property
    def data_norm(self) -> float:
        """Bound on the norm of a row: known, since the law of the entries is."""
        if self.kind == "rows":
            return 2.0 * self.s
        if self.kind == "entries":  # the mean square is 1/3, within 5 deviations
            return math.sqrt(self.d / 3 + 5 * math.sqrt(4 * self.d / 45))
        return math.sqrt(self.d)

    @property
    def entry_variance(self) -> float:
        """Mean square of an entry."""
        if self.kind == "rows":
            return min(4 / 3, self.data_norm**2 / self.d)
        return 1 / 3 if self.kind == "entries" else 1.0

    @property
    def feature_bound(self) -> float:
        """Bound on an entry, at the shortest row that the law lets expect."""
        if self.kind == "rows":
            shortest = math.sqrt(4 * self.d / 3 - 5 * math.sqrt(64 * self.d / 45))
            return 2 * min(1.0, self.data_norm / shortest)
        return 1.0

    @property
    def deviation(self) -> float:
        """Of the targets, over weights and rows alike."""
        square = 0.13 / 3 if self.kind == "signs" else 1 / 3
        return math.sqrt(
            self.s * square * self.entry_variance + self.noise[self.kind] ** 2
        )

    def sample(self, run: int) -> Sample:
        """The data set of a run."""
        rng = np.random.default_rng([run, self.n, self.d, self.s])
        weights = np.zeros(self.d)
        chosen = rng.choice(self.d, self.s, replace=False)
        if self.kind == "signs":
            magnitude = rng.uniform(0.1, 0.3, self.s)
            weights[chosen] = rng.choice([-1.0, 1.0], self.s) * magnitude
        else:
            weights[chosen] = rng.uniform(-1, 1, self.s)
        X = self._rows(rng)
        raw = X @ weights.astype(np.float32)
        if self.labels:
            y = (rng.uniform(size=self.n) < expit(raw)).astype(float)
        else:
            y = raw + self.noise[self.kind] * rng.standard_normal(self.n)
        return Sample(X=X, y=y, weights=weights)

    def _rows(self, rng: np.random.Generator) -> np.ndarray:
        X = rng.random((self.n, self.d), dtype=np.float32)
        X *= 2
        X -= 1
        if self.kind == "signs":
            return np.sign(X + np.float32(1e-9))
        if self.kind == "rows":
            X *= 2
            norms = np.sqrt(np.einsum("ij,ij->i", X, X))
            X *= np.minimum(1, self.data_norm / norms)[:, None].astype(np.float32)
        return X


def relative_error(found: np.ndarray, weights: np.ndarray) -> float:
    """Norm of the difference over the norm of the weights."""
    return float(np.linalg.norm(found - weights) / np.linalg.norm(weights))


def support_f1(found: np.ndarray, weights: np.ndarray) -> float:
    """F1 of the features with a nonzero weight."""
    both = np.count_nonzero((found != 0) & (weights != 0))
    return float(2 * both / (np.count_nonzero(found) + np.count_nonzero(weights)))
