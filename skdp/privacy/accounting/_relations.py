"""The adjacencies of skdp.

Two adjacencies are for tables of records, of which the number n is public:

``replace_one``
    One record is replaced by any other record.
``zero_out``
    One record is replaced by the null record, which contributes exactly 0 to every sum
    and score.

The sensitivity is derived for each adjacency separately. To halve that of replace_one
is right for a sum of vectors from a symmetric set, and wrong for counts and for second
moments.

Two are the same adjacencies for users, who have any number of rows each. The number of
users is public, the number of rows is not (``docs/proofs/adder.md``):

``replace_user``
    All rows of one user are replaced by any other rows, or by none.
``zero_out_user``
    All rows of one user are removed; the user still counts as one.

Two are adjacencies for ratings, with different units:

``rating_value``
    The value of one rating changes. Which user rated which item is public.
``user``
    All ratings of one user are replaced, items and values. The number of users and the
    catalogue of items are public.
"""

from __future__ import annotations

from typing import Any, Literal, cast

from skdp._checks import check_choice

Adjacency = Literal["replace_one", "zero_out"]
ADJACENCIES: tuple[Adjacency, ...] = ("replace_one", "zero_out")
# What scores and searches take: adjacencies in which one row changes.
RowRelation = Adjacency | Literal["rating_value"]
# Adjacencies of a factorisation.
Unit = Literal["rating_value", "user"]
UNITS: tuple[Unit, ...] = ("rating_value", "user")
# Adjacencies of tables whose rows belong to users.
OfUsers = Literal["replace_user", "zero_out_user"]
OF_USERS: tuple[OfUsers, ...] = ("replace_user", "zero_out_user")
TableRelation = Adjacency | OfUsers
TABLE_RELATIONS: tuple[TableRelation, ...] = (*ADJACENCIES, *OF_USERS)
# Privacy units of an estimator for tables.
TableUnit = Literal["record", "user"]
TABLE_UNITS: tuple[TableUnit, ...] = ("record", "user")
Relation = TableRelation | Unit
RELATIONS: tuple[Relation, ...] = (*TABLE_RELATIONS, *UNITS)
# The privacy unit of each adjacency, as ledgers and records name it.
UNIT_OF: dict[str, str] = {
    "replace_one": "record",
    "zero_out": "record",
    "replace_user": "user",
    "zero_out_user": "user",
    "rating_value": "rating",
    "user": "user",
}
_OF_USERS: dict[Adjacency, OfUsers] = {
    "replace_one": "replace_user",
    "zero_out": "zero_out_user",
}
_OF_ROWS: dict[Relation, Adjacency] = {mine: own for own, mine in _OF_USERS.items()}


def check_adjacency(value: Any) -> Adjacency:
    """Return `value` if it names an adjacency for records."""
    remedy = (
        "Use 'replace_one', the default, which puts another record in a record's "
        "place, or 'zero_out', which leaves a record out."
    )
    return cast(Adjacency, check_choice("adjacency", value, ADJACENCIES, remedy=remedy))


def check_table_relation(value: Any) -> TableRelation:
    """Return `value` if it names an adjacency of tables, for records or users."""
    return cast(TableRelation, check_choice("adjacency", value, TABLE_RELATIONS))


def relation_for(adjacency: Any, unit: Any) -> TableRelation:
    """What the parameter `adjacency` means for this privacy unit."""
    checked = check_adjacency(adjacency)
    if check_choice("privacy_unit", unit, TABLE_UNITS) == "user":
        return _OF_USERS[checked]
    return checked


def is_of_users(relation: Relation) -> bool:
    """Whether neighbours differ in all rows of one user of a table."""
    return relation in OF_USERS


def adjacency_of(relation: Relation) -> Relation:
    """The value of the parameter `adjacency` for an adjacency, without the unit."""
    return _OF_ROWS.get(relation, relation)


def scored_relation(adjacency: Any, unit: Any) -> Relation:
    """The adjacency for splitting or scoring rows, for single rows or for users."""
    if check_choice("privacy_unit", unit, TABLE_UNITS) == "user":
        return relation_for(adjacency, unit)
    return check_row_relation(adjacency)


def table_relation(relation: Relation) -> Adjacency:
    """The adjacency for records that covers an adjacency for ratings.

    A change of one rating's value replaces one record. All ratings of a user are not a
    single record, so no adjacency for records covers them.
    """
    return "replace_one" if relation == "rating_value" else check_adjacency(relation)


def check_row_relation(value: Any) -> Relation:
    """Return `value` if it names an adjacency whose neighbours differ in one row.

    Code that splits or scores single rows cannot guarantee more.
    """
    relation = check_relation(value)
    if relation == "user" or is_of_users(relation):
        raise ValueError(
            "The 'adjacency' parameter must be one under which one row changes: "
            f"'replace_one', 'zero_out' or 'rating_value'. Got {relation!r}, under "
            "which many rows change. Set privacy_unit='user' for users of a table; for "
            "users of ratings, choose parameters without a search."
        )
    return relation


def check_relation(value: Any) -> Relation:
    """Return `value` if it names an adjacency of tables or of ratings."""
    return cast(Relation, check_choice("adjacency", value, RELATIONS))
