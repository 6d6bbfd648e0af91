"""Several connections that read shares of one table, of one exported snapshot."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from queue import Full, Queue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skdp.io.engines._postgres import PostgreSQL

# Batches that each reader may be ahead of whoever takes them.
_AHEAD = 2
# Seconds after which a reader that cannot go on looks whether it should.
_PATIENCE = 0.1


def pages_from(first: int, end: int | None) -> str:
    """The condition on a row to lie in some pages of its table; the last has no end."""
    parts = [f"ctid >= '({first},0)'"] if first else []
    if end is not None:
        parts.append(f"ctid < '({end},0)'")
    return " AND ".join(parts) or "TRUE"


class Readers:
    """Connections of one snapshot, opened when they are first asked for.

    Parameters
    ----------
    opened : callable
        From nothing to one more engine within the snapshot of the transaction.
    """

    def __init__(self, opened: Callable[[], PostgreSQL]) -> None:
        self._opened = opened
        self._engines: list[PostgreSQL] = []

    def batches(self, queries: Sequence[str], size: int) -> Iterator[Any]:
        """Record batches of several queries, each by its own connection, as they come.

        If one fails, so does the whole: nothing is asked for again.
        """
        while len(self._engines) < len(queries):
            self._engines.append(self._opened())
        waiting: Queue[Any] = Queue(_AHEAD * len(queries))
        stopped = threading.Event()
        threads = [
            threading.Thread(
                target=_read, args=(engine, query, size, waiting, stopped), daemon=True
            )
            for engine, query in zip(self._engines, queries, strict=False)
        ]
        for thread in threads:
            thread.start()
        try:
            n_ended = 0
            while n_ended < len(threads):
                found = waiting.get()
                if isinstance(found, BaseException):
                    raise found
                if found is None:
                    n_ended += 1
                else:
                    yield found
        finally:
            stopped.set()
            for thread in threads:
                thread.join()

    def check(self) -> None:
        """Raise if one of them is in another transaction than at first."""
        for engine in self._engines:
            engine.check()

    def close(self) -> None:
        """End all of them."""
        engines, self._engines = self._engines, []
        for engine in engines:
            engine.leave()


def _read(
    engine: PostgreSQL,
    query: str,
    size: int,
    waiting: Queue[Any],
    stopped: threading.Event,
) -> None:
    """What one reader does: batches, then None; or its failure."""
    try:
        for batch in engine.batches(query, size):
            if not _put(batch, waiting, stopped):
                return
        last: Any = None
    except BaseException as error:
        # Whatever it is goes to who waits for it; a session hides what it says.
        last = error
    _put(last, waiting, stopped)


def _put(found: Any, waiting: Queue[Any], stopped: threading.Event) -> bool:
    """Hand over, unless nobody waits any more."""
    while not stopped.is_set():
        try:
            waiting.put(found, timeout=_PATIENCE)
            return True
        except Full:
            continue
    return False
