"""Compiled loops over codes and cells; importing this imports numba."""

from __future__ import annotations

import numpy as np

from skdp._compiled import compiled_exactly
from skdp.tables._source import SHARE_BITS


@compiled_exactly
def add_entries(codes, starts, table, added, first, last):
    """Add the entries of a record's codes, for each record of a run."""
    for i in range(first, last):
        for k in range(table.shape[1]):
            total = added[i, k]
            for j in range(codes.shape[1]):
                # Unsigned indices need no test for negative values.
                total += table[np.uintp(starts[j]) + np.uintp(codes[i, j]), k]
            added[i, k] = total


# ------------------------------------------------------------ Cells of declared columns
# A cell is one whole number: from the highest bits on, the state within its part, the
# share of the next state, and what both shares lack of the whole, which is 0 or 1 unit.
# A row without a state in a part has the state behind the part's last one, where tables
# have zeros and sums are left out.


WHOLE = 1 << SHARE_BITS
STATE_AT = SHARE_BITS + 2  # bits below the state
SHARE_OF = (1 << SHARE_BITS + 1) - 1


@compiled_exactly
def pack_cells(states, part_of, ends, cells):
    """Write the cells of rows of states; False if a row is not made of cells.

    `states` are shares, states and where rows start, as in CSR. `part_of` is the part
    of each state, and `ends` are where each part starts and ends.
    """
    shares, places, starts = states
    for i in range(len(cells)):
        for j in range(cells.shape[1]):
            cells[i, j] = (ends[j + 1] - ends[j]) << STATE_AT
        at, last = starts[i], starts[i + 1]
        while at < last:
            state, first, second = places[at], np.floor(shares[at] * WHOLE), 0.0
            j = part_of[state]
            at += 1
            if at < last and places[at] == state + 1 and part_of[places[at]] == j:
                second = np.floor(shares[at] * WHOLE)
                at += 1
            if first == 0 and second == 0:
                continue
            lacking = WHOLE - first - second
            is_empty = np.int64(cells[i, j]) >> STATE_AT == ends[j + 1] - ends[j]
            is_cell = min(first, second) >= 0 and (lacking == 0 or lacking == 1)
            if not (is_cell and is_empty):
                return False
            own = (np.int64(second) << 1) | np.int64(lacking)
            cells[i, j] = ((state - ends[j]) << STATE_AT) | own
    return True


@compiled_exactly
def look_up_cells(cells, starts, table, raw):
    """Write the sum of the table's entries, times the shares, for each record."""
    for i in range(len(cells)):
        total = np.int64(0)
        for j in range(cells.shape[1]):
            cell = np.int64(cells[i, j])
            place = np.uintp(starts[j]) + np.uintp(cell >> STATE_AT)
            second = (cell >> 1) & SHARE_OF
            first = WHOLE - second - (cell & 1)
            total += first * table[place] + second * table[place + np.uintp(1)]
        raw[i] = total


@compiled_exactly
def unpack_cells(cells, ends, shares, states, starts):
    """Write the rows of states as CSR, without zeros; return the number of entries."""
    at = 0
    for i in range(len(cells)):
        for j in range(cells.shape[1]):
            cell = np.int64(cells[i, j])
            state, second = ends[j] + (cell >> STATE_AT), (cell >> 1) & SHARE_OF
            first = WHOLE - second - (cell & 1)
            if state == ends[j + 1]:
                continue
            for own, share in ((state, first), (state + 1, second)):
                if share:
                    shares[at], states[at] = share / WHOLE, own
                    at += 1
        starts[i + 1] = at
    return at
