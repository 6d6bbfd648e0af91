"""Imports run one way: no module and no room leads back to itself, nor out of skdp.

Imports inside of functions count: they hide a circle, they do not open it.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import skdp
from tests.imports import circles, graph, imported, of_rooms, sources

PACKAGE = Path(skdp.__file__).parent
OUTSIDE = ("benchmarks", "tests", "examples")


def outsiders(modules):
    """Modules and what they import from beside the package."""
    return {
        (name, target)
        for name, source in modules.items()
        for target in imported(source)
        if target.partition(".")[0] in OUTSIDE
    }


def test_no_module_leads_back_to_itself():
    assert circles(graph(sources(PACKAGE))) == set()


def test_no_room_leads_back_to_itself():
    rooms = of_rooms(graph(sources(PACKAGE)))
    assert {"skdp.solvers", "skdp.privacy", "skdp._base"} < rooms.keys()
    assert circles(rooms) == set()


ANNEX = "skdp.io.engines"
# The other annex (tests/test_annex.py), which trains inside of an engine.
PAPERS = "skdp.papers"


def visitors(annex, arrows):
    """Modules outside of an annex that import from it."""
    return {
        name
        for name, targets in arrows.items()
        if not _is_within(annex, name) and any(_is_within(annex, t) for t in targets)
    }


def _is_within(annex, name):
    return f"{name}.".startswith(f"{annex}.")


def test_nothing_in_the_house_imports_the_annex():
    arrows = graph(sources(PACKAGE))
    assert f"{ANNEX}._postgres" in arrows
    found = visitors(ANNEX, arrows)
    assert {name for name in found if not _is_within(PAPERS, name)} == set()


def test_nothing_outside_of_the_package_is_imported():
    modules = sources(PACKAGE)
    assert {"skdp", "skdp.solvers", "skdp.solvers._registry"} < modules.keys()
    assert not outsiders(modules)


def repeated(modules):
    """Names that stand for two classes."""
    names = [
        node.name
        for source in modules.values()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
    ]
    return {name for name in names if names.count(name) > 1}


def test_no_name_stands_for_two_classes():
    assert repeated(sources(PACKAGE)) == set()


# --------------------------------------------------- broken twins, on made-up sources

LAZY = "def f():\n    from house.stairs import up"
TYPES = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from house.stairs import up
"""


@pytest.mark.parametrize(
    "back", ["import house.stairs", "from house import stairs", LAZY]
)
def test_broken_twin_with_a_circle_is_found(back):
    modules = {
        "house": "",
        "house.stairs": "from house.rooms.attic import Attic",
        "house.rooms": "from house.rooms.attic import Attic",
        "house.rooms.attic": "import math\nfrom house import name",
    }
    assert circles(graph(modules)) == set()
    modules["house.rooms.attic"] = back
    assert circles(graph(modules)) == {frozenset({"house.stairs", "house.rooms.attic"})}


def test_broken_twin_with_a_circle_of_rooms_is_found():
    modules = {
        "house": "",
        "house.hall.door": "from house.attic.box import Box",
        "house.hall.floor": "import math",
        "house.attic": "",
        "house.attic.box": "from house.attic.lid import Lid",
        "house.attic.lid": "",
    }
    assert circles(of_rooms(graph(modules))) == set()
    modules["house.attic.lid"] = "from house.hall.floor import floor"
    assert circles(graph(modules)) == set()
    assert circles(of_rooms(graph(modules))) == {
        frozenset({"house.hall", "house.attic"})
    }


def test_broken_twin_that_imports_the_annex_is_found():
    modules = {
        "house.shed": "",
        "house.shed.tools": "from house.shed import spade",
        "house.shed_key": "import math",
        "house.hall": "",
    }
    assert visitors("house.shed", graph(modules)) == set()
    modules["house.hall"] = "def f():\n    from house.shed.tools import saw"
    assert visitors("house.shed", graph(modules)) == {"house.hall"}


def test_a_circle_through_the_names_of_a_package_is_found():
    modules = {
        "house": "from house.stairs import up",
        "house.stairs": "from house import down",
    }
    assert circles(graph(modules)) == {frozenset(modules)}


def test_circles_apart_are_two_and_what_leads_to_them_is_in_none():
    arrows = {
        "door": {"a", "x"},
        "a": {"b"},
        "b": {"c", "x"},
        "c": {"a"},
        "x": {"y"},
        "y": {"x", "wall"},
        "wall": set(),
    }
    assert circles(arrows) == {frozenset("abc"), frozenset("xy")}


def test_imports_for_type_checkers_only_do_not_count():
    assert imported(TYPES) == {"typing.TYPE_CHECKING"}
    assert "house.stairs.up" in imported(TYPES + "else:\n    " + TYPES.split("\n")[3])


@pytest.mark.parametrize(
    "twin",
    ["import benchmarks", "def f():\n    from benchmarks._tables import load"],
)
def test_broken_twin_that_imports_benchmarks_is_found(twin):
    assert len(outsiders({"skdp.fine": "import math", "skdp.twin": twin})) == 1


def test_broken_twin_of_a_class_is_found():
    modules = {"house.hall": "class Door: ...", "house.attic": "class Lid: ..."}
    assert repeated(modules) == set()
    modules["house.cellar"] = "class Door: ..."
    assert repeated(modules) == {"Door"}
