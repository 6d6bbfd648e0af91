"""Tables of Kuru, Birbil, Gürbüzbalaban and Yıldırım (2022).

As printed: L1 sensitivity, Laplace noise for each coordinate, basic composition, and
constants L and T* taken from the data. `released code` is the noise of the authors'
code, which hands the Laplace scale to a generator that wants a standard deviation.
`gaussian` keeps the algorithm and calibrates Gaussian noise of the L2 sensitivity
exactly. L is the data's in every one of them, so none is private.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np

from benchmarks._line import Line
from benchmarks._papers._accelerated import (
    Noise,
    best_step_count,
    dp_gd,
    dp_masg,
    dp_nag,
    dp_shb,
    multistage,
)
from benchmarks._papers._descent import (
    Logistic,
    Plan,
    Sampled,
    descend,
    unit_noise,
)
from benchmarks._papers._privacy import (
    exact_multiplier,
    gaussian_epsilon,
    laplace_epsilon,
)

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
        kind="laplace",
        unit=_L1 / (N * _EPSILON),
        rate=batch / N,
        epsilon=_EPSILON,
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
