"""Rules of Newton boosting: their constants against neighbours of them.

Judged by a fifth of the training part of each table, another one for each seed, and
never by a test part. To leave a table out, look at the lines of the others. Pure noise
and a smooth function stand beside them, where no default may lose to the constant by
more than 0.01 of log-loss or 0.02 of R2, and four standard errors.

    python -m benchmarks.boosting_rules --seeds 3 --only now,more_doubt
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from scipy.special import expit, softmax
from sklearn.metrics import log_loss, r2_score, roc_auc_score

from benchmarks._accuracy import mean_and_error
from benchmarks._commands import count
from benchmarks._declared import load
from benchmarks._declared_tables import declared
from skdp._configured import given_params
from skdp._fit import Progress
from skdp.columns import Boolean, Categories, Range
from skdp.ensemble import _boosting as boosting
from skdp.ensemble import _releases as steps
from skdp.ensemble._losses import MEANS, RULES, BoostingTask, LeafRules
from skdp.losses import LogisticLoss, SoftmaxLoss
from skdp.losses._base import Loss, LossId
from skdp.privacy import Budget
from skdp.privacy.release._door import Door
from skdp.solvers import _default_rules as linear
from skdp.tables._memory import MemorySource

_TABLES = (
    ("adult", None),
    ("adult", 5000),
    ("covertype", None),
    ("protein_casp", None),
    ("ccpp", None),
    ("wine_quality_white", None),
    ("digits", None),
)
_EPSILONS = (0.1, 1.0, 4.0)
_N_BINS = 64


def _prior(factor: float) -> dict[LossId, LeafRules]:
    """The rules with the prior variance of each loss multiplied."""
    return {
        form: replace(rules, variance=factor * rules.variance)
        for form, rules in RULES.items()
    }


def _clips(factor: float) -> dict[LossId, LeafRules]:
    """The rules with the clips of each loss multiplied."""
    return {
        form: replace(rules, clip=(factor * rules.clip[0], factor * rules.clip[1]))
        for form, rules in RULES.items()
    }


# A question that is not asked.
_NOTHING = linear.SideQuestion(1.0, 0.0, 0.0)
# What is changed, by module: constants of the rules and their neighbours.
_CHANGES: dict[str, list[tuple[Any, str, Any]]] = {
    "now": [],
    "less_prior": [(steps, "RULES", _prior(0.25))],
    "more_prior": [(steps, "RULES", _prior(4.0))],
    "averaged_less": [(steps, "_AVERAGED", 0.05)],
    "averaged_more": [(steps, "_AVERAGED", 0.2)],
    "half_the_trees": [(boosting, "_N_TREES", 300)],
    "less_flow": [(boosting, "_FLOW", (20.0, 0.13, 80.0))],
    "more_flow": [(boosting, "_FLOW", (45.0, 0.3, 180.0))],
    "low_curvatures": [(steps, "_LEAST_CURVATURE", 0.0)],
    "deeper": [(boosting, "_SIGNAL_OF_A_LEAF", 30.0)],
    "less_deep": [(boosting, "_SIGNAL_OF_A_LEAF", 120.0)],
    "small_clips": [(boosting, "RULES", _clips(0.8))],
    "large_clips": [(boosting, "RULES", _clips(1.25))],
    "as_they_are": [(boosting, "GAINS", _NOTHING)],
    "less_linear": [(boosting, "_HALF_LINEAR", 600.0)],
    "more_linear": [(boosting, "_HALF_LINEAR", 4000.0)],
    "shorter_rows": [(linear, "_ROWS", 0.35)],
    "longer_rows": [(linear, "_ROWS", 0.7)],
    "bold_after": [(boosting, "_PRIOR_AFTER", 1.0)],
    "shy_after": [(boosting, "_PRIOR_AFTER", 0.1)],
    "wide_units": [(boosting, "TARGETS", _NOTHING)],
}


@dataclass(frozen=True)
class Coded:
    """Codes and targets to train on and to judge by."""

    loss: Loss
    n_bins: tuple[int, ...]
    is_ordered: tuple[bool, ...]
    missing: tuple[int | None, ...]
    codes: np.ndarray
    y: np.ndarray
    judged: np.ndarray
    target: np.ndarray


def _coded_column(declaration: Any, cells: Any) -> tuple[np.ndarray, int, bool]:
    """Codes, how many there are, and whether they are in order."""
    if isinstance(declaration, tuple):
        declaration = Range(*declaration)
    if isinstance(declaration, list):
        declaration = Categories(tuple(declaration))
    if isinstance(declaration, Range):
        low, high = declaration.low, declaration.high
        x = np.clip(pd.to_numeric(pd.Series(cells)).to_numpy(dtype=float), low, high)
        if declaration.log:
            scale = np.log if low > 0 else np.log1p
            x, low, high = scale(x), float(scale(low)), float(scale(high))
        codes = np.clip((x - low) / (high - low) * _N_BINS, 0, _N_BINS - 1)
        return codes.astype(np.uint8), _N_BINS, True
    if isinstance(declaration, Boolean):
        return np.asarray(cells, dtype=bool).astype(np.uint8), 2, False
    places = {value: i for i, value in enumerate(declaration.values)}
    codes = np.array([places.get(cell, len(places)) for cell in cells])
    return codes.astype(np.uint8), len(places) + 1, False


def _coded(name: str, seed: int, n_train: int | None) -> Coded:
    known, parts = declared(name), load(name, seed, "settle", n_train)
    tables = []
    for X in (parts.X_train, parts.X):
        if isinstance(known.columns, dict):
            cells = [(each, X[column]) for column, each in known.columns.items()]
        else:
            cells = [(known.columns, column) for column in np.asarray(X).T]
        tables.append([_coded_column(each, column) for each, column in cells])
    train, judged = (np.column_stack([c[0] for c in columns]) for columns in tables)
    sizes = tuple(column[1] for column in tables[0])
    in_order = tuple(column[2] for column in tables[0])
    loss, y, target = _targets(known, parts)
    none = (None,) * len(sizes)
    return Coded(loss, sizes, in_order, none, train, y, judged, target)


def _targets(known: Any, parts: Any) -> tuple[Loss, np.ndarray, np.ndarray]:
    if known.target_bounds is not None:
        low, high = known.target_bounds

        def scaled(y: np.ndarray) -> np.ndarray:
            return np.asarray((y - low) / (high - low) * 2 - 1)

        return MEANS, np.clip(scaled(parts.y_train), -1, 1), scaled(parts.y)
    places = {label: i for i, label in enumerate(known.classes)}
    y, target = (
        np.array([places[int(label)] for label in labels], dtype=float)
        for labels in (parts.y_train, parts.y)
    )
    n_classes = len(places)
    loss = LogisticLoss() if n_classes == 2 else SoftmaxLoss(n_classes)
    return loss, y, target


def _made_up(loss: Loss, is_noise: bool, n: int, seed: int) -> Coded:
    """Twelve columns of even codes, and targets of noise or of a smooth function."""
    rng = np.random.default_rng(seed)
    X = rng.integers(_N_BINS, size=(n + 4000, 12))
    wave = np.sin(X[:, 0] / _N_BINS * 2 * np.pi) / 2 + X[:, 1] / _N_BINS / 2 - 0.25
    wave = wave * (not is_noise)
    if not loss.form.is_of_numbers:
        y = (rng.random(len(X)) < expit(2 * wave - 0.85)).astype(float)
    else:
        y = np.clip(0.6 * wave + rng.normal(0.1, 0.3, len(X)), -1, 1)
    codes, twelve = X.astype(np.uint8), 12
    facts = (_N_BINS,) * twelve, (True,) * twelve, (None,) * twelve
    return Coded(loss, *facts, codes[:n], y[:n], codes[n:], y[n:])


def _scores(table: Coded, epsilon: float, seed: int) -> dict[str, float]:
    """Log-loss and AUC, or R2, and by how much the constant is better."""
    budget = Budget(epsilon, min(1e-6, 1 / len(table.y) ** 2))
    task = BoostingTask(
        loss=table.loss,
        n_samples=len(table.y),
        n_features=1,
        columns=table,
        adjacency="zero_out",
        init="linear",
        interactions=(2, None),
    )
    kind = boosting.NewtonBoosting
    solver = kind.planned(given_params(kind, kind.key, None), task, budget)
    door = Door(budget, adjacency="zero_out", ledger=None, random_state=seed)
    source = MemorySource(np.ascontiguousarray(table.codes), table.y)
    answers = door.commit(solver.plan(task), source, label="settle")
    start = time.perf_counter()
    model = solver.run(answers, replace(task, seed=seed), Progress())
    seconds = time.perf_counter() - start
    raw = model.raw(np.ascontiguousarray(table.judged))
    return _judged(table, raw) | {"seconds": seconds}


def _judged(table: Coded, raw: np.ndarray) -> dict[str, float]:
    if table.loss.form.is_of_numbers:
        r2 = float(r2_score(table.target, np.clip(raw[:, 0], -1, 1)))
        constant = np.full(len(raw), table.y.mean())
        return {"r2": r2, "lost": float(r2_score(table.target, constant)) - r2}
    k = max(table.loss.n_outputs, 2)
    p = softmax(raw, axis=1)
    if k == 2:
        p = np.column_stack([expit(-raw[:, 0]), expit(raw[:, 0])])
    labels = np.arange(k)
    shares = np.bincount(table.y.astype(int), minlength=k) / len(table.y)
    found = float(log_loss(table.target, p, labels=labels))
    constant = log_loss(table.target, np.tile(shares, (len(p), 1)), labels=labels)
    ranked = p[:, 1] if k == 2 else p
    auc = roc_auc_score(table.target, ranked, multi_class="ovr", labels=labels)
    return {"log_loss": found, "auc": float(auc), "lost": found - float(constant)}


def _cells() -> Iterator[tuple[str, float, Callable[[int], Coded]]]:
    for name, n in _TABLES:
        for epsilon in _EPSILONS:
            made = partial(_coded, name, n_train=n)
            yield f"{name} {n or ''}".strip(), epsilon, made
    for loss, is_noise, n in product(
        (LogisticLoss(), MEANS), (True, False), (1000, 5000, 30_000)
    ):
        label = f"{type(loss).__name__} {'noise' if is_noise else 'smooth'} {n}"
        yield label, 0.1, partial(_made_up, loss, is_noise, n)


def main() -> None:
    """Print a line for each change, table and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=count, default=3)
    parser.add_argument("--only", help="names of changes, with commas")
    parser.add_argument("--tables", help="start of the names of tables", default="")
    options = parser.parse_args()
    print("| change | data | epsilon | score | AUC | lost to the constant | s |")
    print("|---|---|---|---|---|---|---|")
    for name in (options.only or ",".join(_CHANGES)).split(","):
        with ExitStack() as changed:
            for module, constant, value in _CHANGES[name]:
                changed.enter_context(patch.object(module, constant, value))
            for label, epsilon, made in _cells():
                if label.startswith(options.tables):
                    print(_row(name, label, epsilon, made, options.seeds), flush=True)


def _row(
    name: str, label: str, epsilon: float, made: Callable[[int], Coded], n_seeds: int
) -> str:
    found = [_scores(made(seed), epsilon, seed) for seed in range(n_seeds)]
    score = "r2" if "r2" in found[0] else "log_loss"
    shown = []
    for key in (score, "auc", "lost"):
        if key not in found[0]:
            shown.append("")
            continue
        mean, error = mean_and_error(each[key] for each in found)
        is_lost = key == "lost" and mean > 4 * error + (0.02 if score == "r2" else 0.01)
        shown.append(f"{mean:.4f} ± {error:.4f}" + " !" * is_lost)
    seconds = sum(each["seconds"] for each in found) / n_seeds
    return f"| {name} | {label} | {epsilon} | {' | '.join(shown)} | {seconds:.1f} |"


if __name__ == "__main__":
    main()
