"""Noise against signal of a private factorisation, from public facts."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np

from skdp._forecast import Forecast, Signal
from skdp.decomposition._factorizer import PrivateFactorizer
from skdp.decomposition._ratings import Pattern
from skdp.decomposition._registry import Chosen
from skdp.decomposition._task import Task
from skdp.privacy._accounting import Budget, calibrate
from skdp.privacy._adjacency import Unit

# Deviation of biases in units of the width of the rating bounds, and the ratios up to
# which noise is little and from which on it leaves a constant model
# (benchmarks/dominating_noise.py).
_BIAS, _LITTLE_TO, _CONSTANT_FROM = 0.11, 0.02, 1.5


def signal_of(solver: PrivateFactorizer, task: Task, budget: Budget) -> Signal:
    """Noise and scale of a bias."""
    return Signal(
        coefficient_noise=solver.bias_noise(task, budget),
        coefficient_scale=_BIAS,
        n_records=task.n_units,
        counted="ratings" if task.unit == "rating_value" else "users",
        little_to=_LITTLE_TO,
        constant_from=_CONSTANT_FROM,
    )


def forecast_of(chosen: Chosen, task: Task, budget: Budget, unit: Unit) -> Forecast:
    """What a fit would use, and its noise against its signal; nothing is spent."""
    solver = chosen.solver
    if not isinstance(solver, PrivateFactorizer):
        raise TypeError("A forecast is of a private solver. Use a finite epsilon.")
    plan = solver.plan(task)
    return Forecast(
        epsilon=budget.epsilon,
        delta=budget.delta,
        adjacency=unit,
        solver=solver.key,
        why_solver=chosen.reason,
        solver_params={"n_components": task.n_components} | asdict(solver),
        noise_multiplier=calibrate(lambda z: plan.event(z, unit), budget),
        **vars(signal_of(solver, task, budget)),
    )


def planned_task(task: Task, n_ratings: int) -> Task:
    """The task with a pattern of so many pairs, of which nothing but the number counts.

    Where the pattern is private the number tells how many ratings a user has.
    """
    if task.unit == "user":
        each = max(1, n_ratings // task.n_users)
        most = each if task.max_ratings is None else min(each, task.max_ratings)
        return replace(task, max_ratings=most)
    nothing = np.broadcast_to(np.int32(0), n_ratings)  # one number in memory
    pattern = Pattern(nothing, nothing, task.n_users, task.n_items)
    return replace(task, pattern=pattern)
