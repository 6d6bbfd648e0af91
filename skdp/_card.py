"""HTML of what is said in one sentence and some rows."""

from __future__ import annotations

import html
from collections.abc import Iterable


def card(sentence: str, rows: Iterable[tuple[str, str]], *, is_good: bool) -> str:
    """A sentence, marked green or red, above a table of names and values."""
    color = "#1a7f37" if is_good else "#b42318"
    body = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
        for name, value in rows
    )
    return (
        f"<div><p style='border-left:4px solid {color};padding-left:8px'>"
        f"<b>{html.escape(sentence)}</b></p><table>{body}</table></div>"
    )
