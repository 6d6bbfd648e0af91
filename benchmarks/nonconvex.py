"""Wang's thesis, chapters 4 and 5, with noise that has the epsilon it claims.

``python -m benchmarks.nonconvex`` prints the tables of ``docs/replications.md``;
``--section`` one of them, ``--runs`` fewer runs. Data are read from SKDP_DATA_HOME.

Settings are chosen on a fifth of the training part, at no cost, as the thesis does on
its own; the test part is read once, with the settings that were chosen.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.metrics import log_loss

from benchmarks._commands import count
from benchmarks._data import data_folder, load
from skdp import (
    DPLinearSVC,
    DPLogisticRegression,
    DPRobustClassifier,
)
from skdp.privacy import epsilon_of

DELTA = 1e-5
Settings = dict[str, Any]
_FIRST_VALIDATION_SEED = 1000
_VALIDATION_RUNS = 1


@dataclass(frozen=True)
class Table:
    """A training and a test part."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    def validation(self) -> Table:
        """A fifth of the training part in place of the test part."""
        order = np.random.default_rng(7000).permutation(len(self.y))
        held, kept = np.split(order, [len(order) // 5])
        return Table(self.X[kept], self.y[kept], self.X[held], self.y[held])


def a9a() -> Table:
    """The published parts; rows divided by their norm, 0 and 1 for labels."""
    parts = []
    for name in ("a9a.gz", "a9a.t.gz"):
        file = str(data_folder("a9a") / name)
        X, y = load_svmlight_file(file, n_features=123)
        rows = X.toarray()
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        parts += [rows, (y > 0).astype(int)]
    return Table(*parts)


@dataclass(frozen=True)
class Method:
    """A solver with a grid of settings; an empty one is that of defaults."""

    name: str
    solver: str
    grid: tuple[Settings, ...] = ({},)

    def fitted(self, table: Table, settings: Settings, **facts: Any) -> Any:
        """A fit with these settings."""
        model = DPLogisticRegression(
            delta=DELTA,
            classes=np.unique(table.y),
            solver=self.solver,
            solver_params=settings or None,
            **facts,
        )
        return model.fit(table.X, table.y)

    def best(self, table: Table, **facts: Any) -> Settings:
        """The settings of least logarithmic loss on the validation part."""
        if len(self.grid) == 1:
            return self.grid[0]
        part = table.validation()

        def loss(settings: Settings) -> float:
            seeds = range(_VALIDATION_RUNS)
            losses = [
                measured(
                    self.fitted(
                        part,
                        settings,
                        random_state=_FIRST_VALIDATION_SEED + seed,
                        **facts,
                    ),
                    part,
                )[0]
                for seed in seeds
            ]
            return float(np.mean(losses))

        return min(self.grid, key=loss)


def measured(model: Any, table: Table) -> tuple[float, float]:
    """Logarithmic loss and error on the test part."""
    chances = model.predict_proba(table.X_test)
    error = np.mean(model.predict(table.X_test) != table.y_test)
    return log_loss(table.y_test, chances), float(error)


def every(**values: tuple[Any, ...]) -> Iterator[Settings]:
    """All combinations."""
    for chosen in product(*values.values()):
        yield dict(zip(values, chosen, strict=True))


PLAIN = {"momentum": (0.0,), "tail": (1e-9,)}
# What chapter 4 has on a9a, and larger samples; steps by validation.
OF_PAPER = {"batch_size": (100,), "n_steps": (1302,), "penalty": (0.001,)}
METHODS = (
    Method("skdp, defaults", "auto"),
    Method(
        "noisy_gd",
        "noisy_gd",
        tuple(every(n_steps=(100,), momentum=(0.9,), step_size=(0.6, 1.2, 2.0))),
    ),
    Method(
        "DP-GD (noisy_gd, no momentum, last iterate)",
        "noisy_gd",
        tuple(every(n_steps=(20, 100), step_size=(2.0, 8.0), **PLAIN)),
    ),
    Method(
        "noisy_sgd, no momentum",
        "noisy_sgd",
        tuple(
            every(
                batch_size=(8000,),
                n_steps=(200,),
                momentum=(0.0,),
                step_size=(6.0, 12.0, 24.0),
            )
        ),
    ),
    Method(
        "DP-SRM, batches of 100 (srm)",
        "srm",
        tuple(
            every(
                refresh=(0.01, 0.1),
                step_size=(0.5, 2.0, 8.0),
                **OF_PAPER,
            )
        ),
    ),
    Method(
        "DP-SRM, batches of 8,000 (srm)",
        "srm",
        tuple(
            every(
                batch_size=(8000,),
                n_steps=(200,),
                refresh=(0.1, 0.3),
                step_size=(2.0, 6.0, 12.0, 24.0),
            )
        ),
    ),
    Method(
        "DP-AGD (line_search_gd)",
        "line_search_gd",
        tuple(every(n_steps=(50, 100), longest_step=(4.0, 8.0))),
    ),
    Method(
        "DIFF-GD (diff_gd)",
        "diff_gd",
        tuple(every(n_steps=(100,), step_size=(2.0, 8.0))),
    ),
    Method(
        "Laplacian smoothing of noisy_sgd",
        "laplacian_smoothing",
        tuple(
            every(
                batch_size=(8000,),
                n_steps=(200,),
                momentum=(0.0,),
                step_size=(6.0, 12.0, 24.0, 48.0),
                strength=(1.0,),
            )
        ),
    ),
    Method(
        "DP-LSAdam (laplacian_smoothing)",
        "laplacian_smoothing",
        tuple(
            every(
                batch_size=(8000,),
                n_steps=(200,),
                adam=(True,),
                step_size=(0.03, 0.1, 0.3),
                strength=(0.0, 1.0),
            )
        ),
    ),
)
# Table 4.2 of the thesis, "test error", which is the logarithmic loss.
PRINTED = {
    "DP-GD": (0.4155, 0.3859),
    "DP-AGD": (0.3713, 0.3627),
    "RRPSGD": (0.4019, 0.3861),
    "DP-SRM": (0.3579, 0.3506),
    "non-private": (0.3346, 0.3346),
}


def spread(values: list[float]) -> str:
    """Mean and standard error."""
    if len(values) == 1:
        return f"{values[0]:.4f}"
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{np.mean(values):.4f} ± {error:.4f}"


def chapter_4(runs: int, named: str = "") -> None:
    """Logarithmic loss and error on a9a at the thesis's epsilons.

    Of methods whose name has `named` in it.
    """
    table = a9a()
    rare = float(np.mean(table.y))
    constant = log_loss(table.y_test, np.full(len(table.y_test), rare))
    wrong = float(np.mean(table.y_test))
    print(f"constant: log-loss {constant:.4f}, error {wrong:.4f}")
    free = DPLogisticRegression(np.inf, C=1.0, classes=[0, 1]).fit(table.X, table.y)
    print("not private: log-loss {:.4f}, error {:.4f}".format(*measured(free, table)))
    print(
        "| adjacency | method | epsilon | true epsilon | log-loss | error | settings |"
    )
    print("|---|---|---|---|---|---|---|")
    for column, epsilon in enumerate((0.2, 0.5)):
        for name, printed in PRINTED.items():
            place = f"printed | {name} | {epsilon}"
            print(f"| {place} | not recomputed | {printed[column]} | | |")
        cells = [("zero_out", method) for method in METHODS]
        cells += [("replace_one", method) for method in METHODS[:2]]
        for adjacency, method in cells:
            if named not in method.name:
                continue
            facts = {"adjacency": adjacency, "epsilon": epsilon}
            settings = method.best(table, **facts)
            models = [
                method.fitted(table, settings, random_state=seed, **facts)
                for seed in range(runs)
            ]
            losses, errors = zip(*(measured(m, table) for m in models), strict=True)
            # A fit with a seed claims nothing: the event is that of one without.
            private = method.fitted(table, settings, **facts)
            true = epsilon_of(private.privacy_.event, DELTA)
            shown = ", ".join(f"{key}={value:g}" for key, value in settings.items())
            print(
                f"| {adjacency} | {method.name} | {epsilon} | {true:.4f} | "
                f"{spread(list(losses))} | {spread(list(errors))} | {shown} |",
                flush=True,
            )


CLASSIFIERS: dict[str, Callable[..., Any]] = {
    "DPLogisticRegression": DPLogisticRegression,
    "DPLinearSVC": DPLinearSVC,
    "DPRobustClassifier(loss='sigmoid')": lambda *facts, **more: DPRobustClassifier(
        *facts, loss="sigmoid", **more
    ),
    "DPRobustClassifier(loss='cauchy')": lambda *facts, **more: DPRobustClassifier(
        *facts, loss="cauchy", **more
    ),
}


def wrong_labels(runs: int) -> None:
    """Error on right labels of a9a after training on wrong ones, all by default.

    Wrong are so many of all labels, at random, or so many of the rare class, which then
    all say the frequent one.
    """
    table = a9a()
    epsilons = (1.0, np.inf)
    print(f"| wrong | model | {' | '.join(f'epsilon {e:g}' for e in epsilons)} |")
    print("|---|---|" + "---|" * len(epsilons))
    for kind, share in (("any", 0.0), ("any", 0.2), ("any", 0.4), ("rare", 0.4)):
        for name, make in CLASSIFIERS.items():
            cells = []
            for epsilon in epsilons:
                errors = []
                for seed in range(runs):
                    rng = np.random.default_rng(100 + seed)
                    y = np.where(rng.random(len(table.y)) < share, 1 - table.y, table.y)
                    if kind == "rare":
                        y = np.where(table.y == 1, y, 0)
                    model = make(
                        epsilon, delta=DELTA, classes=[0, 1], random_state=seed
                    ).fit(table.X, y)
                    errors.append(
                        float(np.mean(model.predict(table.X_test) != table.y_test))
                    )
                cells.append(spread(errors))
            print(f"| {share:g} of {kind} | {name} | {' | '.join(cells)} |", flush=True)


def chapter_5(runs: int) -> None:
    """Accuracy on MNIST, 50,000 training images; all read at every step."""
    X, y = load("mnist")
    table = Table(X[:50_000], y[:50_000], X[60_000:], y[60_000:])
    print("| adjacency | strength | axes | epsilon 0.1 | epsilon 0.3 |")
    print("|---|---|---|---|---|")
    ways: list[tuple[float, int | None]] = [(0.0, None), (1.0, None), (3.0, None)]
    ways += [(1.0, 28), (3.0, 28)]
    for strength, n_across in ways:
        cells = []
        for epsilon in (0.1, 0.3):
            settings: Settings = {
                "n_steps": 60,
                "momentum": 0.9,
                "batch_size": len(table.y),
                "strength": strength,
            }
            if n_across is not None:
                settings["n_across"] = n_across
            method = Method("", "laplacian_smoothing", (settings,))
            accuracies = [
                1
                - measured(
                    method.fitted(
                        table,
                        settings,
                        random_state=seed,
                        adjacency="zero_out",
                        epsilon=epsilon,
                    ),
                    table,
                )[1]
                for seed in range(runs)
            ]
            cells.append(spread(accuracies))
        axes = "all pixels in a line" if n_across is None else "rows and columns"
        print(f"| zero_out | {strength:g} | {axes} | {' | '.join(cells)} |", flush=True)


SECTIONS = {
    "chapter_4": (chapter_4, 5),
    "chapter_5": (chapter_5, 2),
    "wrong_labels": (wrong_labels, 3),
}


def main() -> None:
    """Print the sections asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--section", choices=SECTIONS)
    parser.add_argument("--runs", type=count)
    parser.add_argument("--method", default="", help="of chapter 4, a part of its name")
    options = parser.parse_args()
    for name, (measure, runs) in SECTIONS.items():
        if options.section in (None, name):
            print(f"\n# {name}, {options.runs or runs} runs")
            facts = {"named": options.method} if measure is chapter_4 else {}
            measure(options.runs or runs, **facts)


if __name__ == "__main__":
    main()
