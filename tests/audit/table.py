"""The one table of exact audits: every mechanism, law and adjacency.

``python -m tests.audit.table`` prints what is attained (docs/audits.md).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache, partial

from skdp.decomposition._registry import PRIVATE_FORMS
from skdp.model_selection import SCORINGS
from skdp.solvers import SOLVERS
from tests.audit import exact_laws, linear, ratings, searches, tables

ADJACENCIES = ("replace_one", "zero_out")
LAWS = ("gaussian", "pure")
# What transcripts of everything cannot tell; see `tests.audit.exact_laws`.
NOT_REPLAYED = ("noisy_sgd", "objective_perturbation")
BATCHES = ("heavy_ball", "multistage", "nesterov")
# They read all of few records, and samples of many.
SAMPLES = ("laplacian_smoothing", "srm")


@dataclass(frozen=True)
class Row:
    """One mechanism within a budget with a delta or without, under one adjacency.

    A candidate is a pair of neighbours to be audited: a function of seeds, and of bugs
    to be planted, that gives the smallest and the largest found over charged.
    """

    name: str
    law: str
    adjacency: str

    @property
    def key(self):
        return self.name, self.law, self.adjacency

    @property
    def candidates(self):
        return _candidates(*self.key)


@dataclass(frozen=True)
class Found:
    """What the audit of a row attains, and on which of its candidates."""

    floor: float
    ceiling: float
    best: int


@cache
def _candidates(name, law, adjacency):
    key, _, mode = name.partition(", ")
    if name in searches.METHODS or name in searches.STOPPING:
        return searches.candidates(name, adjacency, law)
    if (name == "noisy_sgd" or mode == "samples") and law == "gaussian":
        cases = exact_laws.poisson_samples(adjacency, key)
        return [partial(exact_laws.of_samples, case) for case in cases]
    if name == "objective_perturbation":
        losses = exact_laws.LINE_LOSSES
        cases = [exact_laws.Tilted(loss, adjacency, law) for loss in losses]
        return [partial(exact_laws.of_a_tilt, case) for case in cases]
    if mode == "batches" and law == "pure":
        cases = exact_laws.batches(key, adjacency)
        return [partial(exact_laws.of_samples, case) for case in cases]
    if mode == "last iterate" and law == "gaussian":
        cases = exact_laws.hidden_paths(adjacency)
        return [partial(exact_laws.of_the_last, case) for case in cases]
    if name in tables.TRANSFORMERS:
        return [partial(tables.transformer, name, adjacency, law)]
    if name in SCORINGS:
        return [partial(tables.score, name, adjacency, law)]
    if name in SOLVERS and name not in NOT_REPLAYED:
        return linear.candidates(name, adjacency, law)
    if (key, mode) in PRIVATE_FORMS and (law, adjacency) == ("gaussian", mode):
        return ratings.candidates((key, mode))
    return []


def rows():
    """All rows of the table, those without a candidate left out."""
    names = [
        *SOLVERS,
        "noisy_gd, last iterate",
        *(f"{key}, batches" for key in BATCHES),
        *(f"{key}, samples" for key in SAMPLES),
        *tables.TRANSFORMERS,
        *SCORINGS,
        *searches.METHODS,
        *searches.STOPPING,
    ]
    found = [Row(n, law, a) for n in names for law in LAWS for a in ADJACENCIES]
    found += [Row(f"{key}, {unit}", "gaussian", unit) for key, unit in PRIVATE_FORMS]
    no_pure = ("random_stopping, poisson", "pure")
    return [row for row in found if row.key[:2] != no_pure and _is_possible(row)]


def _is_possible(row):
    if row.name in SOLVERS and row.name not in NOT_REPLAYED:
        return any(
            linear.Cell(row.name, loss, row.adjacency, row.law).is_possible
            for loss in linear.ALL_LOSSES
        )
    return bool(row.candidates)


@cache
def audit(row):
    """Every candidate on one transcript, the best three on two more."""
    once = [candidate((0,)) for candidate in row.candidates]
    order = sorted(range(len(once)), key=lambda i: -once[i][0])[:3]
    again = {i: row.candidates[i]((1, 2)) for i in order}
    floors = {i: min(once[i][0], again[i][0]) for i in order}
    best = max(order, key=floors.get)
    highest = [high for _, high in (*once, *again.values())]
    return Found(floors[best], max(highest), best)


def twin(row, **bugs):
    """Largest found over charged with a planted bug, on the best candidate."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return row.candidates[audit(row).best]((0,), **bugs)[1]


def main():
    """Print what is attained."""
    warnings.simplefilter("ignore")
    for row in rows():
        found = audit(row)
        print(f"| {' | '.join(row.key)} | {found.floor:.4f} | {found.ceiling:.4f} |")


if __name__ == "__main__":
    main()
