"""A few fits of each candidate: which neighbours are told apart best.

What one record changes is seen best where the noise is the same on both sides: in fits
of one seed, or without seeds in fits of so large a budget that there is next to no
noise. Over the covariance of some ordinary fits that is a distance of the two data sets
as an attacker sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp.audit._canary import Neighbours
from skdp.audit._outputs import Outputs, gathered
from skdp.audit._parameters import can_be_seeded, louder
from skdp.audit._runs import Job
from skdp.audit._score import distance

# Pairs of fits of one seed for each candidate, and for the one that is taken.
_FEW, _MANY = 3, 12
# By how much a budget is raised to see what a record changes.
_LOUDER = 1e3

Sides = tuple[list[Outputs], list[Outputs]]


@dataclass(frozen=True)
class Chosen:
    """The neighbours that are told apart best.

    Parameters
    ----------
    pair : Neighbours
    change : pair of lists of Outputs, or None
        Models of both sides with as little noise between them as can be had.
    where : str
        From which fits that is.
    """

    pair: Neighbours
    change: Sides | None
    where: str


def best_pair(
    estimator: Any,
    pairs: list[Neighbours],
    seeds: Iterator[int],
    say: Callable[[str], None],
) -> Chosen:
    """Fit a few models on each pair of neighbours."""
    chooser = (
        _Seeded(estimator, seeds) if can_be_seeded(estimator) else _Loud(estimator)
    )
    noise: Sides = ([], [])
    changes: list[Sides | None] = []
    for number, pair in enumerate(pairs, start=1):
        job = Job(estimator, pair)
        for side, shown in enumerate(noise):
            shown.append(job.outputs(side))
        changes.append(chooser.change(pair, _FEW))
        say(f"{number} of {len(pairs)} pairs of neighbours tried")
    best = int(np.argmax(_distances(noise, changes)))
    return Chosen(pairs[best], chooser.change(pairs[best], _MANY), chooser.where)


def _distances(noise: Sides, changes: list[Sides | None]) -> list[float]:
    """0.0 where nothing is known."""
    known = [sides for sides in changes if sides is not None]
    runs = gathered([*noise, *(side for sides in known for side in sides)])
    found = iter(zip(runs[2::2], runs[3::2], strict=True))
    return [
        0.0 if sides is None else distance(runs[0], runs[1], *next(found))
        for sides in changes
    ]


@dataclass(frozen=True)
class _Seeded:
    """Pairs of fits of one seed."""

    estimator: Any
    seeds: Iterator[int]
    where: str = "difference of fits of one seed"

    def change(self, pair: Neighbours, n_pairs: int) -> Sides:
        """Models of both sides."""
        job = Job(self.estimator, pair)
        seeds = [next(self.seeds) for _ in range(n_pairs)]
        first, second = ([job.outputs(i, seed) for seed in seeds] for i in (0, 1))
        return first, second


@dataclass(frozen=True)
class _Loud:
    """Two fits of a large budget."""

    estimator: Any
    where: str = "difference of two fits of a large budget"

    def change(self, pair: Neighbours, n_pairs: int) -> Sides | None:
        """Models of both sides; None if the budget cannot be raised so far."""
        loud = louder(self.estimator, _LOUDER)
        if loud is None:
            return None
        job = Job(loud, pair)
        try:
            return [job.outputs(0)], [job.outputs(1)]
        except (ValueError, TypeError):
            return None
