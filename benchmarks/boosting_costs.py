"""What parameters of boosting cost or gain on Adult, against every default.

    python -m benchmarks.boosting_costs --adjacency replace_one --epsilon 1 --fits 5

Judged by a fifth of the training part, another one for each fit, and never by the test
part. Beyond: of fits to the same records with the same seed, which is other noise where
other things are asked. Kept: the share of what trees add that was worth most, 0 where
there are none.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks._accuracy import mean_and_error
from benchmarks._commands import count
from benchmarks._declared import Fit, load
from benchmarks._declared_tables import declared

_TABLE = "adult"
_RISING = {"education-num": 1, "hours-per-week": 1}
# What is asked for beyond the defaults.
CHANGES: dict[str, dict[str, Any]] = {
    "default": {},
    "max_interaction=1": {"max_interaction": 1},
    "max_interaction=2": {"max_interaction": 2},
    "max_interaction=None": {"max_interaction": None},
    "init='constant'": {"init": "constant"},
    "constant, max_interaction=1": {"init": "constant", "max_interaction": 1},
    "constant, max_interaction=2": {"init": "constant", "max_interaction": 2},
    "constant, max_interaction=None": {"init": "constant", "max_interaction": None},
    "years of school and hours rise": {"monotonic_cst": _RISING},
    "capital gains rise": {"monotonic_cst": {"capital-gain": 1}},
}


def scores(
    change: dict[str, Any], epsilon: float, adjacency: str, seed: int
) -> tuple[float, float, float]:
    """AUC and log-loss of one fit, and the share of its trees that was kept."""
    known, parts = declared(_TABLE), load(_TABLE, seed)
    delta = 1 / len(parts.y_train) ** 2
    make = Fit(known, epsilon, delta, adjacency, seed).boosted
    model = make(columns=known.columns, **change).fit(parts.X_train, parts.y_train)
    p = model.predict_proba(parts.X)[:, 1]
    kept = float(getattr(model, "shrinkage_", 0.0))
    return float(roc_auc_score(parts.y, p)), float(log_loss(parts.y, p)), kept


def row(name: str, found: np.ndarray, first: np.ndarray) -> str:
    """Means with their errors, and what is beyond the first ones."""
    told = [_told(each) for each in found.T[:2]]
    told += [_told(each, sign="+") for each in (found - first).T[:2]]
    return f"| {name} | {' | '.join(told)} | {found[:, 2].mean():.2f} |"


def _told(each: np.ndarray, sign: str = "") -> str:
    mean, error = mean_and_error(each)
    return f"{mean:{sign}.4f} ± {error:.4f}"


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each change."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--fits", type=count, default=5)
    parser.add_argument(
        "--adjacency", choices=["zero_out", "replace_one"], default="replace_one"
    )
    parser.add_argument("--change", action="append", choices=list(CHANGES))
    options = parser.parse_args(arguments)
    print("| | AUC | log-loss | AUC beyond | log-loss beyond | kept |")
    print("|---|---|---|---|---|---|")
    first = None
    for name in options.change or CHANGES:
        asked = CHANGES[name], options.epsilon, options.adjacency
        found = np.array([scores(*asked, seed) for seed in range(options.fits)])
        first = found if first is None else first
        print(row(name, found, first), flush=True)


if __name__ == "__main__":
    main()
