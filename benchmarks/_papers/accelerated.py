"""Kuru, Birbil, Gürbüzbalaban and Yıldırım (2022): figures 3 and 4.

As printed: L1 sensitivity, Laplace noise for each coordinate, basic composition, and
constants L and T* taken from the data. `released code` is the noise of the authors'
code, which hands the Laplace scale to a generator that wants a standard deviation.
`gaussian` keeps the algorithm and calibrates Gaussian noise of the L2 sensitivity
exactly. L is the data's in every one of them, so none is private.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from scipy.special import logsumexp

from benchmarks._papers._descent import (
    Logistic,
    Plan,
    Sampled,
    descend,
    nesterov_momentum,
    unit_noise,
)
from benchmarks._papers._privacy import (
    base_epsilon,
    exact_multiplier,
    gaussian_epsilon,
    laplace_epsilon,
)
from benchmarks._runner import Line, benchmark

_LOG_2 = math.log(2)


@dataclass(frozen=True, kw_only=True)
class Noise:
    """How much noise a step has, by the share of the budget that it gets."""

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
    n_steps: int, noise: Noise, smoothness: float, mu: float, *, first_step: float = 1.0
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


N, D, MU = 100_000, 20, 0.02  # records, columns, strong convexity
_L1, _L2 = 40.0, 2 * math.sqrt(20)  # sensitivities of one record's gradient on [0, 1]^d
_EPSILON, _DELTA = 1.0, 1e-6
_GUESS = 10.0  # of the excess at the start, for T*


@lru_cache(maxsize=1)
def section_5_problem() -> tuple[Logistic, float, np.ndarray]:
    """The problem, its least value, and the eigenvalues of the mean of u u'.

    The rows are the paper's (MATLAB's rng(1)); the true weights are not known, and
    those taken make the first step end where the published curves do.
    """
    rows = np.random.RandomState(1).rand(D * N)
    X = rows.reshape(D, N).T.copy()
    truth = np.random.RandomState(223).randn(D)
    problem = Logistic(X * np.where(X @ truth >= 0, 1.0, -1.0)[:, None], MU)
    least = float(problem.value(problem.optimum())[0])
    return problem, least, np.linalg.eigvalsh(X.T @ X / N)


def section_5_noise(batch: int = N) -> dict[str, Noise]:
    """The three calibrations at epsilon 1; delta is 1e-6 for the Gaussian one.

    Batches have Laplace noise only.
    """
    deviation = _L2 / N * exact_multiplier(_EPSILON, _DELTA)
    laplace = Noise(
        kind="laplace", unit=_L1 / (N * _EPSILON), rate=batch / N, epsilon=_EPSILON
    )
    kinds = {
        "released code": replace(laplace, factor=math.sqrt(0.5)),
        "as printed": laplace,
    }
    if batch == N:
        kinds["gaussian"] = Noise(kind="gaussian", unit=deviation)
    return kinds


def section_5_smoothness(name: str) -> float:
    """L as printed, without the quarter of the logistic curvature, or the valid one."""
    largest = float(section_5_problem()[2][-1])
    return {"printed": largest, "valid": largest / 4}[name] + MU


def section_5_plans(
    n_steps: int, noise: Noise, smoothness: float, first_step: float = 1.0
) -> dict[str, Callable[[], Plan]]:
    """What makes each method's plan, at most `n_steps` long; `first_step` is c."""
    facts = {"noise": noise, "smoothness": smoothness}
    bound = facts | {"dimension": D, "mu": MU, "initial": _GUESS}
    facts |= {"first_step": first_step}

    def optimal(method: Callable[..., Plan], *schedule: np.ndarray) -> Plan:
        count = best_step_count(*schedule, **bound)
        return method(count, **facts, mu=MU, divided=True)

    single = np.full(n_steps, first_step / smoothness), np.ones(n_steps, int)
    stages = multistage(n_steps, smoothness, MU, first_step)
    return {
        "DP-GD": partial(dp_gd, n_steps, **facts),
        "DP-NAG": partial(dp_nag, n_steps, **facts, mu=MU),
        "DP-NAG, divided": partial(dp_nag, n_steps, **facts, mu=MU, divided=True),
        "DP-HB": partial(dp_shb, n_steps, **facts, mu=MU),
        "DP-MASG": partial(dp_masg, n_steps, **facts, mu=MU),
        "DP-NAG-opt": partial(optimal, dp_nag, *single),
        "DP-MASG-opt": partial(optimal, dp_masg, *stages),
    }


def section_5(
    *,
    T: list[int],
    noise: list[str],
    methods: list[str],
    smoothness: str = "printed",
    start: float = 10.0,
    c: float = 1.0,
    batch: int = N,
) -> Iterator[Line]:
    """Figures 3 and 4 (batches): F - F* after at most T steps; upper halves: c < 1."""
    curvature = section_5_smoothness(smoothness)
    for kind in noise:
        calibration = section_5_noise(batch)[kind]
        delta = _DELTA if kind == "gaussian" else 0.0
        for n_steps in T:
            plans = section_5_plans(n_steps, calibration, curvature, c)
            for method in methods:
                plan = plans[method]()
                yield Line(
                    place={"noise": kind, "T": n_steps},
                    method=method,
                    claimed=_EPSILON,
                    true=_true_epsilon(plan, calibration, delta),
                    delta=delta,
                    measure=partial(
                        _section_5_excess, plan, calibration.kind, start, batch
                    ),
                    note=f"{plan.n_steps} steps",
                )


def _true_epsilon(plan: Plan, noise: Noise, delta: float) -> float:
    if noise.kind == "laplace":
        batch = noise.rate * N
        return laplace_epsilon(plan.scales, _L1 / batch, noise.rate)
    return gaussian_epsilon(plan.scales, _L2 / N, delta)


def _section_5_excess(
    plan: Plan, kind: str, start: float, batch: int, runs: Sequence[int]
) -> np.ndarray:
    problem, least, _ = section_5_problem()
    of = problem if batch == N else Sampled(problem, batch, runs)
    shape = plan.n_steps, problem.d
    noise = np.stack([unit_noise(kind, run, shape) for run in runs], axis=-1)
    weights = descend(of, plan, np.full(problem.d, start), noise)
    return problem.excess(weights, least)


_METHODS = ["DP-GD", "DP-NAG", "DP-HB", "DP-MASG", "DP-NAG-opt", "DP-MASG-opt"]
_ALL = {"T": [100, 200, 500, 1000], "methods": _METHODS}
_KINDS = ["released code", "as printed", "gaussian"]


def _figure(name: str, summary: str, runs: int = 20, **given: object) -> None:
    lines = partial(section_5, **{"noise": _KINDS} | _ALL | given)
    summary = f"Kuru et al. (2022), {summary}"
    benchmark(name, summary, runs=runs, claims=True)(lines)


# Batches have Laplace noise only.
_BATCHES = {"batch": 1000, "noise": _KINDS[:2]}
_figure("acceleration", "figure 3, lower half: c = 1")
_figure("acceleration_short_steps", "figure 3, upper half: c = 0.1", c=0.1)
_figure("acceleration_batches", "figure 4, lower half: m = 1000", **_BATCHES)
_figure("acceleration_batches_short_steps", "figure 4, upper half", c=0.1, **_BATCHES)
_figure(
    "acceleration_valid_l",
    "the same data with a valid L, from 0",
    runs=100,
    T=[25, 100],
    noise=_KINDS[1:],
    methods=["DP-GD", "DP-NAG", "DP-NAG, divided"],
    smoothness="valid",
    start=0.0,
)
