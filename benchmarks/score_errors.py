"""How often a private score and its standard error hold the exact score.

Made-up records with a probability of the positive label each, which the model knows;
labels are predicted as positive where it exceeds the share of positives. Of targets the
model knows a mean; `share` is that of the variance which the means explain. Every run
has new records and one release.

One record is protected, without a ledger (Laplace) or in one (Gaussian), or one user of
two records (users; `n` is the number of users).

The verdict has the share of runs in which value ± 1.96 standard_error holds the exact
score of the same records, the mean of value less exact score, and the mean error over
the standard deviation of that difference.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.linear_model import LinearRegression
from sklearn.metrics import get_scorer

from benchmarks._runner import Line, benchmark, line
from benchmarks.errors import Stated
from skdp import BudgetLedger, private_score
from skdp.model_selection import resolve_scoring

_POSITIVE, _EXPLAINED = (0.01, 0.05, 0.5), (0.25, 0.9)
_OF_TARGETS = ("r2", "neg_mean_squared_error")
# Shares, numbers of records and epsilons of each score. Gaussian noise and users have
# the largest number and epsilon 1.
_COUNTS = _POSITIVE, (1_000, 5_000), (0.1, 0.3, 1.0)
_SETTINGS = {
    "roc_auc": (_POSITIVE, (5_000, 20_000), (0.3, 1.0, 4.0)),
    "balanced_accuracy": _COUNTS,
    "f1": _COUNTS,
    "f1_macro": _COUNTS,
    "neg_log_loss": (_POSITIVE, (5_000, 20_000), (0.3, 1.0, 4.0)),
    "r2": (_EXPLAINED, (1_000, 2_000, 5_000, 20_000), (0.1, 0.3, 1.0, 4.0)),
    "neg_mean_squared_error": (_EXPLAINED, (5_000, 20_000), (0.3, 1.0, 4.0)),
}
_SPREAD, _NEEDED, _BOUNDS = 1.2, 1.959964, (-4.0, 4.0)


class StatedLabel(Stated):
    """The same, which predicts a label where its probability exceeds `least`."""

    def __init__(self, least: float) -> None:
        self.least = least

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Whether the column is above `least`."""
        return (X[:, 0] > self.least).astype(int)


def labelled(n_samples: int, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and labels; `share` is that of the positive ones."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(0, _SPREAD, n_samples)
    middle = brentq(lambda x: expit(odds + x).mean() - share, -15, 15)
    chances = expit(odds + middle)
    return chances[:, None], (rng.random(n_samples) < chances).astype(int)


def targets(n_samples: int, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Means and targets within the declared bounds; means explain `share`."""
    rng = np.random.default_rng(seed)
    means = rng.normal(0, _SPREAD * share**0.5, n_samples).clip(*_BOUNDS)
    y = (means + rng.normal(0, _SPREAD * (1 - share) ** 0.5, n_samples)).clip(*_BOUNDS)
    return means[:, None], y


def released(
    name: str, share: float, n_samples: int, epsilon: float, law: str, seed: int
) -> list[float]:
    """Whether the exact score is held, value less exact score, and the error."""
    model: Any = StatedLabel(share)
    facts: dict[str, Any] = {"scoring": name, "epsilon": epsilon}
    if name == "neg_log_loss":  # of which few labels have a lower probability
        facts["scoring"] = resolve_scoring(name, model, params={"floor": 1e-4})
    n_rows = n_samples
    if law == "users":
        n_rows = 2 * n_samples
        facts |= {"privacy_unit": "user", "groups": np.arange(n_rows) // 2}
    if name in _OF_TARGETS:
        model = LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])
        X, y = targets(n_rows, share, seed)
        facts["target_bounds"] = _BOUNDS
    else:
        X, y = labelled(n_rows, share, seed)
    with tempfile.TemporaryDirectory() as folder:
        if law == "Gaussian":
            path = Path(folder) / "ledger.db"
            facts["ledger"] = BudgetLedger(path, epsilon=1e4, delta=1e-3)
        score = private_score(model, X, y, **facts)
    away = score.value - get_scorer(name)(model, X, y)
    error = score.standard_error
    return [float(abs(away) <= _NEEDED * error), away, error]


@benchmark("score-errors", runs=200, judged=True)
def lines() -> Iterator[Line]:
    """Coverage of every private score by its standard error."""
    for name, (shares, sizes, epsilons) in _SETTINGS.items():
        laws = [("Laplace", n, e) for n, e in product(sizes, epsilons)]
        laws += [("Gaussian", sizes[-1], 1.0), ("users", sizes[-1], 1.0)]
        for (law, n_samples, epsilon), share in product(laws, shares):
            yield line(
                {"share": share, "n": n_samples, "epsilon": epsilon, "law": law},
                name,
                partial(released, name, share, n_samples, epsilon, law),
                ("held", "bias", "error"),
                private=True,
                judge=_summary,
            )


def _summary(values: np.ndarray, _: Any) -> str:
    held, away, error = values.T
    return (
        f"holds {100 * held.mean():.1f} %, bias {away.mean():+.2g}, error over sd "
        f"{error.mean() / away.std():.2f}"
    )
