r"""Stochastic gradient descent: one rating at a time, in blocks that do not touch.

Users and items are cut into `n_blocks` intervals with about as many ratings each.
Blocks of ratings that share neither users nor items are a *stratum* and may be visited
at the same time, with the same result as in turn ([1]_, [2]_). Every row has a step
size of its own, that falls with the gradients it has seen ([3]_); all of them fall
linearly to zero over the passes, which averages the noise of the last ones away.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skdp._configured import Checks
from skdp._validation import check_count, check_positive
from skdp.decomposition._factorizer import Draws, Factorizer
from skdp.decomposition._factors import Factors
from skdp.decomposition._ratings import Pattern, Ratings
from skdp.decomposition._task import Task
from skdp.decomposition._threads import Threads
from skdp.decomposition.plain._ridge_halves import centred, spread

_MAX_STEPS = 10**6
_MAX_BLOCKS = 1000
_REGISTER = 8
# Mean square of the start's products p q, in units of the ratings' variance.
_START = 1e-4


@dataclass(frozen=True, kw_only=True)
class SGD(Factorizer):
    r"""Stochastic gradient descent with steps that adapt to each row.

    Parameters
    ----------
    n_steps : int, default=20
        Passes over the ratings.
    step_size : float, default=0.1
        Of the first pass, in units of the ratings' standard deviation.
    n_blocks : int, default=8
        Intervals of users and of items; at most so many threads have work.

    References
    ----------
    .. [1] Gemulla, Nijkamp, Haas and Sismanis (2011). Large-scale matrix factorization
       with distributed stochastic gradient descent. KDD.
    .. [2] Chin, Zhuang, Juan and Lin (2015). A fast parallel stochastic gradient method
       for matrix factorization in shared memory systems. ACM TIST 6(1).
    .. [3] Chin, Zhuang, Juan and Lin (2015). A learning-rate schedule for stochastic
       gradient methods to matrix factorization. PAKDD.
    """

    key: ClassVar[str] = "sgd"
    penalty: ClassVar[float] = 0.55
    checks: ClassVar[Checks] = {
        "n_steps": partial(check_count, high=_MAX_STEPS),
        "step_size": check_positive,
        "n_blocks": partial(check_count, high=_MAX_BLOCKS),
    }

    n_steps: int = 20
    step_size: float = 0.1
    n_blocks: int = 8

    def iterates(
        self, ratings: Ratings, task: Task, rng: Draws, threads: Threads
    ) -> Iterator[Factors]:
        """The start, then the factors after each pass."""
        descent = _Descent(self, ratings, task, rng)
        yield descent.factors()
        for t in range(self.n_steps):
            descent.go(self.step_size * (1 - t / self.n_steps), rng, threads)
            yield descent.factors()


class _Descent:
    """Ratings in units of their standard deviation, and what the passes change."""

    def __init__(self, plan: SGD, ratings: Ratings, task: Task, rng: Draws) -> None:
        from skdp.decomposition.plain._sgd_kernel import pass_of

        dtype, k = ratings.values.dtype.type, task.n_components
        self._result = centred(ratings, task)
        width = -(-k // _REGISTER) * _REGISTER
        self._visit = pass_of(width)
        targets = ratings.values - dtype(self._result.mean)
        self._scale = spread(ratings)
        self._alphas = dtype(task.alpha), dtype(task.alpha / self._scale)
        self._blocks = _Blocks(ratings.pattern, plan.n_blocks, rng)
        self._n_blocks = plan.n_blocks
        self._targets = targets[self._blocks.order] / dtype(self._scale)
        self._p, self._q = (
            np.zeros((n, width), dtype) for n in (task.n_users, task.n_items)
        )
        self._p_own, self._q_own = (
            np.ones((n, 4), dtype) for n in (task.n_users, task.n_items)
        )
        for rows, own, ids in (
            (self._p, self._p_own, ratings.pattern.users),
            (self._q, self._q_own, ratings.pattern.items),
        ):
            own[:, 0] = 0
            draws = rng.standard_normal((len(rows), k)) * (_START / max(k, 1)) ** 0.25
            rated = np.bincount(ids, minlength=len(rows)) > 0
            rows[:, :k] = draws * rated[:, None]  # the others stay zero

    def go(self, step: float, rng: Draws, threads: Threads) -> None:
        """One pass over all ratings, strata in random order."""
        dtype, n = self._targets.dtype.type, self._n_blocks
        biases = self._result.task.biases
        steps = dtype(step if biases else 0.0), dtype(step)
        for shift in rng.permutation(n):
            spans = [self._blocks.span(b, (b + shift) % n) for b in range(n)]
            threads.each(
                self._visit,
                [
                    (
                        *span,
                        self._blocks.users,
                        self._blocks.items,
                        self._targets,
                        self._alphas,
                        steps,
                        self._p,
                        self._q,
                        self._p_own,
                        self._q_own,
                    )
                    for span in spans
                ],
            )

    def factors(self) -> Factors:
        """The rows in units of the ratings."""
        result, k = self._result, self._result.task.n_components
        root = self._scale**0.5
        result.users[:, :k] = self._p[:, :k] * root
        result.items[:, :k] = self._q[:, :k] * root
        if result.task.biases:
            result.users[:, k] = self._p_own[:, 0] * self._scale
            result.items[:, k + 1] = self._q_own[:, 0] * self._scale
        return result


class _Blocks:
    """Ratings block by block, in random order within each."""

    def __init__(self, pattern: Pattern, n_blocks: int, rng: Draws) -> None:
        self._n_blocks = n_blocks
        shuffled = rng.permutation(len(pattern))
        blocks = _interval_of(pattern.users, pattern.n_users, n_blocks) * n_blocks
        blocks += _interval_of(pattern.items, pattern.n_items, n_blocks)
        blocks = blocks[shuffled]
        self.order: NDArray[Any] = shuffled[np.argsort(blocks, kind="stable")]
        self.users = pattern.users[self.order]
        self.items = pattern.items[self.order]
        self._starts = np.zeros(n_blocks**2 + 1, dtype=np.int64)
        np.cumsum(np.bincount(blocks, minlength=n_blocks**2), out=self._starts[1:])

    def span(self, row: int, column: int) -> tuple[int, int]:
        """First place of a block's ratings, and the place after the last."""
        block = row * self._n_blocks + column
        return int(self._starts[block]), int(self._starts[block + 1])


def _interval_of(
    ids: NDArray[np.int32], n_ids: int, n_blocks: int
) -> NDArray[np.int64]:
    """For each rating, the interval of its id; all have about as many ratings."""
    counts = np.bincount(ids, minlength=n_ids)
    before = np.cumsum(counts) - counts
    intervals: NDArray[np.int64] = before * n_blocks // max(len(ids), 1)
    return np.minimum(intervals, n_blocks - 1)[ids]
