"""Tran and Cutkosky (2022): momentum from trees, Algorithms 1 and 2, repaired.

Records stand in one public order and are divided into as many leaves; an epoch is one
walk over the leaves, one step each. A node is a dyadic interval of the leaves of one
epoch, its value the sum of their gradients, ``beta ** (last - leaf)`` each, and it is
released once, with Gaussian noise, when its last leaf has been read. Everything else is
post-processing of nodes. What was repaired: trees start anew in each epoch, so that no
node straddles two; all nodes that hold a record are counted exactly, in place of V;
differences of gradients are noised by the smoothness times the way, and the order is
the same in every epoch (docs/errata.md).

A record stands at one place, so all nodes of all epochs together are one vector of
which it moves known nodes by known amounts, whatever was heard before; nodes are told
one by one and weights follow them. Both relations: a record against the null record,
and against another one in its place. Noise is simulated in double precision, for
figures; nothing here is for release.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import expit

from skdp.privacy import GaussianEvent

Node = tuple[int, int]  # first and last leaf of an epoch, from 1
# Told the kind of a node, its exact value and its deviation; returns what is released.
Hear = Callable[[str, np.ndarray, float], np.ndarray]


def prefix(t: int) -> Iterator[Node]:
    """The nodes of which leaves 1 to `t` are made, the last one first."""
    while t:
        size = t & -t
        yield t - size + 1, t
        t -= size


def suffix(t: int, n_leaves: int) -> Iterator[Node]:
    """The nodes of which the leaves after `t`, at least 1, are made."""
    while t < n_leaves:
        size = t & -t
        yield t + 1, t + size
        t += size


def ending(t: int) -> Iterator[Node]:
    """All nodes whose last leaf is `t`."""
    size = 1
    while t % size == 0:
        yield t - size + 1, t
        size *= 2


def weight_of_a_leaf(n_leaves: int, beta: float, *, prefixes_only: bool) -> float:
    """Largest sum over the nodes that hold a leaf of their squared weights of it.

    With `prefixes_only` of the nodes that some prefix needs: left ones.
    """
    held = np.zeros(n_leaves + 1)
    for t in range(1, n_leaves + 1):
        nodes = [next(prefix(t))] if prefixes_only else list(ending(t))
        for first, last in nodes:
            leaves = np.arange(first, last + 1)
            held[leaves] += beta ** (2.0 * (last - leaves))
    return float(held.max())


@dataclass(frozen=True)
class Logistic:
    """A logistic regression of rows of norm 1 and a constant, in a public order.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Private. Rows beyond norm 1 are shortened.
    y : ndarray of shape (n_samples,)
        Of 0 and 1; private.
    n_leaves : int
        A power of two.
    present : ndarray of bool of shape (n_samples,) or None, default=None
        Which records are not the null record; private. None: all.
    """

    X: np.ndarray
    y: np.ndarray
    n_leaves: int
    present: np.ndarray | None = None
    steepest: ClassVar[float] = math.sqrt(2)  # of one record's loss, in all columns
    smoothness: ClassVar[float] = 0.5  # the same
    has_constant: ClassVar[bool] = True
    ridge: ClassVar[float] = 0.0  # of half a squared norm, public

    @property
    def dimension(self) -> int:
        """Of the weights."""
        return self.X.shape[1] + self.has_constant

    @property
    def leaf_size(self) -> int:
        """By which sums are divided, those of a last, smaller leaf too; public."""
        return -(-len(self.y) // self.n_leaves)

    def leaf(self, t: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows with their constant, and labels, of a leaf from 1."""
        here = slice((t - 1) * self.leaf_size, t * self.leaf_size)
        rows = self.X[here]
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows / np.maximum(norms, 1.0)
        if self.has_constant:
            rows = np.hstack([rows, np.ones((len(rows), 1))])
        if self.present is not None:
            rows[~self.present[here]] = 0.0  # which adds nothing to a gradient
        return rows, self.y[here]

    def gradient(self, t: int, weights: np.ndarray) -> np.ndarray:
        """Of a leaf, over the public size of leaves."""
        rows, y = self.leaf(t)
        return np.asarray(rows.T @ self.residual(rows @ weights, y) / self.leaf_size)

    @staticmethod
    def residual(raw: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Derivative of each record's loss."""
        return np.asarray(expit(raw) - y)


@dataclass(frozen=True)
class Sigmoid(Logistic):
    """A rounded count of mistakes in place of the logistic loss; not convex.

    There is no constant, and a ridge, whose gradient is public, holds the weights.
    """

    steepest: ClassVar[float] = 0.25
    smoothness: ClassVar[float] = 1 / (6 * math.sqrt(3))
    has_constant: ClassVar[bool] = False
    ridge: ClassVar[float] = 1e-3

    @staticmethod
    def residual(raw: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray((1 - 2 * y) * expit(raw) * expit(-raw))


class Epochs:
    """Noisy nodes of one kind, of this epoch and the one before.

    Parameters
    ----------
    kind : str
    n_leaves : int
    beta : float in (0, 1]
    prefixes_only : bool
        Whether nodes are released that only windows across two epochs need.
    deviation : float
        Of the noise of every node.
    hear : callable
    """

    def __init__(
        self,
        kind: str,
        n_leaves: int,
        beta: float,
        *,
        prefixes_only: bool,
        deviation: float,
        hear: Hear,
    ) -> None:
        self._kind, self._n, self._beta = kind, n_leaves, beta
        self._prefixes_only, self._deviation = prefixes_only, deviation
        self._hear = hear
        self._exact: dict[Node, np.ndarray] = {}
        self._now: dict[Node, np.ndarray] = {}
        self._before: dict[Node, np.ndarray] = {}

    def turn(self) -> None:
        """Begin an epoch."""
        self._exact, self._now, self._before = {}, {}, self._now

    def add(self, t: int, leaf: np.ndarray) -> None:
        """The leaf at place `t`; releases the nodes that end there."""
        wanted = {next(prefix(t))} if self._prefixes_only else set(ending(t))
        for first, last in ending(t):
            half = (last - first + 1) // 2
            value = leaf
            if half:
                left = self._exact[first, first + half - 1]
                value = self._beta**half * left + self._exact[first + half, last]
            self._exact[first, last] = value
            if (first, last) in wanted:
                heard = self._hear(self._kind, value, self._deviation)
                self._now[first, last] = heard

    def upto(self, t: int) -> np.ndarray:
        """Leaves 1 to `t` of this epoch, by noisy nodes."""
        parts = [self._beta ** (t - z) * self._now[y, z] for y, z in prefix(t)]
        return np.sum(parts, axis=0)

    def window(self, t: int) -> np.ndarray:
        """The last leaves, as many as an epoch has."""
        found = self.upto(t)
        for y, z in suffix(t, self._n):
            found = found + self._beta ** (t + self._n - z) * self._before[y, z]
        return found


@dataclass(frozen=True, kw_only=True)
class TreeMomentum:
    """Normalised steps along a momentum that is released through trees.

    Parameters
    ----------
    algorithm : {1, 2}
    n_epochs : int
    step_size : float
        Length of every step.
    alpha : float in (0, 1]
        Of the paper: 1 less what the momentum keeps.
    refresh : float in [0, 1], default=0.1
        gamma of Algorithm 2.
    shares : triple of floats, default=(0.5, 0.25, 0.25)
        Of mu squared, for gradients, their changes between epochs, and within one.
    adjacency : {"zero_out", "replace_one"}
    mu : float in (0, inf)
        Of everything together.
    """

    algorithm: Literal[1, 2]
    n_epochs: int
    step_size: float
    alpha: float
    refresh: float = 0.1
    shares: tuple[float, float, float] = (0.5, 0.25, 0.25)
    adjacency: Literal["zero_out", "replace_one"]
    mu: float

    @property
    def event(self) -> GaussianEvent:
        """What all nodes of all epochs cost."""
        return GaussianEvent(1 / self.mu)

    def leaf_bounds(self, task: Logistic) -> tuple[float, float]:
        """How far one record moves a leaf's gradient, and a change of it.

        A record adds at most G against the null record, and its change at most L times
        the way, or 2 G; another record in its place adds as much again.
        """
        way = self.step_size * task.n_leaves
        change = min(2 * task.steepest, task.smoothness * way)
        twice = 2 if self.adjacency == "replace_one" else 1
        return (
            twice * task.steepest / task.leaf_size,
            twice * change / task.leaf_size,
        )

    def deviations(self, task: Logistic) -> tuple[float, float, float]:
        """Of nodes of gradients, of changes between epochs, and within one."""
        beta, n = 1 - self.alpha, task.n_leaves
        of_prefixes, of_all = (
            math.sqrt(
                self.n_epochs * weight_of_a_leaf(n, beta, prefixes_only=prefixes_only)
            )
            for prefixes_only in (True, False)
        )
        gradient, change = self.leaf_bounds(task)
        if self.algorithm == 1:
            return of_prefixes * gradient / self.mu, 0.0, 0.0
        own, between, within = (math.sqrt(share) * self.mu for share in self.shares)
        return (
            of_all * gradient / own,
            of_all * change / between,
            of_prefixes * change / within,
        )

    def run(self, task: Logistic, hear: Hear) -> np.ndarray:
        """The mean of the last half of the iterates; all of them are released."""
        walk = self._first if self.algorithm == 1 else self._second
        weights = list(walk(task, hear))
        return np.asarray(np.mean(weights[len(weights) // 2 :], axis=0))

    def _nodes(self, kind: str, task: Logistic, hear: Hear, **facts: Any) -> Epochs:
        return Epochs(kind, task.n_leaves, 1 - self.alpha, hear=hear, **facts)

    def _stepped(
        self, task: Logistic, weights: np.ndarray, momentum: np.ndarray
    ) -> np.ndarray:
        slope = momentum + task.ridge * weights
        norm = float(np.linalg.norm(slope))
        return weights - self.step_size * slope / norm if norm > 0 else weights

    def _first(self, task: Logistic, hear: Hear) -> Iterator[np.ndarray]:
        (deviation, _, _), beta = self.deviations(task), 1 - self.alpha
        nodes = self._nodes(
            "gradient", task, hear, prefixes_only=True, deviation=deviation
        )
        weights = carried = np.zeros(task.dimension)
        for _ in range(self.n_epochs):
            nodes.turn()
            momentum = carried
            for t in range(1, task.n_leaves + 1):
                nodes.add(t, task.gradient(t, weights))
                momentum = beta**t * carried + self.alpha * nodes.upto(t)
                weights = self._stepped(task, weights, momentum)
                yield weights
            carried = momentum

    def _second(self, task: Logistic, hear: Hear) -> Iterator[np.ndarray]:
        n, beta = task.n_leaves, 1 - self.alpha
        own, between, within = self.deviations(task)
        gradients = self._nodes(
            "gradient", task, hear, prefixes_only=False, deviation=own
        )
        changes = self._nodes(
            "between", task, hear, prefixes_only=False, deviation=between
        )
        moves = self._nodes("within", task, hear, prefixes_only=True, deviation=within)
        weights = anchor = carried = np.zeros(task.dimension)
        sums: list[np.ndarray] = [np.zeros_like(weights)] * n
        windows = sums.copy()
        for epoch in range(self.n_epochs):
            anchor, before = weights, anchor
            for nodes in (gradients, changes, moves):
                nodes.turn()
            for t in range(1, n + 1):
                here = task.gradient(t, anchor)
                gradients.add(t, here)
                moves.add(t, task.gradient(t, weights) - here)
                if epoch:
                    changes.add(t, here - task.gradient(t, before))
                if epoch == 0:
                    sums[t - 1] = gradients.upto(t)
                else:
                    window = gradients.window(t)
                    if epoch > 1:
                        kept = windows[t - 1] + changes.window(t)
                        window = (1 - self.refresh) * kept + self.refresh * window
                    windows[t - 1] = window
                    sums[t - 1] = beta**n * sums[t - 1] + window
                moved = moves.upto(t) + beta**t * carried
                momentum = self.alpha * (sums[t - 1] + moved)
                weights = self._stepped(task, weights, momentum)
                yield weights
            carried = moved
