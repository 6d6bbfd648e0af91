"""Records as they were given, for what asks a model about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skdp._floats import FloatArray


@dataclass(frozen=True, eq=False)
class Table:
    """A raw table, one block of rows of any kind.

    Parameters
    ----------
    X : array-like, CSR or data frame of n_samples rows
        Private.
    y : array-like of shape (n_samples,)
        Private.
    """

    X: Any
    y: Any

    @property
    def n_samples(self) -> int:
        """Public."""
        return len(self.y)

    @property
    def largest_block(self) -> int:
        """Public."""
        return self.n_samples

    def statistic(self, scorer: Any, model: Any) -> FloatArray:
        """The exact statistic of a fitted model on these records. Private."""
        exact: FloatArray = scorer.statistic(model, self.X, self.y)
        return exact
