"""Expressions of SQL that follow from their own row: what may occur in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

# Parts of an expression in DuckDB's syntax trees that look at nothing but the row.
_ALLOWED = {
    "BETWEEN",
    "CASE",
    "CAST",
    "COLUMN_REF",
    "COMPARISON",
    "CONJUNCTION",
    "CONSTANT",
    "FUNCTION",
    "OPERATOR",
    "TYPE",
}
_TABLE = "one_row_of_a_table"


def check_row_wise(
    text: str, what: str, parse: Callable[[str], str], is_plain: Callable[[str], bool]
) -> None:
    """Refuse an expression that may look at other rows, or answer otherwise next time.

    Parameters
    ----------
    text : str
    what : str
        What the expression is, for the error.
    parse : callable
        From a query to its syntax tree as JSON.
    is_plain : callable
        Whether a function of that name is scalar and always answers the same.
    """
    found = _expression(text, parse)
    if found is None or not all(_is_fine(node, is_plain) for node in _nodes(found)):
        raise ValueError(
            f"{what} must be one SQL expression of the columns of its own row, without "
            "aggregates, windows, subqueries, macros or chance. Got another. For "
            "anything else pass a query, with one_record_per_row=True if that holds."
        )


def _expression(text: str, parse: Callable[[str], str]) -> Any:
    """The syntax tree of one expression; None if the text is something else."""
    tree = json.loads(parse(f"SELECT {text} FROM {_TABLE}"))
    if tree.get("error") or len(tree["statements"]) != 1:
        return None
    node = tree["statements"][0]["node"]
    source = node.get("from_table", {})
    is_plain = (
        node.get("type") == "SELECT_NODE"
        and len(node["select_list"]) == 1
        and source.get("type") == "BASE_TABLE"
        and source.get("table_name") == _TABLE
        and not node.get("modifiers")
        and not any(node.get(part) for part in ("where_clause", "having", "qualify"))
        and not node.get("group_expressions")
    )
    return node["select_list"][0] if is_plain else None


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        if "class" in tree:
            yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for part in tree:
            yield from _nodes(part)


def _is_fine(node: dict[str, Any], is_plain: Callable[[str], bool]) -> bool:
    if node["class"] == "FUNCTION":
        return is_plain(str(node.get("function_name", "")))
    return node["class"] in _ALLOWED
