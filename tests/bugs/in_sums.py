"""Bugs in the adder and in the queries."""

from __future__ import annotations

from tests.bugs.bug import Bug

ADDER = "skdp/sums/_adder.py"
TEST_ADDER = "tests/sums/test_adder.py"

BUGS: list[Bug] = [
    Bug(
        "null rows count in sums of users",
        "users",
        ADDER,
        "    is_there = weights > 0\n",
        "    is_there = weights >= 0\n",
        (f"{TEST_ADDER}::test_null_rows_add_exactly_nothing",),
    ),
    Bug(
        "rounding of several rows is charged as of one",
        "rounding",
        ADDER,
        "        rows = float(layout.rows_of_unit)\n",
        "        rows = float(min(layout.rows_of_unit, 1))\n",
        (f"{TEST_ADDER}::test_rounding_moves_a_user_by_no_more_than_half_the_slack",),
    ),
]
