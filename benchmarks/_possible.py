r"""What no private constant can do on few records, and what simple ones do.

A constant misses a table if it loses more than the best constant of that table by a
margin. Of two tables that no constant suits, and that differ in k records, an
(epsilon, delta)-private one that misses the first with probability p suits the second
with probability at most ``exp(k epsilon) p + delta_k``, where ``delta_k = delta
(exp(k epsilon) - 1) / (exp(epsilon) - 1)``. So it misses one of both with probability
at least ``(1 - delta_k) / (1 + exp(k epsilon))``: near a half for small k epsilon, and
next to nothing for large ones, where two tables prove nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.special import softmax, xlogy

from skdp.privacy import Budget
from skdp.privacy.noise._laws import LAWS, deviation_once


def excess(kind: str, share: np.ndarray, told: np.ndarray) -> np.ndarray:
    """Log-loss, or the squared error of -1 and 1, beyond that of the share of ones."""
    if kind == "numbers":
        return 4 * (share - told) ** 2
    told = np.clip(told, 1e-12, 1 - 1e-12)
    return xlogy(share, share / told) + xlogy(1 - share, (1 - share) / (1 - told))


def misses(kind: str, share: np.ndarray, told: np.ndarray) -> np.ndarray:
    """Whether log-loss is .1 and a fifth too large; squared errors, a tenth and .02."""
    if kind == "numbers":
        return excess(kind, share, told) > 0.4 * share * (1 - share) + 0.02
    least = -xlogy(share, share) - xlogy(1 - share, 1 - share)
    return excess(kind, share, told) > np.maximum(0.1, 0.2 * least)


def fewest_records(kind: str, n: int) -> int:
    """To exchange in a table without ones, until no constant suits both tables."""
    told, nothing = np.linspace(0, 1, 2001), np.zeros(1)
    suits = ~misses(kind, nothing, told)
    apart = (not np.any(suits & ~misses(kind, nothing + k / n, told)) for k in range(n))
    return next((k for k, is_apart in enumerate(apart) if is_apart), n)


def least_chance(k: int, epsilon: float, delta: float) -> float:
    """Of missing one of two tables that no constant suits, and k records tell apart."""
    if k * epsilon > 500:
        return 0.0
    spilt = delta * math.expm1(k * epsilon) / math.expm1(epsilon)
    return max(1 - spilt, 0.0) / (1 + math.exp(k * epsilon))


def counts_of(n: int) -> np.ndarray:
    """Of ones, in the tables that are tried; more than half are the mirror image."""
    return np.unique(np.linspace(0, n // 2, 11).astype(int))


def simple_shares(
    n: int, budget: tuple[float, float], times: int
) -> dict[str, np.ndarray]:
    """Posterior means of the share of ones, of each table and draw, from a noisy count.

    Before it is seen, all counts are as likely.
    """
    rng, counts = np.random.default_rng(0), np.arange(n + 1)
    size = len(counts_of(n)), max(times, 20_000 // n)
    decay = math.exp(-budget[0])
    noise = rng.geometric(1 - decay, size) - rng.geometric(1 - decay, size)
    laws = {"geometric": (noise, lambda x: -budget[0] * np.abs(x))}
    if budget[1] > 0:
        sigma = deviation_once(LAWS["gaussian"], Budget(*budget), 1)
        laws["Gaussian"] = rng.normal(0, sigma, size), lambda x: -((x / sigma) ** 2) / 2
    found = {"a half": np.full(size, 0.5)}
    for name, (noise, log_density) in laws.items():
        seen = counts_of(n)[:, None, None] + noise[..., None]
        found[name] = softmax(log_density(seen - counts), axis=-1) @ counts / n
    return found


def shown(
    kind: str, n: int, budget: tuple[float, float], told: dict[str, np.ndarray]
) -> Iterator[str]:
    """A line for each constant: its loss beyond the best one, and what it misses."""
    k, share = fewest_records(kind, n), counts_of(n)[:, None] / n
    for name, each in told.items():
        lost = excess(kind, share, each).mean(axis=1)
        missed = misses(kind, share, each).mean(axis=1).max()
        yield (
            f"| {n} | {kind} | {budget[0]:g}, {budget[1]:g} | {k} "
            f"| {least_chance(k, *budget):.2g} | {name} | {missed:.2f} "
            f"| {lost.mean():.3f} | {lost.max():.3f} |"
        )
