"""Answers that are added up where the records are, which do not come here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skdp._floats import FloatArray, IntArray
from skdp.data._source import elsewhere
from skdp.privacy._query import Query


def exact_answer(
    query: Query, source: Any, opened: Callable[[Query], Any], rows: IntArray | None
) -> FloatArray:
    """A query's exact answer, added up where the records are. Private.

    Parameters
    ----------
    query : Query
    source : Source
    opened : callable
        From a query to its reader of the source, for records that come here.
    rows : ndarray of int64 or None
        In rising order; None for all records.
    """
    place, whole = elsewhere(source), whole_of(query)
    if place is None or whole is None:
        return query.total(opened(query), rows)
    answer: FloatArray = whole.from_whole(source, place.sums(whole, source, rows))
    return answer


def whole_of(query: Any) -> Any:
    """The query as one of whole sums, of `skdp.queries._summed`; None if it is none."""
    return query if getattr(query, "is_whole", False) else None
