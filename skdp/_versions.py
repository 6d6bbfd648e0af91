"""Versions of what is stored: written beside it, compared when it is read.

Every kind of stored thing (fitted state, record, ledger) has a schema number of its
own. It grows when a release writes what the releases before would misread; what is
newer than the number known here is refused. ``docs/architecture.md`` has the rules.
"""

from __future__ import annotations

import re
from typing import Any

from skdp import __version__
from skdp._quiet import warn
from skdp.exceptions import InconsistentVersionWarning

# Wrote no versions, and schemas 1.
FIRST_VERSION = "0.1"


def check_schema(what: str, schema: Any, known: int, version: str) -> None:
    """Refuse a stored thing that this release could misread.

    Raises `ValueError` if its schema number is none, or is newer than the one known.
    """
    if isinstance(schema, int) and 1 <= schema <= known:
        return
    raise ValueError(
        f"{what} must have a schema number from 1 to {known} to be read by skdp "
        f"{__version__}. Got {schema!r}, written by skdp {version}. Use that release "
        "of skdp, or a newer one."
    )


def warn_of_version(what: str, version: str, remedy: str) -> None:
    """Warn if another minor version wrote a stored thing."""
    if _minor(version) == _minor(__version__):
        return
    warn(InconsistentVersionWarning(what, version, __version__, remedy))


def check_version(what: str, version: Any) -> str:
    """The version that something says it was written by; ValueError if it is none."""
    if isinstance(version, str) and re.fullmatch(r"\d+\.\d+[\w.+]*", version):
        return version
    raise ValueError(f"{what} must name the version of skdp that wrote it.")


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]
