"""Whatever is asked of answers: it is paid for, or refused before anything is read."""

from __future__ import annotations

import copy
import math
import pickle
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import pytest

from skdp._fit import Progress, release
from skdp.exceptions import (
    PlanUsedUpError,
    SourceError,
    UnboundedQueryError,
    UnplannedEventError,
)
from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget
from skdp.privacy.accounting._events import GaussianEvent, PureEvent
from skdp.privacy.ledger._allowance import Allowance
from skdp.privacy.noise._laws import Choices, Gaussian, Laplace, PureChoices, Spherical
from skdp.privacy.noise._noise import NoiseSource
from skdp.privacy.release._answers import Grant, LocalAnswers
from skdp.privacy.release._door import Door
from skdp.privacy.release._plan import Batch, Bound, Buckets, Line, Part, Plan, Poisson
from skdp.solvers._objective_perturbation import ObjectivePerturbation
from skdp.tables._memory import MemorySource
from tests.door import OpenDoor, planned
from tests.spies import SpyNoise, SpySource

N = 60
KNOWN = Bound(zero_out=1.0, replace_one=2.0)
REFUSALS = (PlanUsedUpError, TypeError, UnboundedQueryError, ValueError)


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums of three columns."""

    known: Bound = KNOWN
    shape = (3,)
    family = None

    def bound(self):
        return self.known

    def slack(self, layout):
        return 0.0

    def open(self, source):
        return source

    def total(self, reader, rows):
        return sum(block.X.sum(axis=0) for block in reader.blocks())


@dataclass(frozen=True)
class Numbers:
    """Yields so many zeros from within."""

    count: int

    def bound(self, line, done):
        return 1.0

    def within(self, source, draws):
        next(iter(source.blocks()))
        for _ in range(self.count):
            yield np.zeros(3)


def cheap(noise_multiplier):
    """What lines that stay hidden are declared at."""
    return GaussianEvent(1e3 * noise_multiplier)


@dataclass
class Asked:
    """Answers over a source that notes reads."""

    plan: Plan
    kind: type = LocalAnswers
    relation: str = "replace_one"

    def __post_init__(self):
        self.diary = []
        source = SpySource(MemorySource(np.ones((N, 3)), np.zeros(N)), self.diary)
        grant = Grant(self.plan.event(1.0, self.relation), 1.0, self.relation)
        self.answers = self.kind(self.plan, source, grant, NoiseSource(0))


def is_refused(plan, act, kind=LocalAnswers):
    """Whether an act on answers is refused before anything is read."""
    asked = Asked(plan, kind)
    try:
        act(asked.answers)
    except REFUSALS:
        return not asked.diary
    except SourceError:  # of records that were read
        return False
    return False


def ask(answers):
    return answers.ask(Sums())


def choose(k):
    return lambda answers: answers.choose(Sums(), k, 0)


def inside(count):
    return lambda answers: answers.inside(Numbers(count))


CHOICES = Plan((Line(9, law=Choices()),))
HOSTILE = {
    "hidden": (Plan((Line(9, is_hidden=True), Line()), cheap), ask),
    "fine": (Plan((Line(is_fine=True),)), ask),
    "choices": (CHOICES, ask),
    "noise": (Plan((Line(9),)), choose(1)),
    "hidden choices": (Plan((Line(9, law=Choices(), is_hidden=True),)), choose(1)),
    "no choice": (CHOICES, choose(0)),
    "choices given back": (CHOICES, choose(-5)),
    "too many choices": (CHOICES, choose(4)),
    "pure choices": (Plan((Line(9, law=PureChoices()),)), ask),
    "a part": (Plan((Part(Plan((Line(),))),)), ask),
    "no part": (Plan((Line(),)), lambda answers: answers.part(0)),
    "samples within": (Plan((Line(sample=Poisson(0.1)),)), inside(1)),
    "buckets within": (Plan((Line(sample=Buckets(30)),)), inside(1)),
    "L1 noise within": (Plan((Line(law=Laplace()),)), inside(1)),
    "a part within": (Plan((Line(), Part(Plan((Line(),))))), inside(2)),
    "another norm": (
        Plan((Line(),)),
        lambda answers: answers.ask(Sums(Bound(replace_one=1.0, norm=1))),
    ),
    "L2 for Laplace": (Plan((Line(law=Laplace()),)), ask),
    "no bound": (Plan((Line(),)), lambda answers: answers.ask(Sums(Bound()))),
    "copy": (Plan((Line(),)), copy.copy),
    "deepcopy": (Plan((Line(),)), copy.deepcopy),
    "pickle": (Plan((Line(),)), pickle.dumps),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_no_line_pays_for_is_refused_unread(name):
    assert is_refused(*HOSTILE[name])


class Unguarded(LocalAnswers):
    """Asks any line and is copied."""

    __reduce_ex__ = object.__reduce_ex__

    def _of_noise(self, line):
        asked = self._line(line)
        return asked, asked.law

    def _of_choices(self, line, query, k):
        return self._plan.lines[line].law

    def _within(self, number):
        return self._line(number)


class ReadsFirst(LocalAnswers):
    """Learns the bound of a query too late."""

    def _bound(self, query, line):
        query.total(query.open(self._source), None)
        return super()._bound(query, line)


UNGUARDED = ["hidden", "fine", "choices given back", "samples within", "deepcopy"]


@pytest.mark.parametrize("name", UNGUARDED)
def test_broken_twin_without_guards_is_found(name):
    assert not is_refused(*HOSTILE[name], Unguarded)


@pytest.mark.parametrize("name", ["another norm", "no bound"])
def test_broken_twin_that_reads_first_is_found(name):
    assert not is_refused(*HOSTILE[name], ReadsFirst)


def test_a_part_is_had_once():
    answers = Asked(Plan((Part(Plan((Line(),))),))).answers
    part = answers.part(0)
    part.ask(Sums())
    with pytest.raises(PlanUsedUpError):
        part.ask(Sums())
    with pytest.raises(PlanUsedUpError):
        answers.part(0)
    with pytest.raises(TypeError):
        replace(Part(Plan((Line(),))), times=2)


def test_what_is_hidden_last_does_not_leave():
    plan = Plan((Line(), Line(3, is_hidden=True)), cheap)
    heard = []
    released = Asked(plan).answers.inside(Numbers(4), heard.append)
    assert len(heard) == 1
    assert released is heard[0]
    hidden = Plan((Line(3, is_hidden=True),), cheap)
    assert Asked(hidden).answers.inside(Numbers(3)) is None


@pytest.mark.parametrize("count", [0, 2])
def test_an_algorithm_that_ends_early_is_told_so(count):
    with pytest.raises(PlanUsedUpError, match="as many answers"):
        Asked(Plan((Line(3),))).answers.inside(Numbers(count))


class Between:
    """A bound between two integers, for choices of integers."""

    def bound(self, line, done):
        return 1.5

    def within(self, source, draws):
        yield np.zeros(3)


def test_bounds_of_integers_are_rounded_up():
    noise = SpyNoise(0)
    seen = []
    noise.signed_choice = lambda exact, **facts: seen.append(facts["sensitivity"])
    plan = Plan((Line(law=Choices()),))
    grant = Grant(plan.event(1.0, "zero_out"), 1.0, "zero_out")
    LocalAnswers(plan, None, grant, noise).inside(Between())
    assert seen == [2]


SIZES = (0.0, -1.0, math.nan, math.inf)


@pytest.mark.parametrize("field", ["multiple", "mu_share", "strength"])
@pytest.mark.parametrize("size", SIZES)
def test_a_line_has_noise_whatever_is_declared(field, size):
    with pytest.raises(ValueError, match="positive, finite size"):
        Line(**{field: size})


@pytest.mark.parametrize(
    ("law", "sample"),
    [
        (Spherical(), Poisson(0.1)),
        (Laplace(), Poisson(0.1)),
        (Choices(), Poisson(0.1)),
        (Gaussian(), Batch(3, N)),
        (Choices(), Batch(3, N)),
        (Choices(), Buckets(30)),
    ],
)
def test_samples_are_charged_by_laws_they_are_for(law, sample):
    with pytest.raises(TypeError, match="whose cost is known"):
        Line(law=law, sample=sample)


STRENGTHS = {
    "mu": (GaussianEvent(2.0), [GaussianEvent(4.0), GaussianEvent(4.0, 3)]),
    "epsilon": (PureEvent(1.0), [PureEvent(0.25), PureEvent(0.25, 3)]),
}


@pytest.mark.parametrize("kind", STRENGTHS)
def test_steps_of_a_trial_cost_together_what_it_may(kind):
    strength, steps = STRENGTHS[kind]
    trial = Allowance("replace_one", "record", strength)
    facts = {"adjacency": "replace_one", "budget": Budget(1.0, 1e-6), "label": "step"}
    for step in steps:  # all of it
        trial.commit(step, **facts)
    for more in (replace(steps[0], count=1), GaussianEvent(1e3), PureEvent(0.01)):
        with pytest.raises(UnplannedEventError, match="Nothing was read"):
            trial.commit(more, **facts)
    assert trial.noted == steps


def test_a_finite_epsilon_needs_a_plan():
    door = Door(Budget(1.0, 1e-6), adjacency="zero_out", ledger=None, random_state=None)
    with pytest.raises(ValueError, match="must have a plan"):
        door.commit(None, MemorySource(np.ones((N, 3)), np.zeros(N)), label="none")


def objective_under(adjacency):
    return LinearObjective(
        loss=LogisticLoss(),
        n_samples=N,
        n_features=3,
        data_norm=1.0,
        adjacency=adjacency,
        alpha=0.1,
    )


def tilted(objective):
    return planned(ObjectivePerturbation, objective, Budget(1.0, 1e-6))


def test_an_objective_of_another_adjacency_is_refused_unread():
    objective, diary = objective_under("zero_out"), []
    source = SpySource(MemorySource(np.ones((N, 3)), np.zeros(N)), diary)
    books = Allowance("replace_one", "record")
    door = OpenDoor(Budget(1.0, 1e-6), adjacency="replace_one", ledger=books)
    facts = {"label": "fit", "progress": Progress()}
    with pytest.raises(ValueError, match="door's adjacency"):
        release(tilted(objective), source, objective, door, **facts)
    assert not diary
    assert not books.noted


def two_releases(kind):
    """How many of two plans a door lets through."""
    door = kind(Budget(1.0, 1e-6), adjacency="zero_out", ledger=None, random_state=None)
    source, passed = MemorySource(np.ones((N, 3)), np.zeros(N)), 0
    for _ in range(2):
        with suppress(PlanUsedUpError):
            door.commit(Plan((Line(),)), source, label="again")
            passed += 1
    return passed


class Unclosed(Door):
    """Never closes: the record would be of the last release alone."""

    _is_open = property(lambda self: True, lambda self, value: None)


def test_a_door_is_passed_once():
    assert two_releases(Door) == 1
    assert two_releases(Unclosed) == 2  # the broken twin


def count_chosen(kind):
    """How many choices two that were declared give, after one is given back."""
    answers = Asked(Plan((Line(2, law=Choices()),)), kind).answers
    chosen = 0
    for k in (-5, 1, 1, 1, 1):
        try:
            chosen += len(answers.choose(Sums(), k, 0))
        except (*REFUSALS, SourceError):
            continue
    return chosen


def test_choices_cannot_be_given_back():
    assert count_chosen(LocalAnswers) == 2
    assert count_chosen(Unguarded) > 2  # the broken twin
