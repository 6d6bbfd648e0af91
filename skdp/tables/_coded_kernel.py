"""Compiled loops over codes; importing this imports numba."""

from __future__ import annotations

from skdp._compiled import compiled_exactly


@compiled_exactly
def add_entries(codes, starts, table, added, first, last):
    """Add the entries of a record's codes, for each record of a run."""
    for i in range(first, last):
        for j in range(codes.shape[1]):
            place = starts[j] + codes[i, j]
            for k in range(table.shape[1]):
                added[i, k] += table[place, k]


@compiled_exactly
def add_up_by_code(codes, starts, values, sums, first, last):
    """Add the values of each record of a run to the sums of its codes."""
    for i in range(first, last):
        for j in range(codes.shape[1]):
            place = starts[j] + codes[i, j]
            for k in range(values.shape[1]):
                sums[place, k] += values[i, k]
