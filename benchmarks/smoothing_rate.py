"""Figure 4.1 of Kuru's thesis (2019), on quadratics and exactly.

Run ``python -m benchmarks.smoothing_rate``: by which factor a step brings an iterate
nearer to the optimum, with smoothing and without, at the same step. Left: steps of 1 /
L, by condition number. Right: the noise-aware steps (4.21) of epsilon 1 on the
synthetic problem, by beta. The thesis has rates by matrix inequalities on a grid, for
the same recursion: that of a heavy ball with steps of beta alpha and momentum 1 - beta.
Takes a second.
"""

from __future__ import annotations

import numpy as np

from benchmarks._papers._heavy_ball_bound import right_rate
from benchmarks._papers._thesis import Task, smoothed_step

BETAS = (1.0, 0.5, 0.1, 0.02)
CONDITIONS = (10, 100, 1000)
_CURVATURES = 200  # from mu to L; the slowest is not always at an end


def slowest_rate(step: float, beta: float, mu: float, smoothness: float) -> float:
    """Of smoothed descent without noise, over quadratics between the curvatures."""
    curvatures = np.geomspace(mu, smoothness, _CURVATURES).tolist()
    return max(right_rate(beta * step, 1 - beta, c) for c in curvatures)


def synthetic() -> Task:
    """What `thesis_synthetic` runs, at epsilon 1."""
    return Task(
        n=10_000,
        d=10,
        bound=2.0,
        mu=0.02,
        smoothness=1.02,
        n_steps=1000,
        epsilon=1.0,
    )


def main() -> None:
    """Print both halves."""
    print("| condition number | " + " | ".join(f"beta {b:g}" for b in BETAS) + " |")
    print("|---|" + "---|" * len(BETAS))
    for condition in CONDITIONS:
        rates = [slowest_rate(1.0, beta, 1 / condition, 1.0) for beta in BETAS]
        print(f"| {condition} | {' | '.join(f'{rate:.4f}' for rate in rates)} |")
    print("\n| beta | step (4.21) | rate | rate at beta 1 and the same step |")
    print("|---|---|---|---|")
    task = synthetic()
    for beta in BETAS:
        step = smoothed_step(task, beta)
        rates = [
            slowest_rate(step, one, task.mu, task.smoothness) for one in (beta, 1.0)
        ]
        print(f"| {beta:g} | {step:.3g} | {rates[0]:.5f} | {rates[1]:.5f} |")


if __name__ == "__main__":
    main()
