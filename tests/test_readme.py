"""The examples of the README and of the tour run as they are printed."""

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


# How far the model is above the larger class, on the records it has not seen: 0.39,
# with a standard deviation of 0.012 over data and noise, so that 0.2 is 15 of them off.
MARGIN = """
unseen = y[5000:]
right = (model.predict(table[5000:]) == unseen).mean()
assert right > max(unseen.mean(), 1 - unseen.mean()) + 0.2, right
"""


def test_the_example_runs_as_printed_and_again_until_the_cap(example, tmp_path):
    done = run(example + MARGIN, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "differentially private under replace_one" in done.stdout
    assert "2 releases" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["study.db"]
    again = run(example + "\nwhile True: model.fit(table, y)", tmp_path)
    assert "4 releases" in again.stdout
    assert "BudgetExceeded: " in again.stderr


def n_lines(example):
    """Lines of code but those that make data up."""
    code = [line for line in example.splitlines() if line and line[0] != "#"]
    return len([line for line in code if not line.startswith(("rng", "table", "y ="))])


def test_it_takes_a_table_in_few_lines(example):
    assert n_lines(example) <= 12
    assert n_lines(example + "\nprint(ledger)") == 13  # broken twin


def test_the_first_model_takes_ten_lines(example):
    to_model = example[: example.index("model.fit(") + len("model.fit(")]
    assert n_lines(to_model) <= 10


@pytest.mark.long
def test_broken_twin_of_a_model_that_is_a_constant_is_found(example, tmp_path):
    twin = example.replace("+ 20 * (table", "* 0 + 20 * (table").replace(
        "rng.normal(0, 9", "rng.normal(60, 999"
    )
    done = run(twin + MARGIN, tmp_path)
    assert "ConstantModelWarning" in done.stderr or "AssertionError" in done.stderr


def test_broken_twin_with_undefined_data_is_found(example, tmp_path):
    twin = re.sub(r"^table = .*\n", "", example, flags=re.MULTILINE)
    done = run(twin, tmp_path)
    assert done.returncode != 0
    assert "NameError" in done.stderr


def all_examples(text):
    """All blocks of Python in a page, one after another."""
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return "\n".join(blocks)


@pytest.mark.long
@pytest.mark.parametrize("page", ["tour", "tables"])
def test_a_page_that_says_it_runs_does(page, tmp_path):
    code = all_examples((ROOT / "docs" / "guide" / f"{page}.md").read_text())
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_a_page_whose_code_is_wrong_is_found(tmp_path):
    code = all_examples((ROOT / "docs" / "guide" / "tour.md").read_text())
    assert run(code.replace("classes=[0, 1]", "labels=[0, 1]"), tmp_path).returncode


def masked(letter):
    """A letter without dates, digests and the version."""
    letter = re.sub(r"\b[0-9a-f]{64}\b", "DIGEST", letter)
    letter = re.sub(r"\b\d{4}-\d\d-\d\d\b", "DATE", letter)
    return re.sub(r"library skdp [^:\s]+", "library skdp", letter)


@pytest.mark.long
def test_the_letter_of_the_guide_is_the_letter_of_the_tour(tmp_path):
    tour = (ROOT / "docs" / "guide" / "tour.md").read_text()
    letter = "from skdp.__main__ import main\nmain(['letter', 'study.db'])"
    assert run(all_examples(tour), tmp_path).returncode == 0
    printed = run(letter, tmp_path).stdout
    page = (ROOT / "docs" / "guide" / "before_you_sign.md").read_text()
    lines = page[page.index("\n> To:") + 1 :].splitlines()
    quoted = "\n".join(line.removeprefix(">").removeprefix(" ") for line in lines)
    assert masked(quoted).strip() == masked(printed).strip()
    assert masked(quoted) != masked(quoted.replace("epsilon 0.5", "epsilon 0.4"))
