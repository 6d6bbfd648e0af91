"""What skdp and all that it needs take on a disk: ``python installed_size.py``.

Run it with the Python of an environment that holds nothing else (``pip install .``).
Prints megabytes (10**6 bytes) of each distribution: of all its files, and of those that
``pip install --no-compile`` leaves out, because Python makes them when it imports.
``docs/support.md`` quotes the results.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from pathlib import Path

# Come with an environment, and not with skdp.
INSTALLERS = ("pip", "setuptools", "wheel")


def megabytes(files: Iterable[Path]) -> float:
    """Of those that are there."""
    return sum(path.stat().st_size for path in files if path.is_file()) / 1e6


def files_of(found: Distribution) -> list[Path]:
    """Files that an installer has written down, compiled ones among them."""
    return [Path(str(file.locate())) for file in found.files or []]


def sizes(where: list[str]) -> dict[str, tuple[float, float]]:
    """Megabytes of each distribution in some folders, and of its compiled Python.

    Largest first.
    """
    rows = {}
    for found in distributions(path=where):
        files = files_of(found)
        compiled = [path for path in files if path.suffix == ".pyc"]
        rows[found.metadata["Name"]] = megabytes(files), megabytes(compiled)
    return dict(sorted(rows.items(), key=lambda row: -row[1][0]))


def main() -> None:
    """Print a row for each, and sums."""
    say = sys.stdout.write
    rows = {
        name: row for name, row in sizes(sys.path).items() if name not in INSTALLERS
    }
    whole, compiled = (sum(column) for column in zip(*rows.values(), strict=True))
    rows["all"] = whole, compiled
    for name, (whole, compiled) in rows.items():
        say(f"{name:<18} {whole:6.1f} MB, {whole - compiled:6.1f} MB not compiled\n")


if __name__ == "__main__":
    main()
