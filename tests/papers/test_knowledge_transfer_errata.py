"""The paper's knowledge transfer (DPSL-KT) is not private; ours, on the same pair.

The pair: s = 1, n odd, (n + 1) / 2 records are (e_1, 1), the rest (e_2, 1). Replacing
one record moves the whole teacher from one feature to the other.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit

from skdp._fit import Progress
from skdp.audit._exact import marked, replayed, verdict
from skdp.losses import SquaredLoss
from skdp.papers._two_stage import KnowledgeTransfer
from skdp.privacy import Budget, calibrate
from skdp.privacy.accounting._gaussian import gaussian_epsilon
from skdp.tables._memory import MemorySource
from tests.door import planned
from tests.papers.problem import objective_of

D, EPSILON, DELTA = 50, 0.8, 1e-5
GAMMA = 1.0  # bound on |gradient| at weights in [0, 1]
COVARIANCE = 1 / 3  # of U(-1, 1)


def regularisation(n):
    """Theorem 3.3.5 with s = 1 and constant 1."""
    root = np.sqrt(np.log(D) * np.log(1 / DELTA))
    return np.sqrt(GAMMA * root / (n * EPSILON))


def noise_of_labels(n, strength):
    """Theorem 3.3.3 with s = 1 and m = n."""
    variance = 8 * n * COVARIANCE * GAMMA**2 * np.log(2.5 / DELTA)
    return np.sqrt(variance) / (n * EPSILON * strength)


def descent(moments, products, strength, step_size, n_steps):
    """Algorithm 3 with s = 1, from 0, by the second moments of the records."""
    weights = np.zeros(len(products))
    for _ in range(n_steps):
        gradient = moments @ weights - products + strength * weights
        moved = weights - step_size * gradient
        weights = np.zeros_like(moved)
        largest = np.argmax(np.abs(moved))
        weights[largest] = moved[largest]
    return weights


def teacher(n, n_first):
    shares = np.zeros(D)
    shares[:2] = n_first / n, 1 - n_first / n
    return descent(np.diag(shares), shares, regularisation(n), 0.5, 500)


def teachers(n):
    """Of the two neighbours."""
    return teacher(n, n // 2 + 1), teacher(n, n // 2)


class Published:
    """Labels and students of the paper's mechanism for both neighbours."""

    def __init__(self, n):
        rng = np.random.default_rng(0)
        self.rng, self.rows = rng, rng.uniform(-1, 1, (n, D))
        self.moments = self.rows.T @ self.rows / n
        self.means = [self.rows @ weights for weights in teachers(n)]
        self.sigma = noise_of_labels(n, regularisation(n))
        self.n = n

    @property
    def true_epsilon(self):
        distance = np.linalg.norm(self.means[0] - self.means[1])
        return gaussian_epsilon(distance / self.sigma, DELTA)

    def labels(self, which):
        return self.means[which] + self.sigma * self.rng.normal(size=self.n)

    def likelihood_ratio(self, labels):
        first, second = (np.sum((labels - mean) ** 2) for mean in self.means)
        return (second - first) / (2 * self.sigma**2)

    def student(self, labels):
        return descent(self.moments, self.rows.T @ labels / self.n, 0.0, 1.5, 60)


@pytest.mark.parametrize(("n", "times"), [(201, 29), (20_001, 394)])
def test_one_record_moves_the_sparse_teacher_by_a_constant(n, times):
    """Claimed is sqrt(2 s) gamma / (n lambda), by an inequality for convex sets."""
    first, second = teachers(n)
    distance = np.linalg.norm(first - second)
    claimed = np.sqrt(2) * GAMMA / (n * regularisation(n))
    assert distance > 1
    assert distance / claimed == pytest.approx(times, rel=0.01)


@pytest.mark.parametrize(("n", "epsilon"), [(201, 21), (20_001, 1180)])
def test_true_epsilon_of_the_paper_s_labels(n, epsilon):
    assert Published(n).true_epsilon == pytest.approx(epsilon, rel=0.05)


def test_the_paper_s_mechanism_is_distinguished_almost_surely():
    paper = Published(1001)
    for which, sign in ((0, 1), (1, -1)):
        labels = [paper.labels(which) for _ in range(300)]
        ratios = sign * np.array([paper.likelihood_ratio(x) for x in labels])
        assert np.mean(ratios > 0) > 0.99
        tops = [np.argmax(np.abs(paper.student(x))) for x in labels[:100]]
        assert np.mean(np.array(tops) == which) > 0.95  # by chance: 0.02


def pair(n):
    X = np.zeros((n, D))
    X[: n // 2 + 1, 0] = 1
    X[n // 2 + 1 :, 1] = 1
    Z = X.copy()
    Z[n // 2, :2] = 0, 1
    return MemorySource(X, np.ones(n)), MemorySource(Z, np.ones(n))


def test_ours_is_not_distinguished_beyond_its_claim():
    """By all that the teacher releases, exactly; with less noise it is."""
    facts = {"adjacency": "replace_one", "fit_intercept": False, "n_nonzero": 1}
    loss = SquaredLoss(2.0, target_bound=1.0)
    objective, budget = (
        objective_of(1001, D, loss=loss, **facts),
        Budget(EPSILON, DELTA),
    )
    params = {"teacher_params": {"n_steps": 2}, "teacher": "noisy_gd"}
    solver = planned(KnowledgeTransfer, objective, budget, **params)
    plan = solver.plan(objective)
    z = calibrate(lambda z: plan.event(z, "replace_one"), budget)

    def run(source, noise):
        answers = marked(plan, source, z, "replace_one", noise)
        return solver.run(answers, objective, Progress())

    def found(**bugs):
        first, second, _ = replayed(run, pair(1001), 0, **bugs)
        return verdict(first, second, plan.event(z, "replace_one")).total

    assert 0.3 < found() <= 1
    assert found(shrink=0.2) > 1


def test_a_sparse_descent_need_not_come_nearer_to_the_minimiser():
    """Used is a linear rate: |teacher - minimiser| <= rate^T |minimiser|."""
    moments, best = np.diag([1.0, 0.5]), np.array([1.0, 1.9])
    products = moments @ best
    values = [-(products[j] ** 2) / moments[j, j] / 2 for j in range(2)]
    assert np.argmin(values) == 1  # the best single feature
    for n_steps in (10, 1000):
        found = descent(moments, products, 0.0, 1.0, n_steps)
        assert np.argmax(np.abs(found)) == 0
        assert np.linalg.norm(found - [0, 1.9]) > np.linalg.norm([0, 1.9])


def test_the_bound_lacks_a_factor_where_nothing_is_sparse():
    """(3.6.3) has 1 / (2 n) for 1 / n: too little with one feature, too."""
    n, strength = 1000, 50.0

    def minimiser(y):
        def objective(w):
            return np.mean(np.logaddexp(0, w) - y * w) + strength * w**2 / 2

        return minimize_scalar(objective, (-0.1, 0.1), tol=1e-14).x

    y = np.arange(n) % 2.0
    neighbour = y.copy()
    neighbour[0] = 1.0
    ends = minimiser(y), minimiser(neighbour)
    gamma = max(np.abs(expit(w) - labels).max() for w in ends for labels in (0.0, 1.0))
    claimed = np.sqrt(2) * gamma / (n * strength)
    assert 1.35 * claimed < abs(ends[0] - ends[1]) < np.sqrt(2.01) * claimed


@pytest.mark.parametrize(
    ("epsilon", "delta", "true"),
    [(8.0, 1e-5, 7.90), (10.0, 1e-5, 10.35), (8.0, 0.01, 8.43)],
)
def test_the_paper_s_gaussian_formula_out_of_its_range(epsilon, delta, true):
    """sigma = sqrt(2 log(2.5 / delta)) / epsilon, with half of delta for the rest."""
    sigma = np.sqrt(2 * np.log(2.5 / delta)) / epsilon
    assert gaussian_epsilon(1 / sigma, delta / 2) == pytest.approx(true, abs=0.01)


def test_no_gradient_bound_holds_for_unbounded_targets():
    """gamma is stated for targets of a model; one record's target may be anything."""
    shares = np.array([0.5, 0.5])
    n, strength = 1001, regularisation(1001)
    for target in (1e2, 1e4):
        products = shares.copy()
        products[0] += (target - 1) / n
        moved = descent(np.diag(shares), products, strength, 0.5, 500)
        still = descent(np.diag(shares), shares, strength, 0.5, 500)
        assert np.linalg.norm(moved - still) > 0.5 * target / n
