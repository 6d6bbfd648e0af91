"""Records with two versions each, of which an audit's coins say which is fitted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp._floats import FloatArray, IntArray
from skdp.audit._tables import as_table, stacked, taken


@dataclass(frozen=True, eq=False)
class CanaryPairs:
    """Both versions of every canary.

    Under replace_one they are any two records. Under zero_out the other version has to
    be the estimator's null record, which contributes nothing: a row of zeros where
    nothing is fitted to a row of zeros, and nothing else if you are not sure.

    Parameters
    ----------
    X : array-like or data frame of shape (n_canaries, n_features)
    y : array-like of shape (n_canaries,)
    other_X : array-like or data frame of shape (n_canaries, n_features)
    other_y : array-like of shape (n_canaries,)

    Raises
    ------
    ValueError
        If the four have different numbers of rows.
    """

    X: Any
    y: Any
    other_X: Any
    other_y: Any

    def __post_init__(self) -> None:
        for name in ("X", "y", "other_X", "other_y"):
            object.__setattr__(self, name, as_table(getattr(self, name)))
        sizes = [len(x) for x in (self.X, self.y, self.other_X, self.other_y)]
        if len({*sizes}) != 1 or not sizes[0]:
            raise ValueError(
                "CanaryPairs needs as many other versions as first ones, and at least "
                f"one. Got tables of {sizes} rows. Pair them row by row."
            )

    def __len__(self) -> int:
        return len(self.y)

    def as_coins_say(self, coins: IntArray) -> tuple[Any, Any]:
        """Rows and labels: first versions where coins are 1, other ones where 0."""
        places = np.arange(len(self)) + len(self) * (1 - coins)
        X = taken(stacked([self.X, self.other_X]), places)
        return X, taken(stacked([self.y, self.other_y]), places)


@dataclass(frozen=True)
class Facts:
    """What is public of a fit, as far as canaries depend on it.

    Parameters
    ----------
    norm : float above 0
        Of rows, at most.
    low, high : label or target
        As far apart as they may be.
    null : label or target
        That adds nothing to a row of zeros.
    is_exchanged : bool
        Whether the other version is a record, and not the null record.
    """

    norm: float
    low: Any
    high: Any
    null: Any
    is_exchanged: bool

    def centre(self) -> float:
        """Middle of the targets."""
        return (float(self.low) + float(self.high)) / 2


Builder = Callable[[FloatArray, int, Facts, Any], tuple[FloatArray, CanaryPairs]]


def column_canaries(
    X: FloatArray, n: int, facts: Facts, draws: Any
) -> tuple[FloatArray, CanaryPairs]:
    """A new column for each canary, in which all other rows have 0.

    Nothing but noise hides such a canary.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features + n)
    pairs : CanaryPairs
    """
    rows = facts.norm * np.eye(n)
    return _beside(X, n), _versions(
        np.hstack([np.zeros((n, X.shape[1])), rows]), facts, draws
    )


def row_canaries(
    X: FloatArray, n: int, facts: Facts, draws: Any
) -> tuple[FloatArray, CanaryPairs]:
    """Rows in random directions of the features that there are.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        As it was.
    pairs : CanaryPairs
    """
    rows = draws.normal(size=(n, X.shape[1]))
    rows *= facts.norm / np.linalg.norm(rows, axis=1, keepdims=True)
    return X, _versions(rows, facts, draws)


BUILDERS: dict[str, Builder] = {"columns": column_canaries, "rows": row_canaries}


def _beside(X: FloatArray, n: int) -> FloatArray:
    return np.hstack([X, np.zeros((len(X), n))])


def _versions(rows: FloatArray, facts: Facts, draws: Any) -> CanaryPairs:
    n = len(rows)
    if facts.is_exchanged:
        # The same row with the label of the other end.
        return CanaryPairs(rows, _labels(facts.high, n), rows, _labels(facts.low, n))
    labels = np.where(draws.randint(2, size=n), facts.high, facts.low)
    return CanaryPairs(rows, labels, np.zeros_like(rows), _labels(facts.null, n))


def _labels(label: Any, n: int) -> Any:
    return np.full(n, label)
