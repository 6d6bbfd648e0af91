"""Modules by the names that they had when fitted models were stored.

A pickle names the module of each class in it. Models that version 1.0 stored are read
by later versions (``docs/architecture.md``), whatever has moved since.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {"skdp.objectives._convolution": "skdp.papers._convolution"}


class _Moved(MetaPathFinder, Loader):
    """Finds a module of `MOVED`: another one with the classes of the new one."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        now = vars(import_module(MOVED[module.__name__]))
        vars(module).update({name: now[name] for name in now if name[:2] != "__"})


def find_moved() -> None:
    """Let imports by old names succeed."""
    sys.meta_path.append(_Moved())
