"""What happens while a source is read: a snapshot, passes, and failures without data.

Once records have been read, whatever ends a fit is one constant message: nothing of
what went wrong, where, or in how many records leaves it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from skdp.exceptions import READ_FAILED, SourceError
from skdp.io._users import UserIds

_INTERRUPTED = (
    "Interrupted while a source was being read. What was committed stays on the books."
)
# Seconds between two lines of progress within one pass.
_PATIENCE = 10.0


class Snapshot(Protocol):
    """What was there when a source was made; never shown, never stored."""

    @property
    def kind(self) -> str:
        """In words, for the record; public."""
        ...

    def check(self) -> None:
        """Raise any exception if something is there now that was not then."""
        ...


class Session:
    """One reading of a source, of any number of passes, by one estimator.

    Parameters
    ----------
    snapshot : Snapshot
    label : str
        Who reads; empty to print nothing.

    Attributes
    ----------
    n_rows : int
        Of every pass, as they were counted before the first one.
    users : UserIds or None
        Whose the rows are, counted then too; None of records. Private, and so is
        `n_rows` then.
    """

    users: UserIds | None = None

    def __init__(self, snapshot: Snapshot, label: str = "") -> None:
        self.snapshot, self._label = snapshot, label
        self.n_rows = 0
        self.has_read = False
        self._n_passes = 0
        self._is_broken = False
        self._thread = threading.get_ident()

    def check_own(self) -> None:
        """Refuse another thread, whose passes would come between."""
        if threading.get_ident() != self._thread:
            raise ValueError(
                "A source must be read by one estimator at a time. Got two. Make a "
                "source for each thread."
            )

    def counted(self, batches: Iterator[Any]) -> Iterator[Any]:
        """One pass: a snapshot that still holds, and as many rows as were counted."""
        with self._pass():
            # How many rows users have is private.
            label = self._label if self.users is None else ""
            done, clock = 0, _Clock(label, self._n_passes, self.n_rows)
            for batch in batches:
                done += len(batch)
                if done > self.n_rows:
                    raise SourceError(READ_FAILED)
                yield batch
                clock.show(done)
            if done < self.n_rows:
                raise SourceError(READ_FAILED)

    def answered(
        self, ask: Callable[[], tuple[int, Any]], *, checks: bool = False
    ) -> Any:
        """One pass that is made where the records are; `ask` counts its rows too.

        And it checks the snapshot, if it says so.
        """
        with self._pass(is_checked=checks):
            n_rows, answer = ask()
            if n_rows != self.n_rows:
                raise SourceError(READ_FAILED)
            return answer

    @contextmanager
    def _pass(self, *, is_checked: bool = False) -> Iterator[None]:
        """Note a failure: who catches it must not go on as if there had been none."""
        self.has_read = True
        self._n_passes += 1
        self.check_unbroken()
        try:
            if not is_checked:
                self.snapshot.check()
            yield
        except GeneratorExit:  # whoever reads wants no more
            raise
        except BaseException:
            self._is_broken = True
            raise

    def check_unbroken(self) -> None:
        """Raise if a pass has failed."""
        if self._is_broken:
            raise SourceError(READ_FAILED)

    def told(self, problem: BaseException) -> BaseException:
        """What is raised in place of a problem."""
        if not self.has_read:
            return problem
        if isinstance(problem, KeyboardInterrupt):
            return KeyboardInterrupt(_INTERRUPTED)
        if isinstance(problem, SystemExit):
            return SystemExit(1)  # a driver might exit with a text
        # Drivers raise more than exceptions: a panic of Rust is none.
        return SourceError(READ_FAILED)


class _Clock:
    """Says how far a pass is, from public numbers of rows and from the clock."""

    def __init__(self, label: str, number: int, n_samples: int) -> None:
        self._label, self._number, self._n_samples = label, number, n_samples
        self._start = self._last = time.monotonic()

    def show(self, done: int) -> None:
        """Print at most a line every few seconds."""
        now = time.monotonic()
        if not self._label or now - self._last < _PATIENCE:
            return
        self._last = now
        left = (now - self._start) * (self._n_samples / done - 1)
        told = f"{done:,} of {self._n_samples:,} rows, {left:.0f} s left in this pass"
        print(f"[{self._label}] pass {self._number}: {told}", flush=True)


def refused(call: Callable[[], Any], message: str) -> Any:
    """The result of a call; any exception becomes a message without its text."""
    is_refused = False
    try:
        return call()
    except Exception:  # whatever it is, it might quote a value
        is_refused = True
    # Outside of the handler, so that the first error is not carried along.
    if is_refused:
        raise ValueError(message)
