"""Tables whose records are users, with rows that are all alike; and wrong shares."""

from __future__ import annotations

import numpy as np

from skdp import _users
from skdp.solvers._registry import SOLVERS
from skdp.tables import _memory
from skdp.tables._memory import UserSource
from skdp.tables._views import EntriesClipped

# What of records each is of users.
OF_RECORDS = {"replace_user": "replace_one", "zero_out_user": "zero_out"}
TAKES_USERS = tuple(key for key, kind in SOLVERS.items() if kind.takes_users)


def as_users(source, seed=0):
    """A table whose records are users of up to four rows each, all of them alike."""
    if isinstance(source, EntriesClipped):
        return EntriesClipped(as_users(source._source, seed), source._bound)
    block = source.whole()
    n_users = len(block.y)
    n_rows = np.random.default_rng(seed).integers(1, 5, n_users)
    n_rows[[0, -1]] = 4
    if block.present is not None:
        n_rows[~block.present] = 0
    codes = np.repeat(np.arange(n_users), n_rows)
    own = _memory.equal_shares(codes, n_users)
    return UserSource(block.X[codes], block.y[codes], own, n_users, codes)


# Planted bugs: the weights of rows ---------------------------------------------------


def as_records(codes, n_users):
    """Every row counts as a record."""
    return np.ones(len(codes))


def by_place(codes, n_users):
    """A row's share follows from its place in the table."""
    return 1 / (1.0 + np.arange(len(codes)) % 2)


def of_two_ids(codes, n_users):
    """The id of a row is cut off, so that a user has two."""
    halves = 2 * codes + np.arange(len(codes)) % 2
    return 1.0 / np.bincount(halves)[halves]


def one_row_too_many(codes, n_users):
    """Of users with many rows one more counts than is divided by."""
    counts = np.bincount(codes, minlength=n_users)[codes]
    return 1 / np.maximum(counts - 1.0, 1.0)


def in_runs(codes, n_users):
    """Rows of a user that are not next to each other count as those of several."""
    run = np.cumsum(np.append(0, np.diff(codes) != 0))
    return 1 / np.bincount(run)[run]


SHARES = (as_records, by_place, of_two_ids, one_row_too_many, in_runs)


def plant(monkeypatch, shares):
    """Make all tables of users with these shares."""
    monkeypatch.setattr(_users, "equal_shares", shares)
    monkeypatch.setattr(_memory, "equal_shares", shares)
