"""Compiled loops over codes; importing this imports numba."""

from __future__ import annotations

import numpy as np

from skdp._compiled import compiled_exactly


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
