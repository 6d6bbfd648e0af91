"""What the papers' releases cost in truth, and the noise the papers give them.

Everything is for replace_one, the relation of all of these papers.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq

from skdp.privacy import (
    Budget,
    ComposedEvent,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    calibrate,
    epsilon_of,
)


def amplified(epsilon: float, rate: float) -> float:
    """Pure epsilon of an epsilon-DP step on a random subset of the records.

    Subsets of fixed size, without replacement, replace_one; Balle, Barthe and Gaboardi
    (2018), Theorem 9. The Laplace mechanism attains it.
    """
    if rate == 1:
        return epsilon
    return float(np.logaddexp(math.log1p(-rate), math.log(rate) + epsilon))


def base_epsilon(epsilon: float, rate: float) -> float:
    """What a step may cost on its subset, so that it costs `epsilon` altogether."""
    return math.log1p(math.expm1(epsilon) / rate)


def laplace_epsilon(scales: np.ndarray, sensitivity: float, rate: float = 1.0) -> float:
    """True epsilon of Laplace releases of these scales, each on a fresh subset."""
    kinds, counts = np.unique(scales, return_counts=True)
    parts = tuple(
        LaplaceEvent(scale / sensitivity, int(count))
        if rate == 1
        else PureEvent(amplified(sensitivity / scale, rate), int(count))
        for scale, count in zip(kinds.tolist(), counts, strict=True)
    )
    return epsilon_of(ComposedEvent(parts), 0.0)


def gaussian_epsilon(scales: np.ndarray, sensitivity: float, delta: float) -> float:
    """True epsilon of Gaussian releases of these deviations, on all records.

    Their squared mu add up exactly, so they cost what one release of the sum costs.
    """
    mu = sensitivity * math.sqrt(float(np.sum(np.asarray(scales, float) ** -2)))
    return epsilon_of(GaussianEvent(1 / mu), delta)


@lru_cache
def exact_multiplier(epsilon: float, delta: float) -> float:
    """Deviation over L2 sensitivity of one Gaussian release, exactly calibrated."""
    return calibrate(GaussianEvent, Budget(epsilon, delta))


def classical_multiplier(epsilon: float, delta: float) -> float:
    """The classical rule sqrt(2 log(1.25 / delta)) / epsilon, as the papers use it."""
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


@lru_cache
def sampled_gaussian_epsilon(
    multiplier: float, rate: float, count: int, delta: float
) -> float:
    """Upper bound on epsilon of Gaussian releases on fresh subsets of fixed size.

    `multiplier` is the deviation over the L2 sensitivity to one exchanged record of
    the subset. Renyi bound of Wang, Balle and Kasiviswanathan (2019).
    """
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(
        neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE
    )
    n = 10**9  # only the share of the records matters
    step = dp_accounting.SampledWithoutReplacementDpEvent(
        n, round(rate * n), dp_accounting.GaussianDpEvent(multiplier)
    )
    return float(accountant.compose(step, count).get_epsilon(delta))


def advanced_step(epsilon: float, delta: float, steps: int) -> float:
    """The epsilon_1 of Algorithms 4 and 5: advanced composition over `steps` steps."""
    root = math.sqrt(2 * steps * math.log(1 / delta))
    return float(
        brentq(lambda e: steps * e * math.expm1(e) + root * e - epsilon, 0.0, epsilon)
    )


def spherical(
    rng: np.random.Generator, shape: tuple[int, ...], scale: float
) -> np.ndarray:
    """Noise of density proportional to exp(-norm / scale) in the last dimension."""
    direction = rng.standard_normal(shape)
    direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
    return direction * rng.gamma(shape[-1], scale, (*shape[:-1], 1))


def thresholding_multiplier(epsilon: float, delta: float, kind: str) -> float:
    """The thesis's sigma n / (G sqrt(T)) of DP-IGHT (Wang 2021, chapter 2)."""
    log = math.log(1 / delta)
    root = math.sqrt(log + epsilon) - math.sqrt(log)
    return {
        "theorem 2.5.2": 1 / root,
        "corollary 2.5.6": math.sqrt(2 * log) / epsilon,
        "corollary 2.5.8": math.sqrt(log) / epsilon,
        "zcdp": math.sqrt(2) / root,
        "exact": 2 * exact_multiplier(epsilon, delta),
    }[kind]


def thresholding_epsilon(multiplier: float, delta: float, sensitivity: float) -> float:
    """True epsilon of all steps together, if every gradient is of norm at most G.

    `sensitivity` is in units of G / n: 2 under replace_one, 1 under zero_out.
    """
    return gaussian_epsilon(np.array([multiplier]), sensitivity, delta)
