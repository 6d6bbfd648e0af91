"""Documentation that diffs well: one sentence a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.prose import misplaced, reflowed, sentences

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_one_sentence_a_line(page):
    lines = misplaced(page.read_text())
    assert not lines, f"{page.name}: paragraphs at lines {lines}: python -m tests.prose"


def test_sentences_are_told_from_abbreviations_code_and_formulas():
    text = (
        "See e.g. Theorem 2. It holds for `a. B` and $x. Y$. `z` too (why?). The end."
    )
    assert sentences(text) == [
        "See e.g. Theorem 2.",
        "It holds for `a. B` and $x. Y$.",
        "`z` too (why?).",
        "The end.",
    ]


def test_broken_twins_are_found():
    assert misplaced("One sentence. And another.\n") == [1]
    assert misplaced("A sentence that is\nwrapped.\n") == [1]
    assert misplaced("- a list. Is free\n  to wrap.\n\n| a. B | c |\n") == []


def test_reflowing_changes_no_word():
    for page in PAGES:
        text = page.read_text()
        assert reflowed(text).split() == text.split()
