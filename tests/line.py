"""The law of objective perturbation's minimiser in one dimension, exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from skdp.losses._objective import LinearObjective
from skdp.solvers._objective_perturbation import ObjectivePerturbation
from tests import door


@dataclass(frozen=True)
class Line:
    """One feature, no intercept; records are (x, y) with x in units of data_norm."""

    loss: object
    adjacency: str
    ratio: float  # strength / data_norm^2
    mu: float
    data_norm: float = 1.0

    @property
    def objective(self):
        return LinearObjective(
            loss=self.loss,
            n_samples=3,
            n_features=1,
            data_norm=self.data_norm,
            adjacency=self.adjacency,
            fit_intercept=False,
        )

    @property
    def strength(self):
        return self.ratio * self.data_norm**2

    @property
    def solver(self):
        return ObjectivePerturbation(
            strength=self.strength, intercept_weight=1.0, law="gaussian"
        )

    @property
    def claim(self):
        """The declared bound on the privacy loss of the exact minimiser."""
        tilt, _ = door.event_of(self.solver, 1 / self.mu, self.objective).parts
        return tilt.loss

    @property
    def sigma(self):
        return self.solver.sensitivity(self.objective) / self.mu

    def tilt_and_hessian(self, records, w):
        b, hessian = -self.strength * w, np.full_like(w, self.strength)
        for x, y in records:
            x = x * self.data_norm
            y, raw = np.full_like(w, float(y)), (x * w)[:, None]
            b -= x * self.loss.residual(y, raw)[:, 0]
            hessian += x * x * self.loss.curvature(y, raw)[:, 0]
        return b, hessian

    def weights(self, records):
        """Minimisers for a grid of tilts that carries all but 1e-20 of the mass."""
        reach = 10 * self.sigma + 4 * self.data_norm * self.loss.zero_out_bound(
            math.inf
        )
        w = np.linspace(-reach / self.strength, reach / self.strength, 16_001)
        # Finer where the data bend the objective.
        fine = np.linspace(-12, 12, 16_001) / self.data_norm
        return np.union1d(w, fine[np.abs(fine) < w[-1]])

    def log_densities(self, records, w):
        b, hessian = self.tilt_and_hessian(records, w)
        normal = b * b / (2 * self.sigma**2) + math.log(self.sigma * 2.5066282746310002)
        return np.log(hessian) - normal

    def deltas(self, first, second, epsilons):
        """Exact delta at each epsilon, the larger of both orders."""
        w = self.weights(first)
        p, q = self.log_densities(first, w), self.log_densities(second, w)
        cells = np.zeros_like(w)
        cells[1:] += np.diff(w) / 2
        cells[:-1] += np.diff(w) / 2
        for density in (p, q):
            assert np.sum(cells * np.exp(density)) == pytest.approx(1.0, abs=2e-3)
        result = []
        for epsilon in epsilons:
            orders = [
                np.sum(cells * np.exp(a) * -np.expm1(np.minimum(0.0, epsilon - a + b)))
                for a, b in ((p, q), (q, p))
            ]
            result.append(max(orders))
        return np.array(result)
