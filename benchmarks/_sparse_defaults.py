"""The choices behind the defaults of two_stage and knowledge_transfer.

Synthetic data sets with seeds from 1000 up, and the training part of the IMDB reviews,
split three ways: 15,000 to train on, 5,000 that stand for public rows, 5,000 to judge
by. None of them is used by a reported table.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from benchmarks._accuracy import mean_and_error
from benchmarks._commands import Commands
from benchmarks._data import MissingData
from benchmarks._sparse_data import imdb
from benchmarks._sparse_design import Design, relative_error, support_f1
from skdp.linear_model import DPSparseLinearRegression, DPSparseLogisticRegression

DESIGN = Design(n=1000, d=1000, s=10, kind="rows")
SEEDS, TEXT_SEEDS = range(1000, 1010), range(1000, 1004)
TEACHERS = (
    "nesterov",
    "noisy_gd",
    "objective_perturbation",
    "output_perturbation",
)


def add(commands: Commands) -> None:
    """Make it a command."""
    commands.add(
        "sparse_defaults", "the choices behind sparse defaults", lambda options: run()
    )


def run() -> None:
    """Print the tables."""
    warnings.simplefilter("ignore")
    print("| data | adjacency | epsilon | solver | settings | score | F1 |")
    print("|---|---|---|---|---|---|---|")
    for adjacency, epsilon in product(("replace_one", "zero_out"), (2.0, 4.0, 10.0)):
        budget = {"epsilon": epsilon, "adjacency": adjacency}
        for share, clip in product((0.3, 0.5, 0.7), (0.125, 0.25, 0.5)):
            settings = {"selection_share": share, "residual_clip": clip}
            _synthetic(budget, "two_stage", settings)
        for refit in ("noisy_gd", "nesterov", "adassp", "objective_perturbation"):
            _synthetic(budget, "two_stage", {"refit": refit})
        for teacher in (*TEACHERS, "adassp"):
            _synthetic(budget, "knowledge_transfer", {"teacher": teacher})
    try:
        imdb("sentiment", "tfidf")
    except MissingData as error:
        print(f"| imdb | refused: {error} | | | | | |")
        return
    for epsilon, s in product((1.0, 4.0), (30, 100, 300)):
        for share in (0.3, 0.5, 0.7):
            _text(epsilon, s, "two_stage", {"selection_share": share})
        _text(epsilon, s, "two_stage", {"selection": "peeling"})
        for teacher in TEACHERS[:3]:
            _text(epsilon, s, "knowledge_transfer", {"teacher": teacher})
            public = {"teacher": teacher, "public_rows": None}
            _text(epsilon, s, "knowledge_transfer", public)


def _synthetic(budget: dict[str, Any], solver: str, settings: dict[str, Any]) -> None:
    bound = 3 * DESIGN.deviation
    errors, found = [], []
    for seed in SEEDS:
        sample = DESIGN.sample(seed)
        model = DPSparseLinearRegression(
            delta=0.01,
            data_norm=DESIGN.data_norm,
            feature_bound=DESIGN.feature_bound,
            n_nonzero_coefs=DESIGN.s,
            fit_intercept=False,
            target_bounds=(-bound, bound),
            solver=solver,
            solver_params=settings,
            **budget,
        ).fit(sample.X, sample.y)
        errors.append(relative_error(model.coef_, sample.weights))
        found.append(support_f1(model.coef_, sample.weights))
    names = [DESIGN.kind, budget["adjacency"], budget["epsilon"], solver, settings]
    _print_row(names, errors, f"{np.mean(found):.2f}")


@lru_cache(maxsize=1)
def _parts(seed: int) -> tuple[Any, ...]:
    """Rows and labels to train on, public rows, rows and labels to judge by."""
    data = imdb("sentiment", "tfidf")
    order = np.random.default_rng(seed).permutation(len(data.y_train))
    train, public, judge = (np.sort(x) for x in np.split(order, [15_000, 20_000]))
    X, y = data.X_train, data.y_train
    return X[train], y[train], X[public], X[judge], y[judge]


def _text(epsilon: float, s: int, solver: str, settings: dict[str, Any]) -> None:
    accuracies = []
    for seed in TEXT_SEEDS:
        X, y, public, X_judge, y_judge = _parts(seed)
        params = dict(settings)
        if "public_rows" in params:
            params["public_rows"] = public
        model = DPSparseLogisticRegression(
            epsilon,
            delta=1 / len(y) ** 2,
            data_norm=1.0,
            feature_bound=0.3,
            n_nonzero_coefs=s,
            classes=[0.0, 1.0],
            solver=solver,
            solver_params=params,
        ).fit(X, y)
        accuracies.append(model.score(X_judge, y_judge))
    shown = settings | ({"public_rows": "given"} if "public_rows" in settings else {})
    _print_row([f"imdb s={s}", "replace_one", epsilon, solver, shown], accuracies, "")


def _print_row(names: list[Any], values: list[float], last: str) -> None:
    mean, error = mean_and_error(values)
    cells = [*map(str, names), f"{mean:.3f} ± {error:.3f}", last]
    print(f"| {' | '.join(cells)} |", flush=True)
