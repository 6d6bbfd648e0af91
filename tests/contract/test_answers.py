"""What an answer is charged for, how often it is given, and what of a read leaves."""

from __future__ import annotations

import copy
import pickle
import warnings
from dataclasses import dataclass, replace

import numpy as np
import pytest

from skdp.exceptions import READ_FAILED, PlanUsedUpError, SourceError
from skdp.privacy import Budget
from skdp.privacy.noise._correlated import SquareRoot
from skdp.privacy.noise._laws import Laplace
from skdp.privacy.noise._noise import gaussian_scale
from skdp.privacy.release._answers import Grant, LocalAnswers
from skdp.privacy.release._plan import (
    Batch,
    Bound,
    Buckets,
    Correlated,
    Everyone,
    Line,
    Part,
    Plan,
    Poisson,
)
from skdp.tables._memory import MOST_ROWS_OF_A_USER, MemorySource, UserSource
from tests.door import OpenDoor, answers_for
from tests.spies import SpyNoise

N = 60
RECORDS = MemorySource(np.ones((N, 3)), np.zeros(N))
USERS = UserSource(np.ones((N, 3)), np.zeros(N), np.ones(N), N)


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums of three columns, charged for rows that are rounded, and for nothing else.

    `fails` is called when records are read.
    """

    norm: float = 2
    fails: object = lambda: None
    shape = (3,)
    family = None

    def bound(self):
        bound = Bound(zero_out=1.0, replace_one=2.0, norm=self.norm)
        return bound.with_user_bounds()

    def slack(self, layout):
        return float(layout.moved_rows * layout.rows_of_unit)

    def open(self, source):
        return source

    def total(self, reader, rows):
        self.fails()
        return sum(block.X.sum(axis=0) for block in reader.blocks())


# The sample of a line, the source, the relation, and what a query is charged for: its
# bound under the relation of one answer, and rows that may be rounded otherwise.
CHARGES = {
    "all records": (Everyone(), RECORDS, "replace_one", 2 + 1),
    "all records, one is gone": (Everyone(), RECORDS, "zero_out", 1 + 1),
    "a bucket": (Buckets(6), RECORDS, "replace_one", 2 + 1),
    "a secret sample": (Poisson(0.5), RECORDS, "replace_one", 1 + N),
    "a secret batch": (Batch(6, N), RECORDS, "zero_out", 2 + N),
    "users": (Everyone(), USERS, "replace_user", 2 + MOST_ROWS_OF_A_USER),
    "users, one is gone": (Everyone(), USERS, "zero_out_user", 1 + MOST_ROWS_OF_A_USER),
}


@pytest.mark.parametrize("name", CHARGES)
def test_an_answer_is_charged_for_its_bound_and_for_all_rounding(name):
    sample, source, relation, charged = CHARGES[name]
    is_batch = isinstance(sample, Batch)
    law = {"law": Laplace()} if is_batch else {}
    plan, noise = Plan((Line(sample=sample, **law),)), SpyNoise(seed=0)
    query = Sums(norm=1 if is_batch else 2)
    answers = answers_for(plan, source, 1.0, relation, noise)
    if not isinstance(sample, Buckets):  # whose size is known when they are read
        told = answers.expected(query)
    released = answers.ask(query)
    (draw,) = noise.draws
    assert draw.sensitivity == charged
    assert released.sigma == draw.sigma == answers.noise_scale
    assert isinstance(sample, Buckets) or told.sigma == released.sigma


def test_more_users_than_were_declared_are_rounded_too():
    noise, plan = SpyNoise(seed=0), Plan((Line(),))
    grant = Grant(plan.event(1.0, "replace_one"), 1.0, "replace_one", max_overcount=1.5)
    LocalAnswers(plan, RECORDS, grant, noise).ask(Sums())
    assert noise.draws[0].sensitivity == 2 + 1.5


def test_correlated_answers_are_charged_for_the_rounding_of_their_sums():
    sample = Correlated(20, SquareRoot(3, 2, 4))
    assert sample.joint == sample.matrix.norm + sample.matrix.slack(20)
    assert 0 < sample.matrix.slack(20) < sample.matrix.slack(2000)


def test_a_part_has_the_noise_that_it_pays_for():
    part = Part(Plan((Line(), Line(mu_share=0.25))), 3.0)
    noise = SpyNoise(seed=0)
    answers = answers_for(Plan((Line(), part)), RECORDS, 2.0, "zero_out", noise)
    inner = answers.part(1)
    inner.ask(Sums()), inner.ask(Sums(), 1), answers.ask(Sums())
    assert [draw.noise_multiplier for draw in noise.draws] == [6.0, 12.0, 2.0]
    largest = gaussian_scale(sensitivity=2.0, noise_multiplier=12.0, size=3).sigma
    assert answers.noise_scale == largest


def test_lines_that_cost_the_same_are_all_paid():
    plan = Plan((Line(), Line(), Part(Plan((Line(),)))))
    event = plan.event(2.0, "zero_out")
    assert event.mu_squared == pytest.approx(3 / 4)


def test_a_user_without_rows_may_be_farther_away_than_another():
    bound = Bound(zero_out=2.0, replace_one=1.0).with_user_bounds()
    assert (bound.zero_out_user, bound.replace_user) == (2.0, 2.0)
    assert Bound(zero_out=1.0).with_user_bounds().replace_user is None


def test_records_are_not_released_as_users_nor_users_as_records():
    for source, relation in ((RECORDS, "replace_user"), (USERS, "replace_one")):
        door = OpenDoor(Budget(1.0, 1e-6), adjacency=relation)
        with pytest.raises(ValueError, match="Nothing was read"):
            door.commit(Plan((Line(),)), source, label="")


class Inside:
    """An algorithm within the walls that does not multiply rows by their shares."""

    def bound(self, line, done):
        return 1.0

    def within(self, source, draws):
        yield sum(block.X.sum(axis=0) for block in source.blocks())


def test_an_algorithm_within_the_walls_is_of_records_or_takes_shares():
    plan = Plan((Line(),))
    answers = answers_for(plan, RECORDS, 1.0, "zero_out")
    assert answers.inside(Inside()).shape == (3,)
    answers = answers_for(plan, USERS, 1.0, "zero_out_user")
    with pytest.raises(TypeError, match="by the row's weight"):
        answers.inside(Inside())


# What leaves of a read ---------------------------------------------------------------

SECRET = "ann has 3 cats"


class Panic(BaseException):
    """As a library in Rust raises it: no exception."""


def raising(kind):
    def fail():
        raise kind(SECRET)

    return fail


def shares_nothing(error):
    return (error.args, error.__cause__, error.__context__) == (
        (READ_FAILED,),
        None,
        None,
    )


@pytest.mark.parametrize("kind", [ValueError, MemoryError, StopIteration, Panic])
def test_a_read_that_fails_tells_nothing_and_uses_its_answer_up(kind):
    answers = answers_for(Plan((Line(),)), RECORDS, 1.0, "zero_out")
    with pytest.raises(SourceError) as caught:
        answers.ask(Sums(fails=raising(kind)))
    assert shares_nothing(caught.value)
    with pytest.raises(PlanUsedUpError, match="Nothing was read"):
        answers.ask(Sums())


def test_a_view_that_fails_tells_nothing():
    answers = answers_for(Plan((Part(Plan((Line(),))),)), RECORDS, 1.0, "zero_out")
    with pytest.raises(SourceError) as caught:
        answers.part(0, lambda source: raising(ValueError)())
    assert shares_nothing(caught.value)


def test_nobody_is_warned_by_a_read():
    def warn():
        warnings.warn(SECRET, UserWarning, stacklevel=1)
        np.float64(1e308) * np.float64(1e308)

    answers = answers_for(Plan((Line(),)), RECORDS, 1.0, "zero_out")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        answers.ask(Sums(fails=warn))
    assert not told


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_answers_cannot_be_copied(copied):
    answers = answers_for(Plan((Line(),)), RECORDS, 1.0, "zero_out")
    with pytest.raises(TypeError, match="give them twice"):
        copied(answers)
    assert replace(Sums()).shape == answers.ask(Sums()).value.shape
