"""Parts of a prediction that one noisy query each is about, fitted together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Protocol

import numpy as np
from scipy.sparse import csr_matrix

from skdp._floats import FloatArray
from skdp.decomposition._low_rank import LowRank
from skdp.decomposition._pattern_embedding import incidence, values_of
from skdp.decomposition._posterior_rows import ClippedNormal, product_gram, row_grams
from skdp.decomposition._ratings import Pattern


class Part(Protocol):
    """Coefficients, and rows of norm at most 1 by which predictions depend on them."""

    def shape(self, pattern: Pattern) -> tuple[int, int]:
        """Of the coefficients: (n_rows, d)."""

    def sums(self, residuals: csr_matrix) -> FloatArray:
        """Residuals times rows, summed by coefficient, of shape (n_rows, d)."""

    def gram(self, pairs: csr_matrix) -> FloatArray:
        """Gram matrices of the rows, of shape (n_rows, d, d)."""

    def predictions(self, coef: FloatArray) -> LowRank:
        """Of coefficients of shape (n_rows, d)."""


@dataclass(frozen=True)
class Bilinear:
    """One matrix M for all: ``users @ M @ items.T``."""

    users: FloatArray
    items: FloatArray

    def shape(self, pattern: Pattern) -> tuple[int, int]:
        return 1, self.users.shape[1] * self.items.shape[1]

    def sums(self, residuals: csr_matrix) -> FloatArray:
        return np.asarray((self.users.T @ (residuals @ self.items)).reshape(1, -1))

    def gram(self, pairs: csr_matrix) -> FloatArray:
        return product_gram(pairs, self.users, self.items)

    def predictions(self, coef: FloatArray) -> LowRank:
        shape = self.users.shape[1], self.items.shape[1]
        return LowRank(self.users @ coef.reshape(shape), self.items)


@dataclass(frozen=True)
class ItemRows:
    """A row for every item, given rows of the users."""

    users: FloatArray

    def shape(self, pattern: Pattern) -> tuple[int, int]:
        return pattern.n_items, self.users.shape[1]

    def sums(self, residuals: csr_matrix) -> FloatArray:
        return np.asarray(residuals.T @ self.users)

    def gram(self, pairs: csr_matrix) -> FloatArray:
        return row_grams(pairs.T.tocsr(), self.users)

    def predictions(self, coef: FloatArray) -> LowRank:
        return LowRank(self.users, coef)


@dataclass(frozen=True)
class UserRows:
    """A row for every user, given rows of the items."""

    items: FloatArray

    def shape(self, pattern: Pattern) -> tuple[int, int]:
        return pattern.n_users, self.items.shape[1]

    def sums(self, residuals: csr_matrix) -> FloatArray:
        return np.asarray(residuals @ self.items)

    def gram(self, pairs: csr_matrix) -> FloatArray:
        return row_grams(pairs, self.items)

    def predictions(self, coef: FloatArray) -> LowRank:
        return LowRank(coef, self.items)


@dataclass(frozen=True)
class Release:
    """The noisy sums of a part.

    `sums` are as `part.sums` gives them, with noise of standard deviation `sigma`;
    `law` is that of the residuals that were summed, and `before` the predictions they
    were taken against, of shape (n_ratings,). `prior` has the variances of a row of
    coefficients.
    """

    part: Part
    sums: FloatArray
    sigma: float
    law: ClippedNormal
    prior: FloatArray
    before: FloatArray


class Fit:
    """All parts so far, at first none and predictions of 0; reads no rating."""

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self._pairs = incidence(pattern)
        self._releases: list[tuple[Release, FloatArray]] = []
        self._parts: list[LowRank] = []
        self._predicted: list[FloatArray] = []
        self.predictions = np.zeros(len(pattern))

    @property
    def model(self) -> LowRank:
        """The sum of all parts."""
        return reduce(LowRank.plus, self._parts)

    def add(self, release: Release) -> None:
        """Fit one more part to what the others leave."""
        gram = release.part.gram(self._pairs)
        self._releases.append((release, gram))
        self._parts.append(self._rows(release, gram))
        self._predicted.append(self._parts[-1].predict(self._pattern))
        self.predictions = self.predictions + self._predicted[-1]

    def sweep(self) -> None:
        """Fit every part again to what the others, as they are now, leave.

        What the other parts changed since a query was asked is taken off its sums.
        """
        for j, (release, gram) in enumerate(self._releases):
            self.predictions = self.predictions - self._predicted[j]
            self._parts[j] = self._rows(release, gram)
            self._predicted[j] = self._parts[j].predict(self._pattern)
            self.predictions = self.predictions + self._predicted[j]

    def _rows(self, release: Release, gram: FloatArray) -> LowRank:
        since = values_of(self._pattern, self.predictions - release.before)
        sums = release.sums - release.law.slope * release.part.sums(since)
        coef = release.law.rows(gram, sums, release.prior, release.sigma)
        return release.part.predictions(coef)
