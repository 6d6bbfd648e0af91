"""The methods of the papers: identities, what they truly cost, and broken twins."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks._papers import _bolt_on, _descent, accelerated, bolt_on, owners, thesis
from benchmarks._papers import _privacy as privacy
from benchmarks._papers import _sparse as few
from benchmarks._papers._descent import Logistic, Sampled, descend

MU, D = 0.05, 4
NOISE = accelerated.Noise(kind="laplace", unit=0.02)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (300, D))
    return Logistic(X * np.where(X @ rng.standard_normal(D) > 0, 1, -1)[:, None], MU)


def task(**facts):
    given = {"n": 300, "d": D, "bound": 2.0, "mu": MU, "smoothness": 1.0 + MU}
    return thesis.Task(**(given | {"n_steps": 600, "epsilon": 1.0} | facts))


PLANS = {
    "gd": accelerated.dp_gd(600, NOISE, 1.05),
    "shb": accelerated.dp_shb(600, NOISE, 1.05, MU),
    "nag": accelerated.dp_nag(600, NOISE, 1.05, MU, divided=True),
    "masg": accelerated.dp_masg(600, NOISE, 1.05, MU),
    "thesis gd": thesis.dp_gd(task()),
    "thesis hb": thesis.dp_hb(task()),
    "thesis nag": thesis.dp_nag(task()),
    "m-asg": thesis.m_asg(task()),
}


@pytest.mark.parametrize("name", PLANS)
def test_without_noise_every_descent_reaches_the_optimum(problem, name):
    silent = np.zeros((600, D, 1))
    weights = descend(problem, PLANS[name], np.full(D, 2.0), silent)
    near = 0.02 if name == "thesis gd" else 2e-5  # its steps shrink
    assert weights[:, 0] == pytest.approx(problem.optimum(), abs=near)


def test_a_subset_of_all_records_has_their_gradient(problem):
    weights = np.random.default_rng(0).normal(size=(D, 2))
    sampled = Sampled(problem, 300, (0, 1)).gradient(weights)
    assert sampled == pytest.approx(problem.gradient(weights), rel=1e-4)


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
    noise = accelerated.section_5_noise()[noise_name]
    smoothness, mu = 5.1000807, 0.02  # the paper's data
    facts = {"noise": noise, "dimension": 20, "mu": mu, "smoothness": smoothness}
    single = np.full(450, step / smoothness), np.ones(450, int)
    stages = accelerated.multistage(450, smoothness, mu, step)
    found = [
        accelerated.best_step_count(*schedule, **facts, initial=10.0)
        for schedule in (single, stages)
    ]
    assert found == [nesterov, multistage]


@pytest.mark.parametrize("divided", [False, True])
@pytest.mark.parametrize(
    ("kind", "true"), [("as printed", 1), ("released code", 2**0.5)]
)
def test_the_released_code_costs_the_root_of_two(kind, true, divided):
    plan = accelerated.dp_nag(
        300, accelerated.section_5_noise()[kind], 5.1, 0.02, divided=divided
    )
    found = privacy.laplace_epsilon(plan.scales, 40 / 1e5)
    assert found == pytest.approx(true, rel=1e-6)


@pytest.mark.parametrize(
    ("n", "m", "epsilon", "true"),
    # Claimed for a thousand steps.
    [(10_000, 1, 0.5, 1.12), (10_000, 100, 1.0, 0.513), (60_000, 10, 1.0, 3.18)],
)
def test_the_thesis_subsets_cost_what_the_exact_law_says(n, m, epsilon, true):
    base = n * epsilon / (2 * m * 1000)
    scales = np.full(1000, 2 / base)
    assert privacy.laplace_epsilon(scales, 2.0, m / n) == pytest.approx(true, rel=5e-3)
    found = privacy.amplified(privacy.base_epsilon(epsilon, m / n), m / n)
    assert found == pytest.approx(epsilon)


def test_lines_of_the_thesis_with_printed_and_with_corrected_noise():
    lines = list(
        thesis.descents(data="synthetic", epsilon=[1.0], n_steps=40, batch=[1])
    )
    printed, corrected = lines[: len(lines) // 2], lines[len(lines) // 2 :]
    for before, after in zip(printed, corrected, strict=True):
        assert before.true > 50 * after.true
        assert after.true == pytest.approx(1.0)
    both = list(printed[0].measure([0, 1]))
    assert list(printed[0].measure([1])) == both[1:]
    assert min(both) > 0


def test_smoothing_is_a_heavy_ball(problem):
    """With steps of beta alpha and momentum 1 - beta."""
    noise, facts = np.random.default_rng(2).laplace(size=(60, D, 1)), task(n_steps=60)
    found = thesis.dp_gdws(problem, facts, 0.25, 0.4, np.zeros(D), noise)
    plan = _descent.Plan(
        steps=np.full(60, 0.1),
        momentum=np.full(60, 0.75),
        scales=facts.equal_scales(),
        looks_ahead=False,
    )
    assert found == pytest.approx(descend(problem, plan, np.zeros(D), noise))


def test_the_printed_sensitivity_of_bolt_on_is_exceeded():
    """The exact recursion, and a pair of tables that attains more than is printed."""
    m, b, value = 200, 10, 0.05
    descent = _bolt_on.psgd_strongly_convex(2, b, value)
    exact = _bolt_on.exact_sensitivity(m, descent, beta=1 + value)
    printed = _bolt_on.printed_sensitivity(m, b, value)
    assert exact > 4 * printed
    rng = np.random.default_rng(0)
    X = np.tile(np.array([[1.0, 0.0]]), (1, m, 1))
    found = []
    for sign in (1.0, -1.0):
        Y = np.where(rng.random((1, m, 1)) < 2, 1.0, 1.0)
        Y[0, -1] = sign
        *_, W = _bolt_on.train(X, Y, descent)
        found.append(W[0])
    assert printed < np.linalg.norm(found[0] - found[1]) <= exact


def test_steps_beyond_the_recursion_are_refused():
    with pytest.raises(ValueError, match="1 / beta"):
        _bolt_on.exact_sensitivity(10, _bolt_on.psgd_convex(10, 1, 1), beta=100)


@pytest.mark.parametrize("test", [1, 2, 3, 4])
def test_bolt_on_lines_cost_more_when_divided_by_the_batch(test):
    setting = (10, 50, 1e-2 if test > 2 else 0.0)
    lines = list(bolt_on.mnist_tests([setting], (test,), (), epsilon=(0.1,)))
    true = {line.method: line.true for line in lines}
    assert true["no noise"] == math.inf
    if test > 2:
        assert true["bolt-on, divided by b"] > 0.3
        assert true["bolt-on, corrected"] == pytest.approx(0.1, rel=1e-4)
    if test == 1:
        assert true["bolt-on"] == pytest.approx(0.1)


def test_private_tuning_prefers_few_errors():
    rng = np.random.default_rng(0)
    drawn = [bolt_on.choice([3, 9], 1.0, rng) for _ in range(2000)]
    assert np.mean(drawn) == pytest.approx(1 / (1 + math.exp(3)), abs=0.02)
    assert bolt_on.choice([3, 2], math.inf, rng) == 1


def unit_rows(rng, n, d):
    rows = rng.normal(size=(n, d)) + np.eye(d)[0]
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_the_exact_noise_of_chapter_6_is_as_much_as_the_claim_needs():
    of = owners.Chapter(m=10, smallest=500, d=104)
    exact = of.exact_deviation()
    assert of.true_epsilon(exact) == pytest.approx(0.5, abs=1e-6)
    assert of.true_epsilon(exact / 2) > 1.0
    assert of.gradient_deviation() / exact == pytest.approx(14.87 / 9.22, abs=2e-3)


def test_minimisers_of_owners_are_certified_or_refused(monkeypatch):
    rows, sizes = owners.divided(unit_rows(np.random.default_rng(0), 23, 3), 5)
    assert sizes.tolist() == [5, 5, 5, 4, 4]
    found = owners.minimisers(rows, sizes, 1e-2)
    for own, part, size in zip(found, rows, sizes, strict=True):
        wanted = Logistic(part[:size], 1e-2).optimum()
        assert np.linalg.norm(own - wanted) < 3 * owners.TOLERANCE / 1e-2
    monkeypatch.setattr(owners, "_n_steps", lambda strength: 3)
    with pytest.raises(ArithmeticError, match="is left"):
        owners.minimisers(rows, sizes, 1e-2)


def moved(parts, alpha, weigh):
    """How far an exchanged record of the last owner moves a mean of minimisers."""
    angle, found = math.radians(60), []
    for sign in (1.0, -1.0):
        changed = [part.copy() for part in parts]
        changed[-1][0] = [-math.cos(angle), sign * math.sin(angle)]
        sizes = np.array([len(part) for part in parts])
        rows = np.zeros((len(parts), sizes.max(), 2))
        for own, part in zip(rows, changed, strict=True):
            own[: len(part)] = part
        found.append(weigh(owners.minimisers(rows, sizes, alpha), sizes))
    return np.linalg.norm(found[0] - found[1])


def test_no_exchange_moves_the_weighted_mean_by_more_than_its_sensitivity():
    """The twin, a plain mean, does not keep it: small owners count for more."""
    parts = [np.tile([1.0, 0.0], (size, 1)) for size in (800, 800, 100)]
    allowed = owners.certified_sensitivity(1700, 1e-3)
    assert 0.3 * allowed < moved(parts, 1e-3, owners.weighted_mean) <= allowed
    assert moved(parts, 1e-3, lambda W, sizes: W.mean(axis=0)) > 1.3 * allowed


def test_all_methods_of_several_owners_are_measured(monkeypatch):
    rng = np.random.default_rng(0)
    problem = Logistic(unit_rows(rng, 60, 4), owners.ALPHA)
    y = rng.random(30) < 0.5
    X = unit_rows(rng, 30, 4) * np.where(y, 1, -1)[:, None]
    made = owners.Owned(problem, problem.optimum(), X, y)
    monkeypatch.setattr(owners, "owned", lambda data, alpha: made)
    lines = owners.figures(data="toy", m=[3], kept=[2, 4], few_steps=3, through=3)
    for line in lines:
        if "shares" in line.method:
            continue  # needs the extra of federations
        values = np.array(list(line.measure([0, 1])))
        assert values.shape == (2, 2)
        assert values[:, 0].min() > -1e-9


def test_thresholding_costs_what_is_claimed_only_if_it_is_exact():
    costs = {
        kind: privacy.thresholding_epsilon(
            privacy.thresholding_multiplier(8.0, 1e-2, kind), 1e-2, 2.0
        )
        for kind in ("theorem 2.5.2", "corollary 2.5.8", "zcdp", "exact")
    }
    assert costs["exact"] == pytest.approx(8.0, abs=1e-3)
    assert costs["theorem 2.5.2"] > 8.5
    assert costs["zcdp"] < 8.0


def test_thresholding_without_noise_finds_few_features():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 30))
    truth = np.zeros(30)
    truth[[3, 7]] = 1.0, -1.0
    table = few.Table(
        X=X, y=X @ truth, labels=False, s=2, data_norm=4.0, feature_bound=1.0,
        entry_variance=1 / 3, curvature=1 / 3, residual=1.0,
    )  # fmt: skip
    found = few.dp_ight(table, n_steps=50, step=0.6, deviation=0.0)
    assert found == pytest.approx(truth, abs=1e-3)
    clipped = table.clipped(np.full(400, 100.0), 0.5, by="l2")
    assert (clipped * np.linalg.norm(X, axis=1)).max() <= 0.5 * (1 + 1e-9)


def slowest(step, beta, task):
    """Largest spectral radius of smoothed descent on quadratics, mu to L."""
    radii = []
    for curvature in np.geomspace(task.mu, task.smoothness, 200):
        rows = [
            [1 - step * beta * curvature, -step * (1 - beta)],
            [beta * curvature, 1 - beta],
        ]
        radii.append(np.abs(np.linalg.eigvals(rows)).max())
    return max(radii)


def test_smoothing_is_no_faster_than_the_step_that_comes_with_it():
    """Kuru (2019), figure 4.1, right: what beta gains comes from the step of (4.21)."""
    task = thesis.Task(
        n=10_000, d=10, bound=2.0, mu=0.02, smoothness=1.02, n_steps=1000, epsilon=1.0
    )
    steps = [thesis.smoothed_step(task, beta) for beta in (1.0, 0.1)]
    plain = slowest(steps[0], 1.0, task)
    smoothed = slowest(steps[1], 0.1, task)
    assert smoothed < plain  # as published
    assert slowest(steps[1], 1.0, task) <= smoothed * (1 + 1e-3)
