"""What is wrong in the bolt-on paper, each claim beside what refutes it.

The counterexamples to its sensitivities that are broken twins of our solver are in
`test_permutation_sensitivity`; here is the rest. Rows have norm 1 and L is 1.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from scipy.special import exp1, expit, gammainc

from skdp.losses import HuberHingeLoss, SoftmaxLoss
from skdp.papers._bolt_on import BoltOn
from skdp.privacy import GaussianEvent, epsilon_of
from skdp.privacy.accounting._gaussian import gaussian_mu
from tests.gradients import query_sensitivity
from tests.papers.problem import objective_of

OBJECTIVE = objective_of(
    40, 2, loss=HuberHingeLoss(), fit_intercept=False, adjacency="replace_one"
)


def lone_linear(n, b, passes, step, alpha):
    """How far a linear record alone, z or -z, moves one weight; constant steps."""
    per_pass = -(-n // b)
    w = 0.0
    for t in range(passes * per_pass):
        is_met = t % per_pass == per_pass - 1
        w -= step * (alpha * w - is_met / b)
    return 2 * w


@pytest.mark.parametrize("b", [5, 10])
def test_lemma_7_with_batches_needs_another_exponent(b):
    n, passes, step, alpha = 40, 150, 0.15, 0.1
    found = lone_linear(n, b, passes, step, alpha)
    literal = 2 * step / b / (1 - (1 - step * alpha) ** n)
    right = 2 * step / b / (1 - (1 - step * alpha) ** (n // b))
    assert found > 3 * literal
    assert 0.99 * right < found <= right


def test_lemma_1_2_is_a_root_short():
    """On the quadratic diag(gamma, beta) a step contracts less than printed."""
    gamma, beta = 0.1, 1.0
    step = 0.9 * 2 / (beta + gamma)
    true = max(abs(1 - step * gamma), abs(1 - step * beta))
    printed = 1 - 2 * step * beta * gamma / (beta + gamma)
    assert true > 1.15 * printed
    assert true <= math.sqrt(printed)


def epochs(Z, alpha, passes):
    """Weights and objective after every pass of Algorithm 2 on rows y x."""
    w, t, weights, values = np.zeros(2), 0, [], [math.log(2)]
    cap = 1 / (0.25 + alpha)
    for _ in range(passes):
        for z in Z:
            t += 1
            slope = -1 / (1 + math.exp(z[0] * w[0] + z[1] * w[1]))
            w = w - min(cap, 1 / (alpha * t)) * (slope * z + alpha * w)
        weights.append(w)
        loss = np.logaddexp(0, -(Z @ w)).mean()
        values.append(loss + alpha / 2 * w @ w)
    return np.array(weights), -np.diff(values)


def test_stopping_when_the_error_stalls_is_not_private():
    """Section 4.3: one record decides on another pass, and passes move far."""
    n, alpha, signal, passes = 20_000, 4e-6, 0.004, 4
    Z = np.tile([signal, 0.0], (n, 1))
    neighbour = Z.copy()
    neighbour[0] = [0.0, 1.0]
    (first, fell), (second, fell_too) = (
        epochs(rows, alpha, passes) for rows in (Z, neighbour)
    )
    bound = 2 / (alpha * n)  # what Theorem 5 says for every number of passes
    assert np.linalg.norm(first - second, axis=1).max() <= bound
    ratios = []
    for j in range(1, passes - 1):  # a tolerance that separates the two runs
        tolerance = (fell[j] + fell_too[j]) / 2
        stops = np.argmax(fell < tolerance), np.argmax(fell_too < tolerance)
        if stops[0] != stops[1]:
            moved = np.linalg.norm(first[stops[0]] - second[stops[1]])
            ratios.append(moved / bound)
    assert max(ratios) > 1.3
    assert "n_passes" in BoltOn.__dataclass_fields__  # ours is declared


def farthest_apart(norms, law):
    """Kolmogorov's distance of norms from a law of them."""
    expected = law(np.sort(norms))
    ranks = np.arange(len(norms) + 1) / len(norms)
    return max(np.max(ranks[1:] - expected), np.max(expected - ranks[:-1]))


def test_a_direction_from_the_unit_ball_is_not_private():
    """Appendix E's noise has a density like E1(eps |x| / S): unbounded at 0.

    Sampled as it says, in three dimensions; 1e-9 for each distance.
    """
    draws, d = 20_000, 3
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(draws, d))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    of_ball = directions * rng.random(draws)[:, None] ** (1 / d)
    norms = np.linalg.norm(of_ball * rng.gamma(d, size=draws)[:, None], axis=1)

    def of_e1(r):  # the integral of d r^2 E1(r) / 2 up to r
        return r**3 * exp1(r) / 2 + gammainc(3, r)

    slack = math.sqrt(math.log(2e9) / (2 * draws))
    assert farthest_apart(norms, of_e1) < slack
    assert farthest_apart(norms, partial(gammainc, d)) > slack  # the sphere's
    # The loss between 0 and a point one sensitivity away grows without limit.
    losses = [math.log(exp1(r) / exp1(1.0)) for r in (0.1, 1e-3, 1e-30)]
    assert losses == sorted(losses)
    assert losses[0] > 1.0


def classical(epsilon, delta):
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def test_classical_gaussian_noise_is_too_small_above_8_4():
    for epsilon, is_enough in ((8.3, True), (8.5, False), (16.0, False)):
        event = GaussianEvent(classical(epsilon, 1e-5))
        assert (epsilon_of(event, 1e-5) <= epsilon) is is_enough


def test_one_vector_needs_far_less_noise_than_ten_models():
    """Ten one-vs-rest models at (eps/10, delta/10) each, against one release."""
    delta = 1 / 60_000**2
    hinge = HuberHingeLoss(n_outputs=10)
    joint, soft = (
        query_sensitivity(OBJECTIVE.with_loss(loss)) / query_sensitivity(OBJECTIVE)
        for loss in (hinge, SoftmaxLoss(10))
    )
    assert joint == pytest.approx(math.sqrt(10))
    assert soft == pytest.approx(math.sqrt(2))
    for epsilon in (0.1, 1.0, 4.0):
        split = classical(epsilon / 10, delta / 10)
        multiplier = 1 / gaussian_mu(epsilon, delta)
        assert 3.5 < split / (joint * multiplier) < 4.3
        assert 8.0 < split / (soft * multiplier) < 9.5


def test_bst14_as_printed_has_half_the_noise():
    """Two logistic gradients at the same weights differ by 2, not by 1."""
    w = np.array([40.0, 0.0])
    tilt = np.array([0.2, 0.0])
    side = np.array([0.0, math.sqrt(1 - 0.04)])
    rows = (-tilt + side, -tilt - side)
    change = np.subtract(*(-expit(-(z @ w)) * z for z in rows))
    assert np.linalg.norm(change) > 1.9  # its sigma takes iota = 1


def one_weight(n, b, alpha, sign, place):
    """Algorithm 2's weight for one record of a Huber loss among inert ones."""
    loss, w = HuberHingeLoss(h=0.1), 0.0
    for t in range(2 * n // b):
        step, hit = min(1 / (5 + alpha), 1 / (alpha * (t + 1))), 0.0
        if t % (n // b) == place:
            residual = loss.residual(np.ones(1), np.array([[sign * w]]))
            hit = sign * residual.item() / b
        w -= step * (hit + alpha * w)
    return w


def test_dividing_by_the_batch_size_is_caught_by_an_audit():
    """What TensorFlow Privacy's BoltOn does too; exactly, for a claim of 0.1."""
    n, b, alpha = 400, 40, 0.5
    apart = [
        abs(one_weight(n, b, alpha, 1, place) - one_weight(n, b, alpha, -1, place))
        for place in range(n // b)
    ]
    assert 0.1 * max(apart) / (2 / (alpha * n)) <= 0.1
    # The paper's, with L = 2.
    assert 0.1 * max(apart) / (2 * 2 / (alpha * n * b)) > 0.5
