"""Silence for what comes after a commit, where a warning could depend on the data.

The list of Python's filters belongs to the process, and threads that change it in turn
leave it changed. So there is one silence for all threads, counted: the first to come
keeps the filters, the last to go puts them back. Another thread of the user's may still
lift it meanwhile (``docs/known_weaknesses.md``), but not that of skdp's own warnings,
which ask a variable of their own context.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType

import numpy as np

_PACKAGE = str(Path(__file__).parent) + os.sep
# From Python 3.14 on, each context may have filters of its own.
_FILTERS_ARE_LOCAL = bool(getattr(sys.flags, "context_aware_warnings", False))

_is_silent: ContextVar[bool] = ContextVar("_is_silent", default=False)


@contextmanager
def _filtered() -> Iterator[None]:
    """Ignore Python's warnings, as long as this thread alone changes the filters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class _SharedSilence:
    """`_filtered` for as long as any thread is within."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._n_within = 0
        self._filtered = _filtered()

    def __enter__(self) -> None:
        with self.lock:
            if not self._n_within:
                self._filtered = _filtered()
                self._filtered.__enter__()
            self._n_within += 1

    def __exit__(self, *details: object) -> None:
        with self.lock:
            self._n_within -= 1
            if not self._n_within:
                self._filtered.__exit__(None, None, None)


_SHARED = _SharedSilence()
if hasattr(os, "register_at_fork"):  # a fork must not copy a lock that is held
    os.register_at_fork(
        before=_SHARED.lock.acquire,
        after_in_parent=_SHARED.lock.release,
        after_in_child=_SHARED.lock.release,
    )


@contextmanager
def no_warnings() -> Iterator[None]:
    """Let no warning out, neither Python's nor NumPy's, in any thread."""
    silence: AbstractContextManager[None]
    silence = _filtered() if _FILTERS_ARE_LOCAL else _SHARED
    before = _is_silent.set(True)
    try:
        with np.errstate(all="ignore"), silence:
            yield
    finally:
        _is_silent.reset(before)


def warn(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn of the line outside of skdp that led here, but not within `no_warnings`."""
    if not _is_silent.get():
        warnings.warn(message, category, stacklevel=_frames_to_caller())


def _frames_to_caller() -> int:
    """How many frames the code that uses skdp is above `warn`, counted from 1."""
    n_frames = 1
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        n_frames, frame = n_frames + 1, frame.f_back
    return n_frames
