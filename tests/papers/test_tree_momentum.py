"""tree_momentum: matrices of trees, plain momentum without noise, exact audits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from skdp import DPLogisticRegression
from skdp._fit import Progress
from skdp.audit._exact import marked, replayed, verdict
from skdp.exceptions import Refused
from skdp.io import ParquetSource
from skdp.losses import LogisticLoss, SigmoidLoss
from skdp.losses._objective import LinearObjective
from skdp.papers._momentum import ClippedChange
from skdp.papers._tree_momentum import TreeMomentum
from skdp.privacy import Budget, GaussianEvent, epsilon_of
from skdp.privacy.noise import _correlated
from skdp.privacy.noise._correlated import BinaryTrees
from skdp.privacy.noise._laws import Gaussian
from skdp.privacy.noise._noise import gaussian_scale
from skdp.privacy.release._plan import Bound, Correlated, Line, Plan
from skdp.tables._memory import MemorySource
from tests import door
from tests.spies import NoNoise, SpyNoise

BUDGET = Budget(1.0, 1e-6)
N, D = 21, 2
OBJECTIVE = LinearObjective(
    loss=LogisticLoss(),
    n_samples=N,
    n_features=D,
    data_norm=1.0,
    adjacency="replace_one",
)
by_adjacency = pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
by_algorithm = pytest.mark.parametrize("by_differences", [False, True])
SHAPES = [(1, 1), (1, 3), (2, 2), (3, 2), (7, 1), (8, 3), (13, 2)]
by_shape = pytest.mark.parametrize(("n_leaves", "n_epochs"), SHAPES)


def planned(objective=OBJECTIVE, **params):
    return door.planned(TreeMomentum, objective, BUDGET, **params)


def table(seed=0, n=N):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, (X[:, 0] > 0).astype(float)


# Matrices ----------------------------------------------------------------------------


def matrix(trees):
    """C, of which every row is the node that is born with an answer."""
    found = np.zeros((trees.times, trees.times))
    for t in range(trees.times):
        weights = trees.weights(t)
        found[t, t + 1 - len(weights) : t + 1] = weights[::-1]
    return found


def by_definition(n, beta):
    """C of one epoch: left nodes, in the order of their ends."""
    found, size = np.zeros((n, n)), 1
    while size <= n:
        for last in range(size, n + 1, 2 * size):
            leaves = np.arange(last - size + 1, last + 1)
            found[last - 1, leaves - 1] = beta ** (last - leaves).astype(float)
        size *= 2
    return found


@by_shape
@pytest.mark.parametrize("beta", [0.0, 0.4, 0.95])
def test_bounds_and_spreads_are_those_of_the_matrix(n_leaves, n_epochs, beta):
    trees = BinaryTrees(n_leaves, n_epochs, beta)
    C, one = matrix(trees), by_definition(n_leaves, beta)
    assert np.allclose(C, np.kron(np.eye(n_epochs), one), rtol=1e-14, atol=0)
    # A record is in one leaf of every epoch, and moves each of its answers by 1.
    leaves = [C[:, leaf::n_leaves] for leaf in range(n_leaves)]
    joint = max(np.linalg.norm(columns.sum(axis=1)) for columns in leaves)
    assert joint <= trees.norm <= joint * (1 + 1e-12)
    held = max(np.count_nonzero(columns.any(axis=1)) for columns in leaves)
    assert held <= trees.n_sums
    inverse, ages = np.linalg.inv(one), np.arange(n_leaves)[::-1].astype(float)
    spread = np.linalg.norm(inverse, axis=1).max()
    assert trees.answer_spread == pytest.approx(spread, rel=1e-12)
    of_pass = np.linalg.norm(beta**ages @ inverse)
    assert trees.prefix_spread == pytest.approx(of_pass, rel=1e-12)


def test_a_record_in_another_leaf_of_each_epoch_is_no_more():
    """Rows of different epochs have no answer in common: any order of each will do."""
    n, n_epochs = 6, 3
    trees, rng = BinaryTrees(n, n_epochs, 0.8), np.random.default_rng(0)
    C = matrix(trees)
    for _ in range(50):
        places = rng.integers(n, size=n_epochs) + n * np.arange(n_epochs)
        assert np.linalg.norm(C[:, places].sum(axis=1)) <= trees.norm


class Constant:
    """A query that is a number, whatever the records; its bound is 1."""

    family, shape = "constant", (1,)

    def __init__(self, value=0.0):
        self._value = value

    def bound(self):
        return Bound(replace_one=1.0, zero_out=1.0)

    def slack(self, layout):
        return 0.0

    def open(self, data):
        return data

    def total(self, data, rows):
        return np.array([self._value])


@by_shape
def test_momentum_has_the_noise_of_the_nodes_of_its_prefix(n_leaves, n_epochs):
    beta, noise = 0.9, SpyNoise(seed=1)
    sample = Correlated(3, BinaryTrees(n_leaves, n_epochs, beta))
    plan = Plan((Line(sample.times, sample=sample),))
    data = MemorySource(*table(n=3 * n_leaves))
    answers = door.answers_for(plan, data, 2.0, "zero_out", noise)
    momentum = carried = 0.0
    for t in range(sample.times):
        if t % n_leaves == 0:
            carried = momentum
        momentum = beta * momentum + answers.ask(Constant(float(t))).value.item()
        place, wanted = t % n_leaves + 1, beta ** (t % n_leaves + 1) * carried
        while place:
            node = noise.draws[t - t % n_leaves + place - 1]
            wanted += beta ** (t % n_leaves + 1 - place) * node.released.item()
            place -= place & -place
        assert momentum == pytest.approx(wanted, abs=1e-9)


@by_shape
@pytest.mark.parametrize("multiplier", [1e-3, 1.0, 1e9])
def test_the_grid_is_charged_for_each_node_that_holds_a_record(
    n_leaves, n_epochs, multiplier
):
    sample = Correlated(100, BinaryTrees(n_leaves, n_epochs, 0.9))
    bound = sample.on_grid(Gaussian(), multiplier, 50)
    scale = gaussian_scale(sensitivity=bound, noise_multiplier=multiplier, size=50)
    least = sample.joint + math.sqrt(50 * sample.matrix.n_sums) * scale.grid
    assert scale.sigma / multiplier >= least * (1 - 1e-14)


# What is released --------------------------------------------------------------------


@by_algorithm
@pytest.mark.parametrize("n_leaves", [1, 2, 4, 7])
@pytest.mark.parametrize("n_epochs", [1, 2, 5])
def test_without_noise_it_is_normalised_momentum(n_leaves, n_epochs, by_differences):
    """By differences too: they telescope, in one order of all epochs."""
    X, y = table()
    objective = replace(OBJECTIVE, alpha=0.1)
    facts = {"n_leaves": n_leaves, "n_epochs": n_epochs, "tail": 1e-9}
    solver = planned(
        objective, step_length=0.2, by_differences=by_differences, refresh=0.3, **facts
    )
    found = door.run(solver, MemorySource(X, y), objective, 1.0, NoNoise()).weights
    rows, size = np.hstack([X, np.ones((N, 1))]), solver.leaf_size(objective)
    weights, momentum = np.zeros((D + 1, 1)), np.zeros((D + 1, 1))
    for step in range(solver.n_leaves * n_epochs):
        leaf = step % solver.n_leaves
        here = slice(leaf * size, (leaf + 1) * size)
        p = 1 / (1 + np.exp(-rows[here] @ weights))
        slope = rows[here].T @ (p - y[here, None]) / size
        momentum = solver.momentum * momentum + (1 - solver.momentum) * slope
        along = momentum + 0.1 * weights
        weights = weights - 0.2 * along / np.linalg.norm(along)
    assert np.abs(found - weights).max() < 1e-3


def test_differences_of_more_epochs_are_mixed_by_refresh():
    """With noise the share of fresh gradients matters from the third epoch on."""
    ends = {}
    for n_epochs in (2, 3):
        for refresh in (0.0, 0.5):
            solver = planned(
                n_epochs=n_epochs, step_length=0.1, refresh=refresh, by_differences=True
            )
            noise, data = SpyNoise(seed=0), MemorySource(*table())
            ends[n_epochs, refresh] = door.run(solver, data, OBJECTIVE, 1.0, noise)
    assert np.array_equal(ends[2, 0.0].weights, ends[2, 0.5].weights)
    assert not np.array_equal(ends[3, 0.0].weights, ends[3, 0.5].weights)


@by_algorithm
def test_files_give_the_bits_of_memory(by_differences, tmp_path):
    X, y = table(n=50)
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=y)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=7)
    source = ParquetSource(tmp_path / "rows.parquet", target="y", n_samples=50)
    params = {"n_epochs": 3, "by_differences": by_differences}
    model = DPLogisticRegression(
        1.0,
        delta=1e-6,
        classes=[0, 1],
        solver="tree_momentum",
        solver_params=params,
        random_state=0,
    )
    by_memory = model.fit(X, y).coef_.copy()
    assert np.array_equal(model.fit(source).coef_, by_memory)


# Audits ------------------------------------------------------------------------------


def pair(adjacency, place, row, other):
    """Sources that differ in one record, at one end of what it may add."""
    X, y = table()
    X[place], y[place] = row, 0.0
    if adjacency == "zero_out":
        present = np.arange(N) != place
        return MemorySource(X, y), MemorySource(X, y, present)
    rows, labels = X.copy(), y.copy()
    rows[place], labels[place] = other, 1.0
    return MemorySource(X, y), MemorySource(rows, labels)


# Of a record, and of what takes its place under replace_one.
ROWS = [([1.0, 0.0], [1.0, 0.0]), ([-1e9, 0.0], [0.0, 1.0])]


def audited(adjacency, by_differences, *, loss=OBJECTIVE.loss, **bugs):
    """The most that neighbours are told apart by, over what is charged."""
    objective, most = replace(OBJECTIVE, adjacency=adjacency, loss=loss), 0.0
    for step_length in (1e-6, 0.3, 30.0):
        solver = planned(
            objective,
            n_leaves=4,
            n_epochs=4,
            step_length=step_length,
            by_differences=by_differences,
        )
        plan = solver.plan(objective)

        def run(data, noise, solver=solver, plan=plan, objective=objective):
            answers = marked(plan, data, 1.5, adjacency, noise)
            return solver.run(answers, objective, Progress())

        for place in (0, N - 1):
            for row, other in ROWS:
                sources = pair(adjacency, place, row, other)
                first, second, (one, two) = replayed(run, sources, 0, **bugs)
                assert np.array_equal(one.weights, two.weights)
                event = plan.event(1.5, adjacency)
                most = max(most, verdict(first, second, event).largest)
    return most


@by_adjacency
@by_algorithm
@pytest.mark.parametrize("loss", [LogisticLoss(), SigmoidLoss()], ids=repr)
def test_neighbours_are_told_apart_by_what_is_charged(adjacency, by_differences, loss):
    """By all gradients exactly; changes attain their bounds at no weights at all."""
    most = audited(adjacency, by_differences, loss=loss)
    assert most <= 1 + 1e-9
    assert most > (0.99 if loss == LogisticLoss() else 0.35)


@by_adjacency
@by_algorithm
def test_half_of_the_noise_is_caught(adjacency, by_differences):
    assert audited(adjacency, by_differences, shrink=0.5) > 1.9


def one_node_less(n_parts, momentum):
    """Without the node of the leaf alone."""
    return _HONEST(n_parts, momentum) - 1


_HONEST = _correlated._tree_norm_squared


@by_adjacency
@by_algorithm
def test_a_forgotten_node_is_caught(adjacency, by_differences, monkeypatch):
    monkeypatch.setattr(_correlated, "_tree_norm_squared", one_node_less)
    assert audited(adjacency, by_differences) > 1.1


@by_adjacency
@by_algorithm
def test_epochs_that_are_counted_once_are_caught(
    adjacency, by_differences, monkeypatch
):
    honest = BinaryTrees.norm.fget
    once = property(lambda self: honest(replace(self, passes=1)))
    monkeypatch.setattr(BinaryTrees, "norm", once)
    assert audited(adjacency, by_differences) > 1.9


@by_adjacency
def test_changes_without_the_smoothness_are_caught(adjacency, monkeypatch):
    """[P] Algorithm 2 has the way of the weights alone, whatever the loss."""
    honest = ClippedChange.changed_bound

    def forgets(self, radius, moved):
        return honest(self, radius, 0.02 * moved)

    monkeypatch.setattr(ClippedChange, "changed_bound", forgets)
    assert audited(adjacency, True) > 1.1


@by_adjacency
@pytest.mark.parametrize("n_epochs", [2, 9])
def test_all_nodes_cost_one_gaussian_answer(adjacency, n_epochs):
    objective = replace(OBJECTIVE, adjacency=adjacency)
    whole = epsilon_of(GaussianEvent(3.0), 1e-6)
    for params in ({}, {"by_differences": True, "between_share": 0.6}):
        solver = planned(objective, n_epochs=n_epochs, **params)
        event = door.event_of(solver, 3.0, objective)
        assert epsilon_of(event, 1e-6) == pytest.approx(whole, rel=1e-6)
        times = [line.times for line in solver.plan(objective).lines]
        n = solver.n_leaves
        wanted = [n * n_epochs, n * (n_epochs - 1), n * n_epochs]
        assert times == wanted[: len(times)]


# Parameters --------------------------------------------------------------------------


def test_defaults_follow_from_public_facts():
    solver = planned()
    assert solver == planned()
    assert (solver.n_leaves, solver.momentum) == (4, 0.75)
    assert planned(n_leaves=1000).n_leaves == N
    assert planned(n_leaves=8).n_leaves == 7  # batches of 3 of 21 records
    # Steps are in units of weights.
    small = planned(replace(OBJECTIVE, data_norm=0.01))
    assert small.step_length == pytest.approx(100 * solver.step_length)
    assert small.refresh == pytest.approx(solver.refresh)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"n_leaves": 0}, ValueError, "n_leaves"),
        ({"n_epochs": 0}, ValueError, "n_epochs"),
        ({"momentum": 1.0}, ValueError, "momentum"),
        ({"step_length": 0.0}, ValueError, "step_length"),
        ({"between_share": 1.0}, ValueError, "between_share"),
        (
            {"between_share": 0.5, "within_share": 0.5, "by_differences": True},
            Refused,
            "sum is below 1",
        ),
        ({"residual_clip": 0.5}, (TypeError, ValueError), "cannot be set"),
    ],
)
def test_bad_parameters_are_named(params, error, message):
    with pytest.raises(error, match=message):
        planned(**params)


def test_users_are_refused_before_anything_is_read():
    """Batches are cut by position, where rows of one user would be in many of them."""
    X, y = table()
    model = DPLogisticRegression(
        1.0, classes=[0, 1], solver="tree_momentum", privacy_unit="user"
    )
    with pytest.raises(Refused, match="for privacy_unit='record' only"):
        model.fit(X, y, groups=np.arange(N) // 2)
