"""How much less is lost after steps of several lengths in one released direction.

Every record's part is clipped in proportion to the length, and rounded to whole units,
whose sums are exact in any order. Sensitivities are derived in
``docs/proofs/line_search_gd.md``.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import numpy as np

from skdp._floats import FloatArray, IntArray
from skdp.data._source import Block, Source
from skdp.exceptions import UnboundedQueryError
from skdp.objectives._linear import LinearObjective
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
class StepGains(Summed):
    """Sums of the losses at released weights less those after steps from there.

    Parameters
    ----------
    trial : Trial
    weights, direction : ndarray of float64 of shape (n_columns, n_outputs)
        Released; with the intercepts in the last row, if there are any.
    lengths : ndarray of float64 of shape (n_lengths,)
        Above 0; public.
    clip : float in (0, inf)
        A record's gain by a step is clipped to so many times its length.
    """

    trial: Trial
    weights: FloatArray
    direction: FloatArray
    lengths: FloatArray
    clip: float

    @property
    def norm(self) -> float:
        """Of a record's gains together, at most."""
        return self.clip * float(np.linalg.norm(self.lengths)) * ROUNDED

    @property
    def _largest(self) -> float:
        return self.clip * float(np.max(self.lengths))

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.lengths),)

    @property
    def family(self) -> Hashable:
        return self.trial

    def bound(self) -> Bound:
        return Bound(zero_out=self.norm, replace_one=2 * self.norm)

    def slack(self, layout: Layout) -> float:
        return self.trial.slack(layout, self._largest, len(self.lengths))

    def open(self, source: Source) -> Source:
        return source

    def whole_sums(self, reader: Source, rows: IntArray | None) -> Sums:
        d, k = self.trial.objective.n_features, self.weights.shape[1]
        both = np.hstack([self.weights, self.direction])
        total, unit = np.zeros(self.shape), self.trial.unit(self._largest)
        constant = both[d:].sum(axis=0)  # no row without an intercept
        for products, block in self.trial.products(reader, both[:d], rows):
            raw = products + constant
            gains = self._gains(raw[:, :k], raw[:, k:], block.y)
            if block.present is not None:
                gains[~block.present] = 0.0
            total += nearest(gains, unit).sum(axis=0)
        return (WholeSum.of(total / unit),)

    def from_whole(self, source: Source, sums: Sums) -> FloatArray:
        return sums[0].value() * self.trial.unit(self._largest)

    def _gains(self, raw: FloatArray, way: FloatArray, y: FloatArray) -> FloatArray:
        """Of each record by each step, clipped."""
        value = self.trial.objective.loss.value
        left = [value(y, raw - length * way) for length in self.lengths]
        limits = self.clip * self.lengths
        gains = np.nan_to_num(value(y, raw)[:, None] - np.stack(left, 1))
        return np.asarray(np.clip(gains, -limits, limits))
