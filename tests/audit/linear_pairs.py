"""Neighbouring tables on which the solvers come as near to their bounds as they can."""

from __future__ import annotations

import numpy as np

from skdp.losses._base import LossId
from skdp.tables._memory import MemorySource
from skdp.tables._views import EntriesClipped
from tests.solvers.neighbours import extremes, random_targets

N, D = 6, 2
# What all records but the last one are; the last one is what neighbours differ in.
CROWDS = ("nobody", "alike", "against")
CHANGES = {
    "zero_out": ("gone",),
    "replace_one": ("label", "row", "both", "half"),
}
RANDOM = {"zero_out": "gone", "replace_one": "random"}


def pairs(objective, *, is_first=False):
    """All pairs of one design; they differ in the last record, or in the first."""
    adjacency = objective.adjacency
    designs = [(c, "uneven", x) for c in CROWDS for x in CHANGES[adjacency]]
    designs += [("nobody", "axis", CHANGES[adjacency][0])]
    designs += [(c, "flat", CHANGES[adjacency][0]) for c in ("alike", "against")]
    designs += [("random", "uneven", RANDOM[adjacency])]
    return [neighbours(objective, *design, is_first=is_first) for design in designs]


def neighbours(objective, crowd, direction, change, seed=0, is_first=False):
    """Two sources that differ in the last, or first, of `N` records."""
    rng = np.random.default_rng(seed)
    row = _row(objective, direction)
    labels = _labels(objective.loss)
    X, y = np.tile(row, (N, 1)), np.full(N, labels[0])
    there = np.ones(N, dtype=bool)
    if crowd == "nobody":
        there[:-1] = False
    if crowd == "alike":
        X[:-1] = np.abs(row)
    if crowd == "against":  # they drive the weights to where the last one is wrong
        y[:-1] = labels[-1]
    if crowd == "random":
        X[:-1] = rng.normal(size=(N - 1, D)) * objective.data_norm
        y[:-1] = random_targets(objective.loss, rng, N - 1)
    Z, labelled, left = X.copy(), y.copy(), there.copy()
    if change == "gone":
        left[-1] = False
    if change in ("label", "both", "half"):
        labelled[-1] = labels[-1]
    if change in ("row", "both"):
        Z[-1] = -row
    if change == "half":  # cosine -1/4 where a constant's part is 1/2
        across = np.array([-row[1], row[0]])
        Z[-1] = -0.25 * row + np.sqrt(1 - 0.25**2) * across
        labelled[-1] = labels[0]
    if change == "random":
        Z[-1] = rng.normal(size=D) * objective.data_norm
        labelled[-1] = random_targets(objective.loss, rng, 1)[0]
    order = slice(None, None, -1 if is_first else 1)
    return tuple(
        EntriesClipped(
            MemorySource(*(each[order].copy() for each in data)),
            objective.feature_bound,
        )
        for data in ((X, y, there), (Z, labelled, left))
    )


def _row(objective, direction):
    """Of full norm: with one entry, with two alike, or with one of each sign."""
    norm, bound = objective.data_norm, min(objective.feature_bound, objective.data_norm)
    if direction == "axis":
        return np.array([norm, 0.0])
    second = min(bound, norm / np.sqrt(2))
    first = np.sqrt(norm**2 - second**2)
    return np.array([first, second if direction == "flat" else -second])


def _labels(loss):
    """Two targets as far apart as can be, first that of the larger residual."""
    low, high = extremes(loss)
    return (low, high) if loss.form == LossId.ERROR else (high, low)
