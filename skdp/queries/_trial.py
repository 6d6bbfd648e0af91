"""What released weights are worth on the records, before they leave as a model.

Products of rows with released weights on average, and how much less is lost with the
weights, or a share of them, than with an intercept alone. Every record's part is
clipped, and rounded to whole units, whose sums are exact in any order. Sensitivities
are derived in ``docs/proofs/shrinkage.md``.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import numpy as np

from skdp._floats import FloatArray, IntArray
from skdp.data import Block, Source, counted
from skdp.exceptions import UnboundedQueryError
from skdp.objectives import LinearObjective
from skdp.privacy._query import Bound, Layout
from skdp.queries._blocks import blocks_of
from skdp.queries._exact_sums import WholeSum, nearest, unit_for
from skdp.queries._gradient_sum import GradientSum
from skdp.queries._grid import on_grid
from skdp.queries._grid_rows import gridded
from skdp.queries._summed import Summed, Sums

# Of what is clipped, by rounding.
ROUNDED = 1 + 1e-12


@dataclass(frozen=True)
class Trial:
    """Questions about released weights of one objective."""

    objective: LinearObjective

    def products(
        self, source: Source, coef: FloatArray, rows: IntArray | None
    ) -> Iterator[tuple[FloatArray, Block]]:
        """Clipped rows times weights, by blocks: both on grids, so in any order."""
        objective, weights = self.objective, on_grid(coef)
        if math.isinf(objective.data_norm):  # rows without a bound have no grid
            yield from GradientSum(source, objective).products(coef, rows)
            return
        for block in blocks_of(source, rows):
            X = gridded(block.X, objective.data_norm, objective.entry_bound)
            yield X.in_double().raw(weights), block

    def unit(self, clip: float) -> float:
        """In which numbers up to `clip` are summed, exactly in double precision."""
        return 2.0 ** math.ceil(math.log2(clip)) * unit_for(self.objective.n_samples)

    def slack(self, layout: Layout, clip: float, size: int) -> float:
        """What rounding adds to a sum of vectors of `size` numbers up to `clip`.

        Lemma 3 of the proof page.

        Raises
        ------
        UnboundedQueryError
            Of samples: what losses of rows beside others round to has no bound.
        """
        if layout.moved_rows > 1:
            raise UnboundedQueryError(
                "What weights are worth must be asked of all records. Got a line of "
                "samples. Declare one of all records."
            )
        return layout.rows_of_unit * math.sqrt(size) * self.unit(clip)


@dataclass(frozen=True, eq=False)
class MeanProduct(Summed):
    """Sum of the products of rows and weights, each clipped.

    Parameters
    ----------
    trial : Trial
    coef : ndarray of float64 of shape (n_features, n_outputs)
        Released.
    clip : float in (0, inf)
        Norm to which a record's products are clipped.
    """

    trial: Trial
    coef: FloatArray
    clip: float

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.coef.shape[1],)

    @property
    def family(self) -> Hashable:
        return self.trial

    def bound(self) -> Bound:
        most = self.clip * ROUNDED
        return Bound(zero_out=most, replace_one=2 * most).of_shares()

    def slack(self, layout: Layout) -> float:
        return self.trial.slack(layout, self.clip, self.coef.shape[1])

    def open(self, source: Source) -> Source:
        return source

    def whole_sums(self, reader: Source, rows: IntArray | None) -> Sums:
        total, unit = np.zeros(self.shape), self.trial.unit(self.clip)
        for products, block in self.trial.products(reader, self.coef, rows):
            products = np.nan_to_num(products)
            norms = np.linalg.norm(products, axis=1)
            clipped = products * (self.clip / np.maximum(norms, self.clip))[:, None]
            clipped = counted(clipped, block.present)
            total += nearest(clipped, unit).sum(axis=0)
        return (WholeSum.of(total / unit),)

    def from_whole(self, source: Source, sums: Sums) -> FloatArray:
        return sums[0].value() * self.trial.unit(self.clip)


@dataclass(frozen=True, eq=False)
class Gains(Summed):
    """Sums of how much less is lost with shares of the weights than with none.

    Parameters
    ----------
    trial : Trial
    coef : ndarray of float64 of shape (n_features, n_outputs)
        Released.
    shares : ndarray of float64 of shape (n_shares,)
        In (0, 1].
    intercepts : ndarray of float64 of shape (1 + n_shares, n_outputs)
        Released; the first stands alone.
    clip : float in (0, inf)
        A record's gain by a share is clipped to so many times the share.
    leverage : float in [0, inf), default=0.0
        Part that a record's own residual has in its own products: it is taken off, so
        that no record counts as evidence for what was learned from it.
    """

    trial: Trial
    coef: FloatArray
    shares: FloatArray
    intercepts: FloatArray
    clip: float
    leverage: float = 0.0

    @property
    def norm(self) -> float:
        """Of a record's gains together, at most."""
        return self.clip * float(np.linalg.norm(self.shares)) * ROUNDED

    @property
    def _largest(self) -> float:
        """A record's gain by one share, at most."""
        return self.clip * float(np.max(self.shares))

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.shares),)

    @property
    def family(self) -> Hashable:
        return self.trial

    def bound(self) -> Bound:
        return Bound(zero_out=self.norm, replace_one=2 * self.norm).of_shares()

    def slack(self, layout: Layout) -> float:
        return self.trial.slack(layout, self._largest, len(self.shares))

    def open(self, source: Source) -> Source:
        return source

    def whole_sums(self, reader: Source, rows: IntArray | None) -> Sums:
        total, unit = np.zeros(self.shape), self.trial.unit(self._largest)
        for products, block in self.trial.products(reader, self.coef, rows):
            gains = counted(self._gains(products, block.y), block.present)
            total += nearest(gains, unit).sum(axis=0)
        return (WholeSum.of(total / unit),)

    def from_whole(self, source: Source, sums: Sums) -> FloatArray:
        return sums[0].value() * self.trial.unit(self._largest)

    def _gains(self, products: FloatArray, y: FloatArray) -> FloatArray:
        """Of each record by each share, clipped."""
        loss = self.trial.objective.loss
        value, (alone, *others) = loss.value, self.intercepts
        products = products + self.leverage * loss.residual(y, products + others[0])
        lost = value(y, np.broadcast_to(alone, products.shape))
        left = [
            value(y, share * products + intercept)
            for share, intercept in zip(self.shares, others, strict=True)
        ]
        limits = self.clip * self.shares
        # Losses are finite within the box of weights; the bound holds beyond it too.
        gains = np.nan_to_num(lost[:, None] - np.stack(left, 1))
        return np.asarray(np.clip(gains, -limits, limits))
