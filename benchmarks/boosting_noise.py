"""Where noise leaves boosting no more than a constant: Adult, by the ratio of forecast.

    python -m benchmarks.boosting_noise --fits 10

For each number of records epsilon is what gives the ratio; scores are those of the test
part, with every default. The lines of ``skdp/ensemble/_estimators.py``, at which `fit`
warns, were read off such a table.
"""

from __future__ import annotations

import argparse
import math
import warnings
from typing import Any

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks._accuracy import mean_and_error
from benchmarks._commands import count
from benchmarks._declared import Parts, load
from benchmarks._declared_tables import Declared, declared
from skdp import DPGradientBoostingClassifier

_TABLE = "adult"
_RATIOS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
_RECORDS = (300, 3_000, 32_561)
_EPSILONS = (1e-4, 1e4)
_HALVINGS = 40


def default(
    known: Declared, epsilon: float, seed: int | None = None, init: str = "linear"
) -> Any:
    """Every default but the start."""
    given: dict[str, Any] = {"columns": known.columns, "classes": known.classes}
    return DPGradientBoostingClassifier(epsilon, init=init, random_state=seed, **given)


def epsilon_of(known: Declared, n: int, ratio: float) -> float:
    """The least epsilon with no more than this ratio, of `forecast`."""
    low, high = map(math.log, _EPSILONS)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        told = default(known, math.exp(middle)).forecast(n).noise_to_signal
        low, high = (middle, high) if told > ratio else (low, middle)
    return math.exp(high)


def scores(
    known: Declared, parts: Parts, epsilon: float, seed: int, init: str = "linear"
) -> tuple[float, float, float, float]:
    """AUC, log-loss, mean probability, and whether all predictions are the same."""
    # Or tables of all sizes would have the same noise.
    model = default(known, epsilon, seed + len(parts.y_train), init)
    model.fit(parts.X_train, parts.y_train)
    p = model.predict_proba(parts.X)[:, 1]
    auc, loss = roc_auc_score(parts.y, p), log_loss(parts.y, p)
    return float(auc), float(loss), float(np.mean(p)), float(np.ptp(p) == 0)


def _row(n: int, ratio: float, epsilon: float, found: np.ndarray) -> str:
    told = ["{:.3f} ± {:.3f}".format(*mean_and_error(each)) for each in found.T[:3]]
    scores = " | ".join(told)
    return f"| {n} | {ratio:g} | {epsilon:.3g} | {scores} | {found[:, 3].sum():g} |"


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each ratio and number of records."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=count, default=10)
    parser.add_argument("--records", action="append", type=count)
    parser.add_argument("--ratio", action="append", type=float)
    parser.add_argument("--init", choices=["linear", "constant"], default="linear")
    options = parser.parse_args(arguments)
    known = declared(_TABLE)
    print("| records | ratio | epsilon | AUC | log-loss | mean | constant |")
    print("|---|---|---|---|---|---|---|")
    for n in options.records or _RECORDS:
        for ratio in options.ratio or _RATIOS:
            epsilon = epsilon_of(known, n, ratio)
            found = [
                scores(known, parts, epsilon, seed, options.init)
                for seed in range(options.fits)
                for parts in [load(_TABLE, seed, "report", n)]
            ]
            print(_row(n, ratio, epsilon, np.array(found)), flush=True)


if __name__ == "__main__":
    main()
