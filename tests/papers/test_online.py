"""online: disjoint buckets, one reading, one release's cost."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from skdp.losses import HuberHingeLoss, LogisticLoss, SoftmaxLoss, SquaredLoss
from skdp.losses._objective import LinearObjective
from skdp.papers._output_perturbation import OnlineGD
from skdp.privacy import Budget, GaussianEvent, PureEvent, calibrate
from skdp.privacy.noise._noise import NoiseSource
from skdp.solvers._registry import choose_solver, named_solver
from skdp.solvers._steps import restarted
from skdp.sums._exact import on_grid
from skdp.sums._floating import GradientSum
from skdp.tables._memory import MemorySource
from skdp.tables._views import buckets
from tests import door
from tests.gradients import exact_sum
from tests.solvers.neighbours import largest_change
from tests.solvers.test_noisy_gd import Flat
from tests.spies import NoNoise, SpyNoise, SpySource

LOSS = LogisticLoss()
OBJECTIVE = LinearObjective(
    loss=LOSS, n_samples=2000, n_features=5, data_norm=1.0, adjacency="zero_out"
)
BUDGET, PURE = Budget(1.0, 1e-6), Budget(1.0, 0.0)
LOSSES = [LOSS, SoftmaxLoss(3), SquaredLoss(2.0, 1.0), HuberHingeLoss()]
by_adjacency = pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])


def resolved(objective=OBJECTIVE, budget=BUDGET, **params):
    return door.planned(OnlineGD, objective, budget, **params)


# Buckets -------------------------------------------------------------------------


def positions(cut, n, size, largest_block):
    """Records of every bucket, each known by the single entry of its row."""
    source = MemorySource(np.arange(float(n))[:, None], np.arange(float(n)))
    source.facts = replace(source.facts, largest_block=largest_block)
    return [
        np.concatenate([piece.y for piece in bucket.blocks()]).astype(int).tolist()
        for bucket in cut(source, size)
    ]


def is_a_partition(found, n, size):
    """Whether every record is in one bucket, fixed by its position."""
    return found == [list(range(i, min(i + size, n))) for i in range(0, n, size)]


@pytest.mark.parametrize("size", [1, 7, 10, 33, 100, 1000])
@pytest.mark.parametrize("largest_block", [1, 8, 100])
def test_buckets_are_a_partition_by_position(size, largest_block):
    assert is_a_partition(positions(buckets, 100, size, largest_block), 100, size)


def test_broken_twins_of_buckets_are_found_out():
    def overlapping(source, size):
        whole = next(iter(buckets(source, 100)))
        for start in range(0, 100, size):
            rows = np.arange(max(0, start - 1), start + size)
            piece = MemorySource(whole._pieces[0].X[rows], whole._pieces[0].y[rows])
            yield piece

    def of_blocks(source, size):  # drops what does not fill a bucket
        for bucket in buckets(source, size):
            if bucket.n_samples == size:
                yield bucket

    assert not is_a_partition(positions(overlapping, 100, 10, 100), 100, 10)
    assert not is_a_partition(positions(of_blocks, 100, 7, 100), 100, 7)


@pytest.mark.parametrize("storage", [np.asarray, csr_array])
def test_sums_over_buckets_are_sums_over_their_records(storage):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 5)), rng.integers(0, 2, 100).astype(float)
    present = rng.random(100) < 0.8
    objective = replace(OBJECTIVE, n_samples=100)
    weights = rng.normal(size=(6, 1))
    source = MemorySource(storage(X), y, present)
    source.facts = replace(source.facts, largest_block=8)
    total = GradientSum(source, objective)
    for t, bucket in enumerate(buckets(source, 30)):
        rows = np.arange(30 * t, min(100, 30 * t + 30))
        assert bucket.n_samples == len(rows)
        assert bucket.facts.largest_block <= 8
        found = GradientSum(bucket, objective)(weights)
        assert np.allclose(found, total(weights, rows), rtol=1e-12, atol=1e-12)


def test_data_are_read_once_and_in_order():
    diary = []
    source = SpySource(MemorySource(np.ones((100, 5)), np.ones(100)), diary)
    solver = resolved(replace(OBJECTIVE, n_samples=100), bucket_size=9)
    objective = replace(OBJECTIVE, n_samples=100)
    door.run(solver, source, objective, 3.0, NoiseSource())
    assert diary == ["read"]


# Privacy -------------------------------------------------------------------------


@pytest.mark.parametrize("bucket_size", [1, 7, 100, 10**6])
def test_event_is_one_release_whatever_the_number_of_buckets(bucket_size):
    solver = resolved(bucket_size=bucket_size)
    assert door.event_of(solver, 3.0, OBJECTIVE) == GaussianEvent(3.0)
    pure = resolved(bucket_size=bucket_size, budget=PURE)
    assert door.event_of(pure, 4.0, OBJECTIVE) == PureEvent(0.25)
    assert OnlineGD.adds_in_squares({})
    assert not OnlineGD.adds_in_squares({"law": "spherical"})


def run_on(source, solver, objective, budget=BUDGET, noise=None):
    noise = noise or SpyNoise(seed=5)
    z = calibrate(lambda z: door.event_of(solver, z, objective), budget)
    door.run(solver, source, objective, z, noise)
    return noise.draws, z


@pytest.mark.parametrize("budget", [BUDGET, PURE], ids=["gaussian", "spherical"])
@pytest.mark.parametrize("position", [0, 44, 99])
@by_adjacency
def test_one_record_changes_one_query_within_its_sensitivity(
    adjacency, position, budget
):
    """Earlier queries are the same to the last bit; its own moves as the bound says.

    The record at 99 is alone in the last, short bucket.
    """
    objective = replace(OBJECTIVE, n_samples=100, adjacency=adjacency)
    solver = resolved(objective, budget=budget, bucket_size=11, intercept_weight=1.0)
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(100, 5)), rng.integers(0, 2, 100).astype(float)
    other = np.array(y)
    other[position] = 1 - y[position]
    present = np.arange(100) != position
    neighbour = {
        "replace_one": MemorySource(X, other),
        "zero_out": MemorySource(X, y, present),
    }[adjacency]
    ours, z = run_on(MemorySource(X, y), solver, objective, budget)
    theirs, _ = run_on(neighbour, solver, objective, budget)
    t = position // 11
    assert len(ours) == 10
    for a, b in zip(ours[:t], theirs[:t], strict=True):
        assert np.array_equal(a.query, b.query)
    change = np.linalg.norm(ours[t].query - theirs[t].query)
    assert 0.1 * ours[t].sensitivity < change <= ours[t].sensitivity
    assert [draw.noise_multiplier for draw in ours] == pytest.approx([z] * 10)
    # Broken twin: an average over the records of a short bucket.
    held = min(11, 100 - 11 * t)
    if held == 1:
        assert change / held > ours[t].sensitivity / 11


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@by_adjacency
def test_no_neighbour_exceeds_the_sensitivity(loss, adjacency):
    objective = replace(OBJECTIVE, loss=loss, adjacency=adjacency, n_features=4)
    solver = resolved(objective, residual_clip=math.inf, intercept_weight=1.0)
    stated, found = solver.sensitivity(objective), largest_change(objective)
    # The last bits are charged as rounding.
    assert 0.7 * stated < found <= stated * (1 + 1e-12)


def test_pure_epsilon_needs_spherical_noise():
    solver = choose_solver("online", None, OBJECTIVE, PURE).solver
    assert solver.law == "spherical"
    assert choose_solver("online", None, OBJECTIVE, BUDGET).solver.law == "gaussian"
    with pytest.raises(ValueError, match=r"delta=0 with law='gaussian'.*law=None"):
        choose_solver("online", {"law": "gaussian"}, OBJECTIVE, PURE)
    with pytest.raises(ValueError, match="law"):
        named_solver("online", {"law": "laplace"})
    wide = replace(OBJECTIVE, n_features=10**8)
    with pytest.raises(ValueError, match="larger epsilon"):
        choose_solver("online", None, wide, Budget(1e-6, 0.0))


# The algorithm -------------------------------------------------------------------


def test_the_divisor_is_the_same_for_a_short_bucket():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(25, 5)), rng.integers(0, 2, 25).astype(float)
    objective = replace(OBJECTIVE, n_samples=25, alpha=0.3)
    params = {"bucket_size": 10, "step_size": 0.4, "momentum": 0.5, "tail": 1.0}
    solver = resolved(objective, **params)
    source = MemorySource(X, y)
    found = door.run(solver, source, objective, 1.0, NoNoise())
    total = exact_sum(source, objective)
    weights, velocity, path = np.zeros((6, 1)), np.zeros((6, 1)), []
    for rows in (np.arange(10), np.arange(10, 20), np.arange(20, 25)):
        mean = total(on_grid(weights), rows) / 10 + 0.3 * weights
        velocity = 0.5 * restarted(velocity, mean) - 0.4 * mean
        weights = weights + velocity
        path.append(weights)
    assert np.allclose(found.weights, np.mean(path, axis=0), rtol=1e-12)


def test_smoothing_is_heavy_ball():
    """v = (1 - b) v + b g, W = W - a v: momentum 1 - b with steps of a b."""
    a, b = 0.7, 0.1
    objective = replace(OBJECTIVE, fit_intercept=False)
    solver = resolved(objective, step_size=a * b, momentum=1 - b, tail=1e-9)
    start = np.zeros(objective.shape)
    ball = solver.steps(replace(objective, n_samples=30 * solver.bucket_size), start)
    smooth, weights = np.zeros((5, 1)), np.zeros((5, 1))
    for released in np.random.default_rng(0).normal(size=(30, 5, 1)):
        ball.step(released)
        smooth = (1 - b) * smooth + b * released
        weights = weights - a * smooth
    assert np.allclose(ball.average(), weights, rtol=1e-12)


def test_defaults_follow_from_public_facts_only():
    solver = resolved()
    assert solver == resolved()
    assert resolved(**solver.params) == solver
    assert resolved(bucket_size=10**9).bucket_size == 2000
    many = replace(OBJECTIVE, n_samples=10**6)
    assert resolved(many).n_buckets(many) > solver.n_buckets(OBJECTIVE)
    assert resolved(many).n_buckets(many) <= 300
    # So much noise that one step is best.
    few = replace(OBJECTIVE, n_samples=20)
    assert resolved(few, budget=Budget(0.01, 1e-6)).n_buckets(few) == 1


@pytest.mark.parametrize("budget", [BUDGET, PURE], ids=["gaussian", "spherical"])
def test_default_flow_time_admits_the_stated_noise(budget):
    objective = replace(OBJECTIVE, n_samples=20_000)
    solver = resolved(objective, budget=budget)
    steps = solver.n_buckets(objective)
    flow = solver.step_size * steps / (1 - solver.momentum)
    z = calibrate(lambda z: door.event_of(solver, z, objective), budget)
    deviation = solver.noise_law.deviation(z, objective.n_columns)
    deviation *= solver.sensitivity(objective)
    noise = flow * deviation * math.sqrt(steps) / 20_000
    # The number of steps is rounded.
    assert noise * objective.data_norm == pytest.approx(2.0, rel=0.06)


def test_noise_in_a_flat_direction_matches_the_utility_statement():
    objective = replace(OBJECTIVE, loss=Flat(), n_features=4000, fit_intercept=False)
    solver = OnlineGD(
        bucket_size=80,
        step_size=2.0,
        momentum=0.0,
        tail=1e-9,
        residual_clip=math.inf,
        intercept_weight=1.0,
        law="gaussian",
    )
    z = calibrate(lambda z: door.event_of(solver, z, objective), BUDGET)
    source = MemorySource(np.zeros((2000, 4000), dtype=np.float32), np.zeros(2000))
    run = door.run(solver, source, objective, z, NoiseSource(7))
    flow = 25 * 2.0
    theory = flow * 5 * z * solver.sensitivity(objective) / 2000
    assert float(np.std(run.weights)) == pytest.approx(theory, rel=0.05)
