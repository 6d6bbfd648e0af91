"""Events go to dp-accounting and come back, and no relation is taken for another."""

from __future__ import annotations

import math

import dp_accounting as library
import pytest
from dp_accounting import NeighboringRelation as Relation
from dp_accounting.pld import PLDAccountant

from skdp.privacy import (
    BoundedRangeEvent,
    Budget,
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
    to_dp_event,
)
from skdp.privacy.accounting import _interop
from tests.problems import make_ledger

DELTA = 1e-6
RELATIONS = {"zero_out": Relation.REPLACE_SPECIAL, "replace_one": Relation.REPLACE_ONE}
every_relation = pytest.mark.parametrize("adjacency", RELATIONS)


def events(adjacency):
    gaussian, laplace = GaussianEvent(4.25, 3), LaplaceEvent(20.0)
    sampled = PoissonGaussianEvent(1.5, 0.01, 9, adjacency)
    return {
        "gaussian": gaussian,
        "one gaussian": GaussianEvent(0.1),
        "laplace": laplace,
        "sampled": sampled,
        "nothing": ComposedEvent(()),
        "not private": NonPrivateEvent(),
        "composed": ComposedEvent((gaussian, ComposedEvent((sampled, laplace)))),
    }


KINDS = list(events("zero_out"))


@every_relation
@pytest.mark.parametrize("kind", KINDS)
def test_what_goes_there_comes_back(adjacency, kind):
    event = events(adjacency)[kind]
    theirs, relation = to_dp_event(event, adjacency=adjacency)
    assert relation is RELATIONS[adjacency]
    assert from_dp_event(theirs, relation=relation) == (event, adjacency)


def epsilon_there(dp_event, relation):
    accountant = PLDAccountant(relation)
    return accountant.compose(dp_event).get_epsilon(DELTA)


THEIRS = {
    "gaussian": library.GaussianDpEvent(5.0),
    "gaussians": library.SelfComposedDpEvent(library.GaussianDpEvent(9.0), 4),
    "samples": library.SelfComposedDpEvent(
        library.PoissonSampledDpEvent(0.02, library.GaussianDpEvent(1.1)), 20
    ),
}
every_one_of_theirs = pytest.mark.parametrize("dp_event", THEIRS.values(), ids=THEIRS)


def is_charged_enough(dp_event, relation):
    """Whether what came in costs as much as in dp-accounting, and not much more."""
    event, _ = from_dp_event(dp_event, relation=relation)
    there, here = epsilon_there(dp_event, relation), epsilon_of(event, DELTA)
    return 0.995 * there <= here <= 1.5 * there


@every_relation
@every_one_of_theirs
def test_what_comes_in_costs_what_it_costs_there(adjacency, dp_event):
    assert is_charged_enough(dp_event, RELATIONS[adjacency])


@pytest.mark.parametrize("kind", ["gaussian", "gaussians"])
def test_broken_twin_with_the_multipliers_of_zero_out_is_found(monkeypatch, kind):
    monkeypatch.setitem(_interop._SENSITIVITIES, "replace_one", 1.0)
    assert is_charged_enough(THEIRS[kind], Relation.REPLACE_SPECIAL)
    assert not is_charged_enough(THEIRS[kind], Relation.REPLACE_ONE)


def test_broken_twin_that_takes_replace_one_for_zero_out_is_found(monkeypatch):
    monkeypatch.setitem(_interop._RELATIONS, "REPLACE_ONE", "zero_out")
    for dp_event in THEIRS.values():
        assert not is_charged_enough(dp_event, Relation.REPLACE_ONE)


def takes(relation):
    try:
        from_dp_event(THEIRS["gaussian"], relation=relation)
    except ValueError:
        return False
    return True


def test_only_two_relations_are_taken():
    assert {one for one in Relation if takes(one)} == set(RELATIONS.values())
    for wrong in ("REPLACE_ONE", "replace_one", 2, None):
        assert not takes(wrong)
    with pytest.raises(ValueError, match=r"REPLACE_ONE.*Got ADD_OR_REMOVE_ONE"):
        from_dp_event(THEIRS["gaussian"], relation=Relation.ADD_OR_REMOVE_ONE)


def test_broken_twin_that_takes_a_third_relation_is_found(monkeypatch):
    monkeypatch.setitem(_interop._RELATIONS, "ADD_OR_REMOVE_ONE", "zero_out")
    assert {one for one in Relation if takes(one)} == set(Relation)


def test_a_ledger_takes_its_own_relation_only(tmp_path):
    ledger = make_ledger(tmp_path, adjacency="zero_out")
    asked = {"budget": Budget(1.0, DELTA), "label": "from elsewhere"}
    for relation in RELATIONS.values():
        event, adjacency = from_dp_event(THEIRS["gaussian"], relation=relation)
        if relation is Relation.REPLACE_SPECIAL:
            ledger.commit(event, adjacency=adjacency, **asked)
            continue
        with pytest.raises(ValueError, match="accepts only fits with"):
            ledger.commit(event, adjacency=adjacency, **asked)
    assert ledger.to_event() == ComposedEvent((GaussianEvent(5.0),))


@every_relation
def test_a_ledger_goes_there_and_into_another_one(tmp_path, adjacency):
    ledger = make_ledger(tmp_path, adjacency=adjacency)
    committed = [GaussianEvent(20.0, 3), PoissonGaussianEvent(5.0, 0.1, 2, adjacency)]
    asked = {"adjacency": adjacency, "budget": Budget(1.0, DELTA), "label": "test"}
    for event in committed:
        ledger.commit(event, **asked)
    theirs, relation = to_dp_event(ledger.to_event(), adjacency=ledger.adjacency)
    spent = ledger.spent().epsilon
    assert 0.6 * spent < epsilon_there(theirs, relation) < 1.01 * spent
    event, _ = from_dp_event(theirs, relation=relation)
    (tmp_path / "other").mkdir()
    other = make_ledger(tmp_path / "other", adjacency=adjacency)
    for part in event.parts:
        other.commit(part, **asked)
    assert other.to_event() == ledger.to_event()
    assert other.remaining() == ledger.remaining()


INEXPRESSIBLE = [
    PureEvent(0.5),
    BoundedRangeEvent(0.5),
    EpsilonDeltaEvent(0.5, 1e-7),
    ObjectiveEvent(4.5, 0.02),
    SelectionEvent(GaussianEvent(4.0), "poisson", 2.0, 10),
    ParallelEvent((GaussianEvent(1.0),)),
]


@pytest.mark.parametrize("event", INEXPRESSIBLE, ids=lambda one: type(one).__name__)
def test_what_dp_accounting_cannot_express_is_refused(event):
    for one in (event, ComposedEvent((GaussianEvent(1.0), event))):
        with pytest.raises(ValueError, match=f"Got {type(event).__name__}"):
            to_dp_event(one, adjacency="zero_out")


@pytest.mark.parametrize("adjacency", ["rating_value", "user", "symmetric", None])
def test_relations_that_dp_accounting_does_not_know_are_refused(adjacency):
    with pytest.raises(ValueError, match="that dp-accounting knows"):
        to_dp_event(GaussianEvent(1.0), adjacency=adjacency)


def test_samples_of_another_adjacency_are_refused():
    event = PoissonGaussianEvent(1.5, 0.01, 9, "replace_one")
    with pytest.raises(ValueError, match="Got samples for 'replace_one'"):
        to_dp_event(event, adjacency="zero_out")


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
    "unsupported": library.UnsupportedDpEvent(),
}


@pytest.mark.parametrize("dp_event", UNKNOWN.values(), ids=UNKNOWN)
def test_events_that_skdp_does_not_know_are_refused(dp_event):
    for one in (dp_event, library.ComposedDpEvent([THEIRS["gaussian"], dp_event])):
        with pytest.raises(ValueError, match="An event of dp-accounting must be"):
            from_dp_event(one, relation=Relation.REPLACE_ONE)


@pytest.mark.parametrize("multiplier", [0.0, -1.0, math.nan, math.inf, "1"])
def test_no_noise_is_refused(multiplier):
    for kind in (library.GaussianDpEvent, library.LaplaceDpEvent):
        with pytest.raises((ValueError, TypeError)):
            from_dp_event(kind(multiplier), relation=Relation.REPLACE_SPECIAL)


@pytest.mark.parametrize("count", [0, -1, 1.5, True])
def test_counts_are_whole(count):
    twice = library.SelfComposedDpEvent(THEIRS["gaussian"], count)
    with pytest.raises((ValueError, TypeError)):
        from_dp_event(twice, relation=Relation.REPLACE_SPECIAL)


def test_repetitions_of_a_composition_are_counted():
    inner = library.ComposedDpEvent([THEIRS["gaussian"], THEIRS["gaussians"]])
    twice = library.SelfComposedDpEvent(inner, 2)
    event, _ = from_dp_event(twice, relation=Relation.REPLACE_SPECIAL)
    assert event == ComposedEvent((GaussianEvent(5.0, 2), GaussianEvent(9.0, 8)))
