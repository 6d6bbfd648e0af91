"""Private factorisation of the unit "user": what it declares, keeps and returns."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skdp import DPMatrixFactorization
from skdp._fit import Progress
from skdp.decomposition import _recommender, _user_sums
from skdp.decomposition._ratings import Factors, Pattern, RatingSource, kept_ratings
from skdp.decomposition._recommender import solve_users
from skdp.decomposition._user_als import UserALS
from skdp.decomposition._user_sums import CountQuery, PairQuery, RowQuery
from skdp.privacy import Budget
from skdp.privacy.accounting._calibrate import calibrate
from tests.decomposition import small
from tests.decomposition.small import planned, ratings_of
from tests.door import answers_for
from tests.spies import NoNoise, SpyNoise, Transcript

BOUNDS = (1.0, 5.0)
SEED = 2357136044  # of the keys of ratings that are kept


def simulated(n_users=3000, n_items=40, seed=0):
    """Popular items are rated higher, and users differ in how they feel about that."""
    rng = np.random.default_rng(seed)
    popularity = np.geomspace(0.8, 0.05, n_items)
    users, items = np.nonzero(rng.random((n_users, n_items)) < popularity)
    bias = 0.3 * np.log(popularity / popularity.mean()) + 0.2 * rng.normal(size=n_items)
    own, slope = rng.normal(size=(2, n_users)) * [[0.4], [0.6]]
    mean = 3.2 + own[:, None] + bias + slope[:, None] * np.log(popularity)
    values = np.clip(mean[users, items] + 0.5 * rng.normal(size=len(users)), *BOUNDS)
    places = np.split(rng.permutation(len(users)), [len(users) * 4 // 5])
    return [ratings_of(users[p], items[p], values[p], n_users, n_items) for p in places]


def task_of(ratings, n_components=2, bounds=BOUNDS, **facts):
    facts |= {"unit": "user", "rating_bounds": bounds}
    return small.task_of(ratings, n_components, 0.0, **facts)


def answered(solver, ratings, task, multiplier, noise):
    source = RatingSource(ratings, task.n_users)
    answers = answers_for(solver.plan(task), source, multiplier, "user", noise)
    return solver.run(answers, task, Progress())


def run(ratings, task, epsilon=1.0, noise=None, **params):
    budget = Budget(epsilon, 1e-6)
    solver = planned(UserALS, task, budget, **params)
    multiplier = calibrate(lambda z: solver.plan(task).event(z, "user"), budget)
    return answered(solver, ratings, task, multiplier, noise or SpyNoise(seed=0))


@pytest.mark.parametrize(("n_rounds", "n_directions"), [(1, 0), (2, 0), (4, 2)])
def test_what_is_released_is_what_was_declared(n_rounds, n_directions):
    train, _ = simulated(300)
    task, noise = task_of(train, n_components=4), SpyNoise(seed=1)
    budget = Budget(2.0, 1e-6)
    solver = planned(UserALS, task, budget, n_rounds=n_rounds, n_directions=2)
    assert solver.n_directions == n_directions  # none without a third round
    event = solver.plan(task).event(3.0, "user")
    assert event.mu_squared == pytest.approx(1 / 9, rel=1e-12)
    answered(solver, train, task, 3.0, noise)
    drawn = [draw.noise_multiplier for draw in noise.draws]
    assert drawn == [leaf.noise_multiplier for leaf in event.leaves]
    assert max(d.sensitivity for d in noise.draws) == solver.sensitivity(task)


def test_products_of_pairs_are_those_of_normalised_residuals():
    train, _ = simulated(50)
    dense = np.zeros((50, 40))
    dense[train.pattern.users, train.pattern.items] = (train.values - 3) / 2
    chosen, query = np.array([0, 2, 3, 11, 30]), PairQuery(50, 40)
    factors = Factors.zeros(task_of(train), 3.0)
    kept = kept_ratings(train, None, SEED)
    units = query.whole(kept, factors, np.zeros((50, 8)), chosen, 2.0)
    dense = dense[:, chosen]
    norms = np.linalg.norm(dense, axis=1, keepdims=True)
    dense = np.divide(dense, norms, where=norms > 0, out=np.zeros_like(dense))
    expected = dense.T @ dense
    np.fill_diagonal(expected, 0)
    # As if there were no other items.
    read = PairQuery(50, len(chosen)).read(units * query.unit * query.scale)
    np.testing.assert_allclose(read, expected, atol=1e-12)


def error(factors, train, test):
    rows = solve_users(factors, train)
    users, items = test.pattern.users, test.pattern.items
    predicted = factors.mean + np.sum(rows[users] * factors.items[items], axis=1)
    return math.sqrt(np.mean((np.clip(predicted, *BOUNDS) - test.values) ** 2))


def test_it_learns_what_was_simulated():
    """Biases help, and so do factors; with noise it beats what users know alone."""
    train, test = simulated()
    task = task_of(train)
    alone = run(train, task, noise=NoNoise(), n_rounds=1)
    flat = alone.copy()
    flat.items[:, :2] = 0
    means = flat.copy()
    means.items[:, 3] = 0
    worst, bad, good = (error(x, train, test) for x in (means, flat, alone))
    assert good + 0.02 < bad < worst - 0.02
    # The ratings' own errors are 0.5 large, and a user is known from few ratings.
    assert error(run(train, task, noise=NoNoise(), n_rounds=5), train, test) < 0.64
    assert error(run(train, task), train, test) < worst - 0.02


@pytest.mark.parametrize("n_components", [0, 2, 5])
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


# --- Which ratings are used --------------------------------------------------------


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
    rebuilt = Pattern(kept.pattern.users, kept.pattern.items, 200, 40).by_user
    for name in ("starts", "others", "pairs"):
        np.testing.assert_array_equal(getattr(order, name), getattr(rebuilt, name))
    everything = kept_ratings(train, None, SEED)
    assert all(kept_of(everything, u) == kept_of(train, u) for u in range(200))


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
    return ratings_of(*np.array(rows).reshape(-1, 3).T, len(users), N_ITEMS)


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
    query, ratings = (
        RowQuery(1, 5, 2, 0.5),
        ratings_of([0] * 5, range(5), [3.0] * 5, 1, 5),
    )
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


def test_the_interpreter_runs_the_compiled_loops_with_the_same_result(monkeypatch):
    """Loops read and write wherever an index leads; the interpreter checks indices."""
    given = {"privacy_unit": "user", "n_users": 12, "item_ids": range(10)}
    given |= {"n_components": 2, "rating_bounds": (1, 5), "random_state": 0}
    pairs = np.column_stack(np.divmod(np.arange(120), 10))
    ratings = 3 + np.sin(np.arange(120.0))

    def fitted():
        return DPMatrixFactorization(epsilon=50.0, **given).fit(pairs, ratings)

    compiled = fitted()
    for module in (_user_sums, _recommender):
        for name, loop in vars(module).copy().items():
            if hasattr(loop, "py_func"):
                monkeypatch.setattr(module, name, loop.py_func)
    interpreted = fitted()
    assert np.allclose(compiled.item_factors_, interpreted.item_factors_)
    assert np.allclose(compiled.predict(pairs), interpreted.predict(pairs))
