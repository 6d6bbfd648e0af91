"""What the built site must have: ``python docs/_check.py FOLDER``.

Every link leads somewhere, and what people ask first is answered within two clicks.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a newcomer asks, by the page that answers and words of the answer.
QUESTIONS = {
    "Which epsilon?": ("guide/epsilon", "Start from epsilon 1 for the whole study"),
    "Which bounds do I declare?": ("guide/tables", "So look it up, in this order"),
    "Can I look at my data first?": ("guide/tables", "Instead of looking at the data:"),
    "How do I evaluate the model?": ("guide/scores", "score.standard_error"),
    "My own train and test split?": ("guide/scores", "Do not use stratify=y"),
    "What do I tell my data protection officer?": (
        "guide/before_you_sign",
        "Fill in what is in",
    ),
    "What do I lose?": ("guide/tour", "Noise in a linear model is proportional to"),
    "Who is the adversary?": ("guide/faq", "Who is the attacker?"),
    "Is the model safe to publish?": (
        "guide/faq",
        "at the epsilon that privacy_ prints",
    ),
    "What if labels are rare?": ("guide/faq", "The label that matters is rare."),
    "May records have weights?": ("guide/faq", "Why is sample_weight refused?"),
    "Missing cells and categories?": ("guide/faq", "Cells are missing"),
    "Which estimator?": ("guide/tour", "and adds trees only if they do"),
    "How do I deploy the model?": ("guide/tour", "A model can run without skdp"),
    "What does an error mean?": ("guide/faq", "ends with a link to its section"),
    "What is deprecated when?": ("support", "in at least two minor releases before"),
}
CLICKS = 2


class Page(HTMLParser):
    """Links, anchors and words of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = {"", "top"}
        self._words: list[str] = []
        self.feed(text)

    @property
    def text(self) -> str:
        """What is read, with single spaces."""
        return " ".join("".join(self._words).split())

    def handle_data(self, data: str) -> None:
        """Note what is read."""
        self._words.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag names or leads to."""
        for name, value in attrs:
            if value and name in ("href", "src"):
                self.links.append(value)
            if value and name in ("id", "name"):
                self.anchors.add(value)


def pages_of(site: Path) -> dict[Path, Page]:
    """The pages of a built site, by their files."""
    return {
        path: Page(path.read_text())
        for path in site.rglob("*.html")
        if "_static" not in path.parts
    }


def target(path: Path, link: str) -> Path | None:
    """The file that a link of a page leads to; None if it leaves the site."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc or link.startswith("data:"):
        return None
    found = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    return found / "index.html" if found.is_dir() else found


def broken(site: Path) -> list[str]:
    """What leads nowhere, page by page; links to other sites are not followed."""
    pages = pages_of(site)
    found = []
    for path, page in pages.items():
        for link in page.links:
            to = target(path, link)
            is_there = to is None or to.exists()
            if to in pages:
                is_there = unquote(urlsplit(link).fragment) in pages[to].anchors
            if not is_there:
                found.append(f"{path.relative_to(site)}: {link}")
    return sorted(set(found))


def unanswered(site: Path, questions: dict[str, tuple[str, str]]) -> list[str]:
    """Questions whose answer is not on its page, or too far from the landing page."""
    pages = pages_of(site)
    near = {site / "index.html"}
    for _ in range(CLICKS):
        links = ((path, link) for path in near for link in pages[path].links)
        near |= {to for path, link in links if (to := target(path, link)) in pages}
    found = []
    for question, (name, words) in questions.items():
        path = site / f"{name}.html"
        if path not in near:
            found.append(f"more than {CLICKS} clicks away: {question} ({name})")
        elif words not in pages[path].text:
            found.append(f"not answered: {question} ({name})")
    return found


if __name__ == "__main__":
    folder = Path(sys.argv[1]).resolve()
    lost = broken(folder) + unanswered(folder, QUESTIONS)
    print("\n".join(lost) or "every link leads somewhere, every question to an answer")
    sys.exit(bool(lost))
