"""Every link of the built site leads somewhere: ``python docs/_check.py FOLDER``."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Links and anchors of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = {"", "top"}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag names or leads to."""
        for name, value in attrs:
            if value and name in ("href", "src"):
                self.links.append(value)
            if value and name in ("id", "name"):
                self.anchors.add(value)


def broken(site: Path) -> list[str]:
    """What leads nowhere, page by page; links to other sites are not followed."""
    pages = {
        path: Page(path.read_text())
        for path in site.rglob("*.html")
        if "_static" not in path.parts
    }
    found = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link.startswith("data:"):
                continue
            target = (path.parent / unquote(parts.path)).resolve()
            target = target if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            is_there = target.exists()
            if is_there and target in pages:
                is_there = unquote(parts.fragment) in pages[target].anchors
            if not is_there:
                found.append(f"{path.relative_to(site)}: {link}")
    return sorted(set(found))


if __name__ == "__main__":
    lost = broken(Path(sys.argv[1]).resolve())
    print("\n".join(lost) or "every link leads somewhere")
    sys.exit(bool(lost))
