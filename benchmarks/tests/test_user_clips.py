"""What the tables of means and clipped sums rest on."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import user_clips
from benchmarks.user_clips import SHAPES, WAYS, Cell, Size, dealt, lines, loaded, task


@pytest.mark.parametrize("is_report", [False, True])
def test_nothing_is_settled_on_test_rows(is_report):
    _, every = loaded("noisy")
    own = task("noisy", 0, is_report=is_report)
    test = set(np.flatnonzero(every.is_test))
    assert not test & set(own.X.index)
    assert (set(own.X_judged.index) <= test) == is_report
    assert bool(set(own.X_judged.index) & test) == is_report
    assert not set(own.X.index) & set(own.X_judged.index)


@pytest.mark.parametrize("name", SHAPES)
def test_persons_have_as_many_rows_as_is_said(name):
    own, shape = task("noisy", 0, is_report=False), SHAPES[name]
    places, ids = dealt(own, shape, 200, 0)
    found, counts = np.unique(ids, return_counts=True)
    assert len(found) == 200
    assert (counts.min(), counts.max()) == (1, shape.most_rows)
    assert len(set(places)) == len(places)
    assert dealt(own, shape, len(own.y), 0) is None or shape.most_rows == 1
    first = own.X.iloc[places, 0].to_numpy()
    spread = np.mean([np.ptp(first[ids == one]) for one in found])
    if shape.most_rows > 1:
        assert (spread < 0.01) == shape.alike


@pytest.mark.filterwarnings("ignore")
def test_a_line_compares_all_ways_on_the_same_persons(monkeypatch):
    monkeypatch.setattr(user_clips, "SHAPES", {"1 to 5": SHAPES["1 to 5"]})
    found = list(lines(["noisy"], [Size(60, 1.0)], 2, is_report=False))
    assert len(found) == 2
    assert all(line.count("|") == 7 + len(WAYS) for line in found)
    assert all("1 to 5 | 60 | 1 |" in line for line in found)


def test_strength_is_half_where_persons_are_exchanged():
    cells = [Cell("noisy", "1", Size(1_000, 1.0), of) for of in user_clips.ADJACENCIES]
    assert cells[0].strength == cells[1].strength / 2
