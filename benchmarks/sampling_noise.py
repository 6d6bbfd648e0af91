"""Noise of a mean gradient from Poisson samples, over that from all records.

Run ``python -m benchmarks.sampling_noise`` at the root of a checkout. Prints the table
of ``docs/solvers/noisy_sgd.md``, part "What samples buy". Public facts alone: nothing
is fitted.
"""

from __future__ import annotations

import math
from functools import partial

from skdp.privacy import Budget, calibrate
from skdp.privacy.accounting._events import Event, PoissonGaussianEvent
from skdp.privacy.accounting._gaussian import gaussian_mu
from skdp.privacy.accounting._relations import Relation

DELTA = 1e-6
RATES = (0.5, 0.2, 0.05, 0.01)
STEPS = (10, 100, 300)
EPSILONS = (0.1, 1.0, 4.0)


def _steps(multiplier: float, rate: float, steps: int, relation: Relation) -> Event:
    return PoissonGaussianEvent(multiplier, rate, steps, relation)


def noise_ratio(epsilon: float, rate: float, steps: int, relation: Relation) -> float:
    """Standard deviation, where a gradient of all records under zero_out has 1."""
    budget = Budget(epsilon, DELTA)
    event = partial(_steps, rate=rate, steps=steps, relation=relation)
    of_all = math.sqrt(steps) / gaussian_mu(epsilon, DELTA)
    return calibrate(event, budget) / rate / of_all


def main() -> None:
    """Print the table."""
    relations: tuple[Relation, ...] = ("zero_out", "replace_one")
    print("| adjacency | epsilon | samples |", end="")
    print("".join(f" rate {rate:g} |" for rate in RATES))
    print("|---" * (3 + len(RATES)) + "|")
    for relation in relations:
        for epsilon in EPSILONS:
            for steps in STEPS:
                found = [noise_ratio(epsilon, q, steps, relation) for q in RATES]
                cells = "".join(f" {ratio:.2f} |" for ratio in found)
                print(f"| {relation} | {epsilon:g} | {steps} |{cells}", flush=True)


if __name__ == "__main__":
    main()
