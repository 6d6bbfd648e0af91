"""Many fits on two neighbouring tables, in turn or at once."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from skdp.audit._canary import Neighbours
from skdp.audit._outputs import Outputs, outputs_of
from skdp.audit._parameters import fitted, fresh, seeded
from skdp.audit._replay import NullRecord

# Rows that fitted models are asked about, besides the record that differs.
_PROBES = 6
_BATCH = 40


@dataclass(frozen=True)
class Job:
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
        """Rows to ask about: the record that differs, as it is in both, and others."""
        X, other = self.pair.X, self.pair.other_X
        if hasattr(X, "iloc"):
            return X.iloc[: 1 + _PROBES]
        rows = X[: 1 + _PROBES]
        is_dense = isinstance(X, np.ndarray) and isinstance(other, np.ndarray)
        return np.concatenate([other[:1], rows]) if is_dense else rows

    def outputs(self, side: int, seed: int | None = None) -> Outputs:
        """What a model of one side shows."""
        model = self.fitted(side, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return outputs_of(model, self.probes)


@dataclass
class Tally:
    """Outputs of both sides, as far as they have come.

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
    job: Job,
    n_pairs: int,
    *,
    seeds: Iterator[int] | None,
    n_jobs: int | None,
    say: Callable[[str], None],
    what: str,
) -> Tally:
    """So many fits on each side, fewer if the user interrupts them.

    Parameters
    ----------
    seeds : iterator of int or None
        One for each pair of fits, which then share their noise; None: fresh noise.
    say : callable
        Is told how far it is.
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
    job: Job, seeds: list[int | None], n_jobs: int | None
) -> Iterator[tuple[Outputs, Outputs]]:
    """Outputs of both sides, pair by pair, in order."""
    if effective_n_jobs(n_jobs) == 1:
        for seed in seeds:
            yield _pair(job, seed)
        return
    yield from Parallel(n_jobs=n_jobs)(delayed(_pair)(job, seed) for seed in seeds)


def _pair(job: Job, seed: int | None) -> tuple[Outputs, Outputs]:
    return job.outputs(0, seed), job.outputs(1, seed)
