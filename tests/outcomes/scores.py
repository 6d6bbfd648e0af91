"""Private scores: every scoring, both deltas, every relation."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sklearn.linear_model import LinearRegression, LogisticRegression

from skdp import BudgetLedger, DPMatrixFactorization, private_score
from tests.outcomes.linear import N_CLASSES, model
from tests.outcomes.outcome import Outcome, Released, facts_of
from tests.outcomes.rows import ratings, rows, targets

SCORINGS = {
    "accuracy": ("logistic", "softmax", "hinge"),
    "balanced_accuracy": ("logistic", "softmax", "hinge"),
    "neg_log_loss": ("logistic", "softmax", "hinge"),  # refused without probabilities
    "roc_auc": ("logistic", "softmax", "hinge"),  # refused of several labels
    "f1": ("logistic", "softmax", "hinge"),
    "f1_macro": ("logistic", "softmax", "hinge"),
    "neg_mean_absolute_error": ("squared",),
    "neg_mean_squared_error": ("squared",),
    "neg_mean_pinball_loss": ("squared",),
    "neg_mean_poisson_deviance": ("squared",),  # refused of targets below 0
    "neg_mean_gamma_deviance": ("squared",),
    "r2": ("squared",),
}
BUDGETS = {
    "delta": {"epsilon": 1.0, "delta": 1e-6},
    "pure": {"epsilon": 1.0, "delta": 0.0},
    "large_delta": {"epsilon": 0.01, "delta": 0.3},  # of which Gaussian noise has use
    "little_noise": {"epsilon": 80.0, "delta": 1e-6},  # else r2 is at its least
    "exact": {"epsilon": inf},
}


def _released(score: Any) -> Released:
    values = [score.value, score.standard_error, score.scoring]
    return Released(values, facts_of(score.privacy))


def scored(loss: str, table: str, params: dict[str, Any]) -> Released:
    """The score of a private model on its own rows."""
    X = rows(table)
    y = targets(X, N_CLASSES[loss])
    fitted = model(loss, "auto", random_state=1).fit(X, y)
    return _released(private_score(fitted, X, y, random_state=0, **params))


def foreign(loss: str, params: dict[str, Any]) -> Released:
    """The score of a model of scikit-learn, with public facts that are declared."""
    X = rows("plain")
    y = targets(X, N_CLASSES[loss])
    kind = LinearRegression if loss == "squared" else LogisticRegression
    return _released(private_score(kind().fit(X, y), X, y, random_state=0, **params))


def of_ratings(params: dict[str, Any]) -> Released:
    """The score of a factorisation on ratings."""
    X, y = ratings()
    fitted = DPMatrixFactorization(
        privacy_unit="rating_value", rating_bounds=(1, 5), random_state=1
    ).fit(X, y)
    return _released(private_score(fitted, X, y, random_state=0, **params))


def with_ledger(scoring: str) -> Released:
    """The score of a model whose fit is on the same books: Gaussian noise."""
    with TemporaryDirectory() as folder:
        books = Path(folder) / "books.db"
        ledger = BudgetLedger(books, epsilon=9.0, delta=1e-6, allow_nonprivate=True)
        return scored(
            SCORINGS[scoring][0],
            "plain",
            {"scoring": scoring, "ledger": ledger, **BUDGETS["delta"]},
        )


def outcomes() -> Iterator[Outcome]:
    """All of private scores."""
    for scoring, losses in SCORINGS.items():
        for budget, given in BUDGETS.items():
            for adjacency in ("replace_one", "zero_out"):
                every = {"scoring": scoring, "adjacency": adjacency, **given}
                for loss in losses:
                    for table in ("plain", "csr", "huge"):
                        key = f"score/{scoring}/{loss}/{table}/{adjacency}/{budget}"
                        yield Outcome(key, partial(scored, loss, table, every))
                loss = losses[0]
                declared = {"classes": [0, 1]}
                if loss == "squared":
                    declared = {"target_bounds": (-2, 3)}
                key = f"score/{scoring}/foreign_{loss}/{adjacency}/{budget}"
                yield Outcome(key, partial(foreign, loss, every | declared))
            key = f"score/{scoring}/ratings/rating_value/{budget}"
            every = {"scoring": scoring, "adjacency": "rating_value", **given}
            yield Outcome(key, partial(of_ratings, every))
        key = f"score/{scoring}/{losses[0]}/plain/with_ledger"
        yield Outcome(key, partial(with_ledger, scoring))
