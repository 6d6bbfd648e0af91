"""What editors and type checkers know of the names that users import from skdp."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

import skdp
from skdp.decomposition._plain import FACTORIZERS
from skdp.ensemble import BOOSTERS
from skdp.losses._objective import ACTIVATIONS
from skdp.model_selection import METHODS
from skdp.model_selection._calibrators import CALIBRATORS
from skdp.neural_network import NETWORK_SOLVERS
from skdp.papers._hamsi import SCHEDULES
from skdp.papers._hamsi_gradient import PARTITIONS
from skdp.solvers import SOLVERS

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
named = DPLogisticRegression(solver="tree_momentum", adjacency="zero_out")
weights: float = model.coef_.sum() + model.privacy_.epsilon
"""
# What a user may mistype, and what is said of it.
MISTAKES = {
    "from skdp import DPLogisticRegresion": "has no attribute",
    "import skdp; skdp.forcast": "has no attribute",
    'DPLogisticRegression(1.0, solvr="x")': "Unexpected keyword argument",
    'DPLogisticRegression(1.0, colums={"age": (17, 90)})': "Unexpected keyword",
    'DPLogisticRegression({"age": (17, 90)})': "Argument",
    'DPLogisticRegression(solver="foo")': 'Argument "solver"',
    "DPLogisticRegression(columns=3)": 'Argument "columns"',
    'DPLogisticRegression(adjacency="replace")': 'Argument "adjacency"',
    'DPLogisticRegression(privacy_unit="person")': 'Argument "privacy_unit"',
    'DPGradientBoostingClassifier(init="trees")': 'Argument "init"',
    "model.privacy_.epsilons": "has no attribute",
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


@pytest.mark.long
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


def literals(hint):
    """Values that a type names; None if it is one of several types."""
    if get_origin(hint) is Literal:
        return set(get_args(hint))
    if hint is type(None):
        return {None}
    return set().union(*map(literals, get_args(hint))) if get_args(hint) else set()


def choices_of(parameter, doc):
    """Values in the braces with which the type of a documented parameter begins."""
    found = re.search(rf"^{parameter} : (\{{[^}}]*\}})(.*)$", doc, re.M)
    if found is None:
        return None
    or_none = {None} if " or None" in found[2] else set()
    return ast.literal_eval(found[1]) | or_none


def untyped(call):
    """Parameters with documented choices of which the type says something else."""
    hints = get_type_hints(call.__init__ if inspect.isclass(call) else call)
    documented = {name: choices_of(name, inspect.getdoc(call) or "") for name in hints}
    return {
        name
        for name, values in documented.items()
        if values is not None and literals(hints[name]) != values
    }


@pytest.mark.parametrize("name", sorted(skdp._HOMES))
def test_documented_choices_are_those_of_the_type(name):
    assert untyped(getattr(skdp, name)) == set()


def test_a_choice_without_its_type_is_found():
    def call(solver: str, loss: Literal["a", "b"], init: Literal["c"] | None) -> None:
        """Broken twin.

        solver : {"auto"}
        loss : {"a"}
        init : {"c"} or None, default=None
        """

    assert untyped(call) == {"solver", "loss"}


SOLVERS_OF = {
    "skdp.linear_model": SOLVERS,
    "skdp.ensemble": BOOSTERS,
    "skdp.neural_network": NETWORK_SOLVERS,
    "skdp.decomposition": FACTORIZERS,
}
KEYS = [
    (name, "solver", {"auto", *SOLVERS_OF[home]})
    for name, home in skdp._HOMES.items()
    if "solver" in inspect.signature(getattr(skdp, name)).parameters
]
KEYS += [
    ("DPGridSearchCV", "method", {"auto", *METHODS}),
    ("DPRandomizedSearchCV", "method", {"auto", *METHODS}),
    ("DPCalibratedClassifier", "method", set(CALIBRATORS)),
    ("DPMLPClassifier", "activation", set(ACTIVATIONS)),
    ("DPMatrixFactorization", "partition", {None, *PARTITIONS}),
    ("DPMatrixFactorization", "schedule", {None, *SCHEDULES}),
]


@pytest.mark.parametrize(("name", "parameter", "keys"), KEYS)
def test_type_checkers_know_every_key(name, parameter, keys):
    kind = getattr(skdp, name)
    call = kind.__init__ if inspect.isclass(kind) else kind
    assert literals(get_type_hints(call)[parameter]) == keys
