"""One sentence a line: how prose of Markdown is cut into sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Words whose full stop ends no sentence.
ABBREVIATIONS = (
    "al.",
    "approx.",
    "cf.",
    "e.g.",
    "eq.",
    "etc.",
    "fig.",
    "i.e.",
    "no.",
    "p.",
    "pp.",
    "resp.",
    "sec.",
    "thm.",
    "vs.",
)
# The end of a sentence, and of a proof; the next one may start with a symbol or a name.
_END = re.compile(r"[.!?][)\]\"'*_]*(?: ∎)?\s+(?=[^\s∎])")
_FACTORIAL = re.compile(r"\W*\w!")
# A few words that name what follows: they stand on its line.
_LEAD_IN = re.compile(r"(\*\*?)[^*]+\1")
_LONGEST_LEAD_IN = 8
# What may hold full stops that end nothing: code, formulas, targets of links.
_OPAQUE = re.compile(r"(`+).+?\1|\$[^$]+\$|\]\([^)]*\)")
# Lines that are no prose: headings, tables, lists, quotes, HTML, formulas, indented.
_FREE = re.compile(r"\s*(#|\||[-*+] |\d+[.)] |>|<|\$\$|\[\^?\w+\]:)|    |\t|---|===")


def sentences(text: str) -> list[str]:
    """The sentences of one paragraph."""
    masked = _OPAQUE.sub(lambda found: "x" * len(found.group()), text)
    cuts = [0]
    for found in _END.finditer(masked):
        last = masked[: found.start() + 1].split()[-1].lstrip("([\"'*_").lower()
        before = text[cuts[-1] : found.end()].strip()
        if last in ABBREVIATIONS or _FACTORIAL.fullmatch(last) or _leads_in(before):
            continue
        cuts.append(found.end())
    ends = [*cuts[1:], len(text)]
    return [
        text[a:b].strip() for a, b in zip(cuts, ends, strict=True) if text[a:b].strip()
    ]


def _leads_in(text: str) -> bool:
    """Whether a text is emphasised as a whole, and short."""
    is_short = len(text.split()) <= _LONGEST_LEAD_IN
    return is_short and bool(_LEAD_IN.fullmatch(text))


def paragraphs(markdown: str) -> Iterator[tuple[int, list[str]]]:
    """Paragraphs of prose: the number of their first line, and their lines."""
    lines, start, fence = [], 0, ""
    is_free = False  # a list item or the like goes on until an empty line
    for number, line in enumerate([*markdown.split("\n"), ""]):
        mark = re.match(r"\s*(```+|~~~+|\$\$)", line)
        if mark and line.strip() != mark.group(1) * 2 and not _closed(line):
            fence = "" if fence else mark.group(1)
            is_free = True
        if fence or not line.strip() or _FREE.match(line) or is_free:
            if lines:
                yield start, lines
            lines = []
            is_free = bool(line.strip()) and (is_free or bool(_FREE.match(line)))
            if re.match(r"\s*#", line):
                is_free = False
            continue
        if not lines:
            start = number
        lines.append(line)


def _closed(line: str) -> bool:
    """Whether a formula begins and ends on one line."""
    return (
        line.strip().startswith("$$")
        and line.strip().endswith("$$")
        and len(line.strip()) > 3
    )


def reflowed(markdown: str) -> str:
    """The same text with one sentence a line."""
    lines = markdown.split("\n")
    for start, old in reversed(list(paragraphs(markdown))):
        lines[start : start + len(old)] = sentences(" ".join(map(str.strip, old)))
    return "\n".join(lines)


def misplaced(markdown: str) -> list[int]:
    """Numbers of lines from 1 at which paragraphs start that are cut otherwise."""
    return [
        start + 1
        for start, lines in paragraphs(markdown)
        if [line.rstrip() for line in lines]
        != sentences(" ".join(map(str.strip, lines)))
    ]


if __name__ == "__main__":
    import sys
    from pathlib import Path

    for name in sys.argv[1:]:
        page = Path(name)
        page.write_text(reflowed(page.read_text()))
