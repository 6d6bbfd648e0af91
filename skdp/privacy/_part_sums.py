"""What answers with correlated noise still need of the answers before. Private."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from skdp._floats import FloatArray
from skdp.data._arriving import parts_of
from skdp.exceptions import PlanUsedUpError
from skdp.privacy._elsewhere import exact_answer
from skdp.privacy._plan import Correlated
from skdp.privacy._query import Query


class PartSums:
    """Parts in their order, and weighted sums of what was asked of them.

    Whoever holds these holds records' sums: answers do, and nobody else.

    Parameters
    ----------
    sample : Correlated
    source : Source
        Of a table, which is cut; or of a stream, whose parts arrive.
    """

    def __init__(self, sample: Correlated, source: Any) -> None:
        self.sample, self._source = sample, source
        self._parts = parts_of(source, sample.size)
        self._asked = 0
        self._weights: FloatArray = np.ones(1)
        # The newest first: exact answers over their bounds, and what leaves of them.
        most = len(sample.matrix.largest)
        self._exact: deque[FloatArray] = deque(maxlen=most)
        self._released: deque[FloatArray] = deque(maxlen=most)
        self._reader: tuple[Any, Any] = (None, None)

    def part(self) -> Any:
        """The part that the next answer is about."""
        matrix = self.sample.matrix
        begun, asked = divmod(self._asked, matrix.asks)
        if asked == 0:
            if begun and begun % matrix.n_parts == 0:  # another pass
                self._parts = parts_of(self._source, self.sample.size)
            self._part, self._reader = next(self._parts, None), (None, None)
            if self._part is None:
                raise PlanUsedUpError(
                    "A plan must have no more answers about parts than there are. Got "
                    "more. Declare fewer."
                )
        self._weights = matrix.weights(self._asked)
        self._asked += 1
        return self._part

    def weighted(self, query: Query, bound: float) -> FloatArray:
        """The weighted sum that the answer to a query leaves by. Private."""
        exact = exact_answer(query, self._part, self._opened, None)
        self._exact.appendleft(np.asarray(exact) / bound)
        if self._asked % self.sample.matrix.asks == 0:
            # Its sums are needed on, its records are not.
            self._part, self._reader = None, (None, None)
        return self._sum(self._exact, 0)

    def unweighted(self, released: FloatArray) -> FloatArray:
        """The answer, over its bound, that a released sum stands for.

        Post-processing: of this release and those before it.
        """
        answer = np.asarray(released - self._sum(self._released, 1))
        self._released.appendleft(answer)
        return answer

    def _sum(self, past: deque[FloatArray], first: int) -> FloatArray:
        weights = self._weights[first : first + len(past)]
        pairs = zip(weights, past, strict=False)
        return np.asarray(sum(weight * each for weight, each in pairs))

    def _opened(self, query: Query) -> Any:
        family, reader = self._reader
        if family is None or family != query.family:
            reader = query.open(self._part)
            self._reader = query.family, reader
        return reader
