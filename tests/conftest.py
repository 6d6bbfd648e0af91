"""What all runs share: marks by folder, kernels that are compiled once, few dots."""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# What `make test` leaves out, beside the marks that tests carry themselves.
ANNEXES = ("skdp/papers", "tests/papers", "benchmarks")

# A run of fewer tests compiles what it comes across.
_MANY = 3000


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the tests of the annexes."""
    folders = tuple(str(ROOT / name) + os.sep for name in ANNEXES)
    for item in items:
        if str(item.path).startswith(folders):
            item.add_marker("annex")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session):
    """Compile a share of the kernels in each worker, before any worker gets a test.

    Tests are handed out when all workers have said what they collected, which they do
    after this. What is in the cache already is loaded in no time, and used later on.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None or len(session.items) < _MANY:
        return
    from tests.kernels import compile_share

    place = int(worker["workerid"].removeprefix("gw"))
    compile_share(place, worker["workercount"])


_PASSED = itertools.count(1)


def pytest_report_teststatus(report, config):
    """A dot for every hundredth test that passes, where workers run them all."""
    if not config.getoption("numprocesses", None):
        return None
    if report.when != "call" or not report.passed or hasattr(report, "wasxfail"):
        return None
    return "passed", "" if next(_PASSED) % 100 else ".", "PASSED"


@pytest.fixture(autouse=True, scope="session")
def lines_in_place_of_bars():
    """Progress in lines, which tests read, whether tqdm is installed or not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "tqdm.auto", None)
        yield


@pytest.fixture(autouse=True, scope="session")
def small_tables_in_numpy():
    """NumPy adds up small tables, whichever compiled loops another test has loaded."""
    from skdp.sums import _gradient_sum

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_gradient_sum, "_KERNEL", "")
        yield
