"""Exact audits of weighted labels, and weights that the noise was not made for."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import pytest

from skdp.losses import LogisticLoss
from skdp.losses._classification import WeightedLoss
from skdp.solvers import SOLVERS
from tests.audit.linear import Cell
from tests.audit.linear_pairs import pairs
from tests.audit.table import ADJACENCIES, LAWS, NOT_REPLAYED


class AsDeclared(Cell):
    """The planted bug: weights as they are declared, up to 5, and noise for 1."""

    @cached_property
    def objective(self):
        loss = WeightedLoss(LogisticLoss(), (0.2, 1.0))
        object.__setattr__(loss, "label_weights", (1.0, 5.0))
        return replace(Cell.objective.func(self), loss=loss)


def cells(kind=Cell):
    """Of all solvers whose transcripts tell everything."""
    keys = [key for key in SOLVERS if key not in NOT_REPLAYED]
    found = [
        kind(key, "weighted", a, law)
        for key in keys
        for a in ADJACENCIES
        for law in LAWS
    ]
    return [cell for cell in found if cell.is_possible]


def name_of(cell):
    return f"{cell.key} {cell.adjacency} {cell.law}"


def attained(cell):
    """Found over charged, the largest of all pairs."""
    return max(cell.bounds(pair, (0,))[1] for pair in pairs(cell.objective))


@pytest.mark.parametrize("cell", cells(), ids=name_of)
def test_the_heaviest_label_is_what_noise_is_made_for(cell):
    # Bounds of minimisers are loose without weights too (`tests.audit.floors` has the
    # losses on which they are not).
    assert 0.3 < attained(cell) <= 1 + 1e-9


@pytest.mark.parametrize("cell", cells(AsDeclared), ids=name_of)
def test_a_largest_weight_that_is_ignored_is_caught(cell):
    assert attained(cell) > 1.4
