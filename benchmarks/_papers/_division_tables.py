"""Noise division with exactly calibrated Gaussian noise, setting by setting.

The algorithm is `dp_nag`; constants are such that no data enter, but for the L of
"section 5".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from benchmarks._line import Line
from benchmarks._papers._accelerated import Noise, best_step_count, dp_nag
from benchmarks._papers._acceleration_tables import (
    MU,
    D,
    N,
    section_5_problem,
    section_5_smoothness,
)
from benchmarks._papers._descent import (
    Logistic,
    Plan,
    clipped_rows,
    descend,
    unit_noise,
)
from benchmarks._papers._privacy import exact_multiplier, gaussian_epsilon
from skdp._fit import Progress, release
from skdp.losses import LogisticLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import Budget
from skdp.privacy.release._door import Door
from skdp.solvers._exact import ExactFit
from skdp.solvers._registry import choose_solver
from skdp.tables._memory import MemorySource


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
    smoothness : float
        Of the regularised mean loss.
    """

    make: Callable[[int], tuple[np.ndarray, np.ndarray]]
    n: int
    d: int
    data_norm: float
    mu: float
    smoothness: float

    @property
    def sensitivity(self) -> float:
        """L2, of the mean gradient, to one exchanged record."""
        return 2 * self.data_norm / self.n

    def noise(self, epsilon: float, delta: float) -> Noise:
        """Gaussian noise, exactly calibrated."""
        unit = self.sensitivity * exact_multiplier(epsilon, delta)
        return Noise(kind="gaussian", unit=unit)

    def plan(
        self, epsilon: float, delta: float, n_steps: int, *, divided: bool
    ) -> Plan:
        """Nesterov's method at this budget."""
        noise = self.noise(epsilon, delta)
        return dp_nag(n_steps, noise, self.smoothness, self.mu, divided=divided)


def _uniform_rows(number: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(9000 + number)
    X = rng.random((N, D))
    return X, np.where(X @ rng.standard_normal(D) >= 0, 1.0, -1.0)


def _skewed_rows(number: int) -> tuple[np.ndarray, np.ndarray]:
    n, d = 20_000, 50
    rng = np.random.default_rng(5000 + number)
    turned = np.linalg.qr(rng.standard_normal((d, d)))[0]
    X = rng.standard_normal((n, d)) / np.sqrt(np.arange(1, d + 1)) @ turned
    X = clipped_rows(X, 1.0, 2)
    truth = 8 * (turned.T @ rng.standard_normal(d))
    positive = rng.random(n) < 1 / (1 + np.exp(-X @ truth))
    return X, np.where(positive, 1.0, -1.0)


def _section_5_rows(number: int) -> tuple[np.ndarray, np.ndarray]:
    signed = section_5_problem()[0].signed
    return signed, np.ones(len(signed))


def _setting(name: str) -> Setting:
    """Constants that no data enter, but for L in "section 5"."""
    if name == "clipped rows":
        return Setting(
            make=_skewed_rows,
            n=20_000,
            d=50,
            data_norm=1.0,
            mu=1e-3,
            smoothness=1 / 4 + 1e-3,
        )
    wide = {"n": N, "d": D, "data_norm": math.sqrt(D), "mu": MU}
    if name == "uniform rows":
        return Setting(make=_uniform_rows, smoothness=D / 4 + MU, **wide)
    smoothness = section_5_smoothness("valid")
    return Setting(make=_section_5_rows, smoothness=smoothness, **wide)


def gaussian_nesterov(
    X: np.ndarray,
    y: np.ndarray,
    setting: Setting,
    *,
    epsilon: float,
    delta: float,
    n_steps: int,
    divided: bool,
    run: int,
) -> np.ndarray:
    """Weights by Nesterov's method with Gaussian noise, from 0, as the paper has it."""
    plan = setting.plan(epsilon, delta, n_steps, divided=divided)
    noise = unit_noise("gaussian", run, (n_steps, setting.d))[..., None]
    problem = Logistic(X * y[:, None], setting.mu)
    return descend(problem, plan, np.zeros(setting.d), noise)[:, 0]


def library_nesterov(
    X: np.ndarray,
    y: np.ndarray,
    setting: Setting,
    *,
    epsilon: float,
    delta: float,
    n_steps: int,
    run: int,
) -> np.ndarray:
    """Weights by the solver of the library, its noise fresh whatever the run is."""
    objective = LinearObjective(
        loss=LogisticLoss(),
        n_samples=setting.n,
        n_features=setting.d,
        data_norm=setting.data_norm,
        adjacency="replace_one",
        alpha=setting.mu,
        fit_intercept=False,
    )
    budget = Budget(epsilon, delta)
    params = {"n_steps": n_steps, "step_size": 1 / setting.smoothness}
    params |= {"strong_convexity": setting.mu, "residual_clip": math.inf}
    chosen = choose_solver("nesterov", params, objective, budget)
    solution, _ = release(
        chosen.solver if chosen else ExactFit(inner=None),
        MemorySource(X, (y > 0).astype(float)),
        objective,
        Door(budget, adjacency="replace_one", ledger=None, random_state=None),
        label="division",
        progress=Progress(),
    )
    return solution.weights[:, 0]


def division(
    *,
    setting: str,
    T: list[int],
    epsilon: float,
    delta: float,
    longest: int,
) -> Iterator[Line]:
    """F - F* of Nesterov's method, on a data set of its own for each run.

    T = 0 stands for the T* that public facts alone give, at most `longest`. The data of
    "section 5" are the same in every run.
    """
    law = _setting(setting)
    for n_steps in T:
        for divided in (False, True):
            noise = law.noise(epsilon, delta)
            count = n_steps or _public_step_count(law, noise, longest, divided)
            plan = law.plan(epsilon, delta, count, divided=divided)
            by_paper = partial(
                gaussian_nesterov,
                setting=law,
                epsilon=epsilon,
                delta=delta,
                n_steps=count,
                divided=divided,
            )
            yield Line(
                place={"setting": setting, "T": count},
                method="NAG, divided" if divided else "NAG, equal noise",
                claimed=epsilon,
                true=gaussian_epsilon(plan.scales, law.sensitivity, delta),
                delta=delta,
                measure=partial(_excess, law, by_paper),
                note="" if n_steps else "T* of public facts",
            )
        solve_privately = partial(
            library_nesterov,
            setting=law,
            epsilon=epsilon,
            delta=delta,
            n_steps=count,
        )
        from_data = setting == "section 5"
        yield Line(
            place={"setting": setting, "T": count},
            method="skdp nesterov",
            claimed=epsilon,
            true=math.inf if from_data else epsilon,
            delta=delta,
            measure=partial(_excess, law, solve_privately),
            private=not from_data,
            note="L taken from the data" if from_data else "",
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


@lru_cache(maxsize=100)
def _least(law: Setting, number: int) -> float:
    X, y = law.make(number)
    problem = Logistic(X * y[:, None], law.mu)
    return float(problem.value(problem.optimum())[0])


def _excess(
    law: Setting, method: Callable[..., np.ndarray], runs: Sequence[int]
) -> Iterator[float]:
    for run in runs:
        X, y = law.make(run)
        problem = Logistic(X * y[:, None], law.mu)
        weights = method(X, y, run=run)
        yield float(problem.excess(weights, _least(law, run))[0])
