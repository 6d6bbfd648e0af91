"""docs/notebook/papers.md: every row has a status, and what a row names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from skdp.solvers import SOLVERS

ROOT = Path(__file__).parents[1]
STATUSES = ("works", "benchmark", "refused", "not yet")
# What works is held by a test, what is measured can be run, and a refusal has a reason.
PROOFS = {"works": r"`|\]\(", "benchmark": r"`", "refused": r"\w{3}"}


def rows(text):
    """The cells of all rows of all tables that have a status."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        is_row = line.startswith("| ") and len(cells) >= 2
        if is_row and cells[1] != "status" and not line.startswith("|---"):
            yield cells


def problems(text):
    """What is wrong with a page, row by row."""
    found = []
    for what, status, *where in rows(text):
        kind = next((one for one in STATUSES if status.startswith(one)), None)
        told = " ".join([status, *where])
        if kind is None:
            found.append(f"{what}: no such status: {status}")
            continue
        shown = told.removeprefix(kind)
        if kind in PROOFS and not re.search(PROOFS[kind], shown):
            found.append(f"{what}: {kind}, and nothing that shows it")
        found += [f"{what}: no {name}" for name in missing(told)]
    return found


def missing(text):
    """Files, modules and solvers that a row names and that are not there."""
    for path in re.findall(r"`((?:tests|skdp|benchmarks|docs)/[\w./]+)`", text):
        if not (ROOT / path).exists():
            yield path
    for module in re.findall(r"`python -m (benchmarks\.\w+)", text):
        if not (ROOT / (module.replace(".", "/") + ".py")).exists():
            yield module
    for key in re.findall(r'solver="(\w+)"', text):
        if key not in SOLVERS and key not in ("hamsi", "als", "sgd", "lbfgs"):
            yield key


def test_every_row_has_a_status_and_names_what_there_is():
    text = (ROOT / "docs" / "notebook" / "papers.md").read_text(encoding="utf-8")
    assert len(list(rows(text))) > 50
    assert problems(text) == []


@pytest.mark.parametrize(
    "row",
    [
        "| Algorithm 9 | done | `tests/test_papers.py` |",
        "| Algorithm 9 | works | |",
        "| Algorithm 9 | works | `tests/solvers/test_nothing.py` |",
        '| Algorithm 9 | works | `solver="nothing"` |',
        "| figure 9 | benchmark | `python -m benchmarks.nothing` |",
        "| figure 9 | refused | |",
    ],
)
def test_broken_rows_are_found(row):
    assert len(problems(row)) == 1
