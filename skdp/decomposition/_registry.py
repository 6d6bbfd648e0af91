"""What users may name as ``solver=`` of `DPMatrixFactorization`.

One key, five places: the table in `skdp.decomposition.plain`, the module there, its
test in ``tests/decomposition``, its page ``docs/factorizers/<key>.md`` (a private form
has a proof besides), and its benchmark configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skdp._configured import Given, given_params
from skdp._validation import check_choice
from skdp.decomposition._factorizer import Factorizer, PrivateFactorizer
from skdp.decomposition._user_als import UserALS
from skdp.decomposition._value_als import ValueALS
from skdp.decomposition.plain import FACTORIZERS
from skdp.privacy._accounting import Budget
from skdp.privacy._adjacency import Unit

# The forms in which a key is private, by what they protect.
PRIVATE_FORMS: dict[tuple[str, Unit], type[PrivateFactorizer]] = {
    ("als", "rating_value"): ValueALS,
    ("als", "user"): UserALS,
}
# What solver="auto" is, with its reason: the race of docs/matrix_factorization.md.
_AUTO = "vb", "the smallest held-out error for the time (docs/matrix_factorization.md)"
_AUTO_WITH_ALPHA = "sgd", "the smallest held-out error for the time, for a given alpha"
_PRIVATE_AUTO = "als", "the most accurate of the private forms"


@dataclass(frozen=True)
class Named:
    """A solver as it was asked for: its kind, what was given, and why it is used."""

    kind: type[Factorizer] | type[PrivateFactorizer]
    given: Given
    reason: str


@dataclass(frozen=True)
class Chosen:
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
) -> Named:
    """What ``solver=key, solver_params=params`` names.

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
        return Named(plain, given_params(plain, key, params), reason)
    allowed = sorted(name for name, of in PRIVATE_FORMS if of == unit)
    if (key, unit) not in PRIVATE_FORMS:
        raise ValueError(
            f"solver={key!r} has no private form for privacy_unit={unit!r}. Use one of "
            f"{allowed} or 'auto', or epsilon=inf for a factorisation that is not "
            "private."
        )
    private = PRIVATE_FORMS[key, unit]
    return Named(private, given_params(private, key, params), reason)
