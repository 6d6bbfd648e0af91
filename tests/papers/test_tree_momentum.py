"""tree_momentum: matrices of trees, plain momentum without noise, exact audits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skdp._fit import Progress
from skdp.audit._exact import marked, replayed, verdict
from skdp.exceptions import Refused
from skdp.losses import LogisticLoss, SigmoidLoss
from skdp.papers._momentum import ClippedChange
from skdp.papers._tree_momentum import TreeMomentum
from skdp.privacy import GaussianEvent, epsilon_of
from skdp.privacy.noise import _correlated
from skdp.privacy.noise._correlated import BinaryTrees
from skdp.tables._memory import MemorySource
from tests import door
from tests.papers.problem import (
    BUDGET,
    by_adjacency,
    mean_gradient,
    objective_of,
    table,
)
from tests.spies import NoNoise

N, D = 21, 2
OBJECTIVE = objective_of(N, D, adjacency="replace_one")
by_algorithm = pytest.mark.parametrize("by_differences", [False, True])
SHAPES = [(1, 3), (2, 2), (7, 1), (13, 2)]
by_shape = pytest.mark.parametrize(("n_leaves", "n_epochs"), SHAPES)


def planned(objective=OBJECTIVE, **params):
    return door.planned(TreeMomentum, objective, BUDGET, **params)


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


# What is released --------------------------------------------------------------------


@by_algorithm
@pytest.mark.parametrize(("n_leaves", "n_epochs"), [(1, 2), (2, 5), (7, 1), (7, 5)])
def test_without_noise_it_is_normalised_momentum(n_leaves, n_epochs, by_differences):
    """By differences too: they telescope, in one order of all epochs."""
    X, y = table(N, D)
    objective = replace(OBJECTIVE, alpha=0.1)
    facts = {"n_leaves": n_leaves, "n_epochs": n_epochs, "tail": 1e-9}
    solver = planned(
        objective, step_length=0.2, by_differences=by_differences, refresh=0.3, **facts
    )
    found = door.run(solver, MemorySource(X, y), objective, 1.0, NoNoise()).weights
    size = solver.leaf_size(objective)
    weights, momentum = np.zeros((D + 1, 1)), np.zeros((D + 1, 1))
    for step in range(solver.n_leaves * n_epochs):
        leaf = step % solver.n_leaves
        here = slice(leaf * size, (leaf + 1) * size)
        slope = mean_gradient(X[here], y[here], weights, size)
        momentum = solver.momentum * momentum + (1 - solver.momentum) * slope
        along = momentum + 0.1 * weights
        weights = weights - 0.2 * along / np.linalg.norm(along)
    assert np.abs(found - weights).max() < 1e-3


# Audits ------------------------------------------------------------------------------


def pair(adjacency, place, row, other):
    """Sources that differ in one record, at one end of what it may add."""
    X, y = table(N, D)
    X[place], y[place] = row, 0.0
    if adjacency == "zero_out":
        present = np.arange(N) != place
        return MemorySource(X, y), MemorySource(X, y, present)
    rows, labels = X.copy(), y.copy()
    rows[place], labels[place] = other, 1.0
    return MemorySource(X, y), MemorySource(rows, labels)


# Of a record, and of what takes its place under replace_one.
ROWS = [([1.0, 0.0], [1.0, 0.0]), ([-1e9, 0.0], [0.0, 1.0])]


def audited(adjacency, by_differences, *, loss=OBJECTIVE.loss):
    """The most that neighbours are told apart by, over what is charged."""
    objective, most = replace(OBJECTIVE, adjacency=adjacency, loss=loss), 0.0
    facts = {"n_leaves": 4, "n_epochs": 4, "by_differences": by_differences}
    for step_length in (1e-6, 0.3, 30.0):
        solver = planned(objective, step_length=step_length, **facts)
        plan = solver.plan(objective)

        def run(data, noise, solver=solver, plan=plan):
            answers = marked(plan, data, 1.5, adjacency, noise)
            return solver.run(answers, objective, Progress())

        for place in (0, N - 1):
            for row, other in ROWS:
                sources = pair(adjacency, place, row, other)
                first, second, (one, two) = replayed(run, sources, 0)
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


NORM, SQUARE = BinaryTrees.norm.fget, _correlated._tree_norm_squared
TWINS = {
    "the node of a leaf alone": (_correlated, "_tree_norm_squared", 1.1),
    "all epochs but one": (BinaryTrees, "norm", 1.9),
}


@by_algorithm
@pytest.mark.parametrize("forgotten", TWINS)
def test_what_is_forgotten_is_caught(by_differences, forgotten, monkeypatch):
    where, name, least = TWINS[forgotten]
    bug = property(lambda self: NORM(replace(self, passes=1)))
    if where is _correlated:

        def bug(*facts):
            return SQUARE(*facts) - 1

    monkeypatch.setattr(where, name, bug)
    assert audited("replace_one", by_differences) > least


@by_adjacency
def test_changes_without_the_smoothness_are_caught(adjacency, monkeypatch):
    """[P] Algorithm 2 has the way of the weights alone, whatever the loss."""
    honest = ClippedChange.changed_bound

    def forgets(self, radius, moved):
        return honest(self, radius, 0.02 * moved)

    monkeypatch.setattr(ClippedChange, "changed_bound", forgets)
    assert audited(adjacency, True) > 1.1


@pytest.mark.parametrize("params", [{}, {"by_differences": True}])
def test_all_nodes_cost_one_gaussian_answer(params):
    solver = planned(n_epochs=9, **params)
    epsilon = epsilon_of(door.event_of(solver, 3.0, OBJECTIVE), 1e-6)
    assert epsilon == pytest.approx(epsilon_of(GaussianEvent(3.0), 1e-6), rel=1e-6)
    times = [line.times for line in solver.plan(OBJECTIVE).lines]
    n = solver.n_leaves
    assert times == [n * 9, n * 8, n * 9][: len(times)]
    with pytest.raises(Refused, match="sum is below 1"):
        planned(between_share=0.5, within_share=0.5, by_differences=True)
