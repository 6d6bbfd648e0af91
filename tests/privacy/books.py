"""Ledgers to spend from: by this process, by others, and by one that is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import skdp
from skdp import DPLogisticRegression
from skdp.exceptions import BudgetExceeded
from skdp.privacy import Budget, GaussianEvent

VALUES = {"epsilon": 10.0, "delta": 1e-6}
ASKED = Budget(1.0, 1e-6)
EVENT = GaussianEvent(20.0, 3)

X = np.random.default_rng(0).normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(int)


def spend(ledger, event=EVENT, label="test"):
    ledger.commit(event, adjacency=ledger.adjacency, budget=ASKED, label=label)


def model(**changes):
    values = {"solver": "noisy_gd", "solver_params": {"n_steps": 3}, "classes": [0, 1]}
    return DPLogisticRegression(**values | changes)


def refusal(ledger, event, delta=0.0):
    """What a ledger says of an event that it does not take."""
    asked = Budget(0.5, delta)
    with pytest.raises(BudgetExceeded) as caught:
        ledger.commit(event, adjacency=ledger.adjacency, budget=asked, label="a score")
    return str(caught.value)


def python(*arguments, **options):
    """Another process with skdp on its path."""
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(Path(skdp.__file__).parents[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def run_python(*arguments):
    with python(*arguments) as process:
        answer, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    return answer


HALF_WRITTEN = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size=1")  # so that pages reach the file early
connection.execute("BEGIN IMMEDIATE")
for i in range(4, 100):
    row = (i, "now", "x" * 3000, 1.0, 1e-6, "{}", "{}")
    connection.execute("INSERT INTO spends VALUES (?, ?, ?, ?, ?, ?, ?)", row)
os.kill(os.getpid(), signal.SIGKILL)
"""


def leave_half_written(ledger):
    """Kill a writer in the middle of its transaction, with pages in the file."""
    before = Path(ledger.path).read_bytes()
    with python("-c", HALF_WRITTEN, ledger.path) as process:
        process.communicate(timeout=60)
    assert os.path.exists(ledger.path + "-journal")
    assert Path(ledger.path).read_bytes() != before
    return before
