"""Rows centred by released numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from scipy.sparse import csr_array, eye_array, issparse

from skdp._arrays import FloatArray, IntArray, clip_rows, with_entries
from skdp.privacy.release._answers import Released
from skdp.privacy.release._plan import Query
from skdp.solvers._default_rules import (
    CENTRE,
    STATES,
    Pace,
    norm_of_numbers,
    row_norm,
    share_of_moments,
)
from skdp.solvers._run_noise import (
    Directions,
    NoiseOfRun,
    NoiseVariances,
    Principal,
    effect_noise,
    largest_variance,
    leading,
    principal,
    state_variances,
    variance_in_directions,
)
from skdp.solvers._target_base import posterior_share
from skdp.sums._counts import StateSums
from skdp.sums._gradient_sum import grid_view
from skdp.sums._histogram import ReleasedHistogram
from skdp.sums._moments import MomentSums, MomentWeights
from skdp.sums._record_sums import RowSum
from skdp.tables._centred import CentredSource, Centring, StateRows
from skdp.tables._source import SHARE_BITS, Source
from skdp.tables._views import CentredDense

# Variance of rows in a direction, over the largest of their part, that is rounding.
_NO_VARIANCE = 1e-12
# Second moments of rows of numbers with their mean, whose noise is the root of 2 times
# that in a moment.
_MOMENTS = MomentWeights(intercept=0.5, target=0.0)

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


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """A matrix for gradients of rows and the intercept; released.

    Parameters
    ----------
    blocks : tuple of (ndarray of int of shape (k,), ndarray of float64 of shape (k, k))
        The features of each part, and their factors on each other's gradients.
    """

    blocks: tuple[tuple[IntArray, FloatArray], ...]

    def __call__(self, gradient: FloatArray) -> FloatArray:
        """The product; rows of the gradient that are in no block stay as they are."""
        found = gradient.copy()
        for features, block in self.blocks:
            found[features] = block @ gradient[features]
        return found


def preconditioner_of(
    parts: Iterable[tuple[IntArray, Principal]], pace: Pace
) -> Preconditioner | None:
    """The preconditioner that follows from released shares; None if steps need none.

    Parameters
    ----------
    parts : iterable of (features, principal)
        Indices of the features of each part, and the directions of its centred states,
        over the norm that clips rows.
    pace : Pace
    """
    if pace.preconditioning == 0:
        return None
    blocks = []
    for features, found in parts:
        # In other directions rows have no entries, and gradients only noise.
        has_rows = found.spreads > _NO_VARIANCE * found.spreads.max(initial=0.0)
        speed = has_rows * pace.speed(found.spreads)
        blocks.append((features, (found.directions.T * speed) @ found.directions))
    return Preconditioner(tuple(blocks))


class Centred(Protocol):
    """Released numbers about the rows, and the centring that follows from them."""

    @property
    def centring(self) -> Centring:
        """Centring in units of the features; post-processing."""
        ...

    @property
    def n_parts(self) -> int:
        """Number of parts of a row with released second moments; 0: none have any."""
        ...

    def view(self, source: Source) -> Source:
        """Centred rows of norm at most 1; each depends on one record alone."""
        ...

    def variances(self, noise: NoiseOfRun) -> NoiseVariances:
        """Variance of predictions by pure noise, for `NoiseRatio`."""
        ...

    def preconditioner(self, pace: Pace) -> Preconditioner | None:
        """Matrix for gradients; None if steps are the same in all directions."""
        ...

    def effects(self, noise: NoiseOfRun) -> EffectsOfStates | None:
        """Shares of the states, and noise in their effects; None without states."""
        ...

    @property
    def directions(self) -> Directions | None:
        """Directions in which states of different columns may depend on each other."""
        ...


class CentredRows(Protocol):
    """Public facts about rows before anything is released."""

    @property
    def n_parts(self) -> int:
        """Number of parts whose second moments are released; 0: none are."""
        ...

    def planned(self, signal_to_noise: float) -> Self:
        """The rows with the query that suits many steps at this budget."""
        ...

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
    are_weighted : bool, default=False
        Whether rows longer than the clip count less in gradient sums, and are not
        clipped in predictions.
    """

    parts: tuple[int, ...]
    basis: csr_array
    weights: FloatArray
    are_weighted: bool = False

    @property
    def n_parts(self) -> int:
        return len(self.parts)

    def planned(self, signal_to_noise: float) -> Self:
        return self

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

    @property
    def n_parts(self) -> int:
        return self.states.n_parts

    @cached_property
    def centring(self) -> Centring:
        """Post-processing of the margins."""
        states = self.states
        mean = np.asarray(self.margins @ states.basis)
        squares = np.asarray(self.margins @ states.basis.power(2))
        variance = float(np.maximum(squares - mean**2, 0.0) @ states.weights**2)
        norm = row_norm(variance, len(states.parts))
        return Centring(mean, states.weights, norm)

    def view(self, source: Source) -> Source:
        return CentredSource(source, self.states.rows, self.centring)

    def variances(self, noise: NoiseOfRun) -> NoiseVariances:
        parts = [principal(part, shares) for _, part, shares in self._parts()]
        weighted = self.states.are_weighted
        return state_variances(parts, noise, self.centring.norm, are_weighted=weighted)

    @property
    def directions(self) -> Directions:
        found = leading(self.principal)
        # Features that no state has are in no part.
        basis = np.zeros((self.states.basis.shape[1], len(found.spreads)))
        features = [each for each, _, _ in self._parts()]
        basis[np.concatenate(features)] = found.basis
        return found._replace(basis=basis)

    def __getstate__(self) -> dict[str, Any]:
        # Models are saved without numbers that are computed again.
        return {own.name: getattr(self, own.name) for own in fields(self)}

    @cached_property
    def principal(self) -> list[Principal]:
        """Principal directions of each part, in units of the norm that clips rows."""
        norm = self.centring.norm
        return [principal(part / norm, shares) for _, part, shares in self._parts()]

    def along(self, parts: list[Principal], weights: FloatArray) -> FloatArray:
        """Weights of features as weights in the principal directions of the parts."""
        pairs = zip(parts, self._parts(), strict=True)
        return np.concatenate([part.directions @ weights[j] for part, (j, *_) in pairs])

    def back(
        self, parts: list[Principal], values: Sequence[FloatArray]
    ) -> tuple[csr_array, ...]:
        """Weights of features from weights in the directions of each part.

        Parameters
        ----------
        parts : list of Principal
        values : sequence of ndarray of float64 of shape (n_directions_of_part, k)

        Returns
        -------
        tuple of CSR of float64 of shape (n_features, k)
        """
        found = []
        for part, (features, *_), own in zip(parts, self._parts(), values, strict=True):
            shape = self.states.basis.shape[1], len(features)
            at = features, np.arange(len(features))
            placed = csr_array((np.ones(len(features)), at), shape=shape)
            found.append(csr_array(placed @ csr_array(part.directions.T @ own)))
        return tuple(found)

    def effects(self, noise: NoiseOfRun) -> EffectsOfStates:
        weighted = self.states.are_weighted
        each = effect_noise(self.principal, noise, weighted).deviations
        deviations = np.concatenate([np.linalg.norm(part, axis=1) for part in each])
        return EffectsOfStates(self.margins, deviations, self.deviation)

    def preconditioner(self, pace: Pace) -> Preconditioner | None:
        features = [each for each, _, _ in self._parts()]
        return preconditioner_of(zip(features, self.principal, strict=True), pace)

    def _parts(self) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
        """The features of each part, centred for each of its states, and shares."""
        own = csr_array(self.states.basis * self.states.weights)
        ends = np.cumsum(self.states.parts)[:-1]
        for rows, shares in zip(
            np.split(np.arange(sum(self.states.parts)), ends),
            np.split(self.margins, ends),
            strict=True,
        ):
            part = own[rows]
            features = np.unique(part.indices)
            dense = part[:, features].toarray()
            yield features, dense - shares @ dense, shares


# ---------------------------------------------------------------------- Rows of numbers


@dataclass(frozen=True)
class Numbers:
    """Rows of numbers with one declaration: the norm to which they are clipped.

    Parameters
    ----------
    n_features : int
    data_norm : float in (0, inf)
    has_moments : bool, default=False
        Whether second moments are released beside the mean, for a preconditioner.
    """

    n_features: int
    data_norm: float
    has_moments: bool = False

    @property
    def n_parts(self) -> int:
        """1 with second moments: a row is one part; otherwise 0."""
        return int(self.has_moments)

    def planned(self, signal_to_noise: float) -> Numbers:
        share = share_of_moments(signal_to_noise, self.n_features)
        return replace(self, has_moments=share > 0)

    def share(self, signal_to_noise: float) -> float:
        if self.has_moments:
            return share_of_moments(signal_to_noise, self.n_features)
        return CENTRE.share(signal_to_noise, self.n_features)

    def query(self, n_samples: int) -> RowSum | MomentSums:
        size = n_samples, self.n_features, self.data_norm
        return MomentSums(_MOMENTS, *size) if self.has_moments else RowSum(*size)

    def centred(self, released: Released, n_samples: int) -> CentredNumbers:
        query, noise = self.query(n_samples), released.deviation / n_samples
        moments, value = None, released.value / n_samples
        if isinstance(query, MomentSums):
            found = query.read(value)
            mean, squares = found.rows, float(np.trace(found.rows_rows))
            moments, of_squares = found.rows_rows, noise * math.sqrt(self.n_features)
            noise /= math.sqrt(2) * _MOMENTS.intercept
        else:
            mean, squares = query.read(value)
            of_squares = noise / query.weight
        squares = posterior_share(squares, of_squares)
        # Rows have norm at most 1, and so has their mean.
        mean = mean / max(float(np.linalg.norm(mean)), 1.0)
        # Shrink a mean that is mostly noise.
        length = float(mean @ mean)
        believed = max(0.0, 1 - self.n_features * noise**2 / length) if length else 0.0
        mean = believed * mean
        if moments is not None:
            # In directions whose variance noise may hide, this much is possible.
            edge = released.deviation / n_samples * math.sqrt(2 * self.n_features)
            moments = moments - np.outer(mean, mean) + edge * np.eye(self.n_features)
        return CentredNumbers(self, mean, squares, moments)

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
    moments : ndarray of float64 of shape (n_features, n_features) or None, default=None
        Second moments of these rows less their mean, with room for noise.
    """

    numbers: Numbers
    mean: FloatArray
    squares: float
    moments: FloatArray | None = None

    @property
    def n_parts(self) -> int:
        return self.numbers.n_parts

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

    @property
    def _spectrum(self) -> tuple[FloatArray, FloatArray]:
        """Variances of centred rows in their directions, and the directions."""
        assert self.moments is not None
        spreads, directions = np.linalg.eigh(self.moments / self.norm**2)
        return np.maximum(spreads, _NO_VARIANCE), directions

    def variances(self, noise: NoiseOfRun) -> NoiseVariances:
        if self.moments is None:
            return largest_variance(self.numbers.n_features, noise)
        return variance_in_directions(self._spectrum[0], noise)

    def preconditioner(self, pace: Pace) -> Preconditioner | None:
        if pace.preconditioning == 0 or self.moments is None:
            return None
        spreads, directions = self._spectrum
        features = np.arange(self.numbers.n_features)
        matrix = (directions * pace.speed(spreads)) @ directions.T
        return Preconditioner(((features, matrix),))

    def effects(self, noise: NoiseOfRun) -> None:
        """None: numbers have no states."""

    @property
    def directions(self) -> None:
        """None: numbers have no states."""
