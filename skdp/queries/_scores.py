"""Scores of models: for each of them a sum of one bounded vector for each record.

A record moves the statistic of every model that is scored on it, so norms of the
changes add up in L1, and add up in squares in L2; a choice among models needs the
bound of each one apart. Derived in
``docs/proofs/private_score.md``.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from skdp._floats import FloatArray, IntArray
from skdp.privacy._adjacency import Adjacency, table_relation
from skdp.privacy._query import Bound, Layout
from skdp.queries._exact_sums import WholeSum
from skdp.queries._summed import Summed, Sums

# What a record contributes is rounded to this grid. Sums of up to MOST_RECORDS such
# numbers in [-1, 1] are exact.
QUANTUM = 2.0**-26
MOST_RECORDS = 2**27
# Of users there is a bit to spare for what each of their rows is rounded by.
MOST_USERS = 2**26


class Scorer(Protocol):
    """What is asked of a `PrivateScoring`."""

    @property
    def size(self) -> int:
        """Numbers in a statistic."""
        ...

    @property
    def n_nonzero(self) -> int:
        """Numbers of a record's vector that are not 0, at most."""
        ...

    def sensitivity(self, adjacency: Adjacency, norm: int) -> float:
        """How far one record can move a statistic."""
        ...


class Scored(Protocol):
    """Records that know what models are worth on them."""

    def statistic(self, scorer: Any, model: Any) -> FloatArray:
        """The exact statistic of one model. Private."""
        ...


@dataclass(frozen=True, eq=False)
class Scores(Summed):
    """Statistics of some models on the same records, as one vector.

    `models` are fitted, and public or paid for; or what the records know them by.
    `norm` is that of the bounds: inf is for choices, with statistics of one number.
    """

    scorer: Scorer
    models: tuple[Any, ...]
    norm: float

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.models) * self.scorer.size,)

    @property
    def family(self) -> Hashable:
        return Scores

    def bound(self) -> Bound:
        return Bound(
            zero_out=self._moved("zero_out"),
            replace_one=self._moved("replace_one"),
            rating_value=self._moved(table_relation("rating_value")),
            norm=self.norm,
        ).of_shares()

    def _moved(self, adjacency: Adjacency) -> float:
        several = float(len(self.models) ** (1 / self.norm))
        norm = 1 if math.isinf(self.norm) else int(self.norm)
        return self.scorer.sensitivity(adjacency, norm) * several

    def slack(self, layout: Layout) -> float:
        # Contributions are rounded to a grid on which sums of them are exact; those of
        # a user's rows once more, each with its share, on both sides.
        if layout.rows_of_unit == 1:
            return 0.0
        numbers = len(self.models) * self.scorer.n_nonzero
        # A share, and what is multiplied by it, are rounded once, too.
        unit = QUANTUM * (1 + 2**-20)
        return float(layout.rows_of_unit * unit * numbers ** (1 / self.norm))

    def open(self, source: Scored) -> Scored:
        return source

    def whole_sums(self, reader: Scored, rows: IntArray | None) -> Sums:
        exact = [reader.statistic(self.scorer, model) for model in self.models]
        return (WholeSum.of(np.concatenate(exact) / QUANTUM),)

    def from_whole(self, source: Any, sums: Sums) -> FloatArray:
        return sums[0].value() * QUANTUM
