"""Predictions for a source, written beside the keys of its records."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from skdp.io._arrow import arrow
from skdp.io._passes import rows_of

NAME = "prediction"


def predict_to(
    source: Any, model: Any, path: Any, keys: Sequence[str], method: str
) -> None:
    """Write a Parquet file of keys and predictions, within a session."""
    pa = arrow()
    from pyarrow import parquet

    schema: Any = None
    writer: Any = None
    try:
        for rows, is_present, columns in rows_of(model, source, tuple(keys)):
            found = getattr(model, method)(rows)
            told = pa.array(found, mask=~is_present)
            arrays = [*(columns.column(key) for key in keys), told]
            batch = pa.record_batch(arrays, names=[*keys, NAME])
            if writer is None:
                schema = batch.schema
                writer = parquet.ParquetWriter(path, schema)
            writer.write_batch(batch.cast(schema))
    except BaseException:
        if writer is not None:
            writer.close()
            os.remove(path)
        raise
    writer.close()


def check_place(source: Any, path: Any, keys: Sequence[str], method: str) -> None:
    """Refuse what cannot be written, before anything is read."""
    known = list(source._schema.names)
    is_list = isinstance(keys, (list, tuple)) and len(set(keys)) == len(keys) > 0
    if not is_list or not set(keys) <= set(known) or NAME in keys:
        raise ValueError(
            "The 'keys' argument must list different columns of the source, none of "
            f"them named {NAME!r}. Got {keys!r}. Its columns are {known}."
        )
    if os.path.exists(path):
        raise ValueError(
            "The 'path' argument must be of a file that does not exist. Got one that "
            "does. Remove it, or choose another."
        )
    if method not in ("predict", "decision_function"):
        raise ValueError(
            "The 'method' argument must be 'predict' or 'decision_function'. Got "
            f"{method!r}."
        )
