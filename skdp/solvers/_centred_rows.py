"""Rows that are centred by what is released of them: declared columns, or numbers.

Each kind says what is asked of its rows before the descent, how they are shown to it,
and how large the predictions are that noise alone would make.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array, eye_array, issparse

from skdp._floats import FloatArray
from skdp._rows import clip_rows, with_entries
from skdp.data._centred import SHARE_BITS, CentredSource, Centring, StateRows
from skdp.data._source import Source, nothing
from skdp.data._views import CentredDense
from skdp.privacy._answers import Released
from skdp.privacy._query import Query
from skdp.queries._exact_gradient import grid_view
from skdp.queries._record_sums import RowSum
from skdp.queries._state_sums import StateSums
from skdp.solvers._centred_descent_rules import (
    norm_of_numbers,
    row_norm,
    share_of_rows,
    share_of_states,
)
from skdp.solvers._margins import Moments, shrunk_margins
from skdp.solvers._noise_gate import (
    NoiseOfRun,
    largest_variance,
    state_variances,
)
from skdp.solvers._target_base import (
    posterior_share,
)


class Centred(Protocol):
    """What was released of rows, and what follows from it."""

    @property
    def centring(self) -> Centring:
        """Post-processing."""
        ...

    def view(self, source: Source) -> Source:
        """Rows of norm at most 1, each by itself."""
        ...

    def variances(self, noise: NoiseOfRun) -> tuple[FloatArray, float]:
        """Of predictions by weights that are noise, for `NoiseRatio`.

        And the standard deviation of the mean ratio of such weights about 1.
        """
        ...


class CentredRows(Protocol):
    """Rows of which only public facts are known."""

    def share(self, strength: float) -> float:
        """Of mu squared, for what is asked of the rows."""
        ...

    def query(self, n_samples: int) -> Query:
        """What is asked of them."""
        ...

    def centred(self, released: Released, n_samples: int) -> Centred:
        """What an answer to it tells."""
        ...


# ---------------------------------------------------------------- declared columns


@dataclass(frozen=True, eq=False)
class States:
    """What is declared of the columns, as states; public.

    Parameters
    ----------
    parts : tuple of int
        Numbers of states, of which those of a part exclude each other.
    basis : CSR of shape (n_states, n_features)
        The features of each state.
    weights : ndarray of float64 of shape (n_features,)
        Features are multiplied by these where their norm need not be at most 1.
    """

    parts: tuple[int, ...]
    basis: csr_array
    weights: FloatArray

    def share(self, strength: float) -> float:
        return share_of_states(strength, len(self.parts))

    def query(self, n_samples: int) -> StateSums:
        return StateSums(sum(self.parts), n_samples, len(self.parts))

    def centred(self, released: Released, n_samples: int) -> CentredStates:
        noisy, noise = released.value / n_samples, released.deviation / n_samples
        return CentredStates(self, shrunk_margins(noisy, noise, self.parts))

    def rows(self, states: csr_array) -> StateRows:
        """Rows of features, of norm at most 1."""
        return StateRows(states, self.basis, self.parts)


@dataclass(frozen=True, eq=False)
class CentredStates:
    """States, and their released shares.

    Parameters
    ----------
    states : States
    margins : ndarray of float64 of shape (n_states,)
    """

    states: States
    margins: FloatArray

    @cached_property
    def centring(self) -> Centring:
        """Post-processing of the margins."""
        states = self.states
        found = Moments.of(self.margins, states.basis)
        variance = float(found.variance @ states.weights**2)
        norm = row_norm(variance, len(states.parts))
        return Centring(found.mean, states.weights, norm)

    def view(self, source: Source) -> Source:
        return CentredSource(source, self.states.rows, self.centring)

    def variances(self, noise: NoiseOfRun) -> tuple[FloatArray, float]:
        ends = np.cumsum(self.states.parts)[:-1]
        margins = np.split(self.margins, ends)
        return state_variances(self.features(), margins, noise)

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


# ------------------------------------------------------------------------- numbers


@dataclass(frozen=True)
class Numbers:
    """Rows of numbers of which nothing is declared but the norm to clip them to.

    Parameters
    ----------
    n_features : int
    data_norm : float in (0, inf)
    """

    n_features: int
    data_norm: float

    def share(self, strength: float) -> float:
        return share_of_rows(strength, self.n_features)

    def query(self, n_samples: int) -> RowSum:
        return RowSum(n_samples, self.n_features, self.data_norm)

    def centred(self, released: Released, n_samples: int) -> CentredNumbers:
        d, noise = self.n_features, released.deviation / n_samples
        mean, squares = RowSum.read(released.value / n_samples)
        squares = posterior_share(squares, noise / RowSum.weight)
        # Rows are of norm at most 1, and so is their mean.
        mean = mean / max(float(np.linalg.norm(mean)), 1.0)
        # Of a mean that is mostly noise little is believed.
        length = float(mean @ mean)
        believed = max(0.0, 1 - d * noise**2 / length) if length > 0 else 0.0
        return CentredNumbers(self, believed * mean, squares)

    def rows(self, X: Any) -> StateRows:
        """Sparse rows, of norm at most 1: an entry is a share of its feature.

        Cut towards 0 to whole shares, so that no row gets longer.
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
        Of rows over the norm to which they are clipped.
    squares : float
        Mean squared norm of the same.
    """

    numbers: Numbers
    mean: FloatArray
    squares: float

    @property
    def norm(self) -> float:
        """Norm to which centred rows are clipped, over that of the rows."""
        variance = self.squares - float(self.mean @ self.mean)
        return norm_of_numbers(variance, self.numbers.n_features)

    @property
    def centring(self) -> Centring:
        """In units of the features; post-processing."""
        length = self.numbers.data_norm
        scale = np.full(self.numbers.n_features, 1 / length)
        return Centring(length * self.mean, scale, self.norm)

    def view(self, source: Source) -> Source:
        length = self.numbers.data_norm
        if not issparse(nothing(source).X):
            return grid_view(
                CentredDense(source, length, length * self.mean, length * self.norm)
            )
        scale = np.ones(self.numbers.n_features)
        return CentredSource(
            source, self.numbers.rows, Centring(self.mean, scale, self.norm)
        )

    def variances(self, noise: NoiseOfRun) -> tuple[FloatArray, float]:
        largest, deviation = largest_variance(self.numbers.n_features, noise)
        return np.array([largest]), deviation
