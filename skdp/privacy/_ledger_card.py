"""A ledger in a notebook: cap, gauge and what is left; files are not opened here."""

from __future__ import annotations

import html
from collections.abc import Mapping


def ledger_card(title: str, rows: Mapping[str, str], share: float | None) -> str:
    """HTML of a ledger.

    Parameters
    ----------
    title : str
    rows : mapping
        What is told, by name; text, not HTML.
    share : float in [0, inf] or None
        Part of the cap's epsilon that is spent; None without a gauge.
    """
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
        for name, value in rows.items()
    )
    gauge = "" if share is None else _gauge(min(1.0, share))
    return f"<div><p><b>{html.escape(title)}</b></p>{gauge}<table>{cells}</table></div>"


def _gauge(share: float) -> str:
    color = "#1a7f37" if share < 1 else "#b42318"
    return (
        "<div style='width:20em;height:0.7em;background:#d0d7de' title='spent'>"
        f"<div style='width:{100 * share:.0f}%;height:100%;background:{color}'></div>"
        "</div>"
    )
