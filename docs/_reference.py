"""The reference: a page that lists what each public module says is public."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

MODULES = {
    "Models": ("linear_model", "ensemble", "neural_network", "decomposition"),
    "Around a model": ("preprocessing", "columns", "pipeline", "model_selection"),
    "Looking and checking": ("statistics", "audit"),
    "Data elsewhere": ("io", "federated", "datasets"),
    "Privacy": ("privacy", "exceptions"),
    "What papers describe": ("papers",),
}
INTRODUCTION = """Reference
=========

Everything named here can be imported from its module; the most used from ``skdp``
itself.
Names that are not listed are not public.
"""


def write(folder: Path) -> None:
    """Write ``index.rst``, from which the pages of single names are made."""
    folder.mkdir(exist_ok=True)
    parts = [INTRODUCTION]
    for title, modules in MODULES.items():
        parts += [_title(title, "-"), *(_listing(f"skdp.{name}") for name in modules)]
    text = "\n".join(parts)
    page = folder / "index.rst"
    if not page.exists() or page.read_text() != text:
        page.write_text(text)


def _title(text: str, line: str) -> str:
    return f"{text}\n{line * len(text)}\n"


def _listing(module: str) -> str:
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError:
        return ""
    names = getattr(found, "__all__", None) or _classes_of(found)
    shown = [name for name in names if _has_page(getattr(found, name))]
    lines = "\n".join(f"   {module}.{name}" for name in sorted(shown))
    summary = f".. autosummary::\n   :toctree: .\n   :nosignatures:\n\n{lines}\n"
    return f"{_title(module, '~')}\n{summary}"


def _classes_of(module: object) -> list[str]:
    name = getattr(module, "__name__", "")
    return [
        each
        for each, found in vars(module).items()
        if inspect.isclass(found) and found.__module__ == name and each[0] != "_"
    ]


def _has_page(found: object) -> bool:
    """Tables of keys and type aliases are told of on the pages of what takes them."""
    return inspect.isclass(found) or inspect.isfunction(found)
