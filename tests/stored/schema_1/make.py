"""Makes the ledgers of this folder; was run before schema 2, and is kept as evidence.

Usage: ``python make.py FOLDER``, with skdp at commit 37b9c0c. Stored are books in the
first phase of the filter of version 0.1, in which epsilons and deltas were summed
(``first.db``), in its second, in which squares were (``second.db``), empty ones
(``empty.db``), pure ones (``pure.db``), ones with a release that is not private
(``void.db``), ones whose last event was admitted only because a sampled one cost more
than it does now (``sampled.db``, made later by the same version), and what they said
of themselves (``expected.json``).
"""

from __future__ import annotations

import json
import os
import sys

from skdp import Budget, BudgetLedger
from skdp.privacy import (
    EpsilonDeltaEvent,
    GaussianEvent,
    NonPrivateEvent,
    ObjectiveEvent,
    PoissonGaussianEvent,
    PureEvent,
)

SAMPLED = PoissonGaussianEvent(2.5, 0.01, 200, "replace_one")
BOXES = [PureEvent(0.5), SAMPLED, EpsilonDeltaEvent(0.2, 1e-7), PureEvent(0.1, 3)]
SQUARES = [GaussianEvent(6.0), PureEvent(0.05), ObjectiveEvent(20.0, 0.01)]
DEAR = [
    PoissonGaussianEvent(0.7, 0.01, 1, "replace_one"),
    ObjectiveEvent(12.0, 0.086, 1, 2, 0.36),
    PoissonGaussianEvent(4.0, 0.001, 1, "replace_one"),
]
BOOKS = {
    "first": (1e-6, BOXES),
    "second": (1e-6, BOXES + SQUARES),
    "empty": (1e-6, []),
    "pure": (0.0, [PureEvent(0.5), PureEvent(0.25, 4)]),
    "void": (1e-6, [GaussianEvent(6.0), NonPrivateEvent(), GaussianEvent(7.0)]),
    "sampled": (1e-4, DEAR),
}


def main(folder):
    """Write everything."""
    os.chdir(folder)
    expected = {}
    for name, (delta, events) in BOOKS.items():
        ledger = BudgetLedger(
            f"{name}.db",
            epsilon=3.0,
            delta=delta,
            dataset=name,
            allow_nonprivate=name in ("void", "sampled"),
        )
        for number, event in enumerate(events):
            asked = Budget(1.0, 1e-5 if name == "sampled" else min(2e-7, delta))
            label = f"event {number}"
            ledger.commit(event, adjacency="replace_one", budget=asked, label=label)
        left = ledger.remaining()
        expected[name] = {
            "spent": repr(ledger.spent().epsilon),
            "remaining": [left.epsilon, left.delta, left.pure_epsilon],
        }
    with open("expected.json", "w") as file:
        json.dump(expected, file, indent=2)


if __name__ == "__main__":
    main(sys.argv[1])
