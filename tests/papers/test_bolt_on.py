"""bolt_on: its kernels, its release and its rules."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.random_projection import GaussianRandomProjection

from skdp import DPLogisticRegression, privacy_report
from skdp._fit import Progress
from skdp.losses import SoftmaxLoss, SquaredLoss
from skdp.losses._objective import LinearObjective
from skdp.papers._bolt_on import AVERAGES, SCHEDULES, BoltOn
from skdp.privacy import Budget, GaussianEvent, PureEvent
from skdp.privacy.noise._noise import NoiseSource
from skdp.solvers._registry import choose_solver, named_solver
from skdp.tables._memory import MemorySource
from tests import door
from tests.gradients import query_sensitivity
from tests.papers.permutation import (
    BUDGET,
    OBJECTIVE,
    Plan,
    clipped,
    descend,
    resolved,
    targets,
)
from tests.problems import LOSSES
from tests.spies import NoNoise, SpyNoise

PURE = Budget(1.0, 0.0)
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


class OwnOrder(NoNoise):
    """No noise, and a new order for every call."""

    def __init__(self, seed=0):
        self._rng, self.orders = np.random.default_rng(seed), []

    def permutation(self, n):
        self.orders.append(self._rng.permutation(n))
        return self.orders[-1]


# The kernels -------------------------------------------------------------------------


@every_loss
def test_compiled_residuals_are_the_loss_s(loss):
    from skdp.losses._kernel import residual

    rng = np.random.default_rng(0)
    size = 10 ** rng.uniform(-9, 9, (400, 1))
    raw = size * rng.normal(size=(400, loss.n_outputs))
    raw[:4] = np.array([[0.0], [1e300], [-1e300], [-0.0]])
    y = targets(loss, rng, 400)
    for i in range(400):
        own = raw[i].copy()
        residual(int(loss.form), loss.form_constants, y[i], own)
        expected = loss.residual(y[i : i + 1], raw[i : i + 1])[0]
        assert np.allclose(own, expected, rtol=1e-13, atol=1e-15), (raw[i], y[i])


STORAGES = {
    "dense": np.asarray,
    "fortran": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "csr": csr_array,
}


def kernel_and_twin(loss, storage, null, **params):
    objective = replace(
        OBJECTIVE, loss=loss, n_samples=11, n_features=3, data_norm=2.0, alpha=0.2
    )
    objective = replace(objective, fit_intercept=not null)
    rng = np.random.default_rng(1)
    X = 2 * rng.normal(size=(11, 3)).astype(np.float32).astype(float)
    X[3] = 0.0
    y = rng.integers(0, max(2, loss.n_outputs), 11).astype(float)
    present = rng.random(11) < 0.6 if null else None
    solver = resolved(objective, **params)
    noise = OwnOrder()
    source = MemorySource(STORAGES[storage](X), y, present)
    found = solver.descent(objective, Progress()).batches(source, noise)
    orders = noise.orders if solver.reshuffle else noise.orders * solver.n_passes
    rows = clipped(X, objective)
    if null:
        rows[~present] = 0.0
    plan = Plan.of(solver, objective)
    return found, descend(rows[None], y[None], loss, plan, orders)[0]


@every_loss
@pytest.mark.parametrize("storage", STORAGES)
def test_kernel_agrees_with_the_plain_twin(loss, storage):
    for i, (schedule, average) in enumerate(itertools.product(SCHEDULES, AVERAGES)):
        found, twin = kernel_and_twin(
            loss,
            storage,
            null=bool(i % 2),
            n_passes=3,
            batch_size=(1, 4)[i // 2 % 2],
            schedule=schedule,
            average=average,
            step_size=0.15,
            radius=(0.05, math.inf)[i // 3 % 2],
            reshuffle=bool(i % 3),
        )
        assert np.allclose(found, twin, rtol=1e-10, atol=1e-13)


@every_loss
def test_full_gradients_agree_with_one_batch(loss):
    objective = replace(OBJECTIVE, loss=loss, n_samples=11, n_features=3, alpha=0.2)
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(11, 3)), rng.integers(0, max(2, loss.n_outputs), 11)
    source = MemorySource(X, y.astype(float))
    for params in ({}, {"average": "uniform", "radius": 0.1}, {"schedule": "sqrt"}):
        solver = resolved(objective, n_passes=5, batch_size=11, **params)
        full = solver.descent(objective, Progress()).full_gradients(source)
        batches = solver.descent(objective, Progress()).batches(source, NoNoise())
        assert np.allclose(full, batches, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("value", [1e308, 1e200, 5e-324, 1e-200])
def test_extreme_values_stay_within_the_sensitivity(value, storage):
    objective = replace(OBJECTIVE, n_samples=30, adjacency="replace_one")
    solver = resolved(objective, n_passes=2, batch_size=4, step_size=1.0)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 5)), np.arange(30.0) % 2
    Z = X.copy()
    Z[7] = value * np.array([1, -1, 1, 1, -1])
    with np.errstate(all="ignore"):  # as `solve` does
        calm, wild = (
            solver.descent(objective, Progress()).batches(
                MemorySource(STORAGES[storage](rows), y), NoNoise()
            )
            for rows in (X, Z)
        )
    moved = np.linalg.norm(wild - calm)
    assert moved <= solver.sensitivity(objective)


@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_huge_rows_are_clipped_like_any_other(storage):
    objective = replace(OBJECTIVE, n_samples=6, data_norm=12.0)
    X = np.random.default_rng(0).normal(size=(6, 5)) * 30.0
    Z = X * np.array([1.0, 1e120, 1e300, 1.0, 1e160, 1e98])[:, None]
    solver = resolved(objective, n_passes=4, batch_size=6)
    with np.errstate(all="ignore"):
        released = [
            run(MemorySource(STORAGES[storage](rows), np.arange(6.0) % 2))
            for rows in (X, Z)
            for run in (
                lambda source: solver.descent(objective, Progress()).full_gradients(
                    source
                ),
                lambda source: solver.descent(objective, Progress()).batches(
                    source, NoNoise()
                ),
            )
        ]
    for other in released[1:]:
        assert np.allclose(released[0], other, rtol=1e-10)


# After a random projection -----------------------------------------------------------


def test_projected_rows_are_longer_than_before_and_are_clipped():
    """The map keeps norms on average only; a solver that trusts them under-noises."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 30))
    X /= np.linalg.norm(X, axis=1)[:, None]
    projection = GaussianRandomProjection(n_components=5, random_state=0)
    model = DPLogisticRegression(
        1.0, delta=1e-6, solver="bolt_on", classes=[0, 1], random_state=0
    )
    fitted = make_pipeline(projection, model).fit(X, np.arange(200) % 2)
    Z = projection.fit_transform(X)
    norms = np.linalg.norm(Z, axis=1)
    assert norms.max() > 1.3
    short = clone(model).fit(Z / np.maximum(norms, 1)[:, None], np.arange(200) % 2)
    assert np.allclose(fitted[-1].coef_, short.coef_, rtol=1e-9)
    private = clone(model).set_params(random_state=None)
    report = privacy_report(make_pipeline(projection, private), strict=True)
    assert report.epsilon == 1.0


# Rules -------------------------------------------------------------------------------


def test_defaults_follow_from_public_facts_only():
    solver = resolved()
    assert solver == resolved()
    assert solver.law == "gaussian"
    assert resolved(budget=PURE).law == "spherical"
    assert solver.step_size <= 1 / OBJECTIVE.smoothness
    # Few updates are wanted: full gradients. More: batches, in ten passes.
    assert solver.batch_size == 2000
    large = resolved(replace(OBJECTIVE, n_samples=10**6))
    assert large.n_passes == 10
    assert large.batch_size < 10**6
    named = resolved(n_passes=3, batch_size=10**9)
    assert (named.n_passes, named.batch_size) == (3, 2000)


@pytest.mark.parametrize("law", ["gaussian", "spherical"])
@every_loss
def test_default_flow_time_balances_noise_and_bias(loss, law):
    """Recomputed: half or twice the flow time has the larger bound on the loss."""
    from skdp.privacy.accounting._gaussian import gaussian_mu
    from skdp.privacy.noise._laws import LAWS

    objective = replace(OBJECTIVE, loss=loss, adjacency="replace_one")
    solver = resolved(objective, law=law)
    z = 1.0 if law == "spherical" else 1 / gaussian_mu(1.0, 1e-6)
    norm = 5 * loss.prediction_unit

    def cost(flow):
        noise = query_sensitivity(objective) * flow / objective.n_samples
        noise *= LAWS[law].deviation(z, objective.n_columns * loss.n_outputs)
        bend = loss.curvature_trace * objective.row_norm**2
        return bend * noise**2 / 2 + norm**2 / (2 * flow)

    flow = float(solver._steps(objective).sum())
    assert cost(flow) < min(cost(0.9 * flow), cost(1.1 * flow))


@every_loss
def test_units_of_the_features_do_not_matter(loss):
    small, large = (
        resolved(replace(OBJECTIVE, loss=loss, data_norm=norm))
        for norm in (1.0, 1000.0)
    )
    assert (small.n_passes, small.batch_size) == (large.n_passes, large.batch_size)
    assert small.step_size == pytest.approx(large.step_size * 1e6)
    objective = replace(OBJECTIVE, loss=loss, data_norm=1000.0)
    assert large.sensitivity(objective) * 1000 == pytest.approx(
        small.sensitivity(OBJECTIVE.with_loss(loss))
    )


@pytest.mark.parametrize("scale", [0.01, 12.0])
def test_fits_in_other_units_are_the_same_fit(scale):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 5)), rng.integers(0, 2, 200).astype(float)

    def fit(factor):
        objective = replace(OBJECTIVE, n_samples=200, data_norm=factor)
        solver = resolved(objective, n_passes=2, batch_size=7)
        source = MemorySource(factor * X, y)
        return factor * solver.descent(objective, Progress()).batches(source, NoNoise())

    assert np.allclose(fit(1.0), fit(scale), rtol=1e-9)


@every_loss
@pytest.mark.parametrize("data_norm", [1e-100, 1e100])
def test_the_ends_of_the_range_of_units(loss, data_norm):
    objective = replace(OBJECTIVE, loss=loss, n_samples=30, data_norm=data_norm)
    rng = np.random.default_rng(0)
    X = data_norm * rng.normal(size=(30, 5))
    source = MemorySource(X, rng.integers(0, max(2, loss.n_outputs), 30).astype(float))
    for params in ({}, {"batch_size": 4, "n_passes": 2}):
        chosen = choose_solver("bolt_on", params, objective, BUDGET)
        with np.errstate(all="ignore"):
            run = door.run(chosen.solver, source, objective, 5.0, NoiseSource(0))
        assert np.isfinite(run.weights).all()
        assert run.weights.any()


def test_regularisation_shortens_the_run():
    assert resolved(replace(OBJECTIVE, alpha=1.0)).n_passes < resolved().n_passes


def test_event_is_one_release():
    assert door.event_of(resolved(), 3.0, OBJECTIVE) == GaussianEvent(3.0)
    pure = door.event_of(resolved(budget=PURE), 4.0, OBJECTIVE)
    assert pure == PureEvent(0.25)


@pytest.mark.parametrize("law", ["gaussian", "spherical"])
@pytest.mark.parametrize("batch_size", [6, 60])
def test_one_draw_of_the_stated_sensitivity(law, batch_size):
    objective = replace(OBJECTIVE, n_samples=60)
    solver = resolved(objective, law=law, batch_size=batch_size, n_passes=2)
    source = MemorySource(np.ones((60, 5)), np.ones(60))
    noise = SpyNoise(seed=0)
    run = door.run(solver, source, objective, 5.0, noise)
    (draw,) = noise.draws
    assert draw.law == law
    assert draw.noise_multiplier == pytest.approx(5.0)
    assert draw.sensitivity == solver.sensitivity(objective)
    assert np.array_equal(run.weights, draw.released)
    assert run.noise_scale == pytest.approx(draw.sigma)


def test_order_comes_from_the_noise_source_and_is_new_if_asked_for():
    objective, source = (
        replace(OBJECTIVE, n_samples=9),
        MemorySource(np.ones((9, 5)), np.ones(9)),
    )
    for reshuffle, expected in ((False, 1), (True, 4)):
        noise = OwnOrder()
        solver = resolved(objective, batch_size=2, n_passes=4, reshuffle=reshuffle)
        door.run(solver, source, objective, 5.0, noise)
        assert len(noise.orders) == expected


def test_progress_counts_passes_and_nothing_else(capsys):
    source = MemorySource(np.zeros((10, 5)), np.zeros(10))
    objective = replace(OBJECTIVE, n_samples=10)
    for batch_size in (3, 10):
        solver = resolved(objective, n_passes=2, batch_size=batch_size)
        door.run(solver, source, objective, 9.0, NoiseSource(0), Progress("fit", True))
        lines = capsys.readouterr().out.splitlines()
        assert lines == ["[fit] step 1 of 2", "[fit] step 2 of 2"]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_passes": 0}, "n_passes"),
        ({"batch_size": 2.5}, "batch_size"),
        ({"schedule": "cosine"}, "schedule"),
        ({"average": "median"}, "average"),
        ({"step_size": -1.0}, "step_size"),
        ({"radius": 0.0}, "radius"),
        ({"reshuffle": 1}, "reshuffle"),
        ({"law": "laplace"}, "law"),
        ({"tol": 1e-3}, r"tol.*cannot be set"),
    ],
)
def test_bad_parameters_are_named(params, message):
    with pytest.raises((TypeError, ValueError), match=message):
        named_solver("bolt_on", params)


@pytest.mark.parametrize(
    ("objective", "budget", "params", "message"),
    [
        (
            OBJECTIVE.with_loss(SquaredLoss(math.inf, 1.0)),
            BUDGET,
            {},
            "bounded gradient",
        ),
        (OBJECTIVE, PURE, {"law": "gaussian"}, "cannot do delta=0"),
        (replace(OBJECTIVE, data_norm=math.inf), BUDGET, {}, "finite data_norm"),
        (OBJECTIVE, BUDGET, {"schedule": "strongly_convex"}, "regularisation"),
        (OBJECTIVE, BUDGET, {"step_size": 4.1}, "at most 2 / L"),
        (
            replace(OBJECTIVE, n_samples=10**9),
            BUDGET,
            {"n_passes": 10**6, "batch_size": 1},
            "too many updates",
        ),
        (OBJECTIVE, BUDGET, {"step_size": 1e-250}, "range of numbers"),
        (OBJECTIVE.with_loss(SoftmaxLoss(3)), Budget(1e-6, 0.0), {}, ""),
    ],
)
def test_refusals_say_why(objective, budget, params, message):
    refusal = door.refusal(BoltOn, objective, budget, **params)
    if not message:
        assert refusal == ""
        return
    assert message in refusal
    with pytest.raises(ValueError, match=message):
        choose_solver("bolt_on", params, objective, budget)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble])
def test_numpy_scalars_become_plain_numbers(kind):
    solver = resolved(
        n_passes=np.int8(3), batch_size=np.int8(2), step_size=kind(0.5), radius=kind(2)
    )
    assert type(resolved(radius=kind(np.inf)).radius) is float
    plain = (int, float, str, bool)
    assert all(type(value) in plain for value in vars(solver).values())


def test_numba_is_imported_only_by_those_who_need_it():
    """Not by the solvers as such, nor by small fits."""
    code = (
        "import sys, numpy as np, skdp.solvers; from skdp import DPLogisticRegression\n"
        "assert 'numba' not in sys.modules\n"
        "X, y = np.eye(40), np.arange(40) % 2\n"
        "model = DPLogisticRegression(solver='bolt_on', classes=[0, 1])\n"
        "model.fit(X, y); assert 'numba' not in sys.modules\n"
        "model.set_params(solver_params={'batch_size': 5}).fit(X, y)\n"
        "assert 'numba' in sys.modules  # the twin\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_weights_too_far_to_be_projected_are_refused():
    n = 200_000
    loss = SquaredLoss(2e154, 1e154)
    objective = LinearObjective(
        loss=loss,
        n_samples=n,
        n_features=1,
        data_norm=1.0,
        adjacency="zero_out",
        fit_intercept=False,
    )
    largest = math.sqrt(np.finfo(float).max)
    params = {
        "n_passes": 1,
        "batch_size": n,
        "step_size": largest * (1 + 0.3 / n) / 1e154,
        "radius": 1e150,
    }
    with pytest.raises(ValueError, match="leaves the range of numbers"):
        choose_solver("bolt_on", params, objective, Budget(1.0, 1e-6))


# --------------------------------------------------------- schedules of the corollaries


@pytest.mark.parametrize(
    ("schedule", "size"), [("decreasing", lambda t: t), ("sqrt", np.sqrt)]
)
def test_offsets_give_the_schedules_of_corollaries_2_and_3(schedule, size):
    """[1]: steps 2 / (beta (t + m^c)) and 2 / (beta (sqrt(t) + m^c)), 0 <= c < 1."""
    objective, m, passes = replace(OBJECTIVE, n_samples=12), 12, 3
    beta, offset = objective.smoothness, 12**0.5
    given = {"schedule": schedule, "batch_size": 1, "n_passes": passes}
    step_size = 2 / (beta * (1 + offset))
    solver = resolved(objective, **given, offset=offset, step_size=step_size)
    t = np.arange(1.0, m * passes + 1)
    wanted = 2 / (beta * (size(t) + offset))
    np.testing.assert_allclose(solver._steps(objective).ravel(), wanted, rtol=1e-12)


@pytest.mark.parametrize("schedule", ["constant", "strongly_convex"])
def test_an_offset_of_other_schedules_is_refused(schedule):
    given = {"schedule": schedule, "offset": 1.0}
    model = DPLogisticRegression(1.0, C=1.0, solver="bolt_on", solver_params=given)
    with pytest.raises(ValueError, match="'offset'"):
        model.fit(np.zeros((4, 1)), [0, 1, 0, 1])


@pytest.mark.parametrize(("n", "few"), [(1, 1), (2, 1), (3, 2), (8, 3), (1000, 7)])
def test_the_last_log_t_iterates_are_averaged(n, few):
    shares = AVERAGES["last_log"](n)
    assert shares.sum() == pytest.approx(1.0)
    assert np.array_equal(shares > 0, np.arange(n) >= n - few)
