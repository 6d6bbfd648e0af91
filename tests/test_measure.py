"""What `python -m tests.measure` counts."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import skdp
from tests.measure import ANNEXES, Size, entered, entered_by_fits, size_of, sizes

SOURCE = '''"""A module
of two lines."""

import math
from os import (
    path,
)

# A reason.
class Door:
    """A door."""

    name = """no
docstring"""

    def open(self):
        """Open it."""
        async def inner():  # code
            return math, path
        return inner
'''


def test_lines_with_code_and_names_are_counted():
    assert size_of(SOURCE) == Size(files=1, code=11, imports=4, functions=2, classes=1)
    assert size_of("") == Size(files=1)


def test_sizes_add_up_and_imports_are_a_share():
    total = size_of(SOURCE) + size_of("import math\n\n")
    assert total == Size(files=2, code=12, imports=5, functions=2, classes=1)
    assert total.import_share == pytest.approx(5 / 12)
    assert Size().import_share == 0


def test_files_are_counted_with_their_rooms(tmp_path):
    for name in (
        "skdp/__init__.py",
        "skdp/_loose.py",
        "skdp/io/_files.py",
        "skdp/io/engines/_far.py",
        "tests/io/test_io.py",
        "docs/conf.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    assert {name: size.files for name, size in sizes(tmp_path).items()} == {
        "skdp, loose files": 2,
        "skdp/io": 1,
        ANNEXES[0]: 1,
        "tests": 1,
    }


def test_a_call_enters_files_of_one_folder(tmp_path):
    one = loaded(tmp_path / "house" / "one.py", "def f(g): return g() + g()")
    two = loaded(tmp_path / "house" / "two.py", "def g(): return 1\ndef h(): return 2")
    far = loaded(tmp_path / "houses" / "far.py", "def g(): return 1")
    found = entered(lambda: one.f(two.g) + far.g(), tmp_path / "house")
    assert {Path(name).name for name in found.files} == {"one.py", "two.py"}
    assert len(found.functions) == 2


def loaded(path, source):
    path.parent.mkdir(exist_ok=True)
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# The most files that a plain fit may enter: lower it when a change makes it less.
MOST_FILES = 47


def test_a_plain_fit_enters_few_files_and_no_annex():
    folder = Path(skdp.__file__).parent
    found = entered_by_fits(folder)
    for each in found.values():
        files = [Path(name).relative_to(folder.parent) for name in each.files]
        assert not [name for name in files if name.as_posix().startswith(ANNEXES)]
    assert len(found["DPLogisticRegression"].files) <= MOST_FILES
