"""Exact audits of losses of amounts and quantiles, and bounds that are too small."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import pytest

from skdp.losses import GammaLoss, PoissonLoss, QuantileLoss
from tests.audit.linear import OF_TARGETS, Cell
from tests.audit.linear_pairs import pairs
from tests.audit.table import ADJACENCIES, LAWS

# One of every kind whose transcripts tell everything.
KEYS = ("noisy_gd", "nesterov", "ftrl", "online", "srm")


@dataclass(frozen=True)
class OfOneSide:
    """The planted bug: bounds of the smaller side, for residuals of both."""

    def zero_out_bound(self, radius):
        return min(self.sides) * (1 + 1e-12)


@dataclass(frozen=True)
class NarrowQuantile(OfOneSide, QuantileLoss):
    pass


@dataclass(frozen=True)
class NarrowGamma(OfOneSide, GammaLoss):
    pass


@dataclass(frozen=True)
class StillPoisson(PoissonLoss):
    """The planted bug: the bound at weights of 0, wherever they go; no largest mean."""

    def zero_out_bound(self, radius):
        return super().zero_out_bound(0.0) / 1.5


TWINS = {
    "poisson": StillPoisson(*OF_TARGETS["poisson"].form_constants),
    "quantile": NarrowQuantile(*OF_TARGETS["quantile"].form_constants),
    "gamma": NarrowGamma(*OF_TARGETS["gamma"].form_constants),
}


class Broken(Cell):
    @cached_property
    def objective(self):
        return replace(Cell.objective.func(self), loss=TWINS[self.loss_name])


def cells(kind=Cell):
    found = [
        kind(key, loss, adjacency, law)
        for key in KEYS
        for loss in OF_TARGETS
        for adjacency in ADJACENCIES
        for law in LAWS
    ]
    return [cell for cell in found if cell.is_possible]


def name_of(cell):
    return f"{cell.key} {cell.loss_name} {cell.adjacency} {cell.law}"


def attained(cell):
    """Found over charged, the largest of all pairs."""
    is_first = cell.key == "ftrl"
    found = pairs(cell.objective, is_first=is_first)
    return max(cell.bounds(pair, (0,))[1] for pair in found)


@pytest.mark.parametrize("cell", cells(), ids=name_of)
def test_honest_is_within_the_claim_and_near_it(cell):
    assert 0.6 < attained(cell) <= 1 + 1e-9


@pytest.mark.parametrize("cell", cells(Broken), ids=name_of)
def test_a_bound_that_is_too_small_is_caught(cell):
    assert attained(cell) > 1.2


@pytest.mark.parametrize("loss", OF_TARGETS)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_long_run_stays_within_the_claim(loss, adjacency):
    cell = Cell("noisy_gd", loss, adjacency, "gaussian", is_long=True)
    assert 0.2 < attained(cell) <= 1 + 1e-9
