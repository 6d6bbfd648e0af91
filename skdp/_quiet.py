"""Suppression of warnings and output after a commit, where they could depend on data.

Python's list of warning filters belongs to the process, and if several threads change
and restore it in turn, it may stay changed. All threads therefore share one
suppression: the first thread to enter saves the filters, and the last one to leave
restores them. Another thread of the user may still change the filters meanwhile
(``docs/guide/before_you_sign.md``). This does not affect skdp's own warnings, which
check a context variable.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import (
    AbstractContextManager,
    contextmanager,
    redirect_stderr,
    redirect_stdout,
)
from contextvars import ContextVar
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

# Packages whose frames may lie between the user's code and a fit.
_BETWEEN = ("skdp", "sklearn", "joblib")
_PACKAGE = str(Path(__file__).parent) + os.sep
# From Python 3.14 on, each context may have separate filters.
_FILTERS_ARE_LOCAL = bool(getattr(sys.flags, "context_aware_warnings", False))

# Warnings that were shown: instruction, text and filters by the user's code object.
_TOLD: WeakKeyDictionary[CodeType, set[tuple[Any, ...]]] = WeakKeyDictionary()

_is_silent: ContextVar[bool] = ContextVar("_is_silent", default=False)


@contextmanager
def _filtered() -> Iterator[None]:
    """Ignore Python's warnings; only one thread may change the filters meanwhile."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _without_output() -> Iterator[None]:
    """Discard what Python code prints and logs in this process."""
    before = logging.root.manager.disable
    logging.disable(sys.maxsize)
    try:
        with (
            open(os.devnull, "w") as nowhere,
            redirect_stdout(nowhere),
            redirect_stderr(nowhere),
        ):
            yield
    finally:
        logging.disable(before)


class _Shared:
    """A context of the process that lasts as long as any thread is within.

    Parameters
    ----------
    make : callable
        Makes the context when the first thread enters.
    """

    def __init__(self, make: Callable[[], AbstractContextManager[None]]) -> None:
        self.lock = threading.Lock()
        self._make, self._context, self._n_within = make, make(), 0

    def __enter__(self) -> None:
        with self.lock:
            if not self._n_within:
                self._context = self._make()
                self._context.__enter__()
            self._n_within += 1

    def __exit__(self, *details: object) -> None:
        with self.lock:
            self._n_within -= 1
            if not self._n_within:
                self._context.__exit__(None, None, None)


_NO_WARNINGS, _NO_OUTPUT = _Shared(_filtered), _Shared(_without_output)
if hasattr(os, "register_at_fork"):  # a fork must not copy a lock that is held
    for _shared in (_NO_WARNINGS, _NO_OUTPUT):
        os.register_at_fork(
            before=_shared.lock.acquire,
            after_in_parent=_shared.lock.release,
            after_in_child=_shared.lock.release,
        )


@contextmanager
def no_warnings() -> Iterator[None]:
    """Suppress warnings of Python and NumPy, in all threads."""
    filters: AbstractContextManager[None]
    filters = _filtered() if _FILTERS_ARE_LOCAL else _NO_WARNINGS
    before = _is_silent.set(True)
    try:
        with np.errstate(all="ignore"), filters:
            yield
    finally:
        _is_silent.reset(before)


@contextmanager
def silence() -> Iterator[None]:
    """Suppress warnings, prints and log records while foreign code reads records.

    Verbose models and transformers of other libraries print a line for each call, and
    the number of calls may depend on the records. Lines that other threads print
    meanwhile are lost. Output of C code and writes to files are not suppressed
    (``docs/guide/before_you_sign.md``).
    """
    with no_warnings(), _NO_OUTPUT:
        yield


def warn(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside of skdp that led here, except within `no_warnings`."""
    if not _is_silent.get():
        warnings.warn(message, category, stacklevel=_frames_to_caller())


def warn_once(message: str, category: type[Warning]) -> None:
    """Warn once for each statement of the user's code, even if it leads to many fits.

    Cross-validation fits many clones, and Python forgets which warnings it has shown
    whenever the filters change. A warning counts as shown only if no filter turned it
    into an error, and only under the same filters.
    """
    if _is_silent.get():
        return
    n_frames, frame = _users_frame()
    is_direct = n_frames == _frames_to_caller()
    if is_direct or frame is None:
        warnings.warn(message, category, stacklevel=n_frames)
        return
    told = _TOLD.setdefault(frame.f_code, set())
    case = (frame.f_lasti, message, tuple(warnings.filters))
    if case not in told:
        warnings.warn(message, category, stacklevel=n_frames)
        told.add(case)


def _frames_to_caller() -> int:
    """The ``stacklevel`` of the first frame outside of skdp, for the caller."""
    n_frames = 1
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        n_frames, frame = n_frames + 1, frame.f_back
    return n_frames


def _users_frame() -> tuple[int, FrameType | None]:
    """The first frame outside of skdp, scikit-learn and joblib, and its stacklevel."""
    n_frames = 1
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_between(frame):
        n_frames, frame = n_frames + 1, frame.f_back
    return n_frames, frame


def _is_between(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _BETWEEN
