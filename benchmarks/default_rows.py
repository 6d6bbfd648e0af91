"""The default for rows of numbers, of which nothing is declared but a norm.

Run ``python -m benchmarks.default_rows`` at the root of a checkout; another checkout is
compared by running the same file there. Rows have norm 1 (``benchmarks/_data.py``), or
are sparse. Prints log-loss on held-out rows of the training part, the constant's, the
standard error over seeds, and seconds of one fit. With ``--permuted`` labels are in
random order. Scores are not private, and fits are seeded.
"""

from __future__ import annotations

import statistics
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from benchmarks._data import load, split
from benchmarks._sparse_data import imdb, reuters
from benchmarks.default_solver import ADJACENCIES, EPSILONS, parser_of
from skdp import DPLogisticRegression

# The clip of numbers was settled on adult and covertype.
DENSE = ("adult", "covertype", "a9a", "w8a", "kddcup99", "digits", "mnist")
SPARSE = ("a9a as CSR", "w8a as CSR", "imdb", "reuters")
SIZES = (2_000, 10_000, 40_000)
_SEED, _HELD_OUT = 9300, 0.2


class Rows(NamedTuple):
    """The training part of a table: rows of norm at most 1, and labels from 0 up."""

    X: Any
    y: np.ndarray


class Found(NamedTuple):
    """Log-losses of a fit and of the exact constant, and how long it took."""

    loss: float
    constant: float
    seconds: float


def table(name: str) -> Rows:
    """The training part."""
    if name == "imdb":
        parts = imdb("sentiment", "tfidf")
        return _codes(parts.X_train, parts.y_train)
    if name == "reuters":
        parts = reuters()
        return _codes(parts.X_train, parts.y_train)
    X, y, _, _ = split(*load(name.removesuffix(" as CSR")), seed=0)
    return _codes(csr_array(X) if name.endswith("CSR") else X, y)


def _codes(X: Any, y: np.ndarray) -> Rows:
    return Rows(X, np.unique(y, return_inverse=True)[1])


def fitted(
    rows: Rows,
    n: int,
    epsilon: float,
    adjacency: str,
    seed: int,
    *,
    is_permuted: bool = False,
) -> Found:
    """One fit, and its loss on rows that it did not see."""
    X, y = rows
    if is_permuted:
        y = np.random.default_rng(_SEED + seed).permutation(y)
    fit, held = train_test_split(
        np.arange(len(y)), test_size=_HELD_OUT, random_state=_SEED + seed
    )
    fit, labels = fit[:n], np.unique(y)
    model = DPLogisticRegression(
        epsilon,
        classes=list(labels),
        delta=1 / len(fit) ** 2,
        adjacency=adjacency,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        model.fit(X[fit], y[fit])
        seconds = time.process_time() - start
    shares = np.bincount(y[fit], minlength=len(labels)) / len(fit)
    constant = np.tile(np.maximum(shares, 1e-9), (len(held), 1))
    losses = [
        log_loss(y[held], np.clip(p, 1e-9, 1), labels=labels)
        for p in (model.predict_proba(X[held]), constant)
    ]
    return Found(*losses, seconds)


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    args = parser_of(__doc__, (*DENSE, *SPARSE)).parse_args(arguments)
    print("| table | n | epsilon | adjacency | constant | loss | error | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for name in args.table or (*DENSE, *SPARSE):
        rows = table(name)
        available = int(len(rows.y) * (1 - _HELD_OUT))
        for n in dict.fromkeys(min(n, available) for n in args.n or SIZES):
            for epsilon in args.epsilon or EPSILONS:
                for adjacency in args.adjacency or ADJACENCIES:
                    found = [
                        fitted(
                            rows,
                            n,
                            epsilon,
                            adjacency,
                            seed,
                            is_permuted=args.permuted,
                        )
                        for seed in range(args.seeds)
                    ]
                    cell = f"{name} | {n} | {epsilon:g} | {adjacency}"
                    print(f"| {cell} | {_told(found)} |", flush=True)


def _told(found: list[Found]) -> str:
    losses, constants, seconds = zip(*found, strict=True)
    error = statistics.stdev(losses) / len(losses) ** 0.5 if len(losses) > 1 else 0.0
    means = map(statistics.mean, (constants, losses))
    told = " | ".join(f"{mean:.4f}" for mean in (*means, error))
    return f"{told} | {statistics.mean(seconds):.2f}"


if __name__ == "__main__":
    main()
