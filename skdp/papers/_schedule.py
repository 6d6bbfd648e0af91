"""The order of subsets in each pass: SETSCHEDULE of Kuru (2019), section 3.4."""

from __future__ import annotations

from collections.abc import Callable

from skdp.decomposition._factorizer import Draws


def deterministic(step: int, n_subsets: int, rng: Draws) -> list[int]:
    """All subsets in a cycle that starts one later in every pass; the first again.

    In the thesis's table for K = 5 the last entry of the third row is 1; by its own
    rule it is 5, the row's first.
    """
    return [(step + j) % n_subsets for j in range(n_subsets + 1)]


def stochastic(step: int, n_subsets: int, rng: Draws) -> list[int]:
    """All subsets in a random order; the first again."""
    order = rng.permutation(n_subsets).tolist()
    return [*order, order[0]]


SCHEDULES: dict[str, Callable[[int, int, Draws], list[int]]] = {
    "deterministic": deterministic,
    "stochastic": stochastic,
}
