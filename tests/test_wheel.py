"""What is installed: the library, and nothing that lies beside it."""

from __future__ import annotations

import tomllib
from pathlib import Path

from setuptools import find_packages

import skdp

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def packages(include):
    """What setuptools would put into a wheel."""
    return set(find_packages(str(ROOT), include=include))


def outsiders(names):
    return {name for name in names if name.partition(".")[0] != "skdp"}


def test_all_of_the_library_is_installed_and_nothing_else():
    assert not SETTINGS["packages"]["find"]["namespaces"]
    found = packages(SETTINGS["packages"]["find"]["include"])
    folders = {path.parent.relative_to(ROOT) for path in ROOT.glob("skdp/**/*.py")}
    assert found == {".".join(folder.parts) for folder in folders}
    assert not outsiders(SETTINGS["package-data"])


def test_broken_twin_that_installs_benchmarks_is_found():
    assert "benchmarks._papers" in outsiders(packages(["skdp*", "benchmarks*"]))
    assert "benchmarks" in outsiders(packages(["*"]))


GRAFTED = ("benchmarks", "docs", "examples", "tests")


def left_out(manifest):
    """Folders and pages that docstrings point to and a source archive would lack."""
    words = set(manifest.split())
    return {*GRAFTED, "CHANGELOG.md", "CONTRIBUTING.md", "Makefile"} - words


def test_the_source_archive_holds_docs_and_tests():
    assert not left_out((ROOT / "MANIFEST.in").read_text())
    assert all((ROOT / folder).is_dir() for folder in GRAFTED)


def test_broken_twin_without_docs_is_found():
    manifest = (ROOT / "MANIFEST.in").read_text().replace("graft docs", "")
    assert left_out(manifest) == {"docs"}


def test_the_citation_names_the_version():
    lines = (ROOT / "CITATION.cff").read_text().splitlines()
    assert f"version: {skdp.__version__}" in lines
