"""Wang's thesis (2021), chapter 6: the noise of its methods, and what it truly costs.

For replace_one, with G = 1: rows have norm at most 1 and the loss is logistic. A method
is of m owners with n_1 records each; c = 1/4 bounds the curvature of the loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from benchmarks._papers._descent import Logistic
from benchmarks._papers._privacy import exact_multiplier, gaussian_epsilon

# The chapter's lambda.
ALPHA = 1e-3
CURVATURE = 0.25
# Norm of the gradient that may be left of a mean loss; part of the sensitivity.
TOLERANCE = 1e-7


@dataclass(frozen=True, kw_only=True)
class Chapter:
    """Public facts of one fit.

    Parameters
    ----------
    m : int
        Owners.
    smallest : int
        Records of the owner that has the fewest, n_(1).
    d : int
    alpha : float
        The thesis's lambda, of mean losses.
    epsilon, delta : float
        Claimed.
    n_steps : int
        T of the methods that take steps.
    """

    m: int
    smallest: int
    d: int
    alpha: float = ALPHA
    epsilon: float = 0.5
    delta: float = 1e-3
    n_steps: int = 1500

    @property
    def local_sensitivity(self) -> float:
        """L2, of one owner's minimiser: 2 G / (n_(1) lambda)."""
        return 2 / (self.smallest * self.alpha)

    @property
    def mean_sensitivity(self) -> float:
        """L2, of the mean of all owners' minimisers."""
        return self.local_sensitivity / self.m

    @property
    def gradient_sensitivity(self) -> float:
        """L2, of one mean gradient over all records."""
        return 2 / (self.m * self.smallest)

    def gradient_deviation(self) -> float:
        """Equation (6.3.1)."""
        return self.table_deviation() * math.sqrt(4 * math.log(1 / self.delta))

    def table_deviation(self) -> float:
        """Table 6.1's entry for gradient perturbation."""
        return math.sqrt(2 * self.n_steps) / (self.m * self.smallest * self.epsilon)

    def exact_deviation(self, n_steps: int | None = None) -> float:
        """What so many noisy mean gradients need."""
        of_one = exact_multiplier(self.epsilon, self.delta) * self.gradient_sensitivity
        return of_one * math.sqrt(n_steps or self.n_steps)

    def true_epsilon(self, deviation: float) -> float:
        """Of T mean gradients with Gaussian noise of this deviation."""
        scales = np.full(self.n_steps, deviation)
        return gaussian_epsilon(scales, self.gradient_sensitivity, self.delta)


def divided(signed: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of m owners of sizes that differ by one at most, filled up with zeros.

    Returns
    -------
    rows : ndarray of shape (m, c, d)
    sizes : ndarray of shape (m,)
    """
    parts = np.array_split(signed, m)
    sizes = np.array([len(part) for part in parts])
    rows = np.zeros((m, sizes.max(), signed.shape[1]))
    for own, part in zip(rows, parts, strict=True):
        own[: len(part)] = part
    return rows, sizes


def minimisers(
    rows: np.ndarray,
    sizes: np.ndarray,
    strength: float,
) -> np.ndarray:
    """Minimiser of every owner's own objective, to a gradient of norm `TOLERANCE`.

    The mean of log(1 + exp(-<z, w>)) over an owner's rows z, plus half of `strength`
    times the squared norm of w. Nesterov's method takes as many steps
    as its theorem asks for; the certificate is checked at the end.

    Parameters
    ----------
    rows : ndarray of shape (m, c, d)
        Rows times labels; zero rows beyond an owner's size count for nothing.
    sizes : ndarray of shape (m,)
    strength : float

    Returns
    -------
    ndarray of shape (m, d)
    """
    m, _, d = rows.shape
    steepest = CURVATURE + strength
    root = math.sqrt(strength / steepest)
    momentum = (1 - root) / (1 + root)
    old = now = np.zeros((m, d))
    for _ in range(_n_steps(strength)):
        ahead = now + momentum * (now - old)
        gradient = _gradients(rows, sizes, strength, ahead)
        old, now = now, ahead - gradient / steepest
    left = np.linalg.norm(_gradients(rows, sizes, strength, now), axis=1)
    if left.max() > TOLERANCE:
        raise ArithmeticError(f"A gradient of norm {left.max():.1e} is left.")
    return now


def _gradients(
    rows: np.ndarray, sizes: np.ndarray, strength: float, W: np.ndarray
) -> np.ndarray:
    margins = (rows @ W[:, :, None])[:, :, 0]
    residuals = -expit(-margins) / sizes[:, None]
    found: np.ndarray = (residuals[:, None, :] @ rows)[:, 0, :] + strength * W
    return found


def _n_steps(strength: float) -> int:
    """After which the gradient's norm is at most `TOLERANCE`.

    Nesterov (2018), Theorem 2.2.3: the excess falls by 1 - sqrt(q) a step from twice
    its start, and a squared gradient is at most twice L times the excess.
    """
    steepest = CURVATURE + strength
    start = 2 * math.log(2)
    goal = TOLERANCE**2 / (2 * steepest)
    return math.ceil(
        math.log(goal / start) / math.log1p(-math.sqrt(strength / steepest))
    )


def weighted_mean(W: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Of owners' minimisers by their numbers of records.

    Every record then moves it by the same 2 G / (n lambda) at most; a plain mean has
    the n_(1) of the smallest owner.
    """
    mean: np.ndarray = sizes @ W / sizes.sum()
    return mean


def certified_sensitivity(n: int, alpha: float) -> float:
    """L2, of the weighted mean of minimisers up to `TOLERANCE`."""
    return (2 / n + 2 * TOLERANCE) / alpha


def descend(
    problem: Logistic, deviation: float, runs: tuple[int, ...], kept: tuple[int, ...]
) -> dict[int, np.ndarray]:
    """Weights of shape (d, R) after each number of steps in `kept`.

    Steps of length 1 from 0, as the chapter's experiments have them, with Gaussian
    noise of this deviation in the mean gradients.
    """
    rngs = [np.random.default_rng([6, run]) for run in runs]
    for rng in rngs:
        rng.standard_normal(problem.d)  # of a method that is not here
    weights = np.zeros((problem.d, len(runs)))
    found = {}
    for step in range(1, max(kept) + 1):
        drawn = [rng.standard_normal(problem.d) for rng in rngs]
        noise = deviation * np.stack(drawn, axis=1)
        weights = weights - problem.gradient(weights) - noise
        if step in kept:
            found[step] = weights
    return found
