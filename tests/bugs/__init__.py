"""Planted bugs: patches of the package, each of which some test must find.

``python -m tests.bugs`` plants them one by one in a copy and runs their tests.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.bugs.bug import Bug

# One module for each room of the package.
ROOMS = sorted(path.stem for path in Path(__file__).parent.glob("in_*.py"))
BUGS: list[Bug] = [
    bug for room in ROOMS for bug in import_module(f"tests.bugs.{room}").BUGS
]
