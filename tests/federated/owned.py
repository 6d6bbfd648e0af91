"""Tables of several owners, for tests."""

from __future__ import annotations

import numpy as np

from skdp import DPLogisticRegression
from skdp.federated import Federation
from tests.io.places import FEATURES, numbers

# How records may be divided, by name: where each owner's part ends.
DIVISIONS = {
    "two": (450,),
    "unequal": (700, 701, 880),
    "one row a party": tuple(range(1, 4)),
}


def divided(frame, ends, target="y"):
    """Parts of a table, one for each owner."""
    parts = np.split(np.arange(len(frame)), list(ends))
    return [(frame.iloc[rows][FEATURES], frame.iloc[rows][target]) for rows in parts]


def federation(ends=(300, 301), target="y", frame=None, **given):
    frame = numbers() if frame is None else frame
    return Federation.simulated(divided(frame, ends, target), **given)


def model(**given):
    facts = {"solver": "noisy_gd", "solver_params": {"n_steps": 8}, **given}
    return DPLogisticRegression(1.0, classes=[0, 1], **facts)
