"""Every solver, every loss, both adjacencies: the promises of the spine."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from skdp import DPMLPClassifier
from skdp._fit import Progress
from skdp.exceptions import READ_FAILED, BudgetExceeded, Refused, SourceError
from skdp.losses._objective import LinearObjective
from skdp.privacy import (
    BoundedRangeEvent,
    Budget,
    GaussianEvent,
    calibrate,
    epsilon_of,
)
from skdp.privacy.noise._laws import Choices
from skdp.privacy.noise._noise import NoiseSource
from skdp.privacy.release._plan import Buckets, Part
from skdp.solvers import SOLVERS
from skdp.solvers._exact import exact_minimum
from skdp.sums._floating import GradientSum
from skdp.tables._memory import MemorySource
from tests import door
from tests.problems import (
    ALL_LOSSES,
    BUDGET,
    CASES,
    LOSSES,
    ONE_LOSS,
    Case,
    accepts,
    case_id,
    make_ledger,
    run_case,
)
from tests.spies import NoNoise, SpyLedger, SpyNoise, SpySource
from tests.wide import part_of


def on_axes(case):
    """Each solver in each mode under each adjacency, and each loss."""
    return (case.key, case.mode, case.adjacency), (case.loss_name, case.adjacency)


every_case = pytest.mark.parametrize("case", part_of(CASES, on_axes, case_id))
# For what is done before a loss is looked at.
every_solver = pytest.mark.parametrize("case", ONE_LOSS, ids=case_id)


@every_solver
def test_configuration_is_frozen_and_resolved(case):
    solver = case.solver
    unresolved = {
        field.name
        for field in dataclasses.fields(solver)
        if getattr(solver, field.name) is None
    }
    # Without users nothing of theirs is clipped: None is all there is to resolve to.
    assert unresolved <= {"user_clip"}
    with pytest.raises(dataclasses.FrozenInstanceError):
        solver.n_steps = 1
    assert case.solver_with(solver.params) == solver


# They read until they are near the minimum; how often is outside the claim.
CERTIFIED = ("objective_perturbation", "output_perturbation")


def lines_of(plan, multiplier):
    """Lines of a plan and of the plans within it, with their noise multipliers."""
    for line in plan.lines:
        if isinstance(line, Part):
            for _ in range(line.times):
                yield from lines_of(line.plan, line.multiplier(multiplier))
        else:
            yield line, line.multiplier(multiplier)


def reads_of(case):
    """How often a solver reads its source: once for every answer, or as said here."""
    if case.key in ("bolt_on", "frank_wolfe", "ftrl", "online"):
        return 1
    if case.key == "tree_momentum":
        return case.solver.n_epochs
    if case.key == "peeling":  # selections have a read of their own
        return case.solver.n_steps + case.solver.n_rounds
    if case.key == "two_stage":
        # Targets for the constant model, a gradient, and the columns selected: the
        # other passes are over copies of these.
        return 2 + case.fit_intercept
    return sum(line.times for line, _ in lines_of(case.solver.plan(case.objective), 1))


def noisy_lines(plan, multiplier):
    """The lines that are no choices."""
    lines = lines_of(plan, multiplier)
    return [(line, z) for line, z in lines if not isinstance(line.law, Choices)]


def is_booked_in_full(event, plan, multiplier):
    """Whether the leaves of an event are the noisy lines of its plan, one for one."""
    booked = [
        part.noise_multiplier
        for part in event.leaves
        if not isinstance(part, BoundedRangeEvent)
        for _ in range(getattr(part, "count", 1))
    ]
    # Answers about disjoint records are booked as one (tests/papers/test_online.py).
    return booked == [
        z
        for line, z in noisy_lines(plan, multiplier)
        for _ in range(1 if isinstance(line.sample, Buckets) else line.times)
    ]


# They draw no noise, only choices, of integer sensitivity
# (tests/papers/test_frank_wolfe.py).
CHOOSING = ("frank_wolfe",)
# They ask two lines in turn.
IN_TURN = ("diff_gd", "iht", "line_search_gd")
# Bounds with rounding over those without: on a hidden path rounding is part of every
# step; the noise's grid is charged once for each sum that a record is in.
SLACK = {"noisy_gd": 2.0**-11, "ftrl": 2.0**-8, "tree_momentum": 2.0**-8}


def check_noise(case, outcome, draws):
    """Noise is drawn as the plan declares it, for no more than the sensitivity."""
    lines = noisy_lines(case.solver.plan(case.objective), outcome.noise_multiplier)
    declared = [z for line, z in lines for _ in range(line.times)]
    drawn = [draw.noise_multiplier for draw in draws]
    assert sorted(drawn) == sorted(declared)
    assert drawn == declared or case.key in IN_TURN
    for draw in draws:
        wanted = draw.noise_multiplier * draw.sensitivity
        assert wanted <= draw.sigma <= 1.002 * wanted
    # The output noise of objective_perturbation covers another, smaller sensitivity.
    of_queries = draws[:1] if case.key == "objective_perturbation" else draws
    slack = SLACK[case.key] if case.mode or case.key in SLACK else 1e-9
    worst = case.solver.sensitivity(case.objective) * (1 + slack)
    assert all(draw.sensitivity <= worst for draw in of_queries)
    assert outcome.solution.noise_scale == max(draw.sigma for draw in of_queries)


def spied(case, folder, peek=lambda source: None):
    """A run on the books: what was done in which order, drawn, and came out."""
    SpyLedger.diary = diary = []
    facts = {"epsilon": 10.0, "delta": 1e-6, "adjacency": case.adjacency}
    ledger = SpyLedger(folder / "ledger.db", **facts)
    source, noise = SpySource(case.source(), diary), SpyNoise()
    peek(source)
    outcome = run_case(case, source=source, ledger=ledger, noise=noise)
    assert ledger.spends()[0].event == outcome.event
    return diary, noise.draws, outcome


@every_case
def test_a_run_commits_reads_and_draws_what_its_plan_declares(case, tmp_path):
    diary, draws, outcome = spied(case, tmp_path)
    assert diary[0] == "commit"
    assert diary.count("commit") == 1
    if case.key not in CERTIFIED:
        assert diary.count("read") == reads_of(case)
    plan, z = case.solver.plan(case.objective), outcome.noise_multiplier
    if case.key not in CHOOSING:
        check_noise(case, outcome, draws)
        # A hidden path is booked as the release of its end.
        assert case.mode or is_booked_in_full(outcome.event, plan, z)
    # 0.2 % of noise is at most about 0.2 % of epsilon and then some.
    epsilon = epsilon_of(outcome.event, BUDGET.delta)
    assert 0.996 * BUDGET.epsilon <= epsilon <= BUDGET.epsilon
    assert z == calibrate(lambda z: plan.event(z, case.adjacency), BUDGET)
    first, louder = (plan.event(k * z, case.adjacency) for k in (1, 2))
    assert first == outcome.event
    assert epsilon_of(louder, 1e-6) < epsilon


def test_broken_twin_that_reads_first_is_caught(tmp_path):
    diary, _, _ = spied(CASES[0], tmp_path, lambda source: next(iter(source.blocks())))
    assert diary[0] == "read"


def test_broken_twin_that_charges_one_answer_less_is_caught():
    case = Case("noisy_gd", "logistic", "replace_one")
    plan = case.solver.plan(case.objective)
    less = dataclasses.replace(plan, declared=lambda z: GaussianEvent(z, 3))
    event = less.event(2.0, "replace_one")
    assert is_booked_in_full(plan.event(2.0, "replace_one"), plan, 2.0)
    assert not is_booked_in_full(event, less, 2.0)


@every_solver
def test_refused_fit_reads_and_spends_nothing(case, tmp_path):
    ledger, diary = make_ledger(tmp_path, epsilon=0.5, adjacency=case.adjacency), []
    with pytest.raises(BudgetExceeded, match=r"epsilon ran out.*Nothing was read"):
        run_case(case, source=SpySource(case.source(), diary), ledger=ledger)
    assert diary == []
    assert ledger.spends() == []


@every_solver
def test_failure_after_the_commit_keeps_the_spend(case, tmp_path):
    class Failing(MemorySource):
        def blocks(self):
            raise OSError("the disk is gone")

    ledger = make_ledger(tmp_path, adjacency=case.adjacency)
    with pytest.raises(SourceError) as caught:
        run_case(case, source=Failing(*case.data()), ledger=ledger)
    assert caught.value.args == (READ_FAILED,)
    assert caught.value.__context__ is None
    assert len(ledger.spends()) == 1


def noise_is_as_declared(key, shrink):
    """Chi-square of the drawn noise, at about six standard deviations (1e-8)."""
    case = Case(key, "logistic", "replace_one", n_features=100)
    solver = case.solver_with({"n_steps": 40})
    noise = SpyNoise(seed=3, shrink=shrink)
    run_case(case, noise=noise, solver=solver)
    scaled = [(draw.released - draw.query) / draw.sigma for draw in noise.draws]
    variance = np.mean(np.square(scaled))
    return abs(variance - 1) < 6 * np.sqrt(2 / np.size(scaled))


@pytest.mark.parametrize("key", ["multistage", "noisy_gd"])
def test_drawn_noise_has_the_declared_scale_and_twins_are_caught(key):
    assert noise_is_as_declared(key, 1.0)
    assert not noise_is_as_declared(key, 0.7)
    assert not noise_is_as_declared(key, 1.3)


# Approximate minimisers stop at a certificate; Frank-Wolfe nears the minimum slowly,
# and its own test compares it with the minimum in the ball.
SMALL = {
    "adassp": 2.0**-21,  # the unit of its rows
    "frank_wolfe": 3e-3,
    "line_search_gd": 1e-5,  # gains are compared in whole units
    "noisy_newton": 2.0**-21,  # the unit of its rows
    "objective_perturbation": 1e-4,
    "output_perturbation": 1e-3,
    "tree_momentum": 1e-3,  # its steps do not get shorter
}
# Those that ask for sums on public grids.
ON_GRIDS = {"heavy_ball", "iht", "knowledge_transfer", "multistage", "nesterov"}
ON_GRIDS |= {"noisy_gd", "noisy_sgd", "online", "peeling", "two_stage"}
ON_GRIDS |= {"diff_gd", "graduated_gd", "laplacian_smoothing"}
ON_GRIDS |= {"ftrl", "line_search_gd", "srm"}


def small(case):
    """How small a gradient gets: grids move each record's by half a unit or so."""
    if case.key not in ON_GRIDS or case.mode == "last":
        return SMALL.get(case.key, 1e-9)
    residual = case.loss.zero_out_bound(np.inf) * np.sqrt(case.loss.n_outputs)
    return SMALL.get(case.key, 1e-9) + case.objective.row_norm * residual * 2.0**-18


@pytest.mark.parametrize(
    "case",
    part_of(
        [case for case in CASES if case.adjacency == "replace_one"], on_axes, case_id
    ),
)
def test_noiseless_limit_reaches_the_optimum(case):
    case = case.to_the_end
    solver = case.solver_with(case.params_to_the_end)
    found = run_case(case, solver=solver, noise=NoNoise()).solution.weights
    # The optimum of the same clipped problem, by another method.
    clipped = GradientSum(case.source(), case.objective)
    gradient = clipped(found) / case.n_samples + case.alpha * found
    assert np.abs(gradient).max() < small(case)


@pytest.mark.parametrize("loss_name", LOSSES)
def test_exact_minimum_agrees_with_a_solver_where_nothing_is_clipped(loss_name):
    case = Case("noisy_gd", loss_name, "replace_one").to_the_end
    X, y = case.data()
    X = X / np.linalg.norm(X, axis=1).max()
    solver = case.solver_with(case.params_to_the_end)
    noisy = door.run(solver, MemorySource(X, y), case.objective, 1.0, NoNoise())
    free = dataclasses.replace(case.objective, data_norm=np.inf)
    exact = exact_minimum(MemorySource(X, y), free, Progress())
    assert np.allclose(noisy.weights, exact.weights, atol=30 * small(case))


@every_solver
def test_tiny_and_empty_data_return_normally(case):
    for n_samples in (1, 2):
        few = dataclasses.replace(case, n_samples=n_samples)
        assert np.isfinite(run_case(few).solution.weights).all()
    X, y = case.data()
    source = MemorySource(X, y, present=np.zeros(len(y), dtype=bool))
    gradient = GradientSum(source, case.objective)
    weights = np.ones((case.objective.n_columns, case.loss.n_outputs))
    assert not gradient(weights).any()
    assert np.isfinite(run_case(case, source=source).solution.weights).all()


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("value", [1e308, 1e200, 5e-324, 1e-200])
def test_extreme_values_do_not_reach_the_release(value, storage):
    """One record may hold anything finite; it must stay within the sensitivity."""
    from scipy.sparse import csr_array

    case = Case("noisy_gd", "logistic", "replace_one")
    X, y = case.data()
    calm = GradientSum(MemorySource(X, y), case.objective)
    X = X.copy()
    X[7] = [value, -value, value]
    stored = csr_array(X) if storage == "csr" else X
    wild = GradientSum(MemorySource(stored, y), case.objective)
    weights = np.full((4, 1), 3.0)
    with np.errstate(all="ignore"):  # as `solve` does
        difference = wild(weights) - calm(weights)
        assert np.array_equal(wild(weights), wild(weights))
    limit = case.solver.sensitivity(case.objective)
    assert np.linalg.norm(difference) <= limit
    released = run_case(case, source=MemorySource(stored, y)).solution.weights
    assert np.isfinite(released).all()


def test_seeded_noise_is_charged_as_not_private(tmp_path):
    ledger = make_ledger(tmp_path, allow_nonprivate=True)
    run_case(CASES[0], noise=NoiseSource(0), ledger=ledger)
    assert ledger.spent().epsilon == np.inf


@pytest.mark.parametrize("loss_name", sorted(set(ALL_LOSSES) - {"squared"}))
def test_a_solver_refuses_a_loss_with_a_reason_and_what_to_do(loss_name):
    case = Case("adassp", loss_name, "replace_one")
    assert not accepts(case)
    with pytest.raises(ValueError, match=r"^solver='adassp' needs.*Use another"):
        case.solver  # noqa: B018 - the access is what is tested


def test_every_refusal_has_a_reason():
    case = Case("noisy_gd", "logistic", "replace_one")
    pure = Budget(1.0, 0.0)
    kind = SOLVERS[case.key]
    assert "delta=0" in door.refusal(kind, case.objective, pure)
    for key in ("bolt_on", "objective_perturbation", "output_perturbation"):
        refusal = door.refusal(SOLVERS[key], case.objective, pure, law="gaussian")
        assert "Use law=None. See https:" in refusal
    endless = LinearObjective(
        loss=case.loss,
        n_samples=5,
        n_features=2,
        data_norm=np.inf,
        adjacency="zero_out",
    )
    assert "finite data_norm" in door.refusal(kind, endless, BUDGET)
    network = DPMLPClassifier(
        solver="noisy_gd", solver_params={"gradient_clip": np.inf}
    )
    with pytest.raises(Refused, match="no noise could hide a record"):
        network.forecast(100, 3)


EXTREME_BUDGETS = [
    Budget(1e-6, 0.0),
    Budget(1e-6, 1e-50),
    Budget(1e8, 0.0),
    Budget(1e8, 0.5),
]


@pytest.mark.parametrize("number", range(len(SOLVERS)))
def test_extreme_problems_are_solved_or_refused_with_a_reason(number):
    key, reasons = list(SOLVERS)[number], []
    loss_name = list(ALL_LOSSES)[number % len(ALL_LOSSES)]
    for data_norm in (1e-100, 1e100):
        for alpha, n_samples in ((0.0, 1), (1e-50, 10**9), (1e100, 1000)):
            facts = {"data_norm": data_norm, "alpha": alpha, "n_samples": n_samples}
            case = Case(key, loss_name, "replace_one", **facts)
            for budget in EXTREME_BUDGETS:
                try:
                    solver = case.solver_with({}, budget)
                except ValueError as refusal:
                    reasons.append(str(refusal))
                else:
                    assert door.event_of(solver, 1.0, case.objective).leaves
    assert all("Use" in reason or "Set" in reason for reason in reasons)


def test_every_solver_and_every_loss_take_part():
    assert {case.key for case in CASES} == set(SOLVERS)
    assert {case.loss_name for case in CASES} == set(ALL_LOSSES)
