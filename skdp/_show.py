"""The HTML of notebook output, and pictures."""

from __future__ import annotations

import html
import json
import textwrap
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from skdp._checks import check_count

# ------------------------------------------------------------------ Text for terminals


_LINE = 88  # characters


def aligned(rows: Iterable[tuple[str, str]], width: int) -> str:
    """Names, and values in a column of their own that starts after `width` characters.

    A value that is too long for its line continues below its beginning.
    """
    return "\n".join(
        wrapped(f"{name:<{width - 1}} {value}", width) for name, value in rows
    )


def wrapped(text: str, indent: int = 0) -> str:
    """A text in lines of at most 88 characters; no word is broken."""
    return textwrap.fill(
        text,
        _LINE,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


# ------------------------------------------------------------------- HTML for notebooks
# There is one style, and every text is escaped.


_LEFT = "text-align:left;vertical-align:top"
GREEN, RED, _GREY = "#1a7f37", "#b42318", "#d0d7de"


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
        HTML that follows: other cards, or results of the functions of this module.
    """
    color = {True: GREEN, False: RED, None: _GREY}[is_good]
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
    """A bar that is filled to the fraction `share`, in red if nothing is left."""
    share = min(1.0, share)
    return (
        f"<div style='width:20em;height:0.7em;background:{_GREY}' title='spent'>"
        f"<div style='width:{100 * share:.0f}%;height:100%;"
        f"background:{GREEN if share < 1 else RED}'></div></div>"
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


class Shown:
    """A result with a text, HTML and JSON form: a sentence, and names with values."""

    # Width of the column of names in print.
    _width: ClassVar[int] = 22

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""

    @abstractmethod
    def sentence(self) -> str:
        """The result in one sentence."""

    @abstractmethod
    def _rows(self) -> list[tuple[str, str]]:
        """Names and values."""

    @property
    def _is_good(self) -> bool | None:
        return None

    def to_json(self) -> str:
        """`to_dict` as text."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True, allow_nan=False)

    def __repr__(self) -> str:
        rows = [(f"  {name}", value) for name, value in self._rows()]
        return f"{wrapped(self.sentence())}\n{aligned(rows, self._width + 3)}"

    def _repr_html_(self) -> str:
        return card(self.sentence(), self._rows(), is_good=self._is_good)


# ----------------------------------------------------------------------------- Pictures
# matplotlib is imported only when a picture is drawn.


@dataclass(frozen=True, eq=False)
class Display:
    """A picture, with the attributes of scikit-learn's displays.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
    line_ : matplotlib Artist or None
        The main line, if the picture has one.
    ax_ : matplotlib Axes
        The first of `axes_`.
    figure_ : matplotlib Figure
    """

    axes_: np.ndarray
    line_: Any = None

    @property
    def ax_(self) -> Any:
        return self.axes_[0]

    @property
    def figure_(self) -> Any:
        return self.ax_.figure

    @classmethod
    def of(cls, ax: Any, line: Any = None) -> Self:
        """The picture on one matplotlib Axes."""
        return cls(np.ravel(ax), line)


def axes_or_new(ax: Any, instead: str) -> Any:
    """The given axes; None: axes of a new figure.

    Without matplotlib it raises an ImportError that names what to read `instead`.
    """
    return _pyplot(instead).subplots(layout="constrained")[1] if ax is None else ax


def draw_each(
    draw: Callable[[Any, Any], None],
    shown: Sequence[Any],
    ax: Any,
    *,
    n_cols: int,
    what: str,
    instead: str,
) -> Display:
    """Call ``draw(each, axes)`` for each thing shown, and hide the axes left over.

    Parameters
    ----------
    draw : callable
    shown : sequence
    ax : array of matplotlib Axes or None
        None makes a figure with rows of `n_cols` pictures.
    what : str
        What is shown, for the error if there are fewer axes.
    instead : str
        What to read without matplotlib.
    """
    check_count("n_cols", n_cols)
    n_shown = len(shown)
    axes = np.ravel(ax)
    if ax is None:
        n_cols = max(min(n_cols, n_shown), 1)
        n_rows = max(-(-n_shown // n_cols), 1)
        _, made = _pyplot(instead).subplots(
            n_rows,
            n_cols,
            figsize=(4 * n_cols, 3 * n_rows),
            layout="constrained",
            squeeze=False,
        )
        axes = np.ravel(made)
    if len(axes) < n_shown:
        raise ValueError(
            f"The 'ax' parameter must have one axis for each of {n_shown} {what}. "
            f"Got {len(axes)}. Pass more, or None."
        )
    for each, axis in zip(shown, axes, strict=False):
        draw(each, axis)
    for axis in axes[n_shown:]:
        axis.set_axis_off()
    return Display(axes)


def draw_steps(
    ax: Any,
    edges: np.ndarray,
    values: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    *,
    is_filled: bool,
    is_log: bool,
) -> None:
    """A value for each interval, with a band from `low` to `high`."""
    if is_filled:
        ax.stairs(values, edges, fill=True, alpha=0.8)
    else:
        ax.stairs(values, edges, baseline=None)
    ax.fill_between(
        edges,
        np.append(low, low[-1]),
        np.append(high, high[-1]),
        step="post",
        alpha=0.25,
        linewidth=0,
    )
    if is_log:
        ax.set_xscale("symlog" if edges[0] == 0 else "log")


def draw_heaps(
    ax: Any,
    at: np.ndarray,
    values: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
) -> None:
    """A point for each heap, with a bar from `low` to `high`."""
    bars = np.stack([values - low, high - values])
    ax.errorbar(at, values, yerr=bars, fmt="o", markersize=4, capsize=2, color="C1")


def _pyplot(instead: str) -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError(
            "A picture needs matplotlib. Install it with pip install matplotlib, or "
            f"use {instead}."
        ) from None
    return plt
