"""To change how a user's row counts one opens one file: `_adder.py`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import skdp

ROOT = Path(skdp.__file__).parent
ADDER = "sums/_adder.py"
# Blocks are made here, with their weights.
MADE_IN = "tables/"
# Attributes of the same names that are no weights of rows.
OTHERS = {
    "preprocessing/_blocks.py",
    "preprocessing/_encoder.py",
    "preprocessing/_exported.py",
    "statistics/_description.py",
}
# What compiled loops and other readers of all rows get from the adder: they multiply by
# a weight and then round, as the adder does, or take no rows with weights.
OF_KERNELS = {
    "papers/_bolt_on.py",
    "sums/_gradient_sum.py",
    "sums/_record_sums.py",
}


SOURCES = {path: path.read_text() for path in ROOT.rglob("*.py")}


def readers(is_read, sources=SOURCES):
    """Modules outside `MADE_IN` with a node of a kind."""
    found = {
        path.relative_to(ROOT).as_posix()
        for path, text in sources.items()
        if any(map(is_read, ast.walk(ast.parse(text))))
    }
    return {path for path in found if not path.startswith(MADE_IN)}


def reads_weights(node):
    """``anything.present``, or ``block.weight`` and ``part.weight``."""
    if not isinstance(node, ast.Attribute):
        return False
    is_of_block = getattr(node.value, "id", "") in ("block", "part", "run")
    return node.attr == "present" or (node.attr == "weight" and is_of_block)


def test_the_adder_alone_reads_the_weights_of_a_block():
    path = ROOT / "sums/_moments.py"
    bug = SOURCES[path] + "\ndef bug(block):\n    return block.weight\n"
    assert readers(reads_weights, {path: bug})
    holders = {p: t for p, t in SOURCES.items() if "present" in t or "weight" in t}
    assert readers(reads_weights, holders) == {ADDER} | OTHERS


def users(name):
    """Modules where a name is used or imported, other than within another name."""
    found = {p for p, text in SOURCES.items() if re.search(rf"\b{name}\b", text)}
    found = {path.relative_to(ROOT).as_posix() for path in found}
    return {path for path in found if not path.startswith(MADE_IN)}


def test_compiled_loops_alone_get_the_weights_as_they_are():
    assert users("has_shares") == {ADDER}
    assert users("kernel_weights") == {ADDER} | OF_KERNELS
