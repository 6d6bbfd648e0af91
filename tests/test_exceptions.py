"""Errors and warnings lead to the page about them, and to nothing else."""

from __future__ import annotations

import inspect
import pickle
import re
import tomllib
from pathlib import Path

import pytest

from skdp import exceptions
from skdp.exceptions import DOCUMENTATION, BudgetExceeded, Refused, SourceError

ROOT = Path(__file__).parents[1]
CLASSES = [
    found
    for name, found in vars(exceptions).items()
    if inspect.isclass(found)
    and found.__module__ == "skdp.exceptions"
    and name[0] != "_"
]
ARGUMENTS = {
    "BudgetExceeded": (("No.",), {"ledger": "study.db", "exhausted": "epsilon"}),
    "InconsistentVersionWarning": (("a model", "0.1", "1.0", "Do."), {}),
}


def made(found):
    given, named = ARGUMENTS.get(found.__name__, (("No.",), {}))
    return found(*given, **named)


def headings(page):
    return re.findall(r"^### (\w+)$", page, re.MULTILINE)


def unexplained(classes, page):
    """Classes that lead to no section of a page."""
    anchors = {f"guide/faq.html#{name.lower()}" for name in headings(page)}
    leads = {each: str(made(each)).rpartition(DOCUMENTATION)[2] for each in classes}
    return [each.__name__ for each, anchor in leads.items() if anchor not in anchors]


PAGE = (ROOT / "docs/guide/faq.md").read_text()


def test_all_lead_to_a_section_of_the_page():
    assert len(CLASSES) >= 19
    assert unexplained(CLASSES, PAGE) == []
    assert headings(PAGE) == [each.__name__ for each in CLASSES]


def test_broken_twin_without_a_section_is_found():
    assert unexplained([Refused], PAGE.replace("### Refused", "")) == ["Refused"]


@pytest.mark.parametrize("found", CLASSES, ids=lambda each: each.__name__)
def test_the_message_comes_first_and_survives(found):
    error = made(found)
    assert str(error).count(DOCUMENTATION) == 1
    assert not str(error).startswith("See ")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_what_is_quoted_has_no_address():
    assert Refused("No.").args[0] == "No."


def test_the_address_does_not_follow_from_the_message():
    ends = {str(SourceError(text)).removeprefix(text) for text in ("a", "b", "")}
    assert len(ends) == 1


def test_classes_that_others_derive_lead_to_the_one_above():
    class Own(BudgetExceeded):
        pass

    error = Own("No.", ledger="study.db", exhausted="delta")
    assert str(error).endswith("guide/faq.html#budgetexceeded")


def test_the_site_is_that_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["urls"]["Documentation"] == DOCUMENTATION
    assert project["urls"]["Support"].startswith(DOCUMENTATION)
