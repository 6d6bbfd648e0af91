"""Wu, Li, Kumar, Chaudhuri, Jha and Naughton (2017), and the methods it is set against.

One-vs-all logistic models trained by stochastic gradient descent, all classes and all
runs side by side; rows have norm 1. Readings where the paper is silent:

- SCS13: each of the k passes gets epsilon / k; the batches of a pass are disjoint. The
  gradient sum of a batch has noise of density exp(-(epsilon / 2k) norm), the whole is
  divided by b, and steps are 1 / sqrt(t).
- BST14 (Algorithms 4 and 5) with batches: T = k m / b, epsilon_2 =
  min(1, m epsilon_1 / (2 b)). G holds b L, so noise is added to the sum of a batch; the
  strongly convex step takes the mean. A batch has no record twice. R = 10 in the convex
  case, where none is stated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from benchmarks._papers._privacy import advanced_step, classical_multiplier, spherical

CONVEX_RADIUS = 10.0


def logistic_slope(margins: np.ndarray) -> np.ndarray:
    """Of log(1 + exp(-z))."""
    return -expit(-margins)


def huber_slope(margins: np.ndarray, h: float = 0.1) -> np.ndarray:
    """Of the hinge rounded over 2 h; its curvature is at most 1 / (2 h)."""
    return -np.clip((1 + h - margins) / (2 * h), 0, 1)


@dataclass(frozen=True, kw_only=True)
class Descent:
    """One way to go through the data."""

    passes: int
    batch: int
    step: Callable[[int], float]
    regularisation: float = 0.0
    radius: float = math.inf
    noise: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray] | None = None
    samples: bool = False
    slope: Callable[[np.ndarray], np.ndarray] = logistic_slope


def train(
    X: np.ndarray,
    Y: np.ndarray,
    descent: Descent,
    rngs: Sequence[np.random.Generator] = (),
) -> Iterator[np.ndarray]:
    """Weights of shape (R, K, d) after each pass."""
    n_runs, m, d = X.shape
    W = np.zeros((n_runs, Y.shape[2], d), X.dtype)
    n_updates, t = m // descent.batch, 0
    for _ in range(descent.passes):
        noise = _pass_noise(descent, rngs, (n_updates, *W.shape[1:]), X.dtype)
        for number in range(n_updates):
            t += 1
            x, y = _batch(X, Y, descent, number, rngs)
            residuals = y * descent.slope(y * (W @ x))
            gradient = residuals @ x.transpose(0, 2, 1) / descent.batch
            if noise is not None:
                gradient = gradient + noise[:, number]
            if descent.regularisation:
                gradient = gradient + X.dtype.type(descent.regularisation) * W
            W = _projected(W - X.dtype.type(descent.step(t)) * gradient, descent.radius)
        yield W


def _pass_noise(
    descent: Descent,
    rngs: Sequence[np.random.Generator],
    shape: tuple[int, ...],
    dtype: np.dtype,
) -> np.ndarray | None:
    """Noise of all updates of a pass, for each run."""
    if descent.noise is None:
        return None
    return np.stack([descent.noise(rng, shape).astype(dtype) for rng in rngs])


def _batch(
    X: np.ndarray,
    Y: np.ndarray,
    descent: Descent,
    number: int,
    rngs: Sequence[np.random.Generator],
) -> tuple[np.ndarray, np.ndarray]:
    """Rows as (R, d, b) and signs as (R, K, b)."""
    size = descent.batch
    if descent.samples:
        rows = np.stack([rng.choice(X.shape[1], size, replace=False) for rng in rngs])
        runs = np.arange(len(X))[:, None]
        x, y = X[runs, rows], Y[runs, rows]
    else:
        kept = slice(number * size, (number + 1) * size)
        x, y = X[:, kept], Y[:, kept]
    return x.transpose(0, 2, 1), y.transpose(0, 2, 1)


def _projected(W: np.ndarray, radius: float) -> np.ndarray:
    if math.isinf(radius):
        return W
    norms = np.linalg.norm(W, axis=2, keepdims=True)
    return W * np.minimum(1, radius / np.maximum(norms, 1e-30))


def psgd_convex(m: int, passes: int, batch: int) -> Descent:
    """Algorithm 1 before its noise: steps 1 / sqrt(m)."""
    size = 1 / math.sqrt(m)
    return Descent(passes=passes, batch=batch, step=lambda t: size)


def psgd_strongly_convex(
    passes: int, batch: int, regularisation: float, curvature: float = 1.0
) -> Descent:
    """Algorithm 2 before its noise: steps min(1 / beta, 1 / (gamma t)), R = 1 / lambda.

    beta = curvature + lambda, 1 + lambda for the logistic loss as in the paper.
    """
    largest = 1 / (curvature + regularisation)
    return Descent(
        passes=passes,
        batch=batch,
        step=lambda t: min(largest, 1 / (regularisation * t)),
        regularisation=regularisation,
        radius=1 / regularisation,
    )


def convex_sensitivity(m: int, passes: int, batch: int) -> float:
    """Delta of Algorithm 1, 2 k L eta / b; correct and attained where b divides m."""
    return 2 * passes / math.sqrt(m) / batch


def printed_sensitivity(m: int, batch: int, regularisation: float) -> float:
    """Delta of Algorithm 2 divided by b as Section 4.1 says; L = 1 + lambda R = 2."""
    return 4 / (regularisation * m * batch)


def exact_sensitivity(m: int, descent: Descent, beta: float) -> float:
    """Delta of one class' weights after the last pass, whatever the schedule.

    An exchanged record moves the weights by at most 2 eta_t / b when it is met
    (the regulariser's gradient is the same on both sides and cancels), and every later
    step contracts by 1 - eta gamma, for steps of at most 1 / beta.
    """
    gamma, n_updates = descent.regularisation, m // descent.batch
    steps = np.array([descent.step(t + 1) for t in range(descent.passes * n_updates)])
    if steps.max() > 1 / beta * (1 + 1e-12):
        raise ValueError("The recursion holds for steps of at most 1 / beta only.")
    later = np.append(np.cumprod((1 - gamma * steps[1:])[::-1])[::-1], 1.0)
    met = 2 * steps / descent.batch * later
    return float(met.reshape(descent.passes, n_updates).sum(axis=0).max())


def scs13(
    passes: int, batch: int, epsilon: float, regularisation: float = 0.0
) -> Descent:
    """Noise at every update, for one class at this pure epsilon."""
    scale = 2 * passes / epsilon
    return Descent(
        passes=passes,
        batch=batch,
        step=lambda t: 1 / math.sqrt(t),
        regularisation=regularisation,
        radius=1 / regularisation if regularisation else math.inf,
        noise=lambda rng, shape: spherical(rng, shape, scale) / batch,
    )


def bst14_deviation(
    m: int, passes: int, batch: int, epsilon: float, delta: float
) -> float:
    """Sigma of lines 4 to 7 of Algorithms 4 and 5, iota = 1."""
    steps = passes * m // batch
    first_delta = delta / steps
    first = advanced_step(epsilon, first_delta, steps)
    second = min(1.0, m * first / (2 * batch))
    return classical_multiplier(second, first_delta)


def bst14_convex(passes: int, batch: int, deviation: float, dimension: int) -> Descent:
    """Algorithm 4: steps 2 R / (G sqrt(t)) on the noisy sum of a batch."""
    bound = math.sqrt(dimension * deviation**2 + batch**2)
    return Descent(
        passes=passes,
        batch=batch,
        step=lambda t: batch * 2 * CONVEX_RADIUS / (bound * math.sqrt(t)),
        radius=CONVEX_RADIUS,
        noise=lambda rng, shape: rng.normal(0, deviation, shape) / batch,
        samples=True,
    )


def bst14_strongly_convex(
    passes: int, batch: int, deviation: float, regularisation: float
) -> Descent:
    """Algorithm 5: steps 1 / (gamma t) on the noisy mean of a batch."""
    return Descent(
        passes=passes,
        batch=batch,
        step=lambda t: 1 / (regularisation * t),
        regularisation=regularisation,
        radius=1 / regularisation,
        noise=lambda rng, shape: rng.normal(0, deviation, shape) / batch,
        samples=True,
    )
