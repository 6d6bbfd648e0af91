"""The papers' own algorithms with the papers' own noise: never private releases."""

from benchmarks._line import Experiment
from benchmarks._papers import (
    _acceleration_tables,
    _bolt_on_figures,
    _bolt_on_tables,
    _division_tables,
    _several_owners_tables,
    _thesis_tables,
)

EXPERIMENTS: dict[str, Experiment] = {
    "accelerated.section_5": _acceleration_tables.section_5,
    "bolt_on.figures": _bolt_on_figures.figures,
    "bolt_on.convex": _bolt_on_tables.convex,
    "bolt_on.strongly_convex": _bolt_on_tables.strongly_convex,
    "division": _division_tables.division,
    "several_owners.figures": _several_owners_tables.figures,
    "thesis.descents": _thesis_tables.descents,
    "thesis.online": _thesis_tables.online,
}
