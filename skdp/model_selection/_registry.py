"""The methods of a private search, and which one ``method="auto"`` takes.

One key, five places: this table, the module ``skdp/model_selection/_<key>.py``, its
test ``tests/model_selection/test_<key>.py``, its section in
``docs/model_selection.md``, and its rows in the benchmark of searches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from skdp._configured import Given, checked_params
from skdp._registry import Registry
from skdp._validation import check_choice
from skdp.model_selection._composition import Composition
from skdp.model_selection._method import Method, SearchFacts
from skdp.model_selection._random_stopping import RandomStopping

METHODS: Registry[type[Method]] = Registry(
    "skdp.search_methods",
    {"composition": Composition, "random_stopping": RandomStopping},
)
# Up to here a fit of a candidate keeps a tenth of the final fit's mu.
_FEW_CANDIDATES = 36


@dataclass(frozen=True)
class ChosenMethod:
    """A planned method and why it is used."""

    method: Method
    reason: str


def choose_method(
    key: str, params: Mapping[str, Any] | None, facts: SearchFacts
) -> ChosenMethod:
    """The method that a user named, or the best one that public facts allow.

    Raises `ValueError` or `TypeError` if the key or a parameter is wrong, or the method
    refuses the search.
    """
    check_choice("method", key, ["auto", *METHODS])
    if key == "auto":
        if params:
            raise ValueError(
                "The 'method_params' parameter must be None with method='auto'. Got a "
                f"mapping. Name the method: one of {list(METHODS)}."
            )
        return _automatic(facts)
    given = _given(key, params)
    return ChosenMethod(METHODS[key].planned(given, facts), "named by the user")


def _given(key: str, params: Mapping[str, Any] | None) -> Given:
    """The checked parameters of ``method=key, method_params=params``."""
    if params is not None and not isinstance(params, Mapping):
        raise TypeError(
            "The 'method_params' parameter must be None or a mapping. "
            f"Got an instance of {type(params).__name__}."
        )
    allowed = [field.name for field in fields(METHODS[key])]
    unknown = sorted(str(name) for name in params or {} if name not in allowed)
    if unknown:
        raise ValueError(
            f"The 'method_params' of method={key!r} must be among {allowed}. Got "
            f"{unknown}. What a search costs follows from epsilon, delta and adjacency."
        )
    return checked_params(METHODS[key], params or {})


def _automatic(facts: SearchFacts) -> ChosenMethod:
    """The rules and the measurements behind them are in docs/model_selection.md."""
    if facts.is_pure and facts.n_candidates > 1:
        reason = "delta=0: half of epsilon for the model, however many candidates"
        return ChosenMethod(RandomStopping.planned({}, facts), reason)
    if facts.n_candidates <= _FEW_CANDIDATES:
        reason = "few candidates: most of the budget is left for a fit of all records"
        return ChosenMethod(Composition.planned({}, facts), reason)
    if facts.has_ledger:
        reason = "a ledger adds up Gaussian noise without loss"
        return ChosenMethod(Composition.planned({}, facts), reason)
    reason = "many candidates: its cost does not grow with their number"
    return ChosenMethod(RandomStopping.planned({}, facts), reason)
