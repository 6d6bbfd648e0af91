"""Processes and threads that share a ledger, and some that are killed."""

from __future__ import annotations

import copy
import math
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from skdp.exceptions import BudgetExceeded
from skdp.privacy import BudgetLedger, GaussianEvent
from skdp.privacy.ledger._filter import FilterState
from tests.privacy.books import VALUES, leave_half_written, python, run_python, spend

honest_verdict = FilterState.exhausted

MANY = """
import sys
from skdp.exceptions import BudgetExceeded
from skdp.privacy import (
    Budget, BudgetLedger, EpsilonDeltaEvent, GaussianEvent, PureEvent
)
print("ready", flush=True)
sys.stdin.readline()
ledger = BudgetLedger(sys.argv[1], epsilon=1.0, delta=1e-6, reserve_epsilon=0.2)
kinds = [GaussianEvent(20.0), PureEvent(0.02), EpsilonDeltaEvent(0.01, 1e-9)]
accepted = 0
for i in range(40):
    try:
        ledger.commit(kinds[(i + int(sys.argv[2])) % 3], adjacency="replace_one",
                      budget=Budget(0.1, 1e-6), label=f"{sys.argv[2]} {i}")
        accepted += 1
    except BudgetExceeded:
        pass
print(accepted)
"""


def test_processes_that_make_and_use_one_ledger_never_pass_its_cap(tmp_path):
    path = tmp_path / "ledger.db"
    processes = [
        python("-c", MANY, path, turn, stdin=subprocess.PIPE) for turn in range(4)
    ]
    assert [p.stdout.readline() for p in processes] == ["ready\n"] * 4
    for process in processes:  # only one of them makes it
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [int(p.communicate(timeout=60)[0]) for p in processes]
    ledger = BudgetLedger.open(path)
    spends = ledger.spends(verify=True)
    assert sum(answers) == len(spends) < 160
    assert len({spend.label for spend in spends}) == len(spends)
    state = ledger._state(ledger._store.read())
    assert state.exhausted() is None
    assert state.room.epsilon < 0.02
    assert [file.name for file in tmp_path.iterdir()] == ["ledger.db"]


BARRIER = threading.Barrier(2)


class LooseLedger(BudgetLedger):
    """Broken twin: looks first and writes later, in two transactions."""

    def commit(self, event, **facts):
        state = self._state(self._store.read())
        if honest_verdict(state.charged(event)):
            raise BudgetExceeded("no", ledger=self.path, exhausted="epsilon")
        BARRIER.wait(timeout=20)
        super().commit(event, **facts)


def accepted_by_two_threads(kind, path):
    """How many of two spends at once pass a cap that has room for one."""
    ledger, outcomes = kind(path, epsilon=1.0, delta=1e-6), []

    def work():
        try:
            spend(copy.deepcopy(ledger), GaussianEvent(5.0))
            outcomes.append(1)
        except BudgetExceeded:
            outcomes.append(0)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 2
    assert sum(outcomes) == len(BudgetLedger.open(path).spends())
    return sum(outcomes)


def test_two_threads_never_pass_the_cap_and_the_twin_does(tmp_path, monkeypatch):
    assert accepted_by_two_threads(BudgetLedger, tmp_path / "ledger.db") == 1
    monkeypatch.setattr(FilterState, "exhausted", lambda state: None)
    assert accepted_by_two_threads(LooseLedger, tmp_path / "loose.db") == 2


COMMIT = """
import sys
from skdp.privacy import Budget, BudgetLedger, GaussianEvent
ledger = BudgetLedger.open(sys.argv[1])
print("ready", flush=True)
ledger.commit(GaussianEvent(50.0), adjacency="replace_one", budget=Budget(1.0, 1e-6),
              label="child")
"""


def read_elsewhere(ledger):
    thread = threading.Thread(target=ledger.remaining)
    thread.start()
    thread.join()


@pytest.mark.parametrize("in_between", [lambda ledger: None, read_elsewhere])
def test_a_commit_keeps_other_processes_out(ledger, monkeypatch, in_between):
    children = []

    def paused(state):
        if not children:
            in_between(ledger)
            children.append(python("-c", COMMIT, ledger.path))
            assert children[0].stdout.readline() == "ready\n"
            with pytest.raises(subprocess.TimeoutExpired):
                children[0].wait(timeout=0.5)
        return honest_verdict(state)

    monkeypatch.setattr(FilterState, "exhausted", paused)  # asked by `commit` only
    spend(ledger, label="parent")
    children[0].communicate(timeout=60)
    assert [spend.label for spend in ledger.spends()] == ["parent", "child"]


ENDLESS = """
import sys
import numpy as np
from skdp import BudgetLedger, DPLogisticRegression
X = np.random.default_rng(0).normal(size=(200, 3))
DPLogisticRegression(
    solver="noisy_gd", solver_params={"n_steps": 1_000_000}, classes=[0, 1],
    ledger=BudgetLedger.open(sys.argv[1]),
).fit(X, X[:, 0] > 0)
print("done")
"""


def test_killed_fit_stays_in_the_ledger(ledger):
    with python("-c", ENDLESS, ledger.path) as process:
        end = time.monotonic() + 60
        while not ledger.spends() and time.monotonic() < end:
            time.sleep(0.05)
        process.kill()
        assert process.stdout.read() == ""
    assert process.returncode == -signal.SIGKILL
    (one,) = BudgetLedger(ledger.path, **VALUES).spends()
    assert one.event.count == 1_000_000
    assert math.isclose(ledger.spent().epsilon, 1.0, rel_tol=1e-3)
    spend(ledger)


def test_half_written_transaction_of_a_killed_process_is_undone(used):
    before = leave_half_written(used)
    assert len(BudgetLedger.open(used.path).spends()) == 3
    assert Path(used.path).read_bytes() == before
    spend(used)
    assert len(BudgetLedger(used.path, **VALUES).spends()) == 4


KILLED = """
import sys
from skdp.privacy import Budget, BudgetLedger, GaussianEvent, PureEvent
ledger = BudgetLedger.open(sys.argv[1])
for i in range(100_000):
    event = PureEvent(1e-5) if i % 2 else GaussianEvent(1e3)
    ledger.commit(event, adjacency="replace_one", budget=Budget(1e-3, 1e-6), label="x")
    print(i, flush=True)
"""


def test_killed_writers_lose_no_spend_that_they_were_told_of(ledger):
    told = 0
    for _ in range(2):
        with python("-c", KILLED, ledger.path) as process:
            for _ in range(6):
                told += bool(process.stdout.readline())
            process.kill()
            told += len(process.stdout.read().split())
    assert told <= len(ledger.spends(verify=True)) <= told + 2
    spend(ledger)


NO_ACCOUNTANT = """
import sys
from skdp.privacy import Budget, BudgetLedger, GaussianEvent
def refuse(text):
    raise AssertionError("an event was read")
import skdp.privacy.ledger._store as books
books.event_from_json = refuse
ledger = BudgetLedger.open(sys.argv[1])
ledger.commit(GaussianEvent(1e4), adjacency="replace_one", budget=Budget(0.1, 1e-6),
              label="more")
print(repr(ledger), ledger.remaining("pure"))
assert not any(name.startswith("dp_accounting") for name in sys.modules)
try:
    ledger.spends()
except AssertionError:
    print("twin")  # reading them all is what is not done above
"""


def test_a_restart_reads_charges_and_finds_none_again(used):
    told = run_python("-c", NO_ACCOUNTANT, used.path)
    assert "4 releases" in told
    assert told.endswith("twin\n")


def test_the_command_runs_as_a_module(used):
    shown = run_python("-W", "error", "-m", "skdp", "ledger", used.path)
    assert "3 releases together cost" in shown
    shown = run_python("-W", "error", "-m", "skdp", "report", used.path)
    assert "   3  2" in shown
