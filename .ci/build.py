"""Wheel and source archive of the last commit: ``python .ci/build.py FOLDER``.

Both are built twice, under different conditions, and kept only if their bytes agree.
Nothing is in them but what is committed: files are those of ``git archive``.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What must not change a byte, beside folder and clock.
CONDITIONS = (
    {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C"},
    {"PYTHONHASHSEED": "1", "TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8"},
)
_LINK = re.compile(r"\]\(((?:docs|examples)/[^)#\s]*)(#[^)\s]*)?\)")


def absolute(page: str, site: str) -> str:
    """A page of the repository with its links to files leading to the site."""

    def on_the_site(match: re.Match[str]) -> str:
        path, anchor = match[1], match[2] or ""
        if path.startswith("examples/"):
            return f"]({site}gallery/index.html)"
        path = path.removeprefix("docs/")
        if path.startswith("_static/"):
            return f"]({site}{path})"
        path = path + "index.md" if path.endswith("/") else path
        return f"]({site}{path.removesuffix('.md')}.html{anchor})"

    return _LINK.sub(on_the_site, page)


def export(folder: Path) -> None:
    """Lay out the last commit, with links that work where its README is shown."""
    archive = _output(["git", "archive", "--format=tar", "HEAD"])
    (folder.with_suffix(".tar")).write_bytes(archive)
    with tarfile.open(folder.with_suffix(".tar")) as files:
        files.extractall(folder, filter="data")
    settings = tomllib.loads((folder / "pyproject.toml").read_text())
    readme = folder / "README.md"
    site = settings["project"]["urls"]["Documentation"]
    readme.write_text(absolute(readme.read_text(), site))
    level(folder)


def level(folder: Path) -> None:
    """Permissions that do not tell who built: executable files stay so."""
    for path in folder.rglob("*"):
        may_run = path.is_dir() or path.stat().st_mode & 0o100
        path.chmod(0o755 if may_run else 0o644)


def repacked(archive: Path, epoch: int) -> bytes:
    """A ``.tar.gz`` anew: sorted, of nobody, everything at one time."""
    written = io.BytesIO()
    with (
        tarfile.open(archive) as old,
        gzip.GzipFile("", "wb", 9, written, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda each: each.name):
            may_run = member.isdir() or member.mode & 0o100
            member.mode = 0o755 if may_run else 0o644
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime = epoch
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    return written.getvalue()


def build(folder: Path, epoch: int, conditions: dict[str, str]) -> list[Path]:
    """The source archive of the last commit, and the wheel of that archive."""
    folder.mkdir()
    export(folder / "commit")
    source = _build("sdist", folder / "commit", folder, epoch, conditions)
    source.write_bytes(repacked(source, epoch))
    with tarfile.open(source) as files:
        files.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    level(unpacked)
    return [source, _build("wheel", unpacked, folder, epoch, conditions)]


def _build(
    kind: str, source: Path, to: Path, epoch: int, conditions: dict[str, str]
) -> Path:
    code = f"import setuptools.build_meta as b; b.build_{kind}({str(to)!r})"
    environment = os.environ | conditions | {"SOURCE_DATE_EPOCH": str(epoch)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=source,
        env=environment,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"The {kind} could not be built:\n{done.stdout}{done.stderr}")
    (found,) = to.glob("*.tar.gz" if kind == "sdist" else "*.whl")
    return found


def left_out(committed: set[str], source: set[str], wheel: set[str]) -> set[str]:
    """Committed files that an archive lacks: all of them, and the library's."""
    library = {name for name in committed if name.startswith("skdp/")}
    return (committed - source) | (library - wheel)


def names_in(archive: Path) -> set[str]:
    """Files of an archive, by their paths in the repository."""
    if archive.suffix == ".whl":
        return set(zipfile.ZipFile(archive).namelist())
    with tarfile.open(archive) as files:
        return {each.name.partition("/")[2] for each in files if each.isfile()}


def _output(command: list[str]) -> bytes:
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout


def main(to: Path) -> None:
    """Build, compare, and keep."""
    os.umask(0o022)  # of files that setuptools writes into the wheel
    epoch = int(_output(["git", "log", "-1", "--format=%ct"]))
    if _output(["git", "status", "--porcelain"]):
        print("not everything here is committed: what is not is left out")
    committed = set(
        _output(["git", "ls-tree", "-rz", "--name-only", "HEAD"]).decode().split("\0")
    ) - {""}
    with tempfile.TemporaryDirectory() as folder:
        first, second = (
            build(Path(folder, f"{i}"), epoch, conditions)
            for i, conditions in enumerate(CONDITIONS)
        )
        for one, other in zip(first, second, strict=True):
            if one.read_bytes() != other.read_bytes():
                sys.exit(f"{one.name} has other bytes when it is built again")
        lost = left_out(committed, *map(names_in, first))
        if lost:
            sys.exit(f"left out of the archives: {', '.join(sorted(lost))}")
        to.mkdir(exist_ok=True)
        for path in first:
            (to / path.name).write_bytes(path.read_bytes())
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            print(f"{digest}  {to / path.name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
