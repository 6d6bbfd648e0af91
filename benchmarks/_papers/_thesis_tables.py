"""Experiments E2 to E4 of Kuru's thesis, at what they truly cost: f - f*, from 0.

What the thesis does not say is a reading: the generator of the synthetic data (rows
normal, then of L1 norm 1 to 2; weights normal times 3; labels from the logistic model),
and of MNIST the 400 columns (the inner 20 x 20 pixels, rows scaled to L1 norm at most
2), the class (0 against the rest), T = 1000 and lambda = 0.01. M-ASG* is not defined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial

import numpy as np

from benchmarks._data import load
from benchmarks._line import Line
from benchmarks._papers import _thesis as thesis
from benchmarks._papers._descent import (
    Buckets,
    Gradients,
    Logistic,
    Plan,
    Sampled,
    clipped_rows,
    descend,
    unit_noise,
)

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
    X, y = load("mnist")
    inner = X[:60_000].reshape(-1, 28, 28)[:, 4:24, 4:24].reshape(-1, 400)
    rows = clipped_rows(inner.astype(float), _BOUND, 1)
    return _with_least(rows * np.where(y[:60_000] == 0, 1.0, -1.0)[:, None])


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
                task = thesis.Task(
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


def online(
    *, epsilon: list[float], bucket: int, betas: Sequence[float]
) -> Iterator[Line]:
    """Figure 4.13: every record is read once, in buckets; synthetic data by run."""
    _, n, d = _DATA["synthetic"]
    for claimed in epsilon:
        task = thesis.Task(
            n=n,
            d=d,
            bound=_BOUND,
            mu=_MU,
            smoothness=_SMOOTHNESS,
            n_steps=n // bucket,
            epsilon=claimed,
            batch=bucket,
            online=True,
        )
        yield from _lines("synthetic", task, betas, [])


def _lines(
    data: str,
    task: thesis.Task,
    betas: Sequence[float],
    plans: list[str] | None,
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
    if plans is not None:
        return
    yield Line(
        place=place,
        method="stocMASG*" if task.batch else "M-ASG*",
        claimed=task.epsilon,
        true=float("nan"),
        measure=None,
        refusal="the thesis does not define it",
    )


def _methods(
    task: thesis.Task, betas: Sequence[float], plans: list[str] | None
) -> dict[str, tuple[Method, np.ndarray]]:
    family = "DP-S" if task.batch else "DP-"  # the thesis's names
    made = {
        f"{family}GD, 1/sqrt(t)": thesis.dp_gd,
        f"{family}HB": thesis.dp_hb,
        f"{family}NAG": thesis.dp_nag,
        "stocMASG" if task.batch else "M-ASG": thesis.m_asg,
        f"{family}MAG": thesis.dp_mag,
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
        step = thesis.smoothed_step(task, ruled_by)
        methods[name] = partial(_smoothed, task, beta, step), task.equal_scales()
    return methods


def _planned(plan: Plan, problem: Gradients, noise: np.ndarray) -> np.ndarray:
    return descend(problem, plan, np.zeros(noise.shape[1]), noise)


def _smoothed(
    task: thesis.Task,
    beta: float,
    step: float,
    problem: Gradients,
    noise: np.ndarray,
) -> np.ndarray:
    start = np.zeros(noise.shape[1])
    return thesis.dp_gdws(problem, task, beta, step, start, noise)


def _excess(
    data: str, task: thesis.Task, descent: Method, runs: Sequence[int]
) -> Iterator[float]:
    for run in runs:
        problem, least = _DATA[data][0](run if data == "synthetic" else 0)
        of = _gradients(problem, task, run)
        noise = unit_noise("laplace", run, (task.n_steps, task.d))[..., None]
        yield float(problem.excess(descent(of, noise), least)[0])


def _gradients(problem: Logistic, task: thesis.Task, run: int) -> Gradients:
    if task.online:
        return Buckets(problem, task.m)
    return Sampled(problem, task.m, [run]) if task.batch else problem
