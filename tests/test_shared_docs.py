"""Parts of docstrings that estimators share: each is filled in, in the right order."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import skdp
from skdp._base import StoredEstimator
from skdp._shared_docs import SHARED, fill_docs

ROOMS = ("", ".model_selection", ".ensemble", ".neural_network", ".preprocessing")
NAMED = re.compile(r"^\s*%\(([\w, ]+)\)s$", re.MULTILINE)


def public():
    """What users may import from the rooms of estimators, each once."""
    rooms = [importlib.import_module(f"skdp{room}") for room in ROOMS]
    found = [getattr(room, name) for room in rooms for name in room.__all__]
    return list(dict.fromkeys(each for each in found if callable(each)))


ESTIMATORS = [
    each
    for each in public()
    if inspect.isclass(each) and issubclass(each, StoredEstimator)
]


def docs_of(documented):
    """Docstrings of a class and of its methods, or of a function."""
    methods = (
        inspect.getmembers(documented, inspect.isfunction)
        if inspect.isclass(documented)
        else []
    )
    return [each.__doc__ or "" for each in (documented, *dict(methods).values())]


def parameters_in(text):
    """Names of the parameters in a docstring, in its order."""
    after = text.partition("Parameters\n----------\n")[2]
    section = re.split(r"\n\n\S[^\n]*\n---", after)[0]
    headings = re.findall(r"^\S.*", section, re.MULTILINE)
    return [name for line in headings for name in line.split(" :")[0].split(", ")]


def test_no_docstring_has_a_placeholder():
    assert len(ESTIMATORS) >= 22
    texts = [text for each in public() for text in docs_of(each)]
    assert sum(SHARED["ledger"] in text for text in texts) >= 20
    assert [text for text in texts if NAMED.search(text)] == []


def test_each_shared_part_is_used():
    package = Path(skdp.__file__).parent
    texts = "\n".join(path.read_text() for path in package.rglob("*.py"))
    used = {name for names in NAMED.findall(texts) for name in names.split(", ")}
    assert used == set(SHARED)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_parameters_are_documented_in_the_order_of_the_constructor(kind):
    text = inspect.getdoc(kind)
    assert parameters_in(text) == list(inspect.signature(kind).parameters)


def test_an_entry_keeps_what_a_class_adds():
    class Own(StoredEstimator):
        """An estimator.

        Parameters
        ----------
        %(delta, ledger)s
            Only here.
        epsilon : float
            %(epsilon)s
        """

        def fit(self, X):
            """Fit.

            Raises
            ------
            %(BudgetExceeded)s
            """

    body = SHARED["epsilon"].partition("\n")[2]
    entries = f"{SHARED['delta']}\n{SHARED['ledger']}\n    Only here."
    assert Own.__doc__.rstrip().endswith(f"{entries}\nepsilon : float\n{body}")
    assert Own.fit.__doc__.endswith(f"{SHARED['BudgetExceeded']}\n")
    assert parameters_in(Own.__doc__) == ["delta", "ledger", "epsilon"]


def test_broken_twin_with_an_unknown_placeholder_fails_where_it_is_defined():
    with pytest.raises(KeyError, match="epsilom"):

        class Twin(StoredEstimator):
            """An estimator.

            %(delta, epsilom)s
            """

    with pytest.raises(KeyError, match="epsilom"):

        @fill_docs
        def twin():
            """Release something.

            %(epsilom)s
            """


@pytest.mark.long
def test_every_module_can_be_imported_without_docstrings():
    rooms = [f"skdp{room}" for room in ROOMS]
    code = (
        f"import importlib; rooms = [importlib.import_module(x) for x in {rooms}]\n"
        "print(*{getattr(room, name).__doc__ for room in rooms\n"
        "        for name in room.__all__ if isinstance(getattr(room, name), type)\n"
        "        and name.startswith('DP')})"
    )
    command = [sys.executable, "-OO", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["None"]
