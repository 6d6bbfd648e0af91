"""What only the owners can fill in: ``python .ci/release_check.py``.

Prints every placeholder with its file and line, and what belongs there. The exit status
is 1 if one is left, so no release is made with one. The address of the repository
stands in ``[project.urls]`` of pyproject.toml; tests compare all other places with it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACEHOLDERS = {
    "security@OWNER.example": "the address for reports of privacy faults",
    "conduct@OWNER.example": "the address for reports on conduct",
    "github.com/OWNER/": "the owner of the repository on GitHub",
    "GIVEN-NAME": "the first names of each author",
    "FAMILY-NAME": "the family name of each author",
    "0000-0000-0000-0000": "the ORCID of each author",
    "AFFILIATION": "the institution of each author",
}
# Files with words for readers; tests and this file name the placeholders.
PATTERNS = (
    "*.md",
    "*.cff",
    "*.toml",
    ".github/**/*",
    "docs/**/*",
    "paper/*",
    "skdp/**/*",
)
SKIPPED = {"_build", "gallery", "reference", "__pycache__"}


def files(root: Path) -> Iterator[Path]:
    """The files to look into, each once."""
    found = {path for pattern in PATTERNS for path in root.glob(pattern)}
    for path in sorted(found):
        is_built = SKIPPED & set(path.relative_to(root).parts)
        if path.is_file() and not is_built and path.suffix not in {".pyc", ".png"}:
            yield path


def placeholders(root: Path) -> list[tuple[str, int, str]]:
    """File, line and placeholder of all that is left to fill in."""
    wanted = re.compile("|".join(map(re.escape, PLACEHOLDERS)))
    return [
        (path.relative_to(root).as_posix(), number, match[0])
        for path in files(root)
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        for match in wanted.finditer(line)
    ]


def main() -> int:
    """Print what is left, and return 1 if anything is."""
    found = placeholders(ROOT)
    for file, line, what in found:
        print(f"{file}:{line}: {what}: fill in {PLACEHOLDERS[what]}")
    print(
        f"{len(found)} placeholders are left" if found else "nothing is left to fill in"
    )
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
