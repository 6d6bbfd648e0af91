"""Scores kept in a file, so that an interrupted table goes on where it stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypedDict


class Entry(TypedDict):
    """One method in one cell: tuned settings, and scores by seed.

    `tuning` maps settings (as JSON) to the accuracy on each tuning seed; `scores` maps
    a seed to test accuracy, test log-loss and fit seconds.
    """

    stamp: str | None
    settings: dict[str, Any]
    tuning: dict[str, dict[str, float]]
    scores: dict[str, list[float]]


class Results:
    """The results file.

    Parameters
    ----------
    path : Path
        Created with its folder when the first score is kept.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._cells: dict[str, dict[str, Entry]] = {}
        if path.exists():
            self._cells = json.loads(path.read_text())

    def entry(self, cell: str, method: str, stamp: str | None) -> Entry:
        """What is stored, or an empty entry if it was measured at another stamp.

        Parameters
        ----------
        cell, method : str
        stamp : str or None
            None takes what is stored, whatever versions it was measured with.
        """
        methods = self._cells.setdefault(cell, {})
        stored = methods.get(method)
        if stored is None or stamp not in (None, stored["stamp"]):
            stored = Entry(stamp=stamp, settings={}, tuning={}, scores={})
            methods[method] = stored
        return stored

    def save(self) -> None:
        """Replace the file; a reader sees the old one or the new one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".part")
        draft.write_text(json.dumps(self._cells, indent=1))
        draft.replace(self.path)
