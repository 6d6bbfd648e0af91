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
    Logistic,
    Plan,
    Sampled,
    clipped_rows,
    descend,
    unit_noise,
)

_BOUND, _MU = 2.0, 0.02  # lambda = 0.01
_SMOOTHNESS = _BOUND**2 / 4 + _MU

Method = Callable[[Logistic | Sampled, np.ndarray], np.ndarray]


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
) -> Iterator[Line]:
    """E2 without `batch`, E3 and E4 with the values of m; synthetic data by run."""
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
                yield from _lines(data, task)


def _lines(data: str, task: thesis.Task) -> Iterator[Line]:
    place = {
        "m": task.m,
        "noise": "corrected" if task.corrected else "as printed",
        "epsilon": task.epsilon,
    }
    for method, (descent, scales) in _methods(task).items():
        yield Line(
            place=place,
            method=method,
            claimed=task.epsilon,
            true=task.true_epsilon(scales),
            measure=partial(_excess, data, task, descent),
        )
    yield Line(
        place=place,
        method="stocMASG*" if task.batch else "M-ASG*",
        claimed=task.epsilon,
        true=float("nan"),
        measure=None,
        refusal="the thesis does not define it",
    )


def _methods(task: thesis.Task) -> dict[str, tuple[Method, np.ndarray]]:
    family = "DP-S" if task.batch else "DP-"  # the thesis's names
    plans = {
        f"{family}GD, 1/sqrt(t)": thesis.dp_gd(task),
        f"{family}HB": thesis.dp_hb(task),
        f"{family}NAG": thesis.dp_nag(task),
        "stocMASG" if task.batch else "M-ASG": thesis.m_asg(task),
        f"{family}MAG": thesis.dp_mag(task),
    }
    methods = {
        name: (partial(_planned, plan), plan.scales) for name, plan in plans.items()
    }
    one, tenth = (thesis.smoothed_step(task, beta) for beta in (1.0, 0.1))
    for name, beta, step in (
        (f"{family}GDwS, beta 1", 1.0, one),
        (f"{family}GDwS, beta 0.1", 0.1, tenth),
        ("beta 1 with the step of beta 0.1", 1.0, tenth),
    ):
        methods[name] = partial(_smoothed, task, beta, step), task.equal_scales()
    return methods


def _planned(plan: Plan, problem: Logistic | Sampled, noise: np.ndarray) -> np.ndarray:
    return descend(problem, plan, np.zeros(noise.shape[1]), noise)


def _smoothed(
    task: thesis.Task,
    beta: float,
    step: float,
    problem: Logistic | Sampled,
    noise: np.ndarray,
) -> np.ndarray:
    start = np.zeros(noise.shape[1])
    return thesis.dp_gdws(problem, task, beta, step, start, noise)


def _excess(
    data: str, task: thesis.Task, descent: Method, runs: Sequence[int]
) -> Iterator[float]:
    for run in runs:
        problem, least = _DATA[data][0](run if data == "synthetic" else 0)
        of = Sampled(problem, task.m, [run]) if task.batch else problem
        noise = unit_noise("laplace", run, (task.n_steps, task.d))[..., None]
        yield float(problem.excess(descent(of, noise), least)[0])
