"""Selections of one candidate at a pure epsilon: what is drawn and what it costs."""

from __future__ import annotations

import numpy as np
import pytest

from skdp.privacy import PureEvent
from skdp.privacy.noise._laws import PureChoices
from skdp.privacy.noise._noise import NoiseSource
from skdp.privacy.release._answers import Grant, LocalAnswers, RehearsedAnswers
from skdp.privacy.release._plan import GAUSSIAN, Bound, Line, Plan
from skdp.tables._source import Facts, Records
from tests.spies import SpyNoise

MECHANISMS = ("permute_and_flip", "exponential")


class Numbers(Records):
    """Five scores, of which one record can change each by 2."""

    shape, family = (5,), "numbers"
    facts = Facts(n_samples=1, largest_block=1)

    def bound(self):
        return Bound(zero_out=2.0, replace_one=2.0)

    def slack(self, layout):
        return 0.0

    def open(self, source):
        return source

    def total(self, reader, rows):
        return np.array([0.0, 3.0, 9.0, 1.0, -1.0])


def answers_of(mechanism, noise, multiplier=7.0):
    plan = Plan((Line(law=PureChoices(0.3, mechanism)),))
    event = plan.event(multiplier, "zero_out")
    return LocalAnswers(plan, Numbers(), Grant(event, multiplier, "zero_out"), noise)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("multiplier", [0.1, 7.0])
def test_epsilon_is_the_one_that_was_given(mechanism, multiplier):
    spy = SpyNoise(seed=0)
    answers = answers_of(mechanism, spy, multiplier)
    (best,) = answers.choose(Numbers(), 1, 0)
    (choice,) = spy.choices
    assert choice.law.startswith(mechanism)
    assert (choice.epsilon, choice.sensitivity, choice.chosen) == (0.3, 2.0, best)
    assert answers.event == PureEvent(0.3)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_it_is_the_same_draw_as_of_the_noise_source(mechanism):
    names = {"exponential": "exponential_mechanism"}
    for seed in range(20):
        own = getattr(NoiseSource(seed), names.get(mechanism, mechanism))
        expected = own(Numbers().total(None, None), sensitivity=2.0, epsilon=0.3)
        answers = answers_of(mechanism, NoiseSource(seed))
        assert answers.choose(Numbers(), 1, 0) == [expected]


def test_two_of_one_selection_are_refused():
    plan = Plan((Line(2, law=PureChoices(0.3)),))
    assert plan.event(1.0, "zero_out") == PureEvent(0.3, 2)
    grant = Grant(plan.event(1.0, "zero_out"), 1.0, "zero_out")
    answers = LocalAnswers(plan, Numbers(), grant, NoiseSource(0))
    with pytest.raises(ValueError, match="1 candidate"):
        answers.choose(Numbers(), 2, 0)


def test_strength_is_of_mu_or_epsilon():
    line = Line(3, strength=0.25)
    assert line.multiplier(2.0) == 8.0
    assert line.event(2.0, "zero_out") == GAUSSIAN.event(8.0, 3)


def test_a_rehearsal_without_noise_answers_zeros_as_often_as_asked():
    plan, event = Plan(()), PureEvent(1.0)
    answers = RehearsedAnswers(plan, None, Grant(event, 0.0, "zero_out"))
    for _ in range(3):
        released = answers.ask(Numbers())
        assert (released.sigma, released.deviation) == (0.0, 0.0)
        assert np.array_equal(released.value, np.zeros(5))
    assert list(answers.choose(Numbers(), 2, 0)) == [0, 1]
