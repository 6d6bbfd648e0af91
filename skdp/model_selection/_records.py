"""The records of a search: rows one by one, or users with all of theirs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._floats import IntArray
from skdp._rows import copied, count_rows, rows_at
from skdp._users import Users, UsersElsewhere, UsersToFit
from skdp.data._source import LEAST_PART, crowding, has_room
from skdp.data._table import Table
from skdp.io._scores import SourceScores, SourceUsers
from skdp.io._table_source import TableSource
from skdp.model_selection._scoring import R2
from skdp.model_selection._scoring_base import PrivateScoring
from skdp.model_selection._user_table import UserTable
from skdp.pipeline._users import fitted_to_users
from skdp.pipeline._walk import says_its_privacy


@dataclass(frozen=True, eq=False)
class Records:
    """What a search divides, fits candidates to and scores them on. Private.

    Parameters
    ----------
    X : array-like, CSR, data frame or source
    y : array-like, or None with a source
    users : UsersToFit or None, default=None
        The user of each row, if users are counted and divided.
    """

    X: Any
    y: Any
    users: UsersToFit | None = None

    @property
    def n_samples(self) -> int:
        """The number of records, or of users; public."""
        return count_rows(self.X) if self.users is None else self.users.n_users

    def at(self, numbers: IntArray) -> Records:
        """The records with these numbers, which were drawn without looking at them.

        Rows of users stay in the order of the table. The numbers of a source are slots,
        and a slot has any number of users (`skdp.io._slots`).
        """
        if isinstance(self.users, Users):
            return self._rows(*self.users.part(numbers))
        return self._rows(numbers, self._as_many(len(numbers)))

    def some(self, size: int) -> Records:
        """Stand-ins for `size` records in a rehearsal, which reads no record.

        The rows are spread over the table: the first rows of ratings that are sorted by
        user would all be of one user. In a rehearsal of users each row is one user.
        """
        return self._shown(size, min(size, count_rows(self.X)))

    def part(self, size: int) -> Records:
        """Stand-ins for a part of `size` records in a rehearsal.

        A part of users has as few rows as the smallest part can have, so that a step
        that needs more rows refuses them before anything is paid for.
        """
        if isinstance(self.users, Users):
            return self._shown(size, min(size, self._fewest_rows(self.users, size)))
        return self.some(size)

    def _shown(self, size: int, n_shown: int) -> Records:
        n_rows = count_rows(self.X)
        chosen = np.arange(n_shown) * n_rows // n_shown
        if isinstance(self.users, Users):
            return self._rows(chosen, Users(size, np.arange(n_shown)))
        rows = slice(size) if 2 * size >= n_rows else chosen
        return self._rows(rows, self._as_many(size))

    def _as_many(self, size: int) -> UsersElsewhere | None:
        return None if self.users is None else UsersElsewhere(size)

    def check_parts(self, smallest: int) -> None:
        """Raise if a part might have no rows, or too little room for users of a source.

        Parameters
        ----------
        smallest : int
            Records in the smallest part that a candidate is fitted to.
        """
        users = self.users
        if isinstance(users, Users) and not self._fewest_rows(users, smallest):
            raise ValueError(
                "A search must have rows of users in each of its parts, however they "
                "are divided. Got too many users without rows. Declare fewer of them, "
                "or use fewer candidates."
            )
        n_declared = round(self.n_samples * crowding(self.X))
        if isinstance(users, UsersElsewhere) and not has_room(smallest, n_declared):
            raise ValueError(
                "The fits of a search of a source of users must be to at least "
                f"{LEAST_PART:.0%} of the declared users each. Got {smallest} of "
                f"{n_declared}. Use method='composition' or 'random_stopping' "
                "without tuning_fraction, and a smaller validation_fraction."
            )

    def check_scored(self, scorer: PrivateScoring) -> None:
        """Raise if a score needs a number of users that nobody knows."""
        if isinstance(self.users, UsersElsewhere) and isinstance(scorer, R2):
            raise ValueError(
                "The 'scoring' parameter must be a score that does not follow from how "
                "many users are scored, in a search of a source of users. Got 'r2'. "
                "Use 'neg_mean_squared_error', which ranks alike."
            )

    def fitted(self, model: Any) -> Any:
        """Fit a model, to a copy of the rows if a step may change them."""
        X, y = self.X, self.y
        if not says_its_privacy(model):  # no estimator of skdp does
            X, y = copied(X), copied(y)
        if not isinstance(self.users, Users):  # a source names the column of ids
            return model.fit(X, y)
        return fitted_to_users(model, X, y, self.users.ids)

    def scored(self) -> Table | UserTable | SourceScores:
        """The object that scores models on these records."""
        if isinstance(self.users, Users):
            return UserTable(self.X, self.y, self.users)
        if self.users is not None:
            return SourceUsers(self.X)
        if isinstance(self.X, TableSource):
            return SourceScores(self.X)
        return Table(self.X, self.y)

    @staticmethod
    def _fewest_rows(users: Users, size: int) -> int:
        """The fewest rows that any `size` users have together. Private."""
        counts = np.bincount(users.codes, minlength=users.n_users)
        return int(np.sort(counts)[:size].sum())

    def _rows(
        self, rows: slice | NDArray[np.int64], users: UsersToFit | None
    ) -> Records:
        return Records(rows_at(self.X, rows), rows_at(self.y, rows), users)
