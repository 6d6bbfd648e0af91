"""Momentum from trees, repaired: definitions, counts, exact audits and broken twins."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import tree_momentum as command
from benchmarks._papers import _tree_momentum as trees
from benchmarks._papers._storm import Storm, gradient
from benchmarks.nonconvex import Table, every
from skdp.privacy import epsilon_of

LEAVES, EPOCHS, PER_LEAF, D = 8, 4, 3, 2
BY_ADJACENCY = pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
BY_ALGORITHM = pytest.mark.parametrize("algorithm", [1, 2])


def method(algorithm, adjacency="replace_one", **changes):
    facts = {"n_epochs": EPOCHS, "step_size": 0.1, "alpha": 0.2, "mu": 0.5, **changes}
    return trees.TreeMomentum(algorithm=algorithm, adjacency=adjacency, **facts)


def task(seed=0, n_leaves=LEAVES, kind=trees.Logistic):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_leaves * PER_LEAF, D))
    y = (X[:, 0] > 0).astype(float)
    return kind(X, y, n_leaves)


def exact(kind, value, deviation):
    return value


class Told:
    """Noise that is written down, and told again to a neighbour."""

    def __init__(self, seed, told=None):
        self._rng, self._told, self.heard = np.random.default_rng(seed), told, []

    def __call__(self, kind, value, deviation):
        at = len(self.heard)
        released = value + deviation * self._rng.normal(size=value.shape)
        if self._told is not None:
            assert deviation == self._told[at][1]
            released = self._told[at][2]
        self.heard.append((value, deviation, released))
        return released


def found_mu(run, one, other, seed=0):
    """The exact mu at which a transcript tells two tables apart."""
    first = Told(seed)
    weights = run.run(one, first)
    second = Told(seed, first.heard)
    assert run.run(other, second).tobytes() == weights.tobytes()
    moved = [
        np.sum((a - b) ** 2) / deviation**2
        for (a, deviation, _), (b, _, _) in zip(first.heard, second.heard, strict=True)
    ]
    return math.sqrt(sum(moved))


def neighbours(
    adjacency, place, large, *, is_other_row=False, kind=trees.Logistic, label=0.0
):
    """Tables that differ in one record, of which the first goes along `large`."""
    own = task(kind=kind)
    X, y = own.X.copy(), own.y.copy()
    X[place], y[place] = large, label
    one = replace(own, X=X, y=y)
    if adjacency == "zero_out":
        present = np.arange(len(y)) != place
        return one, replace(one, present=present)
    labels, rows = y.copy(), X.copy()
    labels[place] = 1.0 - label
    if is_other_row:
        rows[place] = -X[place]
    return one, replace(one, X=rows, y=labels)


@pytest.mark.parametrize("n", [1, 2, 8, 64])
def test_prefixes_and_suffixes_are_made_of_nodes(n):
    for t in range(n + 1):
        before = sorted(s for y, z in trees.prefix(t) for s in range(y, z + 1))
        assert before == list(range(1, t + 1))
        if t:
            after = [s for y, z in trees.suffix(t, n) for s in range(y, z + 1)]
            assert after == list(range(t + 1, n + 1))
            for y, z in (*trees.prefix(t), *trees.suffix(t, n)):
                assert (y, z) in set(trees.ending(z))


@pytest.mark.parametrize("beta", [0.5, 0.9, 1.0])
@pytest.mark.parametrize("n", [1, 4, 32])
def test_nodes_that_hold_a_leaf_are_counted_by_brute_force(n, beta):
    for prefixes_only in (True, False):
        weights = np.zeros(n)
        size = 1
        while size <= n:
            for number in range(n // size):
                if prefixes_only and number % 2:  # a right child
                    continue
                leaves = np.arange(number * size, (number + 1) * size)
                weights[leaves] += beta ** (2.0 * (leaves[-1] - leaves))
            size *= 2
        found = trees.weight_of_a_leaf(n, beta, prefixes_only=prefixes_only)
        assert found == pytest.approx(weights.max(), rel=1e-12)
    if beta == 1:
        assert found == math.log2(n) + 1


@BY_ALGORITHM
@pytest.mark.parametrize("n_leaves", [1, 2, 8])
def test_without_noise_it_is_plain_momentum(algorithm, n_leaves):
    """The recursions against the definition, iterate by iterate, to 1e-13."""
    own, run = task(n_leaves=n_leaves), method(algorithm)
    walk = run._first if algorithm == 1 else run._second
    weights, momentum = np.zeros(D + 1), np.zeros(D + 1)
    found = list(walk(own, exact))
    assert len(found) == n_leaves * EPOCHS
    for step, iterate in enumerate(found):
        slope = own.gradient(step % n_leaves + 1, weights)
        momentum = (1 - run.alpha) * momentum + run.alpha * slope
        weights = weights - run.step_size * momentum / np.linalg.norm(momentum)
        assert np.abs(iterate - weights).max() < 1e-13


def test_algorithm_2_in_fresh_orders_is_another_momentum(monkeypatch):
    """Broken twin: an order for each epoch, as printed."""
    own, run, asked = task(), method(2), []
    honest = trees.Logistic.gradient

    def shuffled(self, t, weights):
        # Algorithm 2 asks 2 gradients a step in the first epoch and 3 in others.
        asked.append(t)
        epoch = 0 if len(asked) <= 2 * LEAVES else 1 + (len(asked) - 17) // 24
        order = np.random.default_rng(epoch).permutation(LEAVES) + 1
        return honest(self, int(order[t - 1]), weights)

    fixed = np.array(list(run._second(own, exact)))
    plain = np.array(list(method(1)._first(own, exact)))
    assert np.abs(fixed - plain).max() < 1e-13
    monkeypatch.setattr(trees.Logistic, "gradient", shuffled)
    fresh = np.array(list(run._second(own, exact)))
    weights, momentum, worst = np.zeros(D + 1), np.zeros(D + 1), 0.0
    for step, iterate in enumerate(fresh):
        order = np.random.default_rng(step // LEAVES).permutation(LEAVES) + 1
        slope = honest(own, int(order[step % LEAVES]), weights)
        momentum = 0.8 * momentum + 0.2 * slope
        weights = weights - 0.1 * momentum / np.linalg.norm(momentum)
        worst = max(worst, np.abs(iterate - weights).max())
    assert worst > 1e-3


@BY_ADJACENCY
@BY_ALGORITHM
@pytest.mark.parametrize("step_size", [0.01, 1.0, 30.0])
def test_no_neighbour_is_told_apart_by_more_than_mu(algorithm, adjacency, step_size):
    run = method(algorithm, adjacency, step_size=step_size)
    for place in (0, 10, LEAVES * PER_LEAF - 1):
        for large in ([1.0, 0.0], [-1e9, 0.0], [0.0, 1.0], [0.0, 0.0]):
            for other in (True, False):
                pair = neighbours(adjacency, place, np.array(large), is_other_row=other)
                assert found_mu(run, *pair) <= run.mu * (1 + 1e-9)


@pytest.mark.parametrize(
    ("algorithm", "adjacency", "factor"),
    [
        (1, "zero_out", 2),
        (1, "replace_one", 2),
        (2, "zero_out", 2),
        # Its bound adds up worst cases of three kinds of nodes, and of two records.
        (2, "replace_one", 3),
    ],
)
def test_a_part_of_the_noise_is_caught(algorithm, adjacency, factor):
    """A record in the leaf that most nodes hold, at weights where it is wrong."""
    runs = [
        method(algorithm, adjacency, step_size=step_size, n_epochs=12)
        for step_size in (0.3, 1.0, 30.0)
    ]
    pairs = [
        neighbours(adjacency, place, np.array(large), is_other_row=True)
        for place in (0, 3, 12)
        for large in ([1.0, 0.0], [-1.0, 0.0])
    ]

    def most(times):
        several = [replace(run, mu=times * run.mu) for run in runs]
        return max(found_mu(run, *pair) for run in several for pair in pairs)

    mu = runs[0].mu
    assert mu / factor < most(1) <= mu * (1 + 1e-9)
    # Deviations follow from mu alone: twice of it is half the noise.
    assert most(factor) > mu


def test_differences_without_the_smoothness_are_caught(monkeypatch):
    """Broken twin: changes charged by a smoothness that the loss does not have."""
    run, found = method(2, "zero_out", step_size=0.3, shares=(0.02, 0.49, 0.49)), []
    for smoothness in (trees.Logistic.smoothness, 0.02):
        monkeypatch.setattr(trees.Logistic, "smoothness", smoothness)
        found.append(
            max(
                found_mu(run, *neighbours("zero_out", place, np.array([1.0, 0.0])))
                for place in (0, 12)
            )
        )
    assert found[0] <= run.mu < found[1]


@BY_ALGORITHM
def test_what_is_charged_is_mu(algorithm):
    run = method(algorithm, mu=0.2367)
    assert epsilon_of(run.event, 1e-6) == pytest.approx(1.0, rel=1e-3)
    kinds = []

    def hear(kind, value, deviation):
        assert deviation > 0
        kinds.append(kind)
        return value

    run.run(task(), hear)
    # Left nodes: one a step. All nodes: 2 n - 1 an epoch.
    steps, nodes = LEAVES * EPOCHS, (2 * LEAVES - 1) * EPOCHS
    wanted = {"gradient": steps}
    if algorithm == 2:
        between = nodes // EPOCHS * (EPOCHS - 1)
        wanted = {"gradient": nodes, "between": between, "within": steps}
    assert {kind: kinds.count(kind) for kind in set(kinds)} == wanted


def test_storm_of_all_records_is_descent_and_of_batches_is_recursive():
    own = task()
    rows = np.hstack([own.X, np.ones((len(own.X), 1))])
    found = Storm(n_steps=2, batch_size=10**6, step_size=1.0, refresh=0.2)
    weights = np.zeros(D + 1)
    for _ in range(2):
        weights = weights - gradient(rows, own.y, weights)
    # Changes telescope where every step has all records.
    assert found.run(own.X, own.y, 0) == pytest.approx(weights, abs=1e-14)
    batches = replace(found, batch_size=4)
    assert np.abs(batches.run(own.X, own.y, 0) - weights).max() > 1e-3
    rng = np.random.default_rng(0)
    one, two = (rng.choice(len(own.y), 4, replace=False) for _ in range(2))
    first = gradient(rows[one], own.y[one], np.zeros(D + 1))
    second = gradient(rows[two], own.y[two], -first)
    moved = second - gradient(rows[two], own.y[two], np.zeros(D + 1))
    wanted = -first - (0.8 * (first + moved) + 0.2 * second)
    assert batches.run(own.X, own.y, 0) == pytest.approx(wanted, abs=1e-14)


def test_its_table_is_of_settings_chosen_without_the_test_part():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = (X[:, 0] > 0).astype(int)
    table = Table(X[:240], y[:240], X[240:], y[240:])
    blind = replace(table, X_test=table.X_test * math.nan)
    grid = tuple(every(n_leaves=(4,), n_epochs=(6,), step_size=(1e-9, 0.3)))
    one = command.FromTrees(1, "zero_out", 50.0)
    assert command.best_of(one.fit, grid, blind) == grid[1]
    shown = command.line("place", one.fit, grid[1], table, 2)
    assert shown.startswith("| place | ")
    assert shown.endswith("step_size=0.3 |")
    assert epsilon_of(one.method(grid[1]).event, 1e-5) <= 50.0


def most_of_sigmoid(run, adjacency):
    """The largest exact mu found for the sigmoid loss."""
    pairs = (
        neighbours(
            adjacency,
            place,
            np.array(large),
            is_other_row=other,
            kind=trees.Sigmoid,
            label=label,
        )
        for place in (0, 3, 12)
        for large in ([1.0, 0.0], [-1e9, 0.0], [0.0, 1.0])
        for other in (True, False)
        for label in (0.0, 1.0)
    )
    return max(found_mu(run, *pair) for pair in pairs)


@BY_ADJACENCY
@BY_ALGORITHM
@pytest.mark.parametrize("step_size", [0.01, 0.3, 30.0])
def test_no_neighbour_of_the_sigmoid_loss_is_told_apart(
    algorithm, adjacency, step_size
):
    run = method(algorithm, adjacency, step_size=step_size)
    assert most_of_sigmoid(run, adjacency) <= run.mu * (1 + 1e-9)


@BY_ADJACENCY
@pytest.mark.parametrize(("algorithm", "step_size"), [(1, 0.01), (2, 0.01)])
def test_a_slope_bound_that_the_sigmoid_loss_does_not_keep_is_caught(
    algorithm, step_size, adjacency, monkeypatch
):
    """Broken twin: a third of the steepest slope."""
    run = method(algorithm, adjacency, step_size=step_size, shares=(0.9, 0.05, 0.05))
    monkeypatch.setattr(trees.Sigmoid, "steepest", 0.25 / 3)
    assert most_of_sigmoid(run, adjacency) > run.mu


def test_constants_of_the_sigmoid_loss_are_its_own():
    raw, half = np.linspace(-8, 8, 200_001), 1e-4
    for y in (0.0, 1.0):
        sign = 1 - 2 * y
        value = 1 / (1 + np.exp(-sign * raw))  # near 1 on the wrong side
        slope = trees.Sigmoid.residual(raw, y)
        assert np.abs(np.gradient(value, raw) - slope)[1:-1].max() < 1e-8
        assert np.abs(slope).max() == pytest.approx(trees.Sigmoid.steepest)
        bent = trees.Sigmoid.residual(raw + half, y) - slope
        assert np.abs(bent / half).max() == pytest.approx(
            trees.Sigmoid.smoothness, rel=1e-5
        )
