"""Bands of shape functions: noise as it is told, and as it is seen in fits of Adult.

    python -m benchmarks.boosting_bands --max-interaction 2 --fits 20

All fits are to the same records, with the same trees and other noise. For the entries
of curves, and of tables if there are any, it prints quantiles of the deviation that is
seen over the one that is told (as mean square of the fits), in how many fits there is
any, and how many entries of these are within one and two deviations told of the mean of
all fits: where no tree was worth keeping, tables are 0 and so is their noise. With
``--draw-trees`` trees are others each time, as they are for who fits twice.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks._commands import count
from benchmarks._declared import load
from benchmarks._declared_tables import declared
from skdp import DPGradientBoostingClassifier
from skdp.ensemble._boosting import NewtonBoosting

_TABLE = "adult"
_QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@contextmanager
def same_trees() -> Iterator[None]:
    """Trees of the first fit serve all; what its noise says of codes is in them."""
    draw, kept = NewtonBoosting.trees, []

    def trees(*args: Any) -> Any:
        if not kept:
            kept.append(draw(*args))
        return kept[0]

    with patch.object(NewtonBoosting, "trees", trees):
        yield


def entries(shapes: Any) -> dict[str, np.ndarray]:
    """Values and noise of all curves, and of all tables: (2, n_entries) each."""
    found = {}
    for name, size in (("curves", 1), ("tables", 2)):
        own = [each for each in shapes if len(each.columns) == size]
        if own:
            parts = ([each.values.ravel(), each.noise.ravel()] for each in own)
            found[name] = np.concatenate([np.array(part) for part in parts], axis=1)
    return found


def compared(fits: Sequence[np.ndarray]) -> tuple[np.ndarray, list[float]]:
    """Deviations seen over told, and shares within one and two told ones.

    Parameters
    ----------
    fits : sequence of ndarray of shape (2, n_entries)
        Values and noise; where there is no noise nothing is compared.
    """
    values, noise = np.stack(fits, axis=1)
    told = np.sqrt(np.mean(noise**2, axis=0))
    kept = told > 0
    seen = np.std(values, axis=0, ddof=1)[kept]
    # Of one fit from the mean of all, itself among them.
    shrunk = np.sqrt(1 - 1 / len(fits))
    away = np.abs(values - values.mean(axis=0)) / shrunk
    within = [float(np.mean((away <= k * noise)[noise > 0])) for k in (1, 2)]
    return seen / told[kept], within


def measured(
    epsilon: float, n_fits: int, n_train: int | None = None, **given: Any
) -> dict[str, list[np.ndarray]]:
    """Entries of each fit, by kind."""
    known, parts = declared(_TABLE), load(_TABLE, 0, "report", n_train)
    found: dict[str, list[np.ndarray]] = {}
    for seed in range(n_fits):
        model = DPGradientBoostingClassifier(
            epsilon,
            columns=known.columns,
            classes=known.classes,
            random_state=seed,
            **given,
        ).fit(parts.X_train, parts.y_train)
        for kind, each in entries(model.shape_functions_).items():
            found.setdefault(kind, []).append(each)
    return found


def _row(epsilon: float, kind: str, fits: list[np.ndarray]) -> str:
    ratios, (one, two) = compared(fits)
    # No entry has noise if no tree was worth keeping in any fit.
    quantiles = (
        np.quantile(ratios, _QUANTILES)
        if len(ratios)
        else np.full(len(_QUANTILES), np.nan)
    )
    told = " | ".join(f"{each:.2f}" for each in quantiles)
    noise = np.sqrt(np.mean([each[1] ** 2 for each in fits]))
    n_kept = sum(bool(each[1].any()) for each in fits)
    size = np.sqrt(np.mean(np.square([each[0] for each in fits])))
    return (
        f"| {epsilon:g} | {kind} | {size:.3f} | {noise:.3f} | {told} "
        f"| {n_kept} of {len(fits)} | {one:.3f} | {two:.3f} |"
    )


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each epsilon, of curves and of tables."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", action="append", type=float)
    parser.add_argument("--fits", type=count, default=20)
    parser.add_argument("--n-train", type=count, help="at most so many records")
    parser.add_argument("--max-interaction", type=int, choices=[1, 2], default=2)
    parser.add_argument("--init", choices=["linear", "constant"], default="linear")
    parser.add_argument("--draw-trees", action="store_true")
    options = parser.parse_args(arguments)
    quantiles = " | ".join(f"{each:g}" for each in _QUANTILES)
    print(f"| epsilon | | size | told | {quantiles} | fits | within 1 | 2 |")
    print("|---" * (len(_QUANTILES) + 7) + "|")
    given = {"max_interaction": options.max_interaction, "init": options.init}
    for epsilon in options.epsilon or [1.0]:
        asked = epsilon, options.fits, options.n_train
        if options.draw_trees:
            found = measured(*asked, **given)
        else:
            with same_trees():
                found = measured(*asked, **given)
        for kind, fits in found.items():
            print(_row(epsilon, kind, fits), flush=True)


if __name__ == "__main__":
    main()
