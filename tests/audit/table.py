"""The one table of exact audits: everything that is released, by law and relation.

``python -m tests.audit.table`` prints ``floors.csv`` anew: what is attained of the
claim, rounded down, and by which of the pairs (docs/notebook/audits.md).
"""

from __future__ import annotations

import csv
import sys
import warnings
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from skdp.decomposition._registry import PRIVATE_FORMS
from skdp.model_selection import SCORINGS
from skdp.solvers import SOLVERS
from tests.audit import exact_laws, linear, models, ratings, searches, tables

ADJACENCIES = ("replace_one", "zero_out")
LAWS = ("gaussian", "pure")
FLOORS = Path(__file__).with_name("floors.csv")
# What transcripts of everything cannot tell; see `tests.audit.exact_laws`.
NOT_REPLAYED = ("noisy_sgd", "objective_perturbation")
BATCHES = ("heavy_ball", "multistage", "nesterov")
# They read all of few records, and samples of many.
SAMPLES = ("laplacian_smoothing", "srm")
TABLES = {"describe": tables.described, "propose_ranges": tables.proposed}


@dataclass(frozen=True)
class Row:
    """One mechanism within a budget with a delta or without, under one relation.

    A candidate is a pair of neighbours to be audited: a function of seeds, and of bugs
    to be planted, that gives the smallest and the largest found over charged.
    """

    name: str
    law: str
    relation: str

    @property
    def key(self):
        return self.name, self.law, self.relation

    @property
    def candidates(self):
        return _candidates(*self.key)


def forget_plans():
    """Let every row plan anew."""
    _candidates.cache_clear()


@cache
def _candidates(name, law, relation):
    key, _, mode = name.partition(", ")
    if name in models.MODELS and (law == "gaussian" or name in models.PURE):
        return models.candidates(name, relation, law)
    if name in TABLES:
        return [partial(tables.of_a_table, TABLES[name], relation, law)]
    if name in tables.CONFORMAL:
        return [partial(tables.conformal, name, relation, law)]
    if name in SOLVERS and name not in NOT_REPLAYED:
        return linear.candidates(name, relation, law)
    if relation not in ADJACENCIES:
        is_form = (law, relation) == ("gaussian", mode) and (key, mode) in PRIVATE_FORMS
        return ratings.candidates((key, mode)) if is_form else []
    if name in searches.METHODS or name in searches.STOPPING:
        return searches.candidates(name, relation, law)
    if name in SCORINGS:
        return [partial(tables.score, name, relation, law)]
    if name == "objective_perturbation":
        losses = exact_laws.LINE_LOSSES
        cases = [exact_laws.Tilted(loss, relation, law) for loss in losses]
        return [partial(exact_laws.of_a_tilt, case) for case in cases]
    if mode == "batches" and law == "pure":
        cases = exact_laws.batches(key, relation)
        return [partial(exact_laws.of_samples, case) for case in cases]
    if law == "pure":
        return []
    if name == "noisy_sgd" or mode == "samples":
        cases = exact_laws.poisson_samples(relation, key)
        return [partial(exact_laws.of_samples, case) for case in cases]
    if mode == "last iterate":
        cases = exact_laws.hidden_paths(relation)
        return [partial(exact_laws.of_the_last, case) for case in cases]
    return []


def rows():
    """All rows of the table, those without a candidate left out."""
    names = [
        *SOLVERS,
        "noisy_gd, last iterate",
        *(f"{key}, batches" for key in BATCHES),
        *(f"{key}, samples" for key in SAMPLES),
        *models.MODELS,
        *TABLES,
        *tables.CONFORMAL,
        *SCORINGS,
        *searches.METHODS,
        *searches.STOPPING,
    ]
    relations = models.RELATIONS
    found = [Row(n, law, r) for n in names for law in LAWS for r in relations]
    found += [Row(f"{key}, {unit}", "gaussian", unit) for key, unit in PRIVATE_FORMS]
    no_pure = ("random_stopping, poisson", "pure")
    return [row for row in found if row.key[:2] != no_pure and row.candidates]


@dataclass(frozen=True)
class Floor:
    """What a row attains, rounded down, and which of its candidates attains it."""

    floor: float
    best: int


def floors():
    """By row, as they are stored."""
    with FLOORS.open(newline="", encoding="utf-8") as file:
        return {
            (line["name"], line["law"], line["relation"]): Floor(
                float(line["floor"]), int(line["best"])
            )
            for line in csv.DictReader(file)
        }


def audit(row):
    """The best floor of three transcripts, and the highest of all candidates."""
    once = [candidate((0,)) for candidate in row.candidates]
    order = sorted(range(len(once)), key=lambda i: -once[i][0])[:3]
    again = {i: row.candidates[i]((1, 2)) for i in order}
    lows = {i: min(once[i][0], again[i][0]) for i in order}
    best = max(order, key=lows.get)
    ceiling = max(high for _, high in (*once, *again.values()))
    return Floor(int(1000 * lows[best]) / 1000, best), ceiling


def main():
    """Print what is attained."""
    warnings.simplefilter("ignore")
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("name", "law", "relation", "floor", "best"))
    for row in rows():
        found, ceiling = audit(row)
        assert ceiling <= 1 + 1e-9, row
        writer.writerow((*row.key, f"{found.floor:.3f}", found.best))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
