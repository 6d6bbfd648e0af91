"""Factorisers by key, and the noise that private ones expect in a bias."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from skdp._base import Signal
from skdp._checks import check_choice
from skdp._configured import given_params
from skdp._fit import NamedKind
from skdp.decomposition._factorize import Factorizer, PrivateFactorizer
from skdp.decomposition._plain import FACTORIZERS
from skdp.decomposition._ratings import Pattern, Task
from skdp.decomposition._user_als import UserALS
from skdp.decomposition._value_als import ValueALS
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._relations import Unit

# A key has the same name everywhere: in `FACTORIZERS` of
# ``skdp/decomposition/_plain.py``, its test in ``tests/decomposition`` and its
# benchmark configuration. The docstring of its class is its page in the reference; that
# of a private form links to its proof.


# Keys of skdp, for type checkers; a test holds them to be those of the registry.
FactorizerName = Literal["auto", "als", "hamsi", "lbfgs", "sgd", "vb"]
# The private forms of a key, by what they protect.
PRIVATE_FORMS: dict[tuple[str, Unit], type[PrivateFactorizer]] = {
    ("als", "rating_value"): ValueALS,
    ("als", "user"): UserALS,
}
# The solver of solver="auto", with its reason: the race of
# docs/guide/ratings.md.
_AUTO = "vb", "the smallest held-out error for the time (docs/guide/ratings.md)"
_AUTO_WITH_ALPHA = "sgd", "the smallest held-out error for the time, for a given alpha"
_PRIVATE_AUTO = "als", "the most accurate of the private forms"


def named_factorizer(
    key: str,
    params: Mapping[str, Any] | None,
    unit: Unit,
    budget: Budget,
    *,
    has_alpha: bool,
) -> NamedKind[Factorizer | PrivateFactorizer]:
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
                "The 'solver_params' parameter, and parameters of one solver, must be "
                f"None with solver='auto'. Got {sorted(map(str, params))}. Name the "
                f"solver: one of {list(FACTORIZERS)}."
            )
    if not budget.is_finite:
        plain = FACTORIZERS[key]
        return NamedKind(plain, given_params(plain, key, params), reason)
    allowed = sorted(name for name, of in PRIVATE_FORMS if of == unit)
    if (key, unit) not in PRIVATE_FORMS:
        raise ValueError(
            f"solver={key!r} has no private form for privacy_unit={unit!r}. Use one of "
            f"{allowed} or 'auto', or epsilon=inf for a factorisation that is not "
            "private."
        )
    private = PRIVATE_FORMS[key, unit]
    return NamedKind(private, given_params(private, key, params), reason)


# ----------------------------------------------------------------- Noise against signal


# Deviation of biases, in units of the width of the rating bounds; the ratio below which
# noise is small, and the ratio above which it leaves a constant model; settled on
# synthetic tables.
_BIAS, _LITTLE_TO, _CONSTANT_FROM = 0.11, 0.02, 1.5


def signal_of(solver: PrivateFactorizer, task: Task, budget: Budget) -> Signal:
    """Noise and scale of a bias."""
    return Signal(
        coefficient_noise=solver.bias_noise(task, budget),
        coefficient_scale=_BIAS,
        n_records=task.n_samples,
        counted="ratings" if task.unit == "rating_value" else "users",
        little_to=_LITTLE_TO,
        constant_from=_CONSTANT_FROM,
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
