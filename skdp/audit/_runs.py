"""Fits on two neighbouring tables, and all that fitted models show."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from scipy.sparse import issparse
from sklearn.base import BaseEstimator

from skdp._arrays import FloatArray
from skdp.audit._exact import NullRecord
from skdp.audit._models import fitted, fresh, seeded
from skdp.audit._neighbours import Neighbours

# ------------------------------------------------------------ Outputs of a fitted model
# They are its fitted attributes, and its answers for some rows. Anyone who has the
# model has these numbers, so each of them is a part of the release. Attributes that
# begin with an underscore, and times, are left out.


# Most numbers of one run that are kept, whole attributes at a time.
_MOST = 4000
# The first method of each group that exists: the others would repeat its answers.
_METHODS = (("decision_function", "predict_proba", "predict"), ("transform",))
_DEEPEST = 4


@dataclass(frozen=True)
class Outputs:
    """Outputs of one fitted model, by name.

    Parameters
    ----------
    numbers : dict of ndarray of float64 of shape (n_numbers,)
    texts : dict of str
        Other outputs as text.
    """

    numbers: dict[str, FloatArray]
    texts: dict[str, str]


def outputs_of(model: Any, probes: Any) -> Outputs:
    """Outputs of a fitted model.

    Parameters
    ----------
    model : fitted estimator
    probes : array-like
        Rows for its predictions.
    """
    shown = Outputs({}, {})
    room = _MOST
    for name, value in (*_attributes(model, ""), *_said(model, probes)):
        numbers = _as_numbers(value)
        if numbers is None:
            shown.texts[name] = repr(value)
        elif numbers.size <= room:
            shown.numbers[name] = numbers
            room -= numbers.size
    return shown


def _attributes(model: Any, prefix: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Fitted attributes, parts' attributes included."""
    for name, value in _named(model):
        if name.endswith("time") or name.endswith("time_"):
            continue
        yield from _taken_apart(value, prefix + name, depth)


def _named(model: Any) -> Iterator[tuple[str, Any]]:
    if hasattr(model, "steps"):
        yield from ((name, step) for name, step in model.steps)
    for name, value in vars(model).items():
        if name.endswith("_") and not name.startswith("_"):
            yield name, value


def _taken_apart(value: Any, name: str, depth: int) -> Iterator[tuple[str, Any]]:
    if depth < _DEEPEST and isinstance(value, BaseEstimator):
        yield from _attributes(value, f"{name}.", depth + 1)
    elif depth < _DEEPEST and isinstance(value, Mapping):
        for key, part in value.items():
            if "time" not in str(key):
                yield from _taken_apart(part, f"{name}[{key!r}]", depth + 1)
    elif (
        depth < _DEEPEST
        and isinstance(value, (list, tuple))
        and any(isinstance(part, (BaseEstimator, np.ndarray)) for part in value)
    ):
        for number, part in enumerate(value):
            yield from _taken_apart(part, f"{name}[{number}]", depth + 1)
    elif _is_plain(value):
        yield name, value


def _is_plain(value: Any) -> bool:
    """Whether equal values of this type have equal texts."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(_is_plain(part) for part in value)
    if isinstance(value, np.ndarray):
        return value.dtype != object or all(_is_plain(part) for part in value.flat)
    is_simple = value is None or isinstance(value, (str, bytes, int, float, np.generic))
    return is_simple or issparse(value) or hasattr(value, "__array__")


def _said(model: Any, probes: Any) -> Iterator[tuple[str, Any]]:
    for several in _METHODS:
        method = next((name for name in several if hasattr(model, name)), None)
        if method is not None:
            yield f"{method}(X)", getattr(model, method)(probes)


def _as_numbers(value: Any) -> FloatArray | None:
    """A value as numbers; None if it has none."""
    if issparse(value):
        value = value.toarray()
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()
    array = np.asarray(value, dtype=None if not isinstance(value, set) else object)
    if array.dtype.kind not in "fiub":
        return None
    return np.asarray(array, dtype=np.float64).ravel()


@dataclass(frozen=True)
class Runs:
    """Outputs of the models of many runs on one data set.

    Parameters
    ----------
    names : tuple of str
        Names of the columns.
    table : ndarray of float64 of shape (n_runs, n_columns)
    texts : dict of list of str
        By name, one for each run.
    """

    names: tuple[str, ...]
    table: FloatArray
    texts: dict[str, list[str]]

    def __len__(self) -> int:
        return len(self.table)


def gathered(several: list[list[Outputs]]) -> list[Runs]:
    """Runs of several data sets with the same columns.

    If an attribute's length differs between runs, its length and its sum are used. If
    it is not in all runs, or not always numbers, its kind is used: 0 if absent, 1 for
    numbers, 2 for text. NaN is 0.
    """
    everyone = [shown for runs in several for shown in runs]
    names = [
        name
        for name in everyone[0].numbers
        if all(name in shown.numbers for shown in everyone)
    ]
    alike = {
        name: len({shown.numbers[name].size for shown in everyone}) == 1
        for name in names
    }
    texts = [n for n in everyone[0].texts if all(n in s.texts for s in everyone)]
    shared = {*names, *texts}
    partly = [n for n in dict.fromkeys(_all_names(everyone)) if n not in shared]
    columns: list[str] = []
    for name in names:
        size = everyone[0].numbers[name].size if alike[name] else 2
        columns += [f"{name}[{i}]" for i in range(size)] if size > 1 else [name] * size
    columns += [f"kind of {name}" for name in partly]
    return [
        Runs(
            tuple(columns),
            np.array([_row(shown, alike, partly) for shown in runs]),
            {name: [shown.texts[name] for shown in runs] for name in texts},
        )
        for runs in several
    ]


def _all_names(everyone: list[Outputs]) -> Iterator[str]:
    for shown in everyone:
        yield from (*shown.numbers, *shown.texts)


def _row(shown: Outputs, alike: dict[str, bool], partly: list[str]) -> FloatArray:
    parts = [
        shown.numbers[name] if is_alike else _summary(shown.numbers[name])
        for name, is_alike in alike.items()
    ]
    kinds = [(name in shown.numbers) + 2.0 * (name in shown.texts) for name in partly]
    row: FloatArray = np.concatenate([*parts, np.array(kinds, dtype=np.float64)])
    return np.nan_to_num(row, nan=0.0, posinf=1e300, neginf=-1e300)


def _summary(numbers: FloatArray) -> FloatArray:
    return np.array([numbers.size, np.nansum(numbers)], dtype=np.float64)


# ------------------------------------------------------ Fits on two neighbouring tables


# Rows for the predictions of fitted models, besides the record that differs.
_PROBES = 6
_BATCH = 40


@dataclass(frozen=True)
class FitJob:
    """Fits of one estimator on one of two neighbours.

    Parameters
    ----------
    estimator : estimator
    pair : Neighbours
    """

    estimator: Any
    pair: Neighbours

    def fitted(self, side: int, seed: int | None = None) -> Any:
        """A model of one side; without a seed its noise is fresh."""
        X, y, absent, ids = self.pair.sides[side]
        model = fresh(self.estimator) if seed is None else seeded(self.estimator, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return fitted(model, X, y, NullRecord(absent), ids)

    @property
    def probes(self) -> Any:
        """Rows for predictions: the record that differs, in both versions; others."""
        X, other = self.pair.X, self.pair.other_X
        if hasattr(X, "iloc"):
            return X.iloc[: 1 + _PROBES]
        rows = X[: 1 + _PROBES]
        is_dense = isinstance(X, np.ndarray) and isinstance(other, np.ndarray)
        return np.concatenate([other[:1], rows]) if is_dense else rows

    def outputs(self, side: int, seed: int | None = None) -> Outputs:
        """Outputs of a model of one side."""
        model = self.fitted(side, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return outputs_of(model, self.probes)


@dataclass
class Tally:
    """Outputs of both sides so far.

    Attributes
    ----------
    sides : tuple of list of Outputs
    is_interrupted : bool
    """

    sides: tuple[list[Outputs], list[Outputs]] = field(default_factory=lambda: ([], []))
    is_interrupted: bool = False

    def __len__(self) -> int:
        return min(map(len, self.sides))


def many(
    job: FitJob,
    n_pairs: int,
    *,
    seeds: Iterator[int] | None,
    n_jobs: int | None,
    say: Callable[[str], None],
    what: str,
) -> Tally:
    """Fits on each side, fewer than planned if the user interrupts them.

    Parameters
    ----------
    seeds : iterator of int or None
        One for each pair of fits, which then share their noise; None: fresh noise.
    say : callable
        Gets messages about the progress.
    """
    tally, started = Tally(), time.monotonic()
    drawn = [None if seeds is None else next(seeds) for _ in range(n_pairs)]
    try:
        for first in range(0, n_pairs, _BATCH):
            for pair in _pairs(job, drawn[first : first + _BATCH], n_jobs):
                for side, shown in zip(tally.sides, pair, strict=True):
                    side.append(shown)
            took = time.monotonic() - started
            say(f"{what}: {2 * len(tally)} of {2 * n_pairs} fits, {took:.0f} s")
    except KeyboardInterrupt:
        tally.is_interrupted = True
    return tally


def _pairs(
    job: FitJob, seeds: list[int | None], n_jobs: int | None
) -> Iterator[tuple[Outputs, Outputs]]:
    """Outputs of both sides, pair by pair, in order."""
    if effective_n_jobs(n_jobs) == 1:
        for seed in seeds:
            yield _pair(job, seed)
        return
    yield from Parallel(n_jobs=n_jobs)(delayed(_pair)(job, seed) for seed in seeds)


def _pair(job: FitJob, seed: int | None) -> tuple[Outputs, Outputs]:
    return job.outputs(0, seed), job.outputs(1, seed)
