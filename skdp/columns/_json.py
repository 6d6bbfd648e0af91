"""All declarations of a table as JSON text, and back."""

from __future__ import annotations

import json
from typing import Any

from skdp.columns._declarations import Declaration, from_dict
from skdp.columns._given import Declared, as_declared

SCHEMA = 1


def to_json(columns: Any) -> str:
    """Declarations as JSON text, with a schema number.

    Parameters
    ----------
    columns : mapping, sequence, or one declaration
        Shorthand allowed; it comes back in full.
    """
    declared = as_declared(columns)
    ready: Any
    if isinstance(declared, Declaration):
        ready = declared.to_dict()
    elif isinstance(declared, tuple):
        ready = [each.to_dict() for each in declared]
    else:
        # Pairs keep their order whatever reads and writes the text.
        ready = {"by_name": [[name, d.to_dict()] for name, d in declared.items()]}
    return json.dumps({"skdp_columns": SCHEMA, "columns": ready}, allow_nan=False)


def from_json(text: str) -> Declared:
    """What `to_json` wrote.

    Raises
    ------
    ValueError
        If the text is no declaration, or of a newer schema.
    """
    stored = json.loads(text)
    schema = stored.get("skdp_columns") if isinstance(stored, dict) else None
    if schema != SCHEMA:
        raise ValueError(
            f"Stored columns must have the schema number {SCHEMA}. Got {schema!r}. "
            "Read a newer file with the version of skdp that wrote it."
        )
    ready = stored["columns"]
    if isinstance(ready, list):
        return as_declared([from_dict(each) for each in ready])
    if "by_name" in ready:
        return as_declared({name: from_dict(each) for name, each in ready["by_name"]})
    return as_declared(from_dict(ready))
