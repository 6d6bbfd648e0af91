"""Silence for what comes after a commit, where a warning could depend on the data."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


@contextmanager
def no_warnings() -> Iterator[None]:
    """Let no warning out, neither Python's nor NumPy's.

    The list of Python's filters belongs to the process, and threads that change it at
    the same time leave it changed. So it is left alone in threads, and who starts them
    does so within this context.
    """
    with np.errstate(all="ignore"):
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
