"""Noise in the weights of a descent, and the gate that compares weights with it.

Everything here follows from public facts and released numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from skdp._arrays import FloatArray
from skdp.solvers._default_rules import Pace
from skdp.solvers._target_base import Base, within

# The gate clips a record's ratio to MOST_RATIO. It keeps all weights from a mean ratio
# of _EVERYTHING on, and none below _NOTHING, the mean ratio of pure noise.
MOST_RATIO = 6.0
_NOTHING, _EVERYTHING = 1.0, 1.5
# For declared columns the gate subtracts this many standard deviations of the ratio
# that noise alone has, and for rows of numbers one: their variances are the most that
# noise can make in any spectrum, and with 1.75 the gate refused covertype's signal
# (10,000 rows, epsilon 0.1: log-loss .693 in place of .681).
# With 1.0 noise cost .0054 of 1 - R2 (ccpp, 6,124 records with permuted
# targets, epsilon 0.1) and .0069 of log-loss (seven kinds of covertype, 20,000), with
# 1.5 .0034 and .0053, and with 2.0 .0020 and .0044. Six tables with signal lose .0027
# of their loss over the constant's with 1.5 on average, and .0068 with 2.0.
_DEVIATIONS, _DEVIATIONS_OF_NUMBERS = 1.75, 1.0
# The dependence between columns is estimated in so many principal directions at most.
# The time of an estimate grows with the third power; the next directions have a small
# variance.
_MOST_DIRECTIONS = 60
# Prior deviation of a correlation: that of a uniform number between -1 and 1. Values
# between .4 and 1 differ little.
_CORRELATION = 1 / math.sqrt(3)
# Largest correlation, and least eigenvalue of their matrix. Noise in a direction grows
# as its eigenvalue falls. With .05 to .15 the deviation over 24 refits was .76 to 1.12
# times the stated noise in a median entry (adult, ccpp; epsilon 0.1 to 4).
_MOST_CORRELATED, _LEAST_EIGENVALUE = 0.95, 0.1
# Number of shares of the row variance at which the largest noise is searched, and the
# least share over an even one.
_CURVATURES, _FLAT = 64, 1e-9


class Directions(NamedTuple):
    """Principal directions of largest variance among the features of all parts.

    Parameters
    ----------
    basis : ndarray of float64 of shape (n_features, n_directions)
    spreads : ndarray of float64 of shape (n_directions,)
        Variance of the records in each direction.
    parts : ndarray of int of shape (n_directions,)
        The part that each direction belongs to.
    """

    basis: FloatArray
    spreads: FloatArray
    parts: NDArray[np.intp]


class SeenStep(NamedTuple):
    """One released gradient in leading directions.

    Parameters
    ----------
    weights, gradient : ndarray of float64 of shape (n_directions, n_outputs)
    deviation : float
        Standard deviation of the noise in each entry of the gradient.
    bend : float
        Curvature of the loss, over the curvature at the base.
    """

    weights: FloatArray
    gradient: FloatArray
    deviation: float
    bend: float


@dataclass(frozen=True)
class NoiseOfRun:
    """Variance of the weights of a run that is due to noise and to the sample.

    Parameters
    ----------
    paces : sequence of Pace
        The pace of each step.
    deviations : ndarray of float64 of shape (n_steps,)
        Standard deviation of the noise in each step's mean gradient.
    base : Base
    n_samples : float
    alpha : float, default=0.0
    before : NoiseOfRun or None, default=None
        The run whose weights this run started from.
    seen : tuple of SeenStep, default=()
        The steps of this run, for the dependence between columns.
    given : NoiseOfRun or None, default=None
        The run whose released weights are mixed with those of this one, and at which
        the first of both runs started.
    share : float in (0, 1], default=1.0
        Share of this run in the mixed weights.
    """

    paces: Sequence[Pace]
    deviations: FloatArray
    base: Base
    n_samples: float
    alpha: float = 0.0
    before: NoiseOfRun | None = None
    seen: tuple[SeenStep, ...] = ()
    given: NoiseOfRun | None = None
    share: float = 1.0

    def without_steps(self) -> NoiseOfRun:
        """The distribution of the noise alone, to be kept in a model."""
        before = None if self.before is None else self.before.without_steps()
        return replace(self, before=before, seen=())

    @property
    def flow(self) -> float:
        """Flow time of all steps."""
        past = 0.0 if self.before is None else self.before.flow
        return past + sum(pace.flow for pace in self.paces)

    def _flow(self, moments: FloatArray) -> FloatArray:
        """Flow time in directions in which rows have these moments."""
        past = 0.0 if self.before is None else self.before._flow(moments)
        own = sum(pace.flow for pace in self.paces)
        return np.asarray(past + own * self.paces[0].speed(moments))

    def variance(self, spread: FloatArray, unit: float = 1.0) -> FloatArray:
        """Variance of the weights in directions with these shares of the row variance.

        `unit` is the row variance, before rows are clipped to norm 1.

        Returns
        -------
        ndarray of float64 of shape (n_directions, n_directions_of_outputs)
        """
        found, flow_of_run = [], self._flow(unit * spread)
        for bend, squares in zip(self._bends(spread), self.base.squares, strict=True):
            flow = np.maximum(bend * flow_of_run, 1e-12)
            learned = -np.expm1(-flow) / flow * flow_of_run
            of_sample = learned**2 * spread * squares / self.n_samples
            found.append(of_sample)
        return np.stack(found, axis=1) + self.of_noise(spread, unit)

    def of_noise(self, spread: FloatArray, unit: float = 1.0) -> FloatArray:
        """The part of `variance` that is due to noise."""
        moments = (unit * spread)[:, None]
        bends = (bend[:, None, None] for bend in self._bends(spread))
        return np.hstack([self.of_gradients(bend, moments) for bend in bends])

    def of_related(
        self, spread: FloatArray, unit: float, related: FloatArray
    ) -> FloatArray:
        """`of_noise` in directions with these correlations, as the mean over outputs.

        Parameters
        ----------
        spread : ndarray of float64 of shape (n_directions,)
        unit : float
        related : ndarray of float64 of shape (n_directions, n_directions)
        """
        roots, moments = np.sqrt(spread), unit * spread[None]
        products = roots[:, None] * related * roots
        penalty = self.alpha * np.eye(len(spread))
        bends = (curvature * products + penalty for curvature in self.base.curvature)
        found = [self.of_gradients(bend[None], moments)[0] for bend in bends]
        return np.asarray(np.mean(found, axis=0))

    def learned(self, spread: FloatArray, unit: float = 1.0) -> FloatArray:
        """Part of the way from the start to the optimum that the mean weights go.

        Exact for steps with momentum whose last half is averaged, and above 1 where
        momentum overshoots. The arguments and the shape are those of `variance`.
        """
        moments = (unit * spread)[:, None, None]
        bends = [bend[:, None, None] for bend in self._bends(spread)]
        ends = [self._of_steps(np.ones_like(bend), bend, moments) for bend in bends]
        found = [1 - by_start[:, 0, 0] for _, by_start in ends]
        return np.stack(found, axis=1)

    def _bends(self, spread: FloatArray) -> list[FloatArray]:
        return [curvature * spread + self.alpha for curvature in self.base.curvature]

    def of_gradients(self, bend: FloatArray, moments: FloatArray) -> FloatArray:
        """Exact variance of the weights that is due to noise in gradients.

        Parameters
        ----------
        bend : ndarray of float64 of shape (n_groups, n_directions, n_directions)
            Second derivatives of the objective in groups of directions that do not
            depend on each other.
        moments : ndarray of float64 of shape (n_groups, n_directions)
            Second moment of the part of the rows in each direction, by which a
            preconditioner divides (`Pace.speed`).

        Returns
        -------
        ndarray of float64 of shape (n_groups, n_directions)
        """
        gain = np.broadcast_to(np.eye(bend.shape[-1]), bend.shape)
        return self._of_gain(gain, bend, moments[:, None])

    def _of_gain(
        self, gain: FloatArray, bend: FloatArray, moments: FloatArray
    ) -> FloatArray:
        """Variance of ``gain @ weights``; `gain` is like `bend`."""
        found, by_start = self._of_steps(self.share * gain, bend, moments)
        run = self
        while run.before is not None:
            run = run.before
            of_run, by_start = run._of_steps(by_start, bend, moments)
            found += of_run
        if self.given is not None:
            of_given = by_start + (1 - self.share) * gain
            found += self.given._of_gain(of_given, bend, moments)
        return found

    def _of_steps(
        self, gain: FloatArray, bend: FloatArray, moments: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Variance of ``gain @ mean`` by this run, and its derivative by the start.

        `mean` has the averaged weights. From the last step to the first, this follows
        the derivatives of ``gain @ mean`` by weights and by velocity.
        """
        n, found = len(self.paces), np.zeros(gain.shape[:-1])
        by_weights, by_velocity = np.zeros_like(gain), np.zeros_like(gain)
        for t in reversed(range(n)):
            if t >= n - tail_of(n):
                by_weights = by_weights + gain / tail_of(n)
            by_velocity = by_velocity + by_weights
            pace = self.paces[t]
            by_gradient = pace.step_size * by_velocity * pace.speed(moments)
            found += self.deviations[t] ** 2 * np.sum(by_gradient**2, axis=-1)
            by_weights = by_weights - by_gradient @ bend
            by_velocity = pace.momentum * by_velocity
        return found, by_weights


def tail_of(n_steps: int) -> int:
    """Number of averaged iterates: the last half of them."""
    return n_steps // 2


class NoiseVariances(NamedTuple):
    """Predictions by weights that are noise.

    Parameters
    ----------
    variance : ndarray of float64
        Of a prediction in each state, or of any.
    deviation : float
        Standard deviation about 1 of the mean ratio of these weights.
    n_deviations : float
        How many deviations the gate subtracts.
    """

    variance: FloatArray
    deviation: float
    n_deviations: float


def state_variances(
    parts: Sequence[Principal],
    noise: NoiseOfRun,
    norm: float = 1.0,
    *,
    are_weighted: bool = False,
) -> NoiseVariances:
    """Variance of a prediction in each state if the weights are pure noise.

    Also returns the standard deviation about 1 of the mean ratio of these weights: in
    few directions noise is by chance larger than its average.

    Columns are assumed to be independent. Where they are dependent, noise is damped
    more, and the gate is stricter than necessary.

    Parameters
    ----------
    parts : sequence of Principal
        Directions of the states of each part.
    noise : NoiseOfRun
    norm : float, default=1.0
        Clip of the rows, in units of the features.
    are_weighted : bool, default=False
        Whether rows longer than 1 count less in gradient sums; otherwise they are
        clipped.
    """
    ends = np.cumsum([len(part.spreads) for part in parts])[:-1]
    spreads = np.concatenate([part.spreads for part in parts]) / norm**2
    variances, _, deviation = _of_noise(spreads, noise, are_weighted)
    split = np.split(variances.sum(axis=1), ends)
    each = [part.places**2 @ own for part, own in zip(parts, split, strict=True)]
    return NoiseVariances(np.concatenate(each), deviation, _DEVIATIONS)


def variance_in_directions(spreads: FloatArray, noise: NoiseOfRun) -> NoiseVariances:
    """Mean variance of predictions if the weights are pure noise.

    Also returns the standard deviation about 1 of the mean ratio of these weights.

    Parameters
    ----------
    spreads : ndarray of float64 of shape (n_directions,)
        Second moments of the rows in the directions of their spectrum.
    noise : NoiseOfRun
    """
    _, mean, deviation = _of_noise(spreads, noise)
    return NoiseVariances(np.array([mean]), deviation, _DEVIATIONS)


def _of_noise(
    spreads: FloatArray, noise: NoiseOfRun, are_weighted: bool = False
) -> tuple[FloatArray, float, float]:
    """Variances of weights that are noise, and of the mean square of a prediction.

    Returns
    -------
    variances : ndarray of float64 of shape (n_directions, n_directions_of_outputs)
    mean : float
        Mean square of a prediction.
    deviation : float
        Standard deviation of the mean square from fit to fit, over its mean.
    """
    shares, unit = clipped(spreads, are_weighted)
    variances = noise.variance(shares, unit)
    energies = shares[:, None] * variances
    mean = float(energies.sum())
    deviation = math.sqrt(2 * np.sum(energies**2)) / max(mean, 1e-300)
    return variances, mean, deviation


def clipped(
    spreads: FloatArray, are_weighted: bool = False
) -> tuple[FloatArray, float]:
    """Variances of rows that are clipped to norm 1, and the factor by which they fall.

    Parameters
    ----------
    spreads : ndarray of float64 of shape (n_directions,)
        Variances of the rows before the clip, in all directions.
    are_weighted : bool, default=False
        As for `state_variances`.
    """
    unit = max(float(spreads.sum()), 1.0)
    if are_weighted:
        # A row of length r > 1 has the weight 1 / r, so that curvature falls by the
        # root of what it falls by where rows are clipped.
        unit = math.sqrt(unit)
    return spreads / unit, unit


def largest_variance(n_directions: int, noise: NoiseOfRun) -> NoiseVariances:
    """Variance of a prediction for a row of norm 1 if the weights are pure noise.

    Rows have mean square 1, and their variance is divided in an unknown way among
    `n_directions` directions. The sum over directions of share times variance is
    largest on the concave hull of that product. Also returns the standard deviation of
    the mean ratio of these weights, as if rows spread evenly.
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
    deviation = math.sqrt(2 * squares) / max(largest, 1e-300)
    return NoiseVariances(np.array([largest]), deviation, _DEVIATIONS_OF_NUMBERS)


class Principal(NamedTuple):
    """Principal directions of the features of one part.

    Parameters
    ----------
    spreads : ndarray of float64 of shape (n_directions,)
        Variances.
    places : ndarray of float64 of shape (n_states, n_directions)
        Coordinates of the states.
    directions : ndarray of float64 of shape (n_directions, n_features)
    """

    spreads: FloatArray
    places: FloatArray
    directions: FloatArray


def principal(centred: FloatArray, shares: FloatArray) -> Principal:
    """Principal directions of states with these shares.

    Parameters
    ----------
    centred : ndarray of float64 of shape (n_states, n_features)
    shares : ndarray of float64 of shape (n_states,)
    """
    weighted = np.sqrt(shares)[:, None] * centred
    _, roots, directions = np.linalg.svd(weighted, full_matrices=False)
    return Principal(roots**2, centred @ directions.T, directions)


def leading(parts: Sequence[Principal]) -> Directions:
    """The directions in which `correlations` compares parts; post-processing.

    Parameters
    ----------
    parts : sequence of Principal
        Parts of the rows, in the order of all features.
    """
    spreads = np.concatenate([part.spreads for part in parts])
    of_part = np.repeat(np.arange(len(parts)), [len(part.spreads) for part in parts])
    basis = block_diag(*[part.directions.T for part in parts])
    first = np.argsort(-spreads, kind="stable")[:_MOST_DIRECTIONS]
    return Directions(basis[:, first], spreads[first], of_part[first])


def correlations(noise: NoiseOfRun, spreads: FloatArray, parts: Any) -> FloatArray:
    """Estimated correlations between directions of different parts; post-processing.

    A gradient at weights ``w`` is ``a + H w`` and its noise. ``H`` is known within a
    part, from released shares. Between parts it is a correlation ``R`` times the roots
    of both variances. The entries of ``R`` in a row have normal priors, and this is
    their posterior mean in a regression of released gradients on released weights.

    Parameters
    ----------
    noise : NoiseOfRun
    spreads : ndarray of float64 of shape (n_directions,)
    parts : ndarray of int of shape (n_directions,)

    Returns
    -------
    ndarray of float64 of shape (n_directions, n_directions)
        A correlation matrix that is positive definite.
    """
    roots, n = np.sqrt(spreads), len(spreads)
    responses: list[FloatArray] = []
    gradients: list[FloatArray] = []
    for seen in _runs(noise):
        precision = 1 / np.array([each.deviation for each in seen])[:, None, None]
        weights = np.stack([each.weights for each in seen])
        curvature = float(np.mean(noise.base.curvature))
        bends = curvature * np.array([each.bend for each in seen])[:, None, None]
        gradient = np.stack([each.gradient for each in seen])
        gradient = gradient - bends * spreads[:, None] * weights
        # What is constant in a run, `a`, is taken out of both sides.
        mean = precision / np.linalg.norm(precision)
        for sides, side in (
            (responses, bends * roots[:, None] * weights),
            (gradients, gradient),
        ):
            side = precision * side
            side = side - mean * np.sum(mean * side, axis=0)
            sides.append(side.transpose(0, 2, 1).reshape(-1, n))
    response, gradient = np.concatenate(responses), np.concatenate(gradients)
    squares, products = response.T @ response, response.T @ gradient
    if not (np.isfinite(squares).all() and np.isfinite(products).all()):
        return np.eye(n)  # overflow: nothing is estimated, and nothing raises
    # Eigenvectors exist where an inverse may not, after few steps of little noise.
    values, turned = np.linalg.eigh(squares)
    variances = 1 / (np.outer(spreads, np.maximum(values, 0.0)) + _CORRELATION**-2)
    found = roots[:, None] * (variances * (products.T @ turned)) @ turned.T
    certain = 1 / (variances @ (turned**2).T)
    both = (found * certain + (found * certain).T) / (certain + certain.T)
    both[parts[:, None] == parts] = 0.0  # directions of one part are uncorrelated
    values, turned = np.linalg.eigh(
        np.eye(n) + np.clip(both, -_MOST_CORRELATED, _MOST_CORRELATED)
    )
    return np.asarray((turned * np.maximum(values, _LEAST_EIGENVALUE)) @ turned.T)


def _runs(noise: NoiseOfRun) -> Iterator[tuple[SeenStep, ...]]:
    if noise.before is not None:
        yield from _runs(noise.before)
    if noise.seen:
        yield noise.seen


class EffectNoise(NamedTuple):
    """Noise in the effects of states, before the gate.

    Parameters
    ----------
    deviations : list of ndarray of float64 of shape (n_states, n_directions)
        Standard deviations along independent directions, one array a part; the same for
        all outputs. A matrix times its transpose is the covariance of the effects.
    alone : ndarray of float64 of shape (n_parts,)
        Estimated share of the variance of each part that other parts do not explain.
    """

    deviations: list[FloatArray]
    alone: FloatArray


def effect_noise(
    parts: Sequence[Principal], noise: NoiseOfRun, are_weighted: bool = False
) -> EffectNoise:
    """Noise in the effect of each state; post-processing.

    The effect of a state is what it adds to a raw prediction, less the mean over the
    states of its part. Where columns depend on each other, noise is damped less.

    Parameters
    ----------
    parts : sequence of Principal
        Of features with mean 0, over the norm that clips rows.
    noise : NoiseOfRun
    are_weighted : bool, default=False
        As for `state_variances`.
    """
    spreads = np.concatenate([part.spreads for part in parts])
    spreads, unit = clipped(spreads, are_weighted)
    # Where errors are few, labels are nearly certain and bend the loss less: steps go
    # farther by the ratio of errors (`Pace.after`), and p (1 - p) falls by it.
    alone = np.ones(len(spreads))
    bend = noise.seen[-1].bend if noise.seen else 1.0
    curvature = tuple(bend * each for each in noise.base.curvature)
    late = replace(noise, base=replace(noise.base, curvature=curvature))
    variances = late.of_noise(spreads, unit).mean(axis=1)
    if noise.seen and noise.deviations.all():
        first = np.argsort(-spreads, kind="stable")[:_MOST_DIRECTIONS]
        sizes = [len(part.spreads) for part in parts]
        of_part = np.repeat(np.arange(len(parts)), sizes)[first]
        related = correlations(noise, spreads[first], of_part)
        variances[first] = late.of_related(spreads[first], unit, related)
        alone[first] = 1 / np.diag(np.linalg.inv(related))
    ends = np.cumsum([len(part.spreads) for part in parts])[:-1]
    split = np.split(np.sqrt(variances), ends)
    deviations = [part.places * root for part, root in zip(parts, split, strict=True)]
    explained = zip(np.split(alone, ends), parts, strict=True)
    shares_alone = [
        float(own @ part.spreads / max(float(part.spreads.sum()), 1e-300))
        for own, part in explained
    ]
    return EffectNoise(deviations, np.array(shares_alone))


def kept_share(ratio: float, margin: float) -> float:
    """Fraction of the weights that the gate keeps, linear between noise and signal.

    `margin` is what the ratio of pure noise may be above its mean; it is subtracted, so
    that few runs of pure noise pass.
    """
    passed = (ratio - margin - _NOTHING) / (_EVERYTHING - _NOTHING)
    return within(passed, 0.0, 1.0)
