"""Gradient descent on batches of records in a secret order, within the walls."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skdp._floats import FloatArray, IntArray
from skdp.data._held import in_memory
from skdp.data._permuted import Order, drawn_order, in_order
from skdp.data._source import Block, Source, holds_rows
from skdp.objectives._linear import LinearObjective
from skdp.papers._permutation_sensitivity import Updates
from skdp.papers._plain_descent import PlainDescent
from skdp.papers._training_source import descended
from skdp.privacy._draws import Draws
from skdp.queries._gradient_sum import GradientSum
from skdp.solvers._progress import Progress


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
        """Batches in an order that is drawn. Private."""
        n_passes = len(self.updates.steps)
        orders: Iterable[Order] = self._orders(source, draws)
        if holds_rows(source):
            source = in_memory(source)
        else:
            orders = keys = tuple(map(str, orders))
            weights = self._descended(source, keys)
            if weights is not None:
                return weights
        state = State(self.objective, self.updates)
        for j, order in enumerate(orders):
            for block, rows in in_order(source, order):
                state.transition(block, rows)
            self.progress.step(j + 1, n_passes)
        return state.terminate()

    def _orders(self, source: Source, draws: Draws) -> Iterator[Order]:
        """Of each pass: the same one, or a new one."""
        order = drawn_order(source, draws)
        yield order
        for _ in range(len(self.updates.steps) - 1):
            if self.reshuffle:
                order = drawn_order(source, draws)
            yield order

    def _descended(self, source: Any, keys: tuple[str, ...]) -> FloatArray | None:
        """Averaged weights of a source that trains where its records are."""
        objective, updates = self.objective, self.updates
        if objective.loss.n_outputs > 1:
            return None
        asked = PlainDescent(
            updates.steps,
            updates.shares,
            keys,
            updates.batch_size,
            objective.n_samples,
            objective.n_features,
            objective.alpha,
            updates.radius,
            objective.data_norm,
            objective.intercept_value if objective.fit_intercept else None,
            objective.loss.form,
            objective.loss.form_constants,
        )
        weights = descended(source, asked)
        return None if weights is None else weights[:, None]


class State:
    """What goes from record to record through all passes, and is never shown. Private.

    Parameters
    ----------
    objective : LinearObjective
    updates : Updates
    """

    def __init__(self, objective: LinearObjective, updates: Updates) -> None:
        self._objective, self._updates = objective, updates
        # Compiled code has one row per output.
        shape = objective.loss.n_outputs, objective.n_columns
        self._weights, self._average = np.zeros(shape), np.zeros(shape)
        self._gradient = np.zeros(shape)  # of the batch that has begun
        self._place = 0

    def transition(self, block: Block, order: IntArray) -> None:
        """Go on by these rows of a block; passes follow upon each other."""
        # Imported here, because numba takes half a second to import.
        from skdp.papers._permutation_kernel import dense_pass, sparse_pass

        objective, updates = self._objective, self._updates
        X: Any = block.X if issparse(block.X) else np.ascontiguousarray(block.X)
        go_on = sparse_pass if issparse(X) else dense_pass
        rows = (X.data, X.indices, X.indptr) if issparse(X) else (X,)
        present = block.present
        if present is None:
            present = np.ones(len(block.y), dtype=bool)
        intercept = objective.intercept_value if objective.fit_intercept else 0.0
        number, start = divmod(self._place, objective.n_samples)
        go_on(
            *rows,
            block.y,
            present,
            (objective.data_norm, intercept),
            order,
            (start, objective.n_samples),
            updates.steps[number],
            updates.shares[number],
            updates.batch_size,
            objective.alpha,
            updates.radius,
            int(objective.loss.form),
            objective.loss.form_constants,
            self._weights,
            self._average,
            self._gradient,
        )
        self._place += len(order)

    def terminate(self) -> FloatArray:
        """The averaged weights, of shape (n_columns, n_outputs)."""
        return self._average.T.copy()
