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
# What one neighbour differs from another in, as ledgers and records call it.
UNIT_OF: dict[str, str] = {
    "replace_one": "record",
    "zero_out": "record",
    "rating_value": "rating",
    "user": "user",
}


def check_adjacency(value: Any) -> Adjacency:
    """Return `value` if it names a neighbouring relation."""
    return cast(Adjacency, check_choice("adjacency", value, ADJACENCIES))


def table_relation(relation: Relation) -> Adjacency:
    """The relation of tables that covers a relation of ratings.

    Whose value changes is a record exchanged for another one. All ratings of a user are
    no single record, so nothing covers them.
    """
    return "replace_one" if relation == "rating_value" else check_adjacency(relation)


def check_row_relation(value: Any) -> Relation:
    """Return `value` if it names a relation whose neighbours differ in one row.

    What splits and scores rows one by one can promise no more than that.
    """
    relation = check_relation(value)
    if relation == "user":
        raise ValueError(
            "The 'adjacency' parameter must be a relation in which one row changes: "
            "'replace_one', 'zero_out' or 'rating_value'. Got 'user', of whom there "
            "are many rows. Choose without a search, or search at epsilon=inf on data "
            "that are public."
        )
    return relation


def check_relation(value: Any) -> Relation:
    """Return `value` if it names a relation of tables or of ratings."""
    return cast(Relation, check_choice("adjacency", value, RELATIONS))
