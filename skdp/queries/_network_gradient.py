"""The sum of a network's clipped gradients at released weights.

One joint gradient a record, of all layers and their biases, clipped to one norm: its
bound is that norm, or twice it, whatever the weights are. Proofs:
``docs/proofs/networks.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp._floats import UNIT_ROUNDOFF, FloatArray, IntArray
from skdp.data._source import Source
from skdp.objectives._network import NetworkObjective
from skdp.privacy._query import Bound, Layout
from skdp.queries._backprop import HIDDEN_WEIGHT_BITS
from skdp.queries._grid import on_grid
from skdp.queries._network_sum import ExactNetworkSum, NetworkSum
from skdp.queries._summed import Summed, Sums

# Of a record's norm: what rounding adds to the root, the quotient and the products that
# shorten it.
_ROUNDED = 1 + 2.0**-40


@dataclass(frozen=True)
class NetworkGradients:
    """Gradient sums of one network.

    Every record's gradient is clipped to the norm `gradient_clip`; inf: not at all,
    allowed only without privacy.
    """

    objective: NetworkObjective
    gradient_clip: float

    def at(self, weights: FloatArray) -> NetworkGradient:
        """The query at released weights of shape (n_weights,).

        At the weights of public grids that are nearest: post-processing.
        """
        first, *rest = self.objective.layers(weights)
        layers = [on_grid(first), *(on_grid(own, HIDDEN_WEIGHT_BITS) for own in rest)]
        return NetworkGradient(self, np.concatenate([own.ravel() for own in layers]))

    @property
    def is_exact(self) -> bool:
        """Whether sums are of integers: rows and gradients are bounded."""
        return math.isfinite(self.objective.data_norm * self.gradient_clip)

    @property
    def worst(self) -> Bound:
        """Bound at any weights."""
        one_record = self.gradient_clip * _ROUNDED
        return Bound(zero_out=one_record, replace_one=2 * one_record).of_shares()


@dataclass(frozen=True, eq=False)
class NetworkGradient(Summed):
    """The gradient sum at `weights`, which are released, of shape (n_weights,)."""

    family: NetworkGradients
    weights: FloatArray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.weights.shape

    def bound(self) -> Bound:
        return self.family.worst

    def slack(self, layout: Layout) -> float:
        # Of exact totals that become doubles: two constants, and twice for neighbours.
        n_samples = self.family.objective.n_samples
        return 8 * n_samples * UNIT_ROUNDOFF * self.family.gradient_clip

    @property
    def is_whole(self) -> bool:
        return self.family.is_exact

    def open(self, source: Source) -> NetworkSum | ExactNetworkSum:
        objective, clip = self.family.objective, self.family.gradient_clip
        if self.family.is_exact:
            return self._exact(source)
        floating = NetworkSum
        if objective.convolved:
            floating = objective.convolved[0].sums(is_exact=False)
        return floating(source, objective, clip)

    def _exact(self, source: Source) -> ExactNetworkSum:
        objective, clip = self.family.objective, self.family.gradient_clip
        kind = ExactNetworkSum
        if objective.convolved:
            kind = objective.convolved[0].sums(is_exact=True)
        return kind(source, objective, clip)

    def whole_sums(self, reader: ExactNetworkSum, rows: IntArray | None) -> Sums:
        return reader.whole_sums(self.weights, rows)

    def from_whole(self, source: Source, sums: Sums) -> FloatArray:
        return self._exact(source).value(sums)

    def total(
        self, reader: NetworkSum | ExactNetworkSum, rows: IntArray | None
    ) -> FloatArray:
        return reader(self.weights, rows)

    def read(self, released: FloatArray) -> FloatArray:
        """The gradient sum that a release stands for: itself."""
        return released
