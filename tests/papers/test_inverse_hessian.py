"""The compact form is the recursion of BFGS."""

from __future__ import annotations

import numpy as np
import pytest

from skdp.decomposition._ratings import Threads
from skdp.papers import _hamsi
from skdp.papers._hamsi import InverseHessian

THREADS = Threads(1)


def recursion(pairs, sigma, size):
    """``(I - rho s y') H (I - rho y s') + rho s s'``, from the oldest pair on."""
    H, eye = sigma * np.eye(size), np.eye(size)
    for s, y in pairs:
        rho = 1 / (s @ y)
        left = eye - rho * np.outer(s, y)
        H = left @ H @ left.T + rho * np.outer(s, s)
    return H


def some_pairs(size, n, seed=0):
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(size, size))
    hessian = half @ half.T / size + 0.1 * np.eye(size)
    steps = rng.normal(size=(n, size))
    return [(s, hessian @ s) for s in steps]


def applied(inverse, vector, factor=1.0):
    point = np.zeros(len(vector))
    inverse.subtract(point, vector, factor, THREADS)
    return -point


@pytest.mark.parametrize("n", [1, 3, 4, 5, 11])  # of pairs; 4 are remembered
def test_it_is_the_recursion(n):
    size, memory = 30, 4
    pairs = some_pairs(size, n)
    inverse = InverseHessian(size, memory, 1.0, np.float64)
    for s, y in pairs:
        assert inverse.accept(s, y, THREADS)
    s, y = pairs[-1]
    assert np.isclose(inverse.sigma, s @ y / (y @ y), rtol=1e-14)
    H = recursion(pairs[-memory:], inverse.sigma, size)
    for vector in np.random.default_rng(1).normal(size=(5, size)):
        expected = 0.3 * H @ vector
        error = np.abs(applied(inverse, vector, 0.3) - expected).max()
        assert error < 1e-10 * np.abs(expected).max()
    # The order of pairs matters, so that a wrong place in the ring is noticed.
    wrong = recursion(pairs[-memory:][::-1], inverse.sigma, size)
    if n > 1:
        assert np.abs(wrong - H).max() > 1e-3 * np.abs(H).max()


def test_the_secant_equation():
    pairs = some_pairs(30, 7)
    inverse = InverseHessian(30, 4, 1.0, np.float64)
    for s, y in pairs:
        inverse.accept(s, y, THREADS)
    assert np.allclose(applied(inverse, pairs[-1][1]), pairs[-1][0], rtol=1e-10)


def test_pieces_and_threads_change_nothing(monkeypatch):
    pairs = some_pairs(30, 6)
    vector = np.random.default_rng(1).normal(size=30)
    results = []
    for piece, n_jobs in ((7, 1), (7, 3), (100, 1)):
        monkeypatch.setattr(_hamsi, "_PIECE", piece)
        with Threads(n_jobs) as threads:
            inverse = InverseHessian(30, 4, 1.0, np.float64)
            for s, y in pairs:
                inverse.accept(s, y, threads)
            point = np.zeros(30)
            inverse.subtract(point, vector, 1.0, threads)
        results.append(point)
    assert np.array_equal(results[0], results[1])
    assert np.allclose(results[0], results[2], rtol=1e-10)


@pytest.mark.parametrize("change", [-1.0, 0.0, np.nan, np.inf])
def test_no_pair_without_positive_curvature(change):
    inverse = InverseHessian(5, 2, 0.7, np.float64)
    assert not inverse.accept(np.ones(5), np.full(5, change), THREADS)
    assert not inverse.accept(np.zeros(5), np.ones(5), THREADS)
    assert len(inverse) == 0
    assert np.allclose(applied(inverse, np.ones(5)), 0.7)


def test_settings_of_the_thesis():
    (s, y), (t, z) = some_pairs(5, 2)
    capped = InverseHessian(5, 2, 1e-6, np.float64, capped=True, waits=True)
    capped.accept(s, y, THREADS)
    assert capped.sigma == 1e-6
    assert np.allclose(applied(capped, y), 1e-6 * y)
    capped.accept(t, z, THREADS)
    assert np.allclose(applied(capped, z), t)
    capped.clear()
    assert np.allclose(applied(capped, y), 1e-6 * y)


def test_algorithm_3_of_the_thesis_is_not_its_algorithm_1():
    """``H / beta`` is no ``(H^-1 + beta I)^-1``, nor a block of it one of the other."""
    size, beta = 30, 2.0
    pairs = some_pairs(size, 4)
    inverse = InverseHessian(size, 4, 1.0, np.float64)
    for s, y in pairs:
        inverse.accept(s, y, THREADS)
    H = np.array([applied(inverse, row) for row in np.eye(size)])
    printed, meant = H / beta, np.linalg.inv(np.linalg.inv(H) + beta * np.eye(size))
    assert np.linalg.norm(printed - meant) > 0.3 * np.linalg.norm(meant)
    # Only where beta is large are the two alike: (H^-1 + beta I)^-1 is then I / beta.
    block = np.ix_(range(10), range(10))
    inner_block = np.linalg.inv(np.linalg.inv(H)[block])
    assert np.linalg.norm(H[block] - inner_block) > 0.1 * np.linalg.norm(H[block])
