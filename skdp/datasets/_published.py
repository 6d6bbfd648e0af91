"""Files in the folder of data sets, if they are what was published."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from pathlib import Path

DATA_HOME = "SKDP_DATA_HOME"


def data_folder(name: str) -> Path | None:
    """The folder of a data set in SKDP_DATA_HOME, or None if it does not exist."""
    home = os.environ.get(DATA_HOME, "")
    folder = Path(home) / name
    return folder if home and folder.is_dir() else None


def published(path: Path, sha256: str) -> bytes:
    """The bytes of a file, unpacked if its name ends with .gz.

    Raises `ValueError` if they are not the published bytes.
    """
    name = path.name.removesuffix(".gz")
    try:
        content = path.read_bytes()
        if name != path.name:
            content = gzip.decompress(content)
        got = hashlib.sha256(content).hexdigest()
    except (gzip.BadGzipFile, EOFError, zlib.error):
        got = "a file that is not gzip, or is cut off"
    if got != sha256:
        raise ValueError(
            f"The file {str(path)!r} must hold {name} as published, with sha256 "
            f"{sha256} when unpacked. Got {got}. Get it again from a source "
            f"listed in docs/notebook/data.md, or unset {DATA_HOME}."
        )
    return content
