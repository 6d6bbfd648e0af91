"""Kuru (PhD thesis, 2019): smoothed and multistage descent with Laplace noise.

Here the objective and the gradients are means, over the data or over a batch of m
records; the thesis has sums. Its step sizes do not scale with the objective, and its
stages are only feasible for means (docs/replications.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from benchmarks._papers._accelerated import multistage
from benchmarks._papers._descent import (
    Gradients,
    Plan,
    nesterov_momentum,
)
from benchmarks._papers._privacy import base_epsilon, laplace_epsilon


@dataclass(frozen=True, kw_only=True)
class Task:
    """Public facts of one descent.

    Parameters
    ----------
    n, d : int
    bound : float
        Bound on the L1 norm of a row; sensitivities are twice this over m.
    mu, smoothness : float
    n_steps : int
    epsilon : float
        Claimed for the whole descent.
    batch : int or None
        The m of the stochastic methods; None for full gradients.
    corrected : bool, default=False
        Whether subsets are charged by the exact law instead of the thesis's
        epsilon_0 = n epsilon / (2 m T).
    online : bool, default=False
        Whether every record is in one of n / m disjoint buckets, which are read in
        turn: each release then has the whole budget.
    """

    n: int
    d: int
    bound: float
    mu: float
    smoothness: float
    n_steps: int
    epsilon: float
    batch: int | None = None
    corrected: bool = False
    online: bool = False

    @property
    def m(self) -> int:
        """Records of one gradient."""
        return self.batch or self.n

    @property
    def sensitivity(self) -> float:
        """L1, and bound on the L2 one, of one gradient for a given batch."""
        return 2 * self.bound / self.m

    @property
    def kappa(self) -> float:
        """Condition number."""
        return self.smoothness / self.mu

    def step_epsilon(self, epsilon: float, count: float) -> float:
        """Epsilon of each of `count` releases on their batches, (4.17) and (4.52)."""
        if self.online:
            return epsilon
        if self.batch is None:
            return epsilon / count
        if self.corrected:
            return base_epsilon(epsilon / count, self.m / self.n)
        return self.n * epsilon / (2 * self.m * count)

    def variance(self, step_epsilon: float) -> float:
        """Of one coordinate of a gradient, as in (4.20) and (4.55)."""
        rest = 1.0
        if self.batch is not None:
            rest = (1 - (self.m - 1) / (self.n - 1)) * self.m
        sampled = self.sensitivity**2 / (4 * self.d) * rest
        return sampled + 2 * (self.sensitivity / step_epsilon) ** 2

    def equal_scales(self) -> np.ndarray:
        """The same Laplace scale in every step."""
        scale = self.sensitivity / self.step_epsilon(self.epsilon, self.n_steps)
        return np.full(self.n_steps, scale)

    def true_epsilon(self, scales: np.ndarray) -> float:
        """By the exact law of subsets, and basic composition."""
        if self.online:
            return self.sensitivity / float(scales.min())
        return laplace_epsilon(scales, self.sensitivity, self.m / self.n)


def dp_gd(task: Task) -> Plan:
    """DP-GD and DP-SGD: steps 1 / sqrt(t)."""
    steps = 1 / np.sqrt(np.arange(1, task.n_steps + 1))
    return Plan(steps=steps, momentum=0 * steps, scales=task.equal_scales())


def dp_hb(task: Task) -> Plan:
    """DP-HB and DP-SHB: steps 1 / L and the momentum of Polyak."""
    steps = np.full(task.n_steps, 1 / task.smoothness)
    momentum = nesterov_momentum(steps, task.mu) ** 2
    scales = task.equal_scales()
    return Plan(steps=steps, momentum=momentum, scales=scales, looks_ahead=False)


def dp_nag(task: Task) -> Plan:
    """DP-NAG and DP-SNAG: steps 1 / L."""
    steps = np.full(task.n_steps, 1 / task.smoothness)
    momentum = nesterov_momentum(steps, task.mu)
    return Plan(steps=steps, momentum=momentum, scales=task.equal_scales())


def m_asg(task: Task) -> Plan:
    """M-ASG and stocMASG, (4.38), with the same noise in every step."""
    steps, stages = multistage(task.n_steps, task.smoothness, task.mu)
    return Plan(
        steps=steps,
        momentum=nesterov_momentum(steps, task.mu),
        scales=task.equal_scales(),
        restarts=np.diff(stages, prepend=1) > 0,
    )


def smoothed_step(task: Task, beta: float) -> float:
    """The noise-aware step (4.21), (4.55)."""
    step_epsilon = task.step_epsilon(task.epsilon, task.n_steps)
    variance = task.variance(step_epsilon) * beta / (2 - beta)
    return 0.25 / math.sqrt(variance * (task.n_steps + 1))


def dp_gdws(
    problem: Gradients,
    task: Task,
    beta: float,
    step: float,
    start: np.ndarray,
    noise: np.ndarray,
) -> np.ndarray:
    """DP-GDwS and DP-SGDwS, Algorithms 4 and 6: last iterates, of shape (d, R).

    beta scales the gradient and its noise alike, so it is no part of the privacy.
    """
    now = np.repeat(start[:, None], noise.shape[2], axis=1)
    velocity = np.zeros_like(now)
    for t, scale in enumerate(task.equal_scales()):
        release = problem.gradient(now) + scale * noise[t]
        velocity = (1 - beta) * velocity + beta * release
        now = now - step * velocity
    return now


def dp_mag(task: Task) -> Plan:
    """DP-MAG and DP-SMAG, Algorithms 5 and 7, cut at `n_steps`; p = 1.

    The number of stages K is the smallest whose lengths, which depend on K, reach
    `n_steps`; the last stage is cut before its noise is set. Stages that would begin
    later are left out, and get no budget.
    """
    n_stages = 1
    while sum(lengths := _stage_lengths(task, n_stages)) < task.n_steps:
        n_stages += 1
    lengths = _cut(lengths, task.n_steps)
    momentum = nesterov_momentum(np.array(1 / task.smoothness), task.mu)
    steps, scales, restarts = [], [], []
    for number, length in enumerate(lengths, start=1):
        step_epsilon = task.step_epsilon(task.epsilon / len(lengths), length)
        size = 1 / (4 ** (number + 1) * 2 * task.smoothness)
        variance = task.variance(step_epsilon) / (1 - momentum**2)
        steps += [size / math.sqrt(variance)] * length
        scales += [task.sensitivity / step_epsilon] * length
        restarts += [True] + [False] * (length - 1)
    return Plan(
        steps=np.array(steps),
        momentum=np.full(task.n_steps, momentum),
        scales=np.array(scales),
        restarts=np.array(restarts),
    )


def _cut(lengths: list[int], n_steps: int) -> list[int]:
    """The first `n_steps` of stages of these lengths."""
    ends = np.minimum(np.cumsum(lengths), n_steps)
    return [length for length in np.diff(ends, prepend=0).tolist() if length]


def _stage_lengths(task: Task, n_stages: int) -> list[int]:
    """n_k of (4.45), on both sides of the equation: the fixed point from 1."""
    root = math.sqrt(task.kappa)
    momentum = (root - 1) / (root + 1)
    lengths = [math.ceil(2 * root * math.log(root))]
    for number in range(2, n_stages + 1):
        length, before = 1, 0
        for _ in range(500):
            if length in (before, task.n_steps):
                break
            step_epsilon = task.step_epsilon(task.epsilon / n_stages, length)
            variance = task.variance(step_epsilon) / (1 - momentum**2)
            reach = math.ceil(root * math.log(8) * variance**0.25)
            # Longer than all steps together is as good as that.
            before, length = length, min(2**number * reach, task.n_steps)
        lengths.append(length)
    return lengths
