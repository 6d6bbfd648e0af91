"""HAMSI's algorithms 1 and 2 for an objective of one's own."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks._papers._hamsi import HAMSI, Block

D = 12


def chain(seed=0):
    """Squared errors of neighbours along a line; even and odd ones are apart."""
    rng = np.random.default_rng(seed)
    slopes, targets = rng.uniform(0.5, 1.5, (D - 1, 2)), rng.normal(size=D - 1)

    def block(i):
        def gradient(x):
            return slopes[i] * (slopes[i] @ x - targets[i])

        return Block(np.array([i, i + 1]), gradient)

    A = np.zeros((D - 1, D))
    for i in range(D - 1):
        A[i, i : i + 2] = slopes[i]
    subsets = [[block(i) for i in range(first, D - 1, 2)] for first in (0, 1)]
    return subsets, A, targets


def slope(subsets, x):
    """Gradient of the whole sum."""
    total = np.zeros(len(x))
    for block in (block for subset in subsets for block in subset):
        total[block.columns] += block.gradient(x[block.columns])
    return total


@pytest.mark.parametrize("shuffles", [False, True])
def test_it_minimises_a_chain_of_squares(shuffles):
    subsets, A, targets = chain()
    run = HAMSI(hessian=lambda x: A.T @ A, n_cycles=2000, shuffles=shuffles)
    x = run.minimise(np.zeros(D), subsets)
    assert np.abs(slope(subsets, x)).max() < 1e-6
    assert A @ x == pytest.approx(targets, abs=1e-5)  # fewer squares than variables


def test_it_goes_down_where_the_objective_is_not_convex():
    """Rosenbrock's function in a row: f_i of x_i and x_{i+1}, one minimum of 0."""

    def block(i):
        def gradient(x):
            rest = x[1] - x[0] ** 2
            return np.array([-20 * x[0] * rest - 2 * (1 - x[0]), 10 * rest])

        return Block(np.array([i, i + 1]), gradient)

    def hessian(x):
        """Without the part that may be negative."""
        bent = np.zeros((4, 4))
        for i in range(3):
            bent[i, i] += 20 * x[i] ** 2 + 2
            bent[i, i + 1] = bent[i + 1, i] = -10 * x[i] * 2
            bent[i + 1, i + 1] += 10
        return bent + 10 * np.eye(4)

    subsets = [[block(0), block(2)], [block(1)]]
    start = np.array([0.5, 0.2, 0.1, 0.0])
    x = HAMSI(hessian=hessian, n_cycles=4000).minimise(start, subsets)
    assert np.abs(slope(subsets, x)).max() < 1e-3 * np.abs(slope(subsets, start)).max()


def test_one_block_of_all_takes_damped_newton_steps():
    rng = np.random.default_rng(1)
    root = rng.normal(size=(D, D))
    H, b = root @ root.T + np.eye(D), rng.normal(size=D)
    subsets = [[Block(np.arange(D), lambda x: H @ x - b)]]
    x = HAMSI(hessian=lambda x: H, n_cycles=1, least=1e-12, eta=1e-30).minimise(
        np.zeros(D), subsets
    )
    assert x == pytest.approx(np.linalg.solve(H, b), abs=1e-8)
    wanted = np.zeros(D)
    for _ in range(2):  # the only subset is met twice
        wanted -= np.linalg.solve(H + 3 * np.eye(D), H @ wanted - b)
    x = HAMSI(hessian=lambda x: H, n_cycles=1, least=3.0).minimise(np.zeros(D), subsets)
    assert x == pytest.approx(wanted, abs=1e-12)


def test_a_block_has_the_inverse_of_its_part_not_a_part_of_the_inverse():
    """What tells algorithm 1 from algorithm 3."""
    subsets, A, _ = chain()
    H, first = 9 * A.T @ A, subsets[0][0]
    run = HAMSI(hessian=lambda x: H, n_cycles=1, least=2.0)
    x = run.minimise(np.zeros(D), [[first]])
    bent, other, wanted = H + 2 * np.eye(D), np.zeros(2), np.zeros(2)
    for _ in range(2):
        wanted -= np.linalg.solve(bent[:2, :2], first.gradient(wanted))
        other -= np.linalg.inv(bent)[:2, :2] @ first.gradient(other)
    assert x[:2] == pytest.approx(wanted, abs=1e-13)
    assert np.abs(other - wanted).max() > 1e-3


def test_blocks_of_a_subset_may_be_taken_in_any_order():
    subsets, A, _ = chain()
    turned = [subset[::-1] for subset in subsets]
    run = HAMSI(hessian=lambda x: A.T @ A, n_cycles=20)
    ahead, back = (run.minimise(np.ones(D), one) for one in (subsets, turned))
    assert ahead.tobytes() == back.tobytes()


def test_orders_are_those_of_section_3_4():
    run = HAMSI(hessian=lambda x: np.eye(1))
    orders = run._orders(5, np.random.default_rng(0))
    cycles = [next(orders) for _ in range(3)]
    assert cycles == [[1, 2, 3, 4, 0, 1], [2, 3, 4, 0, 1, 2], [3, 4, 0, 1, 2, 3]]
    shuffled = HAMSI(hessian=lambda x: np.eye(1), shuffles=True)
    orders = shuffled._orders(5, np.random.default_rng(0))
    for _ in range(20):
        order = next(orders)
        assert sorted(order[:-1]) == list(range(5))
        assert order[-1] == order[0]


def test_blocks_that_share_a_variable_are_refused():
    subsets, A, _ = chain()
    together = [subsets[0] + subsets[1]]
    with pytest.raises(ValueError, match="no variable in common"):
        HAMSI(hessian=lambda x: A.T @ A).minimise(np.zeros(D), together)
