"""What one record adds to the query of each step: the bound is attained, never passed.

Contributions of single records on a grid, out of the bounds too, are compared in all
pairs. That sums are exact in any order is a lemma of the adder (`tests/sums`).
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from skdp.sums._counts import PRESENCE, SQUARES, Counts, Pairs, PairSums
from skdp.sums._moments import MomentSums, MomentWeights
from skdp.tables._memory import MemorySource

VALUES = [-1e300, -3.0, -1.0, -0.5, 0.0, 0.3, math.sqrt(0.5), 1.0, 1e300]
PAIRS = np.array(list(itertools.product(VALUES, repeat=2)))
GAPS = np.array(list(itertools.product([*VALUES, math.nan], repeat=2)))
ANGLES = np.arange(720) * math.pi / 360
CIRCLE = np.column_stack([np.cos(ANGLES), np.sin(ANGLES)])
ROWS_OF_PCA = 0.2 * np.vstack([0.3 * CIRCLE[::40], CIRCLE, 1e200 * CIRCLE[::40]])
NOT_CENTRED = Pairs(lambda v: (v, v * v), SQUARES.weight)
TOO_HEAVY = Pairs(SQUARES.split, 3.0)


def _zero_or_one(values):
    a, b = PRESENCE.split(values)
    return a, b + 0.5


def pairs(kind, low=-1.0, high=1.0):
    return PairSums(kind, np.full(2, low), np.full(2, high), 3)


def moments(t):
    return MomentSums(MomentWeights(t, 0.0), 3, 2, 0.2)


THRESHOLDS = np.array([[-0.7, -0.7], [0.6, 0.6]])
# A query, and the rows of single records.
QUERIES = {
    "scaler": (pairs(SQUARES), PAIRS),
    "scaler of narrow bounds": (pairs(SQUARES, 1e6, 1e6 + 1), 1e6 + 0.5 + PAIRS / 2),
    "imputer": (pairs(PRESENCE), GAPS),
    "clipper": (Counts(THRESHOLDS), PAIRS),
    "components": (moments(0.5), ROWS_OF_PCA),
    "components, no mean": (moments(0.0), ROWS_OF_PCA),
}


def farthest(query, rows, adjacency):
    """How far one record can move the query, of these."""
    added = []
    with np.errstate(all="ignore"):
        for row in rows:
            source = MemorySource(row[None], np.zeros(1))
            added.append(query.total(query.open(source), None))
    added = np.array(added)
    if adjacency == "zero_out":
        return np.linalg.norm(added, axis=1).max()
    return max(np.linalg.norm(added - each, axis=1).max() for each in added)


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("name", QUERIES)
def test_the_bound_is_attained_and_never_passed(name, adjacency):
    query, rows = QUERIES[name]
    stated = query.bound().under(adjacency)
    assert 0.999 * stated <= farthest(query, rows, adjacency) <= stated * (1 + 2e-6)


# A query, rows, a relation, and a bound that somebody could have written.
TWINS = {
    "half of replace_one": (pairs(SQUARES), PAIRS, "zero_out", math.sqrt(2)),
    "that of zero_out": (pairs(SQUARES), PAIRS, "replace_one", math.sqrt(3)),
    "squares not centred": (pairs(NOT_CENTRED), PAIRS, "zero_out", math.sqrt(3)),
    "squares too heavy": (pairs(TOO_HEAVY), PAIRS, "replace_one", 2 * math.sqrt(2)),
    "one feature for all": (pairs(SQUARES), PAIRS, "replace_one", 2.0),
    "number present forgotten": (pairs(PRESENCE), GAPS, "zero_out", math.sqrt(2)),
    "presence not centred": (
        pairs(Pairs(_zero_or_one, PRESENCE.weight)),
        GAPS,
        "zero_out",
        math.sqrt(3.5),
    ),
    "counts of one feature": (Counts(THRESHOLDS), PAIRS, "zero_out", math.sqrt(0.5)),
    "one threshold a feature": (
        Counts(THRESHOLDS),
        PAIRS,
        "replace_one",
        math.sqrt(2),
    ),
    "second moments alone": (moments(0.5), ROWS_OF_PCA, "zero_out", 1.0),
    "mean counted once": (moments(0.5), ROWS_OF_PCA, "zero_out", math.sqrt(1.25)),
    "angle forgotten": (moments(0.5), ROWS_OF_PCA, "replace_one", math.sqrt(3.0)),
}


@pytest.mark.parametrize("twin", TWINS)
def test_broken_bounds_are_found(twin):
    query, rows, adjacency, stated = TWINS[twin]
    assert farthest(query, rows, adjacency) > 1.01 * stated


def test_broken_twin_that_does_not_clip_is_found(monkeypatch):
    monkeypatch.setattr("skdp.sums._counts.to_unit", lambda X, low, high: X)
    found = farthest(pairs(SQUARES), np.array([[2.0, -2.0]]), "zero_out")
    assert found > 1.1 * SQUARES.bound(2).zero_out
