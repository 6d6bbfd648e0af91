"""Rows centred by released means, and the noise that the gate expects."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.sparse import csr_array, eye_array, issparse

from skdp._arrays import FloatArray, clip_rows, with_entries
from skdp.privacy.release._answers import Released
from skdp.privacy.release._plan import Query
from skdp.solvers._default_rules import (
    CENTRE,
    STATES,
    Pace,
    norm_of_numbers,
    row_norm,
)
from skdp.solvers._target_base import (
    Base,
    posterior_share,
    within,
)
from skdp.sums._counts import StateSums
from skdp.sums._gradient_sum import grid_view
from skdp.sums._histogram import ReleasedHistogram
from skdp.sums._record_sums import RowSum
from skdp.tables._centred import CentredSource, Centring, StateRows
from skdp.tables._source import SHARE_BITS, Source
from skdp.tables._views import CentredDense

# --------------------------- Noise of a run, and the gate that compares weights with it
# Functions of public facts and of released numbers.


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
# Part of a column's variance that other columns do not explain, for the noise in its
# effects, in linear models and in boosted trees. With 0.5 the deviation over 60 to 100
# refits was .89 to 1.09 times the stated noise (adult, ccpp, wine_white, covertype;
# epsilon 0.3 to 1), with 1 1.07 to 1.56.
ALONE = 0.5
# Number of curvatures at which a run's noise is computed, and the least over the
# largest.
_CURVATURES, _FLAT = 64, 1e-9


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
    n_samples : int
    alpha : float, default=0.0
    before : NoiseOfRun or None, default=None
        The run whose weights this run started from.
    """

    paces: Sequence[Pace]
    deviations: FloatArray
    base: Base
    n_samples: int
    alpha: float = 0.0
    before: NoiseOfRun | None = None

    @property
    def flow(self) -> float:
        """Flow time of all steps."""
        past = 0.0 if self.before is None else self.before.flow
        return past + sum(pace.flow for pace in self.paces)

    def variance(self, spread: FloatArray) -> FloatArray:
        """Variance of the weights in directions with these shares of the row variance.

        Returns
        -------
        ndarray of float64 of shape (n_directions, n_directions_of_outputs)
        """
        found, flow_of_run = [], self.flow
        for bend, squares in zip(self._bends(spread), self.base.squares, strict=True):
            flow = np.maximum(bend * flow_of_run, 1e-12)
            learned = -np.expm1(-flow) / flow * flow_of_run
            of_sample = learned**2 * spread * squares / self.n_samples
            found.append(of_sample)
        return np.stack(found, axis=1) + self.of_noise(spread)

    def of_noise(self, spread: FloatArray) -> FloatArray:
        """The part of `variance` that is due to noise."""
        return np.stack([self._between(bend) for bend in self._bends(spread)], axis=1)

    def _bends(self, spread: FloatArray) -> list[FloatArray]:
        return [curvature * spread + self.alpha for curvature in self.base.curvature]

    def _between(self, bend: FloatArray) -> FloatArray:
        """Noise at each curvature, interpolated from a few if there are many."""
        if len(bend) <= _CURVATURES:
            return self._of_noise(bend)
        logs = np.log(np.maximum(bend, max(bend.max() * _FLAT, 1e-300)))
        few = np.linspace(logs.min(), logs.max(), _CURVATURES)
        noise = np.log(np.maximum(self._of_noise(np.exp(few)), 1e-300))
        return np.asarray(np.exp(np.interp(logs, few, noise)))

    def _of_noise(self, bend: FloatArray) -> FloatArray:
        """Exact noise variance of the mean of the last half of the iterates."""
        return np.asarray(np.sum(self._effects(bend) ** 2, axis=0))

    def _effects(self, bend: FloatArray) -> FloatArray:
        """Effect of the noise in each gradient, of one deviation, on the weights."""
        past = np.zeros((0, len(bend)))
        if self.before is not None:
            past = self.before._effects(bend)
        n = len(self.paces)
        first = n - tail_of(n)
        # Row t holds the effect of unit noise in gradient t on the weights so far;
        # noise in gradients of a run before has its deviation already.
        weights = np.vstack([past, np.zeros((n, len(bend)))])
        sums, velocity = np.zeros_like(weights), np.zeros_like(weights)
        for t, pace in enumerate(self.paces, start=len(past)):
            velocity = pace.momentum * velocity - pace.step_size * bend * weights
            velocity[t] -= pace.step_size
            weights = weights + velocity
            if t >= len(past) + first:
                sums += weights
        deviations = np.concatenate([np.ones(len(past)), self.deviations])
        return np.asarray(deviations[:, None] * sums / (n - first))


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
    parts: Iterable[FloatArray], margins: Iterable[FloatArray], noise: NoiseOfRun
) -> NoiseVariances:
    """Variance of a prediction in each state if the weights are pure noise.

    Also returns the standard deviation about 1 of the mean ratio of these weights: in
    few directions noise is by chance larger than its average.

    Columns are assumed to be independent. Where they are dependent, noise is damped
    more, and the gate is stricter than necessary.

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
    return NoiseVariances(np.concatenate(each), deviation, _DEVIATIONS)


def largest_variance(n_directions: int, noise: NoiseOfRun) -> tuple[float, float]:
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
    return largest, math.sqrt(2 * squares) / max(largest, 1e-300)


def principal(centred: FloatArray, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Variances in principal directions, and the coordinates of the states in them.

    Parameters
    ----------
    centred : ndarray of float64 of shape (n_states, n_features)
    shares : ndarray of float64 of shape (n_states,)
    """
    weighted = np.sqrt(shares)[:, None] * centred
    _, roots, directions = np.linalg.svd(weighted, full_matrices=False)
    return roots**2, centred @ directions.T


def effect_noise(
    parts: Iterable[FloatArray], shares: Iterable[FloatArray], noise: NoiseOfRun
) -> list[FloatArray]:
    """Noise in the effect of each state along independent directions, before the gate.

    The effect of a state is what it adds to a raw prediction, less the mean over the
    states of its part.

    Parameters
    ----------
    parts : iterable of ndarray of float64 of shape (n_states, n_features)
        Features of the states of each part, with mean 0, over the norm that clips rows.
    shares : iterable of ndarray of float64 of shape (n_states,)
    noise : NoiseOfRun

    Returns
    -------
    list of ndarray of float64 of shape (n_states, n_directions)
        Standard deviations, one array a part; the same for all outputs. A matrix times
        its transpose is the covariance of the effects.
    """
    found = [principal(*each) for each in zip(parts, shares, strict=True)]
    # Where errors are few, labels are nearly certain and bend the loss less: steps go
    # farther by the ratio of errors (`Pace.after`), and p (1 - p) falls by it.
    bend = ALONE * noise.paces[0].flow / noise.paces[-1].flow
    curvature = tuple(bend * each for each in noise.base.curvature)
    noise = replace(noise, base=replace(noise.base, curvature=curvature))
    # Rows that are longer than 1 are clipped to it.
    square = max(sum(float(spread.sum()) for spread, _ in found), 1.0)
    return [
        places * np.sqrt(noise.of_noise(spread / square).mean(axis=1))
        for spread, places in found
    ]


def kept_share(ratio: float, margin: float) -> float:
    """Fraction of the weights that the gate keeps, linear between noise and signal.

    `margin` is what the ratio of pure noise may be above its mean; it is subtracted, so
    that few runs of pure noise pass.
    """
    passed = (ratio - margin - _NOTHING) / (_EVERYTHING - _NOTHING)
    return within(passed, 0.0, 1.0)


# ----------------------------------------------------- Rows centred by released numbers
# Each kind of rows defines the query about the rows before the descent, the view of the
# rows in the descent, and the variance of predictions by pure noise.


class EffectsOfStates(NamedTuple):
    """Released shares of declared states, and the noise in what they add.

    Parameters
    ----------
    shares : ndarray of float64 of shape (n_states,)
        They add up to 1 in each part.
    deviations : ndarray of float64 of shape (n_states,)
    share_deviation : float
        Standard deviation of the noise in a share, before shares were made to add up.
    """

    shares: FloatArray
    deviations: FloatArray
    share_deviation: float


class Centred(Protocol):
    """Released numbers about the rows, and the centring that follows from them."""

    @property
    def centring(self) -> Centring:
        """Centring in units of the features; post-processing."""
        ...

    def view(self, source: Source) -> Source:
        """Centred rows of norm at most 1; each depends on one record alone."""
        ...

    def variances(self, noise: NoiseOfRun) -> NoiseVariances:
        """Variance of predictions by pure noise, for `NoiseRatio`."""
        ...

    def effects(self, noise: NoiseOfRun) -> EffectsOfStates | None:
        """Shares of the states, and noise in their effects; None without states."""
        ...


class CentredRows(Protocol):
    """Public facts about rows before anything is released."""

    def share(self, signal_to_noise: float) -> float:
        """Fraction of mu squared for the query about the rows."""
        ...

    def query(self, n_samples: int) -> Query:
        """The query about the rows."""
        ...

    def centred(self, released: Released, n_samples: int) -> Centred:
        """The rows centred by the query's answer."""
        ...


# ------------------------------------------------------------- Rows of declared columns


@dataclass(frozen=True, eq=False)
class States:
    """Declared columns as states; public.

    Parameters
    ----------
    parts : tuple of int
        Number of states of each part; the states of a part exclude each other.
    basis : CSR of shape (n_states, n_features)
        The features of each state.
    weights : ndarray of float64 of shape (n_features,)
        Factors on the features in rows whose norm may exceed 1.
    room : float, default=1.0
        Clip of centred rows over that of the default.
    """

    parts: tuple[int, ...]
    basis: csr_array
    weights: FloatArray
    room: float = 1.0

    def share(self, signal_to_noise: float) -> float:
        return STATES.share(signal_to_noise, len(self.parts))

    def query(self, n_samples: int) -> StateSums:
        return StateSums(sum(self.parts), n_samples, len(self.parts))

    def centred(self, released: Released, n_samples: int) -> CentredStates:
        noisy = ReleasedHistogram.of(released, n_samples).split(self.parts)
        shares = np.concatenate([part.shares for part in noisy])
        return CentredStates(self, shares, noisy[0].deviation)

    def rows(self, states: csr_array) -> StateRows:
        """Rows of features, of norm at most 1."""
        return StateRows(states, self.basis, self.parts)


@dataclass(frozen=True, eq=False)
class CentredStates:
    """States with the released share of the records in each.

    Parameters
    ----------
    states : States
    margins : ndarray of float64 of shape (n_states,)
    deviation : float, default=0.0
        Standard deviation of the noise in each share.
    """

    states: States
    margins: FloatArray
    deviation: float = 0.0

    @cached_property
    def centring(self) -> Centring:
        """Post-processing of the margins."""
        states = self.states
        mean = np.asarray(self.margins @ states.basis)
        squares = np.asarray(self.margins @ states.basis.power(2))
        variance = float(np.maximum(squares - mean**2, 0.0) @ states.weights**2)
        norm = states.room * row_norm(variance, len(states.parts))
        return Centring(mean, states.weights, norm)

    def view(self, source: Source) -> Source:
        return CentredSource(source, self.states.rows, self.centring)

    def variances(self, noise: NoiseOfRun) -> NoiseVariances:
        ends = np.cumsum(self.states.parts)[:-1]
        margins = np.split(self.margins, ends)
        return state_variances(self.features(), margins, noise)

    def effects(self, noise: NoiseOfRun) -> EffectsOfStates:
        ends, norm = np.cumsum(self.states.parts)[:-1], self.centring.norm
        parts = [part / norm for part in self.features()]
        margins = np.split(self.margins, ends)
        each = effect_noise(parts, margins, noise)
        deviations = np.concatenate([np.linalg.norm(part, axis=1) for part in each])
        return EffectsOfStates(self.margins, deviations, self.deviation)

    def features(self) -> list[FloatArray]:
        """Centred features of the states of each part."""
        own = self.states.basis * self.states.weights
        ends = np.cumsum(self.states.parts)[:-1]
        found = []
        for rows, shares in zip(
            np.split(np.arange(sum(self.states.parts)), ends),
            np.split(self.margins, ends),
            strict=True,
        ):
            part = csr_array(own)[rows]
            features = np.unique(part.indices)
            dense = part[:, features].toarray()
            found.append(dense - shares @ dense)
        return found


# ---------------------------------------------------------------------- Rows of numbers


@dataclass(frozen=True)
class Numbers:
    """Rows of numbers with one declaration: the norm to which they are clipped.

    Parameters
    ----------
    n_features : int
    data_norm : float in (0, inf)
    """

    n_features: int
    data_norm: float

    def share(self, signal_to_noise: float) -> float:
        return CENTRE.share(signal_to_noise, self.n_features)

    def query(self, n_samples: int) -> RowSum:
        return RowSum(n_samples, self.n_features, self.data_norm)

    def centred(self, released: Released, n_samples: int) -> CentredNumbers:
        d, noise = self.n_features, released.deviation / n_samples
        mean, squares = RowSum.read(released.value / n_samples)
        squares = posterior_share(squares, noise / RowSum.weight)
        # Rows have norm at most 1, and so has their mean.
        mean = mean / max(float(np.linalg.norm(mean)), 1.0)
        # Shrink a mean that is mostly noise.
        length = float(mean @ mean)
        believed = max(0.0, 1 - d * noise**2 / length) if length > 0 else 0.0
        return CentredNumbers(self, believed * mean, squares)

    def rows(self, X: Any) -> StateRows:
        """Sparse rows of norm at most 1; each entry is a weight of a feature.

        Entries are cut towards 0 to multiples of the grid, so that no row gets longer.
        """
        own = csr_array(clip_rows(X, self.data_norm) * (1 / self.data_norm))
        own = with_entries(own, np.trunc(own.data * 2.0**SHARE_BITS) / 2.0**SHARE_BITS)
        basis = csr_array(eye_array(self.n_features, format="csr"))
        return StateRows(own, basis, (self.n_features,))


@dataclass(frozen=True, eq=False)
class CentredNumbers:
    """Rows of numbers with a released mean.

    Parameters
    ----------
    numbers : Numbers
    mean : ndarray of float64 of shape (n_features,)
        Mean of the rows divided by the norm to which they are clipped.
    squares : float
        Mean squared norm of these rows.
    """

    numbers: Numbers
    mean: FloatArray
    squares: float

    @property
    def norm(self) -> float:
        """Clip of centred rows, in units of the clip of the rows."""
        variance = self.squares - float(self.mean @ self.mean)
        return norm_of_numbers(variance, self.numbers.n_features)

    @property
    def centring(self) -> Centring:
        """Centring in units of the features; post-processing."""
        length = self.numbers.data_norm
        scale = np.full(self.numbers.n_features, 1 / length)
        return Centring(length * self.mean, scale, self.norm)

    def view(self, source: Source) -> Source:
        length = self.numbers.data_norm
        if not issparse(source.nothing().X):
            return grid_view(
                CentredDense(source, length, length * self.mean, length * self.norm)
            )
        scale = np.ones(self.numbers.n_features)
        return CentredSource(
            source, self.numbers.rows, Centring(self.mean, scale, self.norm)
        )

    def variances(self, noise: NoiseOfRun) -> NoiseVariances:
        largest, deviation = largest_variance(self.numbers.n_features, noise)
        return NoiseVariances(np.array([largest]), deviation, _DEVIATIONS_OF_NUMBERS)

    def effects(self, noise: NoiseOfRun) -> None:
        """None: numbers have no states."""
