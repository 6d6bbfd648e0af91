"""Cross products of which `make test` runs a covering part and CI everything."""

from __future__ import annotations

from collections import Counter

import pytest


def covering(cells, key=tuple, name=None):
    """Parameters for `parametrize`, marked `wide` outside a covering part.

    Parameters
    ----------
    cells : iterable
        Arguments of one run each: a tuple of them, or the only one.
    key : callable, default=tuple
        Makes of a cell its values on the axes. Each value of each axis is in the
        covering part; an axis of pairs asks for each pair.
    name : callable or None, default=None
        Makes the id of a cell.
    """
    cells = list(cells)
    values = [set(enumerate(key(cell))) for cell in cells]
    missing, used, chosen = set().union(*values), Counter(), set()
    while missing:
        # Most of what is missing, and of equals what was seen least.
        best = max(
            range(len(cells)),
            key=lambda i: (len(values[i] & missing), -sum(used[v] for v in values[i])),
        )
        chosen.add(best)
        missing -= values[best]
        used.update(values[best])
    return [
        pytest.param(
            *(cell if type(cell) is tuple else (cell,)),
            id=name and name(cell),
            marks=() if place in chosen else pytest.mark.wide,
        )
        for place, cell in enumerate(cells)
    ]


def part_of(cells, key=tuple, name=None):
    """The covering part alone, where nothing is to be learned from the rest."""
    return [cell for cell in covering(cells, key, name) if not cell.marks]
