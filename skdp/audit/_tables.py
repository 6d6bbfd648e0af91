"""Rows of tables as attacks need them: chosen, and put below one another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from skdp._floats import IntArray


def taken(table: Any, places: IntArray) -> Any:
    """Rows of a data frame, series, CSR matrix or array, in the order of `places`."""
    return table.iloc[places] if hasattr(table, "iloc") else table[places]


def stacked(tables: list[Any]) -> Any:
    """Tables of the same kind below one another."""
    if all(hasattr(table, "iloc") for table in tables):
        return pd.concat(tables, ignore_index=True)
    if any(sparse.issparse(table) for table in tables):
        return sparse.vstack(tables, format="csr")
    return np.concatenate([np.asarray(table) for table in tables])


def as_table(table: Any) -> Any:
    """A table whose rows can be taken: lists become arrays."""
    return table if hasattr(table, "shape") else np.asarray(table)
