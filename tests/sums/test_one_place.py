"""To change how a user's row counts one opens one file: `_adder.py`."""

from __future__ import annotations

import ast
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
    "statistics/_description.py",
}
# What compiled loops and other readers of all rows get from the adder: they multiply by
# a weight and then round, as the adder does.
OF_KERNELS = {"papers/_bolt_on.py", "sums/_gradient_sum.py"}


def readers(is_read, text_of=Path.read_text):
    """Modules outside `MADE_IN` with a node of a kind."""
    found = set()
    for path in ROOT.rglob("*.py"):
        if any(map(is_read, ast.walk(ast.parse(text_of(path))))):
            found.add(path.relative_to(ROOT).as_posix())
    return {path for path in found if not path.startswith(MADE_IN)}


def reads_weights(node):
    """``anything.present``, or ``block.weight`` and ``part.weight``."""
    if not isinstance(node, ast.Attribute):
        return False
    is_of_block = getattr(node.value, "id", "") in ("block", "part", "run")
    return node.attr == "present" or (node.attr == "weight" and is_of_block)


def uses(name):
    return lambda node: (
        (isinstance(node, ast.Name) and node.id == name)
        or (isinstance(node, ast.alias) and node.name == name)
    )


def test_the_adder_alone_reads_the_weights_of_a_block():
    assert readers(reads_weights) == {ADDER} | OTHERS


def test_the_adder_alone_asks_whether_rows_have_weights():
    assert readers(uses("has_shares")) == {ADDER}


def test_compiled_loops_alone_get_the_weights_as_they_are():
    assert readers(uses("kernel_weights")) == {ADDER} | OF_KERNELS


def test_a_module_that_reads_weights_is_found():
    def text_of(path):
        also = "\ndef bug(block):\n    return block.weight\n"
        return path.read_text() + also * (path.name == "_moments.py")

    assert "sums/_moments.py" in readers(reads_weights, text_of)
