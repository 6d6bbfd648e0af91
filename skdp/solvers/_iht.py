r"""Iterative hard thresholding along noisy gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self

import numpy as np

from skdp._validation import check_count, check_real
from skdp.data import Source
from skdp.losses import Loss
from skdp.privacy._accounting import Budget
from skdp.privacy._events import Event, GaussianEvent
from skdp.privacy._laws import LAWS
from skdp.privacy._noise import NoiseSource
from skdp.solvers._base import Checks, Problem, Progress, Solution, Solver
from skdp.solvers._gradient import query_sensitivity
from skdp.solvers._noisy_gradient import NoisyGradient, boxed, farthest_weight
from skdp.solvers._thresholding import keep_rows, largest_rows


@dataclass(frozen=True, kw_only=True)
class IHT(Solver):
    r"""Iterative hard thresholding with Gaussian noise (the paper's DP-IGHT)."""

    key: ClassVar[str] = "iht"
    is_pure: ClassVar[bool] = False
    is_sparse: ClassVar[bool] = True
    checks: ClassVar[Checks] = {
        "n_steps": partial(check_count, high=10**6),
        "step_size": partial(check_real, low=1e-250, high=1e250),
    }

    n_steps: int | None = None
    step_size: float | None = None

    @property
    def is_gaussian(self) -> bool:
        return True

    def resolve(self, loss: Loss, problem: Problem, budget: Budget) -> Self:
        step_size = self.step_size
        if step_size is None:
            step_size = problem.n_features / problem.data_norm**2 / loss.smoothness
        return replace(self, n_steps=self.n_steps or 3, step_size=step_size)

    @property
    def mechanism(self) -> str:
        return "Gaussian noise, calibrated exactly"

    def event(self, noise_multiplier: float, loss: Loss, problem: Problem) -> Event:
        assert self.n_steps is not None, "resolve() fills in the number of steps"
        return GaussianEvent(noise_multiplier, self.n_steps)

    def sensitivity(self, loss: Loss, problem: Problem) -> float:
        return query_sensitivity(loss, problem)

    def run(
        self,
        source: Source,
        loss: Loss,
        problem: Problem,
        noise_multiplier: float,
        noise: NoiseSource,
        progress: Progress,
    ) -> Solution:
        assert self.n_steps is not None, "resolve() fills in the number of steps"
        assert self.step_size is not None, "resolve() fills in the step size"
        assert problem.n_nonzero is not None, "the number of features is given"
        gradient = NoisyGradient(source, loss, problem, noise, LAWS["gaussian"])
        d, farthest = problem.n_features, farthest_weight(problem)
        weights = np.zeros((problem.n_columns, loss.n_outputs))
        for t in range(self.n_steps):
            mean = gradient(weights, noise_multiplier) / problem.n_samples
            moved = weights - self.step_size * (mean + problem.alpha * weights)
            kept = largest_rows(moved[:d], problem.n_nonzero)
            rows = np.append(kept, np.arange(d, len(moved)))
            weights = boxed(keep_rows(moved, rows), farthest)
            progress.step(t + 1, self.n_steps)
        return Solution(weights, gradient.noise_scale)
