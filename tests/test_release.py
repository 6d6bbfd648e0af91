"""The files of continuous integration, and the placeholders that owners fill in."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.test_site import loaded

ROOT = Path(__file__).parents[1]
release_check = loaded(ROOT / ".ci/release_check.py")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MAKEFILE = (ROOT / "Makefile").read_text()
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def commands(text):
    """What the steps of a workflow run."""
    jobs = yaml.safe_load(text)["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


def strangers(text):
    """Commands of a workflow that are not one target of the Makefile."""
    targets = set(re.findall(r"^([a-z][\w-]*):", MAKEFILE, re.MULTILINE))
    form = re.compile(r"make ([\w-]+)( [A-Z]+=\w+)*")
    found = [(command, form.fullmatch(command)) for command in commands(text)]
    return [command for command, match in found if not match or match[1] not in targets]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_run_targets_of_the_makefile_only(path):
    text = path.read_text()
    assert len(commands(text)) >= 3
    assert strangers(text) == []
    assert strangers(text.replace("make ", "pip install ", 1))  # broken twin
    assert strangers(text.replace("make ", "make absent-", 1))


def test_the_matrix_has_the_pythons_of_the_package():
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    matrix = jobs["test"]["strategy"]["matrix"]
    names = [each.rpartition(" ")[2] for each in PROJECT["classifiers"]]
    assert matrix["python"] == [name for name in names if re.match(r"3\.\d", name)]
    assert len(matrix["os"]) == 3


def test_the_release_checks_before_it_builds_and_stores_no_secret():
    text = (ROOT / ".github/workflows/release.yml").read_text()
    assert commands(text)[:2] == [
        "make release-check PYTHON=python",
        "make build PYTHON=python",
    ]
    publish = yaml.safe_load(text)["jobs"]["publish"]
    assert publish["permissions"]["id-token"] == "write"
    assert publish["needs"] == "build"
    assert "secrets." not in text


def test_linters_accept_the_workflows():
    done = subprocess.run(["make", "-n", "workflows"], cwd=ROOT, capture_output=True)
    assert done.returncode == 0
    programs = [shutil.which(name) for name in ("check-jsonschema", "zizmor")]
    if not all(programs):
        pytest.skip("needs check-jsonschema and zizmor: make dev")
    form = [programs[0], "--builtin-schema", "vendor.github-workflows"]
    subprocess.run([*form, *map(str, WORKFLOWS)], check=True)
    subprocess.run([programs[1], "--offline", "--quiet", ROOT / ".github"], check=True)


# What is left to fill in: nothing else, and nothing less while there is no home.
LEFT = {
    ".github/ISSUE_TEMPLATE/config.yml": ["github.com/OWNER/"],
    "CITATION.cff": ["GIVEN-NAME", "FAMILY-NAME", "AFFILIATION", "github.com/OWNER/"],
    "CODE_OF_CONDUCT.md": ["conduct@OWNER.example"],
    "SECURITY.md": ["github.com/OWNER/", "security@OWNER.example"],
    "paper/paper.md": [
        "GIVEN-NAME",
        "FAMILY-NAME",
        "0000-0000-0000-0000",
        "AFFILIATION",
    ],
    "pyproject.toml": ["github.com/OWNER/"] * 3,
}


def left(root):
    found: dict[str, list[str]] = {}
    for file, _, what in release_check.placeholders(root):
        found.setdefault(file, []).append(what)
    return found


def test_only_what_owners_can_fill_in_is_left():
    assert left(ROOT) == LEFT
    for file, words in LEFT.items():  # no other word in capitals hides one
        text = (ROOT / file).read_text()
        assert text.count("OWNER") - text.count("# OWNER") == sum(
            "OWNER" in word for word in words
        )


def test_a_placeholder_is_found_and_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(release_check, "ROOT", tmp_path)
    (tmp_path / "SECURITY.md").write_text("Write to somebody@skdp.example.\n")
    assert release_check.main() == 0
    (tmp_path / "SECURITY.md").write_text("Write to security@OWNER.example.\n")
    assert release_check.main() == 1
    assert "SECURITY.md:1: security@OWNER.example" in capsys.readouterr().out


def test_every_place_has_the_address_of_the_package():
    source = PROJECT["urls"]["Source"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["repository-code"] == source
    assert citation["url"] == PROJECT["urls"]["Documentation"]
    for name in ("Issues", "Changelog"):
        assert PROJECT["urls"][name].startswith(source + "/")
    for file in ("SECURITY.md", ".github/ISSUE_TEMPLATE/config.yml"):
        text = (ROOT / file).read_text()
        assert f"{source}/security/advisories/new" in text
