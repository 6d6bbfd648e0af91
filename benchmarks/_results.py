"""Values kept in a file, so that an interrupted table resumes where it stopped."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

import skdp


class Entry(TypedDict):
    """One method at one place: tuned settings, and values by run.

    `tuning` maps settings (as JSON) to the first metric of each tuning run; `scores`
    maps a run to its metrics.
    """

    stamp: str
    settings: dict[str, Any]
    tuning: dict[str, dict[str, float]]
    scores: dict[str, list[float]]


class Results:
    """The file of one benchmark.

    Parameters
    ----------
    path : Path or None
        The file and its folder are created when the first value is kept. None keeps
        values in memory only.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._cells: dict[str, dict[str, Entry]] = {}
        if path is not None and path.exists():
            self._cells = json.loads(path.read_text())

    def entry(self, cell: str, method: str, stamp: str | None) -> Entry:
        """The stored entry, or an empty one if it was measured at another stamp.

        Parameters
        ----------
        cell, method : str
        stamp : str or None
            None takes what is stored, whatever versions it was measured with.
        """
        methods = self._cells.setdefault(cell, {})
        stored = methods.get(method)
        if stored is None or stamp not in (None, stored["stamp"]):
            stored = Entry(stamp=stamp or "", settings={}, tuning={}, scores={})
            methods[method] = stored
        return stored

    def save(self) -> None:
        """Replace the file; a reader sees the old one or the new one."""
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".part")
        draft.write_text(json.dumps(self._cells, indent=1))
        draft.replace(self.path)


def fingerprint(folder: Path) -> str:
    """A hash of the Python files below a folder, its tests left out."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder)
        if "tests" not in name.parts:
            digest.update(name.as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:12]


@lru_cache
def source_stamp(*, is_private: bool) -> str:
    """The state of the code that a value depends on.

    Parameters
    ----------
    is_private : bool
        Whether the value is of a release of skdp, or of a method that is written here.
    """
    here = f"benchmarks {fingerprint(Path(__file__).parent)}"
    if not is_private:
        return here
    return f"{here}, skdp {fingerprint(Path(skdp.__file__).parent)}"


def versions_of(*packages: str) -> str | None:
    """Installed versions of the packages, or None if one is missing."""
    try:
        return ", ".join(f"{package} {version(package)}" for package in packages)
    except PackageNotFoundError:
        return None


def provenance(command: str, runs: int) -> str:
    """By what, from what and when a table was made, as comments.

    Parameters
    ----------
    command : str
        What makes the table, without the number of runs.
    runs : int
        Runs of a line; their seeds are 0, 1, ...
    """
    made = {
        "command": f"{command} --runs {runs}",
        "seeds": f"0 to {runs - 1}",
        "commit": _commit(),
        "versions": f"skdp {skdp.__version__}, NumPy {np.__version__}, Python "
        + platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {_processor()}",
        "date": datetime.now(UTC).date().isoformat(),
    }
    return "\n".join(f"# {key}: {value}" for key, value in made.items())


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True
        )
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if "model name" in line]
    return f"{len(names)} x {names[0]}" if names else platform.processor() or "unknown"
