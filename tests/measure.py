"""How large the project is to read: lines, names, and the files that a fit enters.

Usage: ``python -m tests.measure``, which prints tables in Markdown. Code lines are
lines with code: no blank lines, comments or docstrings. A fit enters a file if a
function of the file is called, after a first fit that loads what is loaded on demand.
"""

from __future__ import annotations

import ast
import io
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd

import skdp
from skdp import (
    DPGradientBoostingClassifier,
    DPLinearRegression,
    DPLogisticRegression,
    DPStandardScaler,
)

ROOT = Path(skdp.__file__).parents[1]
# Parts of skdp that nothing else in skdp imports.
ANNEXES = ("skdp/io/engines", "skdp/papers")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Size:
    """Counts over some files."""

    files: int = 0
    code: int = 0
    imports: int = 0
    functions: int = 0
    classes: int = 0

    def __add__(self, other: Size) -> Size:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Size(*(one + two for one, two in pairs))

    @property
    def import_share(self) -> float:
        """Part of the code lines that are imports."""
        return self.imports / self.code if self.code else 0.0


def size_of(source: str) -> Size:
    """Counts of one file."""
    nodes = list(ast.walk(ast.parse(source)))
    documented = {line for node in nodes for line in _docstring_lines(node)}
    return Size(
        files=1,
        code=sum(
            number not in documented and line.strip()[:1] not in ("", "#")
            for number, line in enumerate(source.splitlines(), 1)
        ),
        imports=sum(
            len(_lines(n)) for n in nodes if isinstance(n, (ast.Import, ast.ImportFrom))
        ),
        functions=sum(isinstance(node, _FUNCTIONS) for node in nodes),
        classes=sum(isinstance(node, ast.ClassDef) for node in nodes),
    )


def _docstring_lines(node: ast.AST) -> Iterable[int]:
    documented = (ast.Module, ast.ClassDef, *_FUNCTIONS)
    if not isinstance(node, documented) or ast.get_docstring(node) is None:
        return ()
    return _lines(node.body[0])


def _lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def sizes(root: Path) -> dict[str, Size]:
    """Counts of each room of skdp, of its annexes, and of the folders beside it."""
    found: dict[str, Size] = {}
    for top in ("skdp", "tests", "benchmarks"):
        for path in sorted(root.glob(f"{top}/**/*.py")):
            room = _room(path.relative_to(root))
            found[room] = found.get(room, Size()) + size_of(path.read_text())
    return found


def _room(path: Path) -> str:
    """The part of the project that a file is counted with."""
    name = path.as_posix()
    for annex in ANNEXES:
        if name.startswith(f"{annex}/"):
            return annex
    top, *folders, _ = path.parts
    if top != "skdp":
        return top
    return f"skdp/{folders[0]}" if folders else "skdp, loose files"


@dataclass(frozen=True)
class Entered:
    """What calls of a function lead into, within one folder."""

    files: frozenset[str]
    functions: frozenset[tuple[str, int]]


def entered(call: Callable[[], Any], folder: Path) -> Entered:
    """Files of a folder, and their functions, that a call enters in this thread."""
    functions: set[tuple[str, int]] = set()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and Path(frame.f_code.co_filename).is_relative_to(folder):
            functions.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(before)
    return Entered(frozenset(name for name, _ in functions), frozenset(functions))


def fits() -> dict[str, Callable[[], Any]]:
    """Fits of 500 rows by name; seeded, so that they take the same way each time."""
    X = np.random.default_rng(0).uniform(-0.3, 0.3, size=(500, 5))
    y = (X[:, 0] > 0).astype(int)
    frame = pd.DataFrame(X, columns=list("abcde"))
    columns = dict.fromkeys(frame, (-0.3, 0.3))
    two: dict[str, Any] = {"classes": [0, 1], "random_state": 0}
    logistic = DPLogisticRegression(**two)
    declared = DPLogisticRegression(columns=columns, **two)
    linear = DPLinearRegression(target_bounds=(-1, 1), random_state=0)
    boosting = DPGradientBoostingClassifier(columns=columns, **two)
    scaler = DPStandardScaler(bounds=(-1, 1), random_state=0)
    return {
        "DPLogisticRegression": lambda: logistic.fit(X, y),
        "DPLogisticRegression, columns": lambda: declared.fit(frame, y),
        "DPLinearRegression": lambda: linear.fit(X, X[:, 0]),
        "DPGradientBoostingClassifier": lambda: boosting.fit(frame, y),
        "DPStandardScaler": lambda: scaler.fit(X),
    }


def entered_by_fits(folder: Path) -> dict[str, Entered]:
    """What each of the fits enters, once its modules are loaded."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, fit in fits().items():
            fit()
            found[name] = entered(fit, folder)
    return found


def wheel_size(root: Path) -> int:
    """Bytes of a wheel, nearly: the package as a compressed archive."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.glob("skdp/**/*")):
            if path.suffix in (".py", ".json", ".typed"):
                archive.write(path, path.relative_to(root))
    return len(content.getvalue())


def report(root: Path) -> Iterator[str]:
    """Lines of the tables."""
    found = sizes(root)
    house = [n for n in found if n.startswith("skdp") and n not in ANNEXES]
    total = sum((found[name] for name in house), Size())
    yield from _table("room", "files", "code lines", "imports", "functions", "classes")
    for name, size in found.items():
        yield _row(name, size)
    yield _row("**skdp without annexes**", total)
    yield f"\nThe wheel has about {wheel_size(root) / 1000:,.0f} kB.\n"
    yield from _table("fit", "files entered", "functions")
    for name, each in entered_by_fits(root / "skdp").items():
        yield f"| {name} | {len(each.files)} | {len(each.functions)} |"


def _table(first: str, *others: str) -> tuple[str, str]:
    return f"| {' | '.join([first, *others])} |", f"|---|{'---:|' * len(others)}"


def _row(name: str, size: Size) -> str:
    files, code, _, functions, classes = (f"{each:,}" for each in astuple(size))
    share = f"{size.import_share:.1%}"
    return f"| {name} | {files} | {code} | {share} | {functions} | {classes} |"


if __name__ == "__main__":
    for line in report(ROOT):
        print(line)
