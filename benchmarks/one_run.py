"""What audits of one run find: medians of 20 fits, by model, score and canaries.

Run ``python -m benchmarks.one_run`` at the root of a checkout (about ten minutes).
Prints the tables of ``docs/attacks.md``. Data are made up; seeds of the audits are 0 to
19, noise is from the operating system, so that the last digit may differ.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from scipy.special import expit

from skdp import DPLinearRegression, DPLogisticRegression
from skdp.audit import CanaryPairs, OneRunAudit, audit_one_run, one_run_power
from skdp.audit._one_run import Score

DELTA = 1e-6
RUNS = 20
N, D = 1000, 10
SHARES = (0.05, 0.1, 0.2, 0.5, 1.0)


def made_up(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm 1 and a bounded target that follows from them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.clip(2 * X @ rng.normal(size=D) / np.sqrt(D), -1, 1)


@dataclass(frozen=True)
class Way:
    """A model that is audited, and how."""

    name: str
    model: Any
    X: np.ndarray
    y: np.ndarray
    score: Score | None = None
    canaries: Any = "columns"

    def audits(self, n_canaries: int = 1000, share: float = 0.2) -> list[OneRunAudit]:
        """One for each seed."""
        return [
            audit_one_run(
                self.model,
                self.X,
                self.y,
                score=self.score,
                canaries=self.canaries,
                n_canaries=n_canaries,
                n_guesses=round(share * n_canaries),
                random_state=seed,
            )
            for seed in range(RUNS)
        ]


def linear(epsilon: float, solver: str, adjacency: str, **params: Any) -> Any:
    """A regression without an intercept."""
    return DPLinearRegression(
        epsilon=epsilon,
        delta=DELTA,
        adjacency=adjacency,
        target_bounds=(-1, 1),
        solver=solver,
        fit_intercept=False,
        solver_params=params or None,
    )


def logistic(epsilon: float, solver: str, adjacency: str, **params: Any) -> Any:
    """A classifier without an intercept."""
    return DPLogisticRegression(
        epsilon=epsilon,
        delta=DELTA,
        adjacency=adjacency,
        classes=[0, 1],
        solver=solver,
        fit_intercept=False,
        solver_params=params or None,
    )


def last_iterate(model: Any, pairs: CanaryPairs) -> np.ndarray:
    """The weights of the columns after the last step, in place of an average."""
    towards = np.where(np.asarray(pairs.y) > 0, 1.0, -1.0)
    return towards * model.coef_path_[-1].ravel()[-len(pairs) :]


def whole_path(model: Any, pairs: CanaryPairs) -> np.ndarray:
    """All released gradients, less what is known of them; of a logistic regression.

    A canary's column has the gradient expit(weight) - label of this canary, and noise.
    """
    how, n = model.privacy_.solver_params, model.privacy_.n_samples
    path = model.coef_path_.reshape(len(model.coef_path_), -1)[:, -len(pairs) :]
    path = np.vstack([np.zeros((2, path.shape[1])), path])
    steps = np.diff(path, axis=0)
    moved = steps[1:] - how["momentum"] * steps[:-1]
    gradients = -moved * n / how["step_size"]
    labels = expit(path[1:-1]) - gradients
    return np.sum(labels / labels.var(axis=1, keepdims=True), axis=0)


def against_the_rest(n_canaries: int, share: float = 0.5) -> CanaryPairs:
    """Pairs whose label is wrong by a common feature that all other rows obey.

    Their residual is then near to its bound for both versions, which are the two
    directions of their own column.
    """
    common = np.sqrt(1 - share) * np.eye(1, D)
    common = np.repeat(common, n_canaries, axis=0)
    own = np.sqrt(share) * np.eye(n_canaries)
    zeros = np.zeros(n_canaries, dtype=int)
    first, other = np.hstack([common, own]), np.hstack([common, -own])
    return CanaryPairs(first, zeros, other, zeros)


def against_the_rest_way(epsilon: float, n_canaries: int = 1000) -> Way:
    """A logistic regression of 20,000 rows with one feature, and canaries against."""
    rest = np.hstack([np.ones((20_000, 1)), np.zeros((20_000, D - 1 + n_canaries))])
    model = logistic(epsilon, "noisy_gd", "replace_one")
    pairs = against_the_rest(n_canaries)
    labels = np.ones(len(rest), dtype=int)
    return Way("wrong by a common feature", model, rest, labels, None, pairs)


def rows_way(epsilon: float, width: int = 2000) -> Way:
    """Random directions among many features."""
    model = linear(epsilon, "noisy_gd", "replace_one")
    X, y = made_up()
    wide = np.hstack([X, np.zeros((N, width - D))])
    return Way("rows in random directions", model, wide, y, None, "rows")


def ways(epsilon: float) -> list[Way]:
    """Models, adjacencies and scores."""
    X, y = made_up()
    found = []
    makers: tuple[tuple[str, Callable[..., Any], np.ndarray], ...] = (
        ("linear regression", linear, y),
        ("logistic regression", logistic, (y > 0).astype(int)),
    )
    for name, make, labels in makers:
        for adjacency in ("replace_one", "zero_out"):
            for solver in ("noisy_gd", "nesterov", "output_perturbation", "auto"):
                model = make(epsilon, solver, adjacency)
                found.append(Way(f"{name}, {adjacency}, {solver}", model, X, labels))
    return found


def scored_ways(epsilon: float) -> list[Way]:
    """One logistic regression, read in three ways, and two other kinds of canaries."""
    X, y = made_up()
    labels = (y > 0).astype(int)
    model = logistic(epsilon, "noisy_gd", "replace_one", keeps_path=True)
    return [
        Way("weights (the default)", model, X, labels),
        Way("last iterate", model, X, labels, last_iterate),
        Way("all gradients of the path", model, X, labels, whole_path),
        against_the_rest_way(epsilon),
        rows_way(epsilon),
    ]


def medians(audits: list[OneRunAudit]) -> tuple[float, float, float, float]:
    """Of both bounds; the share of audits that refute by either; right guesses."""
    pairs = median(audit.epsilon_lower for audit in audits)
    gaussian = median(audit.gaussian_epsilon_lower for audit in audits)
    refuted = np.mean([audit.refutes or audit.refutes_gaussian for audit in audits])
    right = median(
        a.bounds.guesses.n_right / a.bounds.guesses.n_guesses for a in audits
    )
    return pairs, gaussian, float(refuted), right


def line(name: str, audits: list[OneRunAudit], began: float) -> None:
    """One row of a table."""
    pairs, gaussian, refuted, right = medians(audits)
    seconds = (time.perf_counter() - began) / len(audits)
    print(
        f"| {name} | {right:.3f} | {pairs:.2f} | {gaussian:.2f} | {refuted:.2f} | "
        f"{seconds:.2f} |",
        flush=True,
    )


HEAD = (
    "| right | any release | Gaussian | refuted | seconds |\n|---|---|---|---|---|---|"
)


def table(title: str, rows: list[Way], **how: Any) -> None:
    """A table of several ways."""
    print(f"\n{title}\n\n| audit {HEAD}")
    for way in rows:
        began = time.perf_counter()
        line(way.name, way.audits(**how), began)


def sizes(epsilon: float) -> None:
    """How many canaries, and which share of them is guessed."""
    X, y = made_up()
    model = linear(epsilon, "noisy_gd", "replace_one")
    way = Way("linear regression", model, X, y)
    print(f"\nclaimed {epsilon:g}: expected in advance, then found\n")
    print("| canaries | guessed | expected, any | Gaussian | found, any | Gaussian |")
    print("|---|---|---|---|---|---|")
    for n in (400, 1000, 2000):
        for share in SHARES:
            r = round(share * n)
            power = one_run_power(n, epsilon=epsilon, delta=DELTA, n_guesses=r)
            pairs, gaussian, _, _ = medians(way.audits(n, share))
            print(
                f"| {n} | {r} | {power.epsilon_lower:.2f} | "
                f"{power.gaussian_epsilon_lower:.2f} | {pairs:.2f} | {gaussian:.2f} |",
                flush=True,
            )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", type=float, nargs="*", default=[4.0, 1.0])
    warnings.simplefilter("ignore")
    for epsilon in parser.parse_args().epsilon:
        table(f"claimed {epsilon:g}: models", ways(epsilon))
        table(f"claimed {epsilon:g}: scores and canaries", scored_ways(epsilon))
        sizes(epsilon)


if __name__ == "__main__":
    main()
