"""What `make test` leaves to `make test-wide` is the rest of what it runs."""

from __future__ import annotations

import itertools
from pathlib import Path

from tests.wide import covering

SIZES = (5, 3, 2)
CELLS = list(itertools.product(*(range(size) for size in SIZES)))


def parts(parameters):
    """Covering and other values."""
    chosen = [tuple(p.values) for p in parameters if not p.marks]
    return chosen, [tuple(p.values) for p in parameters if p.marks]


def test_each_value_of_each_axis_is_in_few_covering_cells():
    chosen, others = parts(covering(CELLS))
    assert sorted(chosen + others) == CELLS
    assert len(chosen) == max(SIZES)
    for axis, size in enumerate(SIZES):
        found = [cell[axis] for cell in chosen]
        assert set(found) == set(range(size))
        # Not one value over and over, once each was seen.
        assert max(found.count(value) for value in found) <= -(-len(found) // size)


def test_pairs_are_covered_where_a_key_asks_for_pairs():
    chosen, _ = parts(covering(CELLS, key=lambda cell: (cell[:2], cell[2])))
    assert {cell[:2] for cell in chosen} == set(itertools.product(range(5), range(3)))
    assert len(chosen) == 15


def test_where_cells_are_missing_all_that_is_left_is_covered():
    ragged = [(1, "a"), (1, "b"), (2, "b"), (3, "b"), (4, "c")]
    chosen, _ = parts(covering(ragged))
    assert {one for one, _ in chosen} == {1, 2, 3, 4}
    assert {two for _, two in chosen} == {"a", "b", "c"}


def test_a_cell_may_be_the_only_argument_and_have_a_name():
    first, second = covering(
        ["ab", "cd"], key=lambda cell: (len(cell),), name=str.upper
    )
    assert first.values == ("ab",)
    assert (first.id, second.id) == ("AB", "CD")
    assert [len(p.marks) for p in (first, second)] == [0, 1]


def test_only_the_rest_of_what_is_covered_is_wide():
    mark = "mark." + "wide"
    marking = [
        path for path in Path(__file__).parent.rglob("*.py") if mark in path.read_text()
    ]
    assert [path.name for path in marking] == ["wide.py"]
