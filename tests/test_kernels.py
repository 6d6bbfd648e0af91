"""What compiles the kernels for all workers still works."""

from __future__ import annotations

import sys

import pytest

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
