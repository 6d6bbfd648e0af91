"""The inverse Hessian of limited-memory BFGS in compact form.

References
----------
Byrd, Nocedal and Schnabel (1994). Representations of quasi-Newton matrices and their
use in limited memory methods. Mathematical Programming 63, theorem 2.2.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from skdp.decomposition._threads import Threads

# Long vectors are worked on in pieces, whose number depends on nothing but the length.
_PIECE = 1 << 16
# Cosine of a step and the change of the gradient, below which it says nothing about
# curvature that rounding does not.
_LEAST_COSINE = 1e-5


class InverseHessian:
    """``sigma I + W N W'`` with ``W = [S, sigma Y]``, applied from right to left.

    S and Y have the last steps and changes of the gradient as columns, N is a small
    matrix made of ``S'Y`` and ``Y'Y``. A new pair takes the place of the oldest, and
    only its own row and column of the two products are computed.

    `n_corrections` pairs are remembered; it is `sigma` I until there is a pair, and if
    it `waits`, until there are all of them. If `capped`, sigma may never grow, as in
    the code of Kuru (2019); otherwise it is always ``s'y / y'y`` of the newest pair, as
    in the text.
    """

    def __init__(
        self,
        size: int,
        n_corrections: int,
        sigma: float,
        dtype: Any,
        capped: bool = False,
        waits: bool = False,
    ) -> None:
        self.sigma = sigma
        self._capped, self._waits = capped, waits
        self._n = n_corrections
        # Rows: the steps, then the changes of the gradient.
        self._rows = np.zeros((2 * n_corrections, size), dtype=dtype)
        self._steps_by_changes = np.zeros((n_corrections, n_corrections))
        self._changes_by_changes = np.zeros((n_corrections, n_corrections))
        self._order: list[int] = []  # places of the pairs, the oldest first
        self._pieces = _pieces(size)

    def __len__(self) -> int:
        return len(self._order)

    @property
    def is_full(self) -> bool:
        """Whether as many pairs as can be are remembered."""
        return len(self) == self._n

    def clear(self) -> None:
        """Forget all pairs, and keep sigma."""
        self._order = []

    def accept(
        self, step: NDArray[Any], change: NDArray[Any], threads: Threads
    ) -> bool:
        """Remember a pair unless its curvature is not safely positive.

        `step` is that of the point, `change` that of the gradient.
        """
        product, squares = inner(step, change), inner(change, change)
        least = _LEAST_COSINE * np.sqrt(squares) * np.sqrt(inner(step, step))
        if not (np.isfinite(least) and product > least > 0):
            return False
        place = self._order.pop(0) if self.is_full else len(self)
        self._rows[place], self._rows[self._n + place] = step, change
        self._order.append(place)
        sigma = product / squares
        self.sigma = min(self.sigma, sigma) if self._capped else sigma
        products = self._products(change, threads)
        self._steps_by_changes[:, place] = products[: self._n]
        self._changes_by_changes[place] = products[self._n :]
        self._changes_by_changes[:, place] = products[self._n :]
        return True

    def subtract(
        self,
        point: NDArray[Any],
        gradient: NDArray[Any],
        factor: float,
        threads: Threads,
    ) -> None:
        """``point -= factor H gradient``, in place.

        The result does not depend on the number of threads.
        """
        weights = np.zeros(2 * self._n)
        is_used = self.is_full if self._waits else bool(self._order)
        if is_used:
            places = np.array(self._order)
            products = self._products(gradient, threads)
            weights[places], weights[self._n + places] = self._middle(
                products[places], products[self._n + places]
            )
        coefficients = (factor * weights).astype(self._rows.dtype)
        scale = self._rows.dtype.type(factor * self.sigma)

        def move(first: int, last: int) -> None:
            part = point[first:last]
            with quiet():
                part -= scale * gradient[first:last]
                if is_used:
                    part -= coefficients @ self._rows[:, first:last]

        threads.each(move, self._pieces)

    def _middle(
        self, by_steps: NDArray[np.float64], by_changes: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights of the steps and of the changes, from the vector's products."""
        chosen = np.ix_(self._order, self._order)
        upper = np.triu(self._steps_by_changes[chosen])
        solved = solve_triangular(upper, by_steps, check_finite=False)
        inside = np.diag(upper) * solved + self.sigma * (
            self._changes_by_changes[chosen] @ solved - by_changes
        )
        by_change = -self.sigma * solved
        return solve_triangular(upper, inside, trans="T", check_finite=False), by_change

    def _products(self, vector: NDArray[Any], threads: Threads) -> NDArray[np.float64]:
        sums: NDArray[np.float64] = np.zeros((len(self._pieces), 2 * self._n))

        def part(first: int, last: int) -> None:
            with quiet():
                sums[first // _PIECE] = self._rows[:, first:last] @ vector[first:last]

        threads.each(part, self._pieces)
        total: NDArray[np.float64] = sums.sum(axis=0)
        return total


def inner(x: NDArray[Any], y: NDArray[Any]) -> float:
    """Inner product, summed piece by piece in double precision."""
    with quiet():
        return sum(float(x[start:end] @ y[start:end]) for start, end in _pieces(len(x)))


def quiet() -> AbstractContextManager[None]:
    """No warnings of overflow: what comes of it is looked for and undone."""
    return np.errstate(over="ignore", invalid="ignore")


def _pieces(size: int) -> list[tuple[int, int]]:
    return [(start, min(start + _PIECE, size)) for start in range(0, size, _PIECE)]
