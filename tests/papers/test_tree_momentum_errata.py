"""What the paper says of momentum from trees, and what is so (docs/notebook/errata.md).

[P] Tran and Cutkosky (2022). Epochs of N steps, T steps in all, numbered from 1; a node
is a dyadic interval of steps, and beta = 1 - alpha is what a momentum keeps.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from skdp.privacy import GaussianEvent, epsilon_of


def nodes(n_steps):
    """All dyadic intervals of 1, ..., n_steps."""
    size = 1
    while size <= n_steps:
        for last in range(size, n_steps + 1, size):
            yield last - size + 1, last
        size *= 2


def is_of_prefix(first, last):
    """Whether a node is needed for some prefix: a left child."""
    size = last - first + 1
    return (last // size) % 2 == 1


def prefix(t):
    """The nodes of which 1, ..., t is made."""
    while t:
        size = t & -t
        yield t - size + 1, t
        t -= size


def test_a_prefix_is_made_of_nodes_as_many_as_its_bits():
    """At t the node of the last bit of t is born, and no other."""
    born = dict(enumerate([0] * 129))
    for first, last in nodes(128):
        born[last] += first if is_of_prefix(first, last) else 0
    for t in range(1, 129):
        parts = sorted(prefix(t))
        assert len(parts) == t.bit_count()
        covered = [step for first, last in parts for step in range(first, last + 1)]
        assert covered == list(range(1, t + 1))
        assert all(is_of_prefix(*part) for part in parts)
        assert born[t] == t - (t & -t) + 1


def worst_node(n, n_epochs, *, fresh):
    """Largest sensitivity of a node in units of alpha G, alpha = 1 / n.

    A record stands once in every epoch: at the same place, or wherever it weighs most.
    """
    beta, worst = 1 - 1 / n, 0.0
    for first, last in nodes(n * n_epochs):
        if not is_of_prefix(first, last):
            continue
        weights = np.zeros((n_epochs, n))
        steps = np.arange(first, last + 1)
        weights[(steps - 1) // n, (steps - 1) % n] = beta ** (last - steps)
        best = weights.max(axis=1).sum() if fresh else weights.sum(axis=0).max()
        worst = max(worst, 2 * best)
    return worst


@pytest.mark.parametrize(("n", "attained"), [(10, 4.38), (1000, 4.82)])
def test_a_node_across_epochs_exceeds_its_sensitivity(n, attained):
    """[P] Algorithm 1 has 4 alpha G for every node, with a new order in each epoch."""
    found = worst_node(n, 6, fresh=True)
    assert found >= attained - 0.01
    assert found > 4
    assert found <= 2 * (1 + 1 / (1 - (1 - 1 / n) ** n))
    # In one order for all epochs, or with a power of two, it holds.
    assert worst_node(n, 6, fresh=False) < 3.2
    assert worst_node(1024, 4, fresh=True) < 3.2


def test_how_many_nodes_hold_a_record():
    """[P] V counts T / N epochs where there are up to the next whole number."""
    n, n_steps = 1024, 1536
    depth = n_steps.bit_length()
    printed = (min(depth, 10) + 1) * n_steps / n
    printed += sum(n_steps // 2**j for j in range(11, depth + 1))
    counts = np.zeros(n, dtype=int)
    for first, last in nodes(n_steps):
        steps = np.arange(first, last + 1)
        counts[np.unique((steps - 1) % n)] += 1
    assert printed == 16.5
    assert counts.max() == 21


def test_the_condition_on_delta_is_reversed():
    """[P] Theorem 4 asks for delta >= exp(-epsilon); it fails there."""
    epsilon, delta = 30.0, 1e-3
    sigma = 2 * math.sqrt(math.log(1 / delta)) / epsilon
    assert delta >= math.exp(-epsilon)
    assert epsilon_of(GaussianEvent(sigma), delta) > epsilon
    # Where delta <= exp(-epsilon) it holds.
    for epsilon, delta in ((0.5, 1e-6), (5.0, 1e-3), (13.0, 1e-6)):
        assert delta <= math.exp(-epsilon)
        sigma = 2 * math.sqrt(math.log(1 / delta)) / epsilon
        assert epsilon_of(GaussianEvent(sigma), delta) <= epsilon


@pytest.mark.parametrize("smoothness", [0.25, 5.0, 25.0])
def test_differences_of_gradients_grow_with_the_smoothness(smoothness):
    """[P] Algorithm 2 has 2 eta N for them, at weights eta N apart.

    Of a pair of quadratics whose minima lie on either side.
    """
    moved = 0.01  # eta N
    before, now = 0.3, 0.3 + moved

    def change(sign):
        return sign * smoothness * (now - before)

    found = abs(change(1) - change(-1))
    assert found == pytest.approx(2 * smoothness * moved)
    assert bool(found <= 2 * moved * (1 + 1e-9)) is (smoothness <= 1)


def momentum_by_parts(orders, beta, gamma, points, records):
    """Largest error of Algorithm 2's recursion against the plain weighted sum."""
    n, n_steps = len(records), len(records) * len(orders)

    def part(point, t):
        return math.tanh(points[point] * record(t) + record(t))

    def record(t):
        return records[orders[(t - 1) // n][(t - 1) % n]]

    def window(first, last, of):
        return sum(beta ** (last - t) * of(t) for t in range(first, last + 1))

    def own(t):
        return part((t - 1) // n, t)

    def moved(t):
        return own(t) - part((t - 1) // n - 1, t)

    sums, windows, worst = {}, {}, 0.0
    for t in range(1, n_steps + 1):
        epoch = (t - 1) // n
        if epoch == 0:
            sums[t] = window(1, t, own)
        else:
            fresh = window(t - n + 1, t, own)
            windows[t] = fresh
            if epoch > 1:
                change = windows[t - n] + window(t - n + 1, t, moved)
                windows[t] = (1 - gamma) * change + gamma * fresh
            sums[t] = beta**n * sums[t - n] + windows[t]
        worst = max(worst, abs(sums[t] - window(1, t, own)))
    return worst


def test_algorithm_2_needs_one_order_for_all_epochs():
    """[P] equation 3 adds up differences of other records if orders are fresh."""
    rng = np.random.default_rng(0)
    records, points = rng.normal(size=16), rng.normal(size=7)
    fixed = rng.permutation(16)
    fresh = [rng.permutation(16) for _ in range(6)]
    assert momentum_by_parts([fixed] * 6, 0.9, 0.3, points, records) < 1e-13
    assert momentum_by_parts(fresh, 0.9, 0.3, points, records) > 0.5


@pytest.mark.parametrize(("n", "d", "epsilon"), [(1e4, 20, 1.0), (1e6, 1000, 0.5)])
def test_both_tunings_average_over_one_epoch(n, d, epsilon):
    """[P] Theorems 6 and 9: alpha is 1 / N, of full-batch descent at another price."""
    root = math.sqrt(d * math.log(1e6))
    low, high = 2.0, 1e30  # T = epsilon N^2 / (log2(T) root), by halving
    for _ in range(200):
        steps = math.sqrt(low * high)
        too_few = steps * math.log2(steps) * root < epsilon * n**2
        low, high = (steps, high) if too_few else (low, steps)
    alpha = epsilon * n / (steps * math.log2(steps) * root)
    assert alpha * n == pytest.approx(1.0, rel=1e-6)
    steps = n ** (7 / 3) * epsilon ** (4 / 3) / d ** (2 / 3)
    alpha = n**0.75 * epsilon / (steps**0.75 * math.sqrt(d))
    assert alpha * n == pytest.approx(1.0, rel=1e-6)
    if n == 1e4:
        assert steps / n == pytest.approx(29_240, rel=1e-3)  # epochs
