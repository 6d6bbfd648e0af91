"""Costs in OpenDP's terms: only under a metric that is replace_one."""

from __future__ import annotations

import json
import math

import pytest

from skdp.privacy import (
    ComposedEvent,
    EpsilonDeltaEvent,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    PoissonGaussianEvent,
    PureEvent,
    epsilon_of,
    from_opendp,
    to_opendp,
)
from skdp.privacy.accounting import _interop

SAMPLED = PoissonGaussianEvent(1.5, 0.01, 9, "replace_one")
MIXED = ComposedEvent((GaussianEvent(4.0, 3), LaplaceEvent(20.0)))


@pytest.mark.parametrize("event", [GaussianEvent(5.0), SAMPLED, MIXED], ids=repr)
def test_epsilon_and_delta_go_there_and_come_back(event):
    told = to_opendp(event, adjacency="replace_one", delta=1e-6)
    epsilon = epsilon_of(event, 1e-6)
    assert json.loads(json.dumps(told)) == {
        "input_metric": "HammingDistance",
        "d_in": 1,
        "output_measure": "Approximate(MaxDivergence)",
        "d_out": [epsilon, 1e-6],
    }
    assert from_opendp(told) == (EpsilonDeltaEvent(epsilon, 1e-6), "replace_one")


def test_pure_costs_go_there_and_come_back():
    told = to_opendp(PureEvent(0.25, 2), adjacency="replace_one", delta=0.0)
    assert (told["output_measure"], told["d_out"]) == ("MaxDivergence", 0.5)
    assert from_opendp(told) == (PureEvent(0.5), "replace_one")


def renyi_of_randomized_response(epsilon, order):
    """Renyi divergence of the two answers to a bit, the hardest pure mechanism."""
    kept = 1 / (1 + math.exp(-epsilon))
    powers = kept**order * (1 - kept) ** (1 - order)
    powers += (1 - kept) ** order * kept ** (1 - order)
    return math.log(powers) / (order - 1)


def covers(rho, epsilon):
    orders = (1.01, 1.5, 2.0, 8.0, 64.0)
    return all(
        renyi_of_randomized_response(epsilon, order) <= rho * order for order in orders
    )


def test_rho_of_gaussian_noise_is_half_of_mu_squared():
    told = to_opendp(GaussianEvent(5.0, 2), adjacency="replace_one")
    assert told["output_measure"] == "ZeroConcentratedDivergence"
    assert 0.04 <= told["d_out"] <= 0.04 * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 4.0])
def test_rho_of_pure_noise_covers_randomized_response(epsilon):
    rho = to_opendp(PureEvent(epsilon), adjacency="replace_one")["d_out"]
    assert covers(rho, epsilon)


# Where the bound is tight: it is not at large epsilon.
@pytest.mark.parametrize("epsilon", [0.01, 1.0])
def test_broken_twin_with_a_quarter_of_mu_squared_is_found(epsilon):
    rho = to_opendp(PureEvent(epsilon), adjacency="replace_one")["d_out"]
    assert not covers(rho / 2, epsilon)


@pytest.mark.parametrize(
    "event", [SAMPLED, EpsilonDeltaEvent(0.5, 1e-7), NonPrivateEvent()], ids=repr
)
def test_what_has_no_rho_is_refused(event):
    with pytest.raises(ValueError, match=r"to have a rho.*Pass a delta"):
        to_opendp(event, adjacency="replace_one")


def test_what_is_not_private_has_infinite_epsilon():
    told = to_opendp(NonPrivateEvent(), adjacency="replace_one", delta=1e-6)
    assert told["d_out"] == ["inf", 1e-6]
    with pytest.raises((ValueError, TypeError)):
        from_opendp(told)


@pytest.mark.parametrize("adjacency", ["zero_out", "rating_value", "user", None])
def test_symmetric_distance_is_not_zero_out(adjacency):
    with pytest.raises(ValueError, match="SymmetricDistance adds and removes rows"):
        to_opendp(GaussianEvent(5.0), adjacency=adjacency, delta=1e-6)


TOLD = {
    "input_metric": "ChangeOneDistance",
    "d_in": 1,
    "output_measure": "MaxDivergence",
    "d_out": 0.5,
}


def takes(told):
    try:
        from_opendp(told)
    except (ValueError, TypeError):
        return False
    return True


FORGED = {
    "symmetric": {"input_metric": "SymmetricDistance"},
    "symmetric at 2": {"input_metric": "SymmetricDistance", "d_in": 2},
    "insert and delete": {"input_metric": "InsertDeleteDistance"},
    "no metric": {"input_metric": None},
    "no rows": {"d_in": 0},
    "two rows": {"d_in": 2},
    "true rows": {"d_in": True},
    "another measure": {"output_measure": "ZeroConcentratedDivergence"},
    "a pair of a pure one": {"d_out": [0.5, 1e-6]},
    "no delta": {"output_measure": "Approximate(MaxDivergence)"},
    "three numbers": {
        "output_measure": "Approximate(MaxDivergence)",
        "d_out": [0.5, 1e-6, 1],
    },
    "negative epsilon": {"d_out": -0.5},
    "infinite epsilon": {"d_out": math.inf},
    "another field": {"scale": 1.0},
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_other_costs_are_refused(change):
    assert takes(TOLD)
    assert not takes(TOLD | change)


def test_what_is_no_dictionary_is_refused():
    assert not takes("MaxDivergence")
    assert not takes({name: TOLD[name] for name in TOLD if name != "d_in"})


def test_broken_twin_that_takes_symmetric_distance_is_found(monkeypatch):
    monkeypatch.setattr(_interop, "_METRICS_READ", ("SymmetricDistance",))
    assert takes(TOLD | FORGED["symmetric"])
