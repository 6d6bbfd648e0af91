"""Plant each bug in a copy of the package and run the tests that should find it.

``python -m tests.bugs`` prints a row for each bug: kind, test, seconds. It ends with
an error if a bug stays unfound. ``--only PATTERN`` takes the bugs whose name or file
holds the pattern. ``--search`` runs the whole of ``make test`` for each bug and lists
every test that fails. ``--write FILE`` writes the table as a page.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

from tests.bugs import BUGS
from tests.bugs.bug import ROOT, Bug
from tests.imports import graph, sources

MAKE_TEST = "not slow and not bench and not wide and not long and not engines"
CI = "not slow and not bench"
TIMEOUT = 900.0
COPIED = ("skdp", "tests", "docs", "examples", "benchmarks", ".ci")
HEAD = "| bug | kind | file | run by | found by | seconds |\n|---|---|---|---|---|---|"


def copy_of_project(folder: Path) -> Path:
    """A copy that compiles nothing anew: what Numba kept is copied with its times."""
    for name in COPIED:
        skipped = shutil.ignore_patterns("_build", "gallery", "reference")
        shutil.copytree(ROOT / name, folder / name, ignore=skipped)
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy2(path, folder)
    return folder


def users_of(module: str) -> Iterator[str]:
    """Modules that import a module, directly or through others, and itself."""
    arrows, waiting, seen = graph(sources(ROOT / "skdp")), [module], set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            yield name
            waiting += [each for each, targets in arrows.items() if name in targets]


def forget_compiled(folder: Path, bug: Bug) -> None:
    """Remove compiled code that may hold the code of the patched file."""
    text = (ROOT / bug.file).read_text(encoding="utf-8")
    if "numba" not in text and "compiled" not in text:
        return
    module = bug.file.removesuffix(".py").replace("/", ".")
    for name in users_of(module):
        path = folder / f"{name.replace('.', '/')}.py"
        for kept in path.parent.glob(f"__pycache__/{path.stem}.*.nb?"):
            kept.unlink()


def run(folder: Path, tests: tuple[str, ...], marks: str, *options: str):
    """The exit code of pytest and the tests that failed."""
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=no", "-m", marks]
    try:
        done = subprocess.run(
            [*command, "-p", "no:cacheprovider", *options, *tests],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(folder)},
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return None, []
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return done.returncode, failed


def tried(folder: Path, bug: Bug, search: bool) -> tuple[str, list[str], float]:
    """Who runs the tests that find the bug, which find it, and how long they take."""
    path, start = folder / bug.file, time.perf_counter()
    path.write_text(bug.patched((ROOT / bug.file).read_text(encoding="utf-8")))
    forget_compiled(folder, bug)
    try:
        if search:
            options = ("-n", "2", "--dist", "worksteal")
            runs = (("make test", MAKE_TEST, ("tests", "skdp"), options),)
        else:
            runs = tuple(
                (name, marks, bug.found_by, ("-x",))
                for name, marks in (("make test", MAKE_TEST), ("CI", CI))
            )
        for name, marks, tests, options in runs:
            code, failed = run(folder, tests, marks, *options)
            if code == 1 and failed:
                return name, failed, time.perf_counter() - start
        return "", [], time.perf_counter() - start
    finally:
        shutil.copy2(ROOT / bug.file, path)
        forget_compiled(folder, bug)


def row(bug: Bug, name: str, failed: list[str], seconds: float) -> str:
    """A line of the table."""
    found = "<br>".join(f"`{test}`" for test in failed) or "**not found**"
    where = f"`{bug.file}`"
    cells = (bug.name, bug.kind, where, name, found, f"{seconds:.0f}")
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Run the command; 1 if a bug stays unfound."""
    parser = argparse.ArgumentParser(prog="python -m tests.bugs", description=__doc__)
    parser.add_argument("--only", default="", help="part of a bug's name or file")
    parser.add_argument("--search", action="store_true", help="run all of make test")
    parser.add_argument("--jobs", type=int, default=2, help="bugs at the same time")
    parser.add_argument("--write", type=Path, help="write the table to this file")
    options = parser.parse_args()
    bugs = [bug for bug in BUGS if options.only in f"{bug.name} {bug.file}"]
    folders: Queue[Path] = Queue()
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory() as place:
        for i in range(options.jobs):
            folders.put(copy_of_project(Path(place, str(i))))

        def one(bug: Bug) -> tuple[str, bool]:
            folder = folders.get()
            try:
                name, failed, seconds = tried(folder, bug, options.search)
            finally:
                folders.put(folder)
            line = row(bug, name, failed, seconds)
            print(line, flush=True)
            return line, bool(failed)

        with ThreadPoolExecutor(options.jobs) as pool:
            done = list(pool.map(one, bugs))
    missed = sum(not found for _, found in done)
    summary = f"{len(done)} bugs, {missed} not found."
    print(summary)
    if options.write:
        lines = [HEAD, *(line for line, _ in done)]
        options.write.write_text("\n".join([summary, "", *lines, ""]))
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
