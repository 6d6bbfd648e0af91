"""What the three accelerated methods share: course, division, laws, batches."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal, getcontext
from functools import partial
from itertools import combinations, product

import numpy as np
import pytest

from skdp._fit import Progress, release
from skdp.exceptions import SourceError
from skdp.losses import LogisticLoss, SoftmaxLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import (
    Budget,
    ComposedEvent,
    GaussianEvent,
    PureEvent,
    calibrate,
    epsilon_of,
)
from skdp.privacy.accounting._gaussian import batch_epsilon
from skdp.privacy.noise._laws import LAWS
from skdp.privacy.noise._noise import NoiseSource
from skdp.privacy.release._plan import EVERYONE
from skdp.solvers import SOLVERS
from skdp.solvers._accelerated import AcceleratedGD, best_step_count, error_bounds
from skdp.solvers._base import ChosenLaw
from skdp.solvers._registry import choose_solver, named_solver
from skdp.sums._exact import on_grid
from skdp.sums._gradient import ClippedGradient
from skdp.tables._memory import MemorySource
from tests import door
from tests.gradients import exact_sum, query_sensitivity
from tests.problems import ADJACENCIES, LOSSES
from tests.solvers.neighbours import largest_change
from tests.spies import NoNoise, SpyNoise

LOSS = LogisticLoss()
OBJECTIVE = LinearObjective(
    loss=LOSS, n_samples=2000, n_features=5, data_norm=1.0, adjacency="zero_out"
)
BUDGET = Budget(1.0, 1e-6)
PURE = Budget(1.0, 0.0)
KEYS = ("heavy_ball", "multistage", "nesterov")
every_key = pytest.mark.parametrize("key", KEYS)
every_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES)
every_budget = pytest.mark.parametrize("budget", [BUDGET, PURE], ids=["mu", "pure"])


def resolved(key="nesterov", objective=OBJECTIVE, budget=BUDGET, **params):
    return door.planned(SOLVERS[key], objective, budget, **params)


def make_data(n=200, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X / np.linalg.norm(X, axis=1)[:, None], rng.integers(0, 2, n).astype(float)


# Rules -----------------------------------------------------------------------------


@every_key
@every_budget
def test_defaults_follow_from_public_facts_only(key, budget):
    solver = resolved(key, budget=budget)
    assert solver == resolved(key, budget=budget)
    smoothness = LOSS.smoothness * OBJECTIVE.row_norm**2
    assert solver.step_size <= 1 / smoothness
    # Without regularisation mu is that of the flow time: more data, a longer run.
    longer = resolved(key, replace(OBJECTIVE, n_samples=10**6), budget=budget)
    assert longer.n_steps > solver.n_steps
    assert longer.strong_convexity < solver.strong_convexity
    regular = resolved(key, replace(OBJECTIVE, alpha=1.0), budget=budget)
    assert regular.strong_convexity == 1.0
    assert regular.n_steps < solver.n_steps


@every_key
def test_units_of_the_features_do_not_matter(key):
    small, large = resolved(key), resolved(key, replace(OBJECTIVE, data_norm=1000.0))
    assert small.n_steps == large.n_steps
    assert small.step_size == pytest.approx(large.step_size * 1e6)
    assert large.strong_convexity == pytest.approx(small.strong_convexity * 1e6)


@pytest.mark.parametrize("scale", [0.1, 100.0])
def test_fits_in_other_units_are_the_same_fit(scale):
    X, y = make_data(2000)

    def fit(factor):
        objective = replace(OBJECTIVE, data_norm=factor)
        solver = resolved(objective=objective)
        z = calibrate(lambda z: door.event_of(solver, z, objective), BUDGET)
        source = MemorySource(factor * X, y)
        run = door.run(solver, source, objective, z, NoiseSource(1))
        return run.weights * factor

    # The grid is a power of two, so the scaled runs differ by its rounding.
    assert np.allclose(fit(1.0), fit(scale), rtol=0.05, atol=0.02)


def test_the_number_of_steps_is_that_of_the_best_bound():
    objective = replace(OBJECTIVE, n_features=100, n_samples=2000, alpha=0.01)
    divided, even = (
        resolved(objective=objective, division=d) for d in ("optimal", "even")
    )
    bounds = error_bounds(
        np.full(400, divided.step_size),
        np.ones(400, dtype=int),
        smoothness=LOSS.smoothness * objective.row_norm**2 + 0.01,
        strong_convexity=0.01,
        first_excess=math.log(2),
        variance=101
        * (calibrate(GaussianEvent, BUDGET) * divided.sensitivity(objective) / 2000)
        ** 2,
        is_pure=False,
    )
    assert divided.n_steps == best_step_count(bounds)
    assert 1 < even.n_steps < divided.n_steps


@pytest.mark.parametrize("value", [1e-250, 1e250])
@pytest.mark.parametrize("alpha", [0.0, 1e-200, 1e100])
@every_key
@every_budget
def test_extreme_constants_still_give_a_run(key, value, alpha, budget):
    objective = replace(OBJECTIVE, alpha=alpha)
    for params in ({"step_size": value}, {"strong_convexity": value}):
        both = {"step_size": value, "strong_convexity": value}
        for chosen in ({}, params, both):
            solver = resolved(key, objective, budget=budget, **chosen)
            assert 1 <= solver.n_steps <= 1000
            event = door.event_of(solver, 3.0, objective)
            assert all(leaf.count >= 1 for leaf in event.leaves)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_steps": 0}, "n_steps"),
        ({"batch_size": 2.5}, "batch_size"),
        ({"step_size": -1.0}, "step_size"),
        ({"strong_convexity": 0.0}, "strong_convexity"),
        ({"division": "fair"}, "division"),
        ({"residual_clip": 0.0}, "residual_clip"),
        ({"intercept_weight": 1.5}, "intercept_weight"),
        ({"law": "laplace"}, "law"),
        ({"sigma": 0.0}, r"sigma.*cannot be set"),
    ],
)
@every_key
def test_bad_parameters_are_named(key, params, message):
    with pytest.raises((TypeError, ValueError), match=message):
        named_solver(key, params)


@pytest.mark.parametrize(
    ("params", "budget", "message"),
    [
        ({"law": "gaussian"}, PURE, "law=None"),
        ({"batch_size": 10}, BUDGET, "solver='noisy_sgd'"),
        ({"batch_size": 10, "law": "gaussian"}, BUDGET, "solver='noisy_sgd'"),
        ({"n_steps": 10**4}, Budget(1e-6, 0.0), "fewer n_steps"),
        (
            {"n_steps": 2, "law": "spherical"},
            BUDGET,
            "law=None for Gaussian noise, or delta=0",
        ),
        (
            {"batch_size": 10, "law": "spherical"},
            BUDGET,
            "law=None for Gaussian noise, or delta=0",
        ),
    ],
)
@every_key
def test_refusals_say_what_to_do(key, params, budget, message):
    objective = replace(OBJECTIVE, n_features=20_000)
    assert message in door.refusal(SOLVERS[key], objective, budget, **params)


@pytest.mark.parametrize("n_steps", [2, 5, 20, 100, 1000])
@pytest.mark.parametrize("size", [1, 5, 100])
def test_what_is_refused_beside_a_delta_is_never_the_least_noise(n_steps, size):
    """One of the two remedies has no more noise in an entry than the refused law."""
    spherical, gaussian = LAWS["spherical"], LAWS["gaussian"]

    def deviation(law, kind, budget):
        return law.deviation(calibrate(kind, budget), size)

    def pure(z):
        return PureEvent(1 / z, n_steps)

    refused = deviation(spherical, pure, BUDGET)
    remedies = (
        deviation(spherical, pure, Budget(BUDGET.epsilon, 0.0)),
        deviation(gaussian, lambda z: GaussianEvent(z, n_steps), BUDGET),
    )
    assert min(remedies) <= refused * (1 + 1e-5)


@every_key
def test_twin_that_takes_any_law_is_caught(key, monkeypatch):
    given = {"n_steps": 2, "law": "spherical"}
    assert door.refusal(SOLVERS[key], OBJECTIVE, BUDGET, **given)
    monkeypatch.setattr(ChosenLaw, "check_steps", lambda *_: None)
    assert door.refusal(SOLVERS[key], OBJECTIVE, BUDGET, **given) == ""


@every_key
def test_batches_are_taken_with_spherical_noise(key):
    once = {"n_steps": 1, "law": "spherical"}
    for budget, params in ((PURE, {}), (PURE, {"law": "spherical"}), (BUDGET, once)):
        assert (
            door.refusal(SOLVERS[key], OBJECTIVE, budget, batch_size=10, **params) == ""
        )
    # A batch of everything is no batch.
    assert door.refusal(SOLVERS[key], OBJECTIVE, BUDGET, batch_size=2000) == ""
    assert resolved(key, batch_size=2000).sample(OBJECTIVE) == EVERYONE
    # More than there are means all of them, as for the other solvers.
    assert resolved(key, batch_size=2001) == resolved(key, batch_size=2000)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble])
@every_key
def test_numpy_scalars_become_plain_numbers(key, kind):
    solver = resolved(
        key,
        budget=PURE,
        n_steps=np.int8(3),
        step_size=kind(0.5),
        strong_convexity=kind(0.01),
        residual_clip=kind(0.4),
        intercept_weight=kind(0.3),
        batch_size=np.int16(200),
    )
    plain = (int, float, str, bool)
    assert all(type(value) in plain for value in vars(solver).values())
    assert all(type(v) in plain for v in vars(resolved(key)).values())


# The course of a run ----------------------------------------------------------------


def reference(solver, source, objective):
    """The definition, in the papers' letters, without noise."""
    exact = exact_sum(source, objective, solver.residual_clip)

    def gradient(weights):
        return exact(on_grid(weights))

    x = before = np.zeros((objective.n_columns, objective.loss.n_outputs))
    sizes, momenta, stages = solver.schedule(objective)
    for t in range(solver.n_steps):
        if t and stages[t] > stages[t - 1]:
            before = x
        z = (1 + momenta[t]) * x - momenta[t] * before
        at = x if solver.key == "heavy_ball" else z
        mean = gradient(at) / objective.n_samples + objective.alpha * at
        x, before = z - sizes[t] * mean, x.copy()
        # The intercept's velocity starts anew where it leads uphill.
        climbs = mean[-1] * (x - before)[-1] > 0
        climbs &= solver.restarts_intercept
        before[-1] = np.where(climbs, x[-1], before[-1])
    return x


@every_key
@pytest.mark.parametrize("loss", [LOSS, SoftmaxLoss(3)], ids=repr)
def test_without_noise_a_run_is_the_method_of_its_name(key, loss):
    objective = replace(OBJECTIVE, loss=loss, n_samples=200, alpha=0.05)
    source = MemorySource(*make_data())
    solver = resolved(key, objective, n_steps=40)
    found = door.run(solver, source, objective, 1.0, NoNoise())
    assert np.allclose(found.weights, reference(solver, source, objective))


@every_key
def test_progress_counts_steps_and_nothing_else(key, capsys):
    source = MemorySource(np.zeros((10, 5)), np.zeros(10))
    objective = replace(OBJECTIVE, n_samples=10)
    solver = resolved(key, objective, n_steps=3, batch_size=10)
    progress = Progress("fit", True)
    door.run(solver, source, objective, 9.0, NoiseSource(0), progress)
    assert capsys.readouterr().out.splitlines() == [
        f"[fit] step {i} of 3" for i in (1, 2, 3)
    ]


@every_key
@pytest.mark.parametrize("params", [{"step_size": 1e214}, {"intercept_weight": 1e-6}])
@pytest.mark.parametrize("entry", [0.3, 3e99, 1e308])
def test_a_diverging_run_ends_like_any_other(key, params, entry):
    X = np.full((60, 8), 0.3)
    X[0] = entry
    objective = replace(OBJECTIVE, n_samples=60, n_features=8, alpha=50.0)
    solver = resolved(key, objective, n_steps=6, **params)
    source = MemorySource(X, np.arange(60.0) % 2)
    with np.errstate(all="ignore"):
        run = door.run(solver, source, objective, 5.0, NoiseSource(0))
    assert np.isfinite(run.weights).all()
    assert np.abs(run.weights).max() <= 1e50


def test_broken_twin_without_the_box_is_found_out(monkeypatch):
    module = "skdp.solvers._steps.projected_onto_box"
    monkeypatch.setattr(module, lambda values, limit: values)
    found = (AssertionError, np.linalg.LinAlgError, ValueError, SourceError)
    with pytest.raises(found):
        test_a_diverging_run_ends_like_any_other("nesterov", {"step_size": 1e214}, 0.3)


# Event and noise --------------------------------------------------------------------


def test_unequal_gaussian_releases_compose_exactly():
    """mu^2 is the sum of 1 / z_t^2, and the event's cost that of 1 / multiplier."""
    solver = resolved(n_steps=50, strong_convexity=0.05)
    event = door.event_of(solver, 3.0, OBJECTIVE)
    assert isinstance(event, ComposedEvent)
    assert all(isinstance(leaf, GaussianEvent) for leaf in event.leaves)
    assert sum(leaf.count for leaf in event.leaves) == 50
    squares = sum(leaf.count / leaf.noise_multiplier**2 for leaf in event.leaves)
    assert event.mu_squared == pytest.approx(squares, rel=1e-12)
    assert squares == pytest.approx(1 / 9, rel=1e-12)
    assert len(door.event_of(resolved(n_steps=3000), 3.0, OBJECTIVE).leaves) < 70
    # Later steps get less noise.
    noise = [leaf.noise_multiplier for leaf in event.leaves]
    assert noise == sorted(noise, reverse=True)


def test_an_even_division_is_one_event():
    solver = resolved(n_steps=16, division="even")
    assert door.event_of(solver, 3.0, OBJECTIVE) == GaussianEvent(12.0, 16)
    pure = resolved(n_steps=16, division="even", budget=PURE)
    assert door.event_of(pure, 0.5, OBJECTIVE) == PureEvent(0.125, 16)


@every_key
@every_adjacency
@pytest.mark.parametrize("batch_size", [None, 30])
def test_pure_noise_drawn_equals_noise_declared(key, adjacency, batch_size):
    objective = replace(OBJECTIVE, n_samples=200, adjacency=adjacency)
    solver = resolved(key, objective, budget=PURE, n_steps=7, batch_size=batch_size)
    noise = SpyNoise()
    solution, answers = release(
        solver,
        MemorySource(*make_data()),
        objective,
        door.OpenDoor(PURE, adjacency=adjacency, noise=noise),
        label="test",
        progress=Progress(),
    )
    declared = [
        leaf.epsilon for leaf in answers.event.leaves for _ in range(leaf.count)
    ]
    rate = (batch_size or 200) / 200
    drawn = [math.log1p(rate * math.expm1(draw.epsilon)) for draw in noise.draws]
    assert np.allclose(drawn, declared, rtol=1e-11)
    assert 0.996 <= epsilon_of(answers.event, 0.0) <= 1.0
    assert all(draw.law == "spherical" for draw in noise.draws)
    worst = solver.sensitivity(objective)
    assert max(draw.sensitivity for draw in noise.draws) <= worst * (1 + 1e-9)
    assert solution.noise_scale == max(draw.sigma for draw in noise.draws)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@every_adjacency
def test_neighbours_never_exceed_the_sensitivity(loss, adjacency):
    objective = replace(OBJECTIVE, loss=loss, n_features=3, adjacency=adjacency)
    params = {"residual_clip": math.inf, "intercept_weight": 0.5}
    solver = resolved(objective=objective, **params)
    share = largest_change(objective, 0.5) / solver.sensitivity(objective)
    assert 0.75 < share <= 1 + 1e-9
    # In a batch another record takes the place of the missing one.
    batch = replace(solver, batch_size=20, law="spherical")
    other = replace(objective, adjacency="replace_one")
    change = largest_change(other, 0.5)
    assert 0.75 < change / batch.sensitivity(objective) <= 1 + 1e-9
    if adjacency == "zero_out":  # the twin: half of it, as without batches
        assert change > 1.05 * solver.sensitivity(objective)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_an_exchange_for_a_null_record_costs_no_more_than_for_another(loss):
    """Theorem 3 uses it: the sensitivity of exchanges covers null records too."""
    for clip, norm in product((0.3, math.inf), (0.0, 0.1, 1.0, 30.0, math.inf)):
        null, other = (
            query_sensitivity(
                replace(OBJECTIVE, loss=loss, adjacency=adjacency), clip, norm
            )
            for adjacency in ("zero_out", "replace_one")
        )
        assert null <= other


# Batches ----------------------------------------------------------------------------


def test_amplified_epsilon_is_exact_and_rounded_up():
    getcontext().prec = 60
    for epsilon in (1e-12, 1e-3, 0.5, 3.0, 40.0, 499.0, 501.0, 5e3, 1e6):
        for rate in (1e-9, 0.01, 0.5, 1.0):
            growth = Decimal(epsilon).exp() - 1
            exact = (1 + Decimal(rate) * growth).ln()
            found = Decimal(batch_epsilon(epsilon, rate))
            assert exact <= found <= exact * (1 + Decimal("3e-12"))
    assert math.isfinite(batch_epsilon(1e90, 1e-9))


def largest_log_ratio(n, m, adjacency, scale):
    """Over all neighbours in one dimension: of the densities of a noisy batch sum.

    Gradients of logistic records at weights 0 lie in [-1/2, 1/2]; null records give 0.
    The releases of all batches are mixed with equal weights; extremes are in the tails
    and at the centres of the noise.
    """
    z = np.concatenate([np.linspace(-3.0, 3.0, 241), [-50.0, 50.0]])

    def log_density(records):
        sums = [sum(batch) for batch in combinations(records, m)]
        far = -np.abs(z[:, None] - np.array(sums)) / scale
        return np.logaddexp.reduce(far, axis=1)

    worst = 0.0
    values = (-0.5, 0.0, 0.5)
    for others in product(values, repeat=n - 1):
        for first, second in product(values, repeat=2):
            if adjacency == "zero_out" and 0.0 not in (first, second):
                continue
            ratio = log_density((first, *others)) - log_density((second, *others))
            worst = max(worst, float(np.abs(ratio).max()))
    return worst


@every_adjacency
@pytest.mark.parametrize(("n", "m"), [(2, 1), (3, 1), (4, 2), (4, 3)])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_no_pair_of_neighbours_exceeds_the_claim_for_batches(adjacency, n, m, epsilon):
    """Exact likelihood ratios; the claim is attained for exchanges."""
    objective = replace(
        OBJECTIVE, n_samples=n, n_features=1, fit_intercept=False, adjacency=adjacency
    )
    solver = resolved(objective=objective, budget=PURE, n_steps=1, batch_size=m)
    (leaf,) = door.event_of(solver, 1 / epsilon, objective).leaves
    noise = SpyNoise(seed=0)
    X, y = np.ones((n, 1)), np.ones(n)
    door.run(solver, MemorySource(X, y), objective, 1 / epsilon, noise)
    scale = noise.draws[0].sensitivity / epsilon
    worst = largest_log_ratio(n, m, adjacency, scale)
    assert worst <= leaf.epsilon
    if adjacency == "replace_one":
        assert worst >= leaf.epsilon * (1 - 1e-5)
        return
    # What would be enough, and is not charged
    # (docs/proofs/gradient_descent.md, after Theorem 3).
    rate = m / n
    half = 1 - rate + rate * math.exp(epsilon / 2)
    proved = math.log((1 - rate + rate * math.exp(epsilon)) / half)
    assert proved * (1 - 1e-5) <= worst <= proved
    # The planted bug: the sensitivity of a missing record, half as large.
    twin = largest_log_ratio(n, m, adjacency, scale / 2)
    assert twin > leaf.epsilon * 1.01


class RowSpy(SpyNoise):
    """Keeps the batches too."""

    def subset(self, n, size):
        rows = super().subset(n, size)
        self.__dict__.setdefault("batches", []).append((n, size, rows))
        return rows


@every_key
def test_every_step_sees_a_fresh_secret_batch(key):
    """The first step too: a full first gradient would cost its whole epsilon."""
    objective = replace(OBJECTIVE, n_samples=200)
    X, y = make_data()
    source = MemorySource(X, y)
    solver = resolved(key, objective, budget=PURE, n_steps=5, batch_size=30)
    noise = RowSpy(seed=4)
    door.run(solver, source, objective, 1.0, noise)
    assert [(n, size) for n, size, _ in noise.batches] == [(200, 30)] * 5
    assert len({tuple(rows) for *_, rows in noise.batches}) == 5
    rows = noise.batches[0][2]
    zero = np.zeros((6, 1))
    expected = exact_sum(MemorySource(X[rows], y[rows]), objective)(zero)
    expected[-1] *= solver.intercept_weight
    assert np.allclose(noise.draws[0].query, expected)


def test_a_run_without_batches_draws_none():
    noise = RowSpy(seed=4)
    objective = replace(OBJECTIVE, n_samples=200)
    solver = resolved(objective=objective, budget=PURE, n_steps=5)
    door.run(solver, MemorySource(*make_data()), objective, 1.0, noise)
    assert "batches" not in vars(noise)
    assert len(noise.draws) == 5


def test_batches_of_all_storages_and_sizes_return_normally():
    objective = replace(OBJECTIVE, n_samples=200, adjacency="replace_one")
    X, y = make_data()
    present = np.arange(200) % 3 > 0
    for m in (1, 199):
        solver = resolved(objective=objective, budget=PURE, n_steps=3, batch_size=m)
        source = MemorySource(X, y, present)
        run = door.run(solver, source, objective, 1.0, NoiseSource())
        assert np.isfinite(run.weights).all()


def test_other_places_in_a_batch_do_not_move_a_sum():
    """Common records of two batches stand at different rows of the product."""
    rng = np.random.default_rng(0)
    n, d = 400, 40
    X, y = rng.normal(size=(n, d)), rng.integers(0, 2, n).astype(float)
    present = np.arange(n) >= 5
    objective = replace(OBJECTIVE, n_samples=n, n_features=d, fit_intercept=False)
    source = MemorySource(X, y, present)
    for scale in (1.0, 1e6):
        query = ClippedGradient(objective).at(scale * rng.normal(size=(d, 1)))
        total = partial(query.total, query.open(source))
        assert np.array_equal(total(np.arange(5, n)), total(np.arange(n)))


def test_all_three_share_one_engine():
    assert all(issubclass(SOLVERS[key], AcceleratedGD) for key in KEYS)


def test_what_cannot_be_drawn_is_refused_before_the_commit():
    """The grid is a power of two: its share of the noise depends on the sensitivity."""
    loss, budget = LogisticLoss(), Budget(1.0001114068923971e-06, 0.0)
    objective = LinearObjective(
        loss=loss,
        n_samples=50,
        n_features=2000,
        data_norm=1.0169491525423728,
        adjacency="replace_one",
        fit_intercept=False,
    )
    params = {"n_steps": 17038, "division": "even", "step_size": 1e-9}
    with pytest.raises(ValueError, match="cannot draw such noise"):
        choose_solver("nesterov", params, objective, budget)
