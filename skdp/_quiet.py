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
from types import CodeType, FrameType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

# Who may stand between the user and a fit.
_BETWEEN = ("skdp", "sklearn", "joblib")
_PACKAGE = str(Path(__file__).parent) + os.sep
# From Python 3.14 on, each context may have filters of its own.
_FILTERS_ARE_LOCAL = bool(getattr(sys.flags, "context_aware_warnings", False))

# By the user's code: the instructions that led to a warning, the text, the filters.
_TOLD: WeakKeyDictionary[CodeType, set[tuple[Any, ...]]] = WeakKeyDictionary()

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


def warn_once(message: str, category: type[Warning]) -> None:
    """`warn` of the user's own statement, but not for all the fits that it leads to.

    Cross-validation clones and fits again and again, and Python's own memory of what
    it has shown is wiped with every change of the filters. Told is a statement only if
    no filter made it an error, and under the same filters only.
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
    """How many frames the code that uses skdp is above its caller, counted from 1."""
    n_frames = 1
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        n_frames, frame = n_frames + 1, frame.f_back
    return n_frames


def _users_frame() -> tuple[int, FrameType | None]:
    """The first frame beyond skdp, scikit-learn and joblib, and how far it is."""
    n_frames = 1
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_between(frame):
        n_frames, frame = n_frames + 1, frame.f_back
    return n_frames, frame


def _is_between(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _BETWEEN
