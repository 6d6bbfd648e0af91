"""The reference: what each public module says is public, and a page for each key."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

MODULES = {
    "Models": (
        "linear_model",
        "ensemble",
        "neural_network",
        "naive_bayes",
        "cluster",
        "decomposition",
    ),
    "Around a model": ("preprocessing", "columns", "pipeline", "model_selection"),
    "Looking and checking": ("statistics", "audit"),
    "Data elsewhere": ("io", "federated", "datasets"),
    "Privacy": ("privacy", "exceptions"),
    "What papers describe": ("papers",),
}
# What users name by a key, by the module and the table that has the keys.
REGISTRIES = {
    "Linear and sparse models": ("skdp.solvers", "SOLVERS"),
    "Boosted trees": ("skdp.ensemble", "BOOSTERS"),
    "Networks": ("skdp.neural_network", "NETWORK_SOLVERS"),
    "Ratings, not private": ("skdp.decomposition._registry", "FACTORIZERS"),
    "Ratings, private": ("skdp.decomposition._registry", "PRIVATE_FORMS"),
}
KEYS = """Solvers by key
--------------

These are the keys of the parameter ``solver``, and the parameters of ``solver_params``.
"""
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
    _write(folder / "index.rst", "\n".join([*parts, _keys(folder / "keys")]))


def _write(page: Path, text: str) -> None:
    """Write a page if it has changed, so that an unchanged page is not built again."""
    if not page.exists() or page.read_text() != text:
        page.write_text(text)


def kinds() -> Iterator[tuple[str, str, type]]:
    """Each key, the models that take it, and its class."""
    for models, (module, table) in REGISTRIES.items():
        registry = getattr(importlib.import_module(module), table)
        for key, kind in registry.items():
            name, *unit = (key,) if isinstance(key, str) else key
            yield name, ": ".join([models, *unit]), kind


def _keys(folder: Path) -> str:
    """Write a page for each key; the table that lists them."""
    folder.mkdir(exist_ok=True)
    pages: dict[str, list[tuple[str, type]]] = {}
    for key, models, kind in kinds():
        pages.setdefault(key, []).append((models, kind))
    rows = []
    for key, classes in sorted(pages.items()):
        parts = [_title(key, "=")]
        for models, kind in classes:
            name = f"{kind.__module__}.{kind.__qualname__}"
            parts += [_title(models, "-"), f".. autoclass:: {name}\n"]
            summary = (inspect.getdoc(kind) or "").partition("\n")[0]
            row = f"   * - :doc:`{key} <keys/{key}>`\n     - {models}\n     - {summary}"
            rows.append(row)
        _write(folder / f"{key}.rst", "\n".join(parts))
    head = ".. list-table::\n   :header-rows: 1\n\n   * - key\n     - models"
    rows.insert(0, f"{head}\n     - method")
    tree = ".. toctree::\n   :hidden:\n   :glob:\n\n   keys/*\n"
    return "\n".join([KEYS, *rows, "", tree])


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
