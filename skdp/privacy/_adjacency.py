"""The neighbouring relations skdp knows, with the number of records n public.

``replace_one``
    One record is exchanged for any other record.
``zero_out``
    One record is exchanged for the null record, which contributes exactly 0 to
    every sum and score.

Neither sensitivity is derived from the other: halving is right for a sum of
vectors from a symmetric set and wrong for counts and for second moments.
"""

from __future__ import annotations

from typing import Any, Literal, cast

from skdp._validation import check_choice

Adjacency = Literal["replace_one", "zero_out"]
ADJACENCIES: tuple[Adjacency, ...] = ("replace_one", "zero_out")


def check_adjacency(value: Any) -> Adjacency:
    """Return `value` if it names a neighbouring relation."""
    return cast(Adjacency, check_choice("adjacency", value, ADJACENCIES))
