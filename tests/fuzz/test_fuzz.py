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

# Of each family. The twins below need seeds up to 16: a change of what is drawn changes
# all cases, and needs other seeds.
SEEDS = range(17)
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("family", FAMILIES)
def test_neighbours_cannot_be_told_apart(family):
    results = [Case(family, seed).result() for seed in SEEDS]
    found = [str(result) for result in results if result.found]
    assert not found, "\n".join(found)
    # Most tasks must come to their end, or nothing is compared.
    n_done = sum(result.first.problem is None for result in results)
    assert n_done > len(SEEDS) / 2


def found_without(*mends, families):
    """What the fixed list finds first when mends are taken back."""
    with ExitStack() as stack:
        for mend in mends:
            stack.enter_context(without(mend))
        for family in families:
            for seed in SEEDS:
                found = Case(family, seed).result().found
                if found:
                    return found
    return []


@pytest.mark.parametrize("family", ["describe", "boosting"])
def test_a_missing_text_alone_in_a_batch_is_found(family):
    found = found_without("texts", families=[family])
    assert any("SourceError" in line for line in found)


def test_a_missing_truth_value_is_found():
    found = found_without("booleans", families=["transformers"])
    assert any("SourceError" in line for line in found)


def test_a_search_that_swallows_a_failure_is_found():
    # Both runs end well, but what they fitted is not the same.
    found = found_without("searches", "texts", families=["search"])
    assert any(line.startswith("fitted") for line in found)
    assert not any(line.startswith("ends") for line in found)


def test_a_scored_model_that_prints_is_found():
    found = found_without("prints", families=["scores"])
    assert any("printed to stdout" in line for line in found)
    assert any("printed to stderr" in line for line in found)


def test_far_dates_are_found():
    # In a process of its own: a compiled loop that leaves its table may end it.
    seeds = map(str, SEEDS)
    command = [sys.executable, "-m", "tests.fuzz", "--without", "dates"]
    run = subprocess.run(
        [*command, "--family", "linear", "--case", *seeds],
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
    found = [line for seed in SEEDS for line in Case("linear", seed).result().found]
    assert any("costs" in line for line in found)
