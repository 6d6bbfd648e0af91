"""Neighbouring tables of users: whose rows an audit exchanges, and for what.

The user of the first row is the one who differs. What rows look like is that of records
(`skdp.audit._canary`): the user is as far out as one record can be if all of the own
rows are, however many there are. How many there are on either side is tried too, since
it is private: one, several, more than may count, none. Ids declare all users, so that
one without rows still counts. Last, a user goes whom those before and behind in the
order of ids contradict: ids that merge, cut or rounded, make one user of two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skdp._floats import IntArray
from skdp._rows import count_rows
from skdp._users import Users
from skdp.audit._canary import Neighbours, check_in_memory, chosen_neighbours
from skdp.audit._tables import as_table, stacked, taken
from skdp.data._users import MOST_ROWS_OF_A_USER
from skdp.pipeline._users import steps_of_users
from skdp.privacy._adjacency import OF_USERS, Adjacency

_SEVERAL, _OTHERS = 20, 3
# Of the pairs of records, so many contradict each other best.
_CONTRADICTIONS = 4
# If all of them counted, with the shares of the most that may: three users.
_MANY = 3 * MOST_ROWS_OF_A_USER


def declared_ids(
    estimator: Any, X: Any, groups: Any, adjacency: str | None
) -> pd.Categorical | None:
    """Ids that declare all users; None if rows are records.

    Raises
    ------
    ValueError, TypeError
        If there are ids for what protects records, or the other way round, and if they
        are no ids.
    """
    is_of_users = adjacency in OF_USERS or bool(steps_of_users(estimator))
    if groups is None and is_of_users:
        raise ValueError(
            "The groups argument must have the ids of users for an estimator that "
            "protects them. Got None. Pass groups=ids, one for each row of X."
        )
    if groups is not None and not is_of_users:
        raise ValueError(
            "The groups argument must be None for an estimator that protects records. "
            "Got ids. Set its privacy_unit='user', or pass adjacency='replace_user' or "
            "'zero_out_user' if it does not say what it protects."
        )
    return None if groups is None else _declared(groups, X)


def _declared(groups: Any, X: Any) -> pd.Categorical:
    check_in_memory(X)
    Users.of(groups, count_rows(X))  # refuses what are no ids
    return pd.Categorical(groups)


def given_users(X: Any, y: Any, ids: pd.Categorical, neighbour: Any) -> Neighbours:
    """The pair that is given, of users who are declared on both sides.

    Raises
    ------
    ValueError, TypeError
        If the other one is no table of users with the same columns.
    """
    try:
        other_X, other_y, groups = neighbour
        is_alike = np.shape(other_X)[1:] == np.shape(X)[1:]
        is_alike &= y is None or len(other_y) == count_rows(other_X)
    except (TypeError, ValueError):
        is_alike = False
    if not is_alike:
        raise ValueError(
            "The 'neighbour' parameter must be None or a triple (X, y, ids) with the "
            "columns of the data. Got something else. Copy all three, and exchange the "
            "rows of one user."
        )
    other = _declared(groups, other_X)
    everybody = ids.categories.union(other.categories)
    sides = [each.set_categories(everybody) for each in (ids, other)]
    what = "the neighbour that was given"
    return Neighbours(X, y, other_X, other_y, what, ids=sides[0], other_ids=sides[1])


def chosen_users(
    estimator: Any, X: Any, y: Any, ids: pd.Categorical, adjacency: Adjacency
) -> list[Neighbours]:
    """Candidates, of which fits show the best.

    Parameters
    ----------
    adjacency : {"replace_one", "zero_out"}
        Of users: rows for any others, or for none.

    Raises
    ------
    ValueError
        If nothing can be chosen automatically.
    """
    table = _Table.of(as_table(X), y, ids)
    pairs = table.pairs(estimator, adjacency)
    if adjacency == "replace_one":
        numbers = (1, 1), (_MANY, _OTHERS), (_SEVERAL, 0)
        found = [table.exchanged(pair, _SEVERAL, _OTHERS) for pair in pairs]
        return found + [table.exchanged(pairs[0], *rows) for rows in numbers]
    found = [table.exchanged(pair, _SEVERAL, 0) for pair in pairs]
    found += [table.exchanged(pairs[0], rows, 0) for rows in (1, _MANY)]
    contrary = table.pairs(estimator, "replace_one")[:_CONTRADICTIONS]
    return found + [table.contradicted(pair) for pair in contrary]


@dataclass(frozen=True, eq=False)
class _Table:
    """Rows of users, the first of whom, who is to differ, has one."""

    X: Any
    y: Any
    codes: IntArray
    users: Any

    @classmethod
    def of(cls, X: Any, y: Any, ids: pd.Categorical) -> _Table:
        codes = ids.codes.astype(np.int64)
        beside = np.flatnonzero(codes != codes[0])
        if not beside.size:
            raise ValueError(
                "A neighbour can be chosen for tables of two users with rows, or more. "
                "Got one. Pass more users, or neighbour=(X, y, ids)."
            )
        places = np.append(0, beside)
        labels = None if y is None else taken(np.asarray(y), places)
        return cls(taken(X, places), labels, codes[places], ids.categories)

    def pairs(self, estimator: Any, adjacency: Adjacency) -> list[Neighbours]:
        """What the first row, as a record, is exchanged for."""
        return chosen_neighbours(estimator, self.X, self.y, adjacency, is_own=True)

    def exchanged(self, pair: Neighbours, n_rows: int, n_others: int) -> Neighbours:
        """The user with so many rows, all alike; with so many others, all alike.

        One is in front and the rest behind all other users'.
        """
        beside = np.arange(1, len(self.codes))
        before = _around(beside, np.zeros(n_rows, dtype=np.int64))
        after = _around(beside, np.full(n_others, len(self.codes)))
        what = f"{n_rows} of a user's rows for {n_others or 'none'}; {pair.what}"
        return self._shown(pair, before, after, self._first, what)

    def contradicted(self, pair: Neighbours) -> Neighbours:
        """The user with several rows, and without; those next in order contradict."""
        nearby = (self._first + np.array([1, -1])) % len(self.users)
        beside = np.flatnonzero(~np.isin(self.codes, [self._first, *nearby]))
        after = np.append(len(self.codes) + np.arange(2), beside)
        before = np.append(np.zeros(_SEVERAL, dtype=np.int64), after)
        what = f"{_SEVERAL} of a user's rows for none, contradicted; {pair.what}"
        return self._shown(pair, before, after, nearby, what)

    @property
    def _first(self) -> int:
        return int(self.codes[0])

    def _shown(
        self, pair: Neighbours, before: IntArray, after: IntArray, more: Any, what: str
    ) -> Neighbours:
        """Two tables of rows of the first one, and of the row exchanged for its first.

        Parameters
        ----------
        before, after : ndarray of int
            Which rows; beyond the last one it is that row.
        more : int or ndarray of int
            Whose that row is, each time that it is there.
        """
        codes = np.append(self.codes, more)
        again = np.zeros(len(codes) - len(self.codes), dtype=np.int64)
        rows = stacked([pair.X, taken(pair.other_X, again)])
        y = None if pair.y is None else stacked([pair.y, taken(pair.other_y, again)])
        first, second = (
            (
                taken(rows, places),
                None if y is None else taken(y, places),
                pd.Categorical.from_codes(codes[places], categories=self.users),
            )
            for places in (before, after)
        )
        return Neighbours(
            *first[:2], *second[:2], what, ids=first[2], other_ids=second[2]
        )


def _around(beside: IntArray, own: IntArray) -> IntArray:
    return np.concatenate([own[:1], beside, own[1:]])
