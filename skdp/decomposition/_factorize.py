"""Factorisation by plan, commit and ask; its solvers and its forecast."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from skdp._base import Forecast, Signal
from skdp._checks import check_choice
from skdp._configured import Given, given_params
from skdp._quiet import warn
from skdp.decomposition._plain import FACTORIZERS
from skdp.decomposition._ratings import (
    Draws,
    Factorizer,
    Factors,
    Pattern,
    PrivateFactorizer,
    Ratings,
    RatingSource,
    Task,
    Threads,
)
from skdp.decomposition._user_als import UserALS
from skdp.decomposition._value_als import ValueALS
from skdp.privacy.accounting._calibrate import Budget, calibrate
from skdp.privacy.accounting._events import Event
from skdp.privacy.accounting._relations import Unit
from skdp.privacy.release._door import Door
from skdp.solvers._base import Progress

# --------------------------------------------------------- factorize: plan, commit, ask


@dataclass(frozen=True)
class FactorizeOutcome:
    """A factorisation with the public facts of how it was released.

    `noise_multiplier` is sigma / sensitivity, 0.0 without noise; `n_passes` counts the
    passes over the ratings that were made.
    """

    factors: Factors
    event: Event
    noise_multiplier: float
    n_passes: int


def factorize(
    solver: Factorizer | PrivateFactorizer,
    ratings: Ratings,
    task: Task,
    door: Door,
    *,
    n_jobs: int | None,
    label: str,
    verbose: bool,
) -> FactorizeOutcome:
    """Factorise; the event is on the ledger before the first rating is read.

    Ratings are private, and a solver without privacy requires an infinite epsilon. In a
    rehearsal nothing is read and everything is zero. `label` is the name of this fit in
    the ledger.

    Raises
    ------
    BudgetExceeded
        From the ledger; nothing was read or spent.
    """
    plan = solver.plan(task) if isinstance(solver, PrivateFactorizer) else None
    answers = door.commit(plan, RatingSource(ratings, task.n_units), label=label)
    event, multiplier = answers.event, answers.noise_multiplier
    if answers.is_rehearsed:
        return FactorizeOutcome(Factors.zeros(task), event, multiplier, 0)
    # Not NumPy's generator: its state would reveal other trials of a search.
    rng = check_random_state(int(door.draws.integers(2**32, 1)[0]))
    # From here on a warning could depend on the data, so NumPy gives none.
    with np.errstate(all="ignore"):
        progress = Progress(label, verbose)
        if isinstance(solver, PrivateFactorizer):
            factors = solver.run(answers, task, rng, progress)
            return FactorizeOutcome(factors, event, multiplier, 0)
        with Threads(n_jobs) as threads:
            last = _last_iterate(solver, ratings, task, rng, threads, progress)
    return FactorizeOutcome(last[0], event, multiplier, last[1])


def _last_iterate(
    solver: Factorizer,
    ratings: Ratings,
    task: Task,
    rng: Draws,
    threads: Threads,
    progress: Progress,
) -> tuple[Factors, int]:
    """The factors after the last pass that was completed before an interrupt."""
    iterates = solver.iterates(ratings, task, rng, threads)
    # The start counts as an iterate: an interrupt always leaves a model.
    factors, n_passes = next(iterates), 0  # the first one is the start
    try:
        _report(solver, factors, ratings, n_passes, progress)
        for factors in iterates:
            n_passes += 1
            _report(solver, factors, ratings, n_passes, progress)
    except KeyboardInterrupt:
        warn(
            f"Interrupted after {n_passes} of {solver.n_steps} passes. The "
            "model so far is kept."
        )
    return factors, n_passes


def _report(
    solver: Factorizer,
    factors: Factors,
    ratings: Ratings,
    n_passes: int,
    progress: Progress,
) -> None:
    if progress.is_due(n_passes, solver.n_steps):
        note = f": training RMSE {training_rmse(factors, ratings):.4f}"
        progress.step(n_passes, solver.n_steps, note)


def training_rmse(factors: Factors, ratings: Ratings) -> float:
    """Root mean square error over the ratings. Private."""
    pattern = ratings.pattern
    error = factors.predictions(pattern.users, pattern.items) - ratings.values
    return math.sqrt(float(np.mean(np.square(error, dtype=np.float64))))


# ------------------------------------------------------------------ Registry of solvers
# A key has the same name everywhere: in `FACTORIZERS` of
# ``skdp/decomposition/_plain.py``, its test in ``tests/decomposition``, its page
# ``docs/factorizers/<key>.md`` (a private form also has a proof), and its benchmark
# configuration.


# The private forms of a key, by what they protect.
PRIVATE_FORMS: dict[tuple[str, Unit], type[PrivateFactorizer]] = {
    ("als", "rating_value"): ValueALS,
    ("als", "user"): UserALS,
}
# The solver of solver="auto", with its reason: the race of
# docs/matrix_factorization.md.
_AUTO = "vb", "the smallest held-out error for the time (docs/matrix_factorization.md)"
_AUTO_WITH_ALPHA = "sgd", "the smallest held-out error for the time, for a given alpha"
_PRIVATE_AUTO = "als", "the most accurate of the private forms"


@dataclass(frozen=True)
class NamedFactorizer:
    """A named solver: its kind, the given parameters, and why it is used."""

    kind: type[Factorizer] | type[PrivateFactorizer]
    given: Given
    reason: str


@dataclass(frozen=True)
class ChosenFactorizer:
    """A planned solver, and why it is used."""

    solver: Factorizer | PrivateFactorizer
    reason: str


def named_factorizer(
    key: str,
    params: Mapping[str, Any] | None,
    unit: Unit,
    budget: Budget,
    *,
    has_alpha: bool,
) -> NamedFactorizer:
    """The solver that ``solver=key, solver_params=params`` names.

    `has_alpha` says whether the user gave a penalty.

    Raises `ValueError` or `TypeError` if the key or a parameter is unknown or out of
    range, or the solver has no private form for a finite epsilon.
    """
    check_choice("solver", key, ["auto", *FACTORIZERS])
    reason = "named by the user"
    if key == "auto":
        key, reason = _AUTO_WITH_ALPHA if has_alpha else _AUTO
        if budget.is_finite:
            key, reason = _PRIVATE_AUTO
        if params:
            raise ValueError(
                "The 'solver_params' parameter, and those of a solver's own, must be "
                f"None with solver='auto'. Got {sorted(map(str, params))}. Name the "
                f"solver: one of {list(FACTORIZERS)}."
            )
    if not budget.is_finite:
        plain = FACTORIZERS[key]
        return NamedFactorizer(plain, given_params(plain, key, params), reason)
    allowed = sorted(name for name, of in PRIVATE_FORMS if of == unit)
    if (key, unit) not in PRIVATE_FORMS:
        raise ValueError(
            f"solver={key!r} has no private form for privacy_unit={unit!r}. Use one of "
            f"{allowed} or 'auto', or epsilon=inf for a factorisation that is not "
            "private."
        )
    private = PRIVATE_FORMS[key, unit]
    return NamedFactorizer(private, given_params(private, key, params), reason)


# ----------------------------------------------------------------- Noise against signal


# Deviation of biases, in units of the width of the rating bounds; the ratio below which
# noise is small, and the ratio above which it leaves a constant model
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


def forecast_of(
    chosen: ChosenFactorizer, task: Task, budget: Budget, unit: Unit
) -> Forecast:
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
    """The task with a pattern of this many pairs, whose number alone has a meaning.

    If the pattern is private, the number decides how many ratings a user has.
    """
    if task.unit == "user":
        each = max(1, n_ratings // task.n_users)
        most = each if task.max_ratings is None else min(each, task.max_ratings)
        return replace(task, max_ratings=most)
    nothing = np.broadcast_to(np.int32(0), n_ratings)  # one number in memory
    pattern = Pattern(nothing, nothing, task.n_users, task.n_items)
    return replace(task, pattern=pattern)
