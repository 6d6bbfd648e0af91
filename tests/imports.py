"""Who imports whom, read from the source: nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set
from pathlib import Path


def sources(folder: Path) -> dict[str, str]:
    """The modules of a package, by the names they are imported under; no tests."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        if "tests" not in parts:
            found[".".join(parts).removesuffix(".__init__")] = path.read_text()
    return found


def imported(source: str) -> set[str]:
    """Full names that a module imports, in its functions too.

    What is imported for type checkers only is left out.
    """
    found: set[str] = set()
    for node in _run(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def _run(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    is_for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
    for child in node.orelse if is_for_types else ast.iter_child_nodes(node):
        yield from _run(child)


def graph(modules: Mapping[str, str]) -> dict[str, set[str]]:
    """By module, those among the others that it imports.

    ``from package import module`` leads to the module only: that importing it runs
    its package too is nothing that the module can help.

    Parameters
    ----------
    modules : mapping of str to str
        Sources by name.
    """
    return {
        name: {_module_of(target, modules) for target in imported(source)} - {name, ""}
        for name, source in modules.items()
    }


def of_rooms(arrows: Mapping[str, Set[str]]) -> dict[str, set[str]]:
    """The same of rooms: what lies directly in the package, a folder or a module."""
    found: dict[str, set[str]] = {}
    for name, targets in arrows.items():
        room = _room(name)
        found.setdefault(room, set()).update({_room(each) for each in targets} - {room})
    return found


def _room(module: str) -> str:
    return ".".join(module.split(".")[:2])


def _module_of(target: str, modules: Mapping[str, str]) -> str:
    """The module that a name is in, or nothing if it is in none of these."""
    while target and target not in modules:
        target = target.rpartition(".")[0]
    return target


def circles(arrows: Mapping[str, Set[str]]) -> set[frozenset[str]]:
    """Largest sets of modules of which each leads to all others and back."""
    beyond = {name: _reached(name, arrows) for name in arrows}
    return {
        frozenset(other for other in beyond[name] if name in beyond[other])
        for name in arrows
        if name in beyond[name]
    }


def _reached(start: str, arrows: Mapping[str, Set[str]]) -> set[str]:
    """Where arrows lead to; `start` itself only if it is on a circle."""
    found: set[str] = set()
    left = list(arrows[start])
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += arrows[name]
    return found
