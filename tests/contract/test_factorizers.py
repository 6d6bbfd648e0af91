"""Every private form of a factoriser: the promises of the spine."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from skdp._fit import Progress, release
from skdp.decomposition._plain import FACTORIZERS
from skdp.decomposition._ratings import Pattern, Ratings, RatingSource, Task
from skdp.decomposition._registry import PRIVATE_FORMS
from skdp.exceptions import BudgetExceeded
from skdp.privacy import Budget
from skdp.privacy.accounting._relations import UNIT_OF
from skdp.privacy.noise._noise import NoiseSource
from skdp.privacy.release._door import Door
from tests.contract.test_registry import lacks
from tests.contract.test_seam import FrameSpy
from tests.decomposition.ratings import N_ITEMS, N_USERS, low_rank_ratings
from tests.decomposition.small import planned
from tests.door import OpenDoor, answers_for, refusal
from tests.spies import SpyLedger, SpyNoise, Transcript

ROOT = Path(__file__).parents[2]
BUDGET = Budget(1.0, 1e-6)
every_form = pytest.mark.parametrize(
    "form", PRIVATE_FORMS, ids=[f"{key}-{unit}" for key, unit in PRIVATE_FORMS]
)
RUNS = 8


class SpyRatings:
    """Ratings that note every look at what is private under a unit."""

    def __init__(self, ratings, unit, diary):
        self._ratings, self._unit, self._diary = ratings, unit, diary

    def __len__(self):
        return len(self._ratings)

    @property
    def values(self):
        self._diary.append("read")
        return self._ratings.values

    @property
    def pattern(self):
        if self._unit == "user":
            self._diary.append("read")
        return self._ratings.pattern


def some_ratings(seed=0):
    X, y = low_rank_ratings(seed=seed)
    X = X.astype(np.int32)
    return Ratings(Pattern(X[:, 0], X[:, 1], N_USERS, N_ITEMS), y)


def task_of(unit, ratings, **changes):
    facts = {
        "n_users": N_USERS,
        "n_items": N_ITEMS,
        "n_components": 2,
        "alpha": 0.0,
        "biases": True,
        "unit": unit,
        "rating_bounds": (1.0, 5.0),
        "pattern": ratings.pattern if unit == "rating_value" else None,
    }
    return Task(**{**facts, **changes})


def solver_of(form, task, budget=BUDGET):
    return planned(PRIVATE_FORMS[form], task, budget)


def event_of(solver, multiplier, task):
    return solver.plan(task).event(multiplier, task.unit)


def through_the_door(form, ratings, task, *, noise=None, ledger=None):
    facts = {"adjacency": form[1], "ledger": ledger}
    real = Door(BUDGET, random_state=None, **facts)
    _, answers = release(
        solver_of(form, task),
        RatingSource(ratings, task.n_samples),
        task,
        real if noise is None else OpenDoor(BUDGET, noise=noise, **facts),
        label="a test",
        progress=Progress(),
    )
    return answers


def run(form, ratings, **changes):
    noise = changes.pop("noise", None)
    return through_the_door(
        form, ratings, task_of(form[1], ratings, **changes), noise=noise
    )


def answered(solver, ratings, task, multiplier, noise, seed=0):
    """What a solver makes of noise of a given multiplier, on nobody's books."""
    source = RatingSource(ratings, task.n_samples)
    answers = answers_for(solver.plan(task), source, multiplier, task.unit, noise)
    with np.errstate(all="ignore"):
        return solver.run(answers, replace(task, seed=seed), Progress())


def make_ledger(folder, unit, epsilon):
    return SpyLedger(
        folder / "books.db",
        epsilon=epsilon,
        delta=1e-6,
        adjacency=unit,
        unit=UNIT_OF[unit],
    )


PAPERS = {"hamsi", "lbfgs"}


@pytest.mark.parametrize("key", FACTORIZERS)
def test_one_key_in_all_places(key):
    assert FACTORIZERS[key].key == key
    room = "papers" if key in PAPERS else "decomposition"
    assert FACTORIZERS[key].__module__.startswith(f"skdp.{room}._")
    assert (ROOT / f"tests/{room}/test_{key}.py").is_file()
    assert (
        lacks(FACTORIZERS[key].__doc__, FACTORIZERS[key].checks, is_private=False) == []
    )
    assert list(FACTORIZERS) == [*sorted(set(FACTORIZERS) - PAPERS), *sorted(PAPERS)]


@every_form
def test_a_private_form_has_its_places_too(form):
    kind = PRIVATE_FORMS[form]
    name = kind.__module__.rpartition("._")[2]
    assert (kind.key, kind.unit) == form
    assert lacks(kind.__doc__, kind.checks) == []
    assert (ROOT / f"tests/decomposition/test_{name}.py").is_file()


@every_form
def test_delta_zero_is_refused(form):
    task = task_of(form[1], some_ratings())
    assert refusal(PRIVATE_FORMS[form], task, BUDGET) == ""
    assert "delta" in refusal(PRIVATE_FORMS[form], task, Budget(1.0, 0.0))


def run_spied(form, diary, ledger, peeks=False):
    ratings = some_ratings()
    task = task_of(form[1], ratings)
    spied = SpyRatings(ratings, form[1], diary)
    if peeks:
        assert len(spied.values)
    through_the_door(form, spied, task, ledger=ledger)


@every_form
def test_nothing_is_read_before_the_commit(form, tmp_path):
    diary = SpyLedger.diary = []
    ledger = make_ledger(tmp_path, form[1], epsilon=1.01)
    run_spied(form, diary, ledger)
    assert (diary[0], diary.count("commit")) == ("commit", 1)
    assert "read" in diary
    del diary[:]
    with pytest.raises(BudgetExceeded):
        run_spied(form, diary, ledger)
    assert diary == []
    # Broken twin: it looks at the ratings first.
    with pytest.raises(BudgetExceeded):
        run_spied(form, diary, ledger, peeks=True)
    assert diary == ["read"]


@every_form
def test_noise_drawn_is_noise_declared(form):
    noise = SpyNoise()
    answers = run(form, some_ratings(), noise=noise)
    declared = [
        part.noise_multiplier
        for part in answers.event.leaves
        for _ in range(part.count)
    ]
    drawn = [draw.noise_multiplier for draw in noise.draws]
    assert sorted(drawn) == pytest.approx(sorted(declared), rel=1e-12)
    assert not noise.choices
    task = task_of(form[1], some_ratings())
    largest = solver_of(form, task).sensitivity(task)
    assert max(draw.sensitivity for draw in noise.draws) <= largest * (1 + 1e-12)


def neighbours(unit, ratings, rng):
    """Two data sets that differ in one unit, by as much as can be."""
    values, pattern = ratings.values.copy(), ratings.pattern
    if unit == "rating_value":
        at = rng.randint(len(values))
        values[at] = rng.choice([1.0, 5.0])
        other = values.copy()
        other[at] = 6.0 - values[at]
        return Ratings(pattern, values), Ratings(pattern, other)
    user = rng.randint(N_USERS)
    stays = pattern.users != user
    both = []
    for n_own in (rng.choice([0, 1, N_ITEMS]), rng.choice([0, 3, N_ITEMS])):
        items = rng.permutation(N_ITEMS)[:n_own].astype(np.int32)
        own = rng.choice([1.0, 5.0], size=n_own)
        own = np.full(n_own, rng.choice([1.0, 5.0])) if rng.rand() < 0.5 else own
        users = np.concatenate([pattern.users[stays], np.full(n_own, user, np.int32)])
        items = np.concatenate([pattern.items[stays], items])
        order = rng.permutation(len(users))
        whole = np.concatenate([values[stays], own])
        rows = Pattern(users[order], items[order], N_USERS, N_ITEMS)
        both.append(Ratings(rows, whole[order]))
    return both


def farthest(form, tamper=lambda draw: draw):
    """Largest change of a query in units of its sensitivity; all else is the same."""
    worst = 0.0
    for seed in range(RUNS):
        rng = np.random.RandomState(seed)
        task_facts = {"n_components": int(seed % 3)}
        if form[1] == "rating_value":
            task_facts["biases"] = bool(seed % 4)
        first = Transcript(seed)
        second = Transcript(seed, heard=first)
        found = []
        pair = neighbours(form[1], some_ratings(seed), rng)
        for ratings, noise in zip(pair, (first, second), strict=True):
            task = task_of(form[1], ratings, **task_facts)
            solver = solver_of(form, task)
            multiplier = [0.05, 3.0][seed % 2]
            found.append(answered(solver, ratings, task, multiplier, noise, seed))
        assert first.facts == second.facts
        assert np.array_equal(found[0].flat, found[1].flat)
        assert found[0].mean == found[1].mean
        for a, b, (_, facts) in zip(
            first.queries, second.queries, first.facts, strict=True
        ):
            change = np.linalg.norm(tamper(a - b)) / facts["sensitivity"]
            worst = max(worst, float(change))
    return worst


@every_form
def test_no_query_moves_farther_than_its_sensitivity(form):
    worst = farthest(form)
    assert worst <= 1
    # Neighbours come near the bound, so that half of it would be found out.
    assert worst > 0.6


@every_form
def test_predictions_are_finite_whatever_the_noise(form):
    ratings = some_ratings()
    task = task_of(form[1], ratings)
    solver = solver_of(form, task)
    for multiplier in (1e-6, 1e9):
        factors = answered(solver, ratings, task, multiplier, NoiseSource(0))
        assert np.isfinite(factors.flat).all()
        assert math.isfinite(factors.mean)


@every_form
def test_no_frame_outside_the_door_holds_ratings_and_entropy(form):
    with FrameSpy() as spy:
        run(form, some_ratings())
    assert spy.found == set()
    assert spy.seen > 10


def a_twin_that_holds_both(ratings, noise):
    sums = np.bincount(ratings.pattern.items, ratings.values)
    return noise.gaussian(sums, sensitivity=4.0, noise_multiplier=1.0)


def test_broken_twin_that_holds_ratings_and_entropy_is_found():
    with FrameSpy(__name__) as spy:
        a_twin_that_holds_both(some_ratings(), NoiseSource(0))
    assert spy.found == {f"{__name__}.a_twin_that_holds_both"}
