"""Laws of noise and of choices: their events, and what a line of them draws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skdp.privacy import BoundedRangeEvent, GaussianEvent, LaplaceEvent, PureEvent
from skdp.privacy.accounting._gaussian import batch_epsilon
from skdp.privacy.noise._laws import Choices, Gaussian, Laplace, PureChoices, Spherical
from skdp.privacy.noise._noise import NoiseSource
from skdp.privacy.release._answers import Grant, LocalAnswers, RehearsedAnswers
from skdp.privacy.release._plan import Bound, Line, Plan
from skdp.tables._source import Facts, Records
from tests.spies import SpyNoise

MECHANISMS = {
    "permute_and_flip": NoiseSource.permute_and_flip,
    "exponential": NoiseSource.exponential_mechanism,
}


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


def test_events_of_laws_count_their_releases():
    laws = {
        Gaussian(): GaussianEvent(4.0, 3),
        Spherical(): PureEvent(0.25, 3),
        Laplace(): LaplaceEvent(4.0, 3),
        Choices(0.5): BoundedRangeEvent(0.125, 3),
        PureChoices(0.3): PureEvent(0.3, 3),
    }
    for law, event in laws.items():
        assert law.event(4.0, 3) == event
    # Strength is of mu or epsilon.
    assert Line(3, strength=0.25).event(2.0, "zero_out") == GaussianEvent(8.0, 3)


@pytest.mark.parametrize("epsilon", [0.1, 3.0, 600.0])
def test_a_secret_batch_costs_what_the_worst_release_shows(epsilon):
    """Randomised response about one record, which is in the batch with some chance."""
    rate, told = 0.2, 1 / (1 + math.exp(-epsilon))
    lied = math.exp(-epsilon) * told
    found = math.log((rate * told + (1 - rate) * lied) / lied)
    assert batch_epsilon(epsilon, rate) == pytest.approx(found)
    assert batch_epsilon(epsilon, rate) >= found * (1 - 1e-13)


def answers_of(mechanism, noise, multiplier=7.0):
    plan = Plan((Line(law=PureChoices(0.3, mechanism)),))
    event = plan.event(multiplier, "zero_out")
    return LocalAnswers(plan, Numbers(), Grant(event, multiplier, "zero_out"), noise)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_pure_choice_is_drawn_at_the_epsilon_that_was_given(mechanism):
    for multiplier in (0.1, 7.0):
        spy = SpyNoise(seed=0)
        answers = answers_of(mechanism, spy, multiplier)
        (best,) = answers.choose(Numbers(), 1, 0)
        (choice,) = spy.choices
        assert choice.law.startswith(mechanism)
        assert (choice.epsilon, choice.sensitivity, choice.chosen) == (0.3, 2.0, best)
        assert answers.event == PureEvent(0.3)
    scores = Numbers().total(None, None)
    for seed in range(20):
        source = NoiseSource(seed)
        own = MECHANISMS[mechanism](source, scores, sensitivity=2.0, epsilon=0.3)
        assert answers_of(mechanism, NoiseSource(seed)).choose(Numbers(), 1, 0) == [own]


def test_two_of_one_pure_selection_are_refused():
    plan = Plan((Line(2, law=PureChoices(0.3)),))
    grant = Grant(plan.event(1.0, "zero_out"), 1.0, "zero_out")
    answers = LocalAnswers(plan, Numbers(), grant, NoiseSource(0))
    with pytest.raises(ValueError, match="k=1"):
        answers.choose(Numbers(), 2, 0)


def test_a_rehearsal_without_noise_answers_zeros_as_often_as_asked():
    answers = RehearsedAnswers(Plan(()), None, Grant(PureEvent(1.0), 0.0, "zero_out"))
    for _ in range(3):
        released = answers.ask(Numbers())
        assert (released.sigma, released.deviation) == (0.0, 0.0)
        assert np.array_equal(released.value, np.zeros(5))
    assert list(answers.choose(Numbers(), 2, 0)) == [0, 1]
