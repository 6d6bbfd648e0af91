"""Monotone columns: tables of a model changed so that predictions never fall, or rise.

Post-processing of released tables. A sum of monotone tables is monotone, whatever the
other columns hold; so the model becomes the nearest sum of a monotone curve for each
such column and a monotone table for each of its pairs, in least squares over all
combinations of codes. It is found by turns: each table is the monotone one nearest to
what the others leave of the model. Missing values have no place in the order.
"""

from __future__ import annotations

from collections.abc import Iterable

from sklearn.isotonic import isotonic_regression

from skdp._floats import FloatArray
from skdp.ensemble._shapes import Key, Tables

# Turns of all tables; each by itself is monotone after any number of them.
_TURNS = 2


def monotone(
    tables: Tables, directions: dict[int, int], n_values: tuple[int, ...]
) -> Tables:
    """Tables whose sum never falls (1) or never rises (-1) with a column's code.

    Parameters
    ----------
    tables : dict from key to ndarray of shape (n_bins, ..., 1)
        Curves of mean 0, and tables of mean 0 along their columns.
    directions : dict from int to {-1, 1}
        Of ordered columns.
    n_values : tuple of int
        Codes of each column that have an order: those of present values.

    Returns
    -------
    dict from key to ndarray
        Each of them monotone by itself, to the last bit, and so is every sum of their
        entries; those of such columns no longer of mean 0. The others as they are.
    """
    found = {key: table.copy() for key, table in tables.items()}
    keys = _pairs_of(tables, directions)
    for j in directions:
        share = 1 / (1 + sum(j in key for key in keys))
        found[(j,)] = share * tables[(j,)]
        for key in keys:
            if j in key:
                _along(found, key, j)[:] += share * tables[(j,)][:, 0][:, None]
    for _ in range(_TURNS):
        for key in [*keys, *((j,) for j in directions)]:
            own = [j for j in key if j in directions]
            for j in own:
                left = tables[(j,)][:, 0] - _curve(found, keys, j)
                _along(found, key, j)[:] += left[:, None]
            for j in own:
                _isotonic(_along(found, key, j)[: n_values[j]], directions[j])
    return found


def _isotonic(table: FloatArray, direction: int) -> None:
    """Make each column of a table the nearest monotone one.

    Done along one axis after the other both hold: what is in order stays in order.
    """
    for column in table.T:
        column[:] = isotonic_regression(column, increasing=direction > 0)


def _curve(tables: Tables, keys: list[Key], j: int) -> FloatArray:
    """What a column adds in all tables, on average over the other columns' codes."""
    curve = tables[(j,)][:, 0].copy()
    for key in keys:
        if j in key:
            curve += _along(tables, key, j).mean(axis=1)
    return curve


def _along(tables: Tables, key: Key, j: int) -> FloatArray:
    """A view of a table with the codes of a column along the first axis."""
    table = tables[key][..., 0]
    if len(key) == 1:
        return table[:, None]
    return table if key[0] == j else table.T


def _pairs_of(tables: Tables, columns: Iterable[int]) -> list[Key]:
    wanted = set(columns)
    return [key for key in tables if len(key) == 2 and wanted & set(key)]
