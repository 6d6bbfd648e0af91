"""Noise multipliers of objective perturbation in this checkout and in another.

Run ``python -m benchmarks.objective_noise OTHER`` at the root of a checkout, OTHER the
root of one from before a change (``git worktree add OTHER COMMIT``). Prints the rows of
the table in ``docs/solvers/objective_perturbation.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_MULTIPLIERS = """
import json
from functools import partial
from skdp._configured import given_params
from skdp.exceptions import Refused
from skdp.losses import HuberHingeLoss, LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget, calibrate
from skdp.privacy.accounting._gaussian import gaussian_mu
from skdp.solvers._objective_perturbation import ObjectivePerturbation as Solver

DELTA = 1e-6

def ratio(adjacency, loss, epsilon, share):
    "Multiplier over that of one Gaussian query, at 1e5 rows of 50 columns."
    objective = LinearObjective(
        loss=loss, n_samples=100_000, n_features=50, data_norm=1.0, adjacency=adjacency
    )
    budget = Budget(epsilon, DELTA)
    strength = share and share * objective.row_norm**2 / epsilon
    given = given_params(Solver, Solver.key, {"strength": strength})
    try:
        plan = Solver.planned(given, objective, budget).plan(objective)
    except Refused:
        return None
    z = calibrate(partial(plan.event, relation=adjacency), budget)
    return z * gaussian_mu(epsilon, DELTA)

CASES = [("logistic, default", LogisticLoss(), None)]
CASES += [(f"logistic, lambda = {s} rho^2/epsilon", LogisticLoss(), s)
          for s in (1.0, 0.8, 0.5)]
CASES += [(f"SVC, {k} classes", HuberHingeLoss(n_outputs=k), None)
          for k in (3, 10, 25, 100)]
rows = [
    (name, adjacency, [ratio(adjacency, loss, e, share) for e in (0.1, 1.0, 8.0)])
    for name, loss, share in CASES
    for adjacency in ("zero_out", "replace_one")
]
print(json.dumps(rows))
"""


def multipliers(checkout: Path) -> list[Any]:
    """Name, adjacency and ratios to one Gaussian query, by epsilon."""
    done = subprocess.run(
        [sys.executable, "-c", _MULTIPLIERS],
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        check=True,
    )
    rows: list[Any] = json.loads(done.stdout)
    return rows


def cell(before: float | None, now: float | None) -> str:
    """Both ratios; a dash where a job is refused."""
    return " → ".join("–" if x is None else f"{x:.2f}" for x in (before, now))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path)
    other = parser.parse_args().other.resolve()
    both = zip(multipliers(other), multipliers(Path(__file__).parents[1]), strict=True)
    print("| loss | adjacency | 0.1 | 1 | 8 |\n|---|---|---|---|---|")
    for (name, adjacency, before), (_, _, now) in both:
        cells = [cell(*pair) for pair in zip(before, now, strict=True)]
        print(f"| {name} | {adjacency} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
