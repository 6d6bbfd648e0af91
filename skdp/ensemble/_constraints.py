"""What a model may do with columns: directions, and which of them may share a tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from skdp.ensemble._bins import Bins
from skdp.preprocessing import _table_blocks as blocks

Groups = tuple[tuple[int, ...], ...]
_WORDS = ("pairwise", "no_interactions")


def directions_of(
    monotonic_cst: Any, bins: Bins, declared: tuple[str, ...], names: tuple[str, ...]
) -> dict[int, int]:
    """Columns of codes whose predictions may not fall (1), or not rise (-1).

    Parameters
    ----------
    monotonic_cst : mapping, sequence or None
        As users give it.
    bins : Bins
    declared : tuple of str
        Names of declared columns.
    names : tuple of str
        Names of all columns of X, in their order.

    Raises
    ------
    ValueError
        If it is none, or of a column without an order.
    """
    if monotonic_cst is None:
        return {}
    given = _by_name(monotonic_cst, names)
    unknown = sorted(name for name in given if given[name] and name not in declared)
    if unknown:
        raise ValueError(
            "The 'monotonic_cst' parameter must be of declared columns. Got "
            f"{unknown}. Declared are {list(declared)}."
        )
    found = {}
    for source, name in enumerate(declared):
        if given.get(name, 0):
            found[_ordered(bins, source, name)] = int(given[name])
    return found


def groups_of(
    interaction_cst: Any,
    bins: Bins,
    declared: tuple[str, ...],
    names: tuple[str, ...],
    constrained: Iterable[int] = (),
) -> Groups | None:
    """Columns of codes, in groups of which a tree may cut any; None: all of them.

    A column with a direction shares a tree with one other at most, so that all of its
    trees can be tables.

    Parameters
    ----------
    interaction_cst : str, list or None
        As users give it.
    bins, declared, names
        As in `directions_of`.
    constrained : iterable of int
        Columns of codes with a direction.

    Raises
    ------
    ValueError
        If `interaction_cst` names no groups.
    """
    monotone = set(constrained)
    n_columns = len(bins.columns)
    if interaction_cst is None and not monotone:
        return None
    groups = _given_groups(interaction_cst, bins, declared, names)
    found: list[tuple[int, ...]] = []
    for group in groups:
        free = tuple(j for j in group if j not in monotone)
        bound = [j for j in group if j in monotone]
        pairs = {tuple(sorted((j, k))) for j in bound for k in group if k != j}
        # As often as it takes for a free column to meet all others alike.
        found += [free] * (max(len(free) - 1, 1) if bound else 1)
        found += sorted(pairs) or [(j,) for j in bound]
    assert {j for group in found for j in group} == set(range(n_columns))
    return tuple(group for group in found if group)


def _by_name(given: Any, names: tuple[str, ...]) -> dict[str, int]:
    rule = (
        "The 'monotonic_cst' parameter must be None, a mapping from columns to -1, 0 "
        f"or 1, or a sequence of these for the {len(names)} columns of X. Got "
        f"{given!r}. Use 0 for columns without a direction."
    )
    if isinstance(given, Mapping):
        found = {str(name): direction for name, direction in given.items()}
    else:
        is_list = isinstance(given, (list, tuple, np.ndarray))
        if not is_list or len(given) != len(names):
            raise ValueError(rule)
        found = dict(zip(names, given, strict=True))
    if not all(_is_direction(direction) for direction in found.values()):
        raise ValueError(rule)
    return found


def _is_direction(value: Any) -> bool:
    try:
        return not isinstance(value, (bool, str)) and bool(value in (-1, 0, 1))
    except (TypeError, ValueError):  # an array, or what cannot be compared
        return False


def _ordered(bins: Bins, source: int, name: str) -> int:
    own = [j for j, column in enumerate(bins.columns) if column.source == source]
    is_plain = isinstance(bins.columns[own[0]].block, (blocks.Bins, blocks.Sign))
    if len(own) == 1 and is_plain:
        return own[0]
    raise ValueError(
        "The 'monotonic_cst' parameter must be of columns with an order: a Range, a "
        f"Boolean, or Dates without parts. Got another declaration for {name!r}. "
        "Declare 0 for it."
    )


def _given_groups(
    given: Any, bins: Bins, declared: tuple[str, ...], names: tuple[str, ...]
) -> list[tuple[int, ...]]:
    """Groups of columns of codes; columns that are in none are one more group.

    The two words are of columns of codes: a part of dates is one by itself.
    """
    columns = range(len(bins.columns))
    if isinstance(given, str) and given == "no_interactions":
        return [(j,) for j in columns]
    if isinstance(given, str) and given == "pairwise":
        return [(j, k) for k in columns for j in range(k)] or [(0,)]
    everything = tuple(range(len(declared)))
    sources = [everything] if given is None else _listed(given, declared, names)
    rest = set(everything) - {i for group in sources for i in group}
    sources += [tuple(sorted(rest))] if rest else []
    return [
        tuple(j for j in columns if bins.columns[j].source in group)
        for group in sources
    ]


def _listed(
    given: Any, declared: tuple[str, ...], names: tuple[str, ...]
) -> list[tuple[int, ...]]:
    rule = (
        f"The 'interaction_cst' parameter must be None, one of {list(_WORDS)}, or a "
        "list of groups of columns, by name or by position in X. Got "
        f"{given!r}. Declared columns are {list(declared)}."
    )
    try:
        groups = [list(group) for group in given]
        if isinstance(given, str) or any(isinstance(group, str) for group in given):
            raise ValueError(rule)
        named = [
            [
                item if isinstance(item, str) else names[_position(item, names)]
                for item in g
            ]
            for g in groups
        ]
        return [tuple(sorted({declared.index(name) for name in g})) for g in named]
    except (TypeError, ValueError, IndexError):
        raise ValueError(rule) from None


def _position(item: Any, names: tuple[str, ...]) -> int:
    position = int(item)
    if position != item or not 0 <= position < len(names):
        raise ValueError
    return position
