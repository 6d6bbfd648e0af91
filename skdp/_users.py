"""The ids of users: checks, codes and hashes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from numbers import Integral
from typing import Any, Protocol

import numpy as np
import pandas as pd

from skdp._arrays import FloatArray, IntArray
from skdp._input import without_data
from skdp.privacy.accounting._calibrate import Budget
from skdp.tables._memory import UserSource, equal_shares

# ------------------------------------------------------------------------- Ids of users


_BAD_IDS = (
    "The groups argument must be one column with the id of a user for each row of X, "
    "all integers or all strings, none missing. Got something else. Leave out rows "
    "without an id, and convert other ids to strings."
)
HOW_TO_PASS = (
    "Pass fit(X, y, groups=ids), and the same to partial_fit; for a step of a "
    "pipeline, pipeline.fit(X, y, step__groups=ids) with the name of the step; within "
    "other tools of scikit-learn, enable metadata routing and call "
    "set_fit_request(groups=True) on the estimator."
)


class UsersToFit(Protocol):
    """Users, each of whom counts as one record; their rows may be anywhere."""

    @property
    def n_users(self) -> int:
        """Public."""
        ...


@dataclass(frozen=True)
class RemoteUsers:
    """Users of a source that names the column of their ids.

    Parameters
    ----------
    n_users : int
        The declared number of users; public.
    """

    n_users: int


@dataclass(frozen=True, eq=False)
class Users:
    """Users of a table, each of whom counts as one record.

    Parameters
    ----------
    n_users : int
        Public.
    codes : ndarray of int of shape (n_rows,)
        Number of each row's user, from 0 to ``n_users - 1``. Private.
    known_as : sequence of int or str, of length n_users, or None, default=None
        The users' ids; None: their numbers.
    """

    n_users: int
    codes: IntArray
    known_as: Sequence[Any] | None = None

    @classmethod
    def of(cls, groups: Any, n_rows: int) -> Users:
        """Users from the ids of all rows, or an error that quotes no id.

        A categorical declares all users; users without rows count as well.

        Raises
        ------
        ValueError, TypeError
            If `groups` are not ids, or their number differs from the number of rows.
        """
        if isinstance(getattr(groups, "dtype", None), pd.CategoricalDtype):
            declared = pd.Categorical(groups)
            found: Users = without_data(
                lambda: cls._of_declared(declared, n_rows), _BAD_IDS
            )
            return found
        ids: Any = without_data(lambda: _checked(groups, n_rows), _BAD_IDS)
        distinct, codes = np.unique(ids, return_inverse=True)
        return cls(len(distinct), codes.astype(np.int64), distinct.tolist())

    @classmethod
    def _of_declared(cls, groups: pd.Categorical, n_rows: int) -> Users:
        codes = groups.codes.astype(np.int64)
        _checked(np.asarray(groups.categories), len(groups.categories))
        if len(codes) != n_rows or (codes < 0).any():
            raise ValueError
        return cls(len(groups.categories), codes, groups.categories.tolist())

    @property
    def shares(self) -> FloatArray:
        """Weight of each row. Private."""
        return equal_shares(self.codes, self.n_users)

    @property
    def names(self) -> Sequence[Any]:
        """The id of each user. Private, unless users are declared."""
        return range(self.n_users) if self.known_as is None else self.known_as

    @property
    def ids(self) -> pd.Categorical:
        """The users' numbers as a categorical that declares these users. Private."""
        everybody = pd.RangeIndex(self.n_users)
        return pd.Categorical.from_codes(self.codes, categories=everybody)

    def part(self, chosen: IntArray) -> tuple[IntArray, Users]:
        """The rows of some users, who may also have none.

        Parameters
        ----------
        chosen : ndarray of int of shape (n_chosen,)
            Numbers of the users, each once, chosen without regard to rows.

        Returns
        -------
        rows : ndarray of int
            Positions of their rows, in increasing order. Private.
        users : Users
            The users of these rows; user u is user ``chosen[u]`` of all.
        """
        number = np.full(self.n_users, -1)
        number[chosen] = np.arange(len(chosen))
        codes = number[self.codes]
        rows, names = np.flatnonzero(codes >= 0), self.names
        known_as = [names[u] for u in chosen.tolist()]
        return rows, Users(len(chosen), codes[rows], known_as)

    def source(self, X: Any, y: FloatArray) -> UserSource:
        """Rows with their targets as a source of users."""
        return UserSource(X, y, self.shares, self.n_users, self.codes)


def refuse_exact(model: Any, budget: Budget) -> None:
    """Raise if epsilon is inf with users, who can be protected only with noise."""
    if model.privacy_unit == "user" and not budget.is_finite:
        raise ValueError(
            "The 'epsilon' parameter must be finite with privacy_unit='user'. Got inf. "
            "Leave out groups and privacy_unit for a result without privacy."
        )


def refuse_users(source: Any) -> None:
    """Raise if a source has ids of users although rows are records.

    Raises
    ------
    ValueError
    """
    if source.groups is not None:
        raise ValueError(
            "The source must have no groups= with privacy_unit='record'. Got a source "
            "with groups. Set privacy_unit='user' to protect all rows of a user "
            "together, or make the source without groups."
        )


def check_named(source: Any, groups: Any) -> None:
    """Raise if a source has no column of ids, or ids are passed beside it."""
    if groups is not None:
        raise ValueError(
            "The groups argument must be left out with a source. Got ids. Pass the "
            "name of their column as groups= to the constructor of the source."
        )
    if source.groups is None:
        raise ValueError(
            "The source must name the column of the users' ids with "
            "privacy_unit='user'. Got groups=None. Make it with groups='name', and "
            "with the number of users as n_samples."
        )


def refuse_ids(groups: Any) -> None:
    """Raise if ids are passed although rows are records."""
    if groups is None:
        return
    raise ValueError(
        "The groups argument must be None with privacy_unit='record'. Got ids. Set "
        "privacy_unit='user' to protect all rows of a user together, or do not pass "
        "ids, neither directly nor by set_fit_request(groups=True) or step__groups."
    )


def _checked(groups: Any, n_rows: int) -> Any:
    """Ids as an array of one kind; anything else raises some error."""
    if np.ma.isMaskedArray(groups):
        raise TypeError
    # As objects, since NumPy would convert an integer among strings to a string.
    is_array = hasattr(groups, "dtype")
    ids = np.asarray(groups) if is_array else np.array(groups, dtype=object)
    if ids.shape != (n_rows,) or not n_rows:
        raise ValueError
    if ids.dtype.kind in "iuU":
        return ids
    if ids.dtype.kind == "O" and (_are(ids, str) or _are(ids, Integral)):
        return ids
    raise TypeError


def _are(ids: Any, kind: type) -> bool:
    """Whether all ids have this type; truth values do not count as integers."""
    return all(isinstance(own, kind) and not isinstance(own, bool) for own in ids)


# ------------------------------------------------------------------------ Hashes of ids


def number_of(own: Any) -> int:
    """A number below 2^64 that is computed from an id, the same for 5 and "5".

    Parameters
    ----------
    own : int, str or bytes
        A string counts as its UTF-8 bytes; bytes from a source may be invalid UTF-8.
    """
    # A string from JSON may hold half a surrogate pair, which UTF-8 cannot encode.
    is_stored = isinstance(own, bytes)
    stored = own if is_stored else str(own).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(stored, digest_size=8).digest(), "little")
