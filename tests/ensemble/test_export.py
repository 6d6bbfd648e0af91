"""The model as JSON: a reader that knows no skdp predicts the same."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from tests.ensemble.boosted import NEEDS, decision, fitted, table


def code_of(column, row):
    """Of a cell, by what the text says of its column."""
    cell = row[column["of"]]
    if pd.isna(cell):
        return column["missing"]
    if "edges" in column:
        edges = [as_number(edge) for edge in column["edges"]]
        return sum(as_number(cell) >= edge for edge in edges[1:-1])
    if "part" in column:
        is_month = column["part"] == "month"
        cell = cell.month if is_month else cell.isoweekday()
    values = column["values"]
    return values.index(cell) if cell in values else column["other"]


def as_number(value):
    if isinstance(value, (str, pd.Timestamp)):
        return pd.Timestamp(value).timestamp()
    return float(value)


def answer(node, columns, row):
    """What a tree adds: yes leads to `then`."""
    while isinstance(node, dict):
        column = columns[node["column"]]
        cell, code = row[column["of"]], code_of(column, row)
        if pd.isna(cell):
            is_yes = node["missing"]
        elif "at_least" in node:
            low, high = (as_number(column["edges"][i]) for i in (0, -1))
            place = min(max(as_number(cell), low), high)
            least = node["at_least"]
            is_yes = least is not None and place >= as_number(least)
        elif code == column["other"]:
            is_yes = node["other"]
        else:
            is_yes = column["values"][code] in node["in"]
        node = node["then"] if is_yes else node["else"]
    return np.atleast_1d(node)


def predicted(text, X):
    model = json.loads(text)
    columns = {column["name"]: column for column in model["columns"]}
    found = []
    for _, row in X.iterrows():
        raw = np.array(model["start"])
        for tree in model["trees"]:
            raw = raw + answer(tree, columns, row)
        for each in model.get("tables", []):
            entry = each["values"]
            for name in each["columns"]:
                entry = entry[code_of(columns[name], row)]
            raw = raw + entry
        found.append(model["factor"] * raw + model["shift"])
    return np.array(found)


@pytest.mark.parametrize("name", NEEDS)
def test_a_reader_without_skdp_predicts_the_same(name):
    model = fitted(name)
    X, _ = table(80, seed=3)
    assert np.allclose(predicted(model.to_json(), X), decision(model, X), atol=1e-10)


def test_a_reader_of_a_monotone_model_does_too():
    model = fitted("two classes", monotonic_cst={"age": 1}, epsilon=50.0)
    X, _ = table(80, seed=3)
    text = model.to_json()
    assert np.allclose(predicted(text, X), decision(model, X), atol=1e-10)
    # Broken twin: the trees alone.
    trees = json.dumps(json.loads(text) | {"tables": []})
    assert not np.allclose(predicted(trees, X), decision(model, X), atol=1e-3)
