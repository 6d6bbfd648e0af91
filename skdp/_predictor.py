"""The reader of a model's JSON; `export_predictor` copies the methods that it needs."""

import json

import numpy as np


class Predictor:
    """A model from the text of `to_json`. X: an array, a frame, or columns by name."""

    def __init__(self, text):
        self.model = json.loads(text)

    def raw(self, X):
        for step in self.model["steps"]:
            X = getattr(self, step["step"])(X, **step["with"])
        return X[:, 0] if X.shape[1] == 1 else X

    def predict(self, X):
        raw, classes = self.raw(X), self.model["classes"]
        codes = raw.argmax(axis=1) if raw.ndim == 2 else (raw > 0) * 1
        return np.array(classes)[codes] if classes else raw

    def decision_function(self, X):
        return self.raw(X)

    def predict_proba(self, X):
        raw = self.raw(X) - np.array(self.model["label_shift"])
        raw = np.column_stack([0 * raw, raw]) if raw.ndim == 1 else raw
        odds = np.exp(raw - raw.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    def numbers(self, X, names):
        if not isinstance(X, np.ndarray):
            X = np.column_stack([X[name] for name in names])
        X = X.astype(float)
        if X.shape[1] != len(names) or not np.isfinite(X).all():
            raise ValueError(f"X must have {len(names)} columns of finite numbers.")
        return X

    def select(self, X, indices):
        return X[:, indices]

    def limit(self, X, bound):
        return np.clip(X, -bound, bound)

    def clip(self, X, norm):
        most = np.maximum(np.abs(X).max(axis=1, keepdims=True), 1e-300)
        lengths = np.linalg.norm(X / most, axis=1, keepdims=True)  # cannot overflow
        return X / most * np.minimum(most, norm / np.maximum(lengths, 1))

    def centre(self, X, center, scale, norm, slack):
        moved, own = (np.linalg.norm(Z * scale, axis=1) for Z in (X - center, X))
        rounding = slack * (own + np.linalg.norm(np.multiply(center, scale))) ** 2
        factor = norm / np.maximum(np.sqrt(moved**2 + rounding), norm)
        return (X - center) * factor[:, None] + center

    def layer(self, X, weights, bias):
        return X @ np.array(weights) + bias

    def relu(self, X):
        return np.maximum(X, 0)

    def tanh(self, X):
        return 2 * self.logistic(2 * X) - 1

    def logistic(self, X):
        # exp(-t) by the polynomial with which the model was trained.
        taylor = [1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1, 1]
        tail = np.polyval(taylor, np.minimum(np.abs(X), 64) / -64) ** 64
        return np.where(X >= 0, 1, tail) / (1 + tail)

    def convolve(self, X, patches, windows, weights, bias):
        padded = np.pad(X, ((0, 0), (1, 0)))  # index 0 is the padding
        raw = self.layer(padded[:, np.array(patches)], weights, bias)
        return raw[:, np.array(windows)].max(axis=1).reshape(len(X), -1)

    def exponential(self, X, low, high):
        return np.exp(np.clip(X, low, high))

    def table(self, X, columns):
        key, X = ("at", X.T) if isinstance(X, np.ndarray) else ("of", X)
        return np.hstack([self.read(np.array(X[c[key]]), c) for c in columns])

    def read(self, cells, column):
        none = ("NoneType", "NAType")
        gone = np.array([type(c).__name__ in none or bool(c != c) for c in cells])
        cells[gone] = column["blank"]
        found = getattr(self, column["is"])(cells.astype(column["dtype"]), column)
        found = np.where(gone[:, None], np.array(column["missing"], float), found)
        if np.isnan(found).any():
            raise ValueError(f"Column {column['of']!r} must hold what is declared.")
        found = found == np.arange(column["size"]) if "size" in column else found
        return found * column["weight"]

    def category(self, cells, column):
        code_of = {value: code for code, value in enumerate(column["values"])}
        codes = [code_of.get(cell, column["other"]) for cell in cells.tolist()]
        return np.array(codes, float)[:, None]

    def interval(self, cells, column):
        cells, inner = cells.astype(float) * column["unit"], column["edges"][1:-1]
        return np.searchsorted(inner, cells, side="right")[:, None]

    def part(self, cells, column):
        fine, coarse, shift, size = column["part"]
        whole = cells.astype(fine) - cells.astype(coarse).astype(fine)
        return (whole.astype(int)[:, None] + shift) % size

    def curve(self, cells, column):
        (low, high), scale = column["ends"], getattr(np, column["scale"])
        cells = np.clip(cells.astype(float) * column["unit"], low, high)[:, None]
        place = 2 * (scale(cells) - scale(low)) / (scale(high) - scale(low)) - 1
        levels = [(np.linspace(-1, 1, n + 1), n / 2) for n in column["levels"]]
        hats = [np.maximum(1 - np.abs(place - knots) * n, 0) for knots, n in levels]
        return np.hstack([place, *hats, cells == column.get("heaps", [])])

    def boost(self, codes, start, trees, tables, factor, shift):
        codes, raw = codes.astype(int), np.tile(np.array(start), (len(codes), 1))
        for tree in trees:
            self.climb(tree, codes, np.arange(len(codes)), raw)
        for table in tables:
            raw += np.array(table["values"])[tuple(codes.T[table["columns"]])]
        return factor * raw + shift

    def climb(self, node, codes, rows, raw):
        if not isinstance(node, dict):
            raw[rows] += node
        elif len(rows):
            is_yes = np.array(node["yes"], bool)[codes[rows, node["column"]]]
            self.climb(node["then"], codes, rows[is_yes], raw)
            self.climb(node["else"], codes, rows[~is_yes], raw)
