"""Kuru, Birbil, Gürbüzbalaban and Yıldırım (2022): momentum, noise divided or not.

The schedules only; what is measured with them is in `_acceleration_tables`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from benchmarks._papers._descent import Plan, nesterov_momentum
from benchmarks._papers._privacy import base_epsilon

_LOG_2 = math.log(2)


@dataclass(frozen=True, kw_only=True)
class Noise:
    """How much noise a step has, by the share of the budget that it gets.

    Parameters
    ----------
    kind : {"laplace", "gaussian"}
    unit : float
        Scale or deviation of a single step that gets the whole budget.
    factor : float, default=1
        What a faulty program makes of it.
    rate : float in (0, 1], default=1
        Share of the records in a fresh random batch; Laplace noise only. Each step is
        then charged exactly for what its share buys; `unit` stays that of all records.
    epsilon : float, default=1
        Of all steps together, which batches are charged from.
    """

    kind: str
    unit: float
    factor: float = 1.0
    rate: float = 1.0
    epsilon: float = 1.0

    @property
    def power(self) -> float:
        """Optimal shares go like the weights to this power."""
        return 1 / 3 if self.kind == "laplace" else 1 / 2

    @property
    def variance(self) -> float:
        """Of one coordinate, if a single step gets the whole budget."""
        return (2 if self.kind == "laplace" else 1) * (self.factor * self.unit) ** 2

    def scales(self, shares: np.ndarray) -> np.ndarray:
        """Scale or deviation of each step: (31) for Laplace noise, exact in batches."""
        if self.rate < 1:
            each = [base_epsilon(self.epsilon * share, self.rate) for share in shares]
            return self.factor * self.unit * self.epsilon / self.rate / np.array(each)
        spread = shares if self.kind == "laplace" else np.sqrt(shares)
        return self.factor * self.unit / spread


def dp_gd(
    n_steps: int, noise: Noise, smoothness: float, *, first_step: float = 1.0
) -> Plan:
    """Gradient descent with steps c / L and the same noise; c is `first_step`."""
    steps = np.full(n_steps, first_step / smoothness)
    return _plan(steps, np.zeros(n_steps), noise, _equal(n_steps))


def dp_shb(
    n_steps: int,
    noise: Noise,
    smoothness: float,
    mu: float,
    *,
    first_step: float = 1.0,
) -> Plan:
    """Heavy ball, (9), with the momentum of Nesterov's method as in the code."""
    steps = np.full(n_steps, first_step / smoothness)
    momentum = nesterov_momentum(steps, mu)
    plan = _plan(steps, momentum, noise, _equal(n_steps))
    return Plan(**(vars(plan) | {"looks_ahead": False}))


def dp_nag(
    n_steps: int,
    noise: Noise,
    smoothness: float,
    mu: float,
    *,
    divided: bool = False,
    first_step: float = 1.0,
) -> Plan:
    """Nesterov's method, (27), with equal noise or with noise divided by (31)."""
    steps = np.full(n_steps, first_step / smoothness)
    stages = np.ones(n_steps, int)
    shares = _equal(n_steps)
    if divided:
        shares = _shares(log_weights(steps, stages, mu, smoothness), noise.power)
    return _plan(steps, nesterov_momentum(steps, mu), noise, shares)


def dp_masg(
    n_steps: int,
    noise: Noise,
    smoothness: float,
    mu: float,
    *,
    divided: bool = False,
    first_step: float = 1.0,
) -> Plan:
    """Nesterov's method in stages, (33); momentum starts anew as in the code."""
    steps, stages = multistage(n_steps, smoothness, mu, first_step)
    shares = _equal(n_steps)
    if divided:
        shares = _shares(log_weights(steps, stages, mu, smoothness), noise.power)
    plan = _plan(steps, nesterov_momentum(steps, mu), noise, shares)
    restarts = np.diff(stages, prepend=1) > 0
    return Plan(**(vars(plan) | {"restarts": restarts}))


def multistage(
    n_steps: int, smoothness: float, mu: float, first_step: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Steps and stages of (33) with p = 1; `first_step` in units of 1 / L."""
    root = math.sqrt(smoothness / mu)
    lengths = [math.ceil(2 * root * math.log(root))]
    while sum(lengths) < n_steps:
        lengths.append(2 ** (len(lengths) + 1) * math.ceil(root * math.log(8)))
    stages = np.repeat(np.arange(1, len(lengths) + 1), lengths)[:n_steps]
    sizes = np.where(stages == 1, 1.0, 4.0**-stages)
    return first_step * sizes / smoothness, stages


def log_weights(
    steps: np.ndarray, stages: np.ndarray, mu: float, smoothness: float
) -> np.ndarray:
    """Logarithms of the weights of the noises' variances in bounds (29) and (34)."""
    shrinking = np.log1p(-np.sqrt(steps * mu)).cumsum()
    own = np.log(steps / 2 * (1 + steps * smoothness))
    return shrinking[-1] - shrinking + own + (stages[-1] - stages) * math.log(2)


def best_step_count(
    steps: np.ndarray,
    stages: np.ndarray,
    *,
    noise: Noise,
    dimension: int,
    mu: float,
    smoothness: float,
    initial: float,
    divided: bool = True,
) -> int:
    """The T* that minimises (32), the first term doubled as in the code."""
    bounds = []
    shrinking = np.log1p(-np.sqrt(steps * mu)).cumsum()
    for count in range(1, len(steps) + 1):
        logs = log_weights(steps[:count], stages[:count], mu, smoothness)
        power = noise.power
        spread = logsumexp(power * logs) / power
        if not divided:
            spread = (1 / power - 1) * math.log(count) + logsumexp(logs)
        noisy = spread + math.log(noise.variance * dimension)
        start = math.log(initial) + shrinking[count - 1] + stages[count - 1] * _LOG_2
        bounds.append(np.logaddexp(noisy, start))
    return int(np.argmin(bounds)) + 1


def _equal(n_steps: int) -> np.ndarray:
    return np.full(n_steps, 1 / n_steps)


def _shares(log_weight: np.ndarray, power: float) -> np.ndarray:
    return np.exp(power * log_weight - logsumexp(power * log_weight))


def _plan(
    steps: np.ndarray, momentum: np.ndarray, noise: Noise, shares: np.ndarray
) -> Plan:
    return Plan(steps=steps, momentum=momentum, scales=noise.scales(shares))
