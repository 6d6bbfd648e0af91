"""The number of threads of compiled loops: that of scikit-learn's loops."""

import os
import subprocess
import sys

import pytest
from threadpoolctl import threadpool_limits

from skdp import _row_threads
from skdp._row_threads import by_blocks, by_runs, n_threads_for

MANY = 10**9


def threads_with(**environment):
    """Threads in a new process, whose environment is read when libraries load."""
    code = f"from skdp._row_threads import *; print(n_threads_for({MANY}))"
    kept = {name: own for name, own in os.environ.items() if "_NUM_THREADS" not in name}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env=kept | environment, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def test_the_environment_limits_threads():
    assert threads_with(OMP_NUM_THREADS="1") == 1
    free = threads_with()
    assert 1 <= free <= os.cpu_count()
    if free > 1:  # more threads than processors are not used
        assert threads_with(OMP_NUM_THREADS="64") >= free


@pytest.fixture
def eight(monkeypatch):
    """A machine of eight processors, as scikit-learn sees it."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    helpers = _row_threads._openmp_helpers
    monkeypatch.setattr(helpers, "_openmp_parallelism_enabled", lambda: True)
    monkeypatch.setattr(helpers, "_openmp_effective_n_threads", lambda: 8)


def test_limits_at_run_time_and_few_rows_count(eight, monkeypatch):
    assert n_threads_for(MANY) == 8
    assert n_threads_for(150_000) == 3
    assert n_threads_for(10) == 1
    monkeypatch.setattr(
        _row_threads._openmp_helpers, "_openmp_effective_n_threads", lambda: 2
    )
    assert n_threads_for(MANY) == 2
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3}, raising=False)
    assert n_threads_for(MANY) == 1


def test_limits_of_threadpoolctl_count():
    with threadpool_limits(1):
        assert n_threads_for(MANY) == 1


def test_without_openmp_processors_count(eight, monkeypatch):
    helpers = _row_threads._openmp_helpers
    monkeypatch.setattr(helpers, "_openmp_parallelism_enabled", lambda: False)
    monkeypatch.setattr(helpers, "_openmp_effective_n_threads", lambda: 1)
    assert n_threads_for(MANY) == 8


@pytest.mark.parametrize("n_threads", [1, 3])
def test_runs_are_in_order(n_threads, eight):
    def work(first, last):
        return list(range(first, last))

    assert [i for run in by_runs(work, 10, n_threads) for i in run] == list(range(10))
    # Where blocks end depends on the number of rows only.
    ends = by_blocks(lambda *run: run, 200_000)
    assert [last - first for first, last in ends] == [50_000] * 4
