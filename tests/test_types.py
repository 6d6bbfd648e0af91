"""What editors and type checkers know of the names that users import from skdp."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import skdp

ROOT = Path(skdp.__file__).parents[1]
FINE = """
from skdp import BudgetLedger, DPGradientBoostingClassifier, DPLogisticRegression
from skdp import TableEncoder, forecast
from skdp.columns import Boolean, Range
ledger = BudgetLedger.open("study.db")
model = DPLogisticRegression(1.0, classes=[0, 1], ledger=ledger).fit([[0.0]], [0])
left: float = ledger.remaining().epsilon
records: int = forecast(10, 2).records_for_little_noise
label: str = model.solver
short = {"age": (17, 90), "sex": ["F", "M"]}
mixed = {"age": Range(17, 90, missing=True), "sex": ["F", "M"], "member": Boolean()}
for columns in (short, mixed, [(0, 1), ["a"]], (0, 1), TableEncoder(mixed), None):
    names: list[str] = list(DPLogisticRegression(1.0, columns=columns).effects())
model.set_params(columns=TableEncoder(short), columns__n_knots=9)
boosted = DPGradientBoostingClassifier(1.0, columns=short, max_interaction=2)
least: float = boosted.fit([[0.0]], [0]).shape_functions_.intercept.min()
"""
# What a user may mistype, and what is said of it.
MISTAKES = {
    "from skdp import DPLogisticRegresion": "has no attribute",
    "import skdp; skdp.forcast": "has no attribute",
    'DPLogisticRegression(1.0, solvr="x")': "Unexpected keyword argument",
    'DPLogisticRegression(1.0, colums={"age": (17, 90)})': "Unexpected keyword",
    'DPLogisticRegression({"age": (17, 90)})': "Argument",
    "TableEncoder(short, n_knot=9)": "Unexpected keyword argument",
    "TableEncoder(short, n_knots=None)": "Argument",
    'Range("17", "90")': "Argument",
    "model.effects(model.coef_)": "Too many arguments",
    "ages: list[float] = model.effects()": "Incompatible types",
    'DPLogisticRegression(epsilon="one")': "Argument",
    'BudgetLedger("study.db")': "Missing named argument",
    "wrong: str = ledger.remaining().epsilon": "Incompatible types",
}


def seen_by_type_checkers(source):
    """Name and home of what is imported under TYPE_CHECKING."""
    tests = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
    return {
        alias.asname: node.module
        for test in tests
        for node in test.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_type_checkers_see_what_is_loaded_and_nothing_else():
    source = Path(skdp.__file__).read_text()
    assert seen_by_type_checkers(source) == skdp._HOMES
    twin = source.replace("        forecast as forecast,\n", "")
    assert seen_by_type_checkers(twin) != skdp._HOMES


def mypy(script):
    """Lines of mypy about a user's script, by their number."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", str(script)],
        capture_output=True,
        text=True,
        cwd=script.parent,
        env=os.environ | {"MYPYPATH": str(ROOT)},
        timeout=600,
    )
    assert not done.stderr, done.stderr
    lines = [line for line in done.stdout.splitlines() if ": error: " in line]
    told = [line.split(":", 2) for line in lines]
    return {int(line): text for name, line, text in told if name == script.name}


def test_a_users_mistakes_are_found_and_nothing_else(tmp_path):
    script = tmp_path / "user.py"
    script.write_text(FINE + "\n".join(MISTAKES))
    (tmp_path / "mypy.ini").write_text("[mypy]\nignore_missing_imports = True\n")
    first = FINE.count("\n") + 1
    found = mypy(script)
    expected = dict(enumerate(MISTAKES.values(), start=first))
    assert found.keys() == expected.keys()
    for line, words in expected.items():
        assert words in found[line]


@pytest.mark.parametrize("name", ["DPLogisticRegresion", "__wrapped__"])
def test_a_misspelt_name_is_refused_when_it_runs(name):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
        getattr(skdp, name)
