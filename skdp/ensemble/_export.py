"""A fitted model as plain JSON that a person, or another language, can read."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from skdp._floats import FloatArray
from skdp.columns import Dates, Range
from skdp.ensemble._bins import BinnedColumn, Bins
from skdp.ensemble._boosted import BoostedTrees
from skdp.ensemble._shapes import ShapeFunctions
from skdp.ensemble._trees import RandomTrees
from skdp.preprocessing import _table_blocks as blocks

# Raised when a field changes its meaning.
SCHEMA = 1


def to_json(
    facts: dict[str, Any],
    bins: Bins,
    names: tuple[str, ...],
    boosted: BoostedTrees,
    tables: ShapeFunctions | None,
) -> str:
    """The text of a model.

    Parameters
    ----------
    facts : dict
        What is said of the model first, JSON-ready.
    bins : Bins
    names : tuple of str
        Of declared columns.
    boosted : BoostedTrees
    tables : ShapeFunctions or None
        What is added to the trees.
    """
    described = {
        "schema": SCHEMA,
        **facts,
        "columns": [_column(column, names) for column in bins.columns],
        "start": boosted.start.tolist(),
        "trees": [
            _node(boosted.trees, bins, boosted.values[t], t, 0)
            for t in range(len(boosted.trees))
        ],
    }
    added = []
    if boosted.curves is not None:
        pairs = zip(bins.names, boosted.curves.tables, strict=True)
        added += [_table([name], values) for name, values in pairs]
    if tables is not None:
        described["start"] = (boosted.start + tables.intercept).tolist()
        added += [
            _table([bins.names[j] for j in shape.columns], shape.values)
            for shape in tables
        ]
    if added:
        described["tables"] = added
    return json.dumps(described, allow_nan=False)


def _table(names: list[str], values: FloatArray) -> dict[str, Any]:
    """What is added by the codes of one column, or of two."""
    return {"columns": names, "values": values.tolist()}


def _column(column: BinnedColumn, names: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {"name": column.name, "of": names[column.source]}
    if isinstance(column.block, blocks.Part):
        found["part"] = column.block.name
    edges = column.edges
    if isinstance(column.block, blocks.Bins) and edges is not None:
        declared: Range | Dates = column.block.axis.declared
        found["log"] = isinstance(declared, Range) and declared.log
        found["edges"] = [_plain(edge) for edge in edges]
    else:
        found["values"] = list(column.values or ())
    return found | {"other": column.other, "missing": column.missing}


def _node(trees: RandomTrees, bins: Bins, values: Any, tree: int, node: int) -> Any:
    """A question with what follows from both answers, or a leaf's value."""
    n_nodes = trees.feature.shape[1]
    if node >= n_nodes:
        leaf = values[node - n_nodes]
        return float(leaf[0]) if len(leaf) == 1 else leaf.tolist()
    right = trees.goes_right(tree, node)
    if not right.any():
        return _node(trees, bins, values, tree, 2 * node + 1)
    column = bins.columns[trees.feature[tree, node]]
    return {
        "column": column.name,
        **_question(column, right),
        "then": _node(trees, bins, values, tree, 2 * node + 2),
        "else": _node(trees, bins, values, tree, 2 * node + 1),
    }


def _question(column: BinnedColumn, right: np.ndarray) -> dict[str, Any]:
    """Of which values the answer is yes."""
    present, asked = right[: column.n_values], {}
    edges, values = column.edges, column.values
    if edges is not None:
        first = int(np.argmax(present))
        asked["at_least"] = _plain(edges[first]) if present.any() else None
    else:
        pairs = zip(values or (), present, strict=True)
        asked["in"] = [value for value, is_right in pairs if is_right]
    if column.other is not None:
        asked["other"] = bool(right[column.other])
    if column.missing is not None:
        asked["missing"] = bool(right[column.missing])
    return asked


def _plain(edge: Any) -> Any:
    return str(edge) if isinstance(edge, np.datetime64) else float(edge)
