"""Passes over a source as fitted models take its rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from sklearn.utils import get_tags


def rows_of(
    model: Any, X: Any, also: tuple[str, ...] = ()
) -> Iterator[tuple[Any, Any, Any]]:
    """One pass over rows as a fitted model takes them; within a session."""
    first = model
    while hasattr(first, "steps"):
        steps = [step for _, step in first.steps if step not in (None, "passthrough")]
        first = steps[0]
    encoder = getattr(first, "encoder_", first)
    declared = getattr(encoder, "columns_", None)
    takes = get_tags(encoder).input_tags
    reading = X.reading(
        declared,
        refuses_unknown=getattr(encoder, "handle_unknown", "") == "error",
        allows_missing=declared is None and bool(takes.allow_nan),
    )
    is_named = hasattr(first, "feature_names_in_")
    for rows, is_present, columns in X.rows(reading, also):
        is_frame = isinstance(rows, pd.DataFrame)
        if is_frame and not is_named:
            rows = rows.to_numpy()
        yield rows, is_present, columns


def targets_too(X: Any) -> tuple[str, ...]:
    """The column of the target, where there is one."""
    return () if X.target is None else (X.target,)
