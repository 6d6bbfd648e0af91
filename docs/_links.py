"""Links that lead out of the pages: to files of the repository, to scikit-learn."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
_LINK = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)#\s]+|proofs/|solvers/)(#[^)]*)?\)")


def outside(app: Any, page: str, source: list[str]) -> None:
    """Replace links to files that are not pages by their names."""
    here = (DOCS / page).parent

    def shown(match: re.Match[str]) -> str:
        text, target = match[1], (here / match[2]).resolve()
        if target.is_relative_to(DOCS) and target.suffix == ".md":
            return match[0]
        if target == DOCS / "proofs":
            return f"[{text}]({'../' * page.count('/')}proofs/index.md)"
        name = target.relative_to(DOCS.parent)
        return text if str(name) in text else f"{text} (`{name}`)"

    source[0] = _LINK.sub(shown, source[0])


# Scikit-learn's site -----------------------------------------------------------------
# Addresses follow from names, so that a build needs no list of them from the network.
SCIKIT_LEARN = "https://scikit-learn.org/stable/"


def address(name: str) -> str | None:
    """The page of a public name of scikit-learn, such as ``sklearn.svm.SVC``."""
    module, _, attribute = name.rpartition(".")
    if not name.startswith("sklearn.") or "._" in name:
        return None
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError:
        return None
    is_there = hasattr(found, attribute)
    return f"{SCIKIT_LEARN}modules/generated/{name}.html#{name}" if is_there else None


def to_scikit_learn(app: Any, env: Any, node: Any, shown: Any) -> Any:
    """Link a name that is none of skdp to scikit-learn's reference."""
    from docutils import nodes  # where sites are built, and not where this is tested

    found = address(node["reftarget"])
    return (
        nodes.reference("", "", shown, internal=False, refuri=found) if found else None
    )


# Docstrings --------------------------------------------------------------------------
# Names that end in an underscore would be links in reStructuredText.
_NAMES = re.compile(r"(?<=\w)_(?=[,)\s]|$)")
_SHAPE = re.compile(r"shape \([^)]*\)")
_ROLE = re.compile(r":(?:ref|term):`([^`<]*?)(?: <[^>]*>)?`")
_PAGE = re.compile(r"``docs/([\w/]+)\.md``")
_OWN = ("Privacy", "Utility", "Deviations")


def plain(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Docstrings as numpydoc and the pages here can take them."""
    for at, line in enumerate(lines):
        names, colon, kind = line.partition(" : ")
        if colon and re.fullmatch(r"\s*[\w, *]+", names):
            *several, last = names.split(", ")
            shown = [_NAMES.sub(r"\\_", each) for each in several]
            names = ", ".join([*shown, last])
            lines[at] = names + colon + _NAMES.sub(r"\\_", kind)
        elif "``" not in line:
            lines[at] = _SHAPE.sub(lambda m: _NAMES.sub(r"\\_", m[0]), line)
        # To pages of scikit-learn, whose base class has written this.
        lines[at] = _ROLE.sub(r"\1", lines[at])
        lines[at] = _PAGE.sub(r":doc:`/\1`", lines[at])
        is_title = at + 1 < len(lines) and set(lines[at + 1].strip()) == {"-"}
        if is_title and line.strip() in _OWN:
            lines[at : at + 2] = [f".. rubric:: {line.strip()}", ""]
