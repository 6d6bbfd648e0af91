"""The neighbouring relations skdp knows.

Two of them are relations of tables, with the number of records n public:

``replace_one``
    One record is exchanged for any other record.
``zero_out``
    One record is exchanged for the null record, which contributes exactly 0 to
    every sum and score.

Neither sensitivity is derived from the other: halving is right for a sum of
vectors from a symmetric set and wrong for counts and for second moments.

Two are relations of ratings, and each has a unit of its own:

``rating_value``
    The value of one rating changes. Who rated what is public.
``user``
    All ratings of one user are replaced, items and values. The number of users and the
    catalogue of items are public.
"""

from __future__ import annotations

from typing import Any, Literal, cast

from skdp._validation import check_choice

Adjacency = Literal["replace_one", "zero_out"]
ADJACENCIES: tuple[Adjacency, ...] = ("replace_one", "zero_out")
# What a factorisation may protect; the relation and its unit have one name.
Unit = Literal["rating_value", "user"]
UNITS: tuple[Unit, ...] = ("rating_value", "user")
Relation = Adjacency | Unit
RELATIONS: tuple[Relation, ...] = (*ADJACENCIES, *UNITS)


def check_adjacency(value: Any) -> Adjacency:
    """Return `value` if it names a neighbouring relation."""
    return cast(Adjacency, check_choice("adjacency", value, ADJACENCIES))


def check_relation(value: Any) -> Relation:
    """Return `value` if it names a relation of tables or of ratings."""
    return cast(Relation, check_choice("adjacency", value, RELATIONS))
