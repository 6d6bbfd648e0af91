"""A part with two plans: released numbers choose one, and both cost the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skdp.exceptions import PlanUsedUpError
from skdp.privacy.accounting._events import GaussianEvent
from skdp.privacy.noise._laws import Laplace
from skdp.privacy.noise._noise import NoiseSource
from skdp.privacy.release._answers import (
    ExactAnswers,
    Grant,
    LocalAnswers,
    RehearsedAnswers,
)
from skdp.privacy.release._plan import Line, Part, Plan, Poisson
from skdp.privacy.release._shared import SharedAnswers
from skdp.sums._record_sums import TargetSum
from skdp.tables._memory import MemorySource
from tests.door import answers_for
from tests.federated.owned import federation
from tests.spies import SpyNoise

N = 60
RECORDS = MemorySource(np.ones((N, 3)), np.zeros(N))
QUERY = TargetSum(N, 0.0, 1.0)
# Four times mu^2 of an answer each.
ONE = Plan((Line(4),))
OTHER = Plan((Line(mu_share=3.0), Part(Plan((Line(2),)), 2**0.5)))
TWO = Plan((Part(ONE, 3.0, OTHER),))


UNEQUAL = {
    "dearer": Plan((Line(5),)),
    "cheaper": Plan((Line(4, mu_share=0.9),)),
    "free": Plan(()),
    "another law": Plan((Line(4, law=Laplace()),)),
    "a sample": Plan((Line(4, sample=Poisson(0.5)),)),
    "a declared event": Plan((Line(4),), lambda z: GaussianEvent(z / 2)),
    "a part of another law": Plan((Part(Plan((Line(4, law=Laplace()),))),)),
    "a part of a declared event": Plan(
        (Part(Plan((Line(4),), lambda z: GaussianEvent(z / 2))),)
    ),
}


@pytest.mark.parametrize("name", UNEQUAL)
def test_two_plans_have_one_cost_and_one_kind_of_noise(name):
    for pair in ((ONE, UNEQUAL[name]), (UNEQUAL[name], ONE)):
        with pytest.raises(ValueError, match="must have the same cost"):
            Part(pair[0], 1.0, pair[1])
    Part(UNEQUAL[name])  # one plan may be any
    Part(ONE, 1.0, Plan((Part(ONE, 1.0, OTHER),)))


def test_two_plans_cost_as_much_as_one():
    for multiplier in (0.5, 2.0):
        one = Plan((Line(), Part(ONE, 3.0))).event(multiplier, "replace_one")
        two = Plan((Line(), Part(ONE, 3.0, OTHER))).event(multiplier, "replace_one")
        assert two.mu_squared == pytest.approx(one.mu_squared, rel=1e-12)
        assert two.mu_squared == pytest.approx((1 + 4 / 9) / multiplier**2)


def test_rounding_of_shares_is_charged_at_the_dearer_plan():
    dear = Plan((Line(4, mu_share=1 + 1e-10),))
    paid = dear.event(1.0, "zero_out").mu_squared
    assert paid > ONE.event(1.0, "zero_out").mu_squared
    for pair in ((ONE, dear), (dear, ONE)):
        assert Part(pair[0], 1.0, pair[1]).event(1.0, "zero_out").mu_squared == paid


# ----------------------------------------------------------------------------- answers


def grant():
    return Grant(TWO.event(1.0, "zero_out"), 1.0, "zero_out")


def shared():
    source = federation()
    return SharedAnswers(TWO, source, grant(), source.owners, NoiseSource(0))


ANSWERS = {
    "local": lambda: LocalAnswers(TWO, RECORDS, grant(), NoiseSource(0)),
    "rehearsed": lambda: RehearsedAnswers(TWO, RECORDS, grant()),
    "shared": shared,
}


@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_only_one_of_two_plans_is_used(kind, first, second):
    answers = ANSWERS[kind]()
    inner = answers.part(0, instead=first)
    with pytest.raises(PlanUsedUpError):
        answers.part(0, instead=second)
    n_answers = 1 if first else 4
    query = replace(QUERY, n_samples=inner.layout.largest_block)
    for _ in range(n_answers):
        inner.ask(query)
    with pytest.raises(PlanUsedUpError):
        inner.ask(query)


def test_each_plan_has_the_noise_that_it_pays_for():
    spent = []
    for instead in (False, True):
        noise = SpyNoise(seed=0)
        inner = answers_for(TWO, RECORDS, 2.0, "zero_out", noise).part(
            0, instead=instead
        )
        if instead:
            inner.ask(QUERY)
            part = inner.part(1)
            part.ask(QUERY), part.ask(QUERY)
        else:
            [inner.ask(QUERY) for _ in range(4)]
        spent.append(sum(draw.noise_multiplier**-2 for draw in noise.draws))
    assert spent == pytest.approx([TWO.event(2.0, "zero_out").mu_squared] * 2)


def test_a_part_of_one_plan_has_no_other():
    answers = answers_for(Plan((Part(ONE),)), RECORDS, 1.0, "zero_out")
    with pytest.raises(TypeError, match="must have two plans"):
        answers.part(0, instead=True)
    answers.part(0)  # the refusal used nothing up


def test_without_noise_either_plan_answers():
    for instead in (False, True):
        answers = ExactAnswers(TWO, RECORDS, Grant(None, 0.0, "zero_out"))
        assert answers.part(0, instead=instead).ask(QUERY).sigma == 0
