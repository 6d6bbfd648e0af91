"""What users may name as ``solver=`` of boosted models.

One key in all places: this table, the module ``skdp/ensemble/_<key>.py``, its test
``tests/ensemble/test_<key>.py`` with its audit ``tests/audit/test_<key>.py``, and its
page ``docs/solvers/<key>.md`` with its proof ``docs/proofs/<key>.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from skdp._configured import Given, given_params
from skdp._validation import check_choice
from skdp.ensemble._newton_boosting import NewtonBoosting

BOOSTERS: dict[str, type[NewtonBoosting]] = {"newton_boosting": NewtonBoosting}
# What solver="auto" is, with its reason.
_AUTO = "newton_boosting", "the only solver of boosted trees"


@dataclass(frozen=True)
class NamedBooster:
    """A solver as it was asked for: its kind, what was given, and why it is used."""

    kind: type[NewtonBoosting]
    given: Given
    reason: str


def named_booster(
    key: str, params: Mapping[str, Any] | None, own: Mapping[str, Any]
) -> NamedBooster:
    """What ``solver=key, solver_params=params`` names.

    Parameters
    ----------
    own : mapping
        Parameters that the model has itself; None for the solver's rule.

    Raises
    ------
    ValueError, TypeError
        If the key or a parameter is unknown or out of range, or is given twice.
    """
    check_choice("solver", key, ["auto", *BOOSTERS])
    if key == "auto" and params:
        raise ValueError(
            "The 'solver_params' parameter must be None with solver='auto'. Got a "
            f"mapping. Name the solver: one of {sorted(BOOSTERS)}."
        )
    key, reason = _AUTO if key == "auto" else (key, "named by the user")
    kind = BOOSTERS[key]
    given = given_params(kind, key, params)
    mine = given_params(kind, key, own)
    twice = sorted(set(given) & set(mine))
    if twice:
        raise ValueError(
            f"The 'solver_params' must not repeat parameters of the model. Got {twice} "
            "in both. Leave them out there."
        )
    return NamedBooster(kind, MappingProxyType({**given, **mine}), reason)
