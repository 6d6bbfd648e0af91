"""Parts of the records, added up apart, give the bits of all of them together.

Of bounded sums: ``test_adder.py``.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.sums._exact import added
from skdp.sums._features import FeatureScore
from skdp.sums._gradient import ClippedGradient
from skdp.sums._moments import MomentSums, MomentWeights
from skdp.tables._memory import MemorySource

N, D = 20_000, 4
RNG = np.random.default_rng(0)
X = np.abs(RNG.normal(size=(N, D)))
Y = (RNG.random(N) < 0.4).astype(float)
PRESENT = RNG.random(N) < 0.99
WEIGHTS = 0.3 * RNG.normal(size=(D + 1, 1))
OBJECTIVE = LinearObjective(
    loss=LogisticLoss(),
    n_samples=N,
    n_features=D,
    data_norm=1.0,
    adjacency="replace_one",
)
SUMS = ClippedGradient(OBJECTIVE, 0.5)
SCORED = ClippedGradient(OBJECTIVE, 0.5, entry_clip=0.3, uses_entry_bound=True)
ASKED = {
    "gradient": (SUMS.at(WEIGHTS), X),
    "scores": (FeatureScore.of(SCORED, WEIGHTS), X),
    "moments": (MomentSums(MomentWeights(0.5, 1.0), N, D, 1.0), X),
}


def source_of(rows, first=0, last=N):
    return MemorySource(rows[first:last], Y[first:last], PRESENT[first:last])


def sums_of(query, rows, ends):
    """Whole sums of each part."""
    parts = [source_of(rows, *run) for run in pairwise(ends)]
    return [query.whole_sums(query.open(part), None) for part in parts]


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("ends", [[0, N], [0, 1, N], [0, 7000, 7001, 15000, N]])
def test_parts_add_up_to_the_same_bits(name, ends):
    query, rows = ASKED[name]
    whole = source_of(rows)
    expected = query.total(query.open(whole), None)
    found = query.from_whole(whole, added(sums_of(query, rows, ends)))
    assert found.tobytes() == expected.tobytes()


def test_broken_twin_of_answers_loses_bits():
    """Answers of parts, each made a double, do not add up to that of all records."""
    query, rows = ASKED["moments"]
    parts = sums_of(query, rows, [0, 7000, 7001, 15000, N])
    found = sum(query.from_whole(None, sums) for sums in parts)
    whole = source_of(rows)
    expected = query.total(query.open(whole), None)
    assert np.allclose(found, expected)
    assert found.tobytes() != expected.tobytes()
