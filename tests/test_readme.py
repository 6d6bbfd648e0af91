"""The README's example runs as it is printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def first_example(text):
    """The first block of Python in a page."""
    return re.search(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)[1]


def run(code, folder):
    """A script of a user's, in an empty folder; warnings are errors."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=120,
    )


@pytest.fixture(scope="module")
def example():
    return first_example((ROOT / "README.md").read_text())


def test_the_example_runs_as_printed_and_again_until_the_cap(example, tmp_path):
    done = run(example, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "differentially private under replace_one" in done.stdout
    assert "1 releases" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["study.db"]
    again = run(example + "\nwhile True: model.fit(X, y)", tmp_path)
    assert "2 releases" in again.stdout
    assert "BudgetExceeded: " in again.stderr


def test_broken_twin_with_undefined_data_is_found(example, tmp_path):
    twin = re.sub(r"^X = .*\n", "", example, flags=re.MULTILINE)
    done = run(twin, tmp_path)
    assert done.returncode != 0
    assert "NameError" in done.stderr
