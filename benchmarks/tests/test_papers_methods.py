"""The papers' algorithms: identities, printed noise, and the optimum without it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks import smoothing_rate
from benchmarks._papers import _accelerated as accelerated
from benchmarks._papers import _acceleration_tables as tables
from benchmarks._papers import _bolt_on as bolt_on
from benchmarks._papers import _bolt_on_tables as bolt_on_tables
from benchmarks._papers import _thesis as thesis
from benchmarks._papers._descent import Buckets, Logistic, Plan, Sampled, descend
from benchmarks._papers._privacy import amplified, classical_multiplier
from skdp import DPLogisticRegression

MU, D = 0.05, 4
NOISE = accelerated.Noise(kind="laplace", unit=0.02)


@pytest.fixture(scope="module")
def problem() -> Logistic:
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (300, D))
    return Logistic(X * np.where(X @ rng.standard_normal(D) > 0, 1, -1)[:, None], MU)


@pytest.fixture(scope="module")
def noise() -> np.ndarray:
    return np.random.default_rng(2).laplace(size=(60, D, 3))


def task(**facts) -> thesis.Task:
    given = {"n": 300, "d": D, "bound": 2.0, "mu": MU, "smoothness": 1.0 + MU}
    return thesis.Task(**(given | {"n_steps": 60, "epsilon": 1.0} | facts))


PLANS = {
    "gd": accelerated.dp_gd(600, NOISE, 1.05),
    "shb": accelerated.dp_shb(600, NOISE, 1.05, MU),
    "nag": accelerated.dp_nag(600, NOISE, 1.05, MU, divided=True),
    "masg": accelerated.dp_masg(600, NOISE, 1.05, MU),
    "thesis gd": thesis.dp_gd(task(n_steps=600)),
    "thesis hb": thesis.dp_hb(task(n_steps=600)),
    "thesis nag": thesis.dp_nag(task(n_steps=600)),
    "m-asg": thesis.m_asg(task(n_steps=600)),
}


@pytest.mark.parametrize("name", PLANS)
def test_without_noise_every_descent_reaches_the_optimum(problem, name):
    silent = np.zeros((600, D, 1))
    weights = descend(problem, PLANS[name], np.full(D, 2.0), silent)
    near = 0.02 if name == "thesis gd" else 2e-5  # its steps shrink
    assert weights[:, 0] == pytest.approx(problem.optimum(), abs=near)


def test_the_optimum_is_one(problem):
    weights = problem.optimum()
    assert np.abs(problem.gradient(weights[:, None])).max() < 1e-6
    nearby = weights[:, None] + 1e-3 * np.eye(D)
    assert (problem.value(nearby) > problem.value(weights)).all()


def test_one_stage_is_nesterovs_method(problem, noise):
    first = math.ceil(2 * math.sqrt(21) * math.log(math.sqrt(21)))
    for method in (accelerated.dp_nag, accelerated.dp_masg):
        plan = method(first, NOISE, 21 * MU, MU, divided=True)
        result = descend(problem, plan, np.zeros(D), noise)
        if method is accelerated.dp_nag:
            expected = result
    assert result == pytest.approx(expected)


def test_stages_have_the_printed_lengths_and_steps():
    steps, stages = accelerated.multistage(613, 20.0, 1.0)
    root = math.sqrt(20)
    first, unit = math.ceil(2 * root * math.log(root)), math.ceil(root * math.log(8))
    assert (stages == 1).sum() == first
    assert (stages == 3).sum() == 8 * unit
    assert steps[stages == 2] == pytest.approx(1 / 16 / 20)


@pytest.mark.parametrize(
    ("noise_name", "step", "nesterov", "multistage"),
    [
        ("released code", 1.0, 136, 89),
        ("released code", 0.1, 396, 89),
        ("as printed", 1.0, 121, 89),
        ("as printed", 0.1, 349, 89),
    ],
)
def test_best_step_counts_of_section_5(noise_name, step, nesterov, multistage):
    noise = tables.section_5_noise()[noise_name]
    smoothness, mu = 5.1000807, 0.02  # the paper's data
    facts = {"noise": noise, "dimension": 20, "mu": mu, "smoothness": smoothness}
    single = np.full(450, step / smoothness), np.ones(450, int)
    stages = accelerated.multistage(450, smoothness, mu, step)
    found = [
        accelerated.best_step_count(*schedule, **facts, initial=10.0)
        for schedule in (single, stages)
    ]
    assert found == [nesterov, multistage]


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_divided_noise_minimises_its_bound(kind):
    noise = accelerated.Noise(kind=kind, unit=1.0)
    logs = accelerated.log_weights(np.full(30, 1.0), np.ones(30, int), MU, 1.0)
    shares = accelerated._shares(logs, noise.power)
    assert shares.sum() == pytest.approx(1.0)
    least = (np.exp(logs) * noise.scales(shares) ** 2).sum()
    rng = np.random.default_rng(0)
    for _ in range(20):
        other = shares * np.exp(0.1 * rng.standard_normal(30))
        scales = noise.scales(other / other.sum())
        assert (np.exp(logs) * scales**2).sum() > least
    equal = noise.scales(np.full(30, 1 / 30))
    assert (np.exp(logs) * equal**2).sum() > 1.05 * least


def test_the_released_code_has_half_the_variance():
    noise = tables.section_5_noise()
    assert noise["as printed"].variance == pytest.approx(2 * 0.0004**2)
    assert noise["released code"].variance == pytest.approx(0.0004**2)


def test_all_records_in_a_subset_give_the_full_gradient(problem):
    weights = np.random.default_rng(3).standard_normal((D, 2))
    sampled = Sampled(problem, 300, [0, 1]).gradient(weights)
    assert sampled == pytest.approx(problem.gradient(weights), rel=1e-5)
    assert Sampled(problem, 5, [0, 1]).gradient(weights) != pytest.approx(sampled)


def test_smoothing_is_heavy_ball_on_ordinary_releases(problem, noise):
    facts, beta, step = task(), 0.1, 0.3
    smoothed = thesis.dp_gdws(problem, facts, beta, step, np.zeros(D), noise)
    plan = Plan(
        steps=np.full(60, beta * step),
        momentum=np.full(60, 1 - beta),
        scales=facts.equal_scales(),
        looks_ahead=False,
    )
    assert smoothed == pytest.approx(descend(problem, plan, np.zeros(D), noise))


def test_without_smoothing_it_is_gradient_descent(problem, noise):
    facts = task()
    plain = Plan(
        steps=np.full(60, 0.2), momentum=np.zeros(60), scales=facts.equal_scales()
    )
    smoothed = thesis.dp_gdws(problem, facts, 1.0, 0.2, np.zeros(D), noise)
    assert smoothed == pytest.approx(descend(problem, plain, np.zeros(D), noise))


def test_the_hidden_step_of_smoothing():
    ratio = thesis.smoothed_step(task(), 0.1) / thesis.smoothed_step(task(), 1.0)
    assert ratio == pytest.approx(math.sqrt(19))


def test_thesis_noise_is_as_printed():
    assert task().equal_scales() == pytest.approx(2 * 2.0 / 300 * 60)
    sampled = task(batch=10)
    assert sampled.equal_scales() == pytest.approx(4 / 10 * 2 * 10 * 60 / 300)


def synthetic(**facts) -> thesis.Task:
    given = {"n": 10_000, "d": 10, "mu": 0.02, "smoothness": 1.02, "n_steps": 1000}
    return task(**(given | facts))


def test_stages_of_the_thesis_share_the_budget():
    full = synthetic(epsilon=0.5)
    plan = thesis.dp_mag(full)
    starts = np.flatnonzero(plan.restarts)
    assert np.diff([*starts, 1000]).tolist() == [29, 32, 128, 496, 315]
    assert full.true_epsilon(plan.scales) == pytest.approx(0.5)
    # Each stage has a fifth: n_k releases of epsilon / (5 n_k).
    assert plan.scales[29] == pytest.approx(full.sensitivity * 5 * 32 / 0.5)


@pytest.mark.parametrize(
    ("n", "m", "true"), [(10_000, 10, 0.87), (10_000, 1, 733), (60_000, 10, 348)]
)
def test_the_first_stage_of_smag_costs_more_than_its_fifth(n, m, true):
    base = synthetic(n=n, batch=m).step_epsilon(1.0 / 5, 29)
    assert 29 * amplified(base, m / n) == pytest.approx(true, rel=5e-3)


def test_the_noise_aware_step_follows_the_unit_of_the_features():
    """Rows twice as long are the same problem in halved weights: a quarter of the step.

    What (4.21) gives is half, so that the descent is another one; `noisy_gd`, whose
    default follows the noise too, makes the same model.
    """
    short, long = (
        task(bound=bound, mu=MU * bound**2, smoothness=bound**2, epsilon=0.1)
        for bound in (1.0, 2.0)
    )
    ratio = thesis.smoothed_step(long, 1.0) / thesis.smoothed_step(short, 1.0)
    assert ratio == pytest.approx(1 / 2)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, D))
    y = (X[:, 0] > 0).astype(int)
    models = [
        DPLogisticRegression(
            delta=1e-6,
            data_norm=unit,
            solver="noisy_gd",
            classes=[0, 1],
            fit_intercept=False,
            random_state=0,
        ).fit(unit * X, y)
        for unit in (1.0, 2.0)
    ]
    steps = [model.privacy_.solver_params["step_size"] for model in models]
    assert steps[1] == pytest.approx(steps[0] / 4)
    assert 2 * models[1].coef_ == pytest.approx(models[0].coef_)


def test_stages_that_would_begin_after_the_last_step_are_left_out():
    """At m = 1 lengths jump with the number of stages, past all steps together."""
    for epsilon in (0.5, 0.8, 1.0):
        facts = synthetic(epsilon=epsilon, batch=1, corrected=True)
        plan = thesis.dp_mag(facts)
        assert plan.n_steps == 1000
        assert np.all(plan.scales > 0)
        assert facts.true_epsilon(plan.scales) == pytest.approx(epsilon)
    assert thesis._cut([29, 1000, 7], 1000) == [29, 971]


def test_buckets_are_read_once_and_each_has_the_whole_budget(problem):
    facts = task(batch=5, online=True, epsilon=0.3)
    assert facts.equal_scales() == pytest.approx(2 * 2.0 / 5 / 0.3)
    assert facts.true_epsilon(facts.equal_scales()) == pytest.approx(0.3)
    weights = np.random.default_rng(3).standard_normal((D, 2))
    buckets = Buckets(problem, 5)
    found = [buckets.gradient(weights) for _ in range(60)]
    assert np.mean(found, axis=0) == pytest.approx(problem.gradient(weights), rel=1e-5)
    with pytest.raises(IndexError):  # no record is read again
        buckets.gradient(weights)


@pytest.mark.parametrize("n_steps", [100, 1000])
@pytest.mark.parametrize("method", ["DP-NAG", "DP-NAG-opt", "DP-MASG-opt"])
def test_batches_cost_what_is_claimed_and_the_released_code_more(method, n_steps):
    noise = tables.section_5_noise(1000)
    assert set(noise) == {"released code", "as printed"}
    true = {
        kind: tables._true_epsilon(
            tables.section_5_plans(n_steps, one, 5.1)[method](), one, 0.0
        )
        for kind, one in noise.items()
    }
    assert true["as printed"] == pytest.approx(1.0)
    wanted = {100: 1.66, 1000: 1.44}[n_steps]  # equal shares
    assert true["released code"] >= wanted - 0.005
    if method == "DP-NAG":
        assert true["released code"] == pytest.approx(wanted, abs=0.005)


def test_full_batches_have_the_noise_of_all_records():
    shares = np.array([0.2, 0.3, 0.5])
    whole, nearly = (
        accelerated.Noise(kind="laplace", unit=0.02, rate=rate, epsilon=0.7)
        for rate in (1.0, 1 - 1e-12)
    )
    assert nearly.scales(shares) == pytest.approx(whole.scales(shares))


@pytest.mark.parametrize("beta", [0.5, 0.1])
def test_rates_of_smoothing_are_those_of_its_recursion(beta):
    """Of runs without noise on a quadratic."""
    step, mu = 1.0, 0.01
    rate = smoothing_rate.slowest_rate(step, beta, mu, 1.0)
    curvatures = np.geomspace(mu, 1.0, smoothing_rate._CURVATURES)
    now, velocity, sizes = np.ones(200), np.zeros(200), []
    for _ in range(2000):
        velocity = (1 - beta) * velocity + beta * curvatures * now
        now = now - step * velocity
        sizes.append(max(np.abs(now).max(), np.abs(velocity).max()))
    grown = (sizes[-1] / sizes[999]) ** (1 / 1000)
    assert grown == pytest.approx(rate, abs=1e-3)


def test_smoothing_is_no_faster_than_the_step_that_comes_with_it():
    """Figure 4.1, right: what beta gains it gains by the step of (4.21)."""
    facts = smoothing_rate.synthetic()
    steps = [thesis.smoothed_step(facts, beta) for beta in (1.0, 0.1)]
    plain, smoothed, matched = (
        smoothing_rate.slowest_rate(step, beta, facts.mu, facts.smoothness)
        for step, beta in ((steps[0], 1.0), (steps[1], 0.1), (steps[1], 1.0))
    )
    assert smoothed < plain  # as published
    assert matched <= smoothed * (1 + 1e-3)


# ------------------------------------------------------------------------- bolt-on


def images(m: int = 60, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((1, m, d))
    X /= np.linalg.norm(X, axis=2, keepdims=True)
    return X, np.where(X @ rng.standard_normal((d, 2)) > 0, 1.0, -1.0)


def test_one_batch_of_all_is_gradient_descent():
    X, Y = images()
    descent = bolt_on.psgd_convex(60, passes=4, batch=60)
    *_, W = bolt_on.train(X, Y, descent)
    problem = Logistic(X[0] * Y[0, :, :1], 0.0)
    plan = accelerated.dp_gd(4, NOISE, math.sqrt(60))
    expected = descend(problem, plan, np.zeros(3), np.zeros((4, 3, 1)))
    assert W[0, 0] == pytest.approx(expected[:, 0], rel=1e-4)


def test_strongly_convex_passes_reach_the_optimum():
    X, Y = images()
    *_, W = bolt_on.train(X, Y, bolt_on.psgd_strongly_convex(800, 60, 0.2))
    expected = Logistic(X[0] * Y[0, :, :1], 0.2).optimum()
    assert W[0, 0] == pytest.approx(expected, abs=1e-3)


def test_sampled_batches_and_projection():
    X, Y = images()
    rngs = [np.random.default_rng(0)]
    descent = bolt_on.bst14_strongly_convex(20, 6, 0.0, 0.5)
    *_, W = bolt_on.train(X, Y, descent, rngs)
    expected = Logistic(X[0] * Y[0, :, :1], 0.5).optimum()
    assert W[0, 0] == pytest.approx(expected, abs=0.1)
    loud = bolt_on.bst14_convex(3, 6, 1e3, 3)
    *_, W = bolt_on.train(X, Y, loud, rngs)
    assert np.linalg.norm(W, axis=2).max() <= bolt_on.CONVEX_RADIUS * (1 + 1e-9)


def test_a_run_does_not_depend_on_those_beside_it():
    X, Y = (np.repeat(part, 2, axis=0) for part in images())
    descent = bolt_on.scs13(2, 6, 1.0)
    ends = []
    for runs in ((0, 1), (1,)):
        rngs = [np.random.default_rng(run) for run in runs]
        *_, W = bolt_on.train(X[: len(runs)], Y[: len(runs)], descent, rngs)
        ends.append(W[-1])
    assert ends[0] == pytest.approx(ends[1])


def test_the_batch_does_not_divide_the_strongly_convex_sensitivity():
    exact = [
        bolt_on.exact_sensitivity(
            6000, bolt_on.psgd_strongly_convex(10, b, 0.05), beta=1.05
        )
        for b in (1, 10, 50)
    ]
    assert exact == pytest.approx([2 / (0.05 * 6000)] * 3)
    assert exact[2] / bolt_on.printed_sensitivity(6000, 50, 0.05) == pytest.approx(25)


def test_one_record_moves_the_weights_further_than_the_printed_sensitivity():
    m, b, value = 6000, 50, 0.05
    descent = bolt_on.psgd_strongly_convex(10, b, value)
    X = np.zeros((1, m, 1))
    X[0, -1] = 1.0  # every other record is inert
    ends = []
    for sign in (1.0, -1.0):
        *_, W = bolt_on.train(X, np.full((1, m, 1), sign), descent)
        ends.append(W[0, 0])
    moved = float(np.linalg.norm(ends[0] - ends[1]))
    assert moved > 8 * bolt_on.printed_sensitivity(m, b, value)
    assert moved <= bolt_on.exact_sensitivity(m, descent, beta=1 + value)


def test_the_convex_sensitivity_is_the_recursions():
    descent = bolt_on.psgd_convex(6000, 7, 50)
    exact = bolt_on.exact_sensitivity(6000, descent, beta=1.0)
    assert exact == pytest.approx(bolt_on.convex_sensitivity(6000, 7, 50))


def test_the_recursion_refuses_steps_it_does_not_hold_for():
    with pytest.raises(ValueError, match="1 / beta"):
        bolt_on.exact_sensitivity(100, bolt_on.psgd_convex(100, 1, 1), beta=20.0)


def test_claimed_and_true_epsilons_of_the_bolt_on_lines():
    sensitivity = bolt_on.convex_sensitivity(60_000, 10, 50)
    valid = bolt_on_tables._share(0.5, sensitivity, pure=True)
    assert bolt_on_tables._pure_line(valid, sensitivity)[2] == pytest.approx(0.5)
    joint = bolt_on_tables._joint(0.5, sensitivity)
    true = bolt_on_tables._gaussian_line(joint, sensitivity)[2]
    assert true == pytest.approx(0.5, rel=1e-4)
    # Shared out and by the classical rule it costs far less than it claims,
    classical = bolt_on_tables._share(0.5, sensitivity, pure=False)
    assert bolt_on_tables._gaussian_line(classical, sensitivity)[2] < 0.2
    # and divided by b in the strongly convex case 25 times as much.
    short = bolt_on_tables._share(0.5, sensitivity / 25, pure=True)
    assert bolt_on_tables._pure_line(short, sensitivity)[2] == pytest.approx(12.5)


def test_scs13_noise_is_as_read():
    descent = bolt_on.scs13(10, 50, 0.4)
    drawn = descent.noise(np.random.default_rng(0), (4000, 1, 5))
    norms = np.linalg.norm(drawn, axis=2)
    mean = 5 * 2 * 10 / 0.4 / 50
    assert norms.mean() == pytest.approx(mean, abs=8 * mean / math.sqrt(5 * 4000))
    assert descent.step(16) == 0.25


def test_bst14_noise_is_as_printed():
    m, k, epsilon, delta = 1000, 3, 0.3, 1e-6
    deviation = bolt_on.bst14_deviation(m, k, 1, epsilon, delta)
    first_delta = delta / (k * m)
    second = classical_multiplier(1.0, first_delta) / deviation
    first = 2 * second / m
    whole = k * m * first * math.expm1(first)
    whole += math.sqrt(2 * k * m * math.log(1 / first_delta)) * first
    assert second < 1
    assert whole == pytest.approx(epsilon)
    huge = bolt_on.bst14_deviation(m, k, 1, 50.0, delta)
    assert huge == pytest.approx(classical_multiplier(1.0, first_delta))


def test_bst14_corrected_costs_at_most_what_is_claimed(monkeypatch):
    monkeypatch.setattr(bolt_on_tables, "bst14_epsilon", lambda noise, k, b: 20 / noise)
    assert 10 <= bolt_on_tables._bst14_corrected(1, 77, 2.0) <= 10.1
