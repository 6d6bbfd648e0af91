"""Runs of rows on several threads, for compiled loops that release the lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise
from typing import TypeVar

_Result = TypeVar("_Result")

# With fewer rows per thread, starting a thread costs more than it gains.
_LEAST_ROWS = 50_000
# For sums in floating point, whose last bits depend on where runs end.
_MOST_BLOCKS = 8


def n_threads_for(n_rows: int) -> int:
    """Number of threads that pay off; ``OMP_NUM_THREADS`` sets the most."""
    return max(1, min(_most_threads(), n_rows // _LEAST_ROWS))


def _most_threads() -> int:
    # A process may be restricted to some processors at any time.
    at_hand = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    at_hand = at_hand or os.cpu_count() or 1
    # The first number counts: others are for loops within loops.
    asked = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return min(at_hand, int(asked)) if asked.isdecimal() else at_hand


def by_runs(
    work: Callable[[int, int], _Result], n_rows: int, n_threads: int
) -> list[_Result]:
    """Results of ``work(first, last)`` for runs of rows, in their order.

    `work` must not call this itself: it would wait for a thread that it occupies.
    """
    return _by(work, n_rows, n_threads, n_threads)


def by_blocks(work: Callable[[int, int], _Result], n_rows: int) -> list[_Result]:
    """The same for runs whose ends depend only on the number of rows."""
    n_blocks = max(1, min(_MOST_BLOCKS, n_rows // _LEAST_ROWS))
    return _by(work, n_rows, n_blocks, n_threads_for(n_rows))


def _by(
    work: Callable[[int, int], _Result], n_rows: int, n_runs: int, n_threads: int
) -> list[_Result]:
    ends = [n_rows * i // n_runs for i in range(n_runs + 1)]
    if n_threads == 1:
        return [work(*run) for run in pairwise(ends)]
    runs = [_threads(n_threads).submit(work, *run) for run in pairwise(ends)]
    try:
        return [run.result() for run in runs]
    finally:
        wait(runs)  # also if one fails: others write to arrays of the caller


@cache
def _threads(count: int) -> ThreadPoolExecutor:
    """Threads that are kept: new ones often start on the processor of their parent."""
    return ThreadPoolExecutor(count, "skdp")


if hasattr(os, "register_at_fork"):  # a forked process has none of the threads
    os.register_at_fork(after_in_child=_threads.cache_clear)
