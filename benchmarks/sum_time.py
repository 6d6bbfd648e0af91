"""Sums over records, of this checkout and of another, timed in turn.

Run ``python -m benchmarks.sum_time OTHER`` at the root of a checkout.

Each round takes the sums in a fresh process of either checkout; ratios are taken round
by round, so that a machine whose speed drifts does not decide. Beside them is how far
the sums are from those of the other checkout, over the noise of one Gaussian answer of
multiplier 1.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

_SUM = """
import sys, time
import numpy as np
from scipy.sparse import csr_array, random_array
from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.papers._smoothing import StepGains, Trial
from skdp.sums._counts import SQUARES, PairSums, StateSums, even_knots
from skdp.sums._moments import MomentSums, MomentWeights
from skdp.tables._memory import MemorySource

name, out = sys.argv[1:]
rng = np.random.default_rng(0)

def dense(n, d):
    return rng.standard_normal((n, d)) / np.sqrt(d)

def moments(X):
    y = np.clip(rng.standard_normal(X.shape[0]), -1, 1)
    return MomentSums(MomentWeights(0.5, 1.0), *X.shape, 1.0), X, y

def gains(X):
    loss = LogisticLoss()
    facts = {"n_samples": len(X), "n_features": X.shape[1], "data_norm": 1.0}
    objective = LinearObjective(loss=loss, adjacency="zero_out", **facts)
    at, lengths = np.zeros((X.shape[1] + 1, 1)), np.array([1.0, 0.5, 0.25])
    direction = dense(X.shape[1] + 1, 1)
    query = StepGains(Trial(objective), at, direction, lengths, 0.5)
    return query, X, (rng.random(len(X)) < 0.5).astype(float)

def states(n, parts, size):
    own = np.repeat(rng.random((n, parts)), 2, axis=1)
    own[:, 1::2] = 1 - own[:, ::2]
    knots = size * np.arange(parts) + rng.integers(size - 1, size=(n, parts))
    columns = np.stack([knots, knots + 1], axis=2).reshape(n, -1)
    starts = np.arange(0, own.size + 1, 2 * parts)
    shape = n, parts * size
    X = csr_array((own.ravel(), columns.ravel(), starts), shape=shape)
    return StateSums(shape[1], n, parts, even_knots(32)), X, rng.uniform(-1, 1, n)

def pairs(X):
    d = X.shape[1]
    return PairSums(SQUARES, np.full(d, -0.5), np.full(d, 0.5), len(X)), X, X[:, 0]

def sparse(n, d, density):
    return csr_array(random_array((n, d), density=density, rng=rng, format="csr"))

cases = {
    "moments, 1,000,000 x 50": lambda: moments(dense(1_000_000, 50)),
    "moments, 60,000 x 784": lambda: moments(dense(60_000, 784)),
    "moments, 36,177 x 104": lambda: moments(dense(36_177, 104)),
    "moments, CSR, 200,000 x 500": lambda: moments(sparse(200_000, 500, 0.02)),
    "states, 1,000,000 x 20": lambda: states(1_000_000, 20, 17),
    "pairs, 1,000,000 x 50": lambda: pairs(dense(1_000_000, 50)),
    "gains, 1,000,000 x 50": lambda: gains(dense(1_000_000, 50)),
}
query, X, y = cases[name]()
source = MemorySource(X, y)
seconds = []
with np.errstate(all="ignore"):
    for _ in range(3):
        reader = query.open(source)
        start = time.process_time()
        total = query.total(reader, None)
        seconds.append(time.process_time() - start)
np.save(out, total / query.bound().zero_out)
print(min(seconds))
"""
CASES = (
    "moments, 1,000,000 x 50",
    "moments, 60,000 x 784",
    "moments, 36,177 x 104",
    "moments, CSR, 200,000 x 500",
    "states, 1,000,000 x 20",
    "pairs, 1,000,000 x 50",
    "gains, 1,000,000 x 50",
)


def summed(checkout: Path, case: str) -> tuple[float, np.ndarray]:
    """Processor time of one sum in a fresh process, and the sum over its bound."""
    environment = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "sum.npy"
        done = subprocess.run(
            [sys.executable, "-c", _SUM, case, str(out)],
            cwd=checkout,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return float(done.stdout), np.load(out)


def main(arguments: list[str] | None = None) -> None:
    """Print the ratio of this checkout to the other for each sum."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", nargs="*", default=CASES, choices=CASES)
    options = parser.parse_args(arguments)
    here = Path(__file__).parents[1]
    for case in options.cases:
        rounds = [
            (summed(here, case), summed(options.other, case))
            for _ in range(options.rounds)
        ]
        ratios = sorted(ours[0] / theirs[0] for ours, theirs in rounds)
        (_, ours), (_, theirs) = rounds[0]
        print(
            f"{case}: {statistics.median(ours[0] for ours, _ in rounds):.3f} s here, "
            f"{statistics.median(theirs[0] for _, theirs in rounds):.3f} s there, "
            f"ratio {statistics.median(ratios):.2f} ({ratios[0]:.2f} to "
            f"{ratios[-1]:.2f}); farthest number moved by "
            f"{np.abs(ours - theirs).max():.1e} of the noise",
            flush=True,
        )


if __name__ == "__main__":
    main()
