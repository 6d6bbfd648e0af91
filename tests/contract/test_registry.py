"""A key is in all of its places; nothing in solver_params can touch privacy."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest

from skdp.ensemble import BOOSTERS
from skdp.neural_network import NETWORK_SOLVERS
from skdp.solvers import SOLVERS
from tests.problems import SOLVER_PARAMS

ROOT = Path(__file__).parents[2]
PAPERS = {key for key in SOLVERS if SOLVERS[key].__module__.startswith("skdp.papers.")}
FORBIDDEN = (
    "sigma",
    "noise",
    "sensitiv",
    "random",
    "seed",
    "sampl",
    "epsilon",
    "delta",
)


@pytest.mark.parametrize("key", SOLVERS)
def test_one_key_in_all_places(key):
    assert SOLVERS[key].key == key
    room = "papers" if key in PAPERS else "solvers"
    assert SOLVERS[key].__module__.startswith(f"skdp.{room}._")
    assert (ROOT / f"tests/{room}/test_{key}.py").is_file()
    assert key in SOLVER_PARAMS


@pytest.mark.parametrize("key", BOOSTERS)
def test_one_key_in_all_places_of_boosted_trees(key):
    assert BOOSTERS[key].key == key
    assert BOOSTERS[key].__module__ == "skdp.ensemble._boosting"
    assert (ROOT / f"tests/ensemble/test_{key}.py").is_file()


@pytest.mark.parametrize("key", NETWORK_SOLVERS)
def test_one_key_in_all_places_of_networks(key):
    assert NETWORK_SOLVERS[key].key == key
    assert NETWORK_SOLVERS[key].__module__ == "skdp.neural_network._solvers"
    assert (ROOT / f"tests/neural_network/test_{key}.py").is_file()


KINDS = [*SOLVERS.values(), *BOOSTERS.values(), *NETWORK_SOLVERS.values()]


def lacks(docstring, parameters, *, is_private=True):
    """What a docstring lacks that is to be a page of the reference."""
    start, *rest = re.split(r"\n+(\w+)\n-+\n", inspect.cleandoc(docstring or ""))
    sections = dict(zip(rest[::2], rest[1::2], strict=True))
    found = [] if re.match(r".+\.\n\n.+", start) else ["a summary of one line"]
    found += [name for name in SECTIONS if name not in sections]
    names = re.findall(r"^\w[^:\n]*", sections.get("Parameters", ""), re.M)
    found += sorted(set(parameters) - set(re.findall(r"\w+", " ".join(names))))
    pages = re.findall(r"``(docs/proofs/\w+\.md)``", sections.get("Notes", ""))
    if is_private and not pages:
        found.append("a proof")
    return found + [page for page in pages if not (ROOT / page).is_file()]


SECTIONS = ("Parameters", "Notes", "References")


@pytest.mark.parametrize("kind", KINDS)
def test_the_docstring_of_a_solver_is_its_page(kind):
    assert lacks(kind.__doc__, [*kind.checks, *kind.given_checks]) == []


@pytest.mark.parametrize(
    ("old", "new", "lacking"),
    [
        ("One answer.\n", "One answer\n", "a summary of one line"),
        ("Notes\n-----\n", "", "Notes"),
        ("References\n----------\n", "", "References"),
        ("law, tail", "law", "tail"),
        ("``docs/proofs/adder.md``", "the proof", "a proof"),
        ("docs/proofs/adder.md", "docs/proofs/gone.md", "docs/proofs/gone.md"),
    ],
)
def test_what_a_docstring_lacks_is_found(old, new, lacking):
    page = (
        "One answer.\n\nUse it.\n\nParameters\n----------\nlaw, tail : float\n"
        "\nNotes\n-----\nProof: ``docs/proofs/adder.md``.\n"
        "\nReferences\n----------\n.. [1] None.\n"
    )
    assert lacks(page, ["law", "tail"]) == []
    assert lacking in lacks(page.replace(old, new), ["law", "tail"])


@pytest.mark.parametrize("kind", KINDS)
def test_no_parameter_touches_noise_or_randomness(kind):
    names = [field.name for field in fields(kind)]
    for name in (*names, *kind.given_checks):
        assert not any(word in name for word in FORBIDDEN)


def test_registry_is_sorted_the_annex_last():
    for table in (BOOSTERS, NETWORK_SOLVERS):
        assert list(table) == sorted(table)
    house = [key for key in SOLVERS if key not in PAPERS]
    assert list(SOLVERS) == [*sorted(house), *sorted(PAPERS)]
