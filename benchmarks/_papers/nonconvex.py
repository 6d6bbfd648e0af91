"""Wang's thesis (2021), chapters 4 and 5, and momentum from trees, at their epsilons.

Settings are chosen on a fifth of the training part, at no cost, as the thesis does on
its data; the test part is read once, with the settings that were chosen. Algorithms 1
and 2 of Tran and Cutkosky (2022) are repaired; their paper has no experiment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.metrics import log_loss

from benchmarks._runner import FIRST_TUNING_RUN, Line, benchmark, line
from benchmarks._tables import data_folder, rows
from skdp import DPLogisticRegression

DELTA = 1e-5
Settings = dict[str, Any]


class Table(NamedTuple):
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


@lru_cache(maxsize=1)
def a9a() -> Table:
    """The published parts; rows divided by their norm, 0 and 1 for labels."""
    parts = []
    for name in ("a9a.gz", "a9a.t.gz"):
        file = str(data_folder("a9a") / name)
        X, y = load_svmlight_file(file, n_features=123)
        short = X.toarray()
        short /= np.maximum(np.linalg.norm(short, axis=1, keepdims=True), 1e-12)
        parts += [short, (y > 0).astype(int)]
    return Table(*parts)


@lru_cache(maxsize=1)
def mnist() -> Table:
    """50,000 training images."""
    X, y = rows("mnist")
    return Table(X[:50_000], y[:50_000], X[60_000:], y[60_000:])


def every(**values: Iterable[Any]) -> tuple[Settings, ...]:
    """All combinations."""
    return tuple(
        dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())
    )


_PLAIN = {"momentum": (0.0,), "tail": (1e-9,)}
_SAMPLES = {"batch_size": (8000,), "n_steps": (200,)}
# What chapter 4 has on a9a, and larger samples; steps by validation.
_OF_PAPER = {"batch_size": (100,), "n_steps": (1302,), "penalty": (0.001,)}
_TREES = {"n_leaves": (4, 16), "n_epochs": (10, 40), "step_length": (0.1, 0.3, 1.0)}
Method = tuple[str, str, tuple[Settings, ...]]
METHODS: tuple[Method, ...] = (
    ("skdp, defaults", "auto", ({},)),
    (
        "noisy_gd",
        "noisy_gd",
        every(n_steps=(100,), momentum=(0.9,), step_size=(0.6, 1.2, 2.0)),
    ),
    (
        "DP-GD (noisy_gd, no momentum, last iterate)",
        "noisy_gd",
        every(n_steps=(20, 100), step_size=(2.0, 8.0), **_PLAIN),
    ),
    (
        "noisy_sgd, no momentum",
        "noisy_sgd",
        every(momentum=(0.0,), step_size=(6.0, 12.0, 24.0), **_SAMPLES),
    ),
    (
        "DP-SRM, batches of 100 (srm)",
        "srm",
        every(refresh=(0.01, 0.1), step_size=(0.5, 2.0, 8.0), **_OF_PAPER),
    ),
    (
        "DP-SRM, batches of 8,000 (srm)",
        "srm",
        every(refresh=(0.1, 0.3), step_size=(2.0, 6.0, 12.0, 24.0), **_SAMPLES),
    ),
    (
        "DP-AGD (line_search_gd)",
        "line_search_gd",
        every(n_steps=(50, 100), longest_step=(4.0, 8.0)),
    ),
    ("DIFF-GD (diff_gd)", "diff_gd", every(n_steps=(100,), step_size=(2.0, 8.0))),
    (
        "Laplacian smoothing of noisy_sgd",
        "laplacian_smoothing",
        every(
            momentum=(0.0,),
            step_size=(6.0, 12.0, 24.0, 48.0),
            strength=(1.0,),
            **_SAMPLES,
        ),
    ),
    (
        "DP-LSAdam (laplacian_smoothing)",
        "laplacian_smoothing",
        every(
            adam=(True,), step_size=(0.03, 0.1, 0.3), strength=(0.0, 1.0), **_SAMPLES
        ),
    ),
)
FROM_TREES: tuple[Method, ...] = tuple(
    (name, "tree_momentum", every(**_TREES, by_differences=(by,)))
    for name, by in (("Algorithm 1, repaired", False), ("Algorithm 2, repaired", True))
)
# Table 4.2 of the thesis, "test error", which is the logarithmic loss.
PRINTED = {
    "DP-GD": (0.4155, 0.3859),
    "DP-AGD": (0.3713, 0.3627),
    "RRPSGD": (0.4019, 0.3861),
    "DP-SRM": (0.3579, 0.3506),
    "non-private": (0.3346, 0.3346),
}
_METRICS = ("log-loss", "error")


def measured(
    table: Callable[[], Table],
    solver: str,
    adjacency: str,
    epsilon: float,
    run: int,
    **settings: Any,
) -> tuple[float, float]:
    """Logarithmic loss and error on the test part, or on the oracle's."""
    part = table() if run < FIRST_TUNING_RUN else table().validation()
    model = _model(part, solver, adjacency, epsilon, settings, random_state=run)
    chances = model.fit(part.X, part.y).predict_proba(part.X_test)
    wrong = chances.argmax(axis=1) != np.searchsorted(model.classes_, part.y_test)
    return log_loss(part.y_test, chances), float(np.mean(wrong))


def _model(
    part: Table,
    solver: str,
    adjacency: str,
    epsilon: float,
    settings: Settings,
    **more: Any,
) -> Any:
    return DPLogisticRegression(
        epsilon,
        delta=DELTA,
        adjacency=adjacency,
        classes=np.unique(part.y),
        solver=solver,
        solver_params=settings or None,
        **more,
    )


@benchmark("nonconvex_chapter_4", runs=5, claims=True)
def chapter_4(trees: bool = False) -> Iterator[Line]:
    """Wang (2021), table 4.2: logarithmic loss and error on a9a.

    With `trees`, of momentum from trees under both relations.
    """
    for column, epsilon in enumerate((0.2, 0.5)):
        for name, printed in PRINTED.items() if not trees else ():
            yield Line(
                place={"epsilon": epsilon},
                method=f"printed: {name}",
                measure=None,
                metrics=_METRICS,
                claimed=epsilon,
                note=f"{printed[column]}",
            )
        cells = [("zero_out", method) for method in (FROM_TREES if trees else METHODS)]
        cells += [
            ("replace_one", method) for method in (FROM_TREES if trees else METHODS[:2])
        ]
        for adjacency, (name, solver, grid) in cells:
            yield line(
                {"epsilon": epsilon},
                name,
                partial(measured, a9a, solver, adjacency, epsilon),
                _METRICS,
                claimed=epsilon,
                delta=DELTA,
                adjacency=adjacency,
                grid=grid if len(grid) > 1 else (),
                private=True,
            )


@benchmark("nonconvex_chapter_5", runs=2, claims=True)
def chapter_5() -> Iterator[Line]:
    """Wang (2021), table 5.2: Laplacian smoothing on MNIST, 60 full steps."""
    ways: list[tuple[float, int | None]] = [(0.0, None), (1.0, None), (3.0, None)]
    for strength, n_across in [*ways, (1.0, 28), (3.0, 28)]:
        for epsilon in (0.1, 0.3):
            settings: Settings = {
                "n_steps": 60,
                "momentum": 0.9,
                "batch_size": 50_000,
                "strength": strength,
            }
            if n_across is not None:
                settings["n_across"] = n_across
            axes = "all pixels in a line" if n_across is None else "rows and columns"
            facts = (mnist, "laplacian_smoothing", "zero_out", epsilon)
            yield line(
                {"epsilon": epsilon, "strength": strength},
                axes,
                partial(measured, *facts, **settings),
                _METRICS,
                claimed=epsilon,
                delta=DELTA,
                adjacency="zero_out",
                private=True,
            )


benchmark(
    "tree_momentum",
    "Tran and Cutkosky (2022), algorithms 1 and 2, repaired, on a9a",
    runs=5,
    claims=True,
)(partial(chapter_4, trees=True))
