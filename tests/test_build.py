"""What `make build` makes: the same bytes for all, and everything in them.

The build itself, which compares two of them, takes half a minute: `make build`.
"""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import tomllib
from pathlib import Path

import pytest

from tests.test_site import loaded

ROOT = Path(__file__).parents[1]
build = loaded(ROOT / ".ci/build.py")
smoke = loaded(ROOT / ".ci/smoke.py")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SITE = PROJECT["urls"]["Documentation"]


def archive(path, members, mtime, mode=0o644, owner="me"):
    """A source archive as somebody's machine would write it."""
    with (
        path.open("wb") as file,
        gzip.GzipFile("x", "wb", 9, file, mtime=mtime) as packed,
        tarfile.open(fileobj=packed, mode="w") as files,
    ):
        for name in members:
            member = tarfile.TarInfo(name)
            member.mtime, member.mode, member.uname = mtime, mode, owner
            content = name.encode()
            member.size = len(content)
            files.addfile(member, io.BytesIO(content))
    return path


def test_an_archive_does_not_tell_who_packed_it_when(tmp_path):
    one = archive(tmp_path / "1.tar.gz", ["p/a", "p/b"], 10)
    other = archive(tmp_path / "2.tar.gz", ["p/b", "p/a"], 20, 0o600, "you")
    assert one.read_bytes() != other.read_bytes()
    assert build.repacked(one, 5) == build.repacked(other, 5)
    (tmp_path / "3.tar.gz").write_bytes(build.repacked(one, 5))
    assert build.names_in(tmp_path / "3.tar.gz") == {"a", "b"}


@pytest.mark.parametrize("change", [{"mode": 0o755}, {"members": ["p/a"]}])
def test_what_matters_of_an_archive_stays(change, tmp_path):
    given = {"members": ["p/a", "p/b"], "mtime": 10}
    one = archive(tmp_path / "1.tar.gz", **given)
    other = archive(tmp_path / "2.tar.gz", **(given | change))
    assert build.repacked(one, 5) != build.repacked(other, 5)


def test_what_an_archive_lacks_is_found():
    committed = {"skdp/a.py", "tests/b.py"}
    assert not build.left_out(committed, committed, {"skdp/a.py"})
    assert build.left_out(committed, {"skdp/a.py"}, {"skdp/a.py"}) == {"tests/b.py"}
    assert build.left_out(committed, committed, set()) == {"skdp/a.py"}


def links(page):
    return re.findall(r"\]\(([^)]+)\)", page)


def test_links_of_the_package_page_lead_to_pages_that_there_are():
    page = build.absolute((ROOT / "README.md").read_text(), SITE)
    found = links(page)
    assert len(found) >= 6
    for link in found:
        assert link.startswith(SITE), link
        name = link.removeprefix(SITE).partition("#")[0].removesuffix(".html")
        if name.endswith(".png"):
            assert (ROOT / "docs" / name).is_file(), name
            continue
        assert name == "gallery/index" or (ROOT / "docs" / f"{name}.md").is_file(), name


def test_broken_twin_with_a_link_to_a_file_is_found():
    (link,) = links(build.absolute("[x](skdp/__init__.py)", SITE))
    assert not link.startswith(SITE)
    (link,) = links(build.absolute("[x](docs/faq.md#y)", SITE))
    assert link == f"{SITE}faq.html#y"


def test_the_smoke_test_tries_what_is_supported():
    named = [f"Programming Language :: Python :: {each}" for each in smoke.supported()]
    assert len(named) >= 4
    assert set(named) <= set(PROJECT["classifiers"])
    lowest, highest = re.findall(r"3\.\d+", PROJECT["requires-python"])
    after = f"3.{int(smoke.supported()[-1].partition('.')[2]) + 1}"
    assert (lowest, highest) == (smoke.supported()[0], after)


def test_a_name_on_the_path_that_stands_for_nothing_is_passed_over(tmp_path):
    fake = tmp_path / "python3.99"
    fake.write_text("#!/bin/sh\nexit 127\n")
    fake.chmod(0o755)
    assert smoke.runs(str(fake)) is None
    assert smoke.runs(str(tmp_path / "absent")) is None


def test_only_named_dependencies_have_upper_bounds():
    page = (ROOT / "docs/support.md").read_text()
    extras = PROJECT["optional-dependencies"].values()
    needed = [*PROJECT["dependencies"], *(each for extra in extras for each in extra)]
    bounded = [re.split(r"[<>=\[]", each)[0] for each in needed if "<" in each]
    assert bounded == ["dp-accounting"]
    assert "`dp-accounting` is held below 0.7" in page
    assert not [each for each in needed if "==" in each]


def test_the_changelog_begins_with_the_version():
    import skdp

    text = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(r"^## (\S+)", text, re.MULTILINE)[1] == skdp.__version__
