"""Cases: a family of estimators and a seed, from which all else is drawn."""

from __future__ import annotations

import dataclasses
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.fuzz.families import FAMILIES, Drawn
from tests.fuzz.replays import Outcome, differences
from tests.fuzz.tables import PLACES, Pair, draw_shape


@dataclass(frozen=True)
class Case:
    """One pair of neighbours and one task."""

    family: str
    seed: int

    @property
    def command(self) -> str:
        """What does it again."""
        return f"python -m tests.fuzz --family {self.family} --case {self.seed}"

    def result(self) -> Result:
        """Both runs, compared."""
        family, rng = FAMILIES[self.family], np.random.default_rng(self.seed)
        unit = family.units[rng.integers(len(family.units))]
        shape = draw_shape(
            rng,
            has_columns=family.columns[rng.integers(len(family.columns))],
            place=PLACES[rng.integers(len(PLACES))],
            unit=unit,
            more=family.forms,
        )
        lacks_null = unit == "record" and not family.has_null_records
        if shape.adjacency not in family.adjacencies or lacks_null:
            shape = dataclasses.replace(shape, adjacency="replace_one")
        pair = Pair(rng, shape)
        task = family.draw(Drawn(rng, shape, pair.usual))
        one, other = pair.sides
        with tempfile.TemporaryDirectory() as folder:
            pair.place(Path(folder))
            found, first = differences(
                lambda: task(one),
                lambda: task(other),
                seed=self.seed,
                absent=other.absent,
                may_refuse=not one.is_source,
                counts_passes=shape.unit == "record",
            )
        for side in pair.sides:
            side.close()
        return Result(self, str(pair.shape), found, first)


@dataclass(frozen=True)
class Result:
    """What came of a case."""

    case: Case
    table: str
    found: list[str]
    first: Outcome

    def __str__(self) -> str:
        lines = "".join(f"\n    {line[:400]}" for line in self.found)
        return f"{self.case.command}\n    {self.table}{lines}"
