"""Pictures of the effects of columns, of linear models and of boosted trees alike."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from skdp._arrays import FloatArray
from skdp._checks import check_count, check_real
from skdp._show import Display, draw_each, draw_heaps, draw_steps

# Pictures that are drawn if no columns are named.
_MOST = 9
# Values of a column that have a bar each; of more the most frequent are shown.
_MOST_BARS = 12
# A value with a smaller released share may have no record at all: it is twice the noise
# in a share that the default solvers aim at.
_HARDLY_ANY = 0.02
# Height of the grey shares below a curve, as a fraction of the picture's height.
_HEIGHT = 0.15
_GREY = "0.75"
# Longer names of values are cut.
_LONGEST = 20


def units_of_classes(name: str, classes: Any) -> tuple[str, ...]:
    """The unit of a classifier's raw predictions, one for each output."""
    shown = classes[1:] if len(classes) == 2 else classes
    return tuple(f"{name} of {_label(label)}" for label in shown)


@dataclass(frozen=True, eq=False)
class Picture:
    """One picture of a model's effects.

    Parameters
    ----------
    columns : tuple of one or two str
    spread : float
        Standard deviation of the effect over the records.
    draw : callable
        ``draw(ax, deviations, unit)`` draws it on matplotlib Axes.
    """

    columns: tuple[str, ...]
    spread: float
    draw: Callable[[Any, float, str], None]


class PlotsEffects:
    """A fitted model with `effects` that can be drawn."""

    @abstractmethod
    def effects(self) -> dict[str, pd.DataFrame]:
        """What each column adds to a prediction."""

    @property
    @abstractmethod
    def _effect_units(self) -> tuple[str, ...]:
        """What the effects on each output are measured in."""

    @abstractmethod
    def _pictures(self, output: int) -> list[Picture]:
        """All pictures of the effects on an output."""

    def plot_effects(
        self,
        columns: Sequence[Any] | None = None,
        *,
        output: int = 0,
        deviations: float = 2.0,
        n_cols: int = 3,
        ax: Any = None,
    ) -> Display:
        """Draw what columns add to a prediction, with their noise; needs matplotlib.

        Grey areas below curves, and percentages, are the released proportions of the
        records. A category that was not declared, and that has hardly any records, is
        left out.

        Parameters
        ----------
        columns : sequence of str or pairs of str, or None, default=None
            Columns, parts of dates as ``"<column>_<part>"``, and pairs of columns.
            None: the nine effects that vary most.
        output : int, default=0
            Which class, where there are more than two.
        deviations : float in [0, inf), default=2.0
            Half the height of a band, in standard deviations of the noise. Bands show
            the privacy noise alone: how much of a curve may be noise, not how far the
            curve is from the truth. There is no band where the noise is not known.
        n_cols : int of at least 1, default=3
            Pictures in a row.
        ax : array of matplotlib Axes or None, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        display
            With `axes_` and `figure_`.

        Raises
        ------
        ValueError
            If a column has no effect in the model.
        ImportError
            Without matplotlib.
        """
        units = self._effect_units
        check_count("output", output, low=0, high=len(units) - 1)
        check_real("deviations", deviations, low=0.0, high=math.inf, high_open=True)
        pictures = self._pictures(output)
        if columns is None:
            kept = [p for p in pictures if len(p.columns) == 1 or p.spread > 0]
            shown = sorted(kept, key=lambda picture: -picture.spread)[:_MOST]
        else:
            shown = [_named(pictures, name) for name in columns]
        draw = partial(_draw, deviations, units[output])
        return draw_each(
            draw, shown, ax, n_cols=n_cols, what="effects", instead="effects()"
        )


def _draw(deviations: float, unit: str, picture: Picture, ax: Any) -> None:
    picture.draw(ax, deviations, unit)


def _named(pictures: list[Picture], name: Any) -> Picture:
    wanted = {name} if isinstance(name, str) else set(name)
    for picture in pictures:
        if set(picture.columns) == wanted:
            return picture
    alone = {p.columns[0] for p in pictures if len(p.columns) == 1}
    if len(wanted) == 2 and wanted <= alone:
        return Picture(tuple(name), 0.0, partial(_no_interaction, tuple(name)))
    known = [" x ".join(picture.columns) for picture in pictures]
    raise ValueError(
        "The 'columns' argument must name columns with an effect, or pairs of them. "
        f"Got {name!r}. There are {known}."
    )


def pictures_of(
    tables: Mapping[str, pd.DataFrame], logs: set[str], output: int
) -> Iterator[Picture]:
    """A picture of each effect, and of each part of dates.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        As `effects` returns them.
    logs : set of str
        Columns whose logarithm is the axis.
    output : int
    """
    for name, table in tables.items():
        own = "" if "effect" in table else f"_{output}"
        table = table.rename(columns={f"effect{own}": "effect", f"noise{own}": "noise"})
        if "part" not in table:
            yield _picture(name, table, name in logs)
            continue
        for part, rows in table.groupby("part", sort=False):
            if part == "time":
                yield _picture(name, rows, is_log=False)
            else:
                yield _picture(
                    f"{name}_{part}", rows.rename(columns={"at": "value"}), is_log=False
                )


def _picture(name: str, table: pd.DataFrame, is_log: bool) -> Picture:
    effect = table["effect"].to_numpy(np.float64)
    shares = table["share"].fillna(1.0).to_numpy(np.float64)
    spread = math.sqrt(float(np.average(effect**2, weights=shares)))
    kind = _bars if "value" in table else _curve
    return Picture((name,), spread, partial(kind, name, table, is_log))


def _bars(
    name: str,
    table: pd.DataFrame,
    is_log: bool,
    ax: Any,
    deviations: float,
    unit: str,
) -> None:
    """A bar for each value, from the top in the order in which values were declared."""
    is_empty = table["share"] < _HARDLY_ANY
    table = table[~(is_empty & (table["value"] == "other"))]
    title, is_known = name, table["share"].notna().all()
    if len(table) > _MOST_BARS:
        title = f"{name} ({_MOST_BARS} of {len(table)})"
        by = table["share"] if is_known else table["effect"].abs()
        table = table.loc[by.nlargest(_MOST_BARS).sort_index().index]
    places, effect = np.arange(len(table)), table["effect"].to_numpy(np.float64)
    shares = table["share"].to_numpy(np.float64)
    bars = ax.barh(places, effect)
    for bar, share in zip(bars, shares, strict=True):
        bar.set_alpha(0.3 if share < _HARDLY_ANY else 0.7)
    band = deviations * table["noise"].to_numpy(np.float64)
    if np.isfinite(band).all() and band.any():
        ax.errorbar(effect, places, xerr=band, fmt="none", ecolor="0.2", capsize=2)
    labels = [
        _label(value) + (f"  {share:.0%}" if is_known else "")
        for value, share in zip(table["value"], shares, strict=True)
    ]
    ax.set_yticks(places, labels, fontsize="small" if len(table) < 8 else "x-small")
    ax.invert_yaxis()
    ax.axvline(0.0, color=_GREY, linewidth=0.8, zorder=0)
    ax.set(title=title, xlabel=unit)


def _label(value: Any) -> str:
    text = "missing" if value is None or value != value else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _curve(
    name: str,
    table: pd.DataFrame,
    is_log: bool,
    ax: Any,
    deviations: float,
    unit: str,
) -> None:
    """A curve or steps with a band, and heaps, above the shares of the records."""
    first = "at" if "at" in table else "from"
    is_there = table[first].notna()
    own, missing = table[is_there], table[~is_there]
    if "heap" in table:
        heaps = own[own["heap"].astype(bool)]
        last = "at" if first == "at" else "to"
        _heaps(heaps, (heaps[first] + heaps[last]) / 2, ax, deviations)
        own = own.drop(index=heaps.index) if first == "at" else own
    effect = own["effect"].to_numpy(np.float64)
    band = deviations * own["noise"].to_numpy(np.float64)
    low, high = effect - band, effect + band
    at = _as_axis(own[first])
    if first == "at":
        ax.plot(at, effect)
        ax.fill_between(at, low, high, alpha=0.25, linewidth=0)
        edges = np.concatenate([at[:1], at[:-1] + (at[1:] - at[:-1]) / 2, at[-1:]])
    else:
        edges = np.append(at, _as_axis(own["to"])[-1:])
        draw_steps(ax, edges, effect, low, high, is_filled=False, is_log=False)
    if is_log:
        ax.set_xscale("symlog" if at[0] == 0 else "log")
    shares = own["share"].to_numpy(np.float64)
    if np.isfinite(shares).all():
        ax.stairs(
            _HEIGHT * shares / max(float(shares.max()), 1e-300),
            edges,
            fill=True,
            color=_GREY,
            alpha=0.6,
            zorder=0,
            transform=ax.get_xaxis_transform(),
        )
    for row in missing.itertuples():
        share = "" if math.isnan(row.share) else f" {row.share:.0%}"
        label = f"missing{share}"
        ax.axhline(row.effect, linestyle=":", color="0.3", label=label)
        ax.legend(fontsize="small")
    ax.axhline(0.0, color=_GREY, linewidth=0.8, zorder=0)
    if at.dtype.kind == "M":
        ax.tick_params(axis="x", rotation=30)
    elif not is_log:
        ax.locator_params(axis="x", nbins=5)
    ax.set(title=name, ylabel=unit)


def _heaps(rows: pd.DataFrame, at: pd.Series, ax: Any, deviations: float) -> None:
    """Points with bars, and the shares of the records beside them."""
    places = _as_axis(at)
    effect = rows["effect"].to_numpy(np.float64)
    band = deviations * rows["noise"].to_numpy(np.float64)
    draw_heaps(ax, places, effect, effect - band, effect + band)
    for x, y, share in zip(places, effect, rows["share"], strict=True):
        if math.isfinite(share):
            text = f" {share:.0%}"
            ax.annotate(text, (x, y), fontsize="x-small", color="C1")


def _as_axis(values: pd.Series) -> np.ndarray:
    """Numbers, or points in time, of a column that may be of objects."""
    return np.asarray(values.infer_objects())


def pair_picture(
    columns: tuple[str, str],
    axes: tuple[PairAxis, PairAxis],
    values: FloatArray,
) -> Picture:
    """A heat map of what a pair adds beyond both columns."""
    spread = float(np.std(values))
    return Picture(columns, spread, partial(_pair, columns, axes, values))


@dataclass(frozen=True, eq=False)
class PairAxis:
    """An axis of codes.

    Parameters
    ----------
    edges : ndarray or None
        Ends of intervals; None for other codes.
    labels : tuple of str
        Each code in words.
    is_log : bool
    """

    edges: np.ndarray | None
    labels: tuple[str, ...]
    is_log: bool

    def ticks(self) -> tuple[list[float], list[str]]:
        """A few places among the codes, with round numbers where codes have edges."""
        if self.edges is None:
            step = -(-len(self.labels) // _MOST_BARS)
            places = list(range(0, len(self.labels), step))
            return [float(i) for i in places], [_label(self.labels[i]) for i in places]
        edges, n = self.edges, len(self.edges) - 1
        rest = list(range(n, len(self.labels)))
        if edges.dtype.kind == "M":
            round_ones = edges[np.linspace(0, n, 4).astype(int)]
            texts = [str(edge.astype("datetime64[D]")) for edge in round_ones]
            edges, round_ones = edges.astype(np.int64), round_ones.astype(np.int64)
        else:
            round_ones = _round_numbers(float(edges[0]), float(edges[-1]), self.is_log)
            texts = [f"{number:g}" for number in round_ones]
        places = np.interp(round_ones, edges, np.arange(n + 1) - 0.5)
        return [*places.tolist(), *map(float, rest)], [
            *texts,
            *(self.labels[i] for i in rest),
        ]


def _round_numbers(low: float, high: float, is_log: bool) -> FloatArray:
    """A few round numbers from `low` to `high`."""
    if is_log:
        found = 10.0 ** np.arange(math.floor(math.log10(high)) + 1)
        found = np.append(0.0, found)
    else:
        rough = (high - low) / 4
        size = 10.0 ** math.floor(math.log10(rough))
        step = size * min((1, 2, 5, 10), key=lambda k: abs(k * size - rough))
        found = step * np.arange(math.ceil(low / step), math.floor(high / step) + 1)
    return np.asarray(found[(found >= low) & (found <= high)], dtype=np.float64)


def _pair(
    columns: tuple[str, str],
    axes: tuple[PairAxis, PairAxis],
    values: FloatArray,
    ax: Any,
    deviations: float,
    unit: str,
) -> None:
    if not values.any():
        _no_interaction(columns, ax, deviations, unit)
        return
    ax.set(title=" x ".join(columns), xlabel=columns[1], ylabel=columns[0])
    largest = float(np.abs(values).max())
    image = ax.imshow(
        values,
        cmap="RdBu",
        vmin=-largest,
        vmax=largest,
        aspect="auto",
        origin="lower",
    )
    ax.figure.colorbar(image, ax=ax, label=unit)
    for axis, set_ticks in ((axes[1], ax.set_xticks), (axes[0], ax.set_yticks)):
        places, labels = axis.ticks()
        set_ticks(places, labels, fontsize="small")
    ax.tick_params(axis="x", rotation=30)


def _no_interaction(
    columns: tuple[str, ...], ax: Any, deviations: float, unit: str
) -> None:
    ax.set(title=" x ".join(columns), xticks=[], yticks=[])
    ax.text(0.5, 0.5, "no interaction kept", ha="center", transform=ax.transAxes)
