"""Kuru (PhD thesis, 2019): smoothed and multistage descent with Laplace noise.

Experiments E2 to E4 at what they truly cost: f - f*, from 0. Here the objective and the
gradients are means, over the data or over a batch of m records; the thesis has sums.
What the thesis does not say is a reading: the generator of the synthetic data (rows
normal, then of L1 norm 1 to 2; weights normal times 3; labels from the logistic model),
and of MNIST the 400 columns (the inner 20 x 20 pixels, rows scaled to L1 norm at most
2), the class (0 against the rest), T = 1000 and lambda = 0.01.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from benchmarks._papers._descent import (
    Gradients,
    Logistic,
    Plan,
    Sampled,
    clipped_rows,
    descend,
    nesterov_momentum,
    unit_noise,
)
from benchmarks._papers._privacy import base_epsilon, laplace_epsilon
from benchmarks._papers.accelerated import multistage
from benchmarks._runner import Line, benchmark
from benchmarks._tables import rows


@dataclass(frozen=True, kw_only=True)
class Task:
    """Public facts of one descent."""

    n: int
    d: int
    bound: float
    mu: float
    smoothness: float
    n_steps: int
    epsilon: float
    batch: int | None = None
    corrected: bool = False

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


# ----------------------------------------------------------------------------- tables

_BOUND, _MU = 2.0, 0.02  # lambda = 0.01
_SMOOTHNESS = _BOUND**2 / 4 + _MU

Method = Callable[[Gradients, np.ndarray], np.ndarray]


@lru_cache(maxsize=20)
def _synthetic(number: int) -> tuple[Logistic, float]:
    n, d = 10_000, 10
    rng = np.random.default_rng(number)
    X = rng.standard_normal((n, d))
    X *= 2 / np.abs(X).sum(axis=1, keepdims=True) * rng.uniform(0.5, 1, (n, 1))
    truth = 3 * rng.standard_normal(d)
    positive = rng.uniform(size=n) < 1 / (1 + np.exp(-X @ truth))
    return _with_least(X * np.where(positive, 1.0, -1.0)[:, None])


@lru_cache(maxsize=1)
def _mnist(number: int) -> tuple[Logistic, float]:
    X, y = rows("mnist")
    inner = X[:60_000].reshape(-1, 28, 28)[:, 4:24, 4:24].reshape(-1, 400)
    short = clipped_rows(inner.astype(float), _BOUND, 1)
    return _with_least(short * np.where(y[:60_000] == 0, 1.0, -1.0)[:, None])


def _with_least(signed: np.ndarray) -> tuple[Logistic, float]:
    problem = Logistic(signed, _MU)
    return problem, float(problem.value(problem.optimum())[0])


_DATA = {"synthetic": (_synthetic, 10_000, 10), "mnist": (_mnist, 60_000, 400)}


def descents(
    *,
    data: str,
    epsilon: list[float],
    n_steps: int,
    batch: list[int] | None = None,
    betas: Sequence[float] = (1.0, 0.1),
    plans: list[str] | None = None,
) -> Iterator[Line]:
    """E2 without `batch`, E3 and E4 with the values of m; synthetic data by run.

    `betas` of smoothing are measured, and of the other methods `plans`; None is all.
    """
    _, n, d = _DATA[data]
    for m in batch or [None]:
        for corrected in (False, True) if m else (False,):
            for claimed in epsilon:
                task = Task(
                    n=n,
                    d=d,
                    bound=_BOUND,
                    mu=_MU,
                    smoothness=_SMOOTHNESS,
                    n_steps=n_steps,
                    epsilon=claimed,
                    batch=m,
                    corrected=corrected,
                )
                yield from _lines(data, task, betas, plans)


def _lines(
    data: str, task: Task, betas: Sequence[float], plans: list[str] | None
) -> Iterator[Line]:
    place = {
        "m": task.m,
        "noise": "corrected" if task.corrected else "as printed",
        "epsilon": task.epsilon,
    }
    for method, (descent, scales) in _methods(task, betas, plans).items():
        yield Line(
            place=place,
            method=method,
            claimed=task.epsilon,
            true=task.true_epsilon(scales),
            measure=partial(_excess, data, task, descent),
        )


def _methods(
    task: Task, betas: Sequence[float], plans: list[str] | None
) -> dict[str, tuple[Method, np.ndarray]]:
    family = "DP-S" if task.batch else "DP-"  # the thesis's names
    made = {
        f"{family}GD, 1/sqrt(t)": dp_gd,
        f"{family}HB": dp_hb,
        f"{family}NAG": dp_nag,
        "stocMASG" if task.batch else "M-ASG": m_asg,
        f"{family}MAG": dp_mag,
    }
    wanted = made if plans is None else plans
    chosen = {name: made[name](task) for name in wanted}
    methods: dict[str, tuple[Method, np.ndarray]] = {
        name: (partial(_planned, plan), plan.scales) for name, plan in chosen.items()
    }
    smoothed = {f"{family}GDwS, beta {beta:g}": (beta, beta) for beta in betas}
    # Whether it is the smoothing or the longer step that comes with it.
    matched = {
        f"beta 1 with the step of beta {beta:g}": (1.0, beta)
        for beta in betas
        if beta != 1
    }
    for name, (beta, ruled_by) in (smoothed | matched).items():
        step = smoothed_step(task, ruled_by)
        methods[name] = partial(_smoothed, task, beta, step), task.equal_scales()
    return methods


def _planned(plan: Plan, problem: Gradients, noise: np.ndarray) -> np.ndarray:
    return descend(problem, plan, np.zeros(noise.shape[1]), noise)


def _smoothed(
    task: Task, beta: float, step: float, problem: Gradients, noise: np.ndarray
) -> np.ndarray:
    start = np.zeros(noise.shape[1])
    return dp_gdws(problem, task, beta, step, start, noise)


def _excess(
    data: str, task: Task, descent: Method, runs: Sequence[int]
) -> Iterator[float]:
    for run in runs:
        problem, least = _DATA[data][0](run if data == "synthetic" else 0)
        of = _gradients(problem, task, run)
        noise = unit_noise("laplace", run, (task.n_steps, task.d))[..., None]
        yield float(problem.excess(descent(of, noise), least)[0])


def _gradients(problem: Logistic, task: Task, run: int) -> Gradients:
    return Sampled(problem, task.m, [run]) if task.batch else problem


_EPSILONS, _BATCHES = [0.5, 0.8, 1.0], [1, 10, 100, 1000]
_BETAS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)


def _table(name: str, summary: str, runs: int = 10, **given: object) -> None:
    lines = partial(
        descents, **{"data": "synthetic", "epsilon": [1.0], "n_steps": 1000} | given
    )
    summary = f"Kuru (2019), {summary}"
    benchmark(name, summary, runs=runs, claims=True)(lines)


_SMOOTHING = {"betas": _BETAS, "plans": []}
_LONG = {"betas": [], "n_steps": 10_000}
_table("thesis_synthetic", "figures 4.2 to 4.7", epsilon=_EPSILONS)
_table("thesis_stochastic", "figures 4.8 to 4.20", epsilon=_EPSILONS, batch=_BATCHES)
_table("thesis_smoothing", "figure 4.3", epsilon=_EPSILONS, **_SMOOTHING)
_table("thesis_stochastic_smoothing", "figure 4.12", batch=_BATCHES, **_SMOOTHING)
_table(
    "thesis_long", "figure 4.5", epsilon=_EPSILONS, **_LONG, plans=["M-ASG", "DP-MAG"]
)
_table(
    "thesis_stochastic_long",
    "figure 4.15",
    batch=_BATCHES,
    **_LONG,
    plans=["stocMASG", "DP-SMAG"],
)
_table("thesis_mnist", "figures 4.21 to 4.24", 5, data="mnist", batch=_BATCHES)
