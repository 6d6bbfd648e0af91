"""The attack on the accelerated methods: one column, and the releases' likelihoods.

Two records of one column, no intercept: everything released lies on the line of the
record that differs. Small steps keep the weights at 0, where the pair is the worst
case. One run tells the queries and the noise that the solver asks for; then only noise
and batches are drawn again, many times. The log-likelihood ratio of all releases is the
best score there is. In one dimension spherical noise is Laplace noise.
"""

from __future__ import annotations

import numpy as np

from skdp.audit._result import epsilon_lower_bound
from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget, calibrate
from skdp.privacy.noise._laws import LAWS
from skdp.privacy.noise._noise import NoiseSource
from skdp.solvers._registry import choose_solver
from skdp.tables._memory import MemorySource
from tests import door
from tests.spies import SpyNoise

LOSS = LogisticLoss()
# A large delta keeps the sample small: the distinguishing events are not rare.
BUDGET = Budget(1.0, 0.05)
PURE = Budget(1.0, 0.0)
# Gaussian releases are drawn all at once, spherical ones one by one.
RUNS, PURE_RUNS = 20_000, 2000


def sources(adjacency, data_norm):
    """Two records against the same row twice, or against a null record."""
    X, y = data_norm * np.array([[1.0], [-1.0]]), np.zeros(2)
    if adjacency == "zero_out":
        return MemorySource(X, y), MemorySource(X, y, np.array([False, True]))
    return MemorySource(X, y), MemorySource(X[[1, 1]], y)


def gradients(adjacency, data_norm):
    """The gradients at weights 0 of the records of both data sets."""
    first, second = 0.5 * data_norm, -0.5 * data_norm
    other = 0.0 if adjacency == "zero_out" else second
    return np.array([first, second]), np.array([other, second])


def released(draw, queries, noise, shrink):
    """Many releases of one draw: Gaussian entries are independent, so all at once."""
    facts = draw.sensitivity, draw.noise_multiplier * shrink
    release = LAWS[draw.law].release
    if draw.law == "gaussian":
        return release(noise, queries[:, None], *facts)[:, 0]
    each = [release(noise, query, *facts) for query in queries[:, None, None]]
    return np.array(each)[:, 0, 0]


def log_density(values, records, draw, batch_size):
    """Of releases, up to a constant, when these were the records' gradients."""
    batches = records if batch_size == 1 else [records.sum()]
    far = np.abs(values[:, None] - np.array(batches)) / draw.sigma
    return np.logaddexp.reduce(
        -(far**2) / 2 if draw.law == "gaussian" else -far, axis=1
    )


def audited_epsilon(
    key, adjacency, budget, *, shrink=1.0, data_norm=1.0, runs=None, **params
):
    """Lower bound on epsilon after many runs on both data sets."""
    objective = LinearObjective(
        loss=LOSS,
        n_samples=2,
        n_features=1,
        data_norm=data_norm,
        adjacency=adjacency,
        fit_intercept=False,
    )
    params = {"n_steps": 2, "step_size": 1e-9 / data_norm**2} | params
    params["strong_convexity"] = 0.1 / params["step_size"]
    solver = choose_solver(key, params, objective, budget).solver
    z = calibrate(lambda z: door.event_of(solver, z, objective), budget)
    both = gradients(adjacency, data_norm)
    runs = runs or (RUNS if budget.delta else PURE_RUNS)
    spies = [SpyNoise(seed=seed) for seed in range(2)]
    for source, spy in zip(sources(adjacency, data_norm), spies, strict=True):
        door.run(solver, source, objective, z, spy)
    scores = []
    for seed, (spy, records) in enumerate(zip(spies, both, strict=True)):
        noise, total = NoiseSource(1000 + seed), np.zeros(runs)
        # Scales as the first run has them: its weights are a hair's breadth apart from
        # the second's, which the attacker could not tell from noise, but a float can.
        for draw, own in zip(spies[0].draws, spy.draws, strict=True):
            queries = np.full(runs, records.sum())
            if solver.batch_size == 1:
                queries = records[noise.integers(2, runs)]
            assert np.isclose(queries, own.query[0, 0], atol=1e-6 * data_norm).any()
            values = released(draw, queries, noise, shrink)
            first, second = (
                log_density(values, side, draw, solver.batch_size) for side in both
            )
            total += first - second
        scores.append(np.round(total, 9))  # a Laplace ratio has atoms
    return epsilon_lower_bound(*scores, budget.delta)
