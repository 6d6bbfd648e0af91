"""Users of a table in memory, as they are scored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp._floats import FloatArray
from skdp._users import Users
from skdp.queries._user_scores import places_of_users, statistic_of_users


@dataclass(frozen=True, eq=False)
class UserTable:
    """A raw table whose records are users.

    Parameters
    ----------
    X : array-like, CSR or data frame of n_rows rows
        Private.
    y : array-like of shape (n_rows,)
        Private.
    users : Users
        Whose these rows are. Private, but for their number.
    """

    is_of_users = True

    X: Any
    y: Any
    users: Users

    @property
    def n_samples(self) -> int:
        """Public."""
        return self.users.n_users

    @property
    def largest_block(self) -> int:
        """Public."""
        return self.n_samples

    def statistic(self, scorer: Any, model: Any) -> FloatArray:
        """The exact statistic of a fitted model on these users. Private."""
        users = self.users
        places = places_of_users(users.names)[users.codes]
        return statistic_of_users(
            scorer, model, self.X, np.asarray(self.y), users.shares, places
        )
