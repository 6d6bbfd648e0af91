"""A fixed list of cases finds nothing, and finds each mend that is taken back.

Nothing here is random: a case follows from its family and its seed, and each comparison
is exact. Longer by hand: ``python -m tests.fuzz --seconds 600 --seed 1000``.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.fuzz import replays
from tests.fuzz.cases import Case
from tests.fuzz.families import FAMILIES
from tests.fuzz.twins import without

# Of each family; sixteen more are `slow`.
SEEDS = range(4)
MORE = range(4, 17)
ROOT = Path(__file__).parents[2]


def check_neighbours(family, seeds):
    results = [Case(family, seed).result() for seed in seeds]
    found = [str(result) for result in results if result.found]
    assert not found, "\n".join(found)
    # Most tasks must come to their end, or nothing is compared.
    n_done = sum(result.first.problem is None for result in results)
    assert n_done >= len(seeds) / 2


@pytest.mark.parametrize("family", FAMILIES)
def test_neighbours_cannot_be_told_apart(family):
    check_neighbours(family, SEEDS)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_more_neighbours_cannot_be_told_apart(family):
    check_neighbours(family, MORE)


# Mends that are taken back, a case that finds it out, and what it finds. A change of
# what is drawn changes all cases, and needs other seeds: ``python -m tests.fuzz``.
TWINS = [
    (["texts"], Case("describe", 10), "SourceError"),
    (["texts"], Case("boosting", 16), "SourceError"),
    (["booleans"], Case("transformers", 4), "SourceError"),
    # Both runs end well, but what they fitted is not the same.
    (["searches", "texts"], Case("search", 11), "fitted"),
    (["prints"], Case("scores", 6), "printed to stdout"),
    (["prints"], Case("scores", 6), "printed to stderr"),
]


@pytest.mark.parametrize(("mends", "case", "told"), TWINS)
def test_cases_find_what_was_mended(mends, case, told):
    with ExitStack() as stack:
        for mend in mends:
            stack.enter_context(without(mend))
        assert any(told in line for line in case.result().found)
    assert not case.result().found


@pytest.mark.long
def test_far_dates_are_found():
    # In a process of its own: a compiled loop that leaves its table may end it.
    command = [sys.executable, "-m", "tests.fuzz", "--without", "dates"]
    run = subprocess.run(
        [*command, "--family", "linear", "--case", "1"],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    has_crashed = run.returncode < 0  # by a signal
    assert has_crashed or (run.returncode == 1 and "answer" in run.stdout), run.stderr


def test_both_sides_have_the_same_types():
    """One side has a date that Python lacks, and cannot be a column of objects."""
    assert not Case("describe", 7000704).result().found


def test_too_little_noise_is_found(monkeypatch):
    shrunk = functools.partial(replays.Repeated, shrink=0.1)
    monkeypatch.setattr(replays, "Repeated", shrunk)
    assert any("costs" in line for line in Case("linear", 0).result().found)
