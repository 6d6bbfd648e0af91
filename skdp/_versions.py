"""Versions of what is stored: written beside it, compared when it is read.

Every kind of stored thing (fitted state, record, ledger) has a schema number of its
own. It grows when a release writes what the releases before would misread; what is
newer than the number known here is refused, and so is what was stored before 1.0.
``docs/architecture.md`` has the rules.
"""

from __future__ import annotations

import re
from typing import Any

from skdp._quiet import warn
from skdp._version import __version__
from skdp.exceptions import InconsistentVersionWarning


def check_schema(what: str, schema: Any, known: int, version: str) -> None:
    """Refuse a stored thing that this release could misread.

    Raises `ValueError` if its schema number is not the one known.
    """
    if type(schema) is int and schema == known:
        return
    raise ValueError(
        f"{what} must have the schema number {known} to be read by skdp "
        f"{__version__}. Got {schema!r}, written by skdp {version}. Use that release "
        "of skdp, or a newer one."
    )


def warn_of_version(what: str, version: str, remedy: str) -> None:
    """Warn if another minor version wrote a stored thing."""
    if _minor(version) == _minor(__version__):
        return
    warn(InconsistentVersionWarning(what, version, __version__, remedy))


def check_version(what: str, version: Any) -> str:
    """The version that something says it was written by; ValueError if it is none.

    What was stored before 1.0 named none, and is not read.
    """
    is_text = isinstance(version, str)
    if is_text and re.fullmatch(r"[1-9]\d*\.\d+[\w.+]*", version):
        return str(version)
    raise ValueError(
        f"{what} must name the version of skdp that wrote it, 1.0 or later. Got "
        f"{repr(version) if is_text else 'none, as before 1.0'}. Read it with the "
        "release that wrote it, or fit anew, which spends anew."
    )


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]
