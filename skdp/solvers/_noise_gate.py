"""What noise alone would make of a run, and the gate that compares weights with it.

Functions of public facts and of released numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from skdp._floats import FloatArray
from skdp.solvers._centred_descent_rules import Pace
from skdp.solvers._target_base import Base, within

# A record counts at the gate by a ratio of at most this. Weights count in full from a
# mean ratio of the second number on, and not at all below the first, which noise has.
MOST_RATIO = 6.0
_NOTHING, _EVERYTHING = 1.0, 1.5
# Standard deviations of the ratio that noise alone has, which are taken off a ratio.
# With 1.0 of them noise cost .0054 of 1 - R2 (ccpp, 6,124 records with permuted
# targets, epsilon 0.1) and .0069 of log-loss (seven kinds of covertype, 20,000), with
# 1.5 .0034 and .0053, and with 2.0 .0020 and .0044. Six tables with signal lose .0027
# of their loss over the constant's with 1.5 on average, and .0068 with 2.0.
_DEVIATIONS = 1.75
# Curvatures at which a run's noise is computed, and the least of them over the largest.
_CURVATURES, _FLAT = 64, 1e-9


@dataclass(frozen=True)
class NoiseOfRun:
    """What noise alone, and the sample, make of the weights of a run.

    Parameters
    ----------
    paces : sequence of Pace
        Of each step.
    deviations : ndarray of float64 of shape (n_steps,)
        Of the noise in each step's mean gradient.
    base : Base
    n_samples : int
    """

    paces: Sequence[Pace]
    deviations: FloatArray
    base: Base
    n_samples: int
    alpha: float = 0.0

    def variance(self, spread: FloatArray) -> FloatArray:
        """Of weights of directions that have such shares of the rows' variance.

        Returns
        -------
        ndarray of float64 of shape (n_directions, n_directions_of_outputs)
        """
        found, flow_of_run = [], sum(pace.flow for pace in self.paces)
        for bend, squares in zip(self._bends(spread), self.base.squares, strict=True):
            flow = np.maximum(bend * flow_of_run, 1e-12)
            learned = -np.expm1(-flow) / flow * flow_of_run
            of_sample = learned**2 * spread * squares / self.n_samples
            found.append(of_sample)
        return np.stack(found, axis=1) + self.of_noise(spread)

    def of_noise(self, spread: FloatArray) -> FloatArray:
        """The part of `variance` that noise makes."""
        return np.stack([self._between(bend) for bend in self._bends(spread)], axis=1)

    def _bends(self, spread: FloatArray) -> list[FloatArray]:
        return [curvature * spread + self.alpha for curvature in self.base.curvature]

    def _between(self, bend: FloatArray) -> FloatArray:
        """Noise at each curvature; of many from a few between which it is smooth."""
        if len(bend) <= _CURVATURES:
            return self._of_noise(bend)
        logs = np.log(np.maximum(bend, max(bend.max() * _FLAT, 1e-300)))
        few = np.linspace(logs.min(), logs.max(), _CURVATURES)
        noise = np.log(np.maximum(self._of_noise(np.exp(few)), 1e-300))
        return np.asarray(np.exp(np.interp(logs, few, noise)))

    def _of_noise(self, bend: FloatArray) -> FloatArray:
        """Exactly, of the mean of the last half of the iterates."""
        n = len(self.paces)
        first = n - tail_of(n)
        # A row for each gradient: what noise of 1 in it has made of the weights so far.
        weights, sums = np.zeros((n, len(bend))), np.zeros((n, len(bend)))
        velocity = np.zeros((n, len(bend)))
        for t, pace in enumerate(self.paces):
            velocity = pace.momentum * velocity - pace.step_size * bend * weights
            velocity[t] -= pace.step_size
            weights = weights + velocity
            if t >= first:
                sums += weights
        means = self.deviations[:, None] * sums / (n - first)
        return np.asarray(np.sum(means**2, axis=0))


def tail_of(n_steps: int) -> int:
    """How many of the last iterates are averaged: half of them."""
    return n_steps // 2


def state_variances(
    parts: Iterable[FloatArray], margins: Iterable[FloatArray], noise: NoiseOfRun
) -> tuple[FloatArray, float]:
    """Of a prediction in each state, of weights that are noise.

    And the standard deviation of the mean ratio of such weights about 1: of few
    directions noise is by chance larger than it is on average.

    Columns are taken to be independent: where they are not, noise is damped more, so
    that the gate is stricter than it had to be.

    Parameters
    ----------
    parts : iterable of ndarray of float64 of shape (n_states, n_features)
        Centred features of the states of each part.
    margins : iterable of ndarray of float64 of shape (n_states,)
    noise : NoiseOfRun
    """
    found = []
    for centred, shares in zip(parts, margins, strict=True):
        spread, turned = principal(centred, shares)
        found.append((spread, turned))
    total = max(sum(float(spread.sum()) for spread, _ in found), 1e-300)
    ends = np.cumsum([len(spread) for spread, _ in found])[:-1]
    spreads = np.concatenate([spread for spread, _ in found]) / total
    variances = noise.variance(spreads)
    energies = spreads[:, None] * variances
    deviation = math.sqrt(2 * np.sum(energies**2)) / max(energies.sum(), 1e-300)
    split = np.split(variances.sum(axis=1), ends)
    each = [turned**2 @ v for (_, turned), v in zip(found, split, strict=True)]
    return np.concatenate(each), deviation


def largest_variance(n_directions: int, noise: NoiseOfRun) -> tuple[float, float]:
    """Of a prediction for a row of norm 1, of weights that are noise.

    Rows have mean square 1, and their variance lies in any way in so many directions.
    The sum over directions of share times variance is largest on the concave hull of
    that product. And the standard deviation of the mean ratio of such weights, as if
    rows spread evenly.
    """
    even = 1 / n_directions
    shares = np.concatenate([[0.0], np.geomspace(even * _FLAT, 1.0, _CURVATURES)])
    shares = np.sort(np.append(shares, even))
    variances = noise.variance(shares)
    energies = shares * variances.sum(axis=1)
    low, high = shares <= even, shares >= even
    width = np.maximum(shares[high] - shares[low][:, None], 1e-300)
    along = np.clip((even - shares[low][:, None]) / width, 0.0, 1.0)
    chords = (1 - along) * energies[low][:, None] + along * energies[high]
    largest = n_directions * float(chords.max())
    at_even = variances[np.searchsorted(shares, even)]
    squares = float(np.sum(at_even**2)) / n_directions
    return largest, math.sqrt(2 * squares) / max(largest, 1e-300)


def principal(centred: FloatArray, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Variances in principal directions, and the states' places along them.

    Parameters
    ----------
    centred : ndarray of float64 of shape (n_states, n_features)
    shares : ndarray of float64 of shape (n_states,)
    """
    weighted = np.sqrt(shares)[:, None] * centred
    _, roots, directions = np.linalg.svd(weighted, full_matrices=False)
    return roots**2, centred @ directions.T


def kept_share(ratio: float, noise: float) -> float:
    """Of the weights, after the gate: between noise and signal in proportion.

    `noise` is the standard deviation of the ratio of weights that are noise; some of
    them are taken off, so that few runs of noise pass.
    """
    above = ratio - _DEVIATIONS * noise - _NOTHING
    passed = above / (_EVERYTHING - _NOTHING)
    return within(passed, 0.0, 1.0)
