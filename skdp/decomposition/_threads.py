"""`Threads`: disjoint blocks at the same time, with the same result as in turn."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self


class Threads:
    """A pool for compiled loops that release the interpreter's lock.

    Not numba's own parallel loops: their default layer on some machines must not be
    entered by two fits at once.
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_threads = _resolved(n_jobs)
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Self:
        if self.n_threads > 1:
            self._pool = ThreadPoolExecutor(self.n_threads)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def each(self, work: Callable[..., Any], blocks: Iterable[tuple[Any, ...]]) -> None:
        """Call ``work(*block)`` for every block and wait for all of them."""
        if self._pool is None:
            for block in blocks:
                work(*block)
            return
        for done in [self._pool.submit(work, *block) for block in blocks]:
            done.result()


def _resolved(n_jobs: int | None) -> int:
    if n_jobs is None:
        return 1
    processors = os.cpu_count() or 1
    return max(1, processors + 1 + n_jobs if n_jobs < 0 else n_jobs)
