"""Record what every seeded fit and score releases, and compare it bit for bit.

For changes that must not change a result::

    python -m tests.outcomes record before.json     # on the commit before
    python -m tests.outcomes compare before.json    # on the commit after

Both run all outcomes (a minute or two on one core) through public estimators with a
random_state: solvers, transformers, factorisations, scores, searches, pipelines, books.
An outcome has a digest of the released ``values`` and one of the numbers of its privacy
``record``, or the class of the error with which it is ``refused``; texts do not count.
``compare`` prints what differs, is missing or is new, and exits with 1 if an outcome
differs or is missing.

Digests are of exact bits, which differ between machines, processors and versions of
NumPy and BLAS: record and compare in the same place, and do not commit the file.
"""

from __future__ import annotations

import argparse
import json
import logging
import platform
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.outcomes.catalogue import catalogue
from tests.outcomes.outcome import difference, matching, run

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "dp-accounting")


def made_with() -> dict[str, str]:
    """What digests depend on beside the code."""
    found = {name: version(name) for name in _PACKAGES}
    return found | {"python": platform.python_version(), "machine": platform.node()}


def _summary(outcomes: dict[str, Any]) -> str:
    families = Counter(key.split("/")[0] for key in outcomes)
    refused = sum("refused" in found for found in outcomes.values())
    parts = ", ".join(f"{name} {count}" for name, count in sorted(families.items()))
    return f"{len(outcomes)} outcomes ({parts}), {refused} of them refused"


def _record(path: Path, found: dict[str, Any]) -> int:
    content = {"made_with": made_with(), "outcomes": found}
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
    print(f"recorded {_summary(found)}")
    return 0


def _compare(content: dict[str, Any], pattern: str, found: dict[str, Any]) -> int:
    if content["made_with"] != made_with():
        print(f"recorded with {content['made_with']}, compared with {made_with()}")
    change = difference(matching(content["outcomes"], pattern), found)
    for line in change.lines():
        print(line)
    verdict = "NOT as recorded" if change.is_failure else "as recorded"
    print(f"{verdict}: {_summary(found)}, {change.summary()}")
    return int(change.is_failure)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.outcomes", description=__doc__
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("command", choices=("record", "compare"))
    parser.add_argument("file", type=Path, help="JSON file of digests")
    parser.add_argument(
        "--keys", default="*", help="only these, such as 'solver/iht/*' (* matches /)"
    )
    parser.add_argument(
        "--n-jobs", type=int, default=1, help="no outcome depends on it"
    )
    parser.add_argument("--verbose", action="store_true", help="print every outcome")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit status."""
    given = _parser().parse_args(arguments)
    before = {}
    if given.command == "compare":  # before minutes are spent
        before = json.loads(given.file.read_text())
    # The accountant tells of orders that it leaves out.
    logging.getLogger("absl").setLevel(logging.ERROR)
    say = print if given.verbose else None
    found = run(catalogue(given.n_jobs), given.keys, say)
    if given.command == "record":
        return _record(given.file, found)
    return _compare(before, given.keys, found)


if __name__ == "__main__":
    sys.exit(main())
