r"""Alternating least squares: all rows of users, then all rows of items, exactly.

With the items' rows fixed, the objective of a `Task` falls apart into one ridge
regression for each user, whose unknowns are his factors and his bias; and the other way
round. A sweep solves all of them, so that the objective never rises, and no step size
is to be chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from skdp._configured import Checks
from skdp._validation import check_count
from skdp.decomposition._factorizer import Draws, Factorizer
from skdp.decomposition._factors import Factors
from skdp.decomposition._ratings import Ratings
from skdp.decomposition._task import Task
from skdp.decomposition._threads import Threads
from skdp.decomposition.plain._ridge_halves import Side, centred, sides, spread

_MAX_STEPS = 10**6
_BLOCK = 256  # rows that are one piece of work for a thread
# Mean square of the start's factors of items, in units of the ratings' deviation:
# small, so that biases are fitted first.
_START = 0.01


@dataclass(frozen=True, kw_only=True)
class ALS(Factorizer):
    r"""Alternating least squares.

    Parameters
    ----------
    n_steps : int, default=12
        Sweeps over all users and all items.

    References
    ----------
    .. [1] Zhou, Wilkinson, Schreiber and Pan (2008). Large-scale parallel
       collaborative filtering for the Netflix prize. AAIM.
    """

    key: ClassVar[str] = "als"
    penalty: ClassVar[float] = 0.65
    checks: ClassVar[Checks] = {"n_steps": partial(check_count, high=_MAX_STEPS)}

    n_steps: int = 12

    def iterates(
        self, ratings: Ratings, task: Task, rng: Draws, threads: Threads
    ) -> Iterator[Factors]:
        """The start, then the factors after each sweep; the same ones, changed."""
        factors, k = centred(ratings, task), task.n_components
        both = sides(ratings, factors)
        size = (_START * spread(ratings) / max(k, 1)) ** 0.5
        draws = rng.standard_normal((task.n_items, k)) * size
        rated = ratings.pattern.by_item.counts > 0
        factors.items[:, :k] = draws * rated[:, None]  # the others stay zero
        yield factors
        for _ in range(self.n_steps):
            for side in both:
                _solve(side, task.alpha, threads)
            yield factors


def _solve(side: Side, alpha: float, threads: Threads) -> None:
    """Minimise over all rows of a side."""
    from skdp.decomposition.plain._als_kernel import solve_rows

    if not side.free:
        return
    design, constants = side.design()
    rows = np.ascontiguousarray(side.rows[:, side.free])
    # Above the rounding of a system's sums, which would grow where alpha is 0.
    order, damping = side.order, 4 * len(side.free) * float(np.finfo(rows.dtype).eps)
    data = order.starts, order.others, side.values, design, constants
    threads.each(
        solve_rows,
        [
            (first, min(first + _BLOCK, len(rows)), *data, float(alpha), damping, rows)
            for first in range(0, len(rows), _BLOCK)
        ],
    )
    side.rows[:, side.free] = rows
