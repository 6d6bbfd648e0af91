"""What numba costs and what it saves: ``python benchmarks/numba_cost.py``.

Prints installed sizes, import times, and the time of every compiled loop beside what
there is without it: the NumPy form where skdp has one (the gradient of a large dense
table), else the same loop in the interpreter (``NUMBA_DISABLE_JIT=1``). Takes a few
minutes; ``docs/support.md`` quotes the results.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import distribution
from typing import Any

import numpy as np

NEEDED = {
    "numba": ["numba", "llvmlite"],
    "scikit-learn": ["scikit-learn", "joblib", "threadpoolctl"],
    "scipy": ["scipy"],
    "numpy": ["numpy"],
    "pandas": ["pandas", "python-dateutil"],
    "dp-accounting": ["dp-accounting", "absl-py", "attrs", "mpmath", "dm-tree"],
}
MODULES = ["numba", "sklearn.linear_model", "scipy.stats", "numpy", "pandas", "skdp"]
REPEATS = 5


def megabytes(names: list[str]) -> float:
    """Installed size of distributions."""
    files = [file for name in names for file in distribution(name).files or []]
    paths = [file.locate() for file in files]
    return sum(os.path.getsize(path) for path in paths if os.path.exists(path)) / 1e6


def import_seconds(module: str) -> float:
    """Seconds to import a module into a new interpreter, the least of some."""
    code = (
        "import time; start = time.perf_counter(); "
        f"import {module}; print(time.perf_counter() - start)"
    )
    return min(float(_output([sys.executable, "-c", code])) for _ in range(REPEATS))


def _output(command: list[str], **variables: str) -> str:
    return subprocess.run(
        command, env=os.environ | variables, capture_output=True, text=True, check=True
    ).stdout


def seconds(work: Callable[[], Any]) -> float:
    """The least of some times, after one call that loads what is compiled."""
    work()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
        if times[-1] > 5:
            break
    return min(times)


def gradient_sum(n_samples: int, n_features: int, worth: float) -> float:
    """One pass over a dense table, compiled if its size is at least `worth`."""
    from skdp.losses import LogisticLoss
    from skdp.losses._objective import LinearObjective
    from skdp.sums import _floating
    from skdp.tables._memory import MemorySource

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, n_features))
    y = rng.integers(0, 2, n_samples).astype(float)
    objective = LinearObjective(
        loss=LogisticLoss(),
        n_samples=n_samples,
        n_features=n_features,
        data_norm=1.0,
        adjacency="replace_one",
    )
    # A constant of the library, changed here alone to measure both of its sides.
    _floating._WORTH_COMPILING = worth  # type: ignore[assignment]  # inf: never compiled
    total = _floating.GradientSum(MemorySource(X, y), objective)
    weights = rng.normal(size=(n_features + 1, 1))
    return seconds(lambda: total(weights))


def loops() -> dict[str, float]:
    """Seconds of small fits whose loops have no form in NumPy."""
    from skdp import (
        DPLogisticRegression,
        DPMatrixFactorization,
        DPSparseLogisticRegression,
    )

    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 20))
    y = (X[:, 0] > 0).astype(int)
    pairs = np.unique(rng.integers(0, [1000, 500], size=(30_000, 2)), axis=0)
    stars = rng.integers(1, 6, len(pairs)).astype(float)

    def classifier(solver: str, kind: Any = DPLogisticRegression, **params: Any) -> Any:
        model = kind(solver=solver, solver_params=params, classes=[0, 1])
        return lambda: model.fit(X, y)

    def factorization(solver: str) -> Any:
        model = DPMatrixFactorization(
            math.inf,
            solver=solver,
            n_components=8,
            solver_params={"n_steps": 2},
            random_state=0,
        )
        return lambda: model.fit(pairs, stars)

    works = {
        "permutation SGD (bolt_on), 2 passes": classifier(
            "bolt_on", n_passes=2, batch_size=10
        ),
        "vertex scores (frank_wolfe), 5 steps": classifier(
            "frank_wolfe", DPSparseLogisticRegression, n_steps=5
        ),
        "factorisation (sgd), 2 steps": factorization("sgd"),
        "factorisation (vb), 2 steps": factorization("vb"),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: seconds(work) for name, work in works.items()}


def main() -> None:
    """Print everything."""
    say = sys.stdout.write
    for name, parts in NEEDED.items():
        say(f"{name:<16} {megabytes(parts):7.1f} MB installed\n")
    for module in MODULES:
        say(f"import {module:<22} {import_seconds(module):6.2f} s\n")
    for shape in ((10**6, 10), (200_000, 50), (100_000, 200)):
        compiled, plain = (gradient_sum(*shape, worth) for worth in (0, math.inf))
        say(
            f"gradient of {shape}: compiled {1e3 * compiled:.1f} ms, NumPy "
            f"{1e3 * plain:.1f} ms, {plain / compiled:.1f} times\n"
        )
    command = [sys.executable, __file__, "loops"]
    compiled_loops = json.loads(_output(command))
    interpreted = json.loads(_output(command, NUMBA_DISABLE_JIT="1"))
    for name, fast in compiled_loops.items():
        slow = interpreted[name]
        say(f"{name}: {1e3 * fast:.1f} ms, {slow:.2f} s, {slow / fast:.0f} times\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["loops"]:
        json.dump(loops(), sys.stdout)
    else:
        main()
