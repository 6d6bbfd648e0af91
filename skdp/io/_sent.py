"""What is sent to workers: a query and the source that it is of, without the table.

Estimators' rows are public maps of a table's; the table stays where it is, and on a
worker its own part stands in its place.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

from skdp.io._table_source import TableSource
from skdp.privacy import BudgetLedger, PrivacyRecord
from skdp.privacy._allowance import Allowance

# What a step that was fitted has, also within a search, and needs no more.
_BOOKS = (Allowance, BudgetLedger, PrivacyRecord)


def sent(value: Any) -> bytes:
    """A value as bytes, in which each table is what is public of it."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):
        def persistent_id(self, value: Any) -> Any:
            if isinstance(value, TableSource):
                return value.facts
            return () if isinstance(value, _BOOKS) else None

    file = io.BytesIO()
    Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return file.getvalue()


def received(value: bytes, table: Callable[..., Any]) -> Any:
    """The value again, with what `table` makes of a table's public facts."""

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, facts: Any) -> Any:
            return table(*facts) if facts else None

    return Unpickler(io.BytesIO(value)).load()
