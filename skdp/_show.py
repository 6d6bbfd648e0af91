"""The HTML of notebook output, and the axes that pictures are drawn on."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

# ------------------------------------------------------------------- HTML for notebooks
# There is one style, and every text is escaped.


_LEFT = "text-align:left;vertical-align:top"
_GREEN, _RED, _GREY = "#1a7f37", "#b42318", "#d0d7de"


def card(
    sentence: str,
    rows: Iterable[tuple[str, str]] = (),
    *,
    is_good: bool | None = None,
    below: Iterable[str] = (),
) -> str:
    """A sentence above a table of names and values.

    Parameters
    ----------
    sentence : str
    rows : iterable of pairs of str
        Names and values.
    is_good : bool or None, default=None
        Marks the sentence green or red; None does neither.
    below : iterable of str
        HTML: other cards, and what the functions of this module make.
    """
    color = {True: _GREEN, False: _RED, None: _GREY}[is_good]
    body = "".join(
        f"<tr><th style='{_LEFT}'>{html.escape(name)}</th>{_cell(value)}</tr>"
        for name, value in rows
    )
    body = f"<table>{body}</table>" if body else ""
    return (
        f"<div><p style='border-left:4px solid {color};padding-left:8px'>"
        f"<b>{html.escape(sentence)}</b></p>{body}{''.join(below)}</div>"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns of texts below their names."""
    names = "".join(f"<th style='{_LEFT}'>{html.escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"


def remark(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"


def gauge(share: float) -> str:
    """A bar of which a share in [0, inf] is filled, and red if nothing is left."""
    share = min(1.0, share)
    return (
        f"<div style='width:20em;height:0.7em;background:{_GREY}' title='spent'>"
        f"<div style='width:{100 * share:.0f}%;height:100%;"
        f"background:{_GREEN if share < 1 else _RED}'></div></div>"
    )


def page(title: str, body: str) -> str:
    """A complete page around HTML."""
    title = html.escape(title)
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{title}"
        "</title><body style='font-family:sans-serif;max-width:60em;margin:2em "
        f"auto'><h1>{title}</h1>{body}</body></html>"
    )


def _cell(text: str) -> str:
    return f"<td style='{_LEFT}'>{html.escape(text)}</td>"


# --------------------------------------------------------------------- Axes of pictures
# matplotlib is imported when a picture is asked for.


def new_axes(instead: str) -> Any:
    """Axes of a new figure.

    Raises ImportError without matplotlib, and says what to read `instead`.
    """
    return _pyplot(instead).subplots(layout="constrained")[1]


def new_grid(n_shown: int, n_cols: int, instead: str) -> np.ndarray:
    """Axes of a new figure for several pictures in rows of `n_cols`, one array."""
    n_cols = max(min(n_cols, n_shown), 1)
    n_rows = max(-(-n_shown // n_cols), 1)
    _, axes = _pyplot(instead).subplots(
        n_rows,
        n_cols,
        figsize=(4 * n_cols, 3 * n_rows),
        layout="constrained",
        squeeze=False,
    )
    return np.ravel(axes)


def _pyplot(instead: str) -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError(
            "A picture needs matplotlib. Install it with pip install matplotlib, or "
            f"read {instead}."
        ) from None
    return plt
