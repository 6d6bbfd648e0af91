"""adassp: its sums, its sensitivity under both adjacencies, its post-processing."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array, csr_matrix

from skdp.losses import LogisticLoss, SquaredLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget, GaussianEvent, PureEvent, calibrate, epsilon_of
from skdp.privacy.noise._noise import NoiseSource
from skdp.privacy.release._plan import Layout
from skdp.solvers._adassp import AdaSSP, _least_risk
from skdp.sums._moments import _LARGEST as LARGEST
from skdp.sums._moments import MomentSums, MomentWeights, whole_rows
from skdp.tables._memory import MemorySource
from tests import door
from tests.spies import NoNoise, SpyNoise

LOSS = SquaredLoss(2.0, target_bound=1.0)
OBJECTIVE = LinearObjective(
    loss=LOSS, n_samples=300, n_features=4, data_norm=1.0, adjacency="zero_out"
)
BUDGET = Budget(1.0, 1e-6)
# How far an entry of a row may be from its place: rounded once, and once more if long.
GRID = 1.5 / LARGEST
ADJACENCIES = ("replace_one", "zero_out")
by_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES)
WEIGHTS = [(0.0, 1.0), (0.0, 0.2), (0.0, 3.0), (0.5, 1.0), (1.0, 1.0), (0.3, 2.5)]
WEIGHTS += [(1.0, 0.1)]
by_weights = pytest.mark.parametrize(("t", "k"), WEIGHTS)


def make_data(n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    return X, 3 * rng.normal(size=n)


def contribution(x, y, t, k, data_norm=1.0, target_bound=1.0, h=0.0):
    """The definition, for one record."""
    u = x / max(data_norm, np.linalg.norm(x))
    v = float(np.clip(y, -target_bound, target_bound)) / target_bound
    above = np.triu_indices(len(u), 1)
    outer = np.outer(u, u)
    parts = [np.diag(outer), math.sqrt(2) * outer[above], k * u * v]
    if t > 0:
        parts += [math.sqrt(2) * t * u, [k * t * v]]
    if h > 0:
        parts += [[h * v**2]]
    return np.concatenate(parts)


def sums_of(objective, t, k):
    return MomentSums(
        MomentWeights(t, k),
        n_samples=objective.n_samples,
        n_features=objective.n_features,
        data_norm=objective.data_norm,
        target_bound=objective.loss.target_bound,
    )


def query_of(source, objective, t, k):
    with np.errstate(all="ignore"):  # as `solve` does
        return sums_of(objective, t, k).total(source, None)


@by_weights
def test_blocks_storages_and_definition_agree(t, k):
    """To the last bit among themselves, with the definition to the grid of the rows."""
    loss = SquaredLoss(9.0, target_bound=2.0)
    objective = replace(OBJECTIVE, loss=loss, data_norm=0.8, fit_intercept=t > 0)
    X, y = make_data()
    X = X.astype(np.float32).astype(float)
    expected = sum(
        contribution(x, v, t, k, 0.8, 2.0) for x, v in zip(X, y, strict=True)
    )
    assert expected.shape == sums_of(objective, t, k).shape
    found = query_of(MemorySource(X, y), objective, t, k)
    assert np.allclose(found, expected, rtol=0, atol=300 * (1 + k) * GRID)
    stored = [X, np.asfortranarray(X), X.astype(np.float32), csr_array(X)]
    stored += [csr_matrix(X), csr_array(X.astype(np.float32))]
    # Small blocks of few records: reading is slow row by row.
    for n, block in ((50, 1), (50, 7), (300, 64), (300, 300)):
        first = query_of(MemorySource(X[:n], y[:n]), objective, t, k)
        order = np.random.default_rng(1).permutation(n)
        for each, rows in product(stored, (slice(n), order)):
            source = MemorySource(each[rows], y[rows])
            source.facts = replace(source.facts, largest_block=block)
            assert np.array_equal(query_of(source, objective, t, k), first)
    assert np.array_equal(first, found)


def summed_up(source):
    """Second moments as they were once summed: in doubles, block by block."""
    return sum(block.X.T @ block.X for block in source.blocks())


def test_broken_twin_of_sums_in_doubles_depends_on_the_blocks():
    X, y = make_data()
    whole, single = MemorySource(X, y), MemorySource(X, y)
    single.facts = replace(single.facts, largest_block=1)
    assert not np.array_equal(summed_up(whole), summed_up(single))


def test_more_rows_than_a_product_holds_add_up_exactly():
    """Against integers of any size; a block of twice as many rows would round."""
    n = 5000
    X, y = np.full((n, 2), 0.7071), np.full(n, 0.3)
    X[::2, 1] = 0.123
    objective = replace(OBJECTIVE, n_samples=n, n_features=2)
    source = MemorySource(X, y)
    source.facts = replace(source.facts, largest_block=n)
    query = sums_of(objective, 0.5, 1.0)
    q = whole_rows(X, 1.0).astype(int).astype(object)
    exact = np.dot(q.T, q)
    (sums,) = query.whole_sums(source, None)
    upper = np.array([exact[0, 0], exact[1, 1], exact[0, 1]])
    assert np.array_equal(sums.value()[:3], upper.astype(float))
    # Broken twin: one product of all rows; whole numbers beyond 2^53 are lost.
    odd = np.full((n, 1), LARGEST - 1)
    assert int((odd.T @ odd)[0, 0]) != n * int(LARGEST - 1) ** 2


ENTRIES = [0.0, 5e-324, 1e-9, 0.1, 0.5, 1 / math.sqrt(2), 1.0, 3.0, 1e4, 1e155, 1.7e308]


@pytest.mark.parametrize("bound", [1.0, 0.3, 1e-305, 1e300])
def test_no_row_is_longer_than_the_bound_in_whole_numbers(bound):
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        signs = rng.choice([-1, 1], size=(4000, 5)) * min(bound, 1.0)
        rows = signs * rng.choice(ENTRIES, size=(4000, 5))
        rows[:500] = rng.normal(size=(500, 5))
        dense, sparse = whole_rows(rows, bound), whole_rows(csr_array(rows), bound)
    assert np.array_equal(dense, sparse.toarray())
    squares = [sum(int(entry) ** 2 for entry in row) for row in dense]
    assert 0.999 * 4**21 < max(squares) <= 4**21
    if bound == 1.0:
        assert len(find_long(rows)) > 100  # broken twin: rounding alone


def find_long(rows):
    """Unit rows that are too long in whole numbers, if these are merely the nearest."""
    rows = rows[:500] / np.linalg.norm(rows[:500], axis=1)[:, None]
    nearest = np.rint(rows * LARGEST).astype(int)
    return [q for q in nearest if sum(int(entry) ** 2 for entry in q) > 4**21]


def test_rows_that_are_no_numbers_are_bounded_all_the_same():
    rows = np.array([[np.nan, 0.1], [np.inf, -np.inf], [1.0, np.nan]])
    with np.errstate(all="ignore"):
        for stored in (whole_rows(rows, 1.0), whole_rows(csr_array(rows), 1.0)):
            found = stored.toarray() if hasattr(stored, "toarray") else stored
            assert (np.sum(found**2, axis=1) <= 4.0**21).all()


@by_weights
def test_the_query_can_be_read_back(t, k):
    query = sums_of(OBJECTIVE, t, k)
    source = MemorySource(*make_data())
    again, (sums,) = (
        query.read(query.total(source, None)),
        query.whole_sums(source, None),
    )
    upper = np.triu_indices(query.n_features, 1)
    read = [np.diag(again.rows_rows), again.rows_rows[upper]]
    if k > 0:
        read.append(again.rows_targets)
    if t > 0:
        read.append(again.rows)
    if t > 0 and k > 0:
        read.append([again.targets])
    assert np.allclose(np.concatenate(read), sums.value() * query.unit)


def test_null_records_contribute_exactly_nothing():
    X, y = make_data()
    present = np.random.default_rng(3).random(len(y)) < 0.6
    X[~present] *= 1e300
    for stored in (X, csr_array(X)):
        masked = query_of(MemorySource(stored, y, present), OBJECTIVE, 0.5, 1.0)
        kept = query_of(MemorySource(X[present], y[present]), OBJECTIVE, 0.5, 1.0)
        assert np.array_equal(masked, kept)
    none = MemorySource(X, y, np.zeros(len(y), dtype=bool))
    assert np.array_equal(query_of(none, OBJECTIVE, 0.5, 1.0), np.zeros(19))


@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, csr_array])
@pytest.mark.parametrize("value", [1e308, 1e150, 5e-324])
def test_a_huge_record_changes_no_other_records_rounding(layout, value):
    X, y = make_data(n=3000, d=40)
    objective = replace(OBJECTIVE, n_samples=3000, n_features=40)
    present = np.ones(3000, dtype=bool)
    present[7] = False  # what is left are the others
    sums = []
    for entry in (0.1, value):
        X[7] = entry
        sums.append(query_of(MemorySource(layout(X), y, present), objective, 0.5, 1.0))
    assert np.array_equal(sums[0], sums[1])
    whole = query_of(MemorySource(layout(X), y), objective, 0.5, 1.0)
    limit = MomentWeights(0.5, 1.0).record_norm()
    assert np.linalg.norm(whole - sums[0]) <= limit * (1 + 1e-9)


def farthest(adjacency, t, k, seed=0, d=3, h=0.0):
    """Largest difference found by climbing from random and adversarial records."""
    rng = np.random.default_rng(seed)
    largest = 0.0
    for start in range(24):
        x, z = rng.normal(size=(2, d)) * rng.choice([0.3, 1.0, 3.0])
        if start % 3 == 1:
            z = -x + 0.1 * z
        if start % 3 == 2:
            z = rng.normal() * np.linalg.norm(x) * np.eye(d)[0]
        ya, yb = rng.choice([-1.0, 1.0], 2)

        def negative(p, ya=ya, yb=yb):
            difference = contribution(p[:d], ya * np.cos(p[-2]), t, k, h=h)
            if adjacency == "replace_one":
                other = contribution(p[d : 2 * d], yb * np.cos(p[-1]), t, k, h=h)
                difference = difference - other
            return -float(np.linalg.norm(difference))

        point = np.concatenate([x, z, rng.uniform(-1, 1, 2)])
        found = minimize(negative, point, method="BFGS", options={"maxiter": 200})
        largest = max(largest, -found.fun)
    return largest


@by_adjacency
@by_weights
def test_search_never_exceeds_the_sensitivity_and_attains_it(adjacency, t, k):
    stated = MomentWeights(t, k).bound().under(adjacency)
    found = farthest(adjacency, t, k)
    assert 0.999 * stated <= found <= stated


@by_adjacency
@pytest.mark.parametrize("h", [0.5, 3.0])
def test_search_with_squares_of_targets_never_exceeds_the_sensitivity(adjacency, h):
    stated = MomentWeights(0.5, 1.0, h).bound().under(adjacency)
    found = farthest(adjacency, 0.5, 1.0, h=h)
    least = 0.999 if adjacency == "zero_out" else 0.8
    assert least * stated <= found <= stated
    # The broken twin leaves them out, which replace_one shows if they weigh much.
    twin = MomentWeights(0.5, 1.0).bound().under(adjacency)
    assert found > 1.01 * twin or (adjacency, h) == ("replace_one", 0.5)


def test_second_moments_alone_show_that_halving_is_wrong():
    """X'X: norm 1 under zero_out, sqrt(2) under replace_one, neither half nor twice."""
    weights = MomentWeights(0.0, 1e-6)
    assert weights.bound().under("zero_out") == pytest.approx(1.0)
    assert weights.bound().under("replace_one") == pytest.approx(math.sqrt(2))
    assert farthest("replace_one", 0.0, 1e-6) == pytest.approx(math.sqrt(2), rel=1e-3)


TWINS = {
    "half of replace_one under zero_out": (
        "zero_out",
        lambda w: w.bound().under("replace_one") / 2,
    ),
    "zero_out used under replace_one": (
        "replace_one",
        lambda w: w.bound().under("zero_out"),
    ),
    "second moments alone": ("zero_out", lambda w: 1.0),
    "no cross terms of the intercept": (
        "zero_out",
        lambda w: math.sqrt(1 + w.target**2),
    ),
    "upper triangle counted once": (
        "zero_out",
        lambda w: math.sqrt(1 + w.intercept**2 + w.target**2 * (1 + w.intercept**2)),
    ),
    "angle forgotten": (
        "replace_one",
        lambda w: math.sqrt(2 + 2 * (2 * w.intercept**2 + w.target**2)),
    ),
}


@pytest.mark.parametrize("twin", TWINS)
def test_broken_sensitivities_are_found_out(twin):
    adjacency, stated = TWINS[twin]
    assert farthest(adjacency, 0.5, 1.0) > 1.01 * stated(MomentWeights(0.5, 1.0))


def test_doubling_zero_out_would_waste_noise():
    """The other direction of the same mistake is safe but not exact."""
    for t, k in WEIGHTS:
        weights = MomentWeights(t, k)
        doubled = 2 * weights.bound().under("zero_out")
        assert weights.bound().under("replace_one") < 0.995 * doubled


@by_adjacency
@pytest.mark.parametrize("data_norm", [0.1, 12.0, 100.0])
@pytest.mark.parametrize("bound", [0.01, 30.0])
def test_neighbours_in_other_units_never_exceed_the_sensitivity(
    adjacency, data_norm, bound
):
    """R in place of R^2, or targets that are not clipped, would show here."""
    loss = SquaredLoss(2 * bound, target_bound=bound)
    objective = replace(
        OBJECTIVE, loss=loss, n_samples=5, n_features=2, data_norm=data_norm
    )
    stated = MomentWeights(0.5, 1.0).bound().under(adjacency)
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(600):
        X, y = data_norm * rng.normal(size=(5, 2)), 5 * bound * rng.normal(size=5)
        Z, v, present = X.copy(), y.copy(), None
        if adjacency == "zero_out":
            present = np.array([False, True, True, True, True])
        else:
            Z[0] = rng.choice([-1, 0.1, 1]) * X[0] + data_norm * rng.normal(size=2)
            v[0] = rng.choice([-1, 1]) * y[0]
        a = query_of(MemorySource(X, y), objective, 0.5, 1.0)
        b = query_of(MemorySource(Z, v, present), objective, 0.5, 1.0)
        shares.append(np.linalg.norm(a - b) / stated)
    assert 0.9 < max(shares) <= 1 + 1e-9


def test_sums_depend_on_no_order_and_little_is_charged():
    X, y = make_data(n=20_000)
    objective = replace(OBJECTIVE, n_samples=20_000)
    sums = [
        query_of(MemorySource(X[order], y[order]), objective, 0.5, 1.0)
        for order in (np.arange(20_000), np.arange(20_000)[::-1], np.argsort(y))
    ]
    assert all(np.array_equal(sums[0], other) for other in sums[1:])
    of_blocks = {sums_of(objective, 0.5, 1.0).slack(Layout(b)) for b in (1, 7, 20_000)}
    (slack,) = of_blocks
    assert 0 < slack < 1e-10


@by_adjacency
def test_neighbours_are_within_bound_and_slack(adjacency):
    """Without a margin: rows in whole numbers are never longer than the bound."""
    query = sums_of(replace(OBJECTIVE, n_samples=5, n_features=2), 0.5, 1.0)
    charged = query.bound().under(adjacency) + query.slack(Layout(5))
    rng = np.random.default_rng(1)
    largest = 0.0
    for _ in range(400):
        X, y = 3 * rng.normal(size=(5, 2)), 5 * rng.normal(size=5)
        Z, v, present = X.copy(), y.copy(), None
        if adjacency == "zero_out":
            present = np.array([False, True, True, True, True])
        else:
            # As the bound is attained: rows at a right angle or opposite.
            Z[0] = rng.choice([-1, 1]) * (
                X[0][::-1] * [1, -1] if rng.random() < 0.5 else X[0]
            )
            v[0] = rng.choice([-1, 1]) * y[0]
        with np.errstate(all="ignore"):
            a = query.total(MemorySource(X, y), None)
            b = query.total(MemorySource(Z, v, present), None)
        largest = max(largest, float(np.linalg.norm(a - b)))
    assert 0.9 * charged < largest <= charged


def resolved(objective=OBJECTIVE, budget=BUDGET, **params):
    return door.planned(AdaSSP, objective, budget, **params)


@by_adjacency
def test_pure_epsilon_takes_spherical_noise(adjacency):
    budget, objective = Budget(1.0, 0.0), replace(OBJECTIVE, adjacency=adjacency)
    solver = resolved(objective, budget)
    assert solver.law == "spherical"
    z = calibrate(lambda z: door.event_of(solver, z, objective), budget)
    event = door.event_of(solver, z, objective)
    assert isinstance(event, PureEvent)
    assert 0.999 <= epsilon_of(event, 0.0) <= 1.0
    noise = SpyNoise()
    source = MemorySource(*make_data())
    run = door.run(solver, source, objective, z, noise)
    (draw,) = noise.draws
    assert (draw.law, draw.noise_multiplier) == ("spherical", 1 / (1 / z))
    stated = solver.sensitivity(objective)
    assert stated <= draw.sensitivity <= stated * (1 + 1e-9)
    assert np.isfinite(run.weights).all()
    assert "spherical" in solver.mechanism
    # Not a Gaussian event, which would cost infinity at delta = 0.
    assert epsilon_of(GaussianEvent(z), 0.0) == math.inf


def test_spherical_noise_has_the_stated_scale():
    """Mean squared entry against noise_scale, at six standard deviations (1e-8)."""
    objective = replace(OBJECTIVE, n_samples=1, fit_intercept=False)
    solver = resolved(objective, Budget(1.0, 0.0))
    squares = []
    for seed in range(400):
        noise = SpyNoise(seed=seed)
        source = MemorySource(np.zeros((1, 4)), np.zeros(1))
        run = door.run(solver, source, objective, 1.0, noise)
        squares.append(np.mean(noise.draws[0].released ** 2) / run.noise_scale**2)
    error = np.std(squares) / math.sqrt(len(squares))
    assert abs(np.mean(squares) - 1) < 6 * error < 0.3


def test_refusals_have_reasons():
    def refused(objective, budget=BUDGET, **params):
        return door.refusal(AdaSSP, objective, budget, **params)

    assert "squared loss" in refused(OBJECTIVE.with_loss(LogisticLoss()))
    unbounded = OBJECTIVE.with_loss(SquaredLoss(2.0))
    assert "bound on the targets" in refused(unbounded)
    assert "law=None" in refused(OBJECTIVE, Budget(1.0, 0.0), law="gaussian")
    assert "noisy_gd" in refused(replace(OBJECTIVE, n_features=4000))
    assert "finite data_norm" in refused(replace(OBJECTIVE, data_norm=math.inf))


@pytest.mark.parametrize(
    "params",
    [
        {"law": "laplace"},
        {"intercept_weight": 0.0},
        {"intercept_weight": 1.1},
        {"target_weight": math.inf},
        {"ridge": -1.0},
        {"ridge": "none"},
    ],
)
def test_bad_parameters(params):
    with pytest.raises((ValueError, TypeError), match=next(iter(params))):
        resolved(**params)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 0.1])
def test_without_noise_and_ridge_it_is_least_squares(fit_intercept, alpha):
    objective = replace(
        OBJECTIVE, data_norm=6.0, alpha=alpha, fit_intercept=fit_intercept
    )
    X, y = make_data()
    y /= 20
    source = MemorySource(X, y)
    solver = resolved(objective, ridge=0.0)
    run = door.run(solver, source, objective, 1.0, NoNoise())
    A = np.column_stack([X, np.full(300, 6.0)]) if fit_intercept else X
    matrix = A.T @ A + 300 * alpha * np.eye(A.shape[1])
    optimum = np.linalg.solve(matrix, A.T @ y)
    assert np.allclose(run.weights[:, 0], optimum, atol=GRID)


def test_the_error_falls_like_one_over_n():
    """Sixteen times the records, a sixteenth of the error of the weights."""
    truth, errors = np.array([0.5, -0.3]), []
    for n in (4000, 64_000):
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, size=(n, 2)) / math.sqrt(2)
        objective = replace(OBJECTIVE, n_samples=n, n_features=2)
        source = MemorySource(X, X @ truth)
        runs = [
            door.run(resolved(objective), source, objective, 5.0, NoiseSource(s))
            for s in range(40)
        ]
        deviations = [run.weights[:2, 0] - truth for run in runs]
        errors.append(math.sqrt(np.mean(np.square(deviations))))
    assert 8 < errors[0] / errors[1] < 32


@pytest.mark.parametrize("spherical", [False, True])
def test_pure_noise_is_not_fitted(spherical):
    """Indefinite matrices and tiny data: weights stay near those of a constant model.

    Broken twin: inverting the released matrix as it is.
    """
    budget = Budget(0.1, 0.0 if spherical else 1e-6)
    objective = replace(OBJECTIVE, n_samples=50)
    z = calibrate(
        lambda z: door.event_of(resolved(budget=budget), z, objective), budget
    )
    X, y = make_data(n=50)
    sizes = {"adaptive": [], 0.0: []}
    for ridge in sizes:
        for seed in range(60):
            solver = resolved(objective, budget, ridge=ridge)
            noise = NoiseSource(seed)
            source = MemorySource(X, y)
            run = door.run(solver, source, objective, z, noise)
            sizes[ridge].append(np.linalg.norm(run.weights))
    assert np.quantile(sizes["adaptive"], 0.9) < 2
    assert max(sizes[0.0]) > 5 * max(sizes["adaptive"]) or max(sizes[0.0]) > 20


def test_the_estimated_risk_has_no_bias():
    """Mean of the estimate against the true risk of the same fits (ridge fixed)."""
    rng = np.random.default_rng(0)
    d, sigma, ridge = 4, 0.3, 8.0
    G, g = np.diag([9.0, 7.0, 5.0, 3.0]), np.array([4.0, -2.0, 1.0, 0.5])
    gaps = []
    for _ in range(4000):
        upper = sigma * np.triu(rng.normal(size=(d, d)), 1) / math.sqrt(2)
        matrix = G + upper + upper.T + sigma * np.diag(rng.normal(size=d))
        vector = g + sigma * rng.normal(size=d)
        inverse = np.linalg.inv(matrix + ridge * np.eye(d))
        w = inverse @ vector
        trace, size = np.trace(inverse), w @ w
        estimate = w @ matrix @ w + sigma**2 * (trace * size + w @ inverse @ w)
        estimate -= 2 * (vector @ w - sigma**2 * trace)
        gaps.append(estimate - (w @ G @ w - 2 * g @ w))
        naive = w @ matrix @ w - 2 * vector @ w
        gaps[-1] = (gaps[-1], naive - (w @ G @ w - 2 * g @ w))
    (bias, naive), error = np.mean(gaps, axis=0), np.std(gaps, axis=0)[0] / 4000**0.5
    assert abs(bias) < 6 * error + 1e-3  # 1e-8, and terms of higher order
    assert abs(naive) > 2 * abs(bias) + 6 * error  # fitting the noise is found out


def test_no_signal_gives_the_zero_fit():
    found = _least_risk(np.ones(3), np.zeros(3), 1.0, 1.0)
    assert np.array_equal(found, np.zeros(3))


@pytest.mark.parametrize("data_norm", [1e-100, 1e100])
@pytest.mark.parametrize("alpha", [0.0, 1e-100, 1e100])
def test_extreme_units_stay_finite(data_norm, alpha):
    objective = replace(OBJECTIVE, data_norm=data_norm, alpha=alpha)
    X, y = make_data()
    for scale in (1e-300, 1.0, 1e300):
        for ridge in ("adaptive", 0.0):
            solver = resolved(objective, ridge=ridge)
            with np.errstate(all="ignore"):
                source = MemorySource(scale * X, y)
                run = door.run(solver, source, objective, 5.0, NoiseSource(0))
            assert np.isfinite(run.weights).all()
