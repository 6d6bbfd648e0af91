"""Gradient descent on batches of records in a secret order, within the walls."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skdp._floats import FloatArray
from skdp.data import Source, held
from skdp.objectives import LinearObjective
from skdp.privacy._draws import Draws
from skdp.queries._gradient_sum import GradientSum
from skdp.solvers._base import Progress
from skdp.solvers._permutation_sensitivity import Updates


@dataclass(frozen=True)
class PermutedDescent:
    """The averaged weights of all updates, for `Answers.inside`.

    If `reshuffle`, every pass draws a new order; `sensitivity` is that of the averaged
    weights, rounding included.
    """

    objective: LinearObjective
    updates: Updates
    reshuffle: bool
    sensitivity: float
    progress: Progress

    def bound(self, line: int, done: int) -> float:
        return self.sensitivity

    def within(
        self, source: Source, draws: Draws
    ) -> Generator[FloatArray, FloatArray, None]:
        """Yield the averaged weights."""
        if self.updates.batch_size == self.objective.n_samples:
            yield self.full_gradients(source)
        else:
            yield self.batches(source, draws)

    def full_gradients(self, source: Source) -> FloatArray:
        """All records in every update, in any order. Private."""
        objective, radius = self.objective, self.updates.radius
        gradient = GradientSum(source, objective)
        weights = np.zeros(objective.shape)
        average = np.zeros_like(weights)
        steps, shares = self.updates.steps.ravel(), self.updates.shares.ravel()
        for t in range(len(steps)):
            mean = gradient(weights) / objective.n_samples
            weights = (1 - steps[t] * objective.alpha) * weights - steps[t] * mean
            norm = float(np.linalg.norm(weights))
            if norm > radius:
                weights *= radius / norm
            average += shares[t] * weights
            self.progress.step(t + 1, len(steps))
        return average

    def batches(self, source: Source, draws: Draws) -> FloatArray:
        """Batches of a secret order. Private."""
        # Imported here, because numba takes half a second to import.
        from skdp.solvers._permutation_kernel import dense_pass, sparse_pass

        objective, updates = self.objective, self.updates
        block = held(source)
        X: Any = block.X
        if not issparse(X):
            X = np.ascontiguousarray(X)
        one_pass = sparse_pass if issparse(X) else dense_pass
        rows = (X.data, X.indices, X.indptr) if issparse(X) else (X,)
        present = block.present
        if present is None:
            present = np.ones(objective.n_samples, dtype=bool)
        intercept = objective.intercept_value if objective.fit_intercept else 0.0
        weights = np.zeros((objective.loss.n_outputs, objective.n_columns))
        average = np.zeros_like(weights)
        n_passes = len(updates.steps)
        order = draws.permutation(objective.n_samples)
        for j in range(n_passes):
            if j > 0 and self.reshuffle:
                order = draws.permutation(objective.n_samples)
            one_pass(
                *rows,
                block.y,
                present,
                (objective.data_norm, intercept),
                order,
                updates.steps[j],
                updates.shares[j],
                updates.batch_size,
                objective.alpha,
                updates.radius,
                int(objective.loss.form),
                objective.loss.form_constants,
                weights,
                average,
            )
            self.progress.step(j + 1, n_passes)
        return average.T.copy()
