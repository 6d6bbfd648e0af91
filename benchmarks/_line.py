"""What an experiment yields: lines of a table or figure, to be measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path("bench-results")
# Settings are tuned on runs from here on, which are not reported.
FIRST_TUNING_RUN = 1000


@dataclass(frozen=True, kw_only=True)
class Line:
    """One method at one place of a table or figure.

    Parameters
    ----------
    place : dict
        Columns that say where, for example ``{"T": 100}``.
    method : str
    claimed, true : float
        Epsilon that the source states, and that of what is released; inf without noise.
    measure : callable or None
        Values of the metrics for some runs, given their numbers; a run depends on its
        number only, but for the noise of a private release.
    delta : float, default=0
        The delta that both hold at.
    adjacency : str, default="replace_one"
    private : bool, default=False
        Whether it is a private release: of the library, with its own noise. A grid
        makes it none.
    note : str, default=""
    refusal : str, default=""
        Why the method cannot do it; `measure` is None then.
    metrics : tuple of str, default=("mean",)
        What `measure` gives of each run, the first for the plot. With one metric it
        may give plain numbers.
    most_runs : int or None, default=None
        More runs would only repeat these.
    grid : tuple of dict, default=()
        Settings for an oracle to choose from: the best first metric on runs that are
        not reported. `measure` then takes one as keyword arguments.
    better : {"lower", "higher"}, default="lower"
        Which values of the first metric are.
    """

    place: dict[str, str | float]
    method: str
    claimed: float
    true: float
    measure: Callable[..., Iterable[Any]] | None
    delta: float = 0.0
    adjacency: str = "replace_one"
    private: bool = False
    note: str = ""
    refusal: str = ""
    metrics: tuple[str, ...] = ("mean",)
    most_runs: int | None = None
    grid: tuple[dict[str, Any], ...] = ()
    better: str = "lower"


Experiment = Callable[..., Iterable[Line]]
