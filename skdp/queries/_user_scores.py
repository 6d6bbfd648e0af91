"""Rows of users as they are scored: each user once, with the mean over the own rows.

What an estimator is asked about are arrays of one length, and a row is where its user's
id says: nobody's prediction follows from what others have, how many rows they are, or
in which order they come, though a prediction may round otherwise at another place or in
an array of another length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from skdp._floats import FloatArray, IntArray
from skdp._id_numbers import number_of
from skdp._rows import rows_repeated
from skdp.data._users import places_of_own

# Many calls cost time, and so do long arrays in which few places are taken. Not more
# than scorers ask about at once.
ROWS_AT_ONCE = 1024


def places_of_users(ids: Iterable[Any]) -> IntArray:
    """Where rows of each user are asked about, by the id alone.

    Parameters
    ----------
    ids : iterable of int, str or bytes
    """
    return np.array([number_of(own) % ROWS_AT_ONCE for own in ids], dtype=np.int64)


def statistic_of_users(
    scorer: Any,
    model: Any,
    X: Any,
    y: np.ndarray,
    shares: FloatArray,
    places: IntArray,
) -> FloatArray:
    """The exact statistic of a fitted model on rows of users. Private.

    Parameters
    ----------
    scorer : PrivateScoring
    model : fitted estimator, or tuple of them that are compared
    X : array-like, CSR, data frame or RowsForEach of n_rows rows
    y : ndarray of shape (n_rows,)
    shares : ndarray of float64 of shape (n_rows,)
        With which rows count; those of 0 are not asked about.
    places : ndarray of int of shape (n_rows,)
        As `places_of_users` gives those of their users.
    """
    total, counted = np.zeros(scorer.size), np.flatnonzero(shares)
    for turn in _in_turn(places[counted]):
        rows = counted[turn]
        # A place without a row has another's, which counts nothing.
        asked, weights = np.full(ROWS_AT_ONCE, rows[0]), np.zeros(ROWS_AT_ONCE)
        asked[places[rows]], weights[places[rows]] = rows, shares[rows]
        total += scorer.statistic(model, rows_repeated(X, asked), y[asked], weights)
    return total


def _in_turn(places: IntArray) -> Iterator[IntArray]:
    """Positions of rows at different places, as often as there are rows at one."""
    turns = places_of_own(places)
    ends = np.cumsum(np.bincount(turns))
    if len(ends):
        yield from np.split(np.argsort(turns, kind="stable"), ends[:-1])
