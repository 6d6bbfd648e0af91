"""Kuru (2019), chapter 3: HAMSI's algorithms 1 and 2, for any objective of many parts.

The objective is a sum of functions, each of a few of the variables. They are divided in
subsets, and a subset in blocks that have no variable in common, so that the steps of a
block do not touch those of another and could be taken at the same time. The box of
algorithm 1 is missing in the thesis; this is what its text and its proofs say.

Without privacy, and no part of skdp, whose `solver="hamsi"` factorises ratings by
algorithm 3: another method (docs/errata.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Block:
    """Functions of the same few variables.

    Parameters
    ----------
    columns : ndarray of int
        Which variables they have.
    gradient : callable
        Of their sum, given those variables; of the same shape.
    """

    columns: np.ndarray
    gradient: Callable[[np.ndarray], np.ndarray]


Subset = Sequence[Block]


@dataclass(frozen=True, kw_only=True)
class HAMSI:
    """Steps (H + beta I)^-1 g on one subset after another, the first one twice.

    Parameters
    ----------
    hessian : callable
        A symmetric matrix of shape (d, d), given all variables; asked once a cycle. Its
        part in a block's variables is H for that block.
    n_cycles : int, default=100
    eta, gamma : float, default=0.06, 0.51
        beta of cycle t is ``(eta t) ** gamma``, and at least `least`. It converges for
        gamma in (1/2, 1] by the thesis.
    least : float, default=1.0
        As the convergence proof asks for.
    shuffles : bool, default=False
        Whether subsets have a random order in each cycle: algorithm 2.
    """

    hessian: Callable[[np.ndarray], np.ndarray]
    n_cycles: int = 100
    eta: float = 0.06
    gamma: float = 0.51
    least: float = 1.0
    shuffles: bool = False

    def minimise(
        self, start: np.ndarray, subsets: Sequence[Subset], seed: int = 0
    ) -> np.ndarray:
        """The variables after the last cycle.

        Parameters
        ----------
        start : ndarray of shape (d,)
        subsets : sequence of sequences of Block
            All functions, each once.
        seed : int, default=0
            Of random orders.

        Raises
        ------
        ValueError
            If blocks of a subset have a variable in common.
        """
        for subset in subsets:
            _check_apart(subset)
        now = np.array(start, dtype=np.float64)
        orders = self._orders(len(subsets), np.random.default_rng(seed))
        for cycle, order in zip(range(1, self.n_cycles + 1), orders, strict=False):
            beta = max(self.least, (self.eta * cycle) ** self.gamma)
            matrix = self.hessian(now)
            for number in order:
                for block in subsets[number]:
                    _step(now, block, matrix, beta)
        return now

    def _orders(self, count: int, rng: np.random.Generator) -> Iterator[list[int]]:
        """The subsets of each cycle; the last is the first again."""
        first = list(range(count))
        while True:
            first = (
                rng.permutation(count).tolist()
                if self.shuffles
                else first[1:] + first[:1]
            )
            yield [*first, first[0]]


def _step(now: np.ndarray, block: Block, matrix: np.ndarray, beta: float) -> None:
    """The minimiser of the block's quadratic model, in place."""
    here = block.columns
    bent = matrix[np.ix_(here, here)] + beta * np.eye(len(here))
    now[here] -= np.linalg.solve(bent, block.gradient(now[here]))


def _check_apart(subset: Subset) -> None:
    met = Counter(column for block in subset for column in block.columns.tolist())
    shared = sorted(column for column, times in met.items() if times > 1)
    if shared:
        raise ValueError(
            "Blocks of a subset must have no variable in common, so that their steps "
            f"do not meet. Got variables {shared[:5]} more than once. Put such "
            "functions in one block, or in another subset."
        )
