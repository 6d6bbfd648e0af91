"""Passes of fitted models over a source, and files of predictions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import pandas as pd
from sklearn.utils import get_tags

from skdp._arrays import RowsForEach
from skdp.io._reading import Reading, arrow

# ----------------------------------------------- Passes over a source for fitted models


@dataclass(frozen=True)
class _Taking:
    """How a fitted model takes rows of a source; public.

    Parameters
    ----------
    reading : Reading
    is_named : bool
        Whether columns have their names.
    declared : dict, tuple, Range or None
        The model's declarations of the columns.
    """

    reading: Reading
    is_named: bool
    declared: Any

    @classmethod
    def of(cls, model: Any, X: Any) -> Self:
        first = model
        while hasattr(first, "steps") or hasattr(first, "best_estimator_"):
            if hasattr(first, "best_estimator_"):
                first = first.best_estimator_
                continue
            steps = [
                step for _, step in first.steps if step not in (None, "passthrough")
            ]
            first = steps[0]
        encoder = getattr(first, "encoder_", first)
        declared = getattr(encoder, "columns_", None)
        takes = get_tags(encoder).input_tags
        reading = X.reading(
            declared,
            refuses_unknown=getattr(encoder, "handle_unknown", "") == "error",
            allows_missing=declared is None and bool(takes.allow_nan),
        )
        return cls(reading, hasattr(first, "feature_names_in_"), declared)

    def rows(self, rows: Any) -> Any:
        """Rows in the form in which the model takes them."""
        if not isinstance(rows, pd.DataFrame):
            return rows
        if not self.is_named:
            return rows.to_numpy()
        if self.declared is None:
            # The codes of a text follow from all texts of the column; a model that
            # declares columns does not read the codes.
            texts = rows.select_dtypes("category").columns
            return rows.astype(dict.fromkeys(texts, object))
        return rows


def shown_to(model: Any, X: Any) -> Any:
    """A row that looks like a source's rows, as a fitted model takes it; public.

    Raises
    ------
    ValueError
        If a column is of a kind that cannot be read for the model.
    """
    taking = _Taking.of(model, X)
    X.check_kinds(taking.reading)
    shown = X.sample_row(taking.declared)
    if isinstance(taking.declared, dict) and isinstance(shown, pd.DataFrame):
        shown = shown[[name for name in shown.columns if name in taking.declared]]
    return taking.rows(shown)


def rows_of(
    model: Any, X: Any, also: tuple[str, ...] = ()
) -> Iterator[tuple[Any, Any, Any]]:
    """One pass over rows in a fitted model's form; within a session."""
    passed, (shown,) = rows_of_alike([model], X, also)
    for rows, is_present, columns in passed:
        yield shown(rows), is_present, columns


def rows_of_alike(
    models: Sequence[Any], X: Any, also: tuple[str, ...] = ()
) -> tuple[Iterator[tuple[Any, Any, Any]], list[Callable[[Any], Any]]]:
    """One pass for several fitted models that are `alike`; within a session.

    Returns
    -------
    passed : iterator of rows, which of them are present, and the columns as read
    shown : list of callables
        For each model, a map of rows to the model's form.
    """
    takings = [_Taking.of(model, X) for model in models]
    passed = X.rows(takings[0].reading, also)
    return passed, [taking.rows for taking in takings]


def alike(models: Sequence[Any], X: Any) -> list[list[int]]:
    """Positions of fitted models in groups that read the cells of a source alike."""
    readings: list[Reading] = []
    groups: list[list[int]] = []
    for place, model in enumerate(models):
        reading = _Taking.of(model, X).reading
        if reading not in readings:
            readings.append(reading)
            groups.append([])
        groups[readings.index(reading)].append(place)
    return groups


def rows_of_each(
    models: tuple[Any, ...], X: Any, also: tuple[str, ...] = ()
) -> Iterator[tuple[RowsForEach, Any, Any]]:
    """One pass over rows as each of several fitted models takes them.

    A row that one of the models cannot read is present for none. Models after steps of
    the source read the steps' output.
    """
    takings = [_Taking.of(model, X) for model in models]
    shared = takings[0].reading
    others = [name for taking in takings for name in taking.reading.names]
    for rows, is_present, columns in X.rows(shared, (*others, *also)):
        tables = []
        for taking in takings:
            own = rows
            if taking.reading != shared:
                own, could_be_read = taking.reading.cleaned(columns)
                is_present = is_present & could_be_read
            tables.append(taking.rows(own))
        yield RowsForEach(tuple(tables)), is_present, columns


def targets_too(X: Any) -> tuple[str, ...]:
    """The column of the target, if there is one."""
    return () if X.target is None else (X.target,)


# ----------------------------------------------------------------- Files of predictions


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
    """Refuse a file that cannot be written, before anything is read."""
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
