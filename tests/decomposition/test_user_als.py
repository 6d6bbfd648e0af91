"""Private factorisation of the unit "user": what it declares, keeps and returns."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from skdp._fit import Progress
from skdp.decomposition._ratings import (
    Factors,
    Pattern,
    Ratings,
    RatingSource,
    Task,
    kept_ratings,
)
from skdp.decomposition._recommender import solve_users
from skdp.decomposition._user_als import NoisyItems, UserALS
from skdp.decomposition._user_sums import CountQuery, PairQuery, RowQuery
from skdp.privacy import Budget
from skdp.privacy.accounting._calibrate import calibrate, epsilon_of
from tests.decomposition.small import planned
from tests.door import answers_for, refusal
from tests.spies import NoNoise, SpyNoise, Transcript

BOUNDS = (1.0, 5.0)
SEED = 2357136044  # of the keys of ratings that are kept


def make(users, items, values, n_users, n_items):
    ids = (np.asarray(ids, dtype=np.int32) for ids in (users, items))
    pattern = Pattern(*ids, n_users, n_items)
    return Ratings(pattern, np.asarray(values, dtype=np.float64))


def simulated(n_users=3000, n_items=40, seed=0):
    """Popular items are rated higher, and users differ in how they feel about that."""
    rng = np.random.default_rng(seed)
    popularity = np.geomspace(0.8, 0.05, n_items)
    present = rng.random((n_users, n_items)) < popularity
    users, items = np.nonzero(present)
    bias = 0.3 * np.log(popularity / popularity.mean()) + 0.2 * rng.normal(size=n_items)
    own, slope = rng.normal(size=(2, n_users)) * [[0.4], [0.6]]
    mean = 3.2 + own[:, None] + bias + slope[:, None] * np.log(popularity)
    values = np.clip(mean[users, items] + 0.5 * rng.normal(size=len(users)), *BOUNDS)
    shuffled = rng.permutation(len(users))
    users, items, values = users[shuffled], items[shuffled], values[shuffled]
    cut = len(users) * 4 // 5
    parts = slice(cut), slice(cut, None)
    return [
        make(users[part], items[part], values[part], n_users, n_items) for part in parts
    ]


def task_of(ratings, n_components=2, bounds=BOUNDS, max_ratings=None):
    pattern = ratings.pattern
    return Task(
        n_users=pattern.n_users, n_items=pattern.n_items, n_components=n_components,
        alpha=0.0, biases=True, unit="user", rating_bounds=bounds,
        max_ratings=max_ratings,
    )  # fmt: skip


def event_of(solver, multiplier, task):
    return solver.plan(task).event(multiplier, "user")


def answered(solver, ratings, task, multiplier, noise):
    source = RatingSource(ratings, task.n_users)
    answers = answers_for(solver.plan(task), source, multiplier, "user", noise)
    return solver.run(answers, task, Progress())


def run(ratings, task, epsilon=1.0, noise=None, **params):
    budget = Budget(epsilon, 1e-6)
    solver = planned(UserALS, task, budget, **params)
    multiplier = calibrate(lambda z: event_of(solver, z, task), budget)
    return answered(solver, ratings, task, multiplier, noise or SpyNoise(seed=0))


def error(factors, train, test):
    rows = solve_users(factors, train)
    users, items = test.pattern.users, test.pattern.items
    predicted = factors.mean + np.sum(rows[users] * factors.items[items], axis=1)
    return math.sqrt(np.mean((np.clip(predicted, *BOUNDS) - test.values) ** 2))


@pytest.mark.parametrize(("n_rounds", "n_directions"), [(1, 0), (2, 0), (4, 2)])
def test_what_is_released_is_what_was_declared(n_rounds, n_directions):
    train, _ = simulated(300)
    task, noise = task_of(train, n_components=4), SpyNoise(seed=1)
    budget = Budget(2.0, 1e-6)
    solver = planned(UserALS, task, budget, n_rounds=n_rounds, n_directions=2)
    assert solver.n_directions == n_directions  # none without a third round
    event = event_of(solver, 3.0, task)
    assert event.mu_squared == pytest.approx(1 / 9, rel=1e-12)
    answered(solver, train, task, 3.0, noise)
    drawn = [draw.noise_multiplier for draw in noise.draws]
    assert drawn == [leaf.noise_multiplier for leaf in event.leaves]
    assert max(d.sensitivity for d in noise.draws) == solver.sensitivity(task)
    multiplier = calibrate(lambda z: event_of(solver, z, task), budget)
    assert epsilon_of(event_of(solver, multiplier, task), 1e-6) <= 2.0


def test_rules_follow_public_facts_only():
    task = replace(task_of(simulated(300)[0], n_components=9), n_users=10_000)
    few = planned(UserALS, task, Budget(1e-4, 1e-6))
    many = planned(UserALS, task, Budget(20.0, 1e-6))
    assert (few.n_rounds, few.n_directions) == (1, 0)
    assert (many.n_rounds, many.n_directions) == (4, 4)
    assert sum(share for _, share in many.queries(task)) == pytest.approx(1, abs=1e-15)
    assert UserALS.default_components({}, task, Budget(1e-4, 1e-6)) == 2
    assert UserALS.default_components({}, task, Budget(20.0, 1e-6)) == 6
    biases = replace(task, n_components=0)
    assert planned(UserALS, biases, Budget(20.0, 1e-6)).n_directions == 0


def test_products_of_pairs_are_those_of_normalised_residuals():
    train, _ = simulated(50)
    task = task_of(train)
    factors = Factors.zeros(task, 3.0)
    rows = np.zeros((50, 8))
    dense = np.zeros((50, 40))
    dense[train.pattern.users, train.pattern.items] = (train.values - 3) / 2
    chosen = np.array([0, 2, 3, 11, 30])
    kept = kept_ratings(train, None, SEED)
    query = PairQuery(50, 40)
    units = query.whole(kept, factors, rows, chosen, 2.0)
    answer = units * query.unit * query.scale
    dense = dense[:, chosen]
    norms = np.linalg.norm(dense, axis=1, keepdims=True)
    dense = np.divide(dense, norms, where=norms > 0, out=np.zeros_like(dense))
    expected = dense.T @ dense
    np.fill_diagonal(expected, 0)
    read = PairQuery(50, len(chosen)).read(answer)  # as if there were no other items
    np.testing.assert_allclose(read, expected, atol=1e-12)


def test_without_noise_it_learns_what_was_simulated():
    train, test = simulated()
    task = task_of(train)
    alone = run(train, task, noise=NoNoise(), n_rounds=1)
    flat = alone.copy()
    flat.items[:, :2] = 0
    means = flat.copy()
    means.items[:, 3] = 0
    assert error(flat, train, test) < error(means, train, test) - 0.02
    assert error(alone, train, test) < error(flat, train, test) - 0.02
    # The ratings' own errors are 0.5 large, and a user is known from few ratings.
    assert error(run(train, task, noise=NoNoise(), n_rounds=5), train, test) < 0.64


def test_with_noise_it_beats_what_users_know_alone():
    train, test = simulated()
    factors = run(train, task_of(train))
    means = factors.copy()
    means.items[:, :2] = means.items[:, 3:] = 0
    assert error(factors, train, test) < error(means, train, test) - 0.02


@pytest.mark.parametrize("n_components", [0, 1, 2, 5])
def test_rows_of_users_are_nobodys_and_factors_beyond_the_rule_are_zero(n_components):
    train, _ = simulated(300)
    task = task_of(train, n_components)
    factors = run(train, task, epsilon=20.0, n_directions=min(n_components // 3, 1))
    n_used = min(n_components, 2) + (n_components == 5)
    nobody = np.zeros(factors.users.shape[1])
    nobody[n_components + 1] = 1
    assert np.all(factors.users == nobody)
    assert np.all(factors.items[:, n_components] == 1)
    assert np.all(factors.items[:, n_used:n_components] == 0)
    assert np.all(np.ptp(factors.items[:, :n_used], axis=0) > 0)


@pytest.mark.parametrize("epsilon", [1e-4, 1.0, 1e6])
@pytest.mark.parametrize("what", ["nothing", "one", "all alike", "all"])
def test_nothing_is_ever_infinite(epsilon, what):
    every = np.array([(u, i) for u in range(6) for i in range(5)])
    pairs = {"nothing": every[:0], "one": every[:1]}.get(what, every)
    values = np.where(pairs.sum(axis=1) % 2, 1.0, 5.0)
    if what == "all alike":
        values[:] = 5.0
    ratings = make(*pairs.T, values, 6, 5)
    factors = run(ratings, task_of(ratings, 4), epsilon, n_rounds=4, n_directions=2)
    assert np.isfinite(factors.flat).all()
    assert BOUNDS[0] <= factors.mean <= BOUNDS[1]
    assert np.isfinite(solve_users(factors, ratings)).all()


@pytest.mark.parametrize("scale", [1e-90, 1e90])
def test_other_units_of_the_ratings_give_the_same_fit(scale):
    train, _ = simulated(300)
    usual = run(train, task_of(train), epsilon=20.0)
    other = Ratings(train.pattern, (train.values - 3) * scale)
    task = task_of(train, bounds=(-2 * scale, 2 * scale))
    scaled = run(other, task, epsilon=20.0)
    np.testing.assert_allclose(scaled.mean / scale, usual.mean - 3, rtol=1e-6)
    np.testing.assert_allclose(
        scaled.items[:, 3] / scale, usual.items[:, 3], rtol=1e-5, atol=1e-7
    )
    np.testing.assert_allclose(scaled.items[:, :2], usual.items[:, :2], rtol=1e-4)


def test_weights_of_items_are_the_best_of_their_size():
    """Against random weights of the same mean square over ratings."""
    rng = np.random.default_rng(0)
    counts = np.geomspace(1, 300, 30)
    task = Task(n_users=9, n_items=30, n_components=2, alpha=0.0, biases=True)
    items = NoisyItems(task, 2)
    items.start(counts, 0.0, sigma=1e-3)
    n = counts + 0.1 + 0.0004
    share, variance = n / n.sum(), 0.02
    for sigma in (0.01, 1.0, 5.0):

        def harm(weights, sigma=sigma):
            noise = sigma**2 / np.maximum((n * weights) ** 2, 1e-300)
            return np.sum(share * variance * noise / (variance + noise))

        best = items.weights(sigma)
        assert share @ best**2 == pytest.approx(1, rel=1e-6)
        for _ in range(200):
            other = best * np.exp(0.3 * rng.normal(size=30)) + 0.01 * rng.random(30)
            other /= math.sqrt(share @ other**2)
            assert harm(best) <= harm(other) * (1 + 1e-9)


def kept_of(ratings, user):
    own = ratings.pattern.users == user
    return set(zip(ratings.pattern.items[own], ratings.values[own], strict=True))


def test_at_most_max_ratings_of_each_user_are_kept():
    train, _ = simulated(200)
    kept = kept_ratings(train, 7, SEED)
    before, after = train.pattern.by_user.counts, kept.pattern.by_user.counts
    np.testing.assert_array_equal(after, np.minimum(before, 7))
    assert all(kept_of(kept, u) <= kept_of(train, u) for u in range(200))
    order = kept.pattern.by_user
    rebuilt = Pattern(*(getattr(kept.pattern, n) for n in ("users", "items")), 200, 40)
    np.testing.assert_array_equal(order.starts, rebuilt.by_user.starts)
    np.testing.assert_array_equal(order.others, rebuilt.by_user.others)
    np.testing.assert_array_equal(order.pairs, rebuilt.by_user.pairs)
    everything = kept_ratings(train, None, SEED)
    assert all(kept_of(everything, u) == kept_of(train, u) for u in range(200))


def test_what_is_kept_is_spread_over_the_catalogue():
    """Of 40 items everybody rated 10 are kept: by each user, others of them."""
    every = np.array([(u, i) for u in range(400) for i in range(40)])
    # Users differ in one item, so that no two have the same set.
    every = every[every[:, 1] != every[:, 0] % 40]
    ratings = make(*every.T, np.ones(len(every)), 400, 40)
    kept = kept_ratings(ratings, 10, SEED)
    # One draw for each of the 40 sets of items: binomial, 3.2 standard deviations.
    counts = kept.pattern.by_item.counts
    assert counts.min() > 10
    assert counts.max() < 200


def test_refusals_come_from_public_facts():
    task = task_of(simulated(300)[0])
    budget = Budget(1.0, 1e-6)
    assert refusal(UserALS, task, budget) == ""
    assert "delta" in refusal(UserALS, task, Budget(1.0, 0.0))
    without = Task(
        n_users=3, n_items=3, n_components=1, alpha=0.0, biases=False, unit="user",
        rating_bounds=BOUNDS,
    )  # fmt: skip
    assert "biases=True" in refusal(UserALS, without, budget)
    for name, value in {
        "n_rounds": 0, "n_directions": -1, "count_share": 0.5, "pair_share": 0.0,
        "first_share": 1.0, "bias_clip": 0.0, "row_clip": math.inf,
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=name):
            planned(UserALS, task, budget, **{name: value})


# --- One user against another ------------------------------------------------------
# A run on the neighbour hears what the first run released, so that both answer the same
# adaptive queries, and every query's change is compared with its sensitivity.

N_ITEMS = 8
SOLVER = {"n_rounds": 3, "n_directions": 1}


def table(seed=0):
    """By user, ratings by item: the data as they are, without codes or order."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, N_ITEMS, 30)
    return [dict.fromkeys(rng.permutation(N_ITEMS)[:n].tolist(), 4.0) for n in sizes]


def coded(users):
    """As an estimator makes them: users without ratings have the last codes."""
    present = [own for own in users if own]
    rows = [(u, i, own[i]) for u, own in enumerate(present) for i in own]
    return make(*np.array(rows).reshape(-1, 3).T, len(users), N_ITEMS)


def changes(users, others, max_ratings=None):
    """Of every query, over its declared sensitivity."""
    first = Transcript(0)
    second = Transcript(0, heard=first)
    for each, noise in ((users, first), (others, second)):
        ratings = coded(each)
        task = task_of(ratings, 3, max_ratings=max_ratings)
        solver = planned(UserALS, task, Budget(20.0, 1e-6), **SOLVER)
        answered(solver, ratings, task, 2.0, noise)
    asked = zip(first.queries, second.queries, first.facts, strict=True)
    return [np.linalg.norm(a - b) / facts["sensitivity"] for a, b, (_, facts) in asked]


def strangers():
    """What may take the place of a user's ratings."""
    yield {}
    yield {0: 5.0}
    for low, high in ((1.0, 5.0), (5.0, 1.0)):
        yield dict.fromkeys(range(N_ITEMS), high)
        yield dict.fromkeys(range(N_ITEMS // 2), high)
        yield dict.fromkeys(range(N_ITEMS // 2, N_ITEMS), low)
        yield {i: high if i % 2 else low for i in range(N_ITEMS)}


@pytest.mark.parametrize("max_ratings", [None, 3])
def test_no_user_moves_a_query_by_more_than_its_sensitivity(max_ratings):
    rest, people = table()[1:], list(strangers())
    worst = np.max(
        [
            changes([one, *rest], [other, *rest], max_ratings)
            for j, one in enumerate(people)
            for other in people[:j]
        ],
        axis=0,
    )
    # Counts, biases, rows, pairs, rows of one factor more.
    assert np.all(worst <= 1)
    assert np.all(worst > [0.95, 0.9, 0.8, 0.9, 0.5])  # close enough to mean something


def test_who_leaves_decides_no_other_user_s_ratings():
    """Codes of all other users shift when the first one leaves."""
    rest = table()[1:]
    assert changes([{0: 5.0, 1: 1.0}, *rest], [{}, *rest], 2)[0] <= 1


def test_long_rows_are_shortened():
    """Moments of rows too, of which the sums' clip knows nothing."""
    query, ratings = RowQuery(1, 5, 2, 0.5), make([0] * 5, range(5), [3.0] * 5, 1, 5)
    factors = Factors.zeros(task_of(ratings), 3.0)
    rows = np.zeros((1, factors.users.shape[1]))
    rows[0, :2] = 0.6
    units = query.whole(ratings, factors, rows, np.ones(5), 2.0)
    moments = units[-9:] * query.unit
    assert np.linalg.norm(moments) == pytest.approx(0.316 * 0.5, rel=1e-6)


@pytest.mark.parametrize(
    "query", [CountQuery(300, 40), RowQuery(300, 40, 2, 0.5), PairQuery(300, 40)]
)
def test_rounding_to_units_is_charged(query):
    """Each number of one user may be half a unit from its own, and of another's too."""
    size = math.prod(query.shape)
    assert query.rounding >= math.sqrt(size) * query.unit * query.scale
    assert query.rounding < 1e-3 * query.exact
