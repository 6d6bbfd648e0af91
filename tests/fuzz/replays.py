"""A task done on a table and again on its neighbour, with the answers of the first.

How often a model of another library is called is not compared: it may follow from a
record, and what such a model prints is discarded (``docs/guide/before_you_sign.md``).
"""

from __future__ import annotations

import dataclasses
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

from skdp import _quiet
from skdp.audit._exact import NoiseCall, Replay, told_apart
from skdp.io._session import Session
from skdp.privacy.release._door import audited_by

# Sums of squares and square roots of doubles that are compared with a charge.
_ROUNDING = 1e-6


class Repeated(Replay):
    """A `Replay` whose answers nobody can change in place for the neighbour."""

    def _next(self, *given: Any) -> Any:
        released = super()._next(*given)
        return released.copy() if isinstance(released, np.ndarray) else released


@dataclass
class Outcome:
    """What one run shows, and what it asked."""

    replay: Replay
    result: Any = None
    problem: BaseException | None = None
    warned: list[tuple[str, str]] = field(default_factory=list)
    printed: tuple[bytes, bytes] = (b"", b"")
    n_passes: int = 0

    @property
    def end(self) -> str:
        """How it ended."""
        problem = self.problem
        return "done" if problem is None else f"{type(problem).__name__}: {problem}"

    @property
    def has_spent(self) -> bool:
        return bool(self.replay.committed)


def ran(task: Callable[[], Any], replay: Replay) -> Outcome:
    """Do a task with a given noise source, and watch it."""
    found, passes = Outcome(replay), 0
    one_pass = Session._pass

    def counted(session: Session, *, is_checked: bool = False) -> Any:
        nonlocal passes
        passes += 1
        return one_pass(session, is_checked=is_checked)

    with (
        mock.patch.object(Session, "_pass", counted),
        captured() as printed,
        warnings.catch_warnings(record=True) as warned,
        audited_by(replay),
    ):
        warnings.simplefilter("always")
        _quiet._TOLD.clear()  # what the statement below was told before
        try:
            found.result = task()
        except (Exception, SystemExit) as problem:
            found.problem = problem
    found.warned = sorted((w.category.__name__, str(w.message)) for w in warned)
    found.printed, found.n_passes = (printed[0], printed[1]), passes
    return found


@contextmanager
def captured() -> Iterator[list[bytes]]:
    """All that the process writes to its first two descriptors, in the end."""
    read: list[bytes] = []
    kept = sys.stdout, sys.stderr
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        for stream in kept:
            stream.flush()
        before = os.dup(1), os.dup(2)
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        handler = logging.StreamHandler(sys.stderr)
        logging.root.addHandler(handler)
        try:
            yield read
        finally:
            logging.root.removeHandler(handler)
            sys.stdout.flush()
            sys.stderr.flush()
            sys.stdout, sys.stderr = kept
            for number, descriptor in enumerate(before, start=1):
                os.dup2(descriptor, number)
                os.close(descriptor)
            for file in (out, err):
                file.seek(0)
                read.append(file.read())


def differences(
    one: Callable[[], Any],
    other: Callable[[], Any],
    *,
    seed: int,
    absent: int | None = None,
    may_refuse: bool = False,
    counts_passes: bool = True,
) -> tuple[list[str], Outcome]:
    """What tells neighbours apart by more than what is charged; and the first run."""
    first = ran(one, Repeated(seed))
    second = ran(other, Repeated(seed, heard=first.replay, absent=absent))
    runs = (first, second)
    if may_refuse and not all(run.has_spent for run in runs):
        if any(run.problem is not None for run in runs):
            return [], first
    return list(_compared(first, second, counts_passes)), first


def _compared(a: Outcome, b: Outcome, counts_passes: bool) -> Iterator[str]:
    if a.end != b.end:
        yield f"ends: {a.end!r} and {b.end!r}"
    for run in (a, b):
        # What can fail for the sake of one record fails for none.
        if run.has_spent and run.problem is not None:
            yield f"ends after it has spent: {run.end!r}"
    for what in ("warned", "n_passes") if counts_passes else ("warned",):
        one, other = getattr(a, what), getattr(b, what)
        if one != other:
            yield f"{what}: {one!r} and {other!r}"
    for name, one, other in zip(
        ("stdout", "stderr"), a.printed, b.printed, strict=True
    ):
        if one != other:
            counts = one.count(b"\n"), other.count(b"\n")
            yield f"printed to {name}: {counts[0]} and {counts[1]} lines, {one[-80:]!r}"
    one, other = (run.replay.asked for run in (a, b))
    if a.end == b.end and len(one) != len(other):
        yield f"answers: {len(one)} and {len(other)}"
    yield from _overspent(one, other)
    if a.end == b.end == "done":
        yield from (f"fitted: {found}" for found in unlike(a.result, b.result))


def _overspent(one: list[NoiseCall], other: list[NoiseCall]) -> Iterator[str]:
    """Answers that tell more than their share, alone or with others of their line."""
    found: dict[Any, float] = {}
    whole: dict[Any, float] = {}
    for number, (a, b) in enumerate(zip(one, other, strict=False)):
        if a.facts != b.facts or a.query.shape != b.query.shape:
            yield f"answer {number}: public facts {a.facts!r} and {b.facts!r}"
            return
        if a.share.line.is_hidden:  # what is released comes of all of them together
            continue
        cost, charged = told_apart(a, b), a.times * a.share.cost
        if not cost <= charged * (1 + _ROUNDING):
            yield f"answer {number} ({a.law}): costs {cost:.6g}, charged {charged:.6g}"
        key = a.share.opened, a.share.place
        found[key], whole[key] = found.get(key, 0.0) + cost, a.share.whole
    for key, cost in found.items():
        if not cost <= whole[key] * (1 + _ROUNDING):
            yield f"line {key}: costs {cost:.6g}, charged {whole[key]:.6g}"


# Clocks; and what follows from the object's own place in memory.
_NOT_COMPARED = ("time", "seconds", "_at", "ledger")


def unlike(
    a: Any, b: Any, path: str = "", seen: set[int] | None = None
) -> Iterator[str]:
    """Where two results differ in a bit."""
    seen = set() if seen is None else seen
    if type(a) is not type(b):
        yield f"{path} is {type(a).__name__} and {type(b).__name__}"
    elif isinstance(a, np.ndarray) and a.dtype != object:
        if (a.dtype, a.shape) != (b.dtype, b.shape) or a.tobytes() != b.tobytes():
            yield f"{path} {a!r} and {b!r}"[:300]
    elif isinstance(a, (pd.DataFrame, pd.Series, pd.Index)):
        if not a.equals(b):
            yield f"{path} differs"
    elif isinstance(a, (list, tuple, np.ndarray, dict)) or _has_fields(a):
        if id(a) in seen:
            return
        seen.add(id(a))
        one, other = _parts(a), _parts(b)
        if list(one) != list(other):
            yield f"{path} has {list(one)} and {list(other)}"[:300]
            return
        for name, part in one.items():
            if not any(word in name for word in _NOT_COMPARED):
                yield from unlike(part, other[name], f"{path}.{name}", seen)
    elif not callable(a) and repr(a) != repr(b):
        yield f"{path} {a!r} and {b!r}"[:300]


def _has_fields(a: Any) -> bool:
    if (callable(a) and not hasattr(a, "fit")) or isinstance(a, type):
        return False
    return dataclasses.is_dataclass(a) or hasattr(a, "__dict__")


def _parts(a: Any) -> dict[str, Any]:
    """By name, what an object is made of."""
    if isinstance(a, dict):
        return {repr(key): value for key, value in a.items()}
    if isinstance(a, (list, tuple, np.ndarray)):
        return {str(i): value for i, value in enumerate(a)}
    if dataclasses.is_dataclass(a):
        return {f.name: getattr(a, f.name) for f in dataclasses.fields(a)}
    return dict(vars(a))
