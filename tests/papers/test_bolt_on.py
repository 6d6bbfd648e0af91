"""bolt_on: its kernels, its release and its rules."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from skdp._fit import Progress
from skdp.losses import SquaredLoss
from skdp.papers._bolt_on import AVERAGES, SCHEDULES, BoltOn
from skdp.solvers._registry import named_solver
from skdp.tables._memory import MemorySource
from tests import door
from tests.papers.permutation import (
    OBJECTIVE,
    Plan,
    clipped,
    descend,
    resolved,
)
from tests.papers.problem import BUDGET, PURE
from tests.problems import LOSSES
from tests.spies import NoNoise

every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


class OwnOrder(NoNoise):
    """No noise, and a new order for every call."""

    def __init__(self, seed=0):
        self._rng, self.orders = np.random.default_rng(seed), []

    def permutation(self, n):
        self.orders.append(self._rng.permutation(n))
        return self.orders[-1]


# The kernels -------------------------------------------------------------------------


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
    every = enumerate(itertools.product(SCHEDULES, AVERAGES))
    for i, (schedule, average) in list(every)[list(STORAGES).index(storage) :: 4]:
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


# Rules -------------------------------------------------------------------------------


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


REFUSED = [
    ({"loss": SquaredLoss(math.inf, 1.0)}, {}, "bounded gradient"),
    ({"data_norm": math.inf}, {}, "finite data_norm"),
    ({}, {"schedule": "strongly_convex"}, "regularisation"),
    ({}, {"step_size": 4.1}, "at most 2 / L"),
    ({"n_samples": 10**9}, {"n_passes": 10**6, "batch_size": 1}, "too many updates"),
    ({}, {"step_size": 1e-250}, "range of numbers"),
    ({}, {"law": "gaussian"}, "cannot do delta=0"),
]


@pytest.mark.parametrize(("facts", "params", "message"), REFUSED)
def test_refusals_say_why(facts, params, message):
    objective = replace(OBJECTIVE, **facts)
    budget = PURE if "law" in params else BUDGET
    assert message in door.refusal(BoltOn, objective, budget, **params)


@pytest.mark.parametrize("schedule", ["constant", "strongly_convex"])
def test_an_offset_of_other_schedules_is_refused(schedule):
    given = {"schedule": schedule, "offset": 1.0}
    with pytest.raises(ValueError, match="'offset'"):
        named_solver("bolt_on", given)


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


def test_many_records_are_in_batches_of_ten_passes():
    large = replace(OBJECTIVE, n_samples=10**6)
    solver = resolved(large)
    assert solver.n_passes == 10
    assert solver.batch_size < 10**6
    # Of so many updates the recursion is compiled.
    many = resolved(large, batch_size=50)
    assert 0 < many.sensitivity(large) < np.inf


@pytest.mark.parametrize(("n", "few"), [(1, 1), (2, 1), (3, 2), (8, 3), (1000, 7)])
def test_the_last_log_t_iterates_are_averaged(n, few):
    shares = AVERAGES["last_log"](n)
    assert shares.sum() == pytest.approx(1.0)
    assert np.array_equal(shares > 0, np.arange(n) >= n - few)
