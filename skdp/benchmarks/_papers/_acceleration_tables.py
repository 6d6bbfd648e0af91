"""Tables of Kuru, Birbil, Gürbüzbalaban and Yıldırım (2022), and of noise division.

As printed: L1 sensitivity, Laplace noise for each coordinate, basic composition, and
constants L and T* taken from the data. `released code` is the noise of the authors'
code, which hands the Laplace scale to a generator that wants a standard deviation.
`gaussian` keeps the algorithm and calibrates Gaussian noise of the L2 sensitivity
exactly. L is the data's in every one of them, so none is private.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from skdp.benchmarks._papers._accelerated import (
    Noise,
    best_step_count,
    dp_gd,
    dp_masg,
    dp_nag,
    dp_shb,
    multistage,
)
from skdp.benchmarks._papers._descent import (
    Logistic,
    Plan,
    clipped_rows,
    descend,
    unit_noise,
)
from skdp.benchmarks._papers._privacy import (
    exact_multiplier,
    gaussian_epsilon,
    laplace_epsilon,
)
from skdp.benchmarks._published import Line

_N, _D, _MU = 100_000, 20, 0.02
_L1, _L2 = 40.0, 2 * math.sqrt(20)  # sensitivities of one record's gradient on [0, 1]^d
_EPSILON, _DELTA = 1.0, 1e-6
_GUESS = 10.0  # of the excess at the start, for T*


@lru_cache(maxsize=1)
def _section_5() -> tuple[Logistic, float, np.ndarray]:
    """The problem, its least value, and the eigenvalues of the mean of u u'.

    The rows are the paper's (MATLAB's rng(1)); the true weights are not known, and
    those taken make the first step end where the published curves do.
    """
    rows = np.random.RandomState(1).rand(_D * _N)
    X = rows.reshape(_D, _N).T.copy()
    truth = np.random.RandomState(223).randn(_D)
    problem = Logistic(X * np.where(X @ truth >= 0, 1.0, -1.0)[:, None], _MU)
    least = float(problem.value(problem.optimum())[0])
    return problem, least, np.linalg.eigvalsh(X.T @ X / _N)


def section_5_noise() -> dict[str, Noise]:
    """The three calibrations at epsilon 1; delta is 1e-6 for the Gaussian one."""
    deviation = _L2 / _N * exact_multiplier(_EPSILON, _DELTA)
    laplace = Noise(kind="laplace", unit=_L1 / (_N * _EPSILON))
    return {
        "released code": Noise(
            kind="laplace", unit=laplace.unit, factor=math.sqrt(0.5)
        ),
        "as printed": laplace,
        "gaussian": Noise(kind="gaussian", unit=deviation),
    }


def section_5_smoothness(name: str) -> float:
    """L as printed, without the quarter of the logistic curvature, or the valid one."""
    largest = float(_section_5()[2][-1])
    return {"printed": largest, "valid": largest / 4}[name] + _MU


def section_5_plans(
    n_steps: int, noise: Noise, smoothness: float
) -> dict[str, Callable[[], Plan]]:
    """What makes each method's plan, at most `n_steps` long."""
    facts = {"noise": noise, "smoothness": smoothness}
    bound = facts | {"dimension": _D, "mu": _MU, "initial": _GUESS}

    def optimal(method: Callable[..., Plan], *schedule: np.ndarray) -> Plan:
        count = best_step_count(*schedule, **bound)
        return method(count, **facts, mu=_MU, divided=True)

    single = np.full(n_steps, 1 / smoothness), np.ones(n_steps, int)
    return {
        "DP-GD": partial(dp_gd, n_steps, **facts),
        "DP-NAG": partial(dp_nag, n_steps, **facts, mu=_MU),
        "DP-NAG, divided": partial(dp_nag, n_steps, **facts, mu=_MU, divided=True),
        "DP-HB": partial(dp_shb, n_steps, **facts, mu=_MU),
        "DP-MASG": partial(dp_masg, n_steps, **facts, mu=_MU),
        "DP-NAG-opt": partial(optimal, dp_nag, *single),
        "DP-MASG-opt": partial(optimal, dp_masg, *multistage(n_steps, smoothness, _MU)),
    }


def section_5(
    *,
    T: list[int],
    noise: list[str],
    methods: list[str],
    smoothness: str = "printed",
    start: float = 10.0,
) -> Iterator[Line]:
    """Figures 3 and 4, full gradients: F - F* after at most T steps."""
    curvature = section_5_smoothness(smoothness)
    for kind in noise:
        calibration = section_5_noise()[kind]
        delta = _DELTA if kind == "gaussian" else 0.0
        for n_steps in T:
            plans = section_5_plans(n_steps, calibration, curvature)
            for method in methods:
                plan = plans[method]()
                yield Line(
                    place={"noise": kind, "T": n_steps},
                    method=method,
                    claimed=_EPSILON,
                    true=_true_epsilon(plan, calibration, delta),
                    delta=delta,
                    measure=partial(_section_5_excess, plan, calibration.kind, start),
                    note=f"{plan.n_steps} steps",
                )


def _true_epsilon(plan: Plan, noise: Noise, delta: float) -> float:
    if noise.kind == "laplace":
        return laplace_epsilon(plan.scales, _L1 / _N)
    return gaussian_epsilon(plan.scales, _L2 / _N, delta)


def _section_5_excess(
    plan: Plan, kind: str, start: float, runs: Sequence[int]
) -> np.ndarray:
    problem, least, _ = _section_5()
    shape = plan.n_steps, problem.d
    noise = np.stack([unit_noise(kind, run, shape) for run in runs], axis=-1)
    weights = descend(problem, plan, np.full(problem.d, start), noise)
    return problem.excess(weights, least)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A law of data sets with what is public about it.

    Parameters
    ----------
    make : callable
        Rows and labels (-1 and 1) of a numbered data set.
    n, d : int
    data_norm : float
        Bound on the L2 norm of a row.
    mu : float
        Strong convexity.
    """

    make: Callable[[int], tuple[np.ndarray, np.ndarray]]
    n: int
    d: int
    data_norm: float
    mu: float

    @property
    def smoothness(self) -> float:
        """Of the regularised loss of any record."""
        return self.data_norm**2 / 4 + self.mu


def _uniform_rows(number: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(9000 + number)
    X = rng.random((_N, _D))
    return X, np.where(X @ rng.standard_normal(_D) >= 0, 1.0, -1.0)


def _skewed_rows(number: int) -> tuple[np.ndarray, np.ndarray]:
    n, d = 20_000, 50
    rng = np.random.default_rng(5000 + number)
    turned = np.linalg.qr(rng.standard_normal((d, d)))[0]
    X = rng.standard_normal((n, d)) / np.sqrt(np.arange(1, d + 1)) @ turned
    X = clipped_rows(X, 1.0, 2)
    truth = 8 * (turned.T @ rng.standard_normal(d))
    positive = rng.random(n) < 1 / (1 + np.exp(-X @ truth))
    return X, np.where(positive, 1.0, -1.0)


SETTINGS = {
    "uniform rows": Setting(
        make=_uniform_rows, n=_N, d=_D, data_norm=math.sqrt(_D), mu=_MU
    ),
    "clipped rows": Setting(make=_skewed_rows, n=20_000, d=50, data_norm=1.0, mu=1e-3),
}


def gaussian_nesterov(
    X: np.ndarray,
    y: np.ndarray,
    plan: Plan,
    mu: float,
    run: int,
) -> np.ndarray:
    """Weights by Nesterov's method with Gaussian noise, from 0.

    The one place to put the library's solver in: it gets `n_steps` from `plan`,
    and epsilon, delta, norm bound and mu from `Setting`.
    """
    noise = unit_noise("gaussian", run, (plan.n_steps, X.shape[1]))[..., None]
    problem = Logistic(X * y[:, None], mu)
    return descend(problem, plan, np.zeros(X.shape[1]), noise)[:, 0]


def independent_data(
    *, setting: str, T: list[int], epsilon: float, delta: float, longest: int
) -> Iterator[Line]:
    """F - F* of Nesterov's method on data sets of one law, one for each run.

    T = 0 stands for the T* that public facts alone give, at most `longest`.
    """
    law = SETTINGS[setting]
    unit = 2 * law.data_norm / law.n * exact_multiplier(epsilon, delta)
    noise = Noise(kind="gaussian", unit=unit)
    for n_steps in T:
        for divided in (False, True):
            count = n_steps or _public_step_count(law, noise, longest, divided)
            plan = dp_nag(count, noise, law.smoothness, law.mu, divided=divided)
            sensitivity = 2 * law.data_norm / law.n
            yield Line(
                place={"setting": setting, "T": count},
                method="NAG, divided" if divided else "NAG, equal noise",
                claimed=epsilon,
                true=gaussian_epsilon(plan.scales, sensitivity, delta),
                delta=delta,
                measure=partial(_independent_excess, law, plan),
                note="" if n_steps else "T* of public facts",
            )


def _public_step_count(law: Setting, noise: Noise, longest: int, divided: bool) -> int:
    """T* with the excess at the start bounded by log 2."""
    return best_step_count(
        np.full(longest, 1 / law.smoothness),
        np.ones(longest, int),
        noise=noise,
        dimension=law.d,
        mu=law.mu,
        smoothness=law.smoothness,
        initial=math.log(2),
        divided=divided,
    )


@lru_cache(maxsize=25)
def _least(law: Setting, number: int) -> float:
    X, y = law.make(number)
    problem = Logistic(X * y[:, None], law.mu)
    return float(problem.value(problem.optimum())[0])


def _independent_excess(
    law: Setting, plan: Plan, runs: Sequence[int]
) -> Iterator[float]:
    for run in runs:
        X, y = law.make(run)
        weights = gaussian_nesterov(X, y, plan, law.mu, run)
        problem = Logistic(X * y[:, None], law.mu)
        yield float(problem.excess(weights, _least(law, run))[0])
