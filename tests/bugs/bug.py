"""A planted bug: one change of the package that some test must notice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

# What a bug damages; `test_bugs.py` asks for some of each.
KINDS = (
    "accounting",  # an event, its composition or its calibration
    "clip",  # a bound on rows, targets or predictions is not enforced
    "encoder",  # a declared column becomes the wrong numbers
    "fact",  # something public is computed from the data
    "fraction",  # a budget fraction, or how a budget is split
    "ledger",  # entries, the cap, locks
    "message",  # an error, a warning or an attribute tells of the data
    "model",  # the released numbers are right, the model made of them is not
    "noise",  # its size, its law, its source
    "order",  # data are read before the ledger has the event, or read twice
    "rounding",  # the grid, the slack, the order of a sum
    "sensitivity",  # a bound is too small
    "users",  # weights of the rows of a user
)


@dataclass(frozen=True)
class Bug:
    """A patch that replaces `old`, which `file` holds exactly once, by `new`.

    `found_by` names the tests that fail with the bug: files, or functions as
    ``tests/sums/test_adder.py::test_nulls_add_nothing``.
    """

    name: str
    kind: str
    file: str
    old: str
    new: str
    found_by: tuple[str, ...]

    def patched(self, text: str) -> str:
        """The text of the file with the bug."""
        if text.count(self.old) != 1:
            raise ValueError(
                f"Bug {self.name!r}: {self.file} must hold the text to replace "
                f"exactly once, got {text.count(self.old)} times: {self.old!r}"
            )
        return text.replace(self.old, self.new)
