"""Each planted bug still applies, changes code, and names tests that are there."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from tests.bugs import BUGS
from tests.bugs.bug import KINDS, ROOT, Bug


@cache
def text_of(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


@cache
def code_of(file: str) -> str:
    return ast.dump(ast.parse(text_of(file)))


def complaints(bug: Bug) -> list[str]:
    """What is wrong with the entry of a bug."""
    found = []
    if bug.kind not in KINDS:
        found.append(f"unknown kind {bug.kind!r}")
    try:
        patched = bug.patched(text_of(bug.file))
        if ast.dump(ast.parse(patched)) == code_of(bug.file):
            found.append("the patch changes no code")
    except (SyntaxError, ValueError) as error:
        found.append(str(error))
    if not bug.found_by:
        found.append("no test is named")
    for test in bug.found_by:
        path, _, name = test.partition("::")
        place = ROOT / path
        name = name.partition("[")[0]
        if not place.is_file():
            found.append(f"there is no file {path}")
        elif name and f"def {name}(" not in text_of(path):
            found.append(f"there is no {name} in {path}")
    return found


def test_every_bug_applies_and_names_its_tests():
    assert {bug.name: complaints(bug) for bug in BUGS if complaints(bug)} == {}


def test_there_are_enough_bugs_of_every_kind():
    names = Counter(bug.name for bug in BUGS)
    kinds = Counter(bug.kind for bug in BUGS)
    assert max(names.values()) == 1
    assert len(BUGS) >= 510
    assert all(kinds[kind] >= 3 for kind in KINDS), kinds


@pytest.mark.parametrize(
    "changed",
    [
        {"old": "a text that is not there"},
        {"new": BUGS[0].old},
        {"new": "(", "old": BUGS[0].old},
        {"found_by": ()},
        {"found_by": ("tests/test_nothing.py",)},
        {"found_by": ("tests/bugs/test_bugs.py::test_nothing",)},
        {"kind": "none"},
    ],
)
def test_broken_twin_of_an_entry_is_found(changed):
    assert complaints(replace(BUGS[0], **changed))
