"""Plans, keys and files of three parties, and their processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from skdp import BudgetLedger
from skdp.federated import FederationPlan, Key, PlanParty, serve
from tests.federated.owned import divided, model
from tests.io.places import numbers

ENDS = (300, 301)
TYPES = {"a": "double", "b": "double", "c": "double", "y": "int64"}
PATIENCE = 20.0


@dataclass
class Setting:
    """All that three parties and a coordinator have."""

    folder: Path
    plan: FederationPlan
    hub: Key
    keys: list[Key]

    def data(self, number):
        return self.folder / f"{number}.parquet"

    def ledger(self, number):
        path = self.folder / f"{number}.db"
        if path.exists():
            return BudgetLedger.open(path)
        return BudgetLedger(path, epsilon=5.0, delta=1e-3)

    def serve(self, number, plan=None, patience=PATIENCE, **given):
        plan = self.plan if plan is None else plan
        facts = {"key": self.keys[number], "data": self.data(number), **given}
        return serve(plan, ledger=self.ledger(number), patience=patience, **facts)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def setting(folder, fitted=None, n_honest=None, **more):
    keys, hub = [Key.new() for _ in range(3)], Key.new()
    parts = divided(numbers(), ENDS)
    for number, (X, y) in enumerate(parts):
        X.assign(y=y).to_parquet(folder / f"{number}.parquet", index=False)
    plan = FederationPlan.of(
        model() if fitted is None else fitted,
        features=TYPES,
        target="y",
        parties=[
            PlanParty(name, len(X), key.public)
            for name, key, (X, _) in zip("uvw", keys, parts, strict=True)
        ],
        coordinator_key=hub.public,
        address=("127.0.0.1", free_port()),
        n_honest=n_honest,
        **more,
    )
    return Setting(folder, plan, hub, keys)


class Running(threading.Thread):
    """A call in a thread, whose result or error is kept."""

    def __init__(self, call):
        super().__init__(daemon=True)
        self._call, self.result, self.error = call, None, None
        self.start()

    def run(self):
        try:
            self.result = self._call()
        except Exception as error:
            self.error = error

    def outcome(self) -> Any:
        self.join(120)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error
        return self.result


def process(*words):
    """A process of ``python -m skdp.federated``."""
    return subprocess.Popen(
        [sys.executable, "-m", "skdp.federated", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def changed(plan, **given):
    return replace(plan, **given)
