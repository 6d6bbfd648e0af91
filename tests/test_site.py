"""What is checked of the built site, on sites of a few lines."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check = loaded(ROOT / "docs/_check.py")
links = loaded(ROOT / "docs/_links.py")
QUESTIONS = {"Which epsilon?": ("guide/epsilon", "Start from 1.")}


@pytest.fixture
def site(tmp_path):
    (tmp_path / "guide").mkdir()
    pages = {
        "index.html": '<a href="data.html">data</a>',
        "data.html": '<a href="guide/epsilon.html#how">how</a>',
        "guide/epsilon.html": '<h1 id="how">How</h1><p>Start\n <em>from</em> 1.</p>',
    }
    for name, text in pages.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_site_that_answers_passes(site):
    assert check.broken(site) == []
    assert check.unanswered(site, QUESTIONS) == []


def test_broken_twins_are_found(site):
    (site / "guide/epsilon.html").write_text("<p>It depends.</p>")
    assert check.broken(site) == ["data.html: guide/epsilon.html#how"]
    (found,) = check.unanswered(site, QUESTIONS)
    assert found.startswith("not answered: Which epsilon?")


def test_broken_twin_of_three_clicks_is_found(site):
    (site / "data.html").write_text('<a href="more.html">more</a>')
    (site / "more.html").write_text('<a href="guide/epsilon.html">epsilon</a>')
    (found,) = check.unanswered(site, QUESTIONS)
    assert found.startswith("more than 2 clicks away: Which epsilon?")


def test_questions_are_of_pages_that_there_are():
    names = [name for name, _ in check.QUESTIONS.values()]
    assert len(names) >= 11
    assert all((ROOT / "docs" / f"{name}.md").is_file() for name in names)


# A name of scikit-learn that a docstring's "See Also" sends the reader to.
SEE_ALSO = re.compile(r"^\s*(sklearn\.[\w.]+) :", re.MULTILINE)


def without_address(text):
    return [name for name in SEE_ALSO.findall(text) if links.address(name) is None]


def test_names_of_scikit_learn_have_addresses():
    text = "".join(path.read_text() for path in ROOT.glob("skdp/**/*.py"))
    assert len(SEE_ALSO.findall(text)) >= 12
    assert without_address(text) == []
    assert links.address("sklearn.svm.SVC") == (
        "https://scikit-learn.org/stable/modules/generated/sklearn.svm.SVC.html"
        "#sklearn.svm.SVC"
    )


@pytest.mark.parametrize(
    "name", ["sklearn.svm.SVX", "sklearn.vsm.SVC", "sklearn.svm._base.SVC", "os.path"]
)
def test_broken_twin_of_a_name_that_is_none_is_found(name):
    assert links.address(name) is None
    assert name == "os.path" or without_address(f"    {name} : Without privacy.")
