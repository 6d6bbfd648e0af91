"""The JSON Schema of a privacy record, which is shipped beside this module."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

_NAME = "record.schema.json"


def record_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of what `PrivacyRecord.to_json` writes.

    Its ``$id`` names the schema number of the record. A record that an older version
    wrote may lack fields; `PrivacyRecord.from_json` reads it, and what that writes is
    complete.

    Returns
    -------
    dict

    Examples
    --------
    >>> from skdp.privacy import record_schema
    >>> record_schema()["$id"]
    'urn:skdp:privacy-record:1'
    """
    text = files("skdp.privacy").joinpath(_NAME).read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
