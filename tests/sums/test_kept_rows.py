"""Rows of a first pass: all are kept or none, and what they take is counted."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pytest
from scipy.sparse import csr_array

from skdp.sums._grid_rows import gridded
from skdp.tables._centred import CentredMatrix, StateRows
from skdp.tables._coded import CodeBasis, CodeRows
from skdp.tables._source import KeptRows, Room

N = 3000


@dataclass(frozen=True)
class Rows:
    n_bytes: int


BLOCKS = [Rows(3), Rows(4), Rows(5)]


def passes(most_bytes, n_passes=3):
    """What each pass shows, and how often it was read."""
    kept, readings = KeptRows(Room(most_bytes)), []

    def read():
        readings.append(1)
        return iter(BLOCKS)

    return [list(kept.passed(read)) for _ in range(n_passes)], len(readings)


@pytest.mark.parametrize(
    ("most_bytes", "n_readings"), [(12, 1), (11, 3), (3, 3), (0, 3), (np.inf, 1)]
)
def test_all_rows_are_kept_or_none(most_bytes, n_readings):
    assert passes(most_bytes) == ([BLOCKS] * 3, n_readings)


def test_a_pass_that_did_not_end_keeps_nothing():
    kept = KeptRows(Room(np.inf))
    assert list(islice(kept.passed(lambda: BLOCKS), 1)) == BLOCKS[:1]
    assert list(kept.passed(lambda: BLOCKS)) == BLOCKS
    assert list(kept.passed(list)) == BLOCKS


def states():
    shares = np.tile([0.25, 0.75, 0.0, 1.0], (N, 1))
    rows = StateRows(csr_array(shares), csr_array(np.eye(4)), (3, 1))
    return CentredMatrix(rows, np.zeros(4), np.full(N, 0.5), np.ones(N), 1.0)


def codes():
    basis = CodeBasis((np.eye(3), np.eye(2)))
    return CodeRows(np.zeros((N, 2), dtype=np.uint8), basis)


KINDS = {
    "dense": lambda: np.full((N, 3), 0.1),
    "sparse": lambda: csr_array(np.tile([0.0, 0.1, 0.2], (N, 1))),
    "states": states,
    "codes": codes,
}


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_are_those_of_all_arrays(kind):
    grid = gridded(KINDS[kind](), 1.0)
    stored = len(pickle.dumps(grid))
    assert 0.95 * stored < grid.n_bytes <= stored
