"""The number of threads of compiled loops."""

import os
import subprocess
import sys
import time

import pytest

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
    """A machine of eight processors."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


def test_limits_at_run_time_and_few_rows_count(eight, monkeypatch):
    assert n_threads_for(MANY) == 8
    assert n_threads_for(150_000) == 3
    assert n_threads_for(10) == 1
    for asked, most in {"2": 2, "3,1": 3, "64": 8, "many": 8, "0": 1}.items():
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
        assert n_threads_for(MANY) == most
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3}, raising=False)
    assert n_threads_for(MANY) == 1


@pytest.mark.parametrize("n_threads", [1, 3])
def test_runs_are_in_order(n_threads, eight):
    def work(first, last):
        return list(range(first, last))

    assert [i for run in by_runs(work, 10, n_threads) for i in run] == list(range(10))
    # Where blocks end depends on the number of rows only.
    ends = by_blocks(lambda *run: run, 200_000)
    assert [last - first for first, last in ends] == [50_000] * 4


def test_nothing_runs_after_an_error():
    ended = []

    def work(first, last):
        if first == 0:
            raise KeyboardInterrupt
        time.sleep(0.05)
        ended.append(first)

    with pytest.raises(KeyboardInterrupt):
        by_runs(work, 4, 4)
    assert sorted(ended) == [1, 2, 3]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_forked_process_has_threads():
    # In a process without other threads, which may hold locks at a fork.
    code = (
        "import os\n"
        "from threading import Barrier\n"
        "from skdp._row_threads import by_runs\n"
        "both = Barrier(2)\n"
        "assert len(by_runs(lambda *run: both.wait(), 10, 2)) == 2\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    os._exit(len(by_runs(lambda *run: both.wait(), 10, 2)))\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
