"""Events go to dp-accounting and OpenDP and come back; no relation is mistaken."""

from __future__ import annotations

import json
import math

import dp_accounting as library
import pytest
from dp_accounting import NeighboringRelation as Relation
from dp_accounting.pld import PLDAccountant

from skdp.privacy import (
    BoundedRangeEvent,
    ComposedEvent,
    EpsilonDeltaEvent,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    ObjectiveEvent,
    ParallelEvent,
    PoissonGaussianEvent,
    PureEvent,
    SelectionEvent,
    epsilon_of,
    from_dp_event,
    from_opendp,
    to_dp_event,
    to_opendp,
)
from skdp.privacy.accounting import _interop

DELTA = 1e-6
RELATIONS = {"zero_out": Relation.REPLACE_SPECIAL, "replace_one": Relation.REPLACE_ONE}
every_relation = pytest.mark.parametrize("adjacency", RELATIONS)


# --------------------------------------------------------------------- dp-accounting


@every_relation
def test_what_goes_there_comes_back(adjacency):
    gaussian, laplace = GaussianEvent(4.25, 3), LaplaceEvent(20.0)
    sampled = PoissonGaussianEvent(1.5, 0.01, 9, adjacency)
    composed = ComposedEvent((gaussian, ComposedEvent((sampled, laplace))))
    for event in (GaussianEvent(0.1), ComposedEvent(()), NonPrivateEvent(), composed):
        theirs, relation = to_dp_event(event, adjacency=adjacency)
        assert relation is RELATIONS[adjacency]
        assert from_dp_event(theirs, relation=relation) == (event, adjacency)


def epsilon_there(dp_event, relation):
    return PLDAccountant(relation).compose(dp_event).get_epsilon(DELTA)


THEIRS = {
    "gaussian": library.GaussianDpEvent(5.0),
    "gaussians": library.SelfComposedDpEvent(library.GaussianDpEvent(9.0), 4),
    "samples": library.SelfComposedDpEvent(
        library.PoissonSampledDpEvent(0.02, library.GaussianDpEvent(1.1)), 20
    ),
}


def is_charged_enough(dp_event, relation):
    """Whether what came in costs as much as in dp-accounting, and not much more."""
    event, _ = from_dp_event(dp_event, relation=relation)
    there, here = epsilon_there(dp_event, relation), epsilon_of(event, DELTA)
    return 0.995 * there <= here <= 1.5 * there


@every_relation
@pytest.mark.parametrize("kind", THEIRS)
def test_what_comes_in_costs_what_it_costs_there(adjacency, kind):
    assert is_charged_enough(THEIRS[kind], RELATIONS[adjacency])


def test_broken_twins_that_mistake_relations_are_found(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(_interop._SENSITIVITIES, "replace_one", 1.0)
        assert is_charged_enough(THEIRS["gaussian"], Relation.REPLACE_SPECIAL)
        assert not is_charged_enough(THEIRS["gaussian"], Relation.REPLACE_ONE)
    with monkeypatch.context() as patch:
        patch.setitem(_interop._RELATIONS, "REPLACE_ONE", "zero_out")
        assert not is_charged_enough(THEIRS["samples"], Relation.REPLACE_ONE)
    monkeypatch.setitem(_interop._RELATIONS, "ADD_OR_REMOVE_ONE", "zero_out")
    assert takes_there(relation=Relation.ADD_OR_REMOVE_ONE)


def takes_there(dp_event=THEIRS["gaussian"], relation=Relation.REPLACE_ONE):
    try:
        from_dp_event(dp_event, relation=relation)
    except (ValueError, TypeError):
        return False
    return True


def test_only_two_relations_are_taken():
    assert {one for one in Relation if takes_there(relation=one)} == set(
        RELATIONS.values()
    )
    for wrong in ("REPLACE_ONE", "replace_one", 2, None):
        assert not takes_there(relation=wrong)
    for wrong in ("rating_value", "user", "symmetric", None):
        with pytest.raises(ValueError, match="that dp-accounting knows"):
            to_dp_event(GaussianEvent(1.0), adjacency=wrong)
    sampled = PoissonGaussianEvent(1.5, 0.01, 9, "replace_one")
    with pytest.raises(ValueError, match="Got samples for 'replace_one'"):
        to_dp_event(sampled, adjacency="zero_out")


@pytest.mark.parametrize(
    "event",
    [
        PureEvent(0.5),
        BoundedRangeEvent(0.5),
        EpsilonDeltaEvent(0.5, 1e-7),
        ObjectiveEvent(4.5, 0.02),
        SelectionEvent(GaussianEvent(4.0), "poisson", 2.0, 10),
        ParallelEvent((GaussianEvent(1.0),)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_dp_accounting_cannot_express_is_refused(event):
    for one in (event, ComposedEvent((GaussianEvent(1.0), event))):
        with pytest.raises(ValueError, match=f"Got {type(event).__name__}"):
            to_dp_event(one, adjacency="zero_out")


class Stronger(library.GaussianDpEvent):
    """An event of somebody else, which may mean anything."""


UNKNOWN = {
    "another class": library.ZCDpEvent(0.1),
    "another sampling": library.SampledWithoutReplacementDpEvent(
        100, 10, THEIRS["gaussian"]
    ),
    "samples of something else": library.PoissonSampledDpEvent(
        0.1, library.LaplaceDpEvent(1.0)
    ),
    "samples of a composition": library.PoissonSampledDpEvent(0.1, THEIRS["gaussians"]),
    "a subclass": Stronger(1.0),
    "no event": "GaussianDpEvent",
    "no noise": library.GaussianDpEvent(0.0),
    "no number": library.LaplaceDpEvent(math.nan),
    "half a time": library.SelfComposedDpEvent(THEIRS["gaussian"], 1.5),
    "true times": library.SelfComposedDpEvent(THEIRS["gaussian"], True),
}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_events_that_skdp_does_not_know_are_refused(kind):
    assert not takes_there(UNKNOWN[kind])
    assert not takes_there(library.ComposedDpEvent([THEIRS["gaussian"], UNKNOWN[kind]]))


def test_repetitions_of_repetitions_are_counted():
    inner = library.ComposedDpEvent([THEIRS["gaussian"], THEIRS["gaussians"]])
    twice = library.SelfComposedDpEvent(inner, 2)
    event, _ = from_dp_event(twice, relation=Relation.REPLACE_SPECIAL)
    assert event == ComposedEvent((GaussianEvent(5.0, 2), GaussianEvent(9.0, 8)))


# ---------------------------------------------------------------------------- OpenDP


def renyi_of_randomized_response(epsilon, order):
    """Of the two answers to a bit, the hardest pure mechanism."""
    kept = 1 / (1 + math.exp(-epsilon))
    powers = kept**order * (1 - kept) ** (1 - order)
    powers += (1 - kept) ** order * kept ** (1 - order)
    return math.log(powers) / (order - 1)


def renyi_of_laplace(epsilon, order):
    near = order / (2 * order - 1) * math.exp((order - 1) * epsilon)
    far = (order - 1) / (2 * order - 1) * math.exp(-order * epsilon)
    return math.log(near + far) / (order - 1)


def covers(rho, epsilon, renyi):
    return all(renyi(epsilon, a) <= rho * a for a in (1.01, 1.5, 2.0, 8.0, 64.0))


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 4.0])
def test_rho_covers_renyi_divergences_and_a_quarter_of_mu_squared_does_not(epsilon):
    for event, renyi in (
        (PureEvent(epsilon), renyi_of_randomized_response),
        (LaplaceEvent(1 / epsilon), renyi_of_laplace),
    ):
        rho = to_opendp(event, adjacency="replace_one")["d_out"]
        assert covers(rho, epsilon, renyi)
        # It is loose at large epsilon.
        assert epsilon > 0.1 or not covers(rho / 2, epsilon, renyi)
    rho = to_opendp(GaussianEvent(1 / epsilon, 2), adjacency="replace_one")["d_out"]
    assert epsilon**2 <= rho <= epsilon**2 * (1 + 1e-9)


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
    "insert and delete": {"input_metric": "InsertDeleteDistance", "d_in": 2},
    "no rows": {"d_in": 0},
    "two rows": {"d_in": 2},
    "true rows": {"d_in": True},
    "another measure": {"output_measure": "ZeroConcentratedDivergence"},
    "a pair of a pure one": {"d_out": [0.5, 1e-6]},
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
    assert not takes("MaxDivergence")


@pytest.mark.parametrize(
    "event",
    [
        PoissonGaussianEvent(1.5, 0.01, 9, "replace_one"),
        ComposedEvent((GaussianEvent(4.0, 3), LaplaceEvent(20.0))),
    ],
    ids=repr,
)
def test_epsilon_and_delta_go_there_and_come_back(event):
    told = to_opendp(event, adjacency="replace_one", delta=DELTA)
    epsilon = epsilon_of(event, DELTA)
    assert json.loads(json.dumps(told)) == {
        "input_metric": "HammingDistance",
        "d_in": 1,
        "output_measure": "Approximate(MaxDivergence)",
        "d_out": [epsilon, DELTA],
    }
    assert from_opendp(told) == (EpsilonDeltaEvent(epsilon, DELTA), "replace_one")


def test_pure_and_infinite_costs():
    told = to_opendp(PureEvent(0.25, 2), adjacency="replace_one", delta=0.0)
    assert (told["output_measure"], told["d_out"]) == ("MaxDivergence", 0.5)
    assert from_opendp(told) == (PureEvent(0.5), "replace_one")
    told = to_opendp(NonPrivateEvent(), adjacency="replace_one", delta=DELTA)
    assert told["d_out"] == ["inf", DELTA]
    assert not takes(told)


def test_what_opendp_has_no_relation_or_no_rho_for_is_refused():
    with pytest.raises(ValueError, match="SymmetricDistance adds and removes rows"):
        to_opendp(GaussianEvent(5.0), adjacency="zero_out", delta=1e-6)
    with pytest.raises(ValueError, match="to have a rho"):
        to_opendp(NonPrivateEvent(), adjacency="replace_one", delta=None)
