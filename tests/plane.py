"""The law of objective perturbation's minimiser in two dimensions, for logistic loss.

Many records along the first axis pin the first weight far out, so that both records of
an exchange can have residuals near 1 at once; on a line they add up to 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import root
from scipy.special import expit

from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.solvers._objective_perturbation import ObjectivePerturbation
from tests import door

CELLS = 500


@dataclass(frozen=True)
class Plane:
    """Two features, no intercept; records are (x1, x2, y, how many), of norm 1."""

    adjacency: str
    strength: float
    mu: float
    pins: float = 1e5

    @property
    def objective(self):
        return LinearObjective(
            loss=LogisticLoss(),
            n_samples=3,
            n_features=2,
            data_norm=1.0,
            adjacency=self.adjacency,
            fit_intercept=False,
        )

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

    def pair(self, cosine):
        """Two data sets; the rows that differ are at this cosine to the pins."""
        pins, sine = [(1.0, 0.0, 1.0, self.pins)], math.sqrt(1 - cosine**2)
        # The pins' label is 1: for a label of 0 their side is the wrong one.
        first, second = (cosine, sine, 0.0, 1.0), (cosine, -sine, 0.0, 1.0)
        if self.adjacency == "zero_out":
            return [*pins, first], pins
        return [*pins, first], [*pins, second]

    def gradient(self, records, w):
        """Gradient and logarithm of the determinant at weights w, of shape (2, ...)."""
        gradient, a, c, h = self.strength * w, self.strength, self.strength, 0.0
        for x1, x2, y, count in records:
            p = expit(x1 * w[0] + x2 * w[1])
            gradient = gradient + count * (p - y) * np.array(
                [np.full_like(p, x1), np.full_like(p, x2)]
            )
            bend = count * p * (1 - p)
            a, c, h = a + x1 * x1 * bend, c + x2 * x2 * bend, h + x1 * x2 * bend
        return gradient, np.log(a * c - h * h)

    def weights(self, pair):
        """A grid that carries nearly all of the mass of both minimisers."""
        found, start = [], np.zeros(2)
        for records in pair:
            for tilt in np.array([(i, j) for i in (-7, 0, 7) for j in (-7, 0, 7)]):
                b = tilt * self.sigma

                def off(w, records=records, b=b):
                    return self.gradient(records, w)[0] + b

                solution = root(off, start, tol=1e-8)
                if solution.success:
                    start = solution.x
                    found.append(start)
        low, high = np.min(found, axis=0), np.max(found, axis=0)
        room = 0.15 * (high - low)
        axes = [
            np.linspace(a, b, CELLS)
            for a, b in zip(low - room, high + room, strict=True)
        ]
        area = math.prod(axis[1] - axis[0] for axis in axes)
        return np.array(np.meshgrid(*axes, indexing="ij")), area

    def deltas(self, cosine, epsilons):
        """Exact delta at each epsilon, the larger of both orders."""
        pair = self.pair(cosine)
        w, area = self.weights(pair)
        densities = []
        for records in pair:
            gradient, log_determinant = self.gradient(records, w)
            far = np.sum(gradient**2, axis=0) / (2 * self.sigma**2)
            density = np.exp(log_determinant - far) / (2 * math.pi * self.sigma**2)
            assert density.sum() * area == pytest.approx(1.0, abs=2e-3)
            densities.append(density)
        p, q = densities
        return np.array(
            [
                area * max(np.maximum(a - math.exp(e) * b, 0.0).sum() for a, b in both)
                for e in epsilons
                for both in [((p, q), (q, p))]
            ]
        )
