"""Steps that rows of a source pass through: transformers that work row by row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack
from sklearn.utils import get_tags

from skdp._quiet import silence
from skdp._rows import rows_at, rows_in_places


@dataclass(frozen=True, eq=False)
class Step:
    """A fitted transformer whose rows follow from its own row each.

    Parameters
    ----------
    transformer : transformer
        Public.
    declared : dict, tuple, Range or None
        What it declares of the columns that it reads.
    shown : ndarray, CSR or data frame of one row
        What comes of a row of stand-ins.
    refuses_unknown, allows_missing : bool
        As in `Reading`.
    """

    transformer: Any
    declared: Any
    shown: Any
    refuses_unknown: bool
    allows_missing: bool

    def transform(self, rows: Any) -> Any:
        """Rows as the transformer gives them."""
        return self.transformer.transform(rows)

    def applied(
        self, rows: Any, is_present: NDArray[np.bool_]
    ) -> tuple[Any, NDArray[np.bool_]]:
        """Transformed rows, and which are records: those it refuses are none."""
        return applied(self.transform, rows, is_present, self.shown)


def applied(
    change: Callable[[Any], Any], rows: Any, is_present: NDArray[np.bool_], shown: Any
) -> tuple[Any, NDArray[np.bool_]]:
    """Rows changed one by one, and which are records: those that are refused are none.

    Parameters
    ----------
    change : callable
        Each row by itself; it may refuse some. It gets copies: what it changes in
        place before it refuses a row must not be changed again.
    rows : ndarray, CSR or data frame
    is_present : ndarray of bool of shape (n_rows,)
    shown : ndarray, CSR or data frame of one row
        Put in the place of all of them if all are refused.
    """
    every = np.arange(len(is_present))
    with silence():
        try:
            return change(rows_at(rows, every)), is_present
        except KeyboardInterrupt:
            raise
        except BaseException:  # steps raise more than exceptions
            is_fine = np.array([_passes(change, rows, int(i)) for i in every])
            if not is_fine.any():
                return _stacked([shown] * every.size), np.zeros_like(is_present)
            # Once more in the same shape: no other row's last bits may depend on
            # whether one is refused. What stands in its place is in no sum.
            places = np.where(is_fine, every, np.argmax(is_fine))
            return change(rows_in_places(rows, places)), is_present & is_fine


def _passes(change: Callable[[Any], Any], rows: Any, i: int) -> bool:
    try:
        change(rows_at(rows, np.array([i])))
    except KeyboardInterrupt:
        raise
    except BaseException:  # a row that is refused is a null record
        return False
    return True


def of_step(transformer: Any, before: Any) -> Step:
    """A fitted transformer as a step after rows like one that is given."""
    takes = get_tags(transformer).input_tags
    declared = getattr(transformer, "columns_", None)
    refuses = getattr(transformer, "handle_unknown", "") == "error"
    shown = transformer.transform(before)
    return Step(transformer, declared, shown, refuses, bool(takes.allow_nan))


def _stacked(rows: list[Any]) -> Any:
    if isinstance(rows[0], pd.DataFrame):
        return pd.concat(rows, ignore_index=True)
    return vstack(rows, format="csr") if issparse(rows[0]) else np.concatenate(rows)
