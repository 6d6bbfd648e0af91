"""A ledger in a notebook: cap, gauge and what is left; files are not opened here."""

from __future__ import annotations

import html
from typing import Protocol


class Capped(Protocol):
    """The public values of a ledger."""

    path: str
    epsilon: float
    delta: float
    adjacency: str
    unit: str
    dataset: str


def ledger_card(ledger: Capped, spent: float | None, told: str) -> str:
    """HTML of a ledger.

    Parameters
    ----------
    ledger : ledger
    spent : float or None
        Epsilon spent at the cap's delta, inf if not private; None if unreadable.
    told : str
        What is spent and left, in words.
    """
    rows = {
        "cap": f"epsilon {ledger.epsilon:g}, delta {ledger.delta:g}",
        "adjacency": f"{ledger.adjacency}, unit: one {ledger.unit}",
        "data set": ledger.dataset or "(no label)",
        "books" if spent is not None else "unreadable": told,
    }
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
        for name, value in rows.items()
    )
    gauge = "" if spent is None else _gauge(min(1.0, spent / ledger.epsilon))
    return (
        f"<div><p><b>BudgetLedger {html.escape(ledger.path)}</b></p>{gauge}"
        f"<table>{cells}</table></div>"
    )


def _gauge(share: float) -> str:
    color = "#1a7f37" if share < 1 else "#b42318"
    return (
        "<div style='width:20em;height:0.7em;background:#d0d7de' title='spent'>"
        f"<div style='width:{100 * share:.0f}%;height:100%;background:{color}'></div>"
        "</div>"
    )
