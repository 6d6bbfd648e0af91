"""What compiles the kernels for all workers still works."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from skdp._compiled import compiled, compiled_exactly
from tests.kernels import JOBS

ROOMS = ("decomposition", "decomposition.plain", "queries", "solvers")


@pytest.mark.filterwarnings("ignore")
def test_every_job_works_and_together_they_reach_all_rooms_with_kernels():
    for job in JOBS:
        job()
    compiled = {name for name in sys.modules if name.endswith("_kernel")}
    assert {name.rpartition(".")[0] for name in compiled} >= {
        f"skdp.{room}" for room in ROOMS
    }


def test_exact_code_stays_exact_whoever_calls_it_first():
    """A callee that says nothing of fast arithmetic is compiled as its caller is."""

    @compiled_exactly
    def shared(number, width):
        return number * (0.5 / width) + 0.5

    @compiled
    def fast(numbers, width):
        total = 0.0
        for number in numbers:
            total += shared(number, width)
        return total

    @compiled_exactly
    def exact(numbers, width, found):
        for i in range(len(numbers)):
            found[i] = shared(numbers[i], width)

    numbers = np.random.default_rng(0).uniform(-1, 1, 20_000)
    found = np.empty(len(numbers))
    fast(numbers, 0.05)
    exact(numbers, 0.05, found)
    assert np.array_equal(found, numbers * (0.5 / 0.05) + 0.5)
