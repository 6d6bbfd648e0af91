"""Attack private factorisation of the unit "user", and find planted bugs.

Neighbours differ in all ratings of one user. A release is replayed: the run on the
neighbour is given what the first run released, so that both answer the same adaptive
queries, and every query's change is compared with its declared sensitivity. Neighbours
are searched for the worst. Then the strongest test there is, the likelihood ratio of
everything released, bounds epsilon from below; seeds are fixed, and with fresh ones a
bound would exceed the claim with probability below 1e-3.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from skdp._fit import Progress
from skdp.audit._result import epsilon_lower_bound
from skdp.decomposition import _ratings, _user_sums
from skdp.decomposition._ratings import Pattern, Ratings, RatingSource, Task
from skdp.decomposition._user_als import UserALS
from skdp.privacy import Budget
from skdp.privacy.accounting._calibrate import calibrate
from skdp.privacy.noise._noise import NoiseSource
from tests.decomposition.small import planned
from tests.door import answers_for
from tests.spies import SpyNoise

N_USERS, N_ITEMS = 30, 12
BUDGET = Budget(20.0, 1e-6)


def table(seed=0):
    """By user, ratings by item: the data as they are, without codes or order."""
    rng = np.random.default_rng(seed)
    return [
        {
            int(i): float(rng.integers(1, 6))
            for i in rng.permutation(N_ITEMS)[: rng.integers(2, N_ITEMS)]
        }
        for _ in range(N_USERS)
    ]


def ratings_of(users):
    """As an estimator makes them: users without ratings have the last codes."""
    present = [own for own in users if own]
    triples = [(u, i, own[i]) for u, own in enumerate(present) for i in own]
    columns = np.array(triples, dtype=float).reshape(-1, 3).T
    codes, items = columns[:2].astype(np.int32)
    pattern = Pattern(codes, items, len(users), N_ITEMS)
    return Ratings(pattern, columns[2])


def task(n_users=N_USERS, max_ratings=None):
    return Task(
        n_users=n_users, n_items=N_ITEMS, n_components=3, alpha=0.0, biases=True,
        unit="user", rating_bounds=(1.0, 5.0), max_ratings=max_ratings,
    )  # fmt: skip


class Replay:
    """Releases what it is given, and keeps the queries."""

    is_private = False

    def __init__(self, released):
        self.released, self.queries = released, []

    def gaussian(self, query, *, sensitivity, noise_multiplier, fine=False):
        self.queries.append(query)
        return self.released[len(self.queries) - 1]


def run(users, noise, solver, max_ratings=None, multiplier=2.0):
    facts = task(len(users), max_ratings)
    factors_of(users, noise, solver, facts, multiplier)
    return noise


def factors_of(users, noise, solver, facts, multiplier=2.0):
    source = RatingSource(ratings_of(users), len(users))
    answers = answers_for(solver.plan(facts), source, multiplier, "user", noise)
    return solver.run(answers, replace(facts, seed=3), Progress())


def changes(users, other_users, solver, max_ratings=None, multiplier=2.0, seed=0):
    """Of every query, over its declared sensitivity."""
    spy = run(users, SpyNoise(seed=seed), solver, max_ratings, multiplier)
    replay = Replay([draw.released for draw in spy.draws])
    run(other_users, replay, solver, max_ratings, multiplier)
    return [
        float(np.linalg.norm(draw.query - query)) / draw.sensitivity
        for draw, query in zip(spy.draws, replay.queries, strict=True)
    ]


def strangers():
    """What may take the place of a user's ratings: extremes, and anything else."""
    rng = np.random.default_rng(1)
    half = range(N_ITEMS // 2)
    yield {}
    yield {0: 5.0}
    yield {N_ITEMS - 1: 1.0}
    for low, high in ((1.0, 5.0), (5.0, 1.0)):
        yield dict.fromkeys(range(N_ITEMS), high)
        yield dict.fromkeys(half, high)
        yield dict.fromkeys(range(N_ITEMS // 2, N_ITEMS), low)
        yield {i: high if i % 2 else low for i in range(N_ITEMS)}
        yield {i: high if i in half else low for i in range(N_ITEMS)}
    for _ in range(10):
        size = rng.integers(1, N_ITEMS + 1)
        yield {int(i): rng.choice([1.0, 5.0]) for i in rng.permutation(N_ITEMS)[:size]}


def worst_changes(solver, max_ratings=None, where=0):
    """Over pairs of strangers in the place of one user."""
    others = table()
    people = list(strangers())
    worst = np.zeros(1 + solver.n_rounds + (solver.n_directions > 0))
    for j, one in enumerate(people):
        for two in people[:j]:
            users = [*others[:where], one, *others[where + 1 :]]
            neighbour = [*others[:where], two, *others[where + 1 :]]
            found = changes(users, neighbour, solver, max_ratings)
            worst = np.maximum(worst, found)
    return worst


SOLVER = planned(UserALS, task(), BUDGET, n_rounds=3, n_directions=1)


@pytest.mark.parametrize(
    ("max_ratings", "where"),
    [pytest.param(None, 0, marks=pytest.mark.slow), (3, N_USERS - 1)],
)
def test_no_neighbour_moves_a_query_by_more_than_its_sensitivity(max_ratings, where):
    # Counts, biases, rows, pairs, rows of one factor more.
    worst = worst_changes(SOLVER, max_ratings, where)
    assert np.all(worst <= 1)
    assert np.all(worst > [0.97, 0.95, 0.9, 0.9, 0.6])  # close enough to mean something


def test_others_contribute_the_same_numbers():
    """To the last bit, whoever stands before them and wherever they are stored."""
    half = N_ITEMS // 2
    me = {i: 5.0 if i % 3 else 2.0 for i in range(half, N_ITEMS)}
    spy = run([me, *[{}] * (N_USERS - 1)], SpyNoise(seed=2), SOLVER, None, 0.01)
    released = [draw.released for draw in spy.draws]
    for person in strangers():
        # Who shares no item with me, so that my terms can be read off the sums.
        person = {i: value for i, value in person.items() if i < half}
        replay = Replay(released)
        run([person, me, *[{}] * (N_USERS - 2)], replay, SOLVER, None, 0.01)
        for draw, query in zip(spy.draws, replay.queries, strict=True):
            mine, again = (of_items(q, half) for q in (draw.query, query))
            assert np.all(mine != 0)
            np.testing.assert_array_equal(mine, again)


def of_items(query, first):
    """The part of a query that is of items from `first` on."""
    if len(query) == N_ITEMS * (N_ITEMS - 1) // 2:
        pairs = _user_sums.PairQuery(N_USERS, N_ITEMS).read(query)
        return pairs[first:, first:][np.tril_indices(N_ITEMS - first, -1)]
    # Moments are behind the sums; the count of columns solves a quadratic equation.
    n_columns = math.isqrt(len(query) + (N_ITEMS // 2) ** 2) - N_ITEMS // 2
    return query[first * n_columns : N_ITEMS * n_columns]


def in_another_order(users):
    """The same users, with other codes, and each one's ratings in another order."""
    order = np.random.default_rng(5).permutation(len(users))
    return [dict(reversed(users[u].items())) for u in order]


def test_any_order_of_users_and_ratings_gives_the_same_bits():
    users = table()
    spy = run(users, SpyNoise(seed=2), SOLVER)
    replay = Replay([draw.released for draw in spy.draws])
    run(in_another_order(users), replay, SOLVER)
    for draw, query in zip(spy.draws, replay.queries, strict=True):
        np.testing.assert_array_equal(draw.query, query)


def added_up(users):
    """Weighted counts as they were once summed."""
    return sum(1 / math.sqrt(len(own)) for own in users)


def test_broken_twin_of_sums_in_doubles_depends_on_the_order():
    tables = [table(seed) for seed in range(10)]
    shown = [in_another_order(users) for users in tables]
    assert list(map(added_up, tables)) != list(map(added_up, shown))


# Planted bugs.

OPPOSITE = [{i: 5.0 if (i + s) % 2 else 1.0 for i in range(N_ITEMS)} for s in (0, 1)]


def moved_by_opposite(solver):
    """The same items, each rating at the other end."""
    others = table()[1:]
    return changes([OPPOSITE[0], *others], [OPPOSITE[1], *others], solver)


def test_clipping_ratings_one_by_one_is_caught(monkeypatch):
    sums = _user_sums.add_sums.py_func

    def one_by_one(starts, others, values, *rest):
        """Every rating is clipped as if it were a user's only one."""
        rows = rest[0]
        for u in range(len(starts) - 1):
            for place in range(starts[u], starts[u + 1]):
                single = np.array([0, 1])
                part = slice(place, place + 1)
                own = (rows[u : u + 1], *rest[1:])
                sums(single, others[part], values[part], *own)

    assert max(moved_by_opposite(SOLVER)) <= 1
    monkeypatch.setattr(_user_sums, "add_sums", one_by_one)
    assert max(moved_by_opposite(SOLVER)) > 2


def test_weights_that_forget_the_rule_are_caught(monkeypatch):
    """Weights of one over the root of max_ratings, and all ratings used."""
    limit = 3

    def forgetful(starts, others, values, mean_weight, per_unit, result):
        for u in range(len(starts) - 1):
            own = slice(starts[u], starts[u + 1])
            np.add.at(result, others[own], round(per_unit / math.sqrt(limit)))

    def everything(ratings, max_ratings, seed):
        return _ratings.kept_ratings(ratings, None, seed)

    def moved(is_broken):
        with monkeypatch.context() as patch:
            if is_broken:
                patch.setattr(_user_sums, "add_counts", forgetful)
                patch.setattr(_user_sums, "kept_ratings", everything)
            others = table()[1:]
            one = dict.fromkeys(range(N_ITEMS), 5.0)
            return changes([one, *others], [{}, *others], SOLVER, limit)[0]

    assert moved(is_broken=False) <= 1
    assert moved(is_broken=True) > 1.2


def n_moved_items(max_ratings):
    others, one = table()[1:], dict.fromkeys(range(N_ITEMS), 5.0)
    spies = [
        run([own, *others], SpyNoise(seed=0), SOLVER, max_ratings) for own in (one, {})
    ]
    counts = [spy.draws[0].query[:-1] for spy in spies]
    return int(np.sum(np.abs(counts[0] - counts[1]) > 1e-9))


def test_a_rule_that_is_not_applied_is_caught(monkeypatch):
    assert n_moved_items(4) == 4

    def everything(ratings, max_ratings, seed):
        return _ratings.kept_ratings(ratings, None, seed)

    monkeypatch.setattr(_user_sums, "kept_ratings", everything)
    assert n_moved_items(4) > 4


def keys_by_code(order, seed, n_kept):
    """Independent draws for each code: what one would write first."""
    users = np.repeat(np.arange(len(order.counts)), order.counts)
    codes = _ratings._mixed(users.astype(np.uint64) ^ seed)
    keys = _ratings._mixed(codes ^ order.others.astype(np.uint64))
    rank = np.empty(len(users), dtype=int)
    starts = np.repeat(order.starts[:-1], order.counts)
    rank[np.lexsort((keys, users))] = np.arange(len(users)) - starts
    return rank < n_kept


def moved_by_leaving():
    """The first user's ratings vanish, and all other users' codes shift."""
    others = table()[1:]
    return changes([{0: 5.0, 1: 1.0}, *others], [{}, *others], SOLVER, 2)[0]


def test_keys_by_code_are_caught(monkeypatch):
    assert moved_by_leaving() <= 1
    monkeypatch.setattr(_ratings, "_smallest_keys", keys_by_code)
    assert moved_by_leaving() > 1.5


def test_halved_replacement_is_caught(monkeypatch):
    """The sensitivity of leaving a user out is no bound for replacing him."""
    monkeypatch.setattr(_user_sums.RowQuery, "exact", property(lambda self: self.clip))
    assert moved_by_opposite(SOLVER)[1] > 1.9


# Everything released, by its likelihood ratio.

RUNS = 900
LOOSE = Budget(1.5, 0.05)  # a large delta: the distinguishing events are not rare


def audited_epsilon(shrink):
    sides = [[own, {0: 3.0}] for own in OPPOSITE]
    facts = task(2)
    # Of this pair nearly all is in the sums, so that is where the budget goes.
    solver = planned(UserALS, facts, LOOSE, n_rounds=1, count_share=0.01)
    plan = solver.plan(facts)
    multiplier = calibrate(lambda z: plan.event(z, "user"), LOOSE)

    def scores(truth, seeds):
        result = []
        for seed in seeds:
            spy = run(sides[truth], SpyNoise(seed, shrink), solver, None, multiplier)
            replay = Replay([draw.released for draw in spy.draws])
            run(sides[1 - truth], replay, solver, None, multiplier)
            score = 0.0
            for draw, query in zip(spy.draws, replay.queries, strict=True):
                own = np.sum((draw.released - draw.query) ** 2)
                other = np.sum((draw.released - query) ** 2)
                score += (other - own) / (2 * draw.sigma**2)
            result.append(score if truth == 0 else -score)
        return np.array(result)

    inside = scores(0, range(RUNS))
    outside = scores(1, range(10**6, 10**6 + RUNS))
    return epsilon_lower_bound(inside, outside, LOOSE.delta)


@pytest.mark.slow
def test_lower_bound_stays_below_the_claim_and_half_the_noise_is_caught():
    assert 0.1 < audited_epsilon(1.0) <= LOOSE.epsilon
    assert audited_epsilon(0.5) > LOOSE.epsilon


def test_noise_of_the_system_is_what_a_private_run_draws():
    users = table()
    noise = NoiseSource()
    assert noise.is_private
    facts = [factors_of(users, noise, SOLVER, task()).flat for _ in range(2)]
    assert not np.array_equal(*facts)
